"""Claude Code's transcript (projects/<slug>/<id>.jsonl): how the last turn stands, from a bounded look at its end.

The last line is often bookkeeping, and nothing is written while a model streams, so neither the last line nor the
file's age says anything. What counts is T: the last user or assistant record of the main conversation.
"""

from __future__ import annotations

from agentctl.model import DONE, FAILED, IDLE, INTERRUPTED, UNKNOWN, WORKING, Message, Value
from agentctl.stores import TOO_LONG, Backward, amount, decode, lines_forward, moment, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentctl.stores import Opened, Span

TAIL_LIMIT = 32 * 1024 * 1024  # to find T at all; normally the first 64 KB have it
COMFORT_LIMIT = 512 * 1024  # for what is only nice to have once T is known
HEAD_LIMIT = 512 * 1024

INTERRUPT_MARK = "[Request interrupted by user"
LOCAL_COMMAND_MARKS = ("<command-name>", "<command-message>", "<local-command", "<bash-input>", "<bash-stdout>")
REFUSED_MARKS = (
    "requested permissions to",
    "doesn't want to proceed with this tool use",
    "Permission to use",
    "was blocked. For security, Claude Code",
    "needs approval. ",
)
SYNTHETIC = "<synthetic>"

# A line is decoded only if it holds one of these. Inside a JSON string the quotes are escaped: text cannot fake it.
INTERESTING = (
    b'"user"',
    b'"assistant"',
    b'"custom-title"',
    b'"ai-title"',
    b'"cost-state"',
    b'"last-prompt"',
    b'"max_turns_reached"',
)
BEGINNING = 512  # of a line: who wrote it, and what its first block is
BRANCH = b'"gitBranch":"'
# Records without a place in the conversation, some of them long: nothing is looked for in them.
BOOKKEEPING = tuple(
    f'{{"type":"{kind}"'.encode()
    for kind in "api-request api-request-blob api-request-shape file-history-snapshot mode permission-mode "
    "queue-operation tools-used".split()
)
PARENT = b'{"parentUuid":'
IS_ERROR = b'"is_error":'
NO_ERROR = b'"is_error":false}]}'  # of the last result of a message
ACCEPTED = b'"permissionDecision":{"decision":"accept"'
OWN_FIELDS = 1024  # at the end of a line: the fields of the record itself
NEWER_MARK = b'"atis-latch"'


class Tail(Value):
    """What the end of a transcript tells."""

    turn: str = IDLE
    reason: str = "no turn was begun"
    error: str | None = None
    pending: str | None = None
    pending_id: str | None = None
    pending_tool: str | None = None
    orderly: bool | None = None  # the process wrote its end marker; None = this version has no such marker
    inferred: bool = False
    refused: int = 0
    model: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    cost_usd: float | None = None
    branch: str | None = None
    cwd: str | None = None
    version: str | None = None
    updated_at: float | None = None


class Head(Value):
    """What the beginning of a transcript tells."""

    prompt: str | None = None
    started_at: float | None = None
    cwd: str | None = None
    ai_title: str | None = None


