"""What to answer: the directives in a prompt, and which of them is due. Knows no wire format.

    [[text:hi]]            an answer, which ends the turn
    [[slow:SEC:text]]      the same, with the first byte after SEC seconds
    [[stream:SEC:text]]    the same, word by word over SEC seconds
    [[hold:text]]          the same, with the first byte when ModelServer.let_go is called
    [[bash:CMD]]           a call of the agent's shell tool
    [[ask:CMD]]            the same, in the way that needs a person's permission
    [[background:CMD]]     the same, left running behind the turn
    [[question:TEXT]]      a call of the agent's tool that asks the person
    [[agent:PROMPT]]       a sub-agent; its own directives are written <<name:arg>>
    [[tool:NAME:{json}]]   a call of any tool
    [[hang]]               no byte, until the client goes away
    [[err:500]] [[err:429:3]]  an HTTP error, with retry-after: 3
    [[cut]]                the stream breaks off in the middle

The n-th directive of the last prompt that has any answers the n-th model turn after that prompt. A retry of the same
turn gets the same directive again. After the last one: a short text. An argument ends at the first `]]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tests.lab.model import tools as tool_dialects

PATTERN = re.compile(r"\[\[(\w+)(?::(.*?))?\]\]", re.DOTALL)
NAMES = frozenset("text slow stream hold bash ask background question agent tool hang err cut".split())
PLAIN = "ok"
AFTER_LAST = "done"
SIDE = '{"title": "A fake title"}'


@dataclass(frozen=True)
class Directive:
    name: str
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name


@dataclass(frozen=True)
class Message:
    """One step of a conversation, as far as the script needs it."""

    by_model: bool
    text: str = ""


@dataclass(frozen=True)
class Ask:
    """A request to the model, whatever its wire."""

    wire: str
    model: str
    stream: bool
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    body: dict[str, Any]
    side_answer: str = SIDE  # what a call for a title, a label or a token count is given


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What to send: an HTTP error, or words and perhaps a tool call."""

    words: tuple[str, ...] = ()
    call: ToolCall | None = None
    wait_before: float = 0.0
    wait_between: float = 0.0
    error: int | None = None
    retry_after: str | None = None
    hang: bool = False
    held: bool = False  # until it is let go
    cut: bool = False

    @property
    def text(self) -> str:
        return "".join(self.words)


@dataclass(frozen=True)
class Plan:
    """The directive that is due, and where in its prompt it stands."""

    directive: Directive
    turn: int
    side: bool


def directives(text: str) -> list[Directive]:
    return [Directive(name, argument or "") for name, argument in PATTERN.findall(text) if name in NAMES]


def plan(ask: Ask, *, side_calls: bool = True) -> Plan:
    """The directive for this request. One that offers no tools is a side call of the agent (a title, a label)."""
    if side_calls and not ask.tools:
        return Plan(Directive("text", ask.side_answer), 0, side=True)
    turn, after_model = 0, False
    for message in reversed(ask.messages):
        if message.by_model:
            turn += not after_model  # a model turn may be several messages in a row
            after_model = True
            continue
        after_model = False
        found = directives(message.text)
        if found:
            due = found[turn] if turn < len(found) else Directive("text", AFTER_LAST)
            return Plan(due, turn, side=False)
    return Plan(Directive("text", PLAIN), turn, side=False)


def seconds_and_text(argument: str) -> tuple[float, str]:
    seconds, _, text = argument.partition(":")
    return float(seconds or 0), text or "slow answer"


def reply(directive: Directive, ask: Ask) -> Reply:
    name, argument = directive.name, directive.argument
    if name == "err":
        code, _, retry_after = argument.partition(":")
        return Reply(error=int(code), retry_after=retry_after or None)
    if name == "hang":
        return Reply(hang=True)
    if name == "cut":
        return Reply(words=("this answer ", "is cut off"), cut=True)
    if name == "hold":
        return Reply(words=split(argument or PLAIN), held=True)
    if name == "slow":
        seconds, text = seconds_and_text(argument)
        return Reply(words=split(text), wait_before=seconds)
    if name == "stream":
        seconds, text = seconds_and_text(argument)
        words = split(text)
        return Reply(words=words, wait_between=seconds / max(1, len(words)))
    if name == "text":
        return Reply(words=split(argument or PLAIN))
    if name == "tool":
        tool, _, given = argument.partition(":")
        call = tool_dialects.exact(tool, given)
    else:
        call = tool_dialects.translate(name, argument.replace("<<", "[[").replace(">>", "]]"), ask.tools)
    if call is None:
        return Reply(words=split(f"no tool for [[{name}]] among those offered"))
    return Reply(call=ToolCall(*call))


def split(text: str) -> tuple[str, ...]:
    """In words, spaces kept: so that a stream has something to deliver piece by piece."""
    return tuple(re.findall(r"\S+\s*|\s+", text)) or ("",)
