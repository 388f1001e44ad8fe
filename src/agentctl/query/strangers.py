"""Finds the live processes that no name gives away as an agent's, and for which something speaks all the same.

A session in mid-turn has firmly ended only if no live process of this user can be on it. A name is no fact: an agent
may be started through a link, by a loader, from its sources, or under any name. So every process counts for which one
of these speaks:

- it has a file of the store open for writing;
- its executable is an agent's, a JavaScript runtime, a loader or an unidentified program, and its start, arguments and
  directory allow it to be on the session;
- nothing of it can be read, and it descends from an agent, a launch or a terminal in the directory of the session;
- it is another user's, its arguments say that it is this agent, and that user can change the files of the store.

Whose a process is limits what may be signalled, never what counts as evidence. The same is true of the role that its
name or its arguments give it: a client or a helper that has a file of a session open for writing counts, and a client
counts by its directory as an agent does. Words were measured with some versions, and the next one has others.

Most processes are programs of the system: for those one link is read and nothing else. docs/decisions/019 says what
this misses.
"""

from __future__ import annotations

import os

from agentctl.agents import TABLE, load_all
from agentctl.errors import AgentFault
from agentctl.files import bounded
from agentctl.kernel.mounts import is_mapped_for
from agentctl.kernel.places import mounts_of
from agentctl.kernel.programs import INNER, INTERPRETER, LOADER, ORDINARY, SCRIPTS, kind_of, script_in
from agentctl.model import AGENT, CLIENT, DAEMON, SPARE, STRANGER, Claim, Details, Value
from agentctl.query import roots
from agentctl.query.candidates import Claimed, is_foreign, is_fork
from agentctl.query.locating import locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from agentctl.agents.base import Agent, Store
    from agentctl.kernel.processes import Processes
    from agentctl.model import Process, ProcessKey
    from agentctl.query.attribution import Launches
    from agentctl.query.reading import Reading, Readings

LEVELS = 8  # folders above a script in which its package.json is looked for
PACKAGE_LIMIT = 256 * 1024


class Stranger(Value):
    """A live process that no name gives away, for one agent that it may be of."""

    claimed: Claimed
    kind: str  # what its executable is
    by_directory: bool  # may its directory, arguments and start speak for it, if no open file does?
    foreign: bool = False  # it is an agent of another user, into which we may not look


class Doubt(Value):
    """The sessions of one store that a stranger can be on."""

    key: ProcessKey
    ids: tuple[str, ...] | None  # None: they cannot be narrowed down
    proof: bool  # a file of the store is open in it
    why: str
    says_so: bool = False  # its arguments say that it is this agent


# Who may be one


def find(
    agents: Sequence[Agent], located: Iterable[Claimed], readings: Readings, launches: Launches, processes: Processes,
    env: Mapping[str, str],
) -> tuple[Stranger, ...]:  # fmt: skip
    """Return the processes that may be on a session although no agent recognises them, or they are another user's."""
    located = tuple(located)
    known = {claim.process.pid for claim in located if claim.role in (AGENT, DAEMON, SPARE)}
    others_role = {claim.process.pid: claim for claim in located if claim.process.pid not in known}
    passed = {os.getpid(), *known}
    used = [agent for agent in agents if any(reading.agent is agent and reading.usable for reading in readings)]
    if not used:
        return ()
    others = others_than(agents)
    strangers = [
        Stranger(claim, "of another user", by_directory=False, foreign=True)
        for claim in located
        if is_foreign(claim) and claim.role in (AGENT, DAEMON)
    ]
    denied: list[Process] = []
    for process, kind in not_ordinary(passed, processes):
        if kind is None:
            denied.append(process)
        else:
            found = readable(process, kind, used, others, processes)
            strangers += as_words_allow(found, process, known, others_role.get(process.pid), processes)
    if denied:
        anchors = anchors_of(located, launches, processes)
        for process in denied:
            strangers += unreadable(process, anchors, used, processes)
    return in_their_stores(strangers, readings, env, processes)


def as_words_allow(
    found: Iterable[Stranger], process: Process, known: Container[int], role: Claimed | None, processes: Processes
) -> Iterable[Stranger]:
    """Return a process as a stranger, with what may speak for it. `role`: what its words make it, if that is something
    else than an agent. Its directory speaks for it only if they make it a client of this very agent: a helper or a
    wrapper is below an agent, and an agent of another kind is none of this one."""
    if is_copy(process, processes):
        if process.parent in known:
            return ()  # it was just forked, and its parent counts
        return [stranger._replace(by_directory=False) for stranger in found]
    if role is None:
        return found
    client_of = role.agent if role.role == CLIENT else None
    return [
        stranger._replace(by_directory=stranger.by_directory and stranger.claimed.agent is client_of)
        for stranger in found
    ]


def not_ordinary(passed: Container[int], processes: Processes) -> Iterator[tuple[Process, str | None]]:
    """Yield the live processes that are no program of the system, each with its kind; None: we may not look."""
    for pid in processes.executables():
        kind = processes.kind(pid) if pid not in passed else ORDINARY
        process = processes.get(pid) if kind != ORDINARY else None
        if process is not None:
            yield process, kind


