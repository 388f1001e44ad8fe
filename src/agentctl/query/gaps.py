"""Which answers a gap blocks. Pure: what could not be read is a value (`model.Gap`), and says what it can hide.

| it hides | so |
|---|---|
| HOLDERS | a missing process proves nothing, for one session or for all of the store: no firm end |
| SESSIONS | a session that was not found may be there; if a session has no transcript elsewhere, its turn is unknown |
| RECORD | the turn of that session is unknown |
| DETAIL | nothing is blocked |

Every gap is a problem, so `--strict` is never 0 while there is one.
"""

from __future__ import annotations

from agentctl.model import HOLDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentctl.model import Gap


def why_unseen(gaps: Iterable[Gap]) -> str | None:
    """Return why a missing process proves nothing for any session of a store with these gaps; None if it does."""
    return next((said(gap) for gap in gaps if gap.hides == HOLDERS and gap.session is None), None)


def unseen_sessions(gaps: Iterable[Gap]) -> tuple[tuple[str, str], ...]:
    """Return the sessions for which alone a missing process proves nothing, each with the reason."""
    return tuple((gap.session, said(gap)) for gap in gaps if gap.hides == HOLDERS and gap.session is not None)


def said(gap: Gap) -> str:
    return f"who is on it may be hidden: {gap.path}: {gap.why}"
