"""One case's world: a home of its own, the processes in it, and the real command asked about it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import agentctl
from tests import agents
from tests.torture import handles
from tests.torture.agents import Agent, Poller
from tests.torture.answers import Contains as Contains  # the cases have it from here
from tests.torture.answers import Listing, differences, evidence_of, holds, listing_of, words_of
from tests.torture.handles import Handle, Puppet, read_answer
from tests.torture.report import FROM_OUTSIDE, Row
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from tests.torture.agents import Live
    from tests.torture.registry import Case
    from tests.torture.report import Report

SOURCES = str(Path(agentctl.__file__).parents[1])
COMMAND_LIMIT = 20.0
Started = TypeVar("Started", bound=Agent)
BOOKS = ".db-shm"  # of SQLite: also of those who only read
UNATTACHED = "no session (kernel)"

PRESSURE = "/proc/pressure/cpu"  # some avg10=0.00 avg60=0.00 avg300=0.00 total=microseconds


class World:
    def __init__(self, case: Case, report: Report, folder: Path, programs: handles.Programs) -> None:
        self.case = case.name
        self.name = case.world
        self.report = report
        self.folder = folder
        self.programs = programs
        self.home = folder / "home"
        self.work = self.home / "work"
        self.work.mkdir(parents=True)
        self.data = folder / "data"
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": SOURCES,
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.home),
            "AGENTCTL_HOME": str(folder / "agentctl"),
            "XDG_DATA_HOME": str(self.data),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TMUX_TMPDIR": str(folder),  # no server of a person is asked
        }
        self.command = [sys.executable, "-m", "agentctl"]
        self.limit = COMMAND_LIMIT
        self.seconds = 0.0  # that the last command took
        self.own_seconds = 0.0  # of these, the ones in which nobody waited for a processor
        self.around: Callable[[list[str]], list[str]] = list  # what the command is run under
        self.expects_problems = False
        self.expects_unattached: set[int] = set()
        self.sample: int | None = None  # how many sessions are asked one by one at the end; None = all
        self.hangs = False  # whoever walks through its folders does not come back
        self.listing = Listing({}, {}, [], [])
        self._processes: list[Handle] = []
        self._mounts = ExitStack()
        self._count = 0

    # Building

    def folder_at(self, name: str) -> Path:
        path = self.home / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def until_the_end(self, mount: AbstractContextManager[None]) -> None:
        """Something that holds until the last process of this world has ended."""
        self._mounts.enter_context(mount)

    def clear_stores(self) -> None:
        for one in agents.every():
            shutil.rmtree(one.root(self.home, self.data), ignore_errors=True)

    def root(self, kind: type[Live]) -> Path:
        """Return the store of an agent."""
        return agents.load(kind.AGENT).root(self.home, self.data)

    def keep(self, handle: Handle) -> None:
        self._processes.append(handle)

    def forget(self, handle: Handle) -> None:
        """It was ended, reaped and closed by the case itself."""
        self._processes.remove(handle)

    def start(
        self, kind: type[Started], config: dict[str, Any], argv: list[str], *, program: str | None = None,
        comm: str | None = None, cwd: Path | None = None, env: dict[str, str] | None = None,
        wrapper: list[str] | None = None, then: str = "wait", script: list[Any] | None = None, terminal: int = 0,
        around: Callable[[list[str]], list[str]] | None = None,
    ) -> Started:  # fmt: skip
        """Start a stand-in; it is ready when it answers. `wrapper`: the arguments of a node process around it.
        `around`: what it is started with, which ends by executing it."""
        cwd = cwd or self.work
        where = {"root_path": Path(config["root"]), "cwd": os.path.realpath(cwd)}
        config = {"handles": kind.HANDLES, **config, "kind": kind.STANDIN, "argv": argv, "comm": comm}
        config["script"] = script or []
        command = handles.arguments(self.config_file(config), argv)
        executable = self.programs.path(program or kind.PROGRAM)
        if wrapper is not None:
            inner = {"executable": executable, "argv": command, "detached": then == "exit"}
            outer: dict[str, Any] = {"kind": handles.WRAPPER, "argv": wrapper, "script": [["start", inner], [then, {}]]}
            outer["handles"] = kind.WRAPPER_HANDLES
            command = handles.arguments(self.config_file(outer), wrapper)
            executable = self.programs.path("node")
        if around is not None:
            command = around([executable, *command[1:]])
            executable = command[0]
        popen = self.popen(command, executable, cwd, env, terminal)
        assert popen.stdin and popen.stdout
        ready = read_answer(popen.stdout)
        outside = Handle(ready["ready"], ready["start"], popen) if wrapper is not None else None
        if outside is not None:
            self.keep(outside)
            ready = read_answer(popen.stdout)
        owner = None if outside is not None else popen
        agent = kind(ready, owner, (popen.stdin, popen.stdout), {**config, **where}, self.keep)
        agent.wrapper = outside
        self.keep(agent)
        return agent

    def popen(
        self, command: list[str], executable: str, cwd: Path, env: dict[str, str] | None, terminal: int = 0
    ) -> subprocess.Popen[bytes]:
        environment = {**self.env, **self.programs.env, **(env or {})}
        return subprocess.Popen(
            command,
            executable=executable,
            cwd=cwd,
            env={name: value for name, value in environment.items() if value != ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=(lambda: take_terminal(terminal)) if terminal else None,
        )

    def bare(
        self, program: str, argv: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None,
        around: Callable[[list[str]], list[str]] | None = None, terminal: int = 0,
    ) -> Puppet:  # fmt: skip
        """A process with an agent's name that has written nothing."""
        executable = self.programs.path(program)
        command = handles.arguments(self.config_file({"kind": handles.BARE, "argv": argv}), argv)
        if around is not None:
            command = around([executable, *command[1:]])
            executable = command[0]
        popen = self.popen(command, executable, cwd or self.work, env, terminal)
        assert popen.stdin and popen.stdout
        ready = read_answer(popen.stdout)
        puppet = Puppet(ready["ready"], ready["start"], popen, popen.stdin, popen.stdout)
        self.keep(puppet)
        return puppet

    def config_file(self, config: dict[str, Any]) -> Path:
        self._count += 1
        path = self.folder / f"{self._count}.json"
        path.write_text(json.dumps(config))
        return path

    def poller(self) -> Poller:
        popen = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.poller"],
            cwd=handles.REPOSITORY,
            env={**self.env, "PYTHONPATH": f"{SOURCES}:{handles.REPOSITORY}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        poller = Poller(popen, start_ticks(popen.pid))
        self.keep(poller)
        poller.once()
        return poller

    def stranger(self, pid: int) -> Handle:
        """An unrelated program that was given a certain pid."""

        def start() -> Handle:
            popen = subprocess.Popen(["sleep", "300"], start_new_session=True)
            return Handle(popen.pid, start_ticks(popen.pid), popen)

        found = handles.place_at(pid, start)
        self.keep(found)
        return found

    # Asking

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The real command, as a person would run it. A traceback is never an answer."""
        done = self.run_quietly(*words)
        if "Traceback" in done.stderr or done.returncode < 0:
            said = done.stderr.strip().splitlines()
            self.says(
                f"agentctl {' '.join(words)} answers", said[-1] if said else str(done.returncode), False, done.stderr
            )
        return done

    def run_quietly(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = self.around([*self.command, *words])
        began, crowded = time.monotonic(), seconds_crowded()
        try:
            done = subprocess.run(
                command, env=self.env, cwd=self.work, capture_output=True, text=True, timeout=self.limit, check=False
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(command, -1, "", f"no answer within {self.limit:g} s")
        self.seconds = time.monotonic() - began
        self.own_seconds = max(0.0, self.seconds - (seconds_crowded() - crowded))
        return done

    def ask(self, *words: str) -> dict[str, Any]:
        done = self.run(*words, "--json")
        if done.returncode != 0:
            self.says(f"agentctl {' '.join(words)}: exit 0", f"exit {done.returncode}", False, done.stderr)
        try:
            found: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            return {}
        return found

    def listing_in(self, text: str) -> Listing:
        return listing_of(json.loads(text))

    def look(self, *words: str) -> Listing:
        """All sessions, sub-agents too, as `list` has them now."""
        self.listing = listing_of(self.ask("list", *(words or ("-a", "--since", "all", "--tree"))))
        return self.listing

    # Checking

    def says(
        self, truth: str, answer: str, ok: bool, details: str = "", *, evidence: str = FROM_OUTSIDE
    ) -> None:  # fmt: skip
        self.report.add(Row(self.case, self.name, truth, answer, evidence, ok, details))

    def check(self, label: str, id: str, status: str | tuple[str, ...], **expected: Any) -> None:
        """One session of the last listing. `expected`: further fields; a Contains is looked for in the text."""
        row = self.listing.rows.get(id)
        expected = {"status": status, **expected}
        truth = f"{label}: " + ", ".join(words_of(name, value) for name, value in expected.items())
        if row is None:
            self.says(truth, "no such session in the list", False, json.dumps(self.listing._asdict(), indent=1))
            return
        ok = all(holds(row.get(name), value) for name, value in expected.items())
        mark = "?" if row["inferred"] else ""
        answer = f"{row['status']}{mark}, {row['process']}/{row['turn']}, pid {row['pid']}, {row['link']}"
        extra = [name for name, value in expected.items() if isinstance(value, Contains)]
        answer += "".join(f", {name} {row.get(name)!r}" for name in extra)
        details = "" if ok else json.dumps(row, indent=1) + "\n" + self.run("why", id).stdout
        self.says(truth, answer, ok, details, evidence=evidence_of([row]))

    def check_all(self, label: str, ids: list[str], status: str, **expected: Any) -> None:
        """Several sessions of which the same is true, in one row."""
        expected = {"status": status, **expected}
        rows = [self.listing.rows.get(id, {}) for id in ids]
        wrong = [row for row in rows if not all(holds(row.get(name), value) for name, value in expected.items())]
        words = sorted({f"{row.get('status')}{'?' if row.get('inferred') else ''}" for row in rows})
        truth = f"{label}, {len(ids)} times: " + ", ".join(words_of(name, value) for name, value in expected.items())
        answer = f"{len(rows) - len(wrong)} times, {' '.join(words)}"
        self.says(truth, answer, not wrong, json.dumps(wrong[:2], indent=1), evidence=evidence_of(rows))

    def check_unattached(self, label: str, process: Handle, candidates: Iterable[str] | None = None) -> None:
        self.expects_unattached.add(process.pid)
        line = self.listing.unattached.get(process.pid)
        wanted = None if candidates is None else sorted(candidates)
        ok = line is not None and (wanted is None or sorted(line["candidates"]) == wanted)
        answer = "no line" if line is None else f"{line['why']}; {len(line['candidates'])} candidates"
        truth = f"{label}: one unattached line" + ("" if wanted is None else f", {len(wanted)} candidates")
        self.says(truth, answer, ok, "" if ok else json.dumps(self.listing.unattached, indent=1), evidence=UNATTACHED)

    def check_not_shown(self, label: str, *, ids: Iterable[str] = (), pids: Iterable[int] = ()) -> None:
        shown = [id for id in ids if id in self.listing.rows]
        shown += [str(pid) for pid in pids if pid in self.listing.unattached]
        shown += [row["id"] for row in self.listing.rows.values() if row["pid"] in set(pids)]
        self.says(
            f"{label}: not shown", ", ".join(shown) or "not shown", not shown, json.dumps(self.listing.rows, indent=1)
        )

    def check_problem(self, label: str, path: Path | str) -> None:
        self.expects_problems = True
        found = [problem["problem"] for problem in self.listing.problems if problem["path"] == str(path)]
        answer = found[0] if found else "no such problem"
        self.says(f"{label}: a problem", answer, bool(found), json.dumps(self.listing.problems, indent=1))

    # At the end of the case

    def compare(self) -> tuple[int, list[str]]:
        """list, status and why about every session: how many were compared, and where they differ."""
        everything = self.look()
        now = listing_of(self.ask("list"))
        wrong = [
            f"{id} is listed {everything.ids.count(id)} times" for id in everything.rows if everything.ids.count(id) > 1
        ]
        for id, row in everything.rows.items():
            if row["parent"] is None and (row["process"] == "gone") == (id in now.rows):
                wrong.append(f"{id} is {row['process']}/{row['status']}; in the list without -a: {id in now.rows}")
            elif id in now.rows:
                wrong += differences(id, "list", now.rows[id], "list -a", row)
        asked = list(everything.rows)[: self.sample]
        with ThreadPoolExecutor(2) as pool:
            for id, answers in zip(asked, pool.map(self.ask_both, asked), strict=True):
                for verb, answer in answers.items():
                    wrong += differences(id, verb, answer.get("session") or {}, "list -a", everything.rows[id])
        return len(asked), wrong

    def ask_both(self, id: str) -> dict[str, dict[str, Any]]:
        return {verb: self.ask(verb, id) for verb in ("status", "why")}

    def stores(self) -> dict[str, tuple[int, int, int]]:
        """Names, sizes, times and inodes of all that the agents keep."""
        found = {}
        for root in () if self.hangs else (self.home, self.data):
            for folder, folders, names in os.walk(root):
                for name in (".", *folders, *(name for name in names if not name.endswith(BOOKS))):
                    status = os.lstat(os.path.join(folder, name))
                    found[os.path.join(folder, name)] = (status.st_size, status.st_mtime_ns, status.st_ino)
        return found

    def end(self) -> None:
        self.end_processes()
        self._mounts.close()

    def end_processes(self) -> None:
        processes, self._processes = self._processes, []
        for handle in processes:
            handle.stop()
        for handle in processes:  # parents first: what they started is then ours to reap
            handle.close()


def take_terminal(terminal: int) -> None:
    """In the child, after setsid: this is now its controlling terminal."""
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def seconds_crowded() -> float:
    """Return for how long some process of this machine has waited for a processor since it booted; 0 if the kernel does
    not say."""
    try:
        with open(PRESSURE) as file:
            return int(file.readline().rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return 0.0


def set_back(path: Path, seconds: float) -> None:
    """As if it had been written this long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)
