"""The last answer of a session, for `launch --wait` and `resume --wait`."""

from __future__ import annotations

import os

from agentctl.cli import launch_options, output, peek
from agentctl.errors import AgentctlError
from agentctl.query.resolve import resolve_session
from agentctl.query.sessions import store_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentctl.model import Message

LOOKED_AT = 20  # messages from the end: the answer is the last but for notes


def print_answer(id: str, slot: str | None = None) -> None:
    """Print what the agent said last, on stdout. `slot`: name it in a line above. If it cannot be read, say so."""
    try:
        look = resolve_session(id, os.environ, related_launches_only=True)
        text = last_answer(peek.read(look.answer.sessions[0], store_of(look).messages, LOOKED_AT).messages)
    except AgentctlError as error:
        launch_options.tell(f"its answer could not be read: {error}")
        return
    if text is None:
        return  # `wait` has said how it ended
    if slot is not None:
        print(f"== {output.plain(slot)}")
    print("\n".join(output.plain(line) for line in text.split("\n")), flush=True)


def last_answer(messages: Sequence[Message]) -> str | None:
    """Return what the agent said last; None if it said nothing after the last prompt."""
    for message in reversed(messages):
        if message.role == "user":
            return None
        if message.role == "assistant" and message.text.strip():
            return message.text.strip("\n")
    return None