def read_tail(file: Opened, *, sidechain: bool = False) -> Tail:
    """Walk back from the end until T, the prompt of its turn and the last model are known.

    The lines of a first turn can stand in another order than they happened in (seen: the answer before its prompt). A
    record names its parent, so an earlier line that descends from T is the later record: no clock is asked.
    """
    tail = Tail()
    decided = False  # T was found
    last = b""  # its uuid
    parents: dict[bytes, bytes] = {}  # uuid -> uuid of its parent, of the lines that were seen
    below: frozenset[bytes] = frozenset()  # T, and what descends from it of the lines behind it
    anchored = False  # the last record that a model or a person wrote was found: end markers stand after it
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
        if passed is not None and anchored and has_context(tail) and adds_nothing(data, begin, after, tail, below):
            rest, lines.after = lines.after, pass_over(lines, tail, below)
            passed += (data, begin, after), (lines.block, lines.after + 1, rest)
            read += rest - lines.after
            continue
        if decided and passed is not None and parent_at(data, begin, after) in below:
            looked_at = (line for block, start, end in passed for line in block[start:end].split(b"\n"))
            parents.update(named for line in looked_at for named in parent_in(line))
            passed = None
        if data.startswith(BOOKKEEPING, begin):
            continue
        line = data[begin:after]
        newer = newer or NEWER_MARK in line
        parents.update(parent_in(line))
        if not any(mark in line for mark in INTERESTING):
            continue
        record = decode(line)
        if record is None:
            continue
        kind = record.get("type")
        if kind in ("custom-title", "ai-title"):
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
            uuid = uuid_after(line, b'"uuid":"')
            if not decided or descends(uuid, last, parents):
                tail, decided, last = judge_turn(undecided(tail), record, max_turns), True, uuid
                below = frozenset(one for one in (last, *parents) if one == last or descends(one, last, parents))
            elif is_tool_result(record):
                if tail.turn == DONE and refusal(record):
                    tail = tail._replace(refused=tail.refused + 1)
            elif kind == "user" and not is_interrupt(record) and tail.model is not None:
                break
    newer = newer or "cost-state" in ended_with
    orderly = "cost-state" in ended_with if newer else "last-prompt" in ended_with
    return tail._replace(orderly=orderly if decided else None)


def has_context(tail: Tail) -> bool:
    """Is all known that any record of a conversation tells? Its branch is looked for: not every directory has one."""
    return not (tail.model is None or tail.cwd is None or tail.version is None or tail.updated_at is None)


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


def undecided(tail: Tail) -> Tail:
    """The same, but for what T said of its turn."""
    return tail._replace(error=None, pending=None, pending_id=None, pending_tool=None, inferred=False, refused=0)


def with_title(tail: Tail, record: dict[str, Any]) -> Tail:
    return tail._replace(
        custom_title=tail.custom_title or text_or_none(record.get("customTitle")),
        ai_title=tail.ai_title or text_or_none(record.get("aiTitle")),
    )


def is_anchor(record: dict[str, Any]) -> bool:
    """Written by a model or a person: not the results and marks that a dying process still adds."""
    if record.get("type") == "assistant":
        return not record.get("isAbortedMidStream")
    return not is_tool_result(record) and not is_interrupt(record)


def with_context(tail: Tail, record: dict[str, Any]) -> Tail:
    """Model, branch, directory and time: the newest record that has them wins."""
    if has_context(tail) and tail.branch is not None:
        return tail
    message = record.get("message")
    model = message.get("model") if isinstance(message, dict) else None
    return tail._replace(
        model=tail.model or (text_or_none(model) if model != SYNTHETIC else None),
        branch=tail.branch or text_or_none(record.get("gitBranch")),
        cwd=tail.cwd or text_or_none(record.get("cwd")),
        version=tail.version or text_or_none(record.get("version")),
        updated_at=tail.updated_at or moment(record.get("timestamp")),
    )


def judge_turn(tail: Tail, record: dict[str, Any], max_turns: bool) -> Tail:
    """What T says about its turn."""
    if record.get("type") == "assistant":
        return judge_assistant(tail, record)
    if is_interrupt(record):
        return tail._replace(turn=INTERRUPTED, reason="the last record is the person's interrupt")
    if max_turns:
        return tail._replace(turn=FAILED, reason="the limit of turns was reached", error="max turns reached")
    if is_tool_result(record):
        return tail._replace(turn=WORKING, reason="the last record is a tool's result: a model call follows")
    return tail._replace(turn=WORKING, reason="the last record is a prompt without an answer")


