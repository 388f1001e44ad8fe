"""Launches whose store is not among those that are read: their sessions are not "not there", they are elsewhere.

Each launch notes the store of its agent (launch.json), so this is a fact and no guess. It is asked for only if a
session was not found.
"""

from __future__ import annotations

import os

from agentctl.errors import TruthUnavailable
from agentctl.launches import records
from agentctl.query.attribution import printed_in
from agentctl.query.roots import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.model import Launch
    from agentctl.query.sessions import Look


def check(prefix: str, look: Look, env: Mapping[str, str]) -> None:
    """Raise TruthUnavailable if a launch of ours began a session whose id begins like this, in a store that this look
    has not read."""
    for launch in records.read_all(env)[0]:
        id = id_of(launch)
        if id is not None and id.startswith(prefix) and (why := why_apart(launch, look)) is not None:
            raise TruthUnavailable(f"session {id} was begun by launch {launch.id}, and cannot be looked for: {why}")


def why_apart(launch: Launch, look: Look) -> str | None:
    """Return why the session of a launch cannot be in this look; None if the store of that launch was read, or is not
    known."""
    if launch.store is None:
        return None
    readings = [reading for reading in look.readings if launch.agent == reading.agent.NAME]
    if any(reading.store.root == launch.store for reading in readings):
        return None
    here = identity(launch.store)
    if here is not None and here in {identity(reading.store.root) for reading in readings}:
        return None  # the same folder, by another name
    return (
        f"its store is elsewhere: {launch.store} is none of the stores that are read; name it in [stores] of "
        f"config.toml ({launch.agent})"
    )


def id_of(launch: Launch) -> str | None:
    """Return the session that a launch was for, by what we chose, noted, or found in its output."""
    return launch.session_id or (
        printed_in(os.path.dirname(launch.path or ""), launch.agent) if launch.one_shot else None
    )
