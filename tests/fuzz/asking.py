"""One case, asked through the real commands in this process: what they printed, and what was wrong with it."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import traceback
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import agentctl
from agentctl import cli, wait
from agentctl.agents import load_control
from agentctl.agents.recipes import Task
from agentctl.errors import AgentctlError
from agentctl.fast.threads import Event
from agentctl.files import bounded
from agentctl.kernel import processes, stall_guard
from agentctl.query import sessions
from tests.fuzz import oracle
from tests.fuzz.guard import GUARD, Forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

    from agentctl.kernel.processes import Processes

EVERYTHING = ("list", "-a", "--since", "all", "--tree")
ABOUT_ALL = (EVERYTHING, ("list",), ("list", "--json"), ("locks",), ("agents",))
ABOUT_ONE = (
    *(("status",), ("status", "--json"), ("why",), ("why", "--json"), ("peek",), ("peek", "--json")),
    *(("peek", "-n", "1000"), ("wait", "--timeout", "0"), ("wait", "--timeout", "0", "--json")),
)
OF_OUR_FILES = (("locks",), ("locks", "--json"), ("prune", "--dry-run"), ("prune", "--json"), ("agents", "--json"))
THREADED = 0.1  # of the cases: threads cost more than all the rest, and what they read is the same
PATIENCE = 20.0  # for one store: these are small files, whatever else this machine does


class Asked(NamedTuple):
    problems: int  # that it reported itself, as it should
    failures: list[str]
    stalled: bool = False


class Said(NamedTuple):
    code: int
    out: str
    err: str


class Asker:
    """Asks about one damaged world. `table` gives the process table as the last command saw it."""

    def __init__(self, env: Mapping[str, str], table: Callable[[], Processes], rng: Random) -> None:
        self._env = env
        self._table = table
        self._rng = rng
        self._faults: list[str] = []
        self.failures: list[str] = []
        self.problems = 0
        self.stalled = False

    def ask(self, *, our_files: bool = False) -> Asked:
        home = self._env["AGENTCTL_HOME"]
        # Also a question notes which store a live agent names.
        allowed = [self._env["XDG_CACHE_HOME"], home if our_files else os.path.join(home, "stores")]
        with ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, self._env, clear=True))
            stack.enter_context(mock.patch.object(stall_guard, "guarded", self._spy(stall_guard.guarded)))
            stack.enter_context(mock.patch.object(stall_guard, "STALL", PATIENCE))
            if self._rng.random() > THREADED:
                stack.enter_context(mock.patch.object(stall_guard, "in_parallel", one_by_one))
            stack.enter_context(mock.patch.object(sessions, "SECOND_LOOK", 0.0))
            stack.enter_context(mock.patch.object(bounded, "TORN_PAUSE", 0.0))
            stack.enter_context(mock.patch.object(sys, "unraisablehook", self._note_thread))
            tempfile.gettempdir()  # finds out where it can write, once in a process
            broken = stack.enter_context(GUARD.watch(*allowed, locks=our_files, made=home))
            try:
                self._ask(our_files)
            except Forbidden:
                pass
        self.failures += [f"it did: {what}" for what in broken]
        self.failures += self._faults
        return Asked(self.problems, list(dict.fromkeys(self.failures)), self.stalled)

    def _ask(self, our_files: bool) -> None:
        rows = self._run(*EVERYTHING, "--json").get("sessions", [])
        others = list(ABOUT_ALL) + list(OF_OUR_FILES) * 3 * our_files
        launched = [row["id"] for row in rows if row["launch_id"] and row["id"]]
        if our_files and launched and self._rng.random() < 0.3:
            self._run("status", "--", self._rng.choice(launched))  # nothing else shows how its hooks ended
        for _ in range(self._rng.choice((1, 2))):
            if rows and self._rng.random() < 0.75:
                row = self._rng.choice(rows)
                if row["id"]:
                    self._about_one(row)
            else:
                self._run(*self._rng.choice(others))

    def _about_one(self, row: dict[str, Any]) -> None:
        luck = self._rng.random()
        if luck > 0.2:
            verb, *options = self._rng.choice(ABOUT_ONE)
            id = row["id"] if self._rng.random() < 0.7 else row["id"][: self._rng.randrange(1, len(row["id"]) + 1)]
            self._run(verb, *options, "--", id)
        else:
            self._in_python(row["id"], resume=luck < 0.12)

    def _in_python(self, id: str, *, resume: bool) -> None:
        """What has no output of its own: the Python names, and what the controls read of a session that goes on."""
        try:
            session = agentctl.get_session(id)
            wait.wait([id], timeout=0.0)
            if resume:
                load_control(session.agent).start(Task("go on", session.cwd or "/", dict(os.environ), session=session))
        except AgentctlError as error:
            self.failures += oracle.human(cli.shown(error))
        except Exception:  # noqa: BLE001 -- that is what is looked for
            self._faults.append(traceback.format_exc())

    def _run(self, *words: str) -> dict[str, Any]:
        said = self._command(list(words))
        name = " ".join(words)
        if oracle.SAID_OF_A_FAULT in said.err:
            self._faults.append(f"agentctl {name}: {self._trace(list(words))}")
            return {}
        self.failures += [f"agentctl {name!r}: stderr: {why}" for why in oracle.human(said.err)]
        self.stalled = self.stalled or oracle.STALLED in said.err + said.out
        if "--json" not in words or not said.out:
            self.failures += [f"agentctl {name!r}: {why}" for why in oracle.human(said.out)]
            return {}
        try:  # `wait` says one thing per line, the answer last
            text = said.out.rstrip("\n").rpartition("\n")[2] if words[0] == "wait" else said.out
            found: dict[str, Any] = oracle.parse(text)
        except ValueError as error:
            self.failures.append(f"agentctl {name!r}: not JSON: {error}")
            return {}
        self.failures += [f"agentctl {name!r}: {why}" for why in oracle.document(found, self._table())]
        self.problems += len(found.get("problems", ()))
        return found

    def _command(self, words: list[str]) -> Said:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = cli.run(words)
            except SystemExit as error:  # of argparse
                code = error.code if isinstance(error.code, int) else 2
        return Said(code, out.getvalue(), err.getvalue())

    def _trace(self, words: list[str]) -> str:
        """The same again, to see where it comes from."""
        with mock.patch.dict(os.environ, {"AGENTCTL_DEBUG": "1"}):
            return self._command(words).err

    def _spy(self, real: Callable[..., None]) -> Callable[..., None]:
        """A fault of a store's reader is caught there, and shown as a problem of the whole store. Here it is one."""

        def guarded(errand: object, run: Callable[[], None], done: Event) -> None:
            def noted() -> None:
                try:
                    run()
                except OSError:
                    raise
                except Exception:
                    self._faults.append(traceback.format_exc())
                    raise

            real(errand, noted, done)

        return guarded

    def _note_thread(self, args: sys.UnraisableHookArgs) -> None:
        if not issubclass(args.exc_type, Forbidden):
            self._faults.append("".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback)))


def one_by_one(
    jobs: Sequence[tuple[stall_guard.Errand, Callable[[], None]]], tell: Callable[[], None] | None = None
) -> None:
    """What hangs here is the watchdog's."""
    for errand, run in jobs:
        stall_guard.guarded(errand, run, Event())


@contextmanager
def table_of(found: Processes) -> Iterator[None]:
    """This process table, whoever asks for one."""
    with mock.patch.object(processes, "snapshot", lambda env_names=(): found):
        yield
