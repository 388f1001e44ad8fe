"""python -m tests.soak --minutes N [--seed S]

A random life in a PID namespace of its own. What is decided comes from the seed alone; how fast it goes does not.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests import agents
from tests.soak import switched
from tests.soak.cast import LIVES, named
from tests.soak.switched import SWITCHED
from tests.torture.__main__ import namespace

if TYPE_CHECKING:
    from tests.soak.actor import Actor
    from tests.soak.stage import Stage

REPOSITORY = Path(__file__).parents[2]
WORKERS, ASKERS = 3, 2
EVERY, EVERY_QUIETLY = 5.0, 30.0  # seconds between two lines of progress
LATEST = 600.0  # seconds behind its time, for what it ends with: then it hangs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", default="", help="default: the commit")
    parser.add_argument("--agents", default=",".join(LIVES), help="which of them are led, and how often: a,b,b")
    parser.add_argument("--with", dest="more", default="", metavar="A,B", help=f"also: {', '.join(SWITCHED)}")
    parser.add_argument("--inside", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    seed = options.seed or commit()
    led, more = named(options.agents), switched.named(options.more)
    if options.inside:
        return as_init(lambda: inside(Path(options.inside), options.minutes, seed, led, more))
    command, why = namespace()
    if command is None:
        print(f"the soak needs a PID namespace, and none can be had here: {why}")
        return 1
    if shutil.which("tmux") is None:
        print("the soak needs tmux for the launches with a screen, and it is not installed")
        return 1
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        again = ["--inside", folder, "--minutes", str(options.minutes), "--seed", seed, "--agents", options.agents]
        again += ["--with", options.more]
        return subprocess.run([*command, sys.executable, "-m", "tests.soak", *again], check=False).returncode


def commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True)
    return asked.stdout.strip() or "0"


def as_init(run: object) -> int:
    """As process 1 we reap what others leave behind; the soak itself is our child, and reaps its own when it likes."""
    if os.getpid() != 1:
        raise SystemExit("--inside is for the soak itself")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run()  # type: ignore[operator]
        except BaseException:  # noqa: BLE001  nothing may return into the parent's code
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status) & 0xFF


def inside(folder: Path, minutes: float, seed: str, led: tuple[str, ...], more: tuple[type[Actor], ...]) -> int:
    from tests.soak import closing, report
    from tests.soak.asking import Asker, Staying
    from tests.soak.recording import Recording
    from tests.soak.stage import Stage
    from tests.soak.world import World
    from tests.torture.kernel import mount

    evidence = REPOSITORY / "build" / "soak" / seed
    for old in evidence.glob("*") if evidence.exists() else ():
        old.unlink()
    mount("tmpfs", folder, "mode=755,size=75%")
    stage = Stage(World(folder, LIVES), evidence, led)
    print(f"soak: {minutes:g} minutes, seed {seed}", flush=True)
    if left_out := agents.not_covered_line("soak"):
        print(f"soak: {left_out}", flush=True)
    faulthandler.dump_traceback_later(minutes * 60 + LATEST, exit=True)  # who waits for whom, if it does not end
    began = time.monotonic()
    askers: list[Asker] = [Asker(stage, f"{seed}/asker/{number}") for number in range(ASKERS)]
    askers.append(Staying(stage, f"{seed}/staying"))
    recording = Recording(stage, f"{seed}/recording")
    everybody: list[Asker | Recording] = [*askers, recording]
    for asker in everybody:
        asker.start()
    broken = act(stage, seed, more, began + minutes * 60, began)
    for asker in everybody:
        asker.over.set()
    for asker in everybody:
        asker.join()
        broken += [asker.broken] if asker.broken else []
    report.progress(stage, time.monotonic() - began, "everything is stopped")
    try:
        closing.close(stage, recording)
    except Exception:  # noqa: BLE001  a soak that cannot end is a failure, and is told as one
        broken.append(traceback.format_exc())
    return report.table(stage, seed, time.monotonic() - began, broken)


def act(stage: Stage, seed: str, more: tuple[type[Actor], ...], until: float, began: float) -> list[str]:
    """Decisions are made in one order and taken up by a few workers. What went wrong with the soak itself."""
    from tests.soak import report
    from tests.soak.actors import decide

    broken: list[str] = []
    decisions: queue.Queue[tuple[Actor, object] | None] = queue.Queue(1)

    def work() -> None:
        while (decision := decisions.get()) is not None:
            actor, rng = decision
            try:
                did = actor.act(stage, rng)  # type: ignore[arg-type]
            except Exception:  # noqa: BLE001  a fault of the soak must not pass as quiet
                broken.append(f"{type(actor).__name__}: {traceback.format_exc()}")
                return
            stage.actions[did or f"nothing to do: {type(actor).__name__}"] += 1

    workers = [threading.Thread(target=work, daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    every = EVERY if sys.stdout.isatty() else EVERY_QUIETLY
    told, number = began, 0
    while time.monotonic() < until and not broken:
        try:
            decisions.put(decide(seed, number, more), timeout=1.0)
            number += 1
        except queue.Full:
            pass
        if time.monotonic() - told >= every:
            told = time.monotonic()
            report.progress(stage, told - began, f"{number} decisions")
    for _ in workers:
        decisions.put(None)
    for worker in workers:
        worker.join()
    return broken
