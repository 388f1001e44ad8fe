"""Claude Code's transcript (projects/<slug>/<id>.jsonl): how the last turn stands, from a bounded look at its end.

The last line is often bookkeeping, and nothing is written while a model streams, so neither the last line nor the
file's age says anything. What counts is T: the last user or assistant record of the main conversation.
"""

from __future__ import annotations

from agentctl.agents.claude_records import (
    LOCAL_COMMAND_MARKS,
    Tail,
    ends_turn,
    has_context,
    has_title,
    is_anchor,
    is_conversation,
    is_interrupt,
    is_tool_result,
    judge_turn,
    plain_text,
    refusal,
    undecided,
    with_context,
    with_title,
)
from agentctl.model import DONE, UNKNOWN, Value
from agentctl.stores import TOO_LONG, Backward, amount, decode, lines_forward, moment, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.stores import Opened, Span

TAIL_LIMIT = 32 * 1024 * 1024  # to find T at all; normally the first 64 KB have it
COMFORT_LIMIT = 512 * 1024  # for what is only nice to have once T is known
HEAD_LIMIT = 512 * 1024

# What begins with its type has no place in the conversation: of these only some tell anything, and others are long.
BARE = b'{"type":"'
TITLES = (b"custom-title", b"ai-title")
TELLING = frozenset((*b"user assistant attachment cost-state last-prompt".split(), *TITLES))
NEWER = b"atis-latch"
# Of all others a line is decoded only if it holds one of these. No text can fake it: inside a
# JSON string the quotes are escaped.
INTERESTING = (
    b'"user"',
    b'"assistant"',
    b'"max_turns_reached"',
    b'"custom-title"',
    b'"ai-title"',
    b'"cost-state"',
    b'"last-prompt"',
)
BEGINNING = 512  # of a line: who wrote it, and what its first block is
BRANCH = b'"gitBranch":"'
PARENT = b'{"parentUuid":'
IS_ERROR = b'"is_error":'
NO_ERROR = b'"is_error":false}]}'  # of the last result of a message
ACCEPTED = b'"permissionDecision":{"decision":"accept"'
OWN_FIELDS = 1024  # at the end of a line: the fields of the record itself
# Titles are written again after every 32 KB, so that the last 64 KB hold them: the agent itself looks no further.
TITLES_WITHIN = 64 * 1024


class Head(Value):
    """What the beginning of a transcript tells."""

    prompt: str | None = None
    started_at: float | None = None
    cwd: str | None = None
    ai_title: str | None = None


