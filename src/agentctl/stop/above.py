"""Whether a stop would end what this command runs in, by the records of launches. Pure.

What a launch started is no descendant of its launcher, so the process table does not tell (`Ground.ourselves` does, for
what descends): a launched agent could stop the agent that launched it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from agentctl.model import Launch, ProcessKey
    from agentctl.stop.plan import Name


def why_launch_is_above(id: str, lineage: Sequence[Launch]) -> str | None:
    """Return why this launch must not be stopped from here; None if it may. `lineage`: the launches that this command
    is in, the innermost first."""
    if not lineage or all(launch.id != id for launch in lineage):
        return None
    below = "" if lineage[0].id == id else f", which launched launch {lineage[0].id}"
    return f"this command runs inside of launch {id}{below}; stop it from outside"


def why_session_is_above(
    name: Name, launch_id: str | None, keys: Collection[ProcessKey], lineage: Sequence[Launch]
) -> str | None:
    """Return why this session must not be stopped from here; None if it may. `keys`: its processes."""
    if launch_id is not None and (why := why_launch_is_above(launch_id, lineage)) is not None:
        return why
    for launch in lineage:
        by = launch.launcher
        if by is not None and ((by.agent, by.session) == name or by.process in keys):
            return f"it launched launch {launch.id}, which this command runs inside of; stop it from outside"
    return None
