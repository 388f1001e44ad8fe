"""How the demo agent is started and stopped."""

from __future__ import annotations

import sys

from agentctl.agents.controls import words_for_screen
from agentctl.agents.demo import NAME
from agentctl.errors import UsageError
from agentctl.recipes import BYPASS, DEFAULT, Held, Recipe, Task, Way

SECOND_WRITER = False
# It comes with agentctl, so it is there wherever agentctl runs. -P: a folder of this name where it works is not it.
PROGRAM = (sys.executable, "-P", "-m", "agentctl.demo")


def start(task: Task) -> Recipe:
    if task.permissions not in (None, DEFAULT, BYPASS):
        raise UsageError(f"the demo agent has no mode {task.permissions!r}; it has {DEFAULT} and {BYPASS}")
    id = task.session.id if task.session else new_id()
    named = ("--resume", id) if task.session else ("--session-id", id)
    model = task.model or (task.session.model if task.session else None)
    argv = (
        *PROGRAM,
        *named,
        *(("--model", model) if model else ()),
        *(("--yes",) if task.permissions == BYPASS else ()),
        *task.flags,
    )
    if task.interactive:
        return Recipe((*argv, "--interactive", *words_for_screen(NAME, task.prompt)), session_id=id)
    return Recipe((*argv, "-p", "-"), task.prompt.encode(), session_id=id)


def new_id() -> str:
    import uuid

    return str(uuid.uuid4())


def printed_id(output: bytes) -> str | None:
    """The id is always chosen beforehand."""
    return None


def way_to_stop(held: Held) -> Way:
    return Way()


def way_to_send(held: Held) -> None:
    """Its terminal is the only way."""


def own_screen(held: Held) -> None:
    """It has no daemon."""