def read_tail(file: Opened, *, sidechain: bool = False) -> Tail:
    """Walk back from the end until T, the prompt of its turn and the last model are known.

    The lines of a first turn can stand in another order than they happened in (seen: the answer before its prompt). A
    record names its parent, so an earlier line that descends from T is the later record: no clock is asked. Nothing of
    its turn comes after a T that ends it.
    """
    tail = Tail()
    decided = False  # T was found
    final = False  # and ends its turn
    last = b""  # its uuid
    behind: list[bytes] = []  # the lines behind T
    parents: dict[bytes, bytes] = {}  # uuid -> uuid of its parent, of the lines that were seen
    below: frozenset[bytes] = frozenset()  # T, and what descends from it of the lines behind it
    anchored = False  # the last record that a model or a person wrote was found: end markers stand after it
    titled = False  # a title was found, and stood behind a record of the conversation: no older one counts
    start = 0  # of T
    ended_with: set[str] = set()  # end markers after the anchor
    newer = False  # this version marks its end with cost-state and writes last-prompt in mid-turn as well
    max_turns = False
    read = 0
    passed: list[Span] | None = []  # lines that were not looked into; None: each is, for one descends from T
    lines = Backward(file, TAIL_LIMIT, tell=True)
    for data, begin, after in lines:
        if data is TOO_LONG and not decided:
            return tail._replace(turn=UNKNOWN, reason="its last records are too long to be read")
        read += after - begin + 1
        if decided and read > COMFORT_LIMIT:
            break
        in_conversation = data.startswith(PARENT, begin)
        titled = titled or (in_conversation and has_title(tail))
        if passed is not None and anchored and has_context(tail) and adds_nothing(data, begin, after, tail, below):
            rest, lines.after = lines.after, pass_over(lines, tail, below)
            if not final:
                passed += (data, begin, after), (lines.block, lines.after + 1, rest)
            read += rest - lines.after
            continue
        if below and passed is not None and parent_at(data, begin, after) in below:
            looked_at = (line for block, first, end in passed for line in block[first:end].split(b"\n"))
            parents.update(named for line in looked_at for named in parent_in(line))
            passed = None
        if not in_conversation and data.startswith(BARE, begin):
            line = data[begin:after]
            newer = newer or kind_of(line) == NEWER
            if kind_of(line) not in TELLING:
                continue
        else:
            line = data[begin:after]
            if not any(mark in line for mark in INTERESTING):
                if not final:
                    parents.update(parent_in(line)) if decided else behind.append(line)
                continue
        if not decided:
            behind.append(line)
        elif not final:
            parents.update(parent_in(line))
        record = decode(line)
        if record is None:
            continue
        kind = record.get("type")
        if kind in ("custom-title", "ai-title"):
            if not decided and not titled:
                tail = with_title(tail, record)
        elif kind in ("cost-state", "last-prompt"):
            if not anchored:
                ended_with.add(kind)
            if kind == "cost-state" and tail.cost_usd is None:
                tail = tail._replace(cost_usd=amount(record.get("totalCostUSD")))
        elif kind == "attachment" and not decided:
            attachment = record.get("attachment")
            max_turns = max_turns or (isinstance(attachment, dict) and attachment.get("type") == "max_turns_reached")
        elif kind in ("user", "assistant") and bool(record.get("isSidechain")) == sidechain:
            tail = with_context(tail, record)
            if not is_conversation(record):
                continue
            anchored = anchored or is_anchor(record)
            uuid = b"" if final else uuid_after(line, b'"uuid":"')
            if not decided or (uuid and descends(uuid, last, parents)):
                if not decided:
                    start = lines.start
                    parents.update(named for line in behind for named in parent_in(line))
                tail, decided, last = judge_turn(undecided(tail), record, max_turns), True, uuid
                final = ends_turn(tail)
                below = frozenset() if final else family_of(last, parents)
            elif is_tool_result(record):
                if tail.turn == DONE and refusal(record):
                    tail = tail._replace(refused=tail.refused + 1)
            elif kind == "user" and not is_interrupt(record) and tail.model is not None:
                break
    newer = newer or "cost-state" in ended_with
    orderly = "cost-state" in ended_with if newer else "last-prompt" in ended_with
    tail = tail if has_title(tail) else with_older_title(tail, file, start)
    return tail._replace(orderly=orderly if decided else None)


def with_older_title(tail: Tail, file: Opened, end: int) -> Tail:
    """With the newest title before `end`; those that stand together are one."""
    lines = Backward(file, end - max(0, file.size - TITLES_WITHIN), end)
    for data, begin, after in lines:
        if data.startswith(PARENT, begin):
            if has_title(tail):
                break
            lines.after = pass_conversation(lines)
        elif kind_of(data[begin:after]) in (*TITLES, None):
            record = decode(data[begin:after]) or {}
            tail = with_title(tail, record) if record.get("type") in ("custom-title", "ai-title") else tail
    return tail


def kind_of(line: bytes) -> bytes | None:
    """The type of a record that begins with it."""
    return line[len(BARE) : line.find(b'"', len(BARE))] if line.startswith(BARE) else None


def pass_conversation(lines: Backward) -> int:
    """Behind which line of its block the next one is that is no record of the conversation."""
    block, after = lines.block, lines.after
    while (newline := block.rfind(b"\n", 0, after)) >= 0 and block.startswith(PARENT, newline + 1):
        after = newline
    return after


