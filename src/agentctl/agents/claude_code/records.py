"""What one record of Claude Code's transcript says: of its turn, of its session, and to a person who reads it.

Pure: transcript.py reads the records and finds the last one.
"""

from __future__ import annotations

from agentctl.files.bounded import decode, moment, text_or_none
from agentctl.model import DONE, FAILED, INTERRUPTED, UNKNOWN, WORKING, Message, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INTERRUPT_MARK = "[Request interrupted by user"
LOCAL_COMMAND_MARKS = ("<command-name>", "<command-message>", "<local-command", "<bash-input>", "<bash-stdout>")
REFUSED_MARKS = (
    "requested permissions to",
    "doesn't want to proceed with this tool use",
    "Permission to use",
    "was blocked. For security, Claude Code",
    "needs approval. ",
)
WITHOUT_SESSION = ("file-history-snapshot", "summary")  # all other records name their session
SYNTHETIC = "<synthetic>"
UNANSWERED = "the last record is a prompt without an answer"


class Tail(Value):
    """What the end of a transcript tells. Unless something in it was understood, that is nothing."""

    turn: str = UNKNOWN
    reason: str = "nothing in its transcript could be understood"
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
    last_prompt: str | None = None
    prompted_at: float | None = None


def has_context(tail: Tail) -> bool:
    """Return whether all is known that any record of a conversation tells, the branch aside: it may have none."""
    return not (tail.model is None or tail.cwd is None or tail.version is None or tail.updated_at is None)


def has_title(tail: Tail) -> bool:
    return tail.ai_title is not None or tail.custom_title is not None


def ends_turn(tail: Tail) -> bool:
    """Return whether T itself says that its turn is over."""
    return tail.turn == DONE and not tail.inferred


def undecided(tail: Tail) -> Tail:
    """Return the tail without what T said of its turn."""
    return tail._replace(error=None, pending=None, pending_id=None, pending_tool=None, inferred=False, refused=0)


def with_title(tail: Tail, record: dict[str, Any]) -> Tail:
    return tail._replace(
        custom_title=tail.custom_title or text_or_none(record.get("customTitle")),
        ai_title=tail.ai_title or text_or_none(record.get("aiTitle")),
    )


def is_own(record: dict[str, Any]) -> bool:
    """Return whether Claude Code wrote this record, and not a program with a format of its own."""
    kind = record.get("type")
    return isinstance(kind, str) and (kind in WITHOUT_SESSION or isinstance(record.get("sessionId"), str))


def is_anchor(record: dict[str, Any]) -> bool:
    """Return whether a model or a person wrote it: a dying process still adds results and marks."""
    if record.get("type") == "assistant":
        return not record.get("isAbortedMidStream")
    return not is_tool_result(record) and not is_interrupt(record)


def with_context(tail: Tail, record: dict[str, Any]) -> Tail:
    """Return the tail with model, branch, directory and time: the newest record that has them wins."""
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


def with_prompt(tail: Tail, record: dict[str, Any]) -> Tail:
    """Return the tail with the prompt of its last turn, if this record is it: what a person wrote, and no result."""
    if tail.prompted_at is not None or record.get("type") != "user" or is_tool_result(record) or is_interrupt(record):
        return tail
    text = plain_text(record).strip()
    prompt = None if text.startswith("<") else text or None  # a notice of the program's own
    return tail._replace(last_prompt=prompt, prompted_at=moment(record.get("timestamp")))


def judge_turn(tail: Tail, record: dict[str, Any], max_turns: bool) -> Tail:
    """Return the tail with what T says about its turn."""
    if record.get("type") == "assistant":
        return judge_assistant(tail, record)
    if is_interrupt(record):
        return tail._replace(turn=INTERRUPTED, reason="the last record is the person's interrupt")
    if max_turns:
        return tail._replace(turn=FAILED, reason="the limit of turns was reached", error="max turns reached")
    if is_tool_result(record):
        return tail._replace(turn=WORKING, reason="the last record is a tool's result: a model call follows")
    return tail._replace(turn=WORKING, reason=UNANSWERED)


