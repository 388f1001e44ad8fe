"""Finds out which session a launch is on. The id is the agent's own: agentctl knows it once the agent's store, or its
output, shows it. It looks at many launches together, so their number costs little.
"""

from __future__ import annotations

import os
import time

from agentctl.agents import load
from agentctl.errors import AgentctlError, LaunchFailed, NoSessionYet, TimedOut
from agentctl.kernel import places
from agentctl.launch import interactive
from agentctl.launches import records as launches
from agentctl.live.rounds import Interest, Rounds
from agentctl.query import attribution
from agentctl.query.sessions import Scope, examine, settled_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agentctl.launch.spawn import Started
    from agentctl.model import Exit, Process, ProcessKey, Session
    from agentctl.query.sessions import Look
    from agentctl.query.world import Launched, World

    Tell = Callable[[str], None]

SAY_AFTER = 1.0  # seconds of silence before agentctl says what it waits for
GLANCE = 0.5  # seconds between two looks at a screen
LAST_LINES, LAST_BYTES = 10, 4096
RECORDED_WITHIN, SHORTLY = 2.0, 0.02  # seconds for the runner to record an end


def await_sessions(
    launches_started: Sequence[Started], env: Mapping[str, str], tell: Tell
) -> Iterator[tuple[Started, Session | AgentctlError]]:
    """Yield each session as soon as it is known, or why it is not: LaunchFailed (the agent ended), TimedOut and
    NoSessionYet (the agent is left running)."""
    begun = time.monotonic()
    pending = list(launches_started)
    left_since: dict[str, float] = {}  # since when a launch has only what its first process left behind
    ended: set[str] = set()  # the launches of which an earlier look saw no process any more
    announced = False
    with Rounds() as rounds:
        while pending:
            known = {started.launch_id: known_id(started) for started in pending}
            look = settled_look(scope_of(pending, known), env)
            for started in list(pending):
                id = id_in(look.world, started.launch_id)
                if id is not None:
                    note_agent(started, look.world)
                    pending.remove(started)
                    yield started, session_or_why_not(look, id, env)
            keys = {key for started in pending for key in (started.child, started.runner)}
            if rounds.cover(Interest(frozenset(keys), frozenset(written_by(pending, known, look)))):
                continue
            now = time.monotonic()
            becoming = may_become_agents(pending, look, left_since, now)
            over = all_over(pending, look) - becoming
            if not over <= ended:
                # This look opened the stores before it saw the processes. What has ended meanwhile may have made its
                # store meanwhile: so this look proves nothing, and the next one does.
                ended |= over
                continue
            for started in list(pending):
                if (why := given_up(started, look, now - begun, over=started.launch_id in over)) is not None:
                    pending.remove(started)
                    yield started, why
            if not announced and now - begun >= SAY_AFTER and pending:
                announced = True
                tell(waiting_for(pending))
            if pending:
                patience = min(started.order.id_patience for started in pending)
                until = begun + (patience if announced else min(patience, SAY_AFTER))
                glances = becoming or any(started.screen for started in pending)
                rounds.sleep(min(until, now + GLANCE) if glances else until)


def known_id(started: Started) -> str | None:
    return started.order.session_id or attribution.printed_in(started.folder, started.order.agent)


def scope_of(pending: Sequence[Started], known: Mapping[str, str | None]) -> Scope:
    """Return a scope that also has the sessions that have ended by now, if their ids are known."""
    agents = tuple(dict.fromkeys(started.order.agent for started in pending))
    if len(pending) == 1:
        return Scope(agents=agents, prefix=known[pending[0].launch_id])
    return Scope(agents=agents, ids=tuple(id for id in known.values() if id is not None))


def may_become_agents(pending: Sequence[Started], look: Look, since: dict[str, float], now: float) -> set[str]:
    """Return the ids of the launches whose first process has ended and left others behind: one of those may be about
    to execute the agent. Nothing shows that moment, so it has a limit. `since`: when each was first seen so."""
    becoming = set()
    for started in pending:
        id = started.launch_id
        if not is_over(started, look):
            continue
        below = attribution.left_behind(look.world, id, started.child, started.runner)
        if below and now - since.setdefault(id, now) < attribution.BECOMES_AGENT:
            becoming.add(id)
    return becoming


def all_over(pending: Sequence[Started], look: Look) -> set[str]:
    """Return the ids of the launches of which nothing lives that may be their agent."""
    return {started.launch_id for started in pending if is_over(started, look)}


def is_over(started: Started, look: Look) -> bool:
    """Return whether nothing of a launch lives that may be its agent."""
    return not attribution.may_live(look.world, started.order.agent, started.child, started.runner)


def given_up(started: Started, look: Look, waited: float, *, over: bool) -> AgentctlError | None:
    """Return why nobody waits for a session any longer; None if it may still come. `over`: no process of it is its
    agent, or may be about to execute it."""
    if over:
        return died(started, attribution.left_behind(look.world, started.launch_id, started.child, started.runner))
    if started.screen is not None and started.screen.is_still():
        return unnamed(started, "what it shows does not change: it waits for a person", shown=True)
    if waited < started.order.id_patience:
        return None
    agent, patience = started.order.agent, started.order.id_patience
    return TimedOut(
        f"{agent} (pid {started.child.pid}) has not named its session within {patience:g} s; "
        f"it is left running: {shows_it(started)}`agentctl stop {started.launch_id}` ends it"
    )


def shows_it(started: Started) -> str:
    if started.screen is None:
        return f"`agentctl peek {started.launch_id}` shows what it printed, "
    return f"`agentctl attach {started.launch_id}` shows its screen, "


