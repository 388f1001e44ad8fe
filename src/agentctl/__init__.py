"""agentctl: supervise the coding agents of your user account and your HOME.

    import agentctl

    for session in agentctl.list_sessions().sessions:
        print(session.id, session.status, session.reason)
    print(agentctl.get_session("0b1c").evidence)

The same function answers here, in `agentctl list`, `status` and `why`. Nothing heavy is imported until it is called.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["Answer", "Evidence", "Problem", "Session", "Unattached", "__version__", "get_session", "list_sessions"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentctl.model import Answer, Evidence, Problem, Session, Unattached


def list_sessions(
    *,
    agents: Iterable[str] | None = None,
    ended_since: float | None = None,
    subagents: bool = False,
) -> Answer:
    """What is alive or unknown now; with `ended_since` (seconds since 1970) also what ended after that moment.

    `agents`: only these (names or aliases). `subagents`: the sub-agents of what is shown, too.
    """
    from agentctl.query.sessions import Scope, query

    return query(Scope(agents=tuple(agents) if agents is not None else None, since=ended_since, children=subagents))


def get_session(id: str) -> Session:
    """The session of this id, or of this unique beginning of one. Raises agentctl.errors.NotFound."""
    from agentctl.query.sessions import query_session

    return query_session(id).sessions[0]


def __getattr__(name: str) -> object:
    if name in __all__:
        from agentctl import model

        return getattr(model, name)
    raise AttributeError(f"module 'agentctl' has no attribute {name!r}")