def is_copy(process: Process, processes: Processes) -> bool:
    """Return whether a process has the program and the arguments of its parent. It may be a fork that has executed
    nothing yet; it may also be an agent that relaunched itself. So only what it has open speaks for it."""
    details = processes.details(process)
    return details is not None and is_fork(process, details, processes)


def readable(
    process: Process, kind: str, agents: Iterable[Agent], others: Iterable[Agent], processes: Processes
) -> Iterator[Stranger]:
    """Yield a process into which we can look, for each agent that it may be of. `others`: the agents that were not
    asked for."""
    details = processes.details(process)
    if details is None:
        return
    if any(is_of(agent, process, details) for agent in others):
        return
    for agent in agents:
        allowed = agent.BY_DIRECTORY and kind not in (INTERPRETER, INNER)
        yield Stranger(Claimed(agent, process, details, STRANGER), kind, allowed)


def is_of(agent: Agent, process: Process, details: Details) -> bool:
    """Return whether an agent that was not asked for recognises this process. If its adapter fails, nobody can tell."""
    try:
        return agent.claims(process, details) is not None
    except AgentFault:
        return False


def others_than(agents: Iterable[Agent]) -> list[Agent]:
    """Return the agents that were not asked for. A process of one of them is no stranger: the answer must not depend on
    who is asked for."""
    asked = {agent.NAME for agent in agents}
    return load_all(name for name in TABLE if name not in asked)


def package_of(process: Process, details: Details, processes: Processes) -> str | None:
    """Return the package that the script of a JavaScript runtime belongs to, by the nearest package.json; None if there
    is none, or no script can be told."""
    script = script_in(details.argv or ())
    if script is None or details.cwd is None:
        return None
    folder = os.path.join(details.cwd, script)
    here = processes.sees_our_mounts(process)
    folder = os.path.realpath(folder) if here else folder
    for _ in range(LEVELS):
        folder = os.path.dirname(folder)
        path = f"{'' if here else f'/proc/{process.pid}/root'}{folder}/package.json"
        try:
            said = bounded.decode(bounded.read_bytes(path, PACKAGE_LIMIT)) or {}
        except OSError:
            said = {}
        if isinstance(said.get("name"), str):
            return str(said["name"])
        if folder in ("", "/"):
            return None
    return None


# Processes into which we may not look


def anchors_of(located: Iterable[Claimed], launches: Launches, processes: Processes) -> dict[ProcessKey, str]:
    """Return the agents and the processes of launches: what descends from one of them may be an agent."""
    anchors = {
        claim.process.key: f"{claim.agent.NAME} (pid {claim.process.pid})"
        for claim in located
        if claim.role in (AGENT, DAEMON, SPARE)
    }
    for ours in launches.in_order():
        for key in (ours.launch.runner, ours.launch.child):
            if processes.alive(key) is not None:
                anchors.setdefault(key, f"launch {ours.launch.id}")
    return anchors


def unreadable(
    process: Process, anchors: Mapping[ProcessKey, str], agents: Iterable[Agent], processes: Processes
) -> Iterator[Stranger]:
    """Yield a process into which we may not look, if it descends from an agent, a launch or a terminal. It then counts
    for the directory of that ancestor: its own cannot be read."""
    ancestor, whose = ancestor_of(process, anchors, processes)
    if ancestor is None:
        return
    details, above = processes.details(process), processes.details(ancestor)
    if details is None or above is None or not (details.uid == os.getuid() or is_runtime(details)):
        return
    details = details._replace(cwd=above.cwd, env=above.env, directory=above.directory)
    for agent in agents:
        claimed = Claimed(agent, process, details, STRANGER)
        yield Stranger(claimed, f"closed to us, below {whose}", by_directory=True)


def is_runtime(details: Details) -> bool:
    """Return whether a process calls itself a JavaScript runtime or a loader. Everybody may read its arguments."""
    return details.argv is not None and kind_of(details.argv[0], None) in (SCRIPTS, LOADER)


def ancestor_of(
    process: Process, anchors: Mapping[ProcessKey, str], processes: Processes
) -> tuple[Process | None, str]:
    """Return the nearest ancestor that speaks for a process into which we may not look, and what that is."""
    for key in processes.ancestors(process.parent):
        above = processes.alive(key)
        if key in anchors:
            return above, anchors[key]
        if above is not None and process.tty and above.tty == process.tty:
            return above, f"the terminal of pid {above.pid}"
    return None, ""


# Which sessions it can be on


