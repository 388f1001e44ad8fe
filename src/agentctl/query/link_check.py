"""Checks the links of the stores against what the kernel says of their processes.

A process keeps its pid and its start when it executes another program, and a file that names it can be copied. So a
link counts only if its process still runs something that can be the agent, and if the process works in that store.
"""

from __future__ import annotations

import os

from agentctl.kernel.programs import LOADER, ORDINARY, SCRIPTS
from agentctl.kernel.stall_guard import gather
from agentctl.model import AGENT, Value
from agentctl.query import roots
from agentctl.query.candidates import Claimed
from agentctl.query.locating import locate
from agentctl.query.strangers import Doubt, package_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agentctl.kernel.processes import Processes
    from agentctl.model import Link, ProcessKey
    from agentctl.query.reading import Reading, Readings

Places = dict["ProcessKey", set[str]]


class Ground(Value):
    """What the links are checked against."""

    processes: Processes
    claimed: Mapping[ProcessKey, Claimed]  # the processes that an agent recognises
    works_in: Mapping[ProcessKey, str]  # the store that the environment of each process names, if that can be read
    named_in: Mapping[ProcessKey, set[str]]  # the stores that name each process


def checked(readings: Readings, located: Iterable[Claimed], processes: Processes, env: Mapping[str, str]) -> Readings:
    """Return the readings, in which each link to a live process that is not on its session any more says why. If it is
    not known whether it is, that is a doubt of the store."""
    if not any(reading.links for reading in readings):
        return readings
    claimed = {claim.process.key: claim for claim in located}
    named_in: Places = {}
    for reading in readings:
        for link in reading.links:
            named_in.setdefault(link.key, set()).add(reading.store.root)
    works_in = stores_of(readings, claimed, processes, env)
    ground = Ground(processes, claimed, works_in, named_in)
    return tuple(with_checked(reading, ground) for reading in readings)


def stores_of(
    readings: Readings, claimed: Mapping[ProcessKey, Claimed], processes: Processes, env: Mapping[str, str]
) -> dict[ProcessKey, str]:
    """Return the store that each process works in which a file names, by its own environment."""
    found = {key: claim.root for key, claim in claimed.items() if claim.root is not None}
    unclaimed: dict[ProcessKey, Claimed] = {}
    for reading in readings:
        for link in reading.links:
            process = processes.alive(link.key) if link.noted and link.key not in claimed else None
            details = processes.details(process) if process is not None else None
            if process is not None and details is not None:
                unclaimed[link.key] = Claimed(reading.agent, process, details, AGENT)
    for claim in locate([*unclaimed.values()], readings, env, processes) if unclaimed else ():
        if claim.root is not None:
            found[claim.process.key] = claim.root
    noted = {link.key: link.store for reading in readings for link in reading.links if link.noted}
    moved = [(key, found[key]) for key, store in noted.items() if found.get(key, store) != store]
    for missing, _ in gather([not_there(moved, processes)] if moved else []):
        for key in missing:
            del found[key]
    return found


def not_there(moved: Iterable[tuple[ProcessKey, str]], processes: Processes) -> Iterator[ProcessKey]:
    """Yield the processes whose environment names a store that is not there: then it does not tell where they work."""
    for key, root in moved:
        process = processes.alive(key)
        if process is not None and roots.identity_for(process, root) is None:
            yield key


def with_checked(reading: Reading, ground: Ground) -> Reading:
    links, doubts = [], list(reading.doubts)
    for link in reading.links:
        alive = ground.processes.alive(link.key) is not None
        left = why_replaced(link, reading, ground) or why_a_copy(link, ground) if alive else None
        unsure = why_unsure(link, ground) or why_a_fork(link, ground) if alive and left is None else None
        if alive and left is None and unsure is None and not reading.agent.RUNS_MANY:
            left, unsure = why_named_twice(link, reading.links, ground.processes)
        if unsure is not None:
            why = f"{link.path} names pid {link.key.pid}, but {unsure}"
            doubts.append(Doubt(link.key, (link.id,), proof=True, why=why))
        if alive and not is_proved(link, reading, ground):
            link = link._replace(inferred=True)
        links.append(link._replace(left=left or unsure) if left or unsure else link)
    return reading._replace(links=tuple(links), doubts=tuple(doubts))


