"""The store of the demo agent: a process file and a file of events for each session."""

from __future__ import annotations

import os

from agentctl import model
from agentctl.agents import base
from agentctl.agents.activity import Moments
from agentctl.agents.base import FINISHING, Candidates, option, refused_calls
from agentctl.agents.demo.adapter import NAME, is_id
from agentctl.files import bounded
from agentctl.files.reader import reason_of
from agentctl.kernel.recorded import key_here, written_at
from agentctl.model import (
    HOLDERS,
    RECORD,
    Details,
    Evidence,
    Link,
    Message,
    Problem,
    Process,
    ProcessKey,
    Record,
    Tokens,
    Value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from agentctl.kernel.processes import Processes
    from agentctl.model import Question


HEAD_LIMIT = 512 * 1024
TAIL_LIMIT = 8 * 1024 * 1024

TURNS = {"busy": model.WORKING, "waiting": model.WAITING, "idle": model.IDLE}
ENDINGS = {
    "done": "its last turn is complete",
    "failed": "its last turn ended in an error",
    "interrupted": "its last turn was interrupted",
}
RESULTS = {"done": model.DONE, "failed": model.FAILED, "interrupted": model.INTERRUPTED}


class Store(base.Store):
    def __init__(self, root: str) -> None:
        super().__init__(root, NAME)
        self._sessions = os.path.join(root, "sessions")
        self._held: dict[str, dict[str, Any]] = {}  # session id -> process.json

    # Who is here

    def survey(self) -> None:
        super().survey()
        for id in self._ids():
            if file := self._process_file(id):
                self._held[id] = file

    def _ids(self) -> list[str]:
        """Return the names of the sessions' folders. A file that somebody left among them is none."""
        names = self.reader.names(self._sessions, HOLDERS)  # each folder has the file that names its process
        return [name for name in names if is_id(name) or not os.path.isfile(f"{self._sessions}/{name}")]

    def _process_file(self, id: str) -> dict[str, Any] | None:
        folder = f"{self._sessions}/{id}"
        return self.reader.json(f"{folder}/process.json", HOLDERS, id) if is_id(id) or os.path.isdir(folder) else None

    def links(self, processes: Processes) -> list[Link]:
        self._catch_up(processes)
        links = (self._link(id, file, processes) for id, file in self._held.items())
        return [link for link in links if link is not None]

    def _catch_up(self, processes: Processes) -> None:
        """Read the process files of sessions that were begun or resumed between the survey and the snapshot.

        A file counts only if its process is in the snapshot: one that started later is not gone, it was not looked at.
        """
        for id in self._ids():
            held = self._held.get(id)
            if held is None or not self._lives(id, held, processes):
                file = self._process_file(id)
                if file is not None and self._lives(id, file, processes):
                    self._held[id] = file

    def _lives(self, id: str, file: dict[str, Any], processes: Processes) -> bool:
        key = self._key(id, file, processes)
        return key is not None and processes.alive(key) is not None

    def _key(self, id: str, file: dict[str, Any], processes: Processes) -> ProcessKey | None:
        """Return the key that our table has of the process that a file names, or the one that it recorded; None if it
        names none."""
        pid, start = bounded.whole_number(file.get("pid")), bounded.whole_number(file.get("start_ticks"))
        boot, namespace = bounded.text_or_none(file.get("boot_id")), bounded.text_or_none(file.get("pid_namespace"))
        if pid is None or start is None or boot is None:
            return None
        written = written_at(f"{self._sessions}/{id}/process.json") if boot != processes.boot else 0.0
        return processes.own(key_here(ProcessKey(boot, pid, start), namespace, written, processes.boot))

    def _link(self, id: str, file: dict[str, Any], processes: Processes) -> Link | None:
        path = f"{self._sessions}/{id}/process.json"
        key = self._key(id, file, processes)
        if key is None:
            self.problems.append(Problem(NAME, "does not name a process by boot, pid and start", path))
            return None
        status = file.get("status")
        says = f"names pid {file.get('pid')}, start {file.get('start_ticks')}, and says status {status!r}"
        turn = TURNS.get(str(status), model.UNKNOWN)
        waiting_for = bounded.text_or_none(file.get("waiting_for")) or "a person"
        return Link(
            NAME,
            id,
            self.root,
            key,
            how="its own process.json, with boot and start ticks",
            path=path,
            here=None if key.namespace is None or processes.gone(key) else False,
            turn=turn,
            waiting_for=waiting_for if turn == model.WAITING else None,
            reason=f"its file says status {status!r}, unknown to us" if turn == model.UNKNOWN else None,
            evidence=(Evidence("store", says, path, key.pid),),
            noted=True,
        )

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        """Return what a process without a process file can be on: it is starting or ending."""
        named = option(details.argv, "--resume", "--session-id")
        if named is not None:
            return Candidates((named.lower(),), sole=False, why="starting or ending; its arguments name a session")
        ids = (id for id in self.recent(started_at) if id not in self._held)
        return Candidates(tuple(ids), sole=False, why="starting or ending: it has no process file")

    # What the store says of a session

    def recent(self, since: float) -> Iterable[str]:
        for id in self._ids():
            before = self.reader.failures
            found = self.reader.stat(self._events(id), RECORD)
            if found is None and self.reader.failures == before:
                continue  # not begun, or not a session
            if found is None or bounded.may_be_since(found.st_mtime, since) or id in self._held:
                yield id

    def find(self, prefix: str) -> Iterable[str]:
        return [id for id in self._ids() if id.startswith(prefix)]

    def has(self, id: str) -> bool:
        return id in self._ids()

    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        path = self._events(id)
        try:
            session, prompt = read_head(path)
            tail = read_tail(path)
            counted = self._tokens(id, path) if tokens else None
        except FileNotFoundError:
            return None
        except OSError as error:
            if isinstance(error, NotADirectoryError) and not is_id(id):
                return None  # a file that somebody left there
            self.reader.note(path, error, RECORD)
            return Record(NAME, id, self.root, model.UNKNOWN, reason_of(error), path=path)
        setting = tail.setting or session
        self.moments[id] = Moments(
            bounded.moment(setting.get("at")), tail.ended_at, tail.asked_at, bounded.text_or_none(setting.get("text"))
        )
        if tail.turn == model.UNKNOWN:
            self.reader.note(path, tail.reason, RECORD)
        return Record(
            NAME,
            id,
            self.root,
            tail.turn,
            reason=tail.reason,
            error=tail.error,
            pending=tail.pending,
            pending_tool=tail.tool,
            pending_id=tail.asked_id,
            ending=f"it had asked for permission to run: {tail.pending}" if tail.pending else None,
            inferred=tail.inferred,
            path=path,
            cwd=bounded.text_or_none(setting.get("cwd")),
            model=bounded.text_or_none(setting.get("model")),
            version=bounded.text_or_none(setting.get("version")),
            prompt=prompt,
            started_at=bounded.moment(session.get("at")),
            updated_at=tail.updated_at,
            tokens=counted,
            evidence=(Evidence("store", tail.reason, path),),
        )

    def _tokens(self, id: str, path: str) -> Tokens | None:
        from agentctl.agents.usage_base import spent_in

        return spent_in(NAME, path, id, self.problems)[0].tokens

    def watched(self, id: str) -> Sequence[str]:
        return (f"{self._sessions}/{id}",)

    def transcript(self, id: str) -> str | None:
        return self._events(id)

    def messages_in(self, line: bytes) -> Sequence[Message]:
        return messages_of(line)

    def _events(self, id: str) -> str:
        return f"{self._sessions}/{id}/events.jsonl"

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        """Read the process file again: the record is newer, and both should be of one moment."""
        file = self._process_file(link.id)
        if file is None and record is not None and record.turn in model.CLOSED_TURNS:
            return link._replace(turn=model.IDLE, waiting_for=None, reason=FINISHING)
        again = self._link(link.id, file, processes) if file else None
        return again if again is not None and again.key == link.key else link

    def questions(self, link: Link, record: Record | None) -> tuple[Question, ...]:
        from agentctl.agents.asking import PERMISSION, Call, question_of, vague

        if record is None or record.pending is None:
            return vague(link, PERMISSION)
        call = Call(record.pending_id, "bash", {"command": record.pending})
        return (question_of(call, PERMISSION, link.waiting_for, link),)


class Tail(Value):
    turn: str
    reason: str
    error: str | None = None
    pending: str | None = None
    tool: str | None = None  # that has no result yet
    setting: dict[str, Any] | None = None  # the event that says where and with what the turn ran
    updated_at: float | None = None
    inferred: bool = False
    ended_at: float | None = None
    asked_at: float | None = None
    asked_id: str | None = None  # of the tool call that it asks about


def read_head(path: str) -> tuple[dict[str, Any], str | None]:
    """Return the event that began the session, and the first prompt."""
    session: dict[str, Any] = {}
    for line in bounded.lines_forward(path, HEAD_LIMIT):
        event = bounded.decode(line) or {}
        if event.get("event") == "session":
            session = event
        elif event.get("event") == "prompt":
            return session, bounded.text_or_none(event.get("text"))
    return session, None


def read_tail(path: str) -> Tail:
    """Return how the last turn stands: it reads back from the end to the last prompt. A torn line is passed over."""
    end: dict[str, Any] | None = None
    question: dict[str, Any] | None = None  # the last one, or the answer to it
    tool: dict[str, Any] | None = None  # the last one, or its result
    updated_at, cut, empty = None, False, True
    for line in bounded.lines_backward(path, TAIL_LIMIT):
        event, empty = bounded.decode(line) or {}, False
        if not event and end is None:
            if bounded.is_garbled(line) or not bounded.is_cut(line):
                return Tail(model.UNKNOWN, "its last events cannot be read", updated_at=updated_at)
            cut = True
        updated_at = updated_at or bounded.moment(event.get("at"))
        match event.get("event"):
            case "turn_end":
                end = end or event
            case "ask" | "answer":
                question = question or event
            case "tool" | "tool_result":
                tool = tool or event
            case "prompt":
                inferred = cut and end is not None
                found = judge_turn(end, question, tool)
                return found._replace(setting=event, updated_at=updated_at, inferred=inferred)
            case "session":
                return Tail(model.IDLE, "no turn was begun", updated_at=updated_at, inferred=cut)
    if end is not None:
        return judge_turn(end, None)._replace(updated_at=updated_at, inferred=cut)
    if empty:  # it makes the file before it writes to it; so it was killed there, or the machine was
        return Tail(model.IDLE, "nothing was recorded yet", inferred=True)
    if updated_at is None:
        return Tail(model.UNKNOWN, "none of its events could be understood")
    return Tail(model.UNKNOWN, f"no prompt within the last {TAIL_LIMIT} bytes", updated_at=updated_at)


def judge_turn(end: dict[str, Any] | None, question: dict[str, Any] | None, tool: dict[str, Any] | None = None) -> Tail:
    if end is None:
        runs = bounded.text_or_none((tool or {}).get("command"))  # a result has none
        pending = bounded.text_or_none((question or {}).get("command"))  # an answer has none
        asked = question if question and pending else {}
        return Tail(
            model.WORKING,
            "its last prompt has no end",
            pending=pending,
            tool=runs,
            asked_at=bounded.moment(asked.get("at")),
            asked_id=bounded.text_or_none(asked.get("id")),
        )
    result, error, why, refused = (end.get(name) for name in ("result", "error", "reason", "refused"))
    reason = ENDINGS.get(str(result), f"its last turn ended with {result!r}, unknown to us")
    if bounded.text_or_none(why):
        reason += f" ({why})"
    if isinstance(refused, list) and refused:
        reason += f"; {refused_calls(len(refused))}"
    turn, ended_at = RESULTS.get(str(result), model.UNKNOWN), bounded.moment(end.get("at"))
    return Tail(turn, reason, error=bounded.text_or_none(error), ended_at=ended_at)


def messages_of(line: bytes) -> list[Message]:
    event = bounded.decode(line) or {}
    at = bounded.moment(event.get("at"))
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
