"""Tells whether the program of a launch is the agent itself, before it is started.

A wrapper may hand the agent to another machine, or to a container that our process table does not show (ssh, a VM with
a shared home). Then the end of what we started says nothing of the agent. So the record of a launch names its wrapper.
"""

from __future__ import annotations

import os

from agentctl.agents import TABLE, load
from agentctl.kernel.programs import SCRIPTS, kind_of
from agentctl.model import Details

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = 256  # bytes: the kernel reads as many for the line that names an interpreter


def wrapper_in(agent: str, path: str, argv: Sequence[str]) -> str | None:
    """Return the program at this path, if it is not the agent's own; None if it is. One that cannot be read may be
    anything."""
    if agent not in TABLE:
        return None
    real = os.path.realpath(path)
    try:
        with open(real, "rb") as file:
            head = file.read(HEAD)
    except OSError:
        return path
    if head.startswith(b"#!"):
        runtime = kind_of(interpreter_in(head), None) == SCRIPTS
        return None if runtime and load(agent).is_named_in((real, path)) else path
    return None if load(agent).executes(Details(argv=tuple(argv), exe=real)) else path


def interpreter_in(head: bytes) -> str:
    """Return the interpreter that the first line of a script names, by itself or through env."""
    words = head[2:].split(b"\n", 1)[0].decode(errors="replace").split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""
