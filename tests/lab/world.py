"""One cell's world: a home, a fake model, a real agent, a watcher, and the truth about all of them.

`expect` is where agentctl is asked, from outside and with the real command: list, status and why must agree with each
other and with what the lab knows by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.lab import start, watch
from tests.lab.errors import LabError, WrongAnswer
from tests.lab.isolation import REPOSITORY
from tests.lab.model import Entry, ModelServer
from tests.lab.running import Key, Row, Running, end_all, is_alive, row_of, table, until
from tests.lab.witness import pid_behind_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from tests.lab.recipe import Recipe

AGENTCTL = [sys.executable, "-m", "agentctl"]
ASK_LIMIT = 60.0
REQUEST_LIMIT = 120.0  # an interface that starts on a busy machine takes its time
SETTLE = 0.3  # an agent writes its file a moment after the terminal or the model shows the same
LATE = 8.0  # and on a busy machine later: how much, is shown
COMPARED = ("status", "process", "turn", "last_turn", "pid", "process_key", "waiting_for", "inferred")


@dataclass(frozen=True)
class Truth:
    """Which session, and which process is on it, by the lab's own knowledge."""

    id: str
    key: Key


@dataclass
class Home:
    folder: Path
    work: Path = field(init=False)

    def __post_init__(self) -> None:
        self.work = self.folder / "work"
        self.work.mkdir(parents=True)
        (self.folder / "tmp").mkdir()


