"""What the control modules of the real agents share: modes, flags that are agentctl's own to set, printed lines."""

from __future__ import annotations

from agentctl.errors import UsageError
from agentctl.stores import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

LONGEST_WORD = 120_000  # bytes: one word of a command line ends at 128 KiB
REFUSES = "nobody can be asked in a headless run: what needs permission is refused"


def check_mode(agent: str, mode: str | None, modes: Mapping[str, object]) -> None:
    if mode is not None and mode not in modes:
        raise UsageError(f"{agent} has no mode {mode!r}; it has {', '.join(modes)}")


def check_flags(agent: str, flags: Sequence[str], ours: Mapping[str, str]) -> None:
    """`ours`: flags that would break what is promised of a launch, each with what to do instead."""
    for word in flags:
        if (name := word.partition("=")[0]) in ours:
            raise UsageError(f"{name} cannot be handed on to {agent}: {ours[name]}")


def has_flag(flags: Sequence[str], *names: str) -> bool:
    return any(word.partition("=")[0] in names for word in flags)


def whole_lines(output: bytes) -> list[bytes]:
    """The lines that are there to their end: of the last one more may be on its way."""
    return output.split(b"\n")[:-1]


def printed_objects(output: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects among the printed lines, which warnings stand between."""
    for line in whole_lines(output):
        if line.startswith(b"{") and (value := decode(line)) is not None:
            yield value


def words_for_screen(agent: str, prompt: str) -> tuple[str, ...]:
    """A prompt at the end of a command line, behind all options: whatever it begins with, it is a prompt."""
    check_word(agent, prompt)
    return ("--", prompt) if prompt else ()


def check_word(agent: str, prompt: str) -> None:
    size = len(prompt.encode(errors="surrogateescape"))
    if size > LONGEST_WORD:
        raise UsageError(
            f"a prompt of {size} bytes does not fit into the command line of {agent}'s screen ({LONGEST_WORD}); "
            "put it into a file, and name that in the prompt; or leave --interactive out"
        )
