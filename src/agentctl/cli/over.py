"""agentctl _over LAUNCH: asked by a runner, when its agent has ended and after each later end below it.

Exit 0: the session is gone, and what was to be run then has run; the runner may go. 1: it is not over, or it cannot be
told. The hook runs at most once, also if we are killed: it is marked before it is run.
"""

from __future__ import annotations

import os
import time

from agentctl import control, hooks, launched, launches
from agentctl.model import GONE, UNKNOWN, Launch
from agentctl.sessions import Scope, settled_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from agentctl.model import Session

EPILOG = "For runners, not for people."
TRIES, PAUSE = 10, 0.5  # at what cannot be told: mostly what was written a moment ago
NOT_OVER = 1


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("launch", metavar="LAUNCH")


def run(args: Namespace) -> int:
    env = dict(os.environ)
    launch = launches.read(args.launch, env)
    if not isinstance(launch, Launch):
        return NOT_OVER
    for _ in range(TRIES):
        session, process = state_of(launch, env)
        if process != UNKNOWN:
            break
        time.sleep(PAUSE)
    if process != GONE:
        return NOT_OVER
    if hooks.mark_completed(os.path.dirname(launch.path or "")):
        control.run_hook(hooks.ON_COMPLETE, launch, session, env)
    return 0


def state_of(launch: Launch, env: Mapping[str, str]) -> tuple[Session | None, str]:
    """The session of a launch, and whether it is gone. One that never had a session is gone with its process."""
    id = launch.session_id or launched.printed_in(os.path.dirname(launch.path or ""), launch.agent)
    look = settled_look(Scope(agents=(launch.agent,), prefix=id), env)
    found = next((one for one in look.answer.sessions if one.id == id), None)
    if found is not None:
        return found, found.process
    lives = launched.may_live(look.world, launch.agent, launch.child, launch.runner)
    return None, UNKNOWN if lives else GONE
