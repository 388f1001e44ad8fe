"""Finds the store that each live process of an agent works in.

The environment of a process is a hint: it has a name, which may lead elsewhere now than when the process started, or
nowhere. What the process has open, and which folders it watches, are facts (kernel/held.py): the kernel knows them by
device and inode. So facts decide, then a file of a store that names the process, and only then the hint. If none of
them leads to a store, the process is lost: it may work in any store, and that is a problem.
"""

from __future__ import annotations

import os

from agentctl.agents.base import home
from agentctl.kernel import places
from agentctl.kernel.stall_guard import gather
from agentctl.model import AGENT, DAEMON
from agentctl.query import roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentctl.kernel.processes import Processes
    from agentctl.query.candidates import Claimed
    from agentctl.query.reading import Reading, Readings

    Found = tuple[str | None, str | None]  # a root; why there must be one and it cannot be found

STARTING = 10.0  # seconds in which an agent may not have made its store yet
MOST_NEAR = 500  # folders that are looked at for one that has another name now


def locate(
    claimed: Sequence[Claimed], readings: Readings, env: Mapping[str, str], processes: Processes
) -> tuple[Claimed, ...]:
    """Return the processes, each with the store it works in. What takes a look at files may never come back, so threads
    do that: one for all processes of a store."""
    placed: dict[int, Claimed] = {}
    slow: dict[tuple[str, str], list[Claimed]] = {}
    for claim in claimed:
        if claim.details.env is None:
            placed[claim.process.pid] = claim
            continue
        theirs = [reading for reading in readings if reading.agent is claim.agent]
        place = by_path(claim, theirs, env) if processes.sees_our_mounts(claim.process) else None
        if place is not None and is_confirmed(place, theirs, processes):
            placed[claim.process.pid] = place
        else:
            slow.setdefault((claim.agent.NAME, root_of(claim)), []).append(claim)
    for located, _ in gather([by_facts(claims, readings, env, processes) for claims in slow.values()]):
        placed.update((claim.process.pid, claim) for claim in located)
    return tuple(claim if claim.vague else placed.get(claim.process.pid, claim) for claim in claimed)


def root_of(claim: Claimed) -> str:
    """Return the path of its store as the process means it: a relative one from its working directory."""
    return places.plain(os.path.join(claim.details.cwd or "/", claim.agent.roots(claim.details.env or {})[0]))


# By the environment


def by_path(claim: Claimed, readings: Iterable[Reading], env: Mapping[str, str]) -> Claimed | None:
    """Return it with its store, if its paths say that this is one of ours, in our HOME."""
    root = root_of(claim)
    ours = places.plain(home(claim.details.env or {})) == places.plain(home(env))
    known = any(reading.store.root == root for reading in readings)
    return claim._replace(root=root, ours=True) if known and ours else None


def is_confirmed(claim: Claimed, readings: Iterable[Reading], processes: Processes) -> bool:
    """Return whether nothing else has to be asked about a process whose paths name a store of ours: a file in there
    names it, or it has nothing that could tell more."""
    (reading,) = [reading for reading in readings if reading.store.root == claim.root]
    if reading.unread is not None:
        return True  # whoever touches that store may not come back
    if reading.absent:
        return claim.role not in (AGENT, DAEMON)
    if claim.agent.WATCHES and claim.role == AGENT:
        return reading.store.names(claim.process)
    return not (claim.agent.KEEPS_OPEN and claim.role in (AGENT, DAEMON) and any(open_stores(claim, processes)))


def lives_here(claim: Claimed, env: Mapping[str, str]) -> bool | None:
    """Return whether a process lives in our HOME; None if its HOME is not there: it may have been ours."""
    their_home, our_home = home(claim.details.env or {}), home(env)
    seen, our_seen = roots.identity_for(claim.process, their_home), roots.identity(our_home)
    if seen is not None and our_seen is not None:
        return seen == our_seen
    if places.plain(their_home) == places.plain(our_home):
        return True
    return None if seen is None else False


# By facts


