"""The demo agent (agentctl.demo): the smallest whole adapter, and the example of docs/adding-an-agent.md.

Who is on what: `sessions/<id>/process.json`, there while the process lives or after it was killed, with the boot,
the pid and the start ticks, and what the process does now. What the turn is: the last prompt or turn_end event of
`sessions/<id>/events.jsonl`.
"""

from __future__ import annotations

import os

from agentctl import model, stores
from agentctl.agents import Candidates, home, jsonl, option
from agentctl.model import (
    Details,
    Evidence,
    Link,
    Message,
    Page,
    Problem,
    Process,
    ProcessKey,
    Record,
    Supervisor,
    Tokens,
    Value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from agentctl.derived import Derived
    from agentctl.processes import Processes

NAME = "demo"
ALIASES: tuple[str, ...] = ()
BINARIES = ("agentctl-demo",)
ENV = ("HOME", "XDG_DATA_HOME")
CERTIFIED = ("1.0",)
RUNS_MANY = False

HEAD_LIMIT = 512 * 1024
TAIL_LIMIT = 8 * 1024 * 1024

TURNS = {"busy": model.WORKING, "waiting": model.WAITING, "idle": model.IDLE}
RESULTS = {"done": model.DONE, "failed": model.FAILED, "interrupted": model.INTERRUPTED}


def looks_like(comm: str) -> bool:
    return comm.lower().startswith(("python", "agentctl-demo"))


def claims(process: Process, details: Details) -> str | None:
    argv = details.argv or ()
    if not (module_of(argv) == "agentctl.demo" or any(os.path.basename(word) in BINARIES for word in argv[:2])):
        return None
    return model.CLIENT if any(word in ("--version", "--help", "-h") for word in argv) else model.AGENT


def module_of(argv: Sequence[str]) -> str | None:
    """What `python -m` runs; not a `-m` further on, which is a word of some other program."""
    words = iter(argv[1:])
    for word in words:
        if word == "-m":
            return next(words, None)
        if word in ("-X", "-W"):
            next(words, None)
        elif not word.startswith("-"):
            return None
    return None


def roots(env: Mapping[str, str]) -> tuple[str, ...]:
    data = env.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):  # the XDG specification: a relative path is to be ignored
        data = os.path.join(home(env), ".local/share")
    return (os.path.join(data, "agentctl-demo"),)


def open_store(root: str) -> Store:
    return Store(root)


