"""Codex's rollout (sessions/YYYY/MM/DD/rollout-<local time>-<thread>.jsonl): its name, and how the last turn stands.

A turn is open from its task_started to the task_complete or turn_aborted of the same turn id. Other records may
follow the end by many seconds, and a killed turn stays open for ever: only the last task_started counts.
"""

from __future__ import annotations

import time

from agentctl.model import DONE, FAILED, IDLE, INTERRUPTED, UNKNOWN, WORKING, Message, Value
from agentctl.stores import TOO_LONG, Backward, Opened, decode, lines_forward, moment, read_bytes, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY = 24 * 60 * 60
TAIL_LIMIT = 64 * 1024 * 1024
HEAD_LIMIT = 1024 * 1024
HEAD_CHUNK = 32 * 1024  # its first record holds the program's own instructions
META_LIMIT = 64 * 1024

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
REFUSED_MARKS = ("reject command", "rejected by user")
SAID = 200  # characters of an output that say so
LONGEST_SAID = len(b'"output":"') + SAID * len(b"\\ud83d\\ude00")  # the same in a file, where all are escaped
REFUSING = b"reject"  # in each of them
BEGINNING = 256  # of a line
KIND = b'"payload":{"type":"'
TYPES = (b'event_msg"', b'response_item"', b'turn_context"')
KINDS = frozenset(mark[1:-1] for mark in INTERESTING)
CALLED = frozenset(kind.encode() for kind in (*CALLS, *OUTPUTS))
ANSWERED = frozenset(kind.encode() for kind in OUTPUTS)


class Tail(Value):
    turn: str = IDLE
    reason: str = "no turn was begun"
    error: str | None = None
    pending: tuple[tuple[str, str, str], ...] = ()  # (call id, tool, what it would do), oldest first
    inferred: bool = False
    refused: int = 0
    model: str | None = None
    policy: str | None = None
    cwd: str | None = None
    updated_at: float | None = None


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


def thread_of(name: str) -> str | None:
    """The thread id at the end of a rollout's file name."""
    id = name.removesuffix(".jsonl")[-36:]
    return id if name.startswith("rollout-") and name.endswith(".jsonl") and id.count("-") == 4 else None


def days_of(id: str) -> list[str]:
    """The day folders a thread may be in: its id (UUIDv7) begins with its time; folders go by local time."""
    try:
        began = int(id.replace("-", "")[:12], 16) / 1000
        moments = [time.localtime(began + shift) for shift in (0, -DAY, DAY)]
    except (ValueError, OverflowError, OSError):
        return []
    return list(dict.fromkeys(time.strftime("%Y/%m/%d", moment) for moment in moments))


def payload_of(line: bytes) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
    """(record type, payload, record) of a rollout line."""
    record = decode(line)
    payload = record.get("payload") if record else None
    if record is None or not isinstance(payload, dict):
        return None
    return str(record.get("type")), payload, record


def read_tail(file: Opened) -> Tail:
    """How the last turn stands. Once its end was seen, its calls and their outputs are not decoded: they matter only
    where that end turns out to be of another turn."""
    return walk_back(file, brief=True) or walk_back(file, brief=False) or Tail()


