"""The agents' names for the same few tools: a directive is translated to what the request offers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Call = tuple[str, dict[str, Any]]
LONG = 30_000  # milliseconds that Codex waits for a command before it leaves it running
SHORT = 250


def question(text: str, **more: Any) -> dict[str, Any]:
    options = [{"label": "Red", "description": "the first"}, {"label": "Blue", "description": "the second"}]
    return {"questions": [{"question": text, "header": "Choice", "options": options, **more}]}


# Directive -> the tools that can do it, in order of preference, each with the arguments it takes.
DIALECTS: dict[str, dict[str, Callable[[str], dict[str, Any]]]] = {
    "bash": {
        "Bash": lambda command: {"command": command, "description": "run it"},
        "exec_command": lambda command: {"cmd": command, "yield_time_ms": LONG},
        "shell_command": lambda command: {"command": command},
        "bash": lambda command: {"command": command, "description": "run it"},
        "run_shell_command": lambda command: {"command": command, "description": "run it"},
    },
    "ask": {
        "Bash": lambda command: {"command": command, "description": "run it"},
        "exec_command": lambda command: {
            "cmd": command,
            "yield_time_ms": LONG,
            "sandbox_permissions": "require_escalated",
            "justification": "the lab wants to be asked",
        },
        "bash": lambda command: {"command": command, "description": "run it"},
        "run_shell_command": lambda command: {"command": command, "description": "run it"},
    },
    "background": {
        "Bash": lambda command: {"command": command, "description": "run it", "run_in_background": True},
        "exec_command": lambda command: {"cmd": command, "yield_time_ms": SHORT},
        "bash": lambda command: {"command": f"{command} >/dev/null 2>&1 &", "description": "run it"},
    },
    "question": {
        "AskUserQuestion": lambda text: question(text, multiSelect=False),
        "request_user_input": lambda text: question(text, id="choice"),
        "question": lambda text: question(text),
    },
    "agent": {
        "Agent": lambda prompt: {"description": "sub task", "prompt": prompt, "subagent_type": "general-purpose"},
        "Task": lambda prompt: {"description": "sub task", "prompt": prompt, "subagent_type": "general-purpose"},
        "spawn_agent": lambda prompt: {"task_name": "sub_task", "message": prompt},
        "task": lambda prompt: {"description": "sub task", "prompt": prompt, "subagent_type": "general"},
    },
}


def translate(directive: str, argument: str, offered: tuple[str, ...]) -> Call | None:
    """None: the agent offers no tool that can do it."""
    for tool, arguments in DIALECTS[directive].items():
        if tool in offered:
            return tool, arguments(argument)
    return None


def exact(tool: str, given: str) -> Call | None:
    arguments = json.loads(given or "{}")
    return (tool, arguments) if isinstance(arguments, dict) else None
