"""Who is in a group, and what its slots are: one answer for every command.

A group is a repository and a name: `night` here and `night` there are two. A slot of it is its newest launch. Its place
is the worktree that was made for it, also if it was resumed since.
"""

from __future__ import annotations

import os

from agentctl.errors import NotFound, SeveralGroups
from agentctl.files import bounded
from agentctl.files.bounded import real_path
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentctl.model import Launch

GROUPS_SHOWN = 20
GIT, POINTER, COMMON = ".git", "gitdir: ", "commondir"
OF_A_GIT_FOLDER = ("HEAD", "objects", "refs")
LONGEST = 4096 + len(POINTER)


class Slot(Value):
    """One slot of a group. Its newest launch says what it does, and `given` where its work is."""

    name: str
    launch: Launch
    given: Launch  # the newest one with a worktree; the same if there is none


# Which launches


def names(launches: Sequence[Launch]) -> list[str]:
    """Return the names of their groups, the newest first."""
    return list(dict.fromkeys(one.group for one in reversed(launches) if one.group))


def of_group(group: str, launches: Sequence[Launch], here: str | None) -> list[Launch]:
    """Return the launches of a group, oldest first. `here`: the directory in which it is asked for. Raises NotFound,
    with the groups that there are, and SeveralGroups."""
    if found := meant(group, launches, here):
        return found
    known = names(launches)
    shown = ", ".join(known[:GROUPS_SHOWN]) + (", ..." if len(known) > GROUPS_SHOWN else "")
    there = f"known: {shown}" if known else "nothing was launched with --group lately"
    raise NotFound(f"no group {group!r}; {there}")


def meant(group: str, launches: Sequence[Launch], here: str | None) -> list[Launch]:
    """Return the launches that a name means in a directory: those of its repository. If that has none of this name,
    those of the one that has. Raises SeveralGroups."""
    by_repository: dict[str | None, list[Launch]] = {}
    for launch in launches:
        if launch.group == group:
            by_repository.setdefault(repository_of(launch), []).append(launch)
    if len(by_repository) > 1:
        ours = repository_at(here) if here is not None else None
        if ours not in by_repository:
            raise SeveralGroups(group, sorted(map(shown_as, by_repository)))
        return by_repository[ours]
    return next(iter(by_repository.values()), [])


def repository_of(launch: Launch) -> str | None:
    """Return the git folder of the repository that a launch is of. None: its directory is in none."""
    return real_path(launch.repository) if launch.repository is not None else repository_at(launch.cwd)


def shown_as(repository: str | None) -> str:
    if repository is None:
        return "directories without a repository"
    return os.path.dirname(repository) if os.path.basename(repository) == GIT else repository


def here() -> str | None:
    """Return the directory that this command is in; None if that was removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def repository_at(folder: str) -> str | None:
    """Return the git folder of the repository that a directory is in, by files alone: no git is run. None: it is in
    none. Of a directory that was removed, the folders above it count."""
    at = os.path.realpath(folder)
    while True:
        if (found := git_folder_in(at)) is not None:
            return os.path.realpath(found)
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above


def git_folder_in(folder: str) -> str | None:
    path = os.path.join(folder, GIT)
    if os.path.isdir(path):
        return path
    if os.path.isfile(path):
        own = os.path.join(folder, first_line(path).removeprefix(POINTER))
        common = first_line(os.path.join(own, COMMON))
        return os.path.join(own, common)
    bare = all(os.path.exists(os.path.join(folder, name)) for name in OF_A_GIT_FOLDER)
    return folder if bare else None


def first_line(path: str) -> str:
    """Return the first line of a file; nothing if it cannot be read: then its folder is a place of its own, and no name
    in it means the group of another one."""
    try:
        return os.fsdecode(bounded.read_bytes(path, LONGEST).partition(b"\n")[0])
    except OSError:
        return ""


# Which slots


def name_of(launch: Launch) -> str:
    return launch.slot or launch.id


def slots(launches: Sequence[Launch]) -> list[Slot]:
    """Return the slots of these launches, which come oldest first. A launch without the name of a slot is one."""
    found: dict[str, Slot] = {}
    for launch in launches:
        name = name_of(launch)
        before = found.get(name)
        given = before.given if before is not None and launch.worktree is None else launch
        found[name] = Slot(name, launch, given)
    return list(found.values())


def slot_named(word: str, launches: Sequence[Launch]) -> Slot | None:
    """Return the slot with this name, or the one launch with this id; None if there is none."""
    by_id = [launch for launch in launches if launch.id == word]
    return next((slot for slot in (*slots(launches), *slots(by_id)) if word in (slot.name, slot.launch.id)), None)
