"""The sessions whose ids begin like those that are shown: so that `list` prints what every command takes.

Not all sessions are listed for that. An id of random digits shares its first eight with no other (one in four thousand
million). An id that begins with its time, or that somebody chose, may: its store is asked for those that begin like it.
"""

from __future__ import annotations

from agentctl.agents.base import is_random
from agentctl.kernel.stall_guard import gather
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentctl.query.reading import Reading, Readings

HEAD = 8  # characters of an id that are shown at least


class Alike(Value):
    """The ids that begin like those that were asked for."""

    ids: frozenset[str] = frozenset()
    unsure: frozenset[str] = frozenset()  # the agents of which not every session could be looked at


def alike(named: Iterable[tuple[str, str]], readings: Readings) -> Alike:
    """Return the stored ids that begin like these sessions, (agent, id), which are not all that there are."""
    heads: dict[str, set[str]] = {}
    for agent, id in named:
        if not is_random(id):
            heads.setdefault(agent, set()).add(id[:HEAD])
    if not heads:
        return Alike()
    of_agent = [reading for reading in readings if reading.agent.NAME in heads and not reading.absent]
    asked = [reading for reading in of_agent if reading.usable]
    failures = {reading.name: reading.store.reader.failures for reading in asked}
    outcomes = gather([ids_in(reading, sorted(heads[reading.agent.NAME])) for reading in asked])
    unsure = {reading.agent.NAME for reading in of_agent if not reading.usable}
    for reading, (_, failure) in zip(asked, outcomes, strict=True):
        if failure is not None or reading.store.reader.failures > failures[reading.name]:
            unsure.add(reading.agent.NAME)
    return Alike(frozenset(id for ids, _ in outcomes for id in ids), frozenset(unsure))


def ids_in(reading: Reading, heads: Sequence[str]) -> Iterator[str]:
    yield from reading.store.alike(heads)
