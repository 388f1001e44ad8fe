"""Codex's rollout (sessions/YYYY/MM/DD/rollout-<local time>-<thread>.jsonl): its name, and how the last turn stands.

A turn is open from its task_started to the task_complete or turn_aborted of the same turn id. Other records may
follow the end by many seconds, and a killed turn stays open for ever: only the last task_started counts. But turns
nest: a review begins a turn inside the one of its person, and only the outer one gets an end. That ends both.
"""

from __future__ import annotations

import os
import time

from agentctl.agents.base import refused_calls
from agentctl.agents.codex.calls import describe_call
from agentctl.files.bounded import (
    EARLIEST,
    TOO_LONG,
    Backward,
    Opened,
    decode,
    is_cut,
    is_garbled,
    lines_forward,
    moment,
    read_bytes,
    text_or_none,
)
from agentctl.model import CLOSED_TURNS, DONE, FAILED, IDLE, INTERRUPTED, UNKNOWN, WORKING, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from agentctl.files.reader import Reader

DAY = 24 * 60 * 60
ID = 36  # characters
PART = ID + len(".jsonl")
TIME_IN_ID = 13  # characters at the beginning of an id, with a dash: the milliseconds since 1970
TAIL_LIMIT = 64 * 1024 * 1024
HEAD_LIMIT = 1024 * 1024
HEAD_CHUNK = 32 * 1024  # its first record holds the program's own instructions
META_LIMIT = 64 * 1024
GLUED = b'}{"timestamp":'  # a line break is lost: no JSON has this, for a quote in a text is escaped
FIRST_WORDS = 4 * 1024  # of its first record: what stands before the program's own instructions
OF_A_PERSON = b'"thread_source":"user"'  # no text can hold this: its quotes would be escaped
AFTER_ITS_END = 10 * 60  # seconds

INTERESTING = (
    b'"task_started"',
    b'"task_complete"',
    b'"turn_aborted"',
    b'"turn_context"',
    b'"function_call"',
    b'"function_call_output"',
    b'"custom_tool_call"',
    b'"custom_tool_call_output"',
)
MOST_PENDING = 1000  # calls without an output: the newest ones say what a turn is at
CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
COUNTED = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "reasoning_output_tokens",
)
REPLACED = "replaced"  # of an aborted turn: another one has taken its place, and goes on
REFUSED_MARKS = ("reject command", "rejected by user")
SAID = 200  # characters of an output that say so
LONGEST_SAID = len(b'"output":"') + SAID * len(b"\\ud83d\\ude00")  # the same in a file, where all are escaped
REFUSING = b"reject"  # in each of them
BEGINNING = 256  # of a line
KIND = b'"payload":{"type":"'
TYPES = (b'event_msg"', b'response_item"', b'turn_context"')
OWN_TYPES = frozenset(
    ("session_meta", "turn_context", "world_state", "response_item", "event_msg", "token_usage_record", "compacted")
)
KINDS = frozenset(mark[1:-1] for mark in INTERESTING)
CALLED = frozenset(kind.encode() for kind in (*CALLS, *OUTPUTS))
ANSWERED = frozenset(kind.encode() for kind in OUTPUTS)


class Tail(Value):
    turn: str = UNKNOWN
    reason: str = "nothing in its rollout could be understood"
    error: str | None = None
    pending: tuple[tuple[str, str, str], ...] = ()  # (call id, tool, what it would do), oldest first
    before_calls: float | None = None  # when what stands before them was written
    inferred: bool = False
    refused: int = 0
    model: str | None = None
    policy: str | None = None
    cwd: str | None = None
    updated_at: float | None = None
    begun_at: float | None = None  # its last turn
    ended_at: float | None = None
    asked_at: float | None = None  # the newest call that got no output


class Head(Value):
    id: str | None = None
    cwd: str | None = None
    branch: str | None = None
    version: str | None = None
    model: str | None = None
    parent: str | None = None
    forked_from: str | None = None
    started_at: float | None = None
    prompt: str | None = None
    originator: str | None = None  # the program that began it