class Store:
    def __init__(self, root: str) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self.derived: Derived | None = None  # a demo has few sessions
        self._sessions = os.path.join(root, "sessions")
        self._held: dict[str, dict[str, Any]] = {}  # session id -> process.json

    # Who is here

    def survey(self) -> None:
        os.listdir(self.root)  # an unreadable store is an error, not an empty one
        for id in stores.names(self._sessions):
            if file := self._process_file(id):
                self._held[id] = file

    def _process_file(self, id: str) -> dict[str, Any] | None:
        path = f"{self._sessions}/{id}/process.json"
        try:
            return stores.read_json(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, stores.Torn) as error:
            problem = Problem(NAME, reason_of(error), path)
            if problem not in self.problems:  # it is looked at twice
                self.problems.append(problem)
            return None

    def links(self, processes: Processes) -> list[Link]:
        self._catch_up(processes)
        links = (self._link(id, file, processes) for id, file in self._held.items())
        return [link for link in links if link is not None]

    def _catch_up(self, processes: Processes) -> None:
        """Sessions that were begun or resumed between the survey and the snapshot have a new process file.

        It counts only if its process is in the snapshot: one that started later is not gone, it was not looked at.
        """
        for id in stores.names(self._sessions):
            held = self._held.get(id)
            if held is None or find_process(held, processes) is None:
                file = self._process_file(id)
                if file is not None and find_process(file, processes) is not None:
                    self._held[id] = file

    def _link(self, id: str, file: dict[str, Any], processes: Processes) -> Link | None:
        path = f"{self._sessions}/{id}/process.json"
        pid, start, boot = identity_of(file)
        if pid is None or start is None or boot is None:
            self.problems.append(Problem(NAME, "does not name a process by boot, pid and start", path))
            return None
        process = find_process(file, processes)
        status = file.get("status")
        turn = TURNS.get(str(status), model.UNKNOWN)
        return Link(
            NAME,
            id,
            self.root,
            process.key if process else ProcessKey(boot, pid, start),
            how="its own process.json, with boot and start ticks",
            path=path,
            here=None,  # its boot is in the key; containers share one, so it says nothing of the namespace
            turn=turn,
            waiting_for=(stores.text_or_none(file.get("waiting_for")) or "a person") if turn == model.WAITING else None,
            reason=f"its file says status {status!r}, unknown to us" if turn == model.UNKNOWN else None,
            evidence=(Evidence("store", f"names pid {pid}, start {start}, and says status {status!r}", path, pid),),
        )

    def supervisors(self, processes: Processes) -> list[Supervisor]:
        return []

    def role(self, process: Process, details: Details, role: str, processes: Processes) -> str:
        return role

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        """A process without a process file: its first and its last moments."""
        named = option(details.argv, "--resume", "--session-id")
        if named is not None:
            return Candidates((named.lower(),), sole=False, why="starting or ending; its arguments name a session")
        ids = (id for id in self.recent(started_at) if id not in self._held)
        return Candidates(tuple(ids), sole=False, why="starting or ending: it has no process file")

    # What the store says of a session

    def recent(self, since: float) -> Iterable[str]:
        for id in stores.names(self._sessions):
            try:
                written = os.stat(f"{self._sessions}/{id}/events.jsonl").st_mtime
            except OSError:
                continue  # not begun, or not a session
            if written >= since or id in self._held:
                yield id

    def find(self, prefix: str) -> Iterable[str]:
        return [id for id in stores.names(self._sessions) if id.startswith(prefix)]

    def has(self, id: str) -> bool:
        return id in stores.names(self._sessions)

    def children(self, id: str) -> Sequence[str]:
        return ()

    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        path = self._events(id)
        try:
            session, prompt = read_head(path)
            tail = read_tail(path)
            counted = spent_in(path, id) if tokens else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.problems.append(Problem(NAME, reason_of(error), path))
            return Record(NAME, id, self.root, model.UNKNOWN, reason_of(error), path=path)
        setting = tail.setting or session
        return Record(
            NAME,
            id,
            self.root,
            tail.turn,
            reason=tail.reason,
            error=tail.error,
            pending=tail.pending,
            ending=f"it had asked for permission to run: {tail.pending}" if tail.pending else None,
            path=path,
            cwd=stores.text_or_none(setting.get("cwd")),
            model=stores.text_or_none(setting.get("model")),
            version=stores.text_or_none(setting.get("version")),
            prompt=prompt,
            started_at=stores.moment(session.get("at")),
            updated_at=tail.updated_at,
            tokens=counted,
            evidence=(Evidence("store", tail.reason, path),),
        )

    def watched(self, id: str) -> Sequence[str]:
        return (f"{self._sessions}/{id}",)

    def messages(self, id: str, count: int) -> Page:
        return jsonl.newest(self._events(id), count, messages_of)

    def messages_after(self, id: str, cursor: object) -> Page:
        return jsonl.after(self._events(id), cursor, messages_of)

    def _events(self, id: str) -> str:
        return f"{self._sessions}/{id}/events.jsonl"

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        """The record is newer than the process file was: look at that again, so that both are of one moment."""
        file = self._process_file(link.id)
        if file is None and record is not None and record.turn in model.CLOSED_TURNS:
            return link._replace(turn=model.IDLE, waiting_for=None, reason="finishing: it let go of its session")
        again = self._link(link.id, file, processes) if file else None
        return again if again is not None and again.key == link.key else link


