"""make lab: real agents, offline, in every state, and what agentctl says of them.

python -m tests.lab [--full] [--controls] [--verbs] [--events] [--ladder] [--agent A] [--version V] [--cell NAME]
    [--list]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import agents
from tests.lab import controls, events, install, report, start, verbs
from tests.lab.errors import LabError
from tests.lab.isolation import REPOSITORY, wrap
from tests.lab.matrix import Cell, cells
from tests.lab.recipes import RECIPES

if TYPE_CHECKING:
    from collections.abc import Iterable

AT_ONCE = 2
CELL_LIMIT = 480.0
END_LIMIT = 60.0
MARK = "AGENTCTL_LAB_RUN"
# What plays a cell, and for how long: those that are not of a mode of the agents are kinds of checks of their own.
PLAYERS = {
    controls.MODE: ("tests.lab.controls", controls.LIMIT),
    events.MODE: ("tests.lab.events", events.LIMIT),
    verbs.MODE: ("tests.lab.verbs", verbs.LIMIT),
    start.MODE: ("tests.lab.start", start.LIMIT),
}


@dataclass(frozen=True)
class Result:
    cell: Cell
    passed: bool
    seconds: float
    text: str
    facts: dict[str, Any]


def main(words: list[str] | None = None) -> int:
    args = arguments(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleaned up after in the same way
    try:
        wanted = choose(args)
        if args.list:
            for cell in wanted:
                print(f"{cell}{'' if cell.not_applicable is None else f': n/a, {cell.not_applicable}'}")
            return 0
        return run_all(wanted, args)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="Real agents, offline, in every state.")
    parser.add_argument("--full", action="store_true", help="all cells, not only the core ones")
    parser.add_argument("--agent", help="only this agent")
    parser.add_argument("--version", help="this version of it instead of the pinned ones; `latest` is understood")
    parser.add_argument("--cell", help="only cells with this in their name: AGENT/headless/sigkill, or a part of it")
    parser.add_argument("--controls", action="store_true", help="not the states: how they are started and stopped")
    parser.add_argument("--verbs", action="store_true", help="not the states: launch, stop, resume and wait themselves")
    parser.add_argument("--events", action="store_true", help="not the states: what `events -f` tells of them")
    parser.add_argument("--ladder", action="store_true", help="the core cells on the versions of the last months")
    parser.add_argument("--list", action="store_true", help="show the cells and stop")
    return parser.parse_args(words)


def choose(args: argparse.Namespace) -> list[Cell]:
    known = install.packages()
    left_out = agents.not_covered("lab")
    if args.agent in left_out:
        raise LabError(f"{args.agent} is not covered: {left_out[args.agent]}")
    if args.agent is not None and args.agent not in known:
        raise LabError(f"no agent {args.agent!r}; known: {', '.join(known)}")
    if args.version and not args.agent:
        raise LabError("a version needs its agent: make lab AGENT=name VERSION=latest")
    found = []
    for agent, package in known.items():
        if args.agent not in (None, agent):
            continue
        versions = [install.newest(package) if args.version == "latest" else args.version] if args.version else []
        if args.ladder:
            versions = steps(agent, versions)
        for version in versions or package.versions:
            found += chosen(args, agent, version)
        if not (args.controls or args.verbs or args.events or args.cell or args.ladder):
            found += verbs.core(agent, (versions or list(package.versions))[-1])
    if args.cell:
        found = [cell for cell in found if args.cell in cell.name]
    if not found:
        raise LabError(f"no such cell: {args.cell}; --list --full shows them")
    return found


def steps(agent: str, versions: list[str]) -> list[str]:
    """Return the versions of the ladder, or these of them."""
    known = RECIPES[agent].LADDER
    if strange := [version for version in versions if version not in known]:
        raise LabError(f"{agent} {strange[0]} is not in its ladder: {', '.join(known)}")
    return versions or list(known)


def chosen(args: argparse.Namespace, agent: str, version: str) -> list[Cell]:
    if args.controls:
        return controls.cells(agent, version)
    if args.verbs:
        return verbs.cells(agent, version)
    if args.events:
        return events.cells(agent, version)
    return [cell for cell in cells(agent, version) if args.full or (args.cell and not args.ladder) or cell.core]


def run_all(wanted: list[Cell], args: argparse.Namespace) -> int:
    began = time.monotonic()
    known = install.packages()
    needed = dict.fromkeys((cell.agent, cell.version) for cell in wanted)
    programs = {(agent, version): install.install(known[agent], version, say) for agent, version in needed}
    room = wrap([REPOSITORY, install.cache_folder(), Path(sys.prefix), Path(sys.base_prefix)])
    mark = uuid.uuid4().hex
    running = Rooms(room, mark)
    try:
        starts = play_all(
            running, [Cell(agent, version, start.MODE, start.STATE) for agent, version in needed], programs
        )
        dead = [result for result in starts if not result.passed]
        wanted = applicable(wanted, starts)
        played = [cell for cell in wanted if cell.played]
        results = [*dead, *play_all(running, played, programs)]
    finally:
        running.close()
        left = marked(mark)
    failed = [result for result in results if not result.passed]
    if left:
        print(f"lab: processes left behind: {left}", file=sys.stderr)
    states = [cell for cell in wanted if cell.mode not in PLAYERS]
    if not args.cell:
        passed = {result.cell: result.passed for result in results}
        if args.ladder:
            report.write_ladder(states, passed, [result.cell for result in dead])
        elif states:
            report.write(states, passed)
    if args.agent is None and (left_out := agents.not_covered_line("lab")):
        print(f"lab: {left_out}")
    skipped = f", {len(wanted) - len(played)} not applicable" if len(wanted) > len(played) else ""
    watched = sum(result.facts.get("samples", 0) for result in results)
    verbs_took = sum(result.seconds for result in results if result.cell.mode == verbs.MODE)
    spent = f"{time.monotonic() - began:.0f} s{skipped}, {watched} answers watched"
    if verbs_took:
        spent += f", the verbs took {verbs_took:.0f} s in {AT_ONCE} rooms at a time"
    print(f"lab: {len(results) - len(failed)} passed, {len(failed)} failed ({spent})")
    return 1 if failed or left or len(results) < len(played) else 0


def play_all(running: Rooms, wanted: list[Cell], programs: dict[tuple[str, str], Path]) -> list[Result]:
    """Play cells, some at a time, and tell of each; of what was only looked at, only if it failed."""
    results = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [pool.submit(running.play, cell, programs[cell.agent, cell.version]) for cell in wanted]
        try:
            for done in as_completed(waiting):
                results.append(done.result())
                if results[-1].cell.mode != start.MODE or not results[-1].passed:
                    tell(results[-1])
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            if sys.exc_info()[0] is not None:
                running.close()  # else the pool waits for them
    return results


def applicable(wanted: list[Cell], starts: list[Result]) -> list[Cell]:
    """Return the cells of the versions that start; those that a version cannot have, by its own --help, with why."""
    helps = {(one.cell.agent, one.cell.version): str(one.facts["help"]) for one in starts if one.passed and one.facts}
    found = []
    for cell in wanted:
        if (help := helps.get((cell.agent, cell.version))) is not None:
            why = start.lacking(RECIPES[cell.agent].NEEDS, help, cell.mode, cell.state)
            found.append(replace(cell, lacking=why) if why and cell.not_applicable is None else cell)
    return found


class Rooms:
    """Runs cells, each in a room of its own, and ends the rooms that are still open."""

    def __init__(self, room: list[str], mark: str) -> None:
        self._room, self._mark = room, mark
        self._open: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def play(self, cell: Cell, program: Path) -> Result:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="agentctl-lab-") as folder:
            result = Path(folder) / "result.json"
            end = self._room.index("--")
            # The folder of the result is bound into the room's own /tmp.
            command = [
                *self._room[:end],
                "--keep",
                folder,
                *keep_folder(),
                "--",
                sys.executable,
                "-m",
                PLAYERS[cell.mode][0] if cell.mode in PLAYERS else "tests.lab.cell",
            ]
            command += [cell.agent, cell.version, cell.mode, cell.state, str(program), str(result)]
            said = self._run(command, cell)
            seconds = time.monotonic() - began
            try:
                facts = json.loads(result.read_text())
            except (OSError, ValueError):
                return Result(cell, False, seconds, said or "the cell ended without a result", {})
            return Result(cell, bool(facts["passed"]), seconds, str(facts["text"]), facts)

    def _run(self, command: list[str], cell: Cell) -> str:
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", MARK: self._mark, "PYTHONDONTWRITEBYTECODE": "1"}
        limit = PLAYERS[cell.mode][1] if cell.mode in PLAYERS else CELL_LIMIT
        keep = os.environ.get("AGENTCTL_LAB_KEEP")
        if keep:
            env["AGENTCTL_LAB_KEEP"] = str(Path(keep) / str(cell).replace(" ", "_"))
            Path(env["AGENTCTL_LAB_KEEP"]).mkdir(parents=True, exist_ok=True)
        with self._lock:
            if self._closed:
                return "not started: the lab is ending"
            running = subprocess.Popen(
                command,
                env=env,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._open.add(running)
        try:
            said, _ = running.communicate(timeout=limit)
            return said.decode(errors="replace").strip()
        except subprocess.TimeoutExpired:
            running.kill()  # the first process of the room goes with it, and with that all others
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.communicate(timeout=END_LIMIT)
            return f"hung: not over within {limit:g} s, and was ended"
        finally:
            with self._lock:
                self._open.discard(running)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for running in self._open:
                running.kill()


def keep_folder() -> list[str]:
    keep = os.environ.get("AGENTCTL_LAB_KEEP")
    return ["--keep", str(Path(keep).absolute())] if keep else []


def say(text: str) -> None:
    print(text, flush=True)


def tell(result: Result) -> None:
    facts = result.facts
    watched = f"{facts['samples']} answers" if "samples" in facts else ""
    if facts.get("unsure"):
        watched += f", {facts['unsure']} unknown while alive"
    if facts.get("inferred"):
        watched += f", {facts['inferred']} inferred ends while alive"
    if facts.get("unread"):
        watched += f", {facts['unread']} unread"
    if facts.get("behind"):
        watched += f", {facts['behind']} behind"
    if facts.get("dying"):
        watched += f", {facts['dying']} ends while dying"
    if facts.get("waited"):
        watched += f", a word after {facts['waited']:.1f} s"
    watched += ", ".join(facts.get("told", ()))
    if facts.get("problems"):
        watched += f", problems: {facts['problems']}"
    say(f"{'ok  ' if result.passed else 'FAIL'} {result.cell!s:<54} {result.seconds:5.1f} s  {watched}")
    if not result.passed:
        say("\n".join(f"     {line}" for line in result.text.splitlines()))


def marked(mark: str) -> list[str]:
    """Processes that carry this run's mark: there must be none when it is over."""
    deadline = time.monotonic() + 5
    while (found := list(carriers(mark))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def carriers(mark: str) -> Iterable[str]:
    wanted = f"{MARK}={mark}".encode()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if wanted in Path(f"/proc/{name}/environ").read_bytes():
                    yield f"{name} {Path(f'/proc/{name}/comm').read_text().strip()}"
            except OSError:
                continue  # not ours to read, or gone


if __name__ == "__main__":
    sys.exit(main())