def thread_of(name: str) -> str | None:
    """Return the thread of a rollout, by its file name. After a revert a thread goes on in another file, whose name has
    an id of its own behind that of the thread: rollout-<time>-<thread>_<id>.jsonl."""
    id = name.removesuffix(".jsonl")[-ID:]
    if name[-PART - 1 : -PART] == "_":
        id = name[-PART - 1 - ID : -PART - 1]
    return id if name.startswith("rollout-") and name.endswith(".jsonl") and id.count("-") == 4 else None


def days_of(id: str) -> list[str]:
    """Return the day folders that a thread may be in: its id (UUIDv7) begins with its time; folders go by local
    time."""
    began = begun_at(id)
    try:
        moments = [time.localtime(began + shift) for shift in (0, -DAY, DAY)] if began is not None else []
    except (ValueError, OverflowError, OSError):
        return []
    return list(dict.fromkeys(time.strftime("%Y/%m/%d", moment) for moment in moments))


def is_in_its_place(folder: str, name: str) -> bool:
    """Return whether a rollout is in the folder of the day that its name begins with. Another file of the same thread,
    in another folder, is a copy: restored from a backup, or archived."""
    return folder.endswith(name[8:18].replace("-", "/"))  # rollout-2026-01-02T...


def begun_at(id: str) -> float | None:
    """Return when a thread began, by its id; None if the id is of another kind."""
    try:
        return int(id.replace("-", "")[:12], 16) / 1000
    except ValueError:
        return None


def may_be_child(thread: str, parent: str, ended_at: float) -> bool:
    """Return whether a thread can be a sub-agent of another one, by when it began: in the life of its parent."""
    began = begun_at(thread)
    return thread > parent and (began is None or began <= ended_at)


def ended_at(path: str | None, updated_at: float | None) -> float:
    """Return when the last sub-agent of a thread can have begun: a while after its rollout was written, by its time and
    by what it holds. A parent that is killed may not have written that it began one."""
    try:
        written = os.stat(path).st_mtime if path else 0.0
    except OSError:
        return float("inf")
    end = max(written, updated_at or 0.0)
    return end + AFTER_ITS_END if end > EARLIEST else float("inf")


def ids_of_days(files: Reader, heads: Sequence[str], archive: str) -> set[str] | None:
    """Return the threads of the days in which ids began like these; None if the beginning of one is no time."""
    days = [days_of(head.ljust(TIME_IN_ID, "0")) for head in heads]
    if not all(days):
        return None
    folders = sorted({f"{files.root}/sessions/{day}" for found in days for day in found})
    names = (name for folder in (*folders, archive) for name in files.names(folder))
    return {id for name in names if (id := thread_of(name))}


def days_in(files: Reader) -> Iterator[str]:
    """Yield the folders of all days, below year and month."""
    for year in numbered(f"{files.root}/sessions", files):
        for month in numbered(year, files):
            yield from numbered(month, files)


def numbered(folder: str, files: Reader) -> list[str]:
    """Return the folders of the years, months or days in a folder. A file that somebody left there is none."""
    found = []
    for name in files.names(folder):
        path = f"{folder}/{name}"
        if name.isdigit() or not os.path.isfile(path):
            found.append(path)
        else:
            files.note_stray(path)
    return found


def payload_of(line: bytes) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
    """Return the record type, the payload and the record of a rollout line."""
    record = decode(line)
    payload = record.get("payload") if record else None
    if record is None or not isinstance(payload, dict):
        return None
    return str(record.get("type")), payload, record


def read_tail(file: Opened) -> Tail:
    """Return how the last turn stands. Once its end was seen, its calls and their outputs are not decoded: they matter
    only if that end turns out to be of another turn."""
    return walk_back(file, brief=True) or walk_back(file, brief=False) or Tail()