def pass_over(lines: Backward, tail: Tail, below: frozenset[bytes]) -> int:
    """Behind which line of its block to go on."""
    block, after = lines.block, lines.after
    while (newline := block.rfind(b"\n", 0, after)) >= 0:
        if not adds_nothing(block, newline + 1, after, tail, below):
            break
        after = newline
    return after


def adds_nothing(data: bytes, begin: int, after: int, tail: Tail, below: frozenset[bytes]) -> bool:
    """Once T is known, most of its turn are calls and results that need not be decoded: all they could still tell is
    that a call was refused, that they happened after T (`below`), and their branch."""
    early = data[begin : begin + BEGINNING if begin + BEGINNING < after else after]
    if early[:14] != PARENT or early[15:51] in below:  # slices and `in`: half the cost of find() with a place
        return False
    if tail.branch is None and names_branch(data, begin, after):
        return False
    if b'"role":"assistant"' in early:
        return True
    if b'"role":"user"' not in early or b'"tool_result"' not in early:
        return False
    return tail.turn != DONE or not may_be_refused(data, begin, after)


def names_branch(data: bytes, begin: int, after: int) -> bool:
    at = data.rfind(BRANCH, begin, after)
    return at >= 0 and not data.startswith(b'"', at + len(BRANCH))


def may_be_refused(data: bytes, begin: int, after: int) -> bool:
    """Can this be the result of a call that was refused? Such a result is an error, and in newer versions the record
    says so behind all that it holds. What a command wrote is half of nearly every transcript, so it is passed over
    once at most, and its copy behind the message not at all."""
    at = data.find(IS_ERROR, begin, after)
    if at >= 0 and data[at : at + len(NO_ERROR)] != NO_ERROR:
        return True
    own = data[max(begin, after - OWN_FIELDS) : after]
    if b'"toolDenialKind"' in own:
        return True
    return b'"permissionDecision"' in own and ACCEPTED not in own


def parent_in(line: bytes) -> list[tuple[bytes, bytes]]:
    """(its uuid, that of its parent), where it has both."""
    uuid, parent = uuid_after(line, b'"uuid":"'), parent_at(line, 0, len(line))
    return [(uuid, parent)] if uuid and parent else []


def parent_at(data: bytes, begin: int, after: int) -> bytes:
    """The uuid of its parent, with which a record begins; empty where it has none."""
    if data.startswith(PARENT, begin):
        at = begin + len(PARENT)
        return data[at + 1 : at + 37] if data.startswith(b'"', at) else b""
    return uuid_after(data[begin:after], b'"parentUuid":"')


def uuid_after(line: bytes, mark: bytes) -> bytes:
    """A uuid of a record without decoding it. The last one: what a record holds stands before its own fields."""
    at = line.rfind(mark) + len(mark)
    return line[at : at + 36] if at >= len(mark) else b""


def descends(uuid: bytes, from_: bytes, parents: dict[bytes, bytes]) -> bool:
    passed = 0
    while uuid and from_ and passed <= len(parents):
        uuid, passed = parents.get(uuid, b""), passed + 1
        if uuid == from_:
            return True
    return False


def family_of(uuid: bytes, parents: dict[bytes, bytes]) -> frozenset[bytes]:
    """It, and all that descend from it."""
    return frozenset((uuid, *(one for one in parents if descends(one, uuid, parents))))


def read_head(file: Opened) -> Head:
    """The first prompt, where and when."""
    head = Head()
    for line in lines_forward(file, HEAD_LIMIT):
        if not (b'"user"' in line or b'"ai-title"' in line or (head.started_at is None and b'"timestamp"' in line)):
            continue
        record = decode(line)
        if record is None:
            continue
        head = head._replace(
            started_at=head.started_at or moment(record.get("timestamp")),
            cwd=head.cwd or text_or_none(record.get("cwd")),
        )
        if record.get("type") == "ai-title":
            head = head._replace(ai_title=text_or_none(record.get("aiTitle")))
        elif record.get("type") == "user" and not record.get("isMeta") and not is_tool_result(record):
            text = plain_text(record).strip()
            if text and not text.startswith(LOCAL_COMMAND_MARKS):
                return head._replace(prompt=text)
    return head