def in_their_stores(
    strangers: Iterable[Stranger], readings: Readings, env: Mapping[str, str], processes: Processes
) -> tuple[Stranger, ...]:
    """Return the strangers, those that their directory may speak for with the store that their environment names."""
    found: list[Stranger] = []
    by_agent: dict[str, list[Stranger]] = {}
    for stranger in strangers:
        if stranger.by_directory:
            by_agent.setdefault(stranger.claimed.agent.NAME, []).append(stranger)
        else:
            found.append(stranger)
    for group in by_agent.values():
        claims = locate([stranger.claimed for stranger in group], readings, env, processes)
        found += [
            stranger._replace(claimed=claim, by_directory=claim.root is not None)
            for stranger, claim in zip(group, claims, strict=True)
        ]
    return tuple(found)


def doubts_in(reading: Reading, strangers: Iterable[Stranger], processes: Processes) -> Iterator[Doubt]:
    """Yield what speaks for strangers in one store. It reads the store: to be run by `gather`."""
    store = reading.store
    linked = {link.key for link in reading.links if link.left is None}
    root = bounded.real_path(store.root)
    for stranger in strangers:
        claim = stranger.claimed
        if claim.agent is not reading.agent or (claim.process.key in linked and not reading.agent.RUNS_MANY):
            continue
        doubt = doubt_of(stranger, store, root, processes)
        if doubt is not None and doubt.ids != ():
            yield doubt


def doubt_of(stranger: Stranger, store: Store, root: str, processes: Processes) -> Doubt | None:
    claim, process = stranger.claimed, stranger.claimed.process
    started_at = processes.started_at(process.key)
    who = f"pid {process.pid} ({process.comm}, {stranger.kind})"
    if stranger.foreign:
        return doubt_of_foreign(who, claim, store, processes)
    held = held_in(root, process, processes)
    if held:
        can = store.candidates_by_files(held, process, claim.details, started_at)
        why = f"{who} has {held[0]} open for writing"
        return Doubt(process.key, can.ids, proof=True, why=why)
    if not stranger.by_directory or claim.root != store.root:
        return None
    package = package_of(process, claim.details, processes) if stranger.kind == SCRIPTS else None
    if package is not None and package not in claim.agent.PACKAGES:
        return None  # its script is known to be another program
    can = store.candidates_of_a_stranger(process, claim.details, started_at)
    why = f"{who} runs under another name than its agent's, and its start, arguments and directory allow it"
    return Doubt(process.key, can.ids, proof=False, why=why)


def doubt_of_foreign(who: str, claim: Claimed, store: Store, processes: Processes) -> Doubt | None:
    """Return the doubt about an agent of another user: it may be on what was written since it started, unless the store
    says more. Everybody may read its arguments, and whether that user can change the files of the store. In a container
    with users of its own that may be so by an ID-mapped mount alone, which the mounts of the process show."""
    process = claim.process
    folders = (store.root, *(folder for folder in store.session_folders() if os.path.lexists(folder)))
    able = any(may_change(processes.owner(process), folder) for folder in folders)
    if not able and not is_mapped_for(os.path.realpath(store.root), mounts_of("self"), mounts_of(process.pid)):
        return None
    started_at = processes.started_at(process.key)
    can = store.candidates_of_a_stranger(process, claim.details, started_at)
    ids = can.ids if can.ids is not None else tuple(store.recent(started_at))
    why = f"{who} calls itself {claim.agent.NAME}, and we may not look into it"
    return Doubt(process.key, ids, proof=False, why=why, says_so=True)


def may_change(user: int | None, folder: str) -> bool:
    """Return whether a user can change files in a folder, by its owner and mode; also if that is not known. A folder
    that others may not enter may have one in it that they may write to, and have open."""
    try:
        found = os.stat(folder)
    except OSError:
        return True
    return user in (None, 0, found.st_uid) or bool(found.st_mode & 0o022)


def held_in(root: str, process: Process, processes: Processes) -> list[str]:
    """Return the files of a store that a process has open for writing, as paths of ours."""
    files = processes.written_files(process) or []
    held = [path for path, _ in files if path.startswith(f"{root}/") or path == root]
    if held or not files or processes.sees_our_mounts(process):
        return sorted(held)
    return sorted(path for named, way in files for path in seen_from_here(root, named, way))


def seen_from_here(root: str, named: str, way: str) -> Iterator[str]:
    """Yield the file of a store that a process with other mounts than ours calls `named`. `way`: leads us to it."""
    identity = roots.identity(way)
    parts = named.strip("/").split("/")
    for count in range(1, min(len(parts), LEVELS) + 1):
        path = os.path.join(root, *parts[-count:])
        if identity is not None and roots.identity(path) == identity:
            yield path
            return


def claims_of(readings: Readings) -> tuple[Claim, ...]:
    """Return the strangers for which something speaks, as the judge sees them: each with its store, and the sessions of
    that store that it can be on."""
    linked = {
        link.key for reading in readings if not reading.agent.RUNS_MANY for link in reading.links if link.left is None
    }
    return tuple(
        Claim(
            reading.agent.NAME,
            doubt.key,
            STRANGER,
            reading.store.root,
            candidates=doubt.ids,
            shown=False,
            proof=doubt.proof,
            why=doubt.why,
            says_so=doubt.says_so,
        )
        for reading in readings
        for doubt in reading.doubts
        if doubt.key not in linked
    )