def walk_back(file: Opened, *, brief: bool) -> Tail | None:
    """Walk back to the last task_started, collecting what closed it and which calls got no output. None: with `brief`,
    something was passed over that would have been needed."""
    walk = Walk()
    lines = Backward(file, TAIL_LIMIT, tell=True)
    for data, begin, after in lines:
        first, walk.begun = not walk.begun, True
        if data is TOO_LONG:
            return walk.tail._replace(turn=UNKNOWN, reason="its last records are too long to be read")
        if walk.knows_last_item and walk.tail.updated_at is not None:
            ended = brief and bool(walk.closed)
            if (kind := passable(data, begin, after, ended)) is not None:
                walk.passed = pass_over(lines, ended) or walk.passed or kind in CALLED
                continue
        line = data[begin:after]
        parts = payload_of(line)
        if parts is None and not walk.closed:
            if is_garbled(line) or not (is_cut(line) or decode(line)):
                why = "its last records cannot be read: they are not what its agent writes"
                return walk.tail._replace(turn=UNKNOWN, reason=why)
            walk.cut = walk.cut or (first and is_cut(line))
        if parts is not None and walk.take(*parts):
            break
    if file.size == 0:
        return walk.tail._replace(reason="its rollout is empty")
    return walk.judged()


class Walk:
    """What is known of a rollout while it is read from its end."""

    def __init__(self) -> None:
        self.tail = Tail()
        self.start: dict[str, Any] | None = None  # the last task_started, or the one of the turn around it
        self.inner: tuple[dict[str, Any], float | None] | None = None  # the last task_started, inside another turn
        self.closed: dict[str, dict[str, Any]] = {}  # turn id -> what ended it
        self.last_item: dict[str, Any] | None = None  # for rollouts of versions that kept no task_started
        self.item_before_end: dict[str, Any] | None = None  # the last one of a turn that has an end
        self.knows_last_item = False
        self.answered: set[str] = set()  # ids of calls
        self.pending: list[tuple[str, str, str]] = []
        self.refused = 0
        self.understood = False  # a record of Codex' own was seen
        self.cut = False  # the last record is not whole, and behind the end of a turn
        self.begun = False  # a line was looked at
        self.passed = False  # calls or outputs were not decoded
        self.begun_at: float | None = None
        self.ended_at: dict[str, float | None] = {}  # by turn id
        self.asked_at: float | None = None
        self.before_calls: float | None = None  # the newest output that stands before all pending calls

    def take(self, kind: str, payload: dict[str, Any], record: dict[str, Any]) -> bool:
        """Take what a record tells. Return whether it began the last turn: no older one is needed."""
        self.understood = self.understood or kind in OWN_TYPES
        if self.tail.updated_at is None:
            self.tail = self.tail._replace(updated_at=moment(record.get("timestamp")))
        subtype = payload.get("type")
        if kind == "turn_context":
            self.tail = with_context(self.tail, payload)
        elif kind == "response_item":
            self.take_item(payload, record)
        elif kind == "event_msg" and subtype in ("task_complete", "turn_aborted"):
            self.knows_last_item = self.item_before_end is not None  # what stands behind an end is not of that turn
            self.closed.setdefault(str(payload.get("turn_id")), payload)
            self.ended_at.setdefault(str(payload.get("turn_id")), moment(record.get("timestamp")))
        elif kind == "event_msg" and subtype == "task_started":
            return self.take_start(payload, moment(record.get("timestamp")))
        return False

    def take_start(self, payload: dict[str, Any], at: float | None) -> bool:
        """Take the begin of a turn. Return whether it is the last one, or around the last one. If only the end of
        another turn stands behind the last begin, that turn may be around it."""
        is_closed = str(payload.get("turn_id")) in self.closed
        if not is_closed and any(end.get("reason") != REPLACED for end in self.closed.values()):
            self.inner = self.inner or (payload, at)
            return False
        if is_closed or self.inner is None:
            self.start, self.begun_at = payload, at
        return is_closed or self.inner is None

    def take_item(self, payload: dict[str, Any], record: dict[str, Any]) -> None:
        self.last_item, self.knows_last_item = self.last_item or payload, True
        if self.closed:
            self.item_before_end = self.item_before_end or payload
        subtype, call_id = payload.get("type"), str(payload.get("call_id"))
        if subtype in OUTPUTS:
            self.answered.add(call_id)
            self.refused += is_refusal(payload)
            self.before_calls = self.before_calls or moment(record.get("timestamp"))
        elif subtype in CALLS and call_id not in self.answered and len(self.pending) < MOST_PENDING:
            self.asked_at = self.asked_at or moment(record.get("timestamp"))
            self.pending.append((call_id, str(payload.get("name")), describe_call(payload)))
            self.before_calls = None

    def judged(self) -> Tail | None:
        """Return how the last turn stands; None if that depends on what was passed over."""
        if self.start is None and self.inner is not None:
            self.start, self.begun_at = self.inner  # the other turn began nowhere
        end = self.closed.get(str(self.start.get("turn_id"))) if self.start is not None else None
        if end is None and self.passed:
            return None
        tail = self.tail
        if self.start is not None:
            tail = judge_turn(tail, end, self.item_before_end)
            if self.inner is not None:
                why = "a turn inside it has no end of its own" if end is not None else "the end of another turn follows"
                tail = tail._replace(inferred=True, reason=f"{tail.reason}; {why}")
        elif self.last_item is not None:
            tail = judge_without_events(tail, self.last_item, bool(self.pending), bool(self.closed))
        elif self.understood and not self.cut:
            tail = tail._replace(turn=IDLE, reason="no turn was begun")
        if self.cut and tail.turn in CLOSED_TURNS:
            tail = tail._replace(inferred=True, reason=f"{tail.reason}; a record behind it is not whole")
        if tail.turn == DONE and self.refused:
            tail = tail._replace(refused=self.refused, reason=f"{tail.reason}; {refused_calls(self.refused)}")
        ended_at = self.ended_at.get(str(self.start.get("turn_id"))) if self.start is not None else None
        tail = tail._replace(begun_at=self.begun_at, ended_at=ended_at)
        if tail.turn != WORKING:
            return tail
        before = self.before_calls or self.begun_at
        return tail._replace(pending=tuple(reversed(self.pending)), asked_at=self.asked_at, before_calls=before)


