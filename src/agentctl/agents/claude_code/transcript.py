"""Claude Code's transcript (projects/<slug>/<id>.jsonl): how the last turn stands, from a bounded look at its end.

The last line is often bookkeeping, and nothing is written while a model streams, so neither the last line nor the
file's age says anything. What counts is T: the last user or assistant record of the main conversation.
"""

from __future__ import annotations

from agentctl.agents.claude_code.records import (
    LOCAL_COMMAND_MARKS,
    NEWER,
    PUT_OFF,
    STOPPED,
    Tail,
    ends_turn,
    has_context,
    has_title,
    is_anchor,
    is_conversation,
    is_end_mark,
    is_own,
    is_prompt,
    is_tool_result,
    is_unsure,
    judge_turn,
    plain_text,
    refusal,
    undecided,
    with_context,
    with_end_mark,
    with_hook,
    with_prompt,
    with_title,
)
from agentctl.files.bounded import (
    TOO_LONG,
    Backward,
    amount,
    decode,
    is_cut,
    is_garbled,
    lines_forward,
    moment,
    text_or_none,
)
from agentctl.model import CLOSED_TURNS, DONE, IDLE, UNKNOWN, WORKING, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentctl.files.bounded import Opened, Span

TAIL_LIMIT = 32 * 1024 * 1024  # to find T at all; normally the first 64 KB have it
COMFORT_LIMIT = 512 * 1024  # for what is only nice to have once T is known
HEAD_LIMIT = 512 * 1024

# What begins with its type has no place in the conversation: of these only some tell anything, and others are long.
BARE = b'{"type":"'
TITLES = (b"custom-title", b"ai-title")
TELLING = frozenset((*b"user assistant attachment cost-state last-prompt".split(), *TITLES))
# Of all others a line is decoded only if it holds one of these. No text can fake it: inside a
# JSON string the quotes are escaped.
INTERESTING = (
    b'"user"',
    b'"assistant"',
    b'"max_turns_reached"',
    b'"hook_stopped_continuation"',
    b'"hook_deferred_tool"',
    b'"custom-title"',
    b'"ai-title"',
    b'"cost-state"',
    b'"last-prompt"',
)
BEGINNING = 512  # of a line: who wrote it, and what its first block is
BRANCH = b'"gitBranch":"'
PARENT = b'{"parentUuid":'
GLUED = b"}" + PARENT  # a line break is lost: no JSON has this, for a quote in a text is escaped
IS_ERROR = b'"is_error":'
NO_ERROR = b'"is_error":false}]}'  # of the last result of a message
ACCEPTED = b'"permissionDecision":{"decision":"accept"'
OWN_FIELDS = 1024  # at the end of a line: the fields of the record itself
# Titles are written again after every 32 KB, so that the last 64 KB hold them: the agent itself looks no further.
TITLES_WITHIN = 64 * 1024


NOTHING_YET = Tail()
NOT_DECODED = "its last records cannot be read: they are not what its agent writes"


class Head(Value):
    """What the beginning of a transcript tells."""

    prompt: str | None = None
    started_at: float | None = None
    cwd: str | None = None
    ai_title: str | None = None


def read_tail(file: Opened, *, sidechain: bool = False) -> Tail:
    """Walk back from the end until T, the prompt of its turn and the last model are known."""
    order = Order()
    walk = Walk(file, order, sidechain=sidechain)
    read = 0
    for data, begin, after in walk.lines:
        if not order.decided and (why := walk.why_unread(data, begin, after)) is not None:
            return walk.tail._replace(turn=UNKNOWN, reason=why)
        read += after - begin + 1
        if order.decided and read > COMFORT_LIMIT:
            break
        in_conversation = data.startswith(PARENT, begin)
        if in_conversation and not walk.titled:
            walk.titled = has_title(walk.tail)
        if (passed := walk.pass_over(data, begin, after)) is not None:
            read += passed
            continue
        line = walk.telling_line(data, begin, after, in_conversation)
        record = decode(line) if line is not None else None
        if line is not None and record is None and not order.decided and may_be_step(line):
            return walk.tail._replace(turn=UNKNOWN, reason=NOT_DECODED)
        if record is not None and line is not None and walk.take(record, line):
            break
    walk.take_answer_before(file)
    tail = walk.tail if has_title(walk.tail) else with_older_title(walk.tail, file, walk.start)
    if not order.decided:
        return without_turn(tail, file, walk)
    if walk.cut and tail.turn in CLOSED_TURNS:
        tail = tail._replace(inferred=True, reason=f"{tail.reason}; a record behind it is not whole")
    return tail._replace(orderly=walk.ended_orderly())


