"""The mark of a worktree that agentctl made for a launch: a file in git's own folder of it, which git removes with it.

The record of a launch expires; the worktree may stay. The mark names the directory and the branch: if a person has
moved the worktree, made another one in its place, or checked out another branch, it is the person's.
"""

from __future__ import annotations

import json
import os

from agentctl.kernel import places
from agentctl.workspace.special_files import SMALL, content
from agentctl.workspace.worktree import admin_folder

MARK = "agentctl-launch"


def set_mark(common: str, path: str, branch: str) -> None:
    """Mark a worktree that was just made. Without room for it, only `clean --merged` knows less."""
    own, made = admin_folder(common, path), places.made(path)
    if own is None or made is None:
        return
    facts = {"path": os.path.realpath(path), "directory": made, "branch": branch}
    try:
        with open(os.path.join(own, MARK), "x", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(facts, file)
    except OSError:
        return


def is_ours(common: str, path: str, branch: str | None) -> bool:
    """Return whether agentctl made this very worktree, and it has the branch that it was made with."""
    own, made = admin_folder(common, path), places.made(path)
    if own is None or made is None or branch is None:
        return False
    try:
        facts = json.loads(content(os.path.join(own, MARK), SMALL))
    except (OSError, ValueError, RecursionError):
        return False  # none of ours, as far as that can be told: it stays
    return bool(facts == {"path": os.path.realpath(path), "directory": [*made], "branch": branch})
