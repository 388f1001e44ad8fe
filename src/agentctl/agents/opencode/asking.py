"""What a process of OpenCode asks a person: by its own interface if it has one, else by the calls without an end in its
database. Both name the call, so one question has one identity, whichever of the two tells of it. Pure."""

from __future__ import annotations

from agentctl.agents.asking import MAIN, PERMISSION, QUESTION, Call, question_of, vague
from agentctl.agents.opencode.turn import said
from agentctl.files.bounded import text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from agentctl.agents.opencode.api import Answer, Request
    from agentctl.agents.opencode.turn import Tool
    from agentctl.model import Link, Question

ASKING_TOOL = "question"
EDITS = frozenset(("edit", "write", "patch", "apply_patch", "multiedit"))  # one permission is for all of them


def questions(link: Link, tools: Sequence[tuple[str, Tool]], answers: Sequence[Answer] | None) -> tuple[Question, ...]:
    """Return what is asked. `tools`: the calls without an end, each with its session. `answers`: what the process says
    itself; None if it has no interface, or does not answer."""
    if answers is not None:
        told = [request for answer in answers for request in answer.requests]
        members = {link.id, *(member for member, _ in tools)}
        mine = [request for request in told if request.session in members]
        return tuple(dict.fromkeys(requested(request, link, tools) for request in mine)) or vague(link, None)
    quiet = [(member, tool) for member, tool in tools if tool.quiet]
    if len(quiet) != 1:
        return vague(link, None)
    member, tool = quiet[0]
    kind = QUESTION if tool.name == ASKING_TOOL else PERMISSION
    call = Call(tool.call, tool.name, tool.given, tool.begun)
    return (question_of(call, kind, tool.what or tool.name, link, by(member, link)),)


def by(member: str, link: Link) -> str:
    return MAIN if member == link.id else member


def requested(request: Request, link: Link, tools: Sequence[tuple[str, Tool]]) -> Question:
    """Return a question that the process tells, with what its database has of the call."""
    given = request.given
    named, asked = given.get("tool"), text_or_none(given.get("permission"))
    id = text_or_none(named.get("callID")) if isinstance(named, dict) else None
    tool = next((tool for member, tool in tools if tool.call == id and member == request.session), None)
    kind = QUESTION if asked is None else PERMISSION
    if tool is None:
        call = Call(id or text_or_none(given.get("id")), asked or ASKING_TOOL, told_of(given))
    else:
        own = tool.call if asked is None or is_usual(asked, tool) else f"{tool.call}/{asked}"
        call = Call(own, tool.name, tool.given or told_of(given), tool.begun)  # a call is stored before its input
    usual = tool is None or call.id == tool.call
    words = said(call.given) or (tool.name if tool is not None else request.words) if usual else request.words
    return question_of(call, kind, words, link, by(request.session, link))


def is_usual(permission: str, tool: Tool) -> bool:
    """Return whether this is the permission that the tool itself needs. Others (for a folder outside) may be asked for
    before, for the same call."""
    return permission == tool.name or (permission == "edit" and tool.name in EDITS)


def told_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request says of a call that the database does not have."""
    metadata = given.get("metadata")
    if isinstance(metadata, dict) and metadata:
        return metadata
    names = ("questions", "patterns")
    return {name: given[name] for name in names if given.get(name)}