def may_be_step(line: bytes) -> bool:
    """Return whether a line that cannot be decoded may be a whole record of the conversation: it is neither cut nor
    bookkeeping."""
    return not (line.startswith(BARE) or is_cut(line))


def without_turn(tail: Tail, file: Opened, walk: Walk) -> Tail:
    """Return the tail of a transcript in which no step of a conversation was found. No turn was begun only if its
    records were understood, and all of them are whole."""
    if file.size == 0:
        return tail._replace(reason="its transcript is empty")
    if walk.cut:
        return tail._replace(reason="a record of its transcript is not whole, and the others are of no turn")
    if any((record := decode(line)) is not None and is_own(record) for line in lines_forward(file, HEAD_LIMIT)):
        return tail._replace(turn=IDLE, reason="no turn was begun")
    return tail


class Order:
    """Tells which lines before T happened after it.

    The lines of a first turn can stand in another order than they happened in (seen: the answer before its prompt). A
    record names its parent, so an earlier line that descends from T is the later record: no clock is asked. Nothing of
    its turn comes after a T that ends it.
    """

    __slots__ = ("begins", "behind", "below", "decided", "final", "last", "parents", "passed")

    def __init__(self) -> None:
        self.decided = False  # T is known
        self.begins = False  # the first line that T was found in descends from nothing
        self.final = False  # and ends its turn
        self.last = b""  # the uuid of T
        self.behind: list[bytes] = []  # the lines behind T
        self.parents: dict[bytes, bytes] = {}  # uuid -> uuid of its parent, of the lines that were seen
        self.below: frozenset[bytes] = frozenset()  # T, and what descends from it of the lines behind it
        self.passed: list[Span] | None = []  # lines that were passed over; None: no more is, for one descends from T

    def note(self, line: bytes) -> None:
        """Keep what a line says of the order, as long as that matters."""
        if not self.decided:
            self.behind.append(line)
        elif not self.final:
            self.parents.update(parent_in(line))

    def note_passed(self, *spans: Span) -> None:
        if self.passed is not None and not self.final:
            self.passed += spans

    def stop_passing(self, data: bytes, begin: int, after: int) -> None:
        """Look at every line from one on that descends from T, also at those that were passed over."""
        if self.below and self.passed is not None and parent_at(data, begin, after) in self.below:
            lines = (line for block, first, end in self.passed for line in block[first:end].split(b"\n"))
            self.parents.update(named for line in lines for named in parent_in(line))
            self.passed = None

    def is_first(self) -> bool:
        """Return whether the last line begins its conversation, and its turn is open: its answer may stand before."""
        return self.begins and not self.final

    def is_later(self, uuid: bytes) -> bool:
        """Return whether this record happened after T."""
        return bool(uuid) and descends(uuid, self.last, self.parents)

    def settle(self, uuid: bytes, *, final: bool) -> None:
        """Note that T is the record of this uuid."""
        if not self.decided:
            self.parents.update(named for line in self.behind for named in parent_in(line))
            self.begins = bool(uuid) and uuid not in self.parents
        self.decided, self.final, self.last = True, final, uuid
        self.below = frozenset() if final else family_of(uuid, self.parents)


