"""agentctl _over LAUNCH: asked by a runner, when its agent has ended and after each later end below it.

Exit 0: the session is gone, and its hook has run; the runner may go. NOT_OVER: it is not over, or nobody can tell.
After any other code the runner asks again: agentctl may be in the middle of an upgrade. The hook runs at most once,
even if this command is killed: it is marked before it is run. A person runs it if the runner is gone
(launches/promises.py).
"""

from __future__ import annotations

import os
import sys
import time

from agentctl.launch import runner, start
from agentctl.launches import hooks, records
from agentctl.model import GONE, UNKNOWN, Launch
from agentctl.query import attribution
from agentctl.query.sessions import Scope, settled_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from agentctl.model import Session

EPILOG = "For runners, not for people."
PAUSE = 0.5  # seconds between tries at what cannot be told: mostly what was written a moment ago
TRIES = round(attribution.BECOMES_AGENT / PAUSE)
NOT_OVER = runner.NOT_OVER
ASK_AGAIN = 1  # as after any failure: the runner asks again after a while
LEFT = "left"  # its process has ended and left others behind: one of them may be about to execute the agent
UNREAD = "unread"  # its session was not seen, and a store of its agent could not be read
UNREAD_PATIENCE = 20.0  # seconds for such a store to come back, before the hook runs without a session


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("launch", metavar="LAUNCH")


def run(args: Namespace) -> int:
    env = dict(os.environ)
    launch = records.read(args.launch, env)
    if not isinstance(launch, Launch):
        return NOT_OVER
    for _ in range(TRIES):
        session, process = state_of(launch, env)
        if process not in (UNKNOWN, LEFT):
            break
        time.sleep(PAUSE)
    if process == LEFT:
        process = GONE  # none of them has become its agent
    if process == UNREAD:
        return ASK_AGAIN
    if process != GONE:
        tell(f"launch {launch.id} is not over, or that cannot be known: {hooks.ON_COMPLETE} was not run")
        return NOT_OVER
    if hooks.mark_completed(os.path.dirname(launch.path or "")):
        ran = start.run_hook(hooks.ON_COMPLETE, launch, session, env)
        tell(f"{hooks.ON_COMPLETE} was run (exit code {ran.exit_code})" if ran else f"it has no {hooks.ON_COMPLETE}")
    else:
        tell(f"{hooks.ON_COMPLETE} was run before")
    return 0


def tell(words: str) -> None:
    """Tell a person who runs this in place of a runner that is gone what came of it."""
    if sys.stdout.isatty():
        print(words)


def state_of(launch: Launch, env: Mapping[str, str]) -> tuple[Session | None, str]:
    """The session of a launch, and whether it is gone. One that never had a session is gone with its process."""
    id = launch.session_id or attribution.printed_in(os.path.dirname(launch.path or ""), launch.agent)
    look = settled_look(Scope(agents=(launch.agent,), prefix=id), env)
    found = next((one for one in look.answer.sessions if one.id == id), None)
    if found is not None:
        return found, found.process
    if attribution.may_live(look.world, launch.agent, launch.child, launch.runner):
        return None, UNKNOWN
    if attribution.left_behind(look.world, launch.id, launch.child, launch.runner):
        return None, LEFT
    is_unread = look.world.why_unread(launch.agent) is not None
    return None, UNREAD if is_unread and ended_ago(launch) < UNREAD_PATIENCE else GONE


def ended_ago(launch: Launch) -> float:
    """Return the seconds since its process ended, as its runner saw it; infinite if the runner did not."""
    exits = records.exits_in(os.path.dirname(launch.path or ""))
    return min((time.time() - exit.at for exit in exits if exit.at is not None), default=float("inf"))
