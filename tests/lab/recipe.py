"""What the lab asks of an agent's description: a recipe, with a default for everything that most agents share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from tests.lab.running import ESCAPE

if TYPE_CHECKING:
    from collections.abc import Callable
    from signal import Signals
    from typing import Any

    from tests.lab.control_facts import Facts
    from tests.lab.model import ModelServer
    from tests.lab.running import Key, Running
    from tests.lab.stage import Stage
    from tests.lab.world import Home, Truth, World

HEADLESS, INTERACTIVE, DAEMON, STREAM = "headless", "interactive", "daemon", "stream"
MODES = (HEADLESS, INTERACTIVE, DAEMON, STREAM)  # stream: a program writes prompts to it and reads its answers


class Place(Protocol):
    """Where an agent is run: a World, with a watcher, or a Stage, for controls and verbs."""

    home: Home
    server: ModelServer


class Without(NamedTuple):
    """States that an agent cannot be in, and why."""

    states: tuple[str, ...]
    reason: str
    modes: tuple[str, ...] = MODES


class Need(NamedTuple):
    """An option or command without which a version cannot be in these states; its own --help has it, or not."""

    word: str
    modes: tuple[str, ...]
    states: tuple[str, ...] | None = None  # None: all of these modes

    def reason(self) -> str:
        return f"its --help has no {self.word}"


class Recipe:
    # What is installed

    PACKAGE: str  # by npm
    VERSIONS: dict[str, int]  # version -> MB on disk: the one that the rules were measured on, and the newest
    LADDER: dict[str, str] = {}  # noqa: RUF012  version -> the day it came out: older ones, and a newer one (make ladder)

    # What is played

    MODES: tuple[str, ...] = (HEADLESS,)  # those that it has
    NOT_APPLICABLE: tuple[Without, ...] = ()  # beside those that no agent can have (not_applicable.toml)
    NEEDS: tuple[Need, ...] = ()  # what not every version has
    CORE: dict[str, tuple[str, ...]] | None = None  # mode -> states; None: those of matrix.CORE
    MORE_CORE: dict[str, tuple[str, ...]] = {}  # noqa: RUF012  beside those

    # What its screen shows, and what is typed there

    PERMISSION: str  # when a tool call needs a person
    QUESTION: str  # when the model asks the person
    QUESTION_LINE: str  # the same in the lines that it prints, if it has the mode STREAM
    READY: str  # at its prompt
    BUSY: str  # while a turn runs
    PICKER: tuple[str, ...] = ()  # the words that start it with a list of sessions to choose from
    PICKING: str  # what it shows then
    SHELL_MODE: str  # while what is typed runs as a command
    QUIT = "/exit"
    CLEAR = "/clear"

    # How it differs from others

    LEAVES_FIRST = False  # told to quit, it lets its session go before it ends
    KEEPS_CLEARED = False  # after CLEAR its process still holds the old session
    REFUSAL_ENDS = False  # a refused tool call is the end of the turn: the model is not asked again
    MISSES_KILLED_TOOL = False  # a command that ended by a signal is over for it when its time is up: two minutes
    DAEMON_LETS_GO = False  # its daemon holds a session only while a turn runs; at rest it is only stored

    # Its tools: directive of the fake model -> its tools that do it, the best first, each with its arguments

    TOOLS: dict[str, dict[str, Callable[[str], dict[str, Any]]]]

    # Controls and verbs

    OTHER_MODEL: str  # not its usual one
    UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
    WRITE: str  # a prompt that writes {path}
    ALLOWED: tuple[str, ...] = ()  # flags that let its shell tool run without a person to ask
    RETRIED: tuple[str, ...] = ()  # refusals of the model that it retries for minutes
    TYPED_TO = True  # at rest its screen is known to show its session: `send` types there
    OWN_SCREEN: str  # in the command that shows a session of its daemon or interface
    INTERFACE: tuple[str, ...] = ()  # flags that give its screen an interface of its own; none: only its daemon has one
    DAEMON_IS_SENT_TO = True  # `send` reaches a session of its daemon
    DAEMON_HAS_SCREENS = False  # its screens are clients of its daemon, which names the screen of a session
    NEW = "/new"  # begins another session on its screen

    def facts(self, version: str) -> Facts:
        """Return what it is known to do when it is controlled."""
        raise NotImplementedError

    def allow_shell(self, stage: Stage) -> None:
        """Let its shell tool run in its daemon without a person to ask."""

    # Its home

    def prepare(self, place: Place) -> None:
        """Write its configuration: the fake model, no telemetry, no first-run dialogs."""
        raise NotImplementedError

    def prepare_controls(self, place: Place) -> None:
        """Write its configuration for controls and verbs: there it has to ask before it edits a file."""
        self.prepare(place)

    def env(self, place: Place) -> dict[str, str]:
        return self.store_env(place)

    def store_env(self, place: Place) -> dict[str, str]:
        """Return the variables that say where its store is."""
        return {}

    # Its arguments

    def headless(self, prompt: str) -> list[str]:
        raise NotImplementedError

    def resume(self, mode: str, id: str, prompt: str | None) -> list[str]:
        raise NotImplementedError

    def fork(self, mode: str, id: str, prompt: str | None) -> list[str]:
        raise NotImplementedError

    # Driving it

    def open(self, world: World) -> Running:
        """Open its interface, at its prompt: in a process of its own, or of its daemon."""
        return self.reopen(world, [])

    def reopen(self, world: World, words: list[str]) -> Running:
        """Open its interface again, started with these words (see resume, fork), at its prompt."""
        running = world.run(*words, tty=True)
        running.wait_shown(self.READY)
        return running

    def allow_questions(self, running: Running) -> None:
        """Bring its interface to where the model may ask the person. Most always may."""

    def interrupt(self, running: Running) -> None:
        """Press Esc, or what that is here."""
        running.press(ESCAPE)

    def open_in_list(self, running: Running, text: str) -> None:
        """Open the session before the shown one in its list of sessions. `text`: what is shown then."""
        raise NotImplementedError

    def allow(self, running: Running) -> None:
        """Say yes to what it asks, on its screen or through its stdin."""
        running.press("\r")

    def keeps_errors(self, world: World) -> bool:
        """Does its store say which error of the model ended a turn? Else only that it failed."""
        return True

    def turns_over(self, running: Running) -> int | None:
        """Return how many turns have ended, by its own word on stdout; None if it says nothing."""
        return None

    def names_late(self, world: World) -> bool:
        """Has it, once its screen is open, no session before its first prompt?"""
        return False

    def tells_fresh(self, world: World) -> bool:
        """Does it say, before its first prompt, that it is idle? Else nobody can tell."""
        return True

    def tells_taken_back(self, world: World) -> bool:
        """Does it say that a prompt was taken back (Esc, before an answer)? Else what is said must be inferred."""
        return True

    def holder(self, running: Running) -> Key:
        """Return the process that is on the session of what was started (not its wrapper)."""
        return running.key

    def background(self, world: World, prompt: str) -> Running:
        """Start a turn in the agent's own daemon."""
        running = self.open(world)
        running.type(prompt)
        return running

    def daemon(self, world: World) -> Key:
        """Return the agent's own daemon."""
        raise NotImplementedError

    def signal_in_daemon(self, world: World, running: Running, truth: Truth, number: Signals) -> None:
        """Send a signal, in mid-turn, to the process that a person would reach, and say what is expected then."""
        raise NotImplementedError

    def finish_in_daemon(self, world: World, running: Running, truth: Truth) -> None:
        """End the session in the agent's own way, and say what is expected then."""
        raise NotImplementedError
