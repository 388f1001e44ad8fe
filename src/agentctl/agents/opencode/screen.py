"""Which sessions the screen of an OpenCode process can show.

A person opens any of them with `/sessions`, and that leaves no trace: no line in the log, no row, no file names the
session that is on the screen (measured with 1.18.33). So what the list offers is all that can be known.

The list offers the sessions of the screen's project whose `path` is the screen's own place in the project, or below it;
at the top of a project that is all of them, those of its other worktrees and clones included. A command of the screen
turns the restriction to a place off. It notes that in kv.json, so if the note is there, whatever it says now, the
restriction does not count.
"""

from __future__ import annotations

import os

from agentctl.agents.base import home
from agentctl.files.bounded import Torn, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NOTE = "session_directory_filter_enabled"


def places_of(directory: str, roots: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return where a directory is in each project that contains it: project -> relative path, empty at its top.
    `roots`: (project, folder), for all folders of all projects."""
    found: dict[str, str] = {}
    for project, root in roots:
        place = place_in(root, directory)
        if place is not None and (project not in found or len(place) < len(found[project])):
            found[project] = place
    return found


def place_in(root: str, directory: str) -> str | None:
    if directory == root:
        return ""
    above = root.rstrip("/") + "/"
    return directory.removeprefix(above) if directory.startswith(above) else None


def is_whole_project(env: Mapping[str, str]) -> bool:
    """Return whether a screen with this environment may offer its whole project, wherever in it the screen is."""
    state = env.get("XDG_STATE_HOME", "")
    folder = state if os.path.isabs(state) else os.path.join(home(env), ".local/state")
    try:
        return NOTE in read_json(os.path.join(folder, "opencode", "kv.json"))
    except FileNotFoundError:
        return False  # no setting of a screen was ever changed
    except (OSError, Torn):
        return True  # nobody can tell
