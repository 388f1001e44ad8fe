"""How an agent is started, spoken to and stopped: what its `control.py` offers, with defaults; and what they share.

Only commands that act import this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from agentctl.agents.recipes import Way
from agentctl.agents.screen import Input
from agentctl.errors import Refused, UsageError
from agentctl.files.bounded import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, ClassVar

    from agentctl.agents.recipes import Delivery, Held, Recipe, Task
    from agentctl.agents.screen import Screen
    from agentctl.model import Session

CAREFUL, ASKS, EDITS_FILES, FREE = range(4)  # the rights of an agent, from few to all
LONGEST_WORD = 120_000  # bytes: one word of a command line ends at 128 KiB
REFUSES = "nobody can be asked in a headless run: what needs permission is refused"


class Control(ABC):
    """How an agent is started, spoken to and stopped."""

    SECOND_WRITER: ClassVar[bool] = False  # does the agent allow a second process on a session that one holds?
    STORE_ENV: ClassVar[tuple[str, ...]] = ()  # the variables that name its store; without them HOME leads to it

    @abstractmethod
    def start(self, task: Task) -> Recipe:
        """Return how a turn is run; run and write nothing. Raises UsageError for a mode that the agent lacks."""

    def printed_id(self, output: bytes) -> str | None:
        """Return the session in the first bytes that a one-shot run printed; None: not yet. Default: it prints none,
        because agentctl chooses the id beforehand."""
        return None

    def naming(self, root: str) -> Mapping[str, str]:
        """Return the variables, all of STORE_ENV, with which the agent keeps its sessions in this store. Default: none
        does; then a session is resumed only if the environment leads to its store already."""
        return {}

    def way_to_stop(self, held: Held) -> Way:
        """Return the agent's own orderly end. Default: SIGTERM."""
        return Way()

    def way_to_send(self, held: Held) -> Delivery | None:
        """Return how a live session is given a text; None: only by its terminal, which is the default. Raises Refused
        if its screen is known not to be at its prompt, whatever its turn is."""
        return None

    def input_on(self, screen: Screen) -> Input:
        """Return what stands in the input line of this screen. Default: nobody knows, so nothing is typed there."""
        return Input()

    def own_screen(self, held: Held) -> tuple[str, ...] | None:
        """Return the agent's own command that shows a session which its daemon holds. Default: it has none."""
        return None


class NoControl(Control):
    """The default of a package without `control.py`: SIGTERM stops it, and it cannot be started."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def start(self, task: Task) -> Recipe:
        raise UsageError(f"agentctl cannot start {self._agent}; start it yourself, and agentctl shows it")


def check_mode(agent: str, mode: str | None, modes: Mapping[str, object]) -> None:
    if mode is not None and mode not in modes:
        raise UsageError(f"{agent} has no mode {mode!r}; it has {', '.join(modes)}")


def check_flags(agent: str, flags: Sequence[str], ours: Mapping[str, str]) -> None:
    """Raise UsageError if one of `ours` is among the flags. They would break what a launch promises; each comes with
    what to do instead."""
    for word in flags:
        if (name := word.partition("=")[0]) in ours:
            raise UsageError(f"{name} cannot be handed on to {agent}: {ours[name]}")


def new_id() -> str:
    """Return an id for a session of an agent that lets us choose it."""
    import uuid

    return str(uuid.uuid4())


def given(flag: str, value: str | None) -> tuple[str, ...]:
    """Return an option with its value; nothing if there is no value."""
    return (flag, value) if value else ()


def joined(*notes: str | None) -> str | None:
    """Return what a person should know as one line; None if there is nothing to know."""
    return "; ".join(note for note in notes if note) or None


def on_stdin(prompt: str) -> bytes:
    return prompt.encode(errors="surrogateescape")


def has_flag(flags: Sequence[str], *names: str) -> bool:
    return any(word.partition("=")[0] in names for word in flags)


def value_of(words: Sequence[str], *names: str) -> str | None:
    """Return the value of the last of these options; None if none is there."""
    found = None
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else next(iter(words[at + 1 : at + 2]), None)
    return found


def check_rights(session: Session, mode: str, rank: int, limit: int | None, option: str) -> None:
    """Raise Refused if a session would go on with more rights than a person gave it: an agent can write the store that
    says so. `limit`: the rank that agentctl launched it with; None if nobody told agentctl."""
    if rank > (limit if limit is not None else FREE - 1):
        raise Refused(
            f"{session.id} was in {mode}, by its own store, which an agent can write; no launch of agentctl gave it "
            f"that: add {option} to go on so, or --permissions default"
        )


def whole_lines(output: bytes) -> list[bytes]:
    """Return the complete lines: more of the last line may still come."""
    return output.split(b"\n")[:-1]


def printed_objects(output: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects among the printed lines; warnings may stand between them."""
    for line in whole_lines(output):
        if line.startswith(b"{") and (value := decode(line)) is not None:
            yield value


def words_for_screen(agent: str, prompt: str) -> tuple[str, ...]:
    """Return the prompt as the last words of a command line. Behind `--` it is a prompt, whatever it begins with."""
    check_word(agent, prompt)
    return ("--", prompt) if prompt else ()


def check_word(agent: str, prompt: str) -> None:
    size = len(prompt.encode(errors="surrogateescape"))
    if size > LONGEST_WORD:
        raise UsageError(
            f"a prompt of {size} bytes does not fit into the command line of {agent}'s screen ({LONGEST_WORD}); "
            "put it into a file, and name that in the prompt; or leave --interactive out"
        )