def judge_assistant(tail: Tail, record: dict[str, Any]) -> Tail:
    message = record.get("message")
    message = message if isinstance(message, dict) else {}
    blocks = blocks_of(message)
    if record.get("isApiErrorMessage"):
        return tail._replace(turn=FAILED, reason="the last record is an API error", error=api_error(record, blocks))
    if record.get("isAbortedMidStream"):
        return tail._replace(turn=INTERRUPTED, reason="the last answer was cut off in mid-stream")
    if message.get("model") == SYNTHETIC:
        return tail._replace(turn=INTERRUPTED, reason="the last answer is a placeholder for an interrupted turn")
    stop = message.get("stop_reason")
    tools = [block for block in blocks if block.get("type") == "tool_use"]
    if stop in ("tool_use", "pause_turn") or tools:
        return with_pending(tail, tools[-1] if tools else None)
    if stop is None:
        return tail._replace(turn=DONE, reason="the last record is an answer without a stop reason", inferred=True)
    return tail._replace(turn=DONE, reason=f"the last record is an answer that ended its turn ({stop})")


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def api_error(record: dict[str, Any], blocks: list[dict[str, Any]]) -> str:
    text = " ".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text").strip()
    parts = (record.get("apiErrorStatus"), record.get("error"), text)
    return " ".join(str(part) for part in parts if part) or "API error"


def with_pending(tail: Tail, call: dict[str, Any] | None) -> Tail:
    """Return the tail of a turn that waits for the result of this call; None: of one that is not in the record."""
    pending, name = describe_tool(call) if call is not None else (None, None)
    return tail._replace(
        turn=WORKING,
        reason=f"the last record is an unanswered call of {name or 'a tool'}",
        pending=pending,
        pending_tool=name,
        pending_id=text_or_none(call.get("id")) if call is not None else None,
    )


def describe_tool(block: dict[str, Any]) -> tuple[str, str | None]:
    """Return a tool call as a person would say it (its name, and the input that matters), and the name."""
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
    """Return whether a tool result says that the tool was not allowed to run: in a field, or (older) in its text."""
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
    """Return whether this is a step of a turn. Local commands (/exit, !ls), their output, caveats and summaries are
    not."""
    if record.get("type") == "assistant":
        return True
    if record.get("isCompactSummary") or record.get("isVisibleInTranscriptOnly"):
        return False
    if record.get("isMeta") and not isinstance(record.get("origin"), dict):
        return False
    return not plain_text(record).lstrip().startswith(LOCAL_COMMAND_MARKS)


def messages_of(line: bytes) -> list[Message]:
    """Return the messages on one line of a transcript. Bookkeeping, and what only the model gets to see, is none."""
    if b'"user"' not in line and b'"assistant"' not in line:
        return []
    record = decode(line)
    if record is None or record.get("type") not in ("user", "assistant") or record.get("isMeta"):
        return []
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        return []
    shown = (message_of(block, record) for block in blocks if isinstance(block, dict))
    return [message for message in shown if message is not None]


def message_of(block: dict[str, Any], record: dict[str, Any]) -> Message | None:
    """Return what a person is shown of one block of a record."""
    kind, at = block.get("type"), moment(record.get("timestamp"))
    if kind == "text" and (text := str(block.get("text") or "").strip()):
        role = "note" if text.startswith(LOCAL_COMMAND_MARKS) else str(record["type"])
        return Message(role, text, at, failed=bool(record.get("isApiErrorMessage")))
    if kind == "tool_use":
        text, name = describe_tool(block)
        return Message("tool", text, at, tool=name)
    if kind == "tool_result":
        return Message("result", result_text(block.get("content")), at, failed=bool(block.get("is_error")))
    return None


def result_text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict)).strip()
    return content.strip() if isinstance(content, str) else ""
