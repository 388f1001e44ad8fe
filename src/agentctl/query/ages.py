"""A process cannot be on a turn that is older than itself. One rule for all agents, for open turns and for closed ones.

An agent that was killed in mid-turn leaves its turn open in its store for ever. If another process resumes the session,
nothing is written before the next prompt: by its record alone that process would still work, or wait for an answer that
nobody can give any more. In the same way an old end says nothing of a run that was started for a new prompt.

Times tell, so what follows from them is inferred. The clock may have been set since: a process is as old as the oldest
moment at which it is known to have lived, by the clock of then (`Link.lived_at`), and the kernel may know what it
wrote. `cases.py` compares the ages, for the judge asks, too: a sub-agent is not older than its parent's process.
"""

from __future__ import annotations

from agentctl.agents.base import FINISHING
from agentctl.model import IDLE, INTERRUPTED, UNKNOWN, WORKING, Evidence, Link, Record
from agentctl.query.cases import is_older, younger_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.agents.base import Store
    from agentctl.kernel.processes import Processes

LEFT = "at its prompt: its last turn is older than its process, so an earlier one left it unfinished"
NEARLY = "its last record is as old as its process: an earlier one may have left this turn unfinished"
NOT_YET = "started for one prompt, and its store has nothing of that yet: its last turn is older than its process"


def as_left(record: Record) -> Record:
    """Return a record as a younger process finds it: an open turn was interrupted, and nothing of it is pending."""
    if record.turn != WORKING:
        return record
    return record._replace(turn=INTERRUPTED, pending=None, pending_tool=None, pending_id=None, inferred=True)


def as_found(record: Record | None, link: Link, processes: Processes) -> Record | None:
    """Return a record as the process of a link finds it."""
    return as_left(record) if record is not None and is_of_another(record, link, processes) else record


def is_of_another(record: Record, link: Link, processes: Processes) -> bool:
    """Return whether another process wrote this record, before the one of the link started."""
    return bool(younger_by(record, link, processes)) and not wrote(record, link, processes)


def wrote(record: Record, link: Link, processes: Processes) -> bool:
    """Return whether the kernel says that this process wrote to the transcript: then the clock was set, and the turn is
    its own. It is asked only if the times say otherwise."""
    process = processes.alive(link.key)
    return process is not None and any(processes.positions(process, record.path or ""))


def observe(store: Store, link: Link, record: Record | None, processes: Processes) -> Link:
    """Return the link as its store observes it, if the record can be of its process; else with what follows."""
    seen = store.observe(link, record, processes)
    if record is None or not is_of_another(record, link, processes):
        return store.activity(seen, record)
    left = as_left(record)
    found = store.observe(link, left, processes)
    if found.reason == FINISHING:
        return found._replace(turn=UNKNOWN, reason=NOT_YET, since=None)
    if record.turn != WORKING or (found.turn is not None and found.turn == seen.turn):
        return store.activity(found, left)  # its process says itself what it does, or is at its prompt in any case
    if not is_older(record, link, processes):
        return store.activity(seen._replace(reason=seen.reason or NEARLY, inferred=True), record)
    began = f"pid {link.key.pid} started after the last record of this turn was written"
    facts = (*found.evidence, Evidence("rule", began, record.path, link.key.pid, inferred=True))
    return found._replace(
        turn=IDLE, waiting_for=None, reason=LEFT, inferred=True, doubt=None, evidence=facts, since=None
    )
