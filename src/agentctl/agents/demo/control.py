"""How the demo agent is started and stopped."""

from __future__ import annotations

import os
import sys

from agentctl.agents.control_base import Control, new_id, words_for_screen
from agentctl.agents.demo.adapter import NAME
from agentctl.agents.recipes import BYPASS, DEFAULT, Delivery, Held, Recipe, Task
from agentctl.errors import Refused, UsageError
from agentctl.files.bounded import Torn, read_json
from agentctl.files.private import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.agents.screen import Input, Screen

MAILBOX = "prompt"  # a file in the folder of its session
# It comes with agentctl, so it is there wherever agentctl runs. -P: a folder of this name where it works is not it.
PROGRAM = (sys.executable, "-P", "-m", "agentctl.demo_agent")


class DemoControl(Control):
    """It is started like the real agents, and is sent a prompt through its terminal, or through a mailbox if it has
    none."""

    STORE_ENV = ("XDG_DATA_HOME",)

    def start(self, task: Task) -> Recipe:
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

    def naming(self, root: str) -> dict[str, str]:
        return {"XDG_DATA_HOME": os.path.dirname(root)}

    def way_to_send(self, held: Held) -> Delivery | None:
        """If nobody can type to it, it has a mailbox while it is idle."""
        folder = f"{held.session.store}/sessions/{held.session.id}"
        if not has_mailbox(folder, held):
            return None

        def deliver(text: str, seconds: float) -> None:
            if not has_mailbox(folder, held):
                raise Refused(f"{held.session.id} is not at its prompt any more; nothing was sent")
            replace_file(f"{folder}/{MAILBOX}", text.encode(errors="surrogateescape"))

        return Delivery("its mailbox", deliver)

    def input_on(self, screen: Screen) -> Input:
        from agentctl.agents.demo import input_line

        return input_line.input_on(screen)


def has_mailbox(folder: str, held: Held) -> bool:
    """Return whether this very process says that it looks into its mailbox now."""
    try:
        file = read_json(f"{folder}/process.json")
    except (OSError, Torn):
        return False
    key = held.process.key
    return file.get("mailbox") is True and (file.get("pid"), file.get("start_ticks")) == (key.pid, key.start)


CONTROL = DemoControl()