class Tail(Value):
    turn: str
    reason: str
    error: str | None = None
    pending: str | None = None
    setting: dict[str, Any] | None = None  # the event that says where and with what the turn ran
    updated_at: float | None = None


def read_head(path: str) -> tuple[dict[str, Any], str | None]:
    """The event that began the session, and the first prompt."""
    session: dict[str, Any] = {}
    for line in stores.lines_forward(path, HEAD_LIMIT):
        event = stores.decode(line) or {}
        if event.get("event") == "session":
            session = event
        elif event.get("event") == "prompt":
            return session, stores.text_or_none(event.get("text"))
    return session, None


def read_tail(path: str) -> Tail:
    """Back from the end to the last prompt: how its turn stands. A torn line is passed over."""
    end: dict[str, Any] | None = None
    question: dict[str, Any] | None = None  # the last one, or the answer to it
    updated_at = None
    for line in stores.lines_backward(path, TAIL_LIMIT):
        event = stores.decode(line) or {}
        updated_at = updated_at or stores.moment(event.get("at"))
        match event.get("event"):
            case "turn_end":
                end = end or event
            case "ask" | "answer":
                question = question or event
            case "prompt":
                return judge_turn(end, question)._replace(setting=event, updated_at=updated_at)
            case "session":
                return Tail(model.IDLE, "no turn was begun", updated_at=updated_at)
    if end is not None:
        return judge_turn(end, None)._replace(updated_at=updated_at)
    if updated_at is None:
        return Tail(model.IDLE, "nothing was recorded yet")
    return Tail(model.UNKNOWN, f"no prompt within the last {TAIL_LIMIT} bytes", updated_at=updated_at)


def judge_turn(end: dict[str, Any] | None, question: dict[str, Any] | None) -> Tail:
    if end is None:
        pending = stores.text_or_none((question or {}).get("command"))  # an answer has none
        return Tail(model.WORKING, "the last prompt has no end", pending=pending)
    result, error, why, refused = (end.get(name) for name in ("result", "error", "reason", "refused"))
    reason = f"the last turn ended: {result}"
    if stores.text_or_none(why):
        reason += f", {why}"
    if isinstance(refused, list) and refused:
        reason += f"; {len(refused)} tool calls were refused" if len(refused) > 1 else "; 1 tool call was refused"
    return Tail(RESULTS.get(str(result), model.UNKNOWN), reason, error=stores.text_or_none(error))


def messages_of(line: bytes) -> list[Message]:
    event = stores.decode(line) or {}
    at = stores.moment(event.get("at"))
    match event.get("event"):
        case "prompt":
            return [Message("user", str(event.get("text")), at)]
        case "text":
            return [Message("assistant", str(event.get("text")), at)]
        case "tool":
            return [Message("tool", str(event.get("command")), at, tool="bash")]
        case "tool_result":
            failed = event.get("exit") != 0
            return [Message("result", str(event.get("output") or "").strip(), at, failed=failed)]
        case "ask":
            return [Message("note", f"asks for permission to run: {event.get('command')}", at)]
        case "answer":
            return [Message("note", "permission given" if event.get("allowed") else "permission refused", at)]
        case "turn_end" if event.get("result") != "done":
            return [Message("note", str(event.get("error") or event.get("result")), at, failed=True)]
    return []


def spent_in(path: str, id: str) -> Tokens | None:
    from agentctl.agents import demo_usage
    from agentctl.agents.counting import total_in

    return total_in(path, id, demo_usage.count)[0].tokens


def identity_of(file: dict[str, Any]) -> tuple[int | None, int | None, str | None]:
    pid, start = stores.whole_number(file.get("pid")), stores.whole_number(file.get("start_ticks"))
    return pid, start, stores.text_or_none(file.get("boot_id"))


def find_process(file: dict[str, Any], processes: Processes) -> Process | None:
    pid, start, boot = identity_of(file)
    if pid is None or start is None or boot != processes.boot:
        return None
    return processes.find(pid, start)


def reason_of(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