class Walk:
    """What is known of a transcript while it is read from its end."""

    __slots__ = (
        "anchored",
        "cut",
        "end_marks",
        "hook",
        "lines",
        "max_turns",
        "newer",
        "order",
        "sidechain",
        "start",
        "tail",
        "titled",
        "unsure",
    )

    def __init__(self, file: Opened, order: Order, *, sidechain: bool) -> None:
        self.lines = Backward(file, TAIL_LIMIT, tell=True)
        self.order = order
        self.sidechain = sidechain
        self.tail = NOTHING_YET
        self.start = 0  # where T begins
        self.cut = False  # behind T a record is not whole
        self.titled = False  # a title stood behind a record of the conversation: no older one counts
        self.anchored = False  # the last record that a model or a person wrote is known: end markers stand after it
        self.end_marks: set[str] = set()  # after the anchor
        self.newer = False  # this version marks its end with cost-state and writes last-prompt in mid-turn as well
        self.max_turns = False
        self.hook: dict[str, Any] | None = None  # what the last hook that ended a turn wrote
        self.unsure = False  # T is a record of the program's own: the step before it tells whether its turn was open

    def why_unread(self, data: bytes, begin: int, after: int) -> str | None:
        """Return why a line that T may be in, or behind, says nothing; None if it can be read."""
        if data is TOO_LONG:
            return "its last records are too long to be read"
        line = data[begin:after]
        if is_garbled(line) or GLUED in line:
            return NOT_DECODED
        self.cut = self.cut or is_cut(line)
        return None

    def pass_over(self, data: bytes, begin: int, after: int) -> int | None:
        """Pass over this line, and those before it, if they add nothing. Return how many bytes those have; None if this
        line has to be looked at."""
        order, lines, tail = self.order, self.lines, self.tail
        if order.passed is None or self.unsure:
            return None
        if not (self.anchored and has_context(tail) and adds_nothing(data, begin, after, tail, order.below)):
            order.stop_passing(data, begin, after)
            return None
        rest, lines.after = lines.after, pass_over(lines, tail, order.below)
        order.note_passed((data, begin, after), (lines.block, lines.after + 1, rest))
        return rest - lines.after

    def telling_line(self, data: bytes, begin: int, after: int, in_conversation: bool) -> bytes | None:
        """Return the line if its record may tell something; None if it need not be decoded."""
        line = data[begin:after]
        if not in_conversation and line.startswith(BARE):
            kind = kind_of(line)
            self.newer = self.newer or kind == NEWER.encode()
            if kind not in TELLING:
                return None
            self.order.note(line)
            return line
        self.order.note(line)
        return line if is_interesting(line) else None

    def take(self, record: dict[str, Any], line: bytes) -> bool:
        """Take what a record tells. Return whether no older one can add anything."""
        kind = record.get("type")
        if kind in ("user", "assistant"):
            return bool(record.get("isSidechain")) == self.sidechain and self.take_step(record, line)
        if kind in ("cost-state", "last-prompt"):
            self.take_end_mark(str(kind), record)
        elif self.order.decided:
            return False
        elif kind in ("custom-title", "ai-title"):
            self.tail = self.tail if self.titled else with_title(self.tail, record)
        elif kind == "attachment":
            self.take_attachment(record)
        return False

    def take_attachment(self, record: dict[str, Any]) -> None:
        attachment = record.get("attachment")
        if not isinstance(attachment, dict) or bool(record.get("isSidechain")) != self.sidechain:
            return
        self.max_turns = self.max_turns or attachment.get("type") == "max_turns_reached"
        if attachment.get("type") in (STOPPED, PUT_OFF):
            self.hook = self.hook or attachment

    def take_end_mark(self, kind: str, record: dict[str, Any]) -> None:
        if not self.anchored:
            self.end_marks.add(kind)
        if kind == "cost-state" and self.tail.cost_usd is None:
            self.tail = self.tail._replace(cost_usd=amount(record.get("totalCostUSD")))

    def take_step(self, record: dict[str, Any], line: bytes) -> bool:
        """Take what a record of the conversation tells. Return whether it is the prompt of the turn of T."""
        order = self.order
        self.tail = with_context(self.tail, record)
        if not is_conversation(record):
            return False
        self.tail = with_prompt(self.tail, record)
        self.anchored = self.anchored or is_anchor(record)
        uuid = b"" if order.final else uuid_after(line, b'"uuid":"')
        if not order.decided or order.is_later(uuid):
            self.judge(record, uuid)
            return False
        self.settle_unsure(record)
        if is_tool_result(record):
            if self.tail.turn == DONE and refusal(record):
                self.tail = self.tail._replace(refused=self.tail.refused + 1)
            return False
        return is_prompt(record) and self.tail.model is not None

    def judge(self, record: dict[str, Any], uuid: bytes) -> None:
        """Judge the turn by this record: it is T."""
        is_last = not self.order.decided
        if is_last:
            self.start = self.lines.start
        self.tail = judge_turn(undecided(self.tail), record, self.max_turns)
        if self.hook is not None:
            self.tail = with_hook(self.tail, self.hook)
        if is_last and is_end_mark({*self.end_marks, *((NEWER,) if self.newer else ())}):
            self.tail = with_end_mark(self.tail)
        self.order.settle(uuid, final=ends_turn(self.tail))
        self.unsure = is_unsure(self.tail)

    def take_answer_before(self, file: Opened) -> None:
        """Judge the turn by the last record that descends from T, its first prompt, and stands before it. What is
        between them (attachments) stands before T, too: so nothing told the order while the lines came from the end."""
        if self.tail.turn != WORKING or self.start == 0 or not self.order.is_first():
            return
        lines = [line for line in lines_forward(file, HEAD_LIMIT) if line.startswith(PARENT)]
        self.order.parents.update(named for line in lines for named in parent_in(line))
        for line in reversed(lines):
            uuid = uuid_after(line, b'"uuid":"')
            record = decode(line) if self.order.is_later(uuid) else None
            if record is not None and bool(record.get("isSidechain")) == self.sidechain and is_conversation(record):
                self.judge(record, uuid)

    def settle_unsure(self, record: dict[str, Any]) -> None:
        """Say firmly that the turn of T is open if the step before it has not ended one."""
        if self.unsure:
            before = judge_turn(NOTHING_YET, record, max_turns=False)
            self.unsure = is_unsure(before)
            if before.turn == WORKING and not before.inferred:
                self.tail = self.tail._replace(inferred=False)

    def ended_orderly(self) -> bool:
        """Return whether the process wrote the end marker of its version after the last step."""
        newer = self.newer or "cost-state" in self.end_marks
        return ("cost-state" if newer else "last-prompt") in self.end_marks