def pass_over(lines: Backward, ended: bool) -> bool:
    """Pass over the lines of a block that need not be decoded. Return whether calls or outputs were among them."""
    block, after, calls = lines.block, lines.after, False
    while (newline := block.rfind(b"\n", 0, after)) >= 0:
        if (kind := passable(block, newline + 1, after, ended)) is None:
            break
        after, calls = newline, calls or kind in CALLED
    lines.after = after
    return calls


def passable(data: bytes, begin: int, after: int, ended: bool) -> bytes | None:
    """Return the kind of a line that need not be decoded; None if it has to be. `ended`: the end of a turn was seen."""
    early = data[begin : begin + BEGINNING if begin + BEGINNING < after else after]
    if early[:1] != b"{" or data.find(GLUED, begin, after) >= 0:
        return None
    at = early.find(KIND)
    if at >= 0:
        at += len(KIND)
        kind = early[at : early.find(b'"', at)]
        if kind in CALLED:
            return kind if ended and not (kind in ANSWERED and may_be_refused(data, begin, after)) else None
        return None if kind in KINDS else kind
    if is_of_another_type(early) or not any(data.find(mark, begin, after) >= 0 for mark in INTERESTING):
        return b""
    return None


def is_of_another_type(early: bytes) -> bool:
    """Return whether a record says before its payload that it says nothing of a turn."""
    before, named, rest = early.partition(b'"type":"')
    return bool(named) and b'"payload"' not in before and not rest.startswith(TYPES)


def may_be_refused(data: bytes, begin: int, after: int) -> bool:
    """Return whether this can be the output of a refused command: only its beginning would say so."""
    at = data.find(b'"output":"', begin, min(begin + BEGINNING, after))
    return REFUSING in data[begin : min(at + LONGEST_SAID, after) if at >= 0 else after]


def is_refusal(payload: dict[str, Any]) -> bool:
    """Return whether an output says that its command was not allowed to run."""
    output = payload.get("output")
    return isinstance(output, str) and any(mark in output[:SAID] for mark in REFUSED_MARKS)


def with_context(tail: Tail, payload: dict[str, Any]) -> Tail:
    return tail._replace(
        model=tail.model or text_or_none(payload.get("model")),
        policy=tail.policy or text_or_none(payload.get("approval_policy")),
        cwd=tail.cwd or text_or_none(payload.get("cwd")),
    )