def why_replaced(link: Link, reading: Reading, ground: Ground) -> str | None:
    """Return which other program the process executes now; None if what it runs may be the agent. What the kernel shows
    (a lock) says more than what the path of a program lets us guess: any program may be a runtime, so one whose
    arguments name the agent may run it."""
    if not link.noted or link.key in ground.claimed:
        return None
    kind = ground.processes.kind(link.key.pid)
    if kind == ORDINARY:
        process = ground.processes.alive(link.key)
        details = ground.processes.details(process) if process is not None else None
        if details is None or reading.agent.is_named_in(details.argv or ()) or watches(link, reading, ground):
            return None
        return f"executes {ground.processes.executables()[link.key.pid]} now, which is no agent"
    package = package_in(link.key, ground) if kind == SCRIPTS else None
    if package is not None and reading.agent.PACKAGES and package not in reading.agent.PACKAGES:
        return f"executes a script of the package {package} now, which is no agent"
    return None


def package_in(key: ProcessKey, ground: Ground) -> str | None:
    """Return the package of the script that a live process executes; None if that cannot be told."""
    process = ground.processes.alive(key)
    details = ground.processes.details(process) if process is not None else None
    return package_of(process, details, ground.processes) if process is not None and details is not None else None


def is_proved(link: Link, reading: Reading, ground: Ground) -> bool:
    """Return whether the process of a link is proved to run its agent, or something that can run it: what a file says
    of a process stays true of it only until it executes another program."""
    if not link.noted or link.key in ground.claimed:
        return True
    if ground.processes.kind(link.key.pid) in (None, LOADER, SCRIPTS):  # None: we may not look
        return True
    process = ground.processes.alive(link.key)
    details = ground.processes.details(process) if process is not None else None
    if process is None or details is None or reading.agent.executes(details):
        return True
    return watches(link, reading, ground)


def watches(link: Link, reading: Reading, ground: Ground) -> bool:
    """Return whether the process of a link watches the folder of its store, as its agent does."""
    process = ground.processes.alive(link.key) if reading.agent.WATCHES else None
    held = ground.processes.held(process) if process is not None else None
    return held is not None and ground.processes.identity(link.store) in held.watched


def why_a_copy(link: Link, ground: Ground) -> str | None:
    """Return which other store the process of a link works in; None if it may work in this one. The environment of the
    process names the store that it works in, and that store names it, too: so this file is a copy."""
    root = ground.works_in.get(link.key)
    if not link.noted or root in (None, link.store):
        return None
    return f"works in another store, {root}, which names it, too" if root in ground.named_in[link.key] else None


def why_unsure(link: Link, ground: Ground) -> str | None:
    """Return why it cannot be told whether the process of a link works in its store; None if it does."""
    root = ground.works_in.get(link.key)
    if not link.noted or root == link.store:
        return None
    if root is not None:
        return f"its environment names another store, {root}"
    others = sorted(ground.named_in[link.key] - {link.store})
    return f"so does another store, {others[0]}, and its environment cannot be read" if others else None


def why_a_fork(link: Link, ground: Ground) -> str | None:
    """Return why what a process has open may not be its own: it was forked, and has executed nothing since. It may be a
    tool that an agent was about to run, and has what that agent has: its program, its arguments, its locks and its
    files. A process that a file of its agent names wrote that itself."""
    process = ground.processes.alive(link.key) if not link.noted else None
    if process is None or not ground.processes.is_unexecuted(process):
        return None
    return "it was forked and has executed nothing since: it may be what an agent that has ended was about to run"


def why_named_twice(link: Link, links: Iterable[Link], processes: Processes) -> tuple[str | None, str | None]:
    """Return which other session of the same store names the process of a link, too: why it is on that one, and why
    that cannot be told. A file that names a process can be copied with its session. The process works on the one of
    which it has a file open for writing."""
    others = [other for other in links if is_another(other, link)]
    if not others or not link.noted or link.left is not None:
        return None, None
    process = processes.alive(link.key)
    written = [path for path, _ in (processes.written_files(process) if process is not None else None) or ()]
    worked_on = [one.id for one in (link, *others) if one.path and is_beside(one.path, written)]
    if link.id in worked_on:
        return None, None
    if worked_on:
        return f"works on another session, {worked_on[0]}, of which this one has a copied file", None
    return None, f"so does {others[0].path}"


def is_another(other: Link, link: Link) -> bool:
    """Return whether the process of a link is said to be on another session, too, and did not leave that one."""
    return other.noted and other.left is None and other.key == link.key and other.id != link.id


def is_beside(path: str, others: Iterable[str]) -> bool:
    """Return whether one of these files is in the folder of this one."""
    folder = os.path.realpath(os.path.dirname(path))
    return any(os.path.dirname(other) == folder for other in others)