def walk_back(file: Opened, *, brief: bool) -> Tail | None:
    """Walk back to the last task_started, collecting what closed it and which calls got no output. None: with `brief`,
    something was passed over that would have been needed."""
    tail = Tail()
    passed = False
    closed: dict[str, dict[str, Any]] = {}
    answered: set[str] = set()
    pending: list[tuple[str, str, str]] = []
    refused = 0
    started = False
    last_item: dict[str, Any] | None = None  # for rollouts of versions that kept no task_started
    lines = Backward(file, TAIL_LIMIT, tell=True)
    for data, begin, after in lines:
        if data is TOO_LONG:
            return tail._replace(turn=UNKNOWN, reason="its last records are too long to be read")
        first_look = tail.updated_at is None
        if not first_look and last_item is not None:
            ended = brief and bool(closed)
            if (why := passable(data, begin, after, ended)) is not None:
                passed = pass_over(lines, ended) or passed or why in CALLED
                continue
        found = payload_of(data[begin:after])
        if found is None:
            continue
        kind, payload, record = found
        if first_look:
            tail = tail._replace(updated_at=moment(record.get("timestamp")))
        subtype = payload.get("type")
        if kind == "turn_context":
            tail = with_context(tail, payload)
        elif kind == "response_item":
            last_item = last_item or payload
            call_id = str(payload.get("call_id"))
            if subtype in OUTPUTS:
                answered.add(call_id)
                refused += is_refusal(payload)
            elif subtype in CALLS and call_id not in answered and len(pending) < MOST_PENDING:
                pending.append((call_id, str(payload.get("name")), describe_call(payload)))
        elif kind == "event_msg" and subtype in ("task_complete", "turn_aborted"):
            closed.setdefault(str(payload.get("turn_id")), payload)
        elif kind == "event_msg" and subtype == "task_started":
            end = closed.get(str(payload.get("turn_id")))
            if end is None and passed:
                return None
            tail = judge_turn(tail, end)
            started = True
            break
    if not started and passed:
        return None
    if not started and last_item is not None:
        tail = judge_without_events(tail, last_item, bool(pending), bool(closed))
    if tail.turn == DONE and refused:
        words = f"{refused} tool calls were refused" if refused > 1 else "1 tool call was refused"
        tail = tail._replace(refused=refused, reason=f"{tail.reason}; {words}")
    return tail._replace(pending=tuple(reversed(pending)) if tail.turn == WORKING else ())


def pass_over(lines: Backward, ended: bool) -> bool:
    """Pass over the lines of its block that need not be decoded. Were there calls or outputs among them?"""
    block, after, calls = lines.block, lines.after, False
    while (newline := block.rfind(b"\n", 0, after)) >= 0:
        if (kind := passable(block, newline + 1, after, ended)) is None:
            break
        after, calls = newline, calls or kind in CALLED
    lines.after = after
    return calls


def passable(data: bytes, begin: int, after: int, ended: bool) -> bytes | None:
    """What a line is that need not be decoded; None for one that has to be. `ended`: the end of a turn was seen."""
    early = data[begin : begin + BEGINNING if begin + BEGINNING < after else after]
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
    """Does a record say before its payload that it is none of those that tell of a turn?"""
    before, named, rest = early.partition(b'"type":"')
    return bool(named) and b'"payload"' not in before and not rest.startswith(TYPES)


def may_be_refused(data: bytes, begin: int, after: int) -> bool:
    """Can this be an output that says that its command was not allowed to run? Only its beginning would say so."""
    at = data.find(b'"output":"', begin, min(begin + BEGINNING, after))
    return REFUSING in data[begin : min(at + LONGEST_SAID, after) if at >= 0 else after]


def is_refusal(payload: dict[str, Any]) -> bool:
    """An output that says that the command was not allowed to run."""
    output = payload.get("output")
    return isinstance(output, str) and any(mark in output[:SAID] for mark in REFUSED_MARKS)


def with_context(tail: Tail, payload: dict[str, Any]) -> Tail:
    return tail._replace(
        model=tail.model or text_or_none(payload.get("model")),
        policy=tail.policy or text_or_none(payload.get("approval_policy")),
        cwd=tail.cwd or text_or_none(payload.get("cwd")),
    )


def judge_turn(tail: Tail, end: dict[str, Any] | None) -> Tail:
    if end is None:
        return tail._replace(turn=WORKING, reason="its last turn was begun and has no end record")
    if end.get("type") == "turn_aborted":
        how = text_or_none(end.get("reason")) or "aborted"
        return tail._replace(turn=INTERRUPTED, reason=f"its last turn was aborted ({how})")
    error = end.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        return tail._replace(turn=FAILED, reason="its last turn ended in an error", error=str(message))
    return tail._replace(turn=DONE, reason="its last turn is complete")