def judge_turn(tail: Tail, end: dict[str, Any] | None, last: dict[str, Any] | None = None) -> Tail:
    """`last`: the last item of the conversation before the end of the turn."""
    if end is None:
        return tail._replace(turn=WORKING, reason="its last turn was begun and has no end record")
    if end.get("type") == "turn_aborted":
        how = text_or_none(end.get("reason")) or "aborted"
        return tail._replace(turn=INTERRUPTED, reason=f"its last turn was aborted ({how})")
    error = end.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        return tail._replace(turn=FAILED, reason="its last turn ended in an error", error=str(message))
    if end.get("last_agent_message", "") is None and last is not None and awaits_answer(last):
        why = "its last turn ended without an answer of the model, and its rollout does not say why"
        return tail._replace(turn=FAILED, reason=why, inferred=True)
    return tail._replace(turn=DONE, reason="its last turn is complete")


def awaits_answer(item: dict[str, Any]) -> bool:
    """Return whether the model had to go on after this item: a prompt of a person, or an output. Versions up to 0.14x
    close a turn that failed as one that is complete; what the program tells the model by itself is no prompt."""
    if item.get("type") == "message" and item.get("role") == "user":
        return not message_text(item).startswith("<")
    return item.get("type") in OUTPUTS


def judge_without_events(tail: Tail, item: dict[str, Any], pending: bool, aborted: bool) -> Tail:
    """Judge an older rollout by the last item of its conversation: a guess."""
    if aborted and not pending:
        return tail._replace(turn=INTERRUPTED, reason="an older rollout; its last turn was aborted", inferred=True)
    if item.get("type") == "message" and item.get("role") == "assistant":
        return tail._replace(turn=DONE, reason="an older rollout; its last item is an answer", inferred=True)
    return tail._replace(turn=WORKING, reason="an older rollout; its last item is not an answer", inferred=True)


def read_head(file: Opened) -> Head:
    """Return what session_meta and the first prompt of a person say."""
    head = Head()
    for line in lines_forward(file, HEAD_LIMIT, HEAD_CHUNK):
        if head.id is not None and line.rfind(b'"user"') < 0:
            continue  # the program's own instructions are long
        parts = payload_of(line)
        if parts is None:
            continue
        kind, payload, _ = parts
        if kind == "session_meta" and head.id is None:
            head = from_meta(payload)
        elif kind == "response_item" and payload.get("type") == "message" and payload.get("role") == "user":
            text = message_text(payload)
            if text and not text.startswith("<"):  # environment, instructions: the program's own
                return head._replace(prompt=text)
    return head


def parent_in(path: str) -> str | None:
    """Return the thread that this one is a sub-agent of. Mostly without decoding: every thread is asked that began in
    the life of another one."""
    if OF_A_PERSON in read_bytes(path, FIRST_WORDS):
        return None
    beginning = read_bytes(path, META_LIMIT)
    if b'"parent_thread_id"' not in beginning and b'"session_meta"' in beginning and b"\n" in beginning:
        return None
    with Opened(path) as file:
        return read_head(file).parent


def from_meta(payload: dict[str, Any]) -> Head:
    git = payload.get("git")
    source = payload.get("source")
    spawn = source.get("subagent") if isinstance(source, dict) else None
    return Head(
        id=text_or_none(payload.get("id")),
        cwd=text_or_none(payload.get("cwd")),
        branch=text_or_none(git.get("branch")) if isinstance(git, dict) else None,
        version=text_or_none(payload.get("cli_version")),
        parent=text_or_none(payload.get("parent_thread_id")) or parent_of(spawn),
        forked_from=text_or_none(payload.get("forked_from_id")),
        started_at=moment(payload.get("timestamp")),
        originator=text_or_none(payload.get("originator")),
    )


def parent_of(spawn: object) -> str | None:
    inner = spawn.get("thread_spawn") if isinstance(spawn, dict) else None
    return text_or_none(inner.get("parent_thread_id")) if isinstance(inner, dict) else None


def message_text(payload: dict[str, Any]) -> str:
    content = payload.get("content")
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict)).strip()
