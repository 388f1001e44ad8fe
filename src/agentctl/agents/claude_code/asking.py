"""What a process of Claude Code asks a person: the call without a result at the end of the transcript of its session,
or of a sub-agent. Read only if the process waits."""

from __future__ import annotations

from agentctl.agents.asking import MAIN, PERMISSION, PLAN, QUESTION, Call, one_of, question_of, vague
from agentctl.agents.claude_code.files import ASKING_TOOL
from agentctl.agents.claude_code.observing import BEHIND
from agentctl.agents.claude_code.records import blocks_of, describe_tool, is_tool_result
from agentctl.files.bounded import TOO_LONG, decode, lines_backward, moment, text_or_none
from agentctl.model import DETAIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from agentctl.files.reader import Reader
    from agentctl.model import Link, Question

LIMIT = 4 * 1024 * 1024  # bytes: a call may have a whole file in it
STARTERS = ("Task", "Agent")  # they begin a sub-agent: nobody is asked about their result
KINDS = {ASKING_TOOL: QUESTION, "ExitPlanMode": PLAN}
SAID = (("permission", PERMISSION), ("input needed", QUESTION), ("question", QUESTION))


def questions(link: Link, paths: Mapping[str, str], reader: Reader, pending: str | None = None) -> tuple[Question, ...]:
    """Return what is asked. `paths`: the transcripts of the session and of its sub-agents. `pending`: the id of the
    call that the session's record ends with. If several calls have no result, nothing tells which one is asked
    about."""
    said = kind_said(link.waiting_for or "")
    if link.doubt == BEHIND:
        return vague(link, said)
    read = {by: read_calls(path, reader, pending if by == link.id else None) for by, path in paths.items()}
    if None in read.values():
        return vague(link, said)  # what could not be read may be what is asked
    found = [(by, call) for by, calls in read.items() for call in calls or () if call.tool not in STARTERS]
    if said == QUESTION:
        found = [(by, call) for by, call in found if call.tool == ASKING_TOOL]
    if len(found) > 1:
        return one_of(link, said, [words_of(call) for _, call in reversed(found)])
    if not found:
        return vague(link, said)
    by, call = found[0]
    kind = KINDS.get(call.tool or "", PERMISSION)
    return (question_of(call, kind, words_of(call), link, MAIN if by == link.id else by),)


def words_of(call: Call) -> str | None:
    return describe_tool({"name": call.tool, "input": call.given})[0]


def kind_said(words: str) -> str | None:
    return next((kind for begin, kind in SAID if words.startswith(begin)), None)


def read_calls(path: str, reader: Reader, pending: str | None = None) -> list[Call] | None:
    """Return the calls without a result; None if they could not be read."""
    try:
        return open_calls(lines_backward(path, LIMIT, tell=True), pending)
    except FileNotFoundError:
        return []  # removed this moment
    except OSError as error:
        reader.note(path, error, DETAIL)
        return None


def open_calls(lines: Iterable[bytes], pending: str | None = None) -> list[Call] | None:
    """Return the calls of the last answer that have no result, the newest first; None if they cannot be read.
    Lines come from the last to the first: the records of one answer have one id, and no answer comes before the results
    of the one before it. A prompt stands behind its answer at times: so one is passed over if a call is `pending`."""
    answered: set[str] = set()
    found: list[Call] = []
    answer: object = None
    for line in lines:
        if line is TOO_LONG:
            return None
        if b'"user"' not in line and b'"assistant"' not in line:
            continue
        if (record := decode(line)) is None:
            return None  # torn, or nested too deeply: it may be the call
        message = record.get("message")
        if not isinstance(message, dict):
            continue
        if record.get("type") == "user" and is_tool_result(record):
            answered |= {str(block.get("tool_use_id")) for block in blocks_of(message)}
        elif record.get("type") == "assistant" and answer in (None, message.get("id")):
            answer = message.get("id")
            calls = [block for block in blocks_of(message) if block.get("type") == "tool_use"]
            found += [call_of(block, record) for block in calls if str(block.get("id")) not in answered]
        elif is_step(record) and (answer is not None or pending is None):
            break
    return found


def is_step(record: Mapping[str, Any]) -> bool:
    return record.get("type") in ("user", "assistant") and not record.get("isMeta")


def call_of(block: Mapping[str, Any], record: Mapping[str, Any]) -> Call:
    given = block.get("input")
    return Call(
        text_or_none(block.get("id")),
        text_or_none(block.get("name")),
        given if isinstance(given, dict) else {},
        moment(record.get("timestamp")),
    )