def is_interesting(line: bytes) -> bool:
    """Return whether a line may hold a record that tells something."""
    for mark in INTERESTING:  # noqa: SIM110 -- a generator costs more than the search
        if mark in line:
            return True
    return False


def with_older_title(tail: Tail, file: Opened, end: int) -> Tail:
    """Return the tail with the newest title before `end`; titles that stand together count as one."""
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
    """Return the type of a record that begins with it; None if it begins otherwise."""
    return line[len(BARE) : line.find(b'"', len(BARE))] if line.startswith(BARE) else None


def pass_conversation(lines: Backward) -> int:
    """Return where the next line of the block ends that is no record of the conversation."""
    block, after = lines.block, lines.after
    while (newline := block.rfind(b"\n", 0, after)) >= 0 and block.startswith(PARENT, newline + 1):
        after = newline
    return after


def pass_over(lines: Backward, tail: Tail, below: frozenset[bytes]) -> int:
    """Return where the next line of the block ends that adds something."""
    block, after = lines.block, lines.after
    while (newline := block.rfind(b"\n", 0, after)) >= 0:
        if not adds_nothing(block, newline + 1, after, tail, below):
            break
        after = newline
    return after


def adds_nothing(data: bytes, begin: int, after: int, tail: Tail, below: frozenset[bytes]) -> bool:
    """Return whether a line need not be decoded. Once T is known, most of its turn are calls and results: they can only
    tell that a call was refused, that they happened after T (`below`), and their branch."""
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
    """Return whether this can be the result of a refused call. Such a result is an error, and in newer versions the
    record says so behind all that it holds. What a command wrote is half of nearly every transcript, so it is passed
    over once at most, and its copy behind the message not at all."""
    at = data.find(IS_ERROR, begin, after)
    if at >= 0 and data[at : at + len(NO_ERROR)] != NO_ERROR:
        return True
    own = data[max(begin, after - OWN_FIELDS) : after]
    if b'"toolDenialKind"' in own:
        return True
    return b'"permissionDecision"' in own and ACCEPTED not in own


def parent_in(line: bytes) -> list[tuple[bytes, bytes]]:
    """Return (its uuid, the uuid of its parent) if a line has both."""
    uuid, parent = uuid_after(line, b'"uuid":"'), parent_at(line, 0, len(line))
    return [(uuid, parent)] if uuid and parent else []


def parent_at(data: bytes, begin: int, after: int) -> bytes:
    """Return the uuid of its parent, with which a record begins; empty if it has none."""
    if data.startswith(PARENT, begin):
        at = begin + len(PARENT)
        return data[at + 1 : at + 37] if data.startswith(b'"', at) else b""
    return uuid_after(data[begin:after], b'"parentUuid":"')


def uuid_after(line: bytes, mark: bytes) -> bytes:
    """Return a uuid of a record without decoding it: the last, for what a record holds stands before its own fields."""
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
    """Return it, and all that descend from it."""
    return frozenset((uuid, *(other for other in parents if descends(other, uuid, parents))))


def read_head(file: Opened, *, only_start: bool = False) -> Head:
    """Return the first prompt, and where and when the session began. `only_start`: no more than when it began."""
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
        if only_start and head.started_at is not None:
            return Head(started_at=head.started_at)
        if record.get("type") == "ai-title":
            head = head._replace(ai_title=text_or_none(record.get("aiTitle")))
        elif record.get("type") == "user" and not record.get("isMeta") and not is_tool_result(record):
            text = plain_text(record).strip()
            if text and not text.startswith(LOCAL_COMMAND_MARKS):
                return head._replace(prompt=text)
    return head
