"""Where the controls of an agent are tried: a home, a fake model, and recipes run as a launch runs them.

Unlike in world.py nobody watches here: what is asked is not whether agentctl's answers are true, but whether what its
controls order is what the real agent does.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import agentctl
from agentctl.agents import load, load_control
from agentctl.agents.recipes import Held, Task
from agentctl.kernel.processes import snapshot
from tests.lab.errors import LabError, WrongAnswer
from tests.lab.model import ModelServer
from tests.lab.recipes import RECIPES
from tests.lab.running import Running, end_all, row_of, table, until
from tests.lab.witness import pid_behind_port
from tests.lab.world import Home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from agentctl.agents.control_base import Control
    from agentctl.agents.recipes import Recipe
    from agentctl.model import Session
    from tests.lab.model import Entry
    from tests.lab.running import Row

PATIENCE = 120.0


class Run:
    """One recipe, run as a launch runs it: its input is a file without a name, its words are appended to a file."""

    def __init__(self, recipe: Recipe, env: Mapping[str, str], cwd: Path, output: Path) -> None:
        self.recipe, self.output = recipe, output
        given = os.open(os.devnull, os.O_RDONLY) if recipe.input is None else memory_file(recipe.input)
        written = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self.process = subprocess.Popen(
                recipe.argv,
                env={**env, **(recipe.env or {})},
                cwd=cwd,
                stdin=given,
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
        finally:
            os.close(given)
            os.close(written)
        row = row_of(self.process.pid)
        assert row is not None  # not reaped yet, so it is in the table
        self.key = row.key

    def said(self) -> bytes:
        return self.output.read_bytes()

    def wait(self, seconds: float = PATIENCE) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise LabError(f"it has not ended in {seconds:g} s; it said:\n{self.tail()}") from None

    def tail(self) -> str:
        return self.said().decode(errors="replace")[-3000:]


def memory_file(data: bytes) -> int:
    fd = os.memfd_create("input")
    while data:
        data = data[os.write(fd, data) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class Stage:
    def __init__(self, agent: str, program: Path, folder: Path) -> None:
        self.agent, self.program, self.folder = agent, program, folder
        self.home = Home(folder / "home")
        (folder / "bin").mkdir()
        (folder / "bin" / program.name).symlink_to(program)  # found by PATH, as the person's own is
        self.path = f"{folder}/bin:{os.environ['PATH']}"
        self.server = ModelServer(identify=pid_behind_port)
        self.runs: list[Run] = []
        self.running: list[Running] = []
        self.more_env: dict[str, str] = {}
        self.recipe = RECIPES[agent]
        self.control: Control = load_control(agent)

    def __enter__(self) -> Self:
        self.server.__enter__()
        self.recipe.prepare_controls(self)
        os.environ.clear()
        os.environ.update(self.own_env())  # agentctl is asked in this very process
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.__exit__(kind, error, trace)

    def base_env(self) -> dict[str, str]:
        home = self.home.folder
        folders = {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("data", "state", "cache", "config")}
        words = {"PATH": self.path, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        return {**words, "HOME": str(home), "TMPDIR": str(home / "tmp"), **folders}

    def agent_env(self) -> dict[str, str]:
        return {**self.base_env(), **self.recipe.env(self), **self.more_env}

    def own_env(self) -> dict[str, str]:
        """Of agentctl: the same home, and none of the agent's keys."""
        own = {"AGENTCTL_HOME": str(self.home.folder / "agentctl")}
        return {**self.base_env(), **own, **self.recipe.store_env(self)}

    # Running

    def task(self, prompt: str, **more: Any) -> Task:
        session: Session | None = more.get("session")
        cwd = session.cwd if session is not None else str(self.home.work)
        return Task(prompt, **{"cwd": cwd, "env": self.agent_env(), **more})

    def launch(self, prompt: str, **more: Any) -> Run:
        task = self.task(prompt, **more)
        return self.run(self.control.start(task), Path(task.cwd))

    def run(self, recipe: Recipe, cwd: Path | None = None) -> Run:
        run = Run(recipe, self.agent_env(), cwd or self.home.work, self.folder / f"output-{len(self.runs)}.log")
        self.runs.append(run)
        return run

    def open(self, *words: str, tty: bool = False) -> Running:
        """The agent, in another way than by a recipe."""
        output = self.folder / f"screen-{len(self.running)}"
        running = Running([str(self.program), *words], self.agent_env(), self.home.work, tty=tty, output=output)
        self.running.append(running)
        return running

    def rows(self) -> list[Row]:
        """All that the agents have started here."""
        return [row for row in table().values() if row.key.pid not in (1, os.getpid()) and not row.dead]

    def close(self) -> None:
        for running in self.running:
            running.close()
        left = end_all(self.rows())
        if left:
            raise LabError(f"processes that could not be ended: {left}")

    # What the model saw

    def request(self, directive: str, *, count: int = 1, after: int = 0, seconds: float = PATIENCE) -> Entry:
        """The model request that a directive is the answer to; `after` so many entries of the log."""

        def matching(entries: list[Entry]) -> list[Entry]:
            return [one for one in entries[after:] if one.event == "request" and one.directive.startswith(directive)]

        if not self.server.wait_for(lambda entries: len(matching(entries)) >= count, seconds):
            said = "\n".join(run.tail() for run in self.runs[-1:])
            raise LabError(f"no model request for [[{directive}]] within {seconds:g} s; it said:\n{said}")
        return matching(self.server.entries)[count - 1]

    def texts(self, entry: Entry) -> Iterator[str]:
        """Every text in a request, each as it stands."""
        return strings(self.server.asked[entry.number].body)

    def tool(self, text: str) -> Row:
        found: list[Row] = []

        def seen() -> bool:
            found[:] = [row for row in table().values() if text in " ".join(row.argv) and row.comm == text.split()[0]]
            return bool(found)

        until(seen, PATIENCE, f"a process {text!r}")
        return found[0]

    # What agentctl sees

    def session(self, id: str, wanted: Callable[[Session], bool] = lambda one: True, seconds: float = 20.0) -> Session:
        found: list[Session] = []

        def seen() -> bool:
            answer = agentctl.list_sessions(ended_since=0, agents=[self.agent])
            found[:] = [one for one in answer.sessions if one.id == id]
            return bool(found) and wanted(found[0])

        try:
            until(seen, seconds, f"a session {id} as it should be")
        except LabError:
            raise WrongAnswer(f"agentctl says of {id}: {found}") from None
        return found[0]

    def held(self, id: str) -> Held:
        """As the one who stops a session has it."""
        session = self.session(id, lambda one: one.pid is not None)
        processes = snapshot(load(self.agent).ENV)
        process = processes.get(cast("int", session.pid))
        if process is None or str(process.key) != session.process_key:
            raise LabError(f"pid {session.pid} is not what it was a moment ago")
        details = processes.details(process)
        if details is None:
            raise LabError(f"pid {session.pid} has no details")
        return Held(session, process, details, self.own_env())

    def printed(self, run: Run, seconds: float = PATIENCE) -> str:
        found: list[str] = []

        def seen() -> bool:
            found[:] = [id for id in [self.control.printed_id(run.said())] if id]
            return bool(found) or run.process.poll() is not None

        until(seen, seconds, "an id in its output")
        if not found:
            raise WrongAnswer(f"it ended with {run.process.poll()} and no id in its output:\n{run.tail()}")
        return found[0]


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
