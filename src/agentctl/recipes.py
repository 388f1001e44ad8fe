"""What is asked of an agent's own controls, and what they answer: how to start it, how to go on, how to stop it."""

from __future__ import annotations

from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentctl.model import Details, Process, Session

DEFAULT, PLAN, EDITS, BYPASS = "default", "plan", "edits", "bypass"
PERMISSIONS = {
    DEFAULT: "the agent's own rules",
    PLAN: "it may read and plan, and change nothing",
    EDITS: "it may change files without asking",
    BYPASS: "it may do everything without asking",
}


class Task(Value):
    """A turn to be run without a person at the terminal: the first of a new session, or the next of `session`. Or its
    screen in a terminal, with that turn or, where the prompt is empty, without one."""

    prompt: str
    cwd: str
    env: Mapping[str, str]  # the environment that the agent will have
    model: str | None = None
    permissions: str | None = None  # None: nobody said; for a session that goes on, what it had
    flags: tuple[str, ...] = ()  # the agent's own, as the person gave them
    session: Session | None = None
    interactive: bool = False


class Recipe(Value):
    """How that turn is run."""

    argv: tuple[str, ...]  # argv[0] is found as a shell would
    input: bytes | None = None  # for its stdin
    session_id: str | None = None  # known beforehand: chosen here, or that of the session which goes on
    env: Mapping[str, str] | None = None  # what is added to its environment
    said: str | None = None  # what the person should know, in one line
    late: str | None = None  # why its session is not to be known before a person types


class Held(Value):
    """A session that lives, and the process that holds it."""

    session: Session
    process: Process
    details: Details
    env: Mapping[str, str]  # ours


class Way(Value):
    """How a session is ended in its agent's own orderly way. What does not end is killed after the time of grace."""

    signals: tuple[str, ...] = ("SIGTERM",)  # to its process, one after the other
    command: tuple[str, ...] | None = None  # the agent's own, in place of signals
    # Ends the turn in a process that is not to be ended; raises AgentctlError where that cannot be done.
    interrupt: Callable[[float], None] | None = None  # given the seconds it may take
    said: str | None = None


class Delivery(Value):
    """How a text is given to a session in its agent's own way: not through its terminal, so it is a text whatever it
    looks like. That way is asked whether the session is at rest, too."""

    name: str  # of that way, for people
    # Raises Refused where it is not at rest, TruthUnavailable where it is not known whether it was taken, and
    # AgentctlError where it was not.
    deliver: Callable[[str, float], None]  # given the text, and the seconds that it may take
