"""The demo agent has no model. A script, in the prompt or in --script, says what it does:

    [[text:hello]]   say something
    [[sleep:20]]     a model call that takes 20 seconds
    [[bash:CMD]]     run CMD as a tool
    [[ask:CMD]]      ask for permission to run CMD, and wait for the answer
    [[fail:TEXT]]    the turn ends in an error
    [[idle]]         the turn ends and the agent stays at its prompt

An argument ends at the first `]]`. The agent ignores text outside of directives. It repeats a prompt that has none.
Any other `[[WORD]]` or `[[WORD:...]]` is an error.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DIRECTIVE = re.compile(r"\[\[([A-Za-z]+)(?::(.*?))?\]\]", re.DOTALL)
WITH_ARGUMENT = ("text", "sleep", "bash", "ask", "fail")
BARE = ("idle",)
SHOWN = 60  # characters of a directive in an error
KNOWN = ", ".join([*(f"[[{name}:...]]" for name in WITH_ARGUMENT), *(f"[[{name}]]" for name in BARE)])


class ScriptError(Exception):
    """A directive that the demo agent does not know; the message is for people."""


class Directive(NamedTuple):
    name: str
    argument: str


def parse(prompt: str) -> list[Directive]:
    """Return the directives of a prompt. Raises ScriptError for an unknown one."""
    directives = [directive_of(match) for match in DIRECTIVE.finditer(prompt)]
    return directives or [Directive("text", f"You said: {prompt.strip()}")]


def directive_of(match: re.Match[str]) -> Directive:
    name, argument = match[1], match[2]
    if name not in (BARE if argument is None else WITH_ARGUMENT):
        shown = " ".join(match[0].split())
        raise ScriptError(f"unknown directive {shown[:SHOWN]}; known: {KNOWN}")
    return Directive(name, argument or "")


def stays(prompt: str) -> bool:
    """Return whether the agent is to stay at its prompt after this turn, however it ends."""
    return any(directive.name == "idle" for directive in parse(prompt))
