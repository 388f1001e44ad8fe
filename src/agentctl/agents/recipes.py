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
    """A turn that shall run without a person at the terminal: the first of a new session, or the next of `session`.
    `interactive`: the agent's screen in a terminal, with that turn or, if the prompt is empty, without one."""

    prompt: str
    cwd: str
    env: Mapping[str, str]  # the environment that the agent will have
    model: str | None = None
    permissions: str | None = None  # None: the person said nothing; a session that goes on keeps what it had
    flags: tuple[str, ...] = ()  # the agent's own, as the person gave them
    session: Session | None = None
    interactive: bool = False
    launched_as: tuple[str, ...] = ()  # the words of agentctl's own last launch of `session`, by our record


class Recipe(Value):
    """How that turn is run."""

    argv: tuple[str, ...]  # argv[0] is found as a shell would
    input: bytes | None = None  # for its stdin
    session_id: str | None = None  # known beforehand: agentctl chose it, or the session goes on
    env: Mapping[str, str] | None = None  # what is added to its environment
    said: str | None = None  # what the person should know, in one line
    late: str | None = None  # why the session id is not known before a person types


class Held(Value):
    """A session that lives, and the process that holds it."""

    session: Session
    process: Process
    details: Details
    env: Mapping[str, str]  # ours


class Way(Value):
    """How an agent ends a session in its own orderly way. What does not end in the time of grace is killed."""

    signals: tuple[str, ...] = ("SIGTERM",)  # to its process, one after the other
    command: tuple[str, ...] | None = None  # the agent's own, in place of signals
    # Ends the turn in a process that must live on; raises AgentctlError if it cannot.
    interrupt: Callable[[float], None] | None = None  # given the seconds it may take
    said: str | None = None


class Delivery(Value):
    """An agent's own way to give a session a text, without its terminal: the text is never taken for keys. It also
    checks that the session is at rest."""

    name: str  # of that way, for people
    # Raises Refused if the session is not at rest, TruthUnavailable if nobody knows whether it took the text, and
    # AgentctlError if it did not.
    deliver: Callable[[str, float], None]  # given the text, and the seconds that it may take
