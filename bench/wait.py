"""What a wait costs: CPU of `agentctl wait` for 10 s on a quiet session, and on one that writes 50 times a second.

`python -m bench.wait`. Prints the figures and the load; judges nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.scale import AGENTCTL
from tests.support.demo_home import Home

SECONDS = 10


def cpu(command: list[str], env: dict[str, str]) -> float:
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    usage = os.wait4(child.pid, 0)[2]
    return usage.ru_utime + usage.ru_stime


def write(path: Path, stop: threading.Event) -> None:
    while not stop.wait(0.02):
        path.write_text(str(time.monotonic()))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        try:
            id, _ = home.start(f"[[sleep:{10 * SECONDS}]]")
            wait = [AGENTCTL, "wait", id, "--timeout"]
            bare = cpu([sys.executable, "-I", "-c", "pass"], home.env)
            once = cpu([*wait, "0"], home.env)
            quiet = cpu([*wait, str(SECONDS)], home.env)
            stop = threading.Event()
            writer = threading.Thread(target=write, args=(home.folder(id) / "noise", stop))
            writer.start()
            busy = cpu([*wait, str(SECONDS)], home.env)
            stop.set()
            writer.join()
        finally:
            home.end_all()
    print(f"load {os.getloadavg()[0]:.1f}; python -I -c pass: {bare * 1000:.0f} ms")
    for name, value in (("one look", once), (f"{SECONDS} s, quiet", quiet), (f"{SECONDS} s, 50 writes a second", busy)):
        print(f"wait, {name:<26} {value * 1000:>6.0f} ms of CPU")


if __name__ == "__main__":
    main()