def judge_without_events(tail: Tail, item: dict[str, Any], pending: bool, aborted: bool) -> Tail:
    """An older rollout: only the last item of the conversation tells, and it is a guess."""
    if aborted and not pending:
        return tail._replace(turn=INTERRUPTED, reason="an older rollout; its last turn was aborted", inferred=True)
    if item.get("type") == "message" and item.get("role") == "assistant":
        return tail._replace(turn=DONE, reason="an older rollout; its last item is an answer", inferred=True)
    return tail._replace(turn=WORKING, reason="an older rollout; its last item is not an answer", inferred=True)


def describe_call(payload: dict[str, Any]) -> str:
    """A tool call as a person would say it."""
    name = str(payload.get("name"))
    arguments = payload.get("arguments")
    given = decode(arguments) if isinstance(arguments, str) else None
    command = given.get("cmd") or given.get("command") or question_of(given) if given else None
    if isinstance(command, list):
        command = " ".join(str(word) for word in command)
    return command if isinstance(command, str) else name


def question_of(given: dict[str, Any]) -> str | None:
    """The first question of a call that asks the person."""
    questions = given.get("questions")
    first = questions[0] if isinstance(questions, list) and questions else None
    return text_or_none(first.get("question")) if isinstance(first, dict) else None


def read_head(file: Opened) -> Head:
    """session_meta, and the first prompt that a person wrote."""
    head = Head()
    for line in lines_forward(file, HEAD_LIMIT, HEAD_CHUNK):
        if head.id is not None and line.rfind(b'"user"') < 0:
            continue  # the program's own instructions are long
        found = payload_of(line)
        if found is None:
            continue
        kind, payload, _ = found
        if kind == "session_meta" and head.id is None:
            head = from_meta(payload)
        elif kind == "response_item" and payload.get("type") == "message" and payload.get("role") == "user":
            text = message_text(payload)
            if text and not text.startswith("<"):  # environment, instructions: the program's own
                return head._replace(prompt=text)
    return head


def parent_in(path: str) -> str | None:
    """The thread that this one is a sub-agent of. Mostly without decoding: all that are younger are asked."""
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
    )


def parent_of(spawn: object) -> str | None:
    inner = spawn.get("thread_spawn") if isinstance(spawn, dict) else None
    return text_or_none(inner.get("parent_thread_id")) if isinstance(inner, dict) else None


def message_text(payload: dict[str, Any]) -> str:
    content = payload.get("content")
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict)).strip()


def messages_of(line: bytes) -> list[Message]:
    """The messages on one line of a rollout. What the program tells the model by itself is none."""
    if b'"response_item"' not in line and b'"task_complete"' not in line and b'"turn_aborted"' not in line:
        return []
    found = payload_of(line)
    if found is None:
        return []
    kind, payload, record = found
    at = moment(record.get("timestamp"))
    subtype = payload.get("type")
    if kind == "response_item" and subtype == "message" and payload.get("role") in ("user", "assistant"):
        text = message_text(payload)
        return [Message(str(payload["role"]), text, at)] if text and not text.startswith("<") else []
    if kind == "response_item" and subtype in CALLS:
        name = str(payload.get("name"))
        what = describe_call(payload)
        return [Message("tool", what if what == name else f"{name}: {what}", at, tool=name)]
    if kind == "response_item" and subtype in OUTPUTS:
        said = payload.get("output")
        return [Message("result", said.strip() if isinstance(said, str) else str(said), at)]
    if kind == "event_msg" and subtype == "turn_aborted":
        return [Message("note", f"the turn was aborted ({payload.get('reason')})", at, failed=True)]
    if kind == "event_msg" and subtype == "task_complete" and isinstance(error := payload.get("error"), dict):
        return [Message("note", str(error.get("message")), at, failed=True)]
    return []
