"""Which session a launch is on. There is no id but the agent's own: it is known once the agent's own store, or its
output, shows it. Of many launches all are looked at together, so their number costs little.
"""

from __future__ import annotations

import os
import time

from agentctl import launched, launches, screens
from agentctl.agents import load
from agentctl.errors import AgentctlError, LaunchFailed, NoSessionYet, TimedOut
from agentctl.model import Value
from agentctl.sessions import Scope, examine, settled_look
from agentctl.watching import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agentctl.launching import Started
    from agentctl.model import Session
    from agentctl.sessions import Look
    from agentctl.world import World

    Tell = Callable[[str], None]

ID_PATIENCE = 60.0
SAY_AFTER = 1.0  # seconds of silence before the person is told what is waited for
GLANCE = 0.5  # seconds between two looks at a screen
LAST_LINES, LAST_BYTES = 10, 4096


class Begun(Value):
    """A launch whose agent was executed."""

    agent: str
    cwd: str
    env: Mapping[str, str]  # of the agent
    session_id: str | None  # where it was chosen by us
    patience: float
    started: Started
    screen: screens.Watcher | None = None  # of an agent in a terminal


def await_sessions(
    all: Sequence[Begun], env: Mapping[str, str], tell: Tell
) -> Iterator[tuple[Begun, Session | AgentctlError]]:
    """Each as soon as it is known, or why it is not: LaunchFailed (it ended), TimedOut and NoSessionYet (it is left
    running)."""
    begun = time.monotonic()
    pending = list(all)
    told = False
    with Watch() as watch:
        while pending:
            known = {one.started.launch_id: known_id(one) for one in pending}
            look = settled_look(scope_of(pending, known), env)
            for one in list(pending):
                id = id_in(look.world, one.started.launch_id)
                if id is not None:
                    pending.remove(one)
                    yield one, session_or_why_not(look, id, env)
            paths = written_by(pending, known, look)
            if watch.cover([key for one in pending for key in (one.started.child, one.started.runner)], paths):
                continue
            now = time.monotonic()
            for one in list(pending):
                if (why := given_up(one, look, now - begun)) is not None:
                    pending.remove(one)
                    yield one, why
            if not told and now - begun >= SAY_AFTER and pending:
                told = True
                tell(waiting_for(pending))
            if pending:
                patience = min(one.patience for one in pending)
                until = begun + (patience if told else min(patience, SAY_AFTER))
                watch.sleep(min(until, now + GLANCE) if any(one.screen for one in pending) else until)


def known_id(one: Begun) -> str | None:
    return one.session_id or launched.printed_in(one.started.folder, one.agent)


def scope_of(pending: Sequence[Begun], known: Mapping[str, str | None]) -> Scope:
    """Also those that have ended by now: their records are read if their ids are known."""
    agents = tuple(dict.fromkeys(one.agent for one in pending))
    if len(pending) == 1:
        return Scope(agents=agents, prefix=known[pending[0].started.launch_id])
    return Scope(agents=agents, ids=tuple(id for id in known.values() if id is not None))


def given_up(one: Begun, look: Look, waited: float) -> AgentctlError | None:
    started = one.started
    if not launched.may_live(look.world, one.agent, started.child, started.runner):
        return died(one)
    if one.screen is not None and one.screen.is_still():
        return unnamed(one, "what it shows does not change: it waits for a person", shown=True)
    if waited < one.patience:
        return None
    return TimedOut(
        f"{one.agent} (pid {started.child.pid}) has not named its session within {one.patience:g} s; "
        f"it is left running: `agentctl stop {started.launch_id}` ends it"
    )


def waiting_for(pending: Sequence[Begun]) -> str:
    if len(pending) == 1:
        return f"{pending[0].agent} runs (pid {pending[0].started.child.pid}); waiting for its session id"
    return f"{len(pending)} agents run; waiting for their session ids"


def id_in(world: World, launch_id: str) -> str | None:
    """The session that a launch is on by the agent's own store. Our own record of the launch is no proof of it."""
    one = next((one for one in world.launches if one.launch.id == launch_id), None)
    if one is None:
        return None
    records = {record.id: record for record in world.records if record.agent == one.launch.agent}
    named = [
        link.id
        for link in world.links
        if link.agent == one.launch.agent and link.key in one.agents and link.path != one.launch.path
    ]
    if one.session_id in named:
        return one.session_id
    tops = [id for id in named if id not in records or records[id].parent is None]  # its sub-agents are its, too
    if tops:
        return tops[0]
    record = records.get(one.session_id or "")
    is_new = record is not None and (record.updated_at or 0.0) >= one.launch.created_at
    return one.session_id if is_new else None


def session_or_why_not(look: Look, id: str, env: Mapping[str, str]) -> Session | AgentctlError:
    """As it was judged; anew if it is another one than was looked for."""
    found = next((session for session in look.answer.sessions if session.id == id), None)
    try:
        return found or examine(id, env).answer.sessions[0]
    except AgentctlError as error:
        return error


def written_by(pending: Sequence[Begun], known: Mapping[str, str | None], look: Look) -> list[str]:
    """What changes when the agents write who they are. A store is surveyed once, however many are waited for."""
    found: list[str] = []
    ids: dict[tuple[str, str], list[str]] = {}
    for one in pending:
        found += [os.path.join(one.started.folder, name) for name in (launches.OUTPUT, launches.EXITS)]
        for root in load(one.agent).roots(one.env):
            path = os.path.normpath(os.path.join(one.cwd, root))
            ids.setdefault((one.agent, path), []).append(known[one.started.launch_id] or "")
    for (agent, path), of_store in ids.items():
        if (agent, path) in look.stalled:
            continue  # nothing that touches it comes back
        store = load(agent).open_store(path)
        try:
            store.survey()
            found += [file for id in dict.fromkeys(of_store) for file in store.watched(id)]
        except OSError:
            found.append(path)  # it is not there yet
    return found


def unnamed(one: Begun, why: str, *, shown: bool = False) -> NoSessionYet:
    lines = f"; it shows:\n{screens.told(one.screen.lines())}\n" if shown and one.screen is not None else "; "
    id = one.started.launch_id
    go = f"`agentctl attach {id}` goes there; attach, wait and stop take this launch id"
    return NoSessionYet(f"{one.agent} (pid {one.started.child.pid}) runs and has no session yet: {why}{lines}{go}", id)


def died(one: Begun) -> LaunchFailed:
    end = next((end for end in launches.exits_in(one.started.folder) if end.direct), None)
    how = "nobody saw how" if end is None else end.signal or f"exit code {end.exit_code}"
    printed = os.path.join(one.started.folder, launches.OUTPUT)
    lines = (one.screen.lines() if one.screen is not None else last_lines(printed))[-LAST_LINES:]
    said = "it printed nothing" if not lines else "its last lines:\n" + "\n".join(f"  {line}" for line in lines)
    why = f"{one.agent} ended before its session was known ({how}); {said}"
    return LaunchFailed(why, one.started.launch_id, step="session")


def last_lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
            text = file.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
