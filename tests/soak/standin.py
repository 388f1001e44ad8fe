"""`<agent's name> -S -m tests.soak.standin WORDS`: a stand-in of tests/torture that takes its orders over a socket,
so that it can be launched by agentctl as well as by hand. It writes nothing before it is told to.

Around it, with SOAK_WRAPPED set: a node process that starts it and waits for it.
"""

from __future__ import annotations

import glob
import json
import os
import signal
import socket
import subprocess
import sys
import time

from tests.soak.clock import CLOCK
from tests.torture.standins import files, puppet
from tests.torture.standins.claude import Claude
from tests.torture.standins.codex import Codex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCRIPTS = {"codex": "/usr/bin/codex"}


class SoakClaude(Claude):
    def do_clock(self, shift: float) -> None:
        CLOCK.shift = shift

    def do_say_hello(self) -> None:
        printed({"type": "system", "subtype": "init", "session_id": self.id})

    def do_torn_status(self, pause: float) -> None:
        files.rewrite_in_halves(self.file, self.registration, pause)

    def do_torn_line(self, pause: float) -> None:
        data = files.compact({"type": "last-prompt", "lastPrompt": "go", "leafUuid": self.leaf, "sessionId": self.id})
        for part in (data[:20], data[20:] + b"\n"):
            fd = os.open(self.transcript, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            os.write(fd, part)
            os.close(fd)
            time.sleep(pause)


class SoakCodex(Codex):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.in_turn = False

    def do_clock(self, shift: float) -> None:
        CLOCK.shift = shift

    def do_say_hello(self) -> None:
        printed({"type": "thread.started", "thread_id": self.id})

    def do_take_up(self) -> None:
        """Go on with the rollout of a thread that was resumed."""
        thread = self.thread(None)
        for path in glob.glob(f"{self.home}/sessions/*/*/*/rollout-*-{self.id}.jsonl"):
            thread.rollout = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            if os.path.getsize(path) and os.pread(thread.rollout, 1, os.path.getsize(path) - 1) != b"\n":
                os.write(thread.rollout, b"\n")  # its last writer was killed in the middle of a line

    def do_prompt(self, text: str, **more: Any) -> None:  # type: ignore[override]
        super().do_prompt(text, **more)
        self.in_turn = True

    def do_complete(self, *words: Any, **more: Any) -> None:
        super().do_complete(*words, **more)
        self.in_turn = False

    def do_torn_line(self, pause: float) -> None:
        thread = self.thread(None)
        assert thread.rollout is not None
        payload = {"type": "token_count", "info": None}
        data = files.compact({"timestamp": files.utc(), "type": "event_msg", "payload": payload}) + b"\n"
        for part in (data[:20], data[20:]):
            os.write(thread.rollout, part)
            time.sleep(pause)

    def on_signal(self, number: int) -> int:
        if self.in_turn:
            return super().on_signal(number)
        self.end_tools()
        for id in list(self.threads):
            self.do_release(id)
        return 128 + number


def printed(value: dict[str, Any]) -> None:
    """On the output that a launch keeps; a full disk is no reason to end."""
    try:
        os.write(1, json.dumps(value).encode() + b"\n")
    except OSError:
        pass


def after(words: list[str], *options: str) -> str | None:
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word in options), None)


def build(agent: str, words: list[str]) -> puppet.Puppet:
    if agent == "opencode":
        from tests.soak import standin_opencode

        return standin_opencode.build(words, after(words, "--session"))
    home = os.environ["HOME"]
    headless = "-p" in words or "exec" in words
    if agent == "claude":
        id = after(words, "--session-id", "--resume") or files.random_id()
        style = os.environ.get("SOAK_STYLE", "new")
        return SoakClaude({"style": style, "headless": headless, "id": id, "root": f"{home}/.claude"})
    source, policy = ("exec", "never") if headless else ("cli", "on-request")
    id = after(words, "resume") or files.timed_id()
    return SoakCodex({"source": source, "policy": policy, "id": id, "root": f"{home}/.codex"})


def main() -> int:
    agent, words = os.path.basename(sys.orig_argv[0]), sys.argv[1:]
    if agent == "node":
        return wrap(words)
    puppet.disguise([sys.orig_argv[0], *words], None)
    one = build(agent, words)
    handled = (signal.SIGINT,) if agent == "codex" else getattr(one, "handled", puppet.HANDLED)
    for number in handled:
        signal.signal(number, puppet.raise_signalled)
    try:
        return serve(one, words)
    except puppet.Signalled as ended:
        return one.on_signal(ended.number)


def wrap(words: list[str]) -> int:
    agent, words = words[0], words[1:]
    puppet.disguise(["node", SCRIPTS[agent], *words], None)
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
    tell(stream, {**mine, "id": one.id, "words": words})
    for order in stream:
        given = json.loads(order)
        tell(stream, one.order(given.pop("do"), given))
    return 0


def tell(stream: Any, facts: dict[str, Any]) -> None:
    stream.write(json.dumps(facts).encode() + b"\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
