"""`<agent's name> -S -m tests.soak.standin WORDS`: a stand-in of tests/torture that takes its orders over a socket,
so that it can be launched by agentctl as well as by hand. It writes nothing before it is told to. SOAK_STANDIN names
the module of its agent's description that makes it.

Around it, with SOAK_WRAPPED set: a node process that starts it and waits for it.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys

from tests.torture.standins import files, puppet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> int:
    agent, words = os.path.basename(sys.orig_argv[0]), sys.argv[1:]
    if agent == "node":
        return wrap(words)
    maker = importlib.import_module(os.environ["SOAK_STANDIN"])
    puppet.disguise([sys.orig_argv[0], *words], None)
    one = maker.build(words)
    for number in getattr(one, "handled", puppet.HANDLED):
        signal.signal(number, puppet.raise_signalled)
    try:
        return serve(one, words)
    except puppet.Signalled as ended:
        code: int = one.on_signal(ended.number)
        return code


def wrap(words: list[str]) -> int:
    agent, words = words[0], words[1:]
    puppet.disguise(["node", os.environ["SOAK_SCRIPT"], *words], None)
    env = {name: value for name, value in os.environ.items() if name != "SOAK_WRAPPED"}
    program = os.environ["SOAK_PROGRAMS"]
    argv = [agent, "-S", "-m", "tests.soak.standin", *words]
    child = subprocess.Popen(argv, executable=f"{program}/{agent}", env=env)
    signal.signal(signal.SIGTERM, lambda *_: child.send_signal(signal.SIGTERM))
    signal.signal(signal.SIGINT, lambda *_: child.send_signal(signal.SIGINT))
    return child.wait() & 0x7F


def serve(one: Any, words: list[str]) -> int:
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.environ["SOAK_SOCKET"])
    stream = line.makefile("rwb")
    mine = {"mark": os.environ["SOAK_MARK"], "pid": os.getpid(), "start": files.start_ticks(), "parent": os.getppid()}
    tell(stream, {**mine, "id": one.id, "words": words, "name": os.path.basename(sys.orig_argv[0])})
    for order in stream:
        given = json.loads(order)
        tell(stream, one.order(given.pop("do"), given))
    return 0


def tell(stream: Any, facts: dict[str, Any]) -> None:
    stream.write(json.dumps(facts).encode() + b"\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
