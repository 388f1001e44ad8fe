"""The values of a judgement: the world that is judged, the case of one session, the verdict on it."""

from __future__ import annotations

from agentctl.launches.written import Written
from agentctl.model import (
    Claim,
    Evidence,
    Exit,
    Launch,
    Link,
    ProcessKey,
    Record,
    StoreView,
    Supervisor,
    Value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.kernel.processes import Processes

Name = tuple[str, str]  # (agent, session id)

RULES = {
    "alive": "a live process is proved to be on it, or is the only one that can be",
    "closed": "no process is on it, and its last turn is closed in its store",
    "key-gone": "the process recorded for it is proved gone, in mid-turn",
    "exhausted": "the process table is complete for its store, and no live process of its agent can be on it",
    "supervised": "its agent's own daemon lives and still has it as unfinished: it may be brought back",
    "candidate": "a live process may be on it, and it cannot be told whether it is",
    "stranger": "a live process of another name or user may be on it: its program, start and directory allow it",
    "unseen": "the process table is not complete for its store: a missing process proves nothing",
    "elsewhere": "its process was recorded where we cannot look: another PID namespace or machine",
    "wrapped": "agentctl launched it through a program that lives and is not the agent, which may run elsewhere",
    "handed-on": "agentctl launched it through a program that is not the agent, which may run elsewhere",
    "newer": "its record was written after the process table was read, so the table says nothing of its writer",
    "parent": "a sub-agent, in its parent's process",
    "unread": "its store could not be read, or says nothing of its turn",
}


CLOCKS_DIFFER = 1.0  # seconds: an agent may note a time that is rounded


class Launched(Value):
    """A launch of ours: which session it is of, and how its processes ended. It never says whether one lives."""

    record: Launch | Written
    session_id: str | None = None  # chosen by us, or the first that it printed
    agents: tuple[ProcessKey, ...] = ()  # its live processes: the one that we started, or those that it wraps
    exits: tuple[Exit, ...] = ()
    ended: bool = False  # its agent and its runner are proved to have ended
    unseen: str | None = None  # why its agent may live although we see no process of it
    handed: str | None = None  # why its agent may never have been a process that we could see
    wrapped_by: ProcessKey | None = None  # the live process that we started, if that is not the agent

    @property
    def launch(self) -> Launch:
        return self.record.launch if isinstance(self.record, Written) else self.record

    def saw(self, links: Iterable[Link]) -> bool:
        """Return whether the process of one of these links is one that our runner started or reaped."""
        own = {self.launch.child, *(end.key for end in self.exits)}
        return any(link.key in own for link in links)

    def last_end(self, record: Record | None) -> Exit | None:
        """Return how the process that the runner started ended, if it was the last one on the session of this record:
        if the session was written later, then by another process."""
        end = next((end for end in self.exits if end.direct), None)
        written = record.updated_at if record is not None else None
        if end is None or (written is not None and end.at is not None and written > end.at + CLOCKS_DIFFER):
            return None
        return end


class World(Value):
    """Everything that one look has read: all that the judge knows."""

    processes: Processes
    stores: tuple[StoreView, ...] = ()
    records: tuple[Record, ...] = ()
    links: tuple[Link, ...] = ()
    claims: tuple[Claim, ...] = ()
    supervisors: tuple[Supervisor, ...] = ()
    launches: tuple[Launched, ...] = ()
    host: str | None = None  # the name of this machine
    ended: frozenset[ProcessKey] = frozenset()  # the processes of links that are proved to have ended
    # Live processes that no agent recognises, and that may be one: they only stand against a firm end in mid-turn.
    strangers: tuple[Claim, ...] = ()
    left: tuple[Link, ...] = ()  # the links whose processes live and are not on their sessions any more
    frozen: frozenset[ProcessKey] = frozenset()  # the processes of links that their cgroup keeps from running

    def why_unread(self, agent: str) -> str | None:
        """Return why a store of this agent could not be read; None if all of them were. Then what was not seen there
        is not there."""
        return next((store.unread for store in self.stores if store.agent == agent and store.unread), None)


class Case(Value):
    """The facts about one session."""

    agent: str
    id: str
    record: Record | None
    live: tuple[Link, ...]
    dead: tuple[Link, ...]
    incomplete: str | None  # why a missing process proves nothing, in one of the stores that have it
    blockers: tuple[Claim, ...]  # live processes that may be on it
    supervisors: tuple[Supervisor, ...]
    launched: Launched | None = None  # the newest launch of this session
    strangers: tuple[Claim, ...] = ()  # live processes of no known name that may be on it, if its last turn is open
    screens: tuple[Claim, ...] = ()  # live processes that may have it open on their screen, without working on it
    unseen: str | None = None  # why a launch of this session may live where we cannot look
    unlikely: tuple[Claim, ...] = ()  # live processes that can be on it, and only hints speak against it

    @property
    def why_open(self) -> str | None:
        """Return who may have it open on a screen. Such a process works on no turn of it, and may begin one."""
        pids = ", ".join(str(claim.key.pid) for claim in self.screens)
        return f"pid {pids} may have it open on its screen, which leaves no trace" if pids else None


class Scene(Value):
    """What sessions are shown with, besides their own case: the process table, and what is known of its processes."""

    processes: Processes
    ended: frozenset[ProcessKey] = frozenset()  # proved to have ended
    frozen: frozenset[ProcessKey] = frozenset()  # kept from running by their cgroup
    wrappers: frozenset[ProcessKey] = frozenset()
    cwds: Mapping[ProcessKey, str | None] = {}  # of the agents' processes
    host: str | None = None


class Verdict(Value):
    """What the judge says of one session, and the rule that decided."""

    process: str
    turn: str
    rule: str
    reason: str | None = None
    last_turn: str | None = None
    waiting_for: str | None = None
    inferred: bool = False
    link: Link | None = None
    evidence: tuple[Evidence, ...] = ()
