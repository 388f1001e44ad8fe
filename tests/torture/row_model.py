"""What a line of the torture list says, and the sections of its page."""

from __future__ import annotations

from typing import NamedTuple

STATUS, ACTING, MACHINE = "Status", "Launch, stop and directories", "The machine"
TERMINALS = "Terminals and worktrees"
SECTIONS = (STATUS, ACTING, MACHINE, TERMINALS)
TS = "the TypeScript agentctl 1.9.1"


class Line(NamedTuple):
    name: str
    section: str
    world: str  # what happens
    must: str  # what must be true then
    seen: str = ""  # the public failure