def by_facts(
    claimed: Iterable[Claimed], readings: Readings, env: Mapping[str, str], processes: Processes
) -> Iterator[Claimed]:
    """Yield each process with its store. To be run by `gather`."""
    for claim in claimed:
        theirs = [reading for reading in readings if reading.agent is claim.agent]
        ours, path = lives_here(claim, env), root_of(claim)
        root, lost = found_for(claim, theirs, path, processes)
        if ours is None and any(reading.store.root == root for reading in theirs):
            ours = True
        if ours is False:
            root, lost = root or path, None  # what others cannot find is theirs to know
        young = processes.taken_at - processes.started_at(claim.process.key) < STARTING
        yield claim._replace(root=root, ours=ours, lost=None if young else lost)


def found_for(claim: Claimed, readings: list[Reading], path: str, processes: Processes) -> Found:
    """Return the store of a process. `path`: the one that its environment names."""
    identity = roots.identity_for(claim.process, path)
    hinted = same_store(readings, identity) or path
    if claim.role not in (AGENT, DAEMON):
        return hinted, None
    found = by_files(claim, readings, processes) if claim.agent.KEEPS_OPEN else (None, None)
    if found == (None, None) and claim.agent.WATCHES and claim.role == AGENT:
        found = by_watches(claim, readings, hinted, processes)
    if found != (None, None):
        return found
    if identity is None:
        return None, f"pid {claim.process.pid} names this as its store, and it is not there: it may have been moved"
    return hinted, None


def same_store(readings: Iterable[Reading], identity: tuple[int, int] | None) -> str | None:
    """Return the root of ours that is this folder."""
    same = (reading.store.root for reading in readings if reading.identity == identity)
    return next(same, None) if identity is not None else None


def open_stores(claim: Claimed, processes: Processes) -> Iterator[tuple[str, str, str]]:
    """Yield (root, path, a path that leads us to the file) for the files of stores that a process has open."""
    held = processes.held(claim.process)
    for path, way in held.files if held is not None else ():
        if (root := claim.agent.store_with(path, claim.details.env or {})) is not None:
            yield root, path, way


def by_files(claim: Claimed, readings: list[Reading], processes: Processes) -> Found:
    """Return the store whose files a process has open, if they are where their paths say: what is mounted over a store
    hides it, and a process with other mounts than ours calls it something else."""
    lost = None
    for root, path, way in open_stores(claim, processes):
        opened = roots.identity(way)
        for seen_from in ("", f"/proc/{claim.process.pid}/root"):
            if opened is not None and roots.identity(seen_from + path) == opened:
                known = same_store(readings, roots.identity(seen_from + root))
                if known is not None or not seen_from:
                    return known or root, None
        lost = f"pid {claim.process.pid} has {path} open, and that path does not lead us to it"
    return None, lost


def by_watches(claim: Claimed, readings: list[Reading], hinted: str, processes: Processes) -> Found:
    """Return the store that a process watches: the one that its environment names, or that the settings in there name,
    or another one of ours, or one near the first, which has another name now."""
    held = processes.held(claim.process)
    if held is None or not held.watched:
        return None, None
    settings = (reading.store.elsewhere for reading in readings if reading.store.root == hinted and reading.usable)
    named = [places.plain(os.path.join(claim.details.cwd or "/", path)) for paths in settings for path in paths]
    known = [reading.store.root for reading in readings if reading.usable]
    for path in (hinted, *named, *known):
        if processes.identity(path) in held.watched:
            return same_store(readings, roots.identity(path)) or path, None
    inodes = {inode for _, _, inode in held.watched}
    for path in near(hinted):
        found = places.identity(path)
        if found is None or found[1] not in inodes or found == claim.details.directory:
            continue
        if processes.identity(path) in held.watched and claim.agent.is_store(path):
            return path, None
    why = f"pid {claim.process.pid} names this as its store, and does not watch it: its store may have another name now"
    return None, why


def near(root: str) -> Iterator[str]:
    """Yield folders that a store may be called now that was called `root`: those beside it, beside what it leads to,
    and of its name in the folders beside the one that it is in, which may have been renamed."""
    above, name = os.path.split(root)
    beside = {above: "", os.path.dirname(os.path.realpath(root)): "", os.path.dirname(above): f"/{name}"}
    for folder, rest in beside.items():
        for entry in places.names_in(folder)[:MOST_NEAR]:
            yield f"{folder.rstrip('/')}/{entry}{rest}"
