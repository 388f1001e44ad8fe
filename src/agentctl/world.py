"""What a judgement is made from and what it is made of: one reading of the world, one case, one verdict."""

from __future__ import annotations

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
    from agentctl.processes import Processes

Name = tuple[str, str]  # (agent, session id)

RULES = {
    "alive": "a live process is proved to be on it, or is the only one that can be",
    "closed": "no process is on it, and its last turn is closed in its store",
    "key-gone": "the process recorded for it is proved gone, in mid-turn",
    "exhausted": "the process table is complete for its store, and no live process of its agent can be on it",
    "supervised": "its agent's own daemon lives and still has it as unfinished: it may be brought back",
    "candidate": "a live process may be on it, and it cannot be told whether it is",
    "unseen": "the process table is not complete for its store: a missing process proves nothing",
    "elsewhere": "its process was recorded where we cannot look: another PID namespace or machine",
    "newer": "its record was written after the process table was read, so the table says nothing of its writer",
    "parent": "a sub-agent, in its parent's process",
    "unread": "its store could not be read, or says nothing of its turn",
}


class Launched(Value):
    """A launch of ours: what it is of, and how its processes ended. It never says whether one lives."""

    launch: Launch
    session_id: str | None = None  # chosen by us, or the first that it printed
    agents: tuple[ProcessKey, ...] = ()  # of the processes that live: the one that was started, or what it wraps
    exits: tuple[Exit, ...] = ()


class World(Value):
    """Everything that is known at one moment."""

    processes: Processes
    stores: tuple[StoreView, ...] = ()
    records: tuple[Record, ...] = ()
    links: tuple[Link, ...] = ()
    claims: tuple[Claim, ...] = ()
    supervisors: tuple[Supervisor, ...] = ()
    launches: tuple[Launched, ...] = ()
    host: str | None = None  # the name of this machine


class Case(Value):
    """What concerns one session."""

    agent: str
    id: str
    record: Record | None
    live: tuple[Link, ...]
    dead: tuple[Link, ...]
    incomplete: str | None  # why a missing process proves nothing in one of the stores that have it
    blockers: tuple[Claim, ...]
    supervisors: tuple[Supervisor, ...]
    launched: Launched | None = None  # the newest launch of ours that is of this session


class Verdict(Value):
    process: str
    turn: str
    rule: str
    reason: str | None = None
    last_turn: str | None = None
    waiting_for: str | None = None
    inferred: bool = False
    link: Link | None = None
    evidence: tuple[Evidence, ...] = ()
