"""The tools that a killed agent left behind: they run on, and write where it worked.

For one session that ended in the middle of a turn, `left_by` looks at every process. For a list, `left_behind` looks
only at those that have lost their parent: their new one is init, systemd, or the runner of a launch.
"""

from __future__ import annotations

from agentctl.agents import load_all
from agentctl.model import GONE, INTERRUPTED, Left
from agentctl.query.sessions import Scope, settled_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentctl.agents.base import Agent
    from agentctl.kernel.processes import Processes
    from agentctl.model import Process, Session
    from agentctl.query.sessions import Look

INIT, SYSTEMD = 1, "systemd"  # who adopts a process that has lost its parent


def left_by(session: Session, processes: Processes) -> tuple[Left, ...]:
    """Return the live processes whose environment names this session, which has ended: its tools, and what they
    started. A process that an agent recognises is none: it has a session of its own."""
    if session.process != GONE or session.turn != INTERRUPTED:
        return ()
    agents = load_all()
    variable = next((agent.TOOL_ENV for agent in agents if session.agent == agent.NAME), None)
    if variable is None:
        return ()
    found = []
    for process in processes.living():
        details = processes.details(process)
        if details is None or details.env is None or details.env.get(variable) != session.id:
            continue
        if all(agent.claims(process, details) is None for agent in agents):
            found.append(Left(process.pid, process.comm))
    return tuple(sorted(found, key=lambda process: process.pid))


def left_behind(look: Look, scope: Scope) -> tuple[Left, ...]:
    """Return the live tools of sessions that were killed in the middle of a turn, each with its session; of the agents
    that were asked for. It reads one file for each process that has lost its parent."""
    agents = [agent for agent in load_all() if scope.agents is None or agent.NAME in scope.agents]
    alive = {(session.agent, session.id) for session in look.answer.sessions if session.process != GONE}
    found = [left for left in adopted_tools(look, agents) if (left.agent, left.session) not in alive]
    if not found:
        return ()
    ids = tuple({left.session for left in found if left.session is not None})
    judged = settled_look(Scope(agents=scope.agents, ids=ids)).answer.sessions
    killed = {(one.agent, one.id) for one in judged if one.process == GONE and one.turn == INTERRUPTED}
    return tuple(left for left in found if (left.agent, left.session) in killed)


def adopted_tools(look: Look, agents: list[Agent]) -> Iterator[Left]:
    """Yield the processes that have lost their parent, and whose environment names a session."""
    processes = look.world.processes
    variables = {agent.TOOL_ENV: agent.NAME for agent in agents if agent.TOOL_ENV is not None}
    words = [f"{name}=".encode() for name in variables]
    for process in adopted(look):
        if not processes.mentions(process.pid, words):
            continue
        details = processes.details(process)
        if details is None or details.env is None or any(agent.claims(process, details) for agent in load_all()):
            continue
        for variable, agent_name in variables.items():
            if (id := details.env.get(variable)) is not None:
                yield Left(process.pid, process.comm, agent_name, id)


def adopted(look: Look) -> Iterator[Process]:
    """Yield the living children of those who adopt processes."""
    processes = look.world.processes
    runners = [ours.launch.runner.pid for ours in look.world.launches if ours.launch.runner.namespace is None]
    adopters = [INIT, *(process.pid for process in processes.named(SYSTEMD.__eq__)), *runners]
    for pid in dict.fromkeys(adopters):
        yield from processes.children(pid)
