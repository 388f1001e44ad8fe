"""Who is where at this moment: one look, by which launch, accept and `worktree clean` decide."""

from __future__ import annotations

import os

from agentctl.errors import Refused
from agentctl.kernel import places
from agentctl.model import ALIVE, Value
from agentctl.query.sessions import Scope, settled_look
from agentctl.workspace import occupancy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.model import Launch
    from agentctl.query.sessions import Look
    from agentctl.workspace.occupancy import Conflict, Holder, Lock, Where


class Presence(Value):
    look: Look
    launches: tuple[Launch, ...]  # of ours, whose process lives or may live
    where: Where

    @property
    def holders(self) -> list[Holder]:
        return list(occupancy.holders(self.look.answer, self.launches))

    def in_the_way(self, directory: str, manual: Iterable[Lock] = ()) -> list[Conflict]:
        """Return what stands against an agent, or a person's change, in this directory; what blocks comes first. Raises
        Refused if it cannot be told which directory that is."""
        here = places.of_path(os.path.realpath(directory))
        if here is None or here.at is None:
            raise Refused(f"{directory}: it cannot be told which directory this is; check that you may enter it")
        ancestors = self.look.world.processes.ancestors(os.getpid())
        return occupancy.conflicts(here, self.look.answer, manual, self.launches, ancestors, self.where)


def look_around(env: Mapping[str, str]) -> Presence:
    look = settled_look(Scope(children=True), env)  # a sub-agent may work in a worktree of its own
    table = look.world.processes
    launches = occupancy.launches_that_live([ours.launch for ours in look.world.launches], table)
    return Presence(look, tuple(launches), occupancy.Where(table, look.world.claims, lately(look)))


def lately(look: Look) -> dict[tuple[str, str], Sequence[str]]:
    """Return the directories that the records of each live session name. A process may stay in the directory in which
    it was started, and work in another one."""
    stores = {reading.name: reading.store for reading in look.readings if reading.usable}
    return {
        (one.agent, one.id): stores[one.agent, one.store].directories(one.id)
        for one in look.answer.sessions
        if one.process == ALIVE and one.store is not None and (one.agent, one.store) in stores
    }
