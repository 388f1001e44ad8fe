"""The script in a prompt: what the model would have decided, written out by the person.

    [[text:hello]]   say something
    [[sleep:20]]     a model call that takes 20 seconds
    [[bash:CMD]]     run CMD as a tool
    [[ask:CMD]]      ask for permission to run CMD, and wait for the answer
    [[fail:TEXT]]    the turn ends in an error
    [[idle]]         the turn ends and the agent stays at its prompt

An argument ends at the first `]]`. Text outside of directives is for people. A prompt without any is answered.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DIRECTIVE = re.compile(r"\[\[(?:(text|sleep|bash|ask|fail):(.*?)|(idle))\]\]", re.DOTALL)


class Directive(NamedTuple):
    name: str
    argument: str


def parse(prompt: str) -> list[Directive]:
    found = [Directive(match[1] or match[3], match[2] or "") for match in DIRECTIVE.finditer(prompt)]
    return found or [Directive("text", f"You said: {prompt.strip()}")]


def stays(prompt: str) -> bool:
    """Is the agent to stay at its prompt after this turn, however it ends?"""
    return any(directive.name == "idle" for directive in parse(prompt))
