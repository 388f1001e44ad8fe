"""In which directory a process works, by the paths that its agent may have written down for it."""

from __future__ import annotations

import os

from agentctl.agents.base import STARTED_IN
from agentctl.files.bounded import real_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.model import Details


def names_of(details: Details) -> tuple[str, ...]:
    """Return the paths that the directory of a process may have in a store; none if it cannot be read. The kernel gives
    the path as the process sees it: in a container, links of ours lead elsewhere. And the directory may have been
    renamed since the process started."""
    if details.cwd is None:
        return ()
    names = [real_path(details.cwd), details.cwd]
    started_in = (details.env or {}).get(STARTED_IN, "")
    if os.path.isabs(started_in):
        names += [real_path(started_in), started_in]
    return tuple(dict.fromkeys(names))


def is_in(details: Details, recorded: str) -> bool:
    """Return whether a process may work in the directory that a store recorded: by its paths, or because both are one
    directory."""
    names = names_of(details)
    if recorded in names or real_path(recorded) in names:
        return True
    if details.directory is None:
        return False
    from agentctl.kernel.places import identity

    return identity(recorded) == details.directory
