"""What it costs to follow sessions, and how late events are: `python -m bench.live` (a part of `make bench`).

A follower (`--follow`, a process of its own) runs the engine as `events -f` does, and counts its looks. Measured are:
the time from the end of a process to its event; the time from a question in the store to its event; and what the
follower costs, while nothing happens, and while all sessions are written all the time. `--small` tries all of it in a
minute. It prints the figures, each beside the cost of one look, and judges nothing. Without `--small` it writes its
part of docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from bench import report
from bench.home import Home
from tests.support.demo_home import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DEMO = [sys.executable, "-P", "-m", "agentctl.demo_agent"]
WRITES = 10  # a second, to each session
REST = 2.0  # seconds between two things that happen: each finds the follower at rest


# The follower


def follow() -> None:
    """Print a line for each event, and a line of counts whenever a line comes in on stdin."""
    from agentctl.kernel.mounts import Mounts
    from agentctl.live.births import Births
    from agentctl.live.engine import Engine, follow
    from agentctl.query.reading import Scope

    # A person's stores are not on a file system that a namespace around us writes to, too, and the stored sessions are
    # too many for one in memory. Such stores are looked at every two seconds.
    Mounts.shared_with_others = lambda self, root: None  # type: ignore[method-assign]
    looks: list[float] = []
    checks = [0]
    look, check = Engine.look, Births.check

    def timed(self: Engine) -> Any:
        begun = time.monotonic()
        found = look(self)
        looks.append(time.monotonic() - begun)
        return found

    def counted(self: Births) -> bool:
        checks[0] += 1
        return check(self)

    Engine.look, Births.check = timed, counted  # type: ignore[method-assign]

    def tell_counts() -> None:
        for _ in sys.stdin:
            seconds = sorted(looks)
            say({"looks": len(looks), "checks": checks[0], "cpu": time.process_time(), "look": seconds})

    threading.Thread(target=tell_counts, daemon=True).start()
    for step in follow(Engine(Scope(related_launches_only=True), reader=sys.stdout.fileno())):
        now = time.time()
        if step.first:
            say({"first": True})
        for event in step.events:
            say({"id": event.id, "type": event.type, "to": event.after, "at": now, "why": event.reason})


def say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class Follower:
    def __init__(self, env: dict[str, str]) -> None:
        self.told: list[dict[str, Any]] = []
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.live", "--follow"],
            env={**env, "PYTHONPATH": os.getcwd()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        wait_until(lambda: self.told, "the checkpoint")

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self.told.append(json.loads(line))

    def counts(self) -> dict[str, Any]:
        assert self._child.stdin is not None
        before = len([one for one in self.told if "looks" in one])
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        found: list[dict[str, Any]] = wait_until(
            lambda: [one for one in [*self.told] if "looks" in one][before:], "the counts"
        )
        return found[-1]

    def event(self, id: str, to: Iterable[str]) -> dict[str, Any]:
        """Wait for the event by which a session comes to one of these statuses."""
        wanted = tuple(to)

        def found() -> dict[str, Any] | None:
            told = (one for one in [*self.told] if one.get("id") == id and one.get("to") in wanted)
            return next(told, None)

        try:
            event: dict[str, Any] = wait_until(found, f"{id} {wanted}")
        except AssertionError as error:
            raise SystemExit(f"{error}; told: {[one for one in self.told if one.get('id') == id]}") from error
        return event

    def end(self) -> None:
        self._child.kill()
        self._child.wait()


# What happens to the sessions


class Demos:
    """Demo agents among the live sessions of a home: they do what the bench asks of them."""

    def __init__(self, home: Home) -> None:
        self.env = {**home.env, "PYTHONPATH": os.path.abspath("src")}
        # In /tmp, which is this namespace's own: elsewhere nobody could prove the end of a process (decision 021).
        self.folder = tempfile.mkdtemp(prefix="agentctl-bench-")
        os.symlink(self.folder, os.path.join(self.env["XDG_DATA_HOME"], "agentctl-demo"))
        self.root = os.path.join(self.folder, "sessions")
        self.work = home.world.folder_at("work/bench")
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, prompt: str) -> tuple[str, subprocess.Popen[bytes]]:
        id = str(uuid.uuid4())
        child = subprocess.Popen(
            [*DEMO, "--session-id", id, "-p", prompt],
            env=self.env,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self._started.append(child)
        return id, child

    def file(self, id: str, name: str) -> str:
        return os.path.join(self.root, id, name)

    def end(self) -> None:
        for child in self._started:
            child.kill()
        for child in self._started:
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def ends(follower: Follower, demos: Demos, rounds: int) -> list[float]:
    """From the end of a process to its event."""
    found = []
    for _ in range(rounds):
        id, child = demos.start("[[sleep:3600]]")
        follower.event(id, ("running",))
        time.sleep(REST)
        killed = time.time()
        child.kill()
        child.wait()
        found.append(follower.event(id, ("stopped", "done"))["at"] - killed)
    return found


def asks(follower: Follower, demos: Demos, rounds: int) -> list[float]:
    """From a question in the store to its event: the agent renames its file into place when it is whole."""
    found = []
    for number in range(rounds):
        go = os.path.join(str(demos.work), f"go-{number}")
        id, child = demos.start(f"[[bash:while [ ! -e {go} ]; do sleep 0.02; done]] [[ask:true]]")
        follower.event(id, ("running",))
        time.sleep(REST)
        with open(go, "w"):
            pass
        event = follower.event(id, ("waiting",))
        found.append(event["at"] - os.stat(demos.file(id, "process.json")).st_mtime)
        child.kill()
        child.wait()
    return found


def cost(
    follower: Follower, seconds: float, happens: Callable[[threading.Event], None] | None = None
) -> dict[str, float]:
    """What the follower does in so many seconds."""
    stop = threading.Event()
    thread = threading.Thread(target=happens, args=(stop,)) if happens is not None else None
    if thread is not None:
        thread.start()
    time.sleep(REST)
    before, begun = follower.counts(), time.monotonic()
    time.sleep(seconds)
    after, took = follower.counts(), time.monotonic() - begun
    stop.set()
    if thread is not None:
        thread.join()
    return {name: (after[name] - before[name]) / took for name in ("looks", "checks", "cpu")}


def writing(paths: list[str]) -> Callable[[threading.Event], None]:
    def write(stop: threading.Event) -> None:
        while not stop.wait(1 / WRITES):
            for path in paths:
                with open(path, "w") as file:
                    file.write(str(time.monotonic()))

    return write


def settle(follower: Follower, seconds: float) -> None:
    """Wait until the sessions that were there at the beginning, and those that have just ended, are at rest."""
    time.sleep(seconds)
    follower.counts()


# The figures


def milliseconds(found: list[float]) -> str:
    ordered = sorted(found)
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{statistics.median(found) * 1000:.0f} / {last * 1000:.0f}"


def measured(stored: int, live: int, processes: int, rounds: int, seconds: float) -> list[str]:
    with Home(stored=stored, live=live, processes=processes) as home:
        demos = Demos(home)
        follower = Follower(demos.env)
        try:
            settle(follower, 3 * REST)
            quiet = cost(follower, seconds)
            ended, asked = ends(follower, demos, rounds), asks(follower, demos, rounds)
            ids = [demos.start("[[sleep:3600]]")[0] for _ in range(live)]
            for id in ids:
                follower.event(id, ("running",))
            busy = cost(follower, seconds, writing([demos.file(id, "noise") for id in ids]))
            look = statistics.median(follower.counts()["look"])
        finally:
            follower.end()
            demos.end()
    ratio = [statistics.median(found) / look for found in (ended, asked)]
    return [
        f"{stored} stored, {live} live, {processes} other processes; load {os.getloadavg()[0]:.1f}; {rounds} rounds",
        f"  one look, ms (median)                              {look * 1000:>9.0f}",
        f"  end of a process to its event, ms (median / p99)   {milliseconds(ended):>9}   {ratio[0]:.1f} looks",
        f"  question to its event, ms (median / p99)           {milliseconds(asked):>9}   {ratio[1]:.1f} looks",
        f"  nothing happens: looks in 15 s                     {quiet['looks'] * 15:>9.1f}",
        f"  nothing happens: checks of the pids a second       {quiet['checks']:>9.1f}",
        f"  nothing happens: CPU, % of a core                  {quiet['cpu'] * 100:>9.1f}",
        f"  {live} more, all written {WRITES} times a second: looks a second {busy['looks']:>6.1f}",
        f"  {live} more, all written {WRITES} times a second: CPU, % of a core {busy['cpu'] * 100:>4.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.live")
    parser.add_argument("--follow", action="store_true", help="be the follower")
    parser.add_argument("--small", action="store_true", help="a small home, few rounds; writes nothing")
    args = parser.parse_args()
    if args.follow:
        follow()
        return
    lines = measured(100, 6, 30, 3, 15.0) if args.small else measured(10_000, 50, 300, 50, 60.0)
    print("\n".join(lines))
    if not args.small:
        report.add_live(lines)


if __name__ == "__main__":
    main()
