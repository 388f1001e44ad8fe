"""The agents' names for the same few tools: a directive is translated to what the request offers."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Tools = dict[str, dict[str, Callable[[str], dict[str, Any]]]]

Call = tuple[str, dict[str, Any]]


def question(text: str, **more: Any) -> dict[str, Any]:
    options = [{"label": "Red", "description": "the first"}, {"label": "Blue", "description": "the second"}]
    return {"questions": [{"question": text, "header": "Choice", "options": options, **more}]}


# Of agents that have no description: directive -> tool -> its arguments.
OTHERS: Tools = {
    "bash": {"run_shell_command": lambda command: {"command": command, "description": "run it"}},
    "ask": {"run_shell_command": lambda command: {"command": command, "description": "run it"}},
}


@functools.cache
def dialects() -> Tools:
    """Return the tools of every agent: directive -> tool -> its arguments, in the order of preference."""
    from tests.lab.recipes import RECIPES  # a recipe needs the fake model, and so this module

    found: Tools = {}
    for tools in (*(recipe.TOOLS for recipe in RECIPES.values()), OTHERS):
        for directive, mine in tools.items():
            found.setdefault(directive, {}).update(mine)
    return found


def translate(directive: str, argument: str, offered: tuple[str, ...]) -> Call | None:
    """None: the agent offers no tool that can do it."""
    for tool, arguments in dialects()[directive].items():
        if tool in offered:
            return tool, arguments(argument)
    return None


def exact(tool: str, given: str) -> Call | None:
    arguments = json.loads(given or "{}")
    return (tool, arguments) if isinstance(arguments, dict) else None