def judge_assistant(tail: Tail, record: dict[str, Any]) -> Tail:
    message = record.get("message")
    message = message if isinstance(message, dict) else {}
    blocks = message.get("content")
    blocks = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    text = " ".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text").strip()
    if record.get("isApiErrorMessage"):
        code = record.get("apiErrorStatus")
        error = " ".join(str(part) for part in (code, record.get("error"), text) if part)
        return tail._replace(turn=FAILED, reason="the last record is an API error", error=error or "API error")
    if record.get("isAbortedMidStream"):
        return tail._replace(turn=INTERRUPTED, reason="the last answer was cut off in mid-stream")
    if message.get("model") == SYNTHETIC:
        return tail._replace(turn=INTERRUPTED, reason="the last answer is a placeholder for an interrupted turn")
    stop = message.get("stop_reason")
    tools = [block for block in blocks if block.get("type") == "tool_use"]
    if stop in ("tool_use", "pause_turn") or tools:
        pending, name = describe_tool(tools[-1]) if tools else (None, None)
        return tail._replace(
            turn=WORKING,
            reason=f"the last record is an unanswered call of {name or 'a tool'}",
            pending=pending,
            pending_tool=name,
            pending_id=text_or_none(tools[-1].get("id")) if tools else None,
        )
    if stop is None:
        return tail._replace(turn=DONE, reason="the last record is an answer without a stop reason", inferred=True)
    return tail._replace(turn=DONE, reason=f"the last record is an answer that ended its turn ({stop})")


def describe_tool(block: dict[str, Any]) -> tuple[str, str | None]:
    """A tool call as a person would say it: its name, and the one input that matters."""
    name = text_or_none(block.get("name"))
    given = block.get("input")
    detail: object = None
    if isinstance(given, dict):
        detail = next(
            (given[key] for key in ("command", "file_path", "url", "pattern", "plan") if given.get(key)), None
        )
        questions = given.get("questions")
        if detail is None and isinstance(questions, list) and questions and isinstance(questions[0], dict):
            detail = questions[0].get("question")
    return (f"{name}: {detail}" if isinstance(detail, str) else str(name)), name


def plain_text(record: dict[str, Any]) -> str:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            str(block.get("text") or "") for block in content if isinstance(block, dict) and block.get("type") == "text"
        )
    return ""


def is_tool_result(record: dict[str, Any]) -> bool:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )


def is_interrupt(record: dict[str, Any]) -> bool:
    return record.get("type") == "user" and plain_text(record).startswith(INTERRUPT_MARK)


def refusal(record: dict[str, Any]) -> bool:
    """A tool result that says that the tool was not allowed to run: in a field of its own, or (older) in its text."""
    decision = record.get("permissionDecision")
    if record.get("toolDenialKind") or (isinstance(decision, dict) and decision.get("decision") == "reject"):
        return True
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("is_error"):
            said = block.get("content")
            said = said if isinstance(said, str) else str(said)
            if any(mark in said for mark in REFUSED_MARKS):
                return True
    return False


def is_conversation(record: dict[str, Any]) -> bool:
    """Is this a step of a turn? Local commands (/exit, !ls), their output, caveats and summaries are not."""
    if record.get("type") == "assistant":
        return True
    if record.get("isCompactSummary") or record.get("isVisibleInTranscriptOnly"):
        return False
    if record.get("isMeta") and not isinstance(record.get("origin"), dict):
        return False
    return not plain_text(record).lstrip().startswith(LOCAL_COMMAND_MARKS)


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


def messages_of(line: bytes) -> list[Message]:
    """The messages on one line of a transcript. Bookkeeping, and what only the model gets to see, is none."""
    if b'"user"' not in line and b'"assistant"' not in line:
        return []
    record = decode(line)
    if record is None or record.get("type") not in ("user", "assistant") or record.get("isMeta"):
        return []
    at = moment(record.get("timestamp"))
    role = str(record["type"])
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    found = []
    for block in blocks if isinstance(blocks, list) else ():
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        if kind == "text" and (text := str(block.get("text") or "").strip()):
            local = text.startswith(LOCAL_COMMAND_MARKS)
            failed = bool(record.get("isApiErrorMessage"))
            found.append(Message("note" if local else role, text, at, failed=failed))
        elif kind == "tool_use":
            text, name = describe_tool(block)
            found.append(Message("tool", text, at, tool=name))
        elif kind == "tool_result":
            found.append(Message("result", result_text(block.get("content")), at, failed=bool(block.get("is_error"))))
    return found


def result_text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict)).strip()
    return content.strip() if isinstance(content, str) else ""
