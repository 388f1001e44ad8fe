"""Notices new processes that an agent recognises: the kernel has no notification for them that needs no privileges."""

from __future__ import annotations

import time

from agentctl.agents import chosen, load_all
from agentctl.agents.guard import despite_faults
from agentctl.kernel.newcomers import Newcomers, table_of
from agentctl.query.candidates import claim_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentctl.model import ProcessKey

CHECK_PIDS = 1.0  # seconds


class Births:
    """Compares the set of pids; only new processes are read. `agents`: whose processes; None: of all."""

    def __init__(self, agents: Sequence[str] | None) -> None:
        self._agents = agents
        self._newcomers = Newcomers()
        self._checked = time.monotonic()
        self.known: frozenset[ProcessKey] = frozenset()  # the processes that the last look took for an agent's

    @property
    def blind(self) -> bool:
        """Are new processes not noticed here?"""
        return self._newcomers.blind

    def next_check(self) -> float:
        return self._checked + CHECK_PIDS

    def before_look(self) -> None:
        """What is born from now on is new: the look that begins now may miss it."""
        self._check()

    def check(self) -> bool:
        """Is there a new process that an agent recognises, and that the last look did not see?"""
        return self.is_agent_among(self._check())

    def _check(self) -> frozenset[int]:
        self._checked = time.monotonic()
        return self._newcomers.check()

    def is_agent_among(self, pids: frozenset[int]) -> bool:
        if not pids:
            return False
        table = table_of(pids)
        claims = despite_faults(load_all(chosen(self._agents)), lambda agents: claim_all(agents, table))
        return any(claim.process.key not in self.known for claim in claims)
