"""The demo agent (agentctl.demo_agent): the smallest whole adapter, and the example of docs/adding-an-agent.md.

Who is on what: `sessions/<id>/process.json`, there while the process lives or after it was killed, with the boot,
the pid and the start ticks, and what the process does now. What the turn is: the last prompt or turn_end event of
`sessions/<id>/events.jsonl`.
"""

from __future__ import annotations

import os

from agentctl import model
from agentctl.agents.base import Agent, home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentctl.agents.base import Store
    from agentctl.model import (
        Details,
        Process,
    )

NAME = "demo"

PROGRAMS = ("agentctl.demo_agent", "agentctl.demo")  # the second was its name before agentctl had rooms


def module_of(argv: Sequence[str]) -> str | None:
    """Return what `python -m` runs. A `-m` further on is a word of some other program."""
    words = iter(argv[1:])
    for word in words:
        if word == "-m":
            return next(words, None)
        if word in ("-X", "-W"):
            next(words, None)
        elif not word.startswith("-"):
            return None
    return None


class Demo(Agent):
    NAME = NAME
    BINARIES = ("agentctl-demo",)
    ENV = ("HOME", "XDG_DATA_HOME")
    CERTIFIED = ("1.0",)

    def looks_like(self, comm: str) -> bool:
        return comm.lower().startswith(("python", "agentctl-demo"))

    def claims(self, process: Process, details: Details) -> str | None:
        argv = details.argv or ()
        if not (module_of(argv) in PROGRAMS or any(os.path.basename(word) in self.BINARIES for word in argv[:2])):
            return None
        return model.CLIENT if any(word in ("--version", "--help", "-h") for word in argv) else model.AGENT

    def executes(self, details: Details) -> bool:
        name, argv = os.path.basename(details.exe or ""), details.argv or ()
        runs = module_of(argv) in PROGRAMS or os.path.basename(argv[1] if len(argv) > 1 else "") in self.BINARIES
        return name in self.BINARIES or (name.lower().startswith(("python", "pypy")) and runs)

    def roots(self, env: Mapping[str, str]) -> tuple[str, ...]:
        data = env.get("XDG_DATA_HOME", "")
        if not os.path.isabs(data):  # the XDG specification: a relative path is to be ignored
            data = os.path.join(home(env), ".local/share")
        return (os.path.join(data, "agentctl-demo"),)

    def open_store(self, root: str) -> Store:
        from agentctl.agents.demo import store

        return store.Store(root)


ADAPTER = Demo()


def is_id(name: str) -> bool:
    """Return whether a session of the demo agent can be called this."""
    return len(name) == 36 and name.count("-") == 4
