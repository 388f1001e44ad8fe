"""What a thread of Codex asks a person: the call without an output. Read only if the thread waits."""

from __future__ import annotations

from agentctl.agents.asking import PERMISSION, QUESTION, Call, one_of, question_of, vague
from agentctl.agents.codex.calls import ASKS
from agentctl.agents.codex.rollout import CALLS
from agentctl.files.bounded import decode, lines_backward, moment, text_or_none
from agentctl.model import DETAIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from agentctl.files.reader import Reader
    from agentctl.model import Link, Question

LIMIT = 4 * 1024 * 1024  # bytes: a call may have a whole patch in it


def questions(
    link: Link, pending: Sequence[tuple[str, str, str]], path: str | None, reader: Reader
) -> tuple[Question, ...]:
    """Return what is asked. `pending`: (id, tool, words) of the calls without an output. If there are several, nothing
    tells which one is asked about."""
    kind = QUESTION if (link.waiting_for or "").startswith("input") else PERMISSION
    asked = [call for call in pending if (call[1] == ASKS) == (kind == QUESTION)]
    if len(asked) > 1:
        return one_of(link, kind, [words for _, _, words in asked])
    if not asked:
        return vague(link, kind)
    id, tool, words = asked[0]
    call = read_call(path, id, reader) if path is not None else None
    return (question_of(call or Call(id, tool, {}), kind, words, link),)


def read_call(path: str, id: str, reader: Reader) -> Call | None:
    try:
        return call_in(lines_backward(path, LIMIT), id)
    except FileNotFoundError:
        return None  # removed this moment
    except OSError as error:
        reader.note(path, error, DETAIL)
        return None


def call_in(lines: Iterable[bytes], id: str) -> Call | None:
    """Return the call of this id. Lines come from the last to the first."""
    wanted = id.encode(errors="surrogatepass")
    for line in lines:
        if wanted not in line:
            continue
        record = decode(line) or {}
        payload = record.get("payload")
        if isinstance(payload, dict) and payload.get("type") in CALLS and payload.get("call_id") == id:
            return Call(id, text_or_none(payload.get("name")), given_in(payload), moment(record.get("timestamp")))
    return None


def given_in(payload: dict[str, Any]) -> dict[str, Any]:
    """Return what a call was given: an object in JSON, or the text of a patch."""
    arguments, text = payload.get("arguments"), text_or_none(payload.get("input"))
    given = decode(arguments) if isinstance(arguments, str) else None
    return given or ({"patch": text} if text else {})
