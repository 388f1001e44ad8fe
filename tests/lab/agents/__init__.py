"""How the lab starts and drives each agent. One module per agent; a new agent is one more file and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tests.lab.agents import claude_code, codex, opencode

if TYPE_CHECKING:
    from signal import Signals

    from tests.lab.running import Key, Running
    from tests.lab.world import Truth, World

HEADLESS, INTERACTIVE, DAEMON, STREAM = "headless", "interactive", "daemon", "stream"
MODES = (HEADLESS, INTERACTIVE, DAEMON, STREAM)  # stream: a program writes prompts to it and reads its answers


class Recipe(Protocol):
    NAME: str
    MODES: tuple[str, ...]  # those that it has
    PERMISSION: str  # what the screen shows when a tool call needs a person
    QUESTION: str
    READY: str  # at its prompt
    BUSY: str  # while a turn runs
    QUIT: str
    CLEAR: str
    LEAVES_FIRST: bool  # told to quit, it lets its session go before it ends
    KEEPS_CLEARED: bool  # after CLEAR its process still holds the old session
    NAMES_LATE: bool  # it has no session before its first prompt
    REFUSAL_ENDS: bool  # a refused tool call is the end of the turn: the model is not asked again
    MISSES_KILLED_TOOL: bool  # a command that ended by a signal is over for it when its time is up: two minutes
    DAEMON_LETS_GO: bool  # its daemon holds a session only while a turn runs; at rest it is only stored

    def prepare(self, world: World) -> None:
        """Write its configuration: the fake model, no telemetry, no first-run dialogs."""

    def env(self, world: World) -> dict[str, str]: ...

    def store_env(self, world: World) -> dict[str, str]:
        """The variables that say where its store is."""

    def headless(self, prompt: str) -> list[str]: ...
    def resume(self, mode: str, id: str, prompt: str | None) -> list[str]: ...
    def fork(self, mode: str, id: str, prompt: str | None) -> list[str]: ...

    def open(self, world: World) -> Running:
        """Its interface, at its prompt: in a process of its own, or of its daemon."""

    def allow_questions(self, running: Running) -> None:
        """Bring its interface to where the model may ask the person."""

    def interrupt(self, running: Running) -> None:
        """Press Esc, or what that is here."""

    def allow(self, running: Running) -> None:
        """Say yes to what it asks, on its screen or through its stdin."""

    def turns_over(self, running: Running) -> int | None:
        """How many turns have ended, by its own word on stdout; None where it says nothing."""

    def reopen(self, world: World, words: list[str]) -> Running:
        """Its interface again, started with these words (see resume, fork), at its prompt."""

    def tells_fresh(self, world: World) -> bool:
        """Does it say, before its first prompt, that it is idle? Else nobody can tell."""

    def holder(self, running: Running) -> Key:
        """The process that is on the session of what was started (not its wrapper)."""

    def background(self, world: World, prompt: str) -> Running:
        """Start a turn in the agent's own daemon."""

    def daemon(self, world: World) -> Key:
        """The agent's own daemon."""

    def signal_in_daemon(self, world: World, running: Running, truth: Truth, number: Signals) -> None:
        """Send a signal, in mid-turn, to the process that a person would reach, and say what is expected then."""

    def finish_in_daemon(self, world: World, running: Running, truth: Truth) -> None:
        """End the session in the agent's own way, and say what is expected then."""


RECIPES: dict[str, Recipe] = {recipe.NAME: recipe for recipe in (claude_code.RECIPE, codex.RECIPE, opencode.RECIPE)}