class World:
    def __init__(self, recipe: Recipe, program: Path, version: str, mode: str, folder: Path) -> None:
        self.recipe, self.program, self.version, self.mode = recipe, program, version, mode
        self.home = Home(folder / "home")
        self.notes = folder / "notes"
        self.notes.mkdir()
        self.server = ModelServer(identify=pid_behind_port)
        self.running: list[Running] = []
        self.holds: list[watch.Hold] = []
        self.waited = 0.0  # the longest time that a word was waited for
        self.asked: list[str] = []  # what was asked, and the word that came: the story of the cell
        self._watcher: subprocess.Popen[bytes] | None = None
        self._help: str | None = None

    def __enter__(self) -> Self:
        self.server.__enter__()
        self.recipe.prepare(self)
        self._watcher = subprocess.Popen(
            [sys.executable, "-m", "tests.lab.watch", str(self.notes / "watch.jsonl")],
            env=self.own_env(),
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stderr=(self.notes / "watch.err").open("wb"),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watcher is not None and self._watcher.poll() is None:
            self._watcher.kill()
            self._watcher.wait(10)
        self.server.__exit__(kind, error, trace)

    # The environments

    def base_env(self) -> dict[str, str]:
        home = self.home.folder
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "TMUX_TMPDIR": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
        }

    def agent_env(self) -> dict[str, str]:
        return {**self.base_env(), **self.recipe.env(self)}

    def own_env(self) -> dict[str, str]:
        """Of agentctl: the same home, and none of the agent's keys."""
        own = {**self.base_env(), "AGENTCTL_HOME": str(self.home.folder / "agentctl"), "AGENTCTL_DEBUG": "1"}
        return {**own, **self.recipe.store_env(self)}

    # Starting and driving

    def run(
        self, *words: str, tty: bool = False, lines: Callable[[str], str] | None = None, around: tuple[str, ...] = ()
    ) -> Running:
        """Start the agent. `around`: what its program is run by."""
        output = self.notes / f"output-{len(self.running)}"
        argv = [*around, str(self.program), *words]
        running = Running(argv, self.agent_env(), self.home.work, tty=tty, output=output, lines=lines)
        self.running.append(running)
        return running

    def has(self, word: str) -> bool:
        """Return whether this version has an option or a command, by its own --help."""
        if self._help is None:
            self._help = start.ask(str(self.program), "--help", self.agent_env())
        return start.has_word(self._help, word)

    def request(self, directive: str, *, after: int = 0, count: int = 1, seconds: float = REQUEST_LIMIT) -> Entry:
        """The model request that a directive is the answer to."""

        def matching(entries: list[Entry]) -> list[Entry]:
            return [
                entry
                for entry in entries
                if entry.event == "request" and entry.directive.startswith(directive) and entry.number > after
            ]

        if not self.server.wait_for(lambda entries: len(matching(entries)) >= count, seconds):
            raise LabError(f"no model request for [[{directive}]] within {seconds:g} s\n{self.account()}")
        return matching(self.server.entries)[count - 1]

    def answered(self, entry: Entry, seconds: float = REQUEST_LIMIT) -> float:
        """Let the answer to a request go, if it is held, and wait for its end: when it was."""

        def ends(entries: list[Entry]) -> list[float]:
            return [other.at for other in entries if other.number == entry.number and other.event != "request"]

        self.server.let_go(entry.number)
        if not self.server.wait_for(lambda entries: bool(ends(entries)), seconds):
            raise LabError(f"the model's answer to [[{entry.directive}]] was not taken\n{self.account()}")
        return ends(self.server.entries)[0]

    def truth(self, entry: Entry) -> Truth:
        """The session that a request names, and the process whose connection it came through."""
        row = row_of(entry.pid) if entry.pid is not None else None
        if entry.session is None or row is None:
            raise LabError(f"the request does not tell who made it: {entry}")
        return Truth(entry.session, row.key)

    def tool(self, text: str, seconds: float = 60.0) -> Row:
        """The process of a tool that runs, found by its arguments."""
        found: list[Row] = []

        def seen() -> bool:
            found[:] = [row for row in table().values() if text in " ".join(row.argv) and row.comm == text.split()[0]]
            return bool(found)

        until(seen, seconds, f"a process {text!r}")
        return found[0]

    def process(self, condition: Callable[[Row], bool], what: str, seconds: float = 60.0) -> Row:
        found: list[Row] = []

        def seen() -> bool:
            found[:] = [row for row in table().values() if not row.dead and condition(row)]
            return bool(found)

        until(seen, seconds, what)
        return found[0]

    # Asking agentctl

    def ask(self, *words: str, around: tuple[str, ...] = ()) -> dict[str, Any]:
        """What agentctl answers. `around`: what it is run by."""
        done = self.command(*words, "--json", around=around)
        if done.returncode:
            raise WrongAnswer(f"agentctl {' '.join(words)}: exit {done.returncode}\n{done.stderr}\n{self.account()}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def command(self, *words: str, around: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*around, *AGENTCTL, *words],
                env=self.own_env(),
                cwd=REPOSITORY,
                capture_output=True,
                text=True,
                timeout=ASK_LIMIT,
            )
        except subprocess.TimeoutExpired:
            raise WrongAnswer(f"agentctl {' '.join(words)} did not answer in {ASK_LIMIT:g} s") from None

    def expect_refused(self, *words: str, says: str) -> None:
        done = self.command(*words)
        if done.returncode != 4 or says not in done.stderr:
            said = f"exit {done.returncode}: {done.stdout}{done.stderr}"
            raise WrongAnswer(f"agentctl {' '.join(words)} is not refused with {says!r}: {said}\n{self.account()}")

    def unattached(self) -> dict[int, str]:
        return {one["pid"]: one["why"] for one in self.ask("list", "-a", "--since", "all")["unattached"]}

    def listed(self) -> dict[str, dict[str, Any]]:
        answer = self.ask("list", "-a", "--since", "all", "--tree")
        return {session["id"]: session for session in answer["sessions"]}

    def only_session(self, seconds: float = 40.0) -> str:
        """The id where nothing has named it yet: the one session there is. The model's log must name the same."""
        found: dict[str, dict[str, Any]] = {}

        def one() -> bool:
            found.clear()
            found.update(self.listed())
            return len(found) == 1

        try:
            until(one, seconds, "exactly one session")
        except LabError:
            raise WrongAnswer(f"not one session but {sorted(found)}\n{self.account()}") from None
        return next(iter(found))

    def expect(
        self,
        truth: Truth,
        status: str,
        *,
        gone: bool = False,
        left: bool = False,
        last_turn: str | None = None,
        says: str | None = None,
        settle: float = SETTLE,
    ) -> dict[str, Any]:
        """Ask list, status and why, and hold them against each other and against the truth.

        `gone`: its process has ended, which must be said at once. `left`: its process lives and is on another session
        now. What a living agent does may stand in its files a moment later: until then the lab asks again."""
        ended = gone or left
        if not ended:
            self.held(truth)
        time.sleep(settle)
        if gone is is_alive(truth.key):
            raise LabError(f"pid {truth.key.pid} is {'alive' if gone else 'gone'} already\n{self.account()}")
        wanted = {
            "status": status,
            "process": "unknown" if status == "unknown" else "gone" if ended else "alive",
            **({} if ended or status == "unknown" else {"pid": truth.key.pid}),
            **({"last_turn": last_turn} if last_turn else {}),
        }
        began = time.monotonic()
        while True:
            why = self.ask("why", truth.id)
            listed, state = self.listed().get(truth.id), self.ask("status", truth.id)["session"]
            wrong = disagreements({"list": listed, "status": state, "why": why["session"]})
            wrong += differences(why["session"], wanted, says, None if ended or status == "unknown" else truth.key)
            if not wrong or gone or time.monotonic() > began + LATE:
                break
            self.waited = max(self.waited, time.monotonic() - began)
        self.asked.append(status)
        if wrong:
            head = "\n".join(f"  {line}" for line in wrong)
            raise WrongAnswer(f"wrong, expecting {status}:\n{head}\n  why: {json.dumps(why)}\n{self.account()}")
        said: dict[str, Any] = why["session"]
        return said

    def expect_nothing(self, key: Key | None) -> None:
        """No session is there yet; a process that is waiting for its first prompt is an unattached line."""
        answer = self.ask("list", "-a", "--since", "all")
        unattached = [one["pid"] for one in answer["unattached"]]
        if answer["sessions"] or unattached != ([key.pid] if key else []):
            raise WrongAnswer(f"no session yet, and it says {json.dumps(answer)}\n{self.account()}")

    # The truth over time, for the watcher's answers

    def held(self, truth: Truth) -> None:
        mine = [hold for hold in self.holds if (hold.id, hold.key) == (truth.id, truth.key)]
        if not any(min(hold.until, hold.closing) == float("inf") for hold in mine):
            self.holds.append(watch.Hold(truth.id, truth.key, time.monotonic()))

    def released(self, truth: Truth) -> None:
        """From now on this process may leave this session for another one."""
        for hold in self.holds:
            if (hold.id, hold.key) == (truth.id, truth.key):
                hold.until = min(hold.until, time.monotonic())

    def closing(self, truth: Truth, at: float | None = None) -> None:
        """From now (or then) on this process may let this session go, once its turn is closed, and live on."""
        for hold in self.holds:
            if (hold.id, hold.key) == (truth.id, truth.key):
                hold.closing = min(hold.closing, time.monotonic() if at is None else at)

    def calls(self) -> list[watch.Call]:
        sent = self.server.sent
        return [
            watch.Call(entry.session, entry.at, sent[entry.number])
            for entry in self.server.entries
            if entry.event == "request" and not entry.side and entry.session and entry.number in sent
        ]

    # The end

    def finish(self) -> watch.Findings:
        """End everything, see that nothing is left and nothing is called alive, and judge what the watcher saw."""
        for running in self.running:
            running.close()
        left = end_all(self.others())
        if left:
            raise LabError(f"processes that could not be ended: {left}")
        time.sleep(0.3)
        alive = [session["id"] for session in self.listed().values() if session["process"] == "alive"]
        if alive:
            raise WrongAnswer(f"called alive after everything has ended: {alive}")
        assert self._watcher is not None
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        try:
            code = self._watcher.wait(60)
        except subprocess.TimeoutExpired:
            raise WrongAnswer("the watcher's last question was not answered in 60 s") from None
        if code:
            error = (self.notes / "watch.err").read_text()
            raise WrongAnswer(f"the Python API raised an error:\n{error}")
        with (self.notes / "watch.jsonl").open() as lines:
            return watch.judge(lines, self.holds, self.calls())

    def others(self) -> list[Row]:
        """Everything in this PID namespace that is not the lab itself: all of it was started by the agents."""
        own = {1, os.getpid()}
        if self._watcher is not None:
            own.add(self._watcher.pid)
        return [row for row in table().values() if row.key.pid not in own and not row.dead]

    def account(self) -> str:
        """What the lab sees, for the report of a failure."""
        lines = ["  -- processes"]
        lines += [
            f"  {row.key.pid} {row.parent} {row.state} {row.comm} {' '.join(row.argv)[:140]}" for row in self.others()
        ]
        lines += ["  -- the model's log"]
        lines += [
            f"  {entry.at:.3f} {entry.event} [[{entry.directive}]] pid {entry.pid} {entry.session}"
            for entry in self.server.entries[-12:]
        ]
        for running in self.running:
            shown = [line for line in running.shown().splitlines() if line.strip()][-14:]
            lines += [
                f"  -- {' '.join(running.argv)[-80:]}: exit {running.code()}",
                *(f"  | {x[:160]}" for x in shown),
            ]
        return "\n".join(lines)


def differences(said: dict[str, Any], wanted: dict[str, Any], says: str | None, key: Key | None) -> list[str]:
    """What an answer says otherwise than it should. `key`: of the process that it must name."""
    wrong = [f"{name} is {said[name]!r}, not {value!r}" for name, value in wanted.items() if said[name] != value]
    ticks = (said["process_key"] or "").rpartition(":")[2]
    if key is not None and ticks != str(key.ticks):
        wrong.append(f"process_key ends in {ticks}, the process began at tick {key.ticks}")
    told = f"{said['waiting_for'] or ''} {said['reason'] or ''} {said['error'] or ''}"
    if says is not None and says not in told:
        wrong.append(f"{says!r} is not in what it says: {told!r}")
    return wrong


def disagreements(answers: dict[str, dict[str, Any] | None]) -> list[str]:
    """list, status and why are the same function; their answers must be the same."""
    found = []
    for name, answer in answers.items():
        if answer is None:
            found.append(f"{name} does not know this session")
    known = {name: answer for name, answer in answers.items() if answer is not None}
    for word in COMPARED:
        values = {name: answer[word] for name, answer in known.items()}
        if len({json.dumps(value) for value in values.values()}) > 1:
            found.append(f"{word} differs: {values}")
    return found