def waiting_for(pending: Sequence[Started]) -> str:
    if len(pending) == 1:
        return f"{pending[0].order.agent} runs (pid {pending[0].child.pid}); waiting for its session id"
    return f"{len(pending)} agents run; waiting for their session ids"


def id_in(world: World, launch_id: str) -> str | None:
    """Return the session that a launch is on by the agent's own store. Our own record of the launch proves nothing."""
    ours = next((launched for launched in world.launches if launched.launch.id == launch_id), None)
    if ours is None:
        return None
    records = {record.id: record for record in world.records if record.agent == ours.launch.agent}
    named = [
        link.id
        for link in world.links
        if link.agent == ours.launch.agent and link.key in ours.agents and link.path != ours.launch.path
    ]
    if ours.session_id in named:
        return ours.session_id
    tops = [id for id in named if id not in records or records[id].parent is None]  # its sub-agents are its, too
    if tops:
        return tops[0]
    record = records.get(ours.session_id or "")
    is_new = record is not None and (record.updated_at or 0.0) >= ours.launch.created_at
    return ours.session_id if is_new and not is_of_others(world, ours) else None


def note_agent(started: Started, world: World) -> None:
    """Note that the agent is on this machine, if a wrapper was launched and the agent is a process below it, or below
    the runner: the wrapper may have ended. Once the agent has ended, nothing else tells."""
    ours = next(one for one in world.launches if one.launch.id == started.launch_id)
    if ours.launch.wrapper is not None:
        own = own_processes(world, ours)
        live = [link.key for link in world.links if link.agent == ours.launch.agent and link.path != ours.launch.path]
        for key in [*ours.agents, *(key for key in live if key in own and world.processes.alive(key))][:1]:
            launches.note_agent(started.folder, key)


def own_processes(world: World, ours: Launched) -> set[ProcessKey]:
    """Return the processes of a launch. What runs below its runner is its own, also after the wrapper that started it
    has ended."""
    runner = world.processes.own(ours.launch.runner)
    below = world.processes.descendants(runner.pid) if world.processes.alive(runner) is not None else []
    return {*ours.agents, *(process.key for process in below)}


def is_of_others(world: World, ours: Launched) -> bool:
    """Return whether a live process of somebody else is on the session of a launch: then what is new there may be that
    one's."""
    own = own_processes(world, ours)
    return any(
        (link.agent, link.id) == (ours.launch.agent, ours.session_id)
        and link.key not in own
        and world.processes.alive(link.key) is not None
        for link in world.links
        if link.path != ours.launch.path
    )


def session_or_why_not(look: Look, id: str, env: Mapping[str, str]) -> Session | AgentctlError:
    """Return the session as it was judged; judge it anew if the look was for another session."""
    session = next((session for session in look.answer.sessions if session.id == id), None)
    try:
        return session or examine(id, env).answer.sessions[0]
    except AgentctlError as error:
        return error


def written_by(pending: Sequence[Started], known: Mapping[str, str | None], look: Look) -> list[str]:
    """Return the files that change when the agents write who they are. It surveys a store once, however many wait."""
    files: list[str] = []
    ids: dict[tuple[str, str], list[str]] = {}
    for started in pending:
        files += [os.path.join(started.folder, name) for name in (launches.OUTPUT, launches.EXITS)]
        for root in load(started.order.agent).roots(started.order.env):
            path = places.plain(os.path.join(started.order.cwd, root))
            ids.setdefault((started.order.agent, path), []).append(known[started.launch_id] or "")
    for (agent, path), of_store in ids.items():
        if (agent, path) in look.stalled:
            continue  # nothing that touches it comes back
        store = load(agent).open_store(path)
        try:
            store.survey()
            files += [file for id in dict.fromkeys(of_store) for file in store.watched(id)]
        except OSError:
            files.append(path)  # it is not there yet
    return files


def unnamed(started: Started, why: str, *, shown: bool = False) -> NoSessionYet:
    screen = interactive.indented(started.screen.lines()) if shown and started.screen is not None else None
    lines = f"; it shows:\n{screen}\n" if screen is not None else "; "
    go = f"`agentctl attach {started.launch_id}` opens its screen; attach, wait and stop take this launch id"
    who = f"{started.order.agent} (pid {started.child.pid})"
    return NoSessionYet(f"{who} runs and has no session yet: {why}{lines}{go}", started.launch_id)


def died(started: Started, left: Sequence[Process]) -> LaunchFailed:
    end = recorded_end(started)
    how = "its exit status was not recorded" if end is None else end.signal or f"exit code {end.exit_code}"
    printed = os.path.join(started.folder, launches.OUTPUT)
    lines = (started.screen.lines() if started.screen is not None else last_lines(printed))[-LAST_LINES:]
    said = "it printed nothing" if not lines else "its last lines:\n" + "\n".join(f"  {line}" for line in lines)
    pids = ", ".join(str(process.pid) for process in left)
    still = f"; it left pid {pids} running: agentctl stop --tree {started.launch_id}" if left else ""
    why = f"{started.order.agent} ended before its session was known ({how}){still}; {said}"
    return LaunchFailed(why, started.launch_id, step="session")


def recorded_end(started: Started) -> Exit | None:
    """Return how the agent ended. Its runner reaps it a moment before it records that: wait for it a moment."""
    deadline = time.monotonic() + RECORDED_WITHIN
    while True:
        end = next((end for end in launches.exits_in(started.folder) if end.direct), None)
        if end is not None or time.monotonic() >= deadline:
            return end
        time.sleep(SHORTLY)


def last_lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
            text = file.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
