"""The environment in which an agent goes on with a session: it must lead to the store that the session is in.

With any other store the agent would find no such session, or begin one without the conversation, on another account.
"""

from __future__ import annotations

import os

from agentctl.agents import load, load_control
from agentctl.errors import Refused
from agentctl.kernel import places
from agentctl.query.roots import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentctl.model import Session


def leading_to(session: Session, env: Mapping[str, str], cwd: str) -> tuple[Mapping[str, str], str | None]:
    """Return the environment for the agent of this session, as little changed as possible, and a note for the person if
    it was changed. Raises Refused if no environment leads to the store of the session."""
    if session.store is None:
        return env, None
    for found in possible(session, env):
        used = load(session.agent).roots(found)[0]
        if is_same(places.plain(os.path.join(cwd, used)), session.store):
            return found, note_of(session, env, found)
    raise Refused(
        f"{session.id} is in {session.store}, and no variable leads {session.agent} there: it would go on without the "
        "conversation; start it yourself as it was started before"
    )


def possible(session: Session, env: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Yield the environments to try: this one, the one in which only HOME leads to a store, and those that name it."""
    control = load_control(session.agent)
    without = {name: value for name, value in env.items() if name not in control.STORE_ENV}
    naming = control.naming(session.store or "")
    yield from (env, without, {**env, **naming}, {**without, **naming})


def is_same(one: str, other: str) -> bool:
    return one == other or ((here := identity(one)) is not None and here == identity(other))


def note_of(session: Session, before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    names = load_control(session.agent).STORE_ENV
    set_ = [f"{name}={after[name]}" for name in names if name in after and after[name] != before.get(name)]
    unset = [f"without {name}" for name in names if name in before and name not in after]
    return f"it goes on in its own store, {', '.join((*set_, *unset))}" if set_ or unset else None
