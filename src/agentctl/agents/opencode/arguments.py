"""What an OpenCode process was started for, by its arguments."""

from __future__ import annotations

from agentctl.agents.base import option
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SERVERS = frozenset("serve acp web".split())
OTHER_COMMANDS = frozenset(
    "completion mcp attach debug providers auth agent upgrade uninstall models stats export import github pr session "
    "plugin plug db generate console account".split()
)
COMMANDS = SERVERS | OTHER_COMMANDS | {"run"}
# Options that take a value, so that the value is not taken for a command or a prompt.
VALUE_FLAGS = frozenset(
    "-m --model -s --session --agent --port --hostname --prompt --log-level --mdns-domain --cors --format -f --file "
    "--title --attach -p --password -u --username --dir --variant --command --replay-limit".split()
)


class Arguments(Value):
    command: str | None = None  # None = the screen
    words: tuple[str, ...] = ()  # what follows the command and is no option
    session: str | None = None  # the one it was told to open
    resumes: bool = False  # told to open an earlier session, and perhaps not which
    forks: bool = False
    attached: bool = False  # another process runs its turns
    asks: bool = True  # somebody is there to be asked for permission
    prompt: str | None = None  # as `run` stores it
    directory: str | None = None  # where a client of a server wants to be

    @property
    def serves(self) -> bool:
        """Is it a server, for sessions of any directory?"""
        return self.command in SERVERS

    @property
    def runs_turns(self) -> bool:
        """Is it a screen, or a run for one prompt?"""
        return self.command in (None, "run") or (self.command, self.words[:1]) == ("github", ("run",))

    @property
    def has_screen(self) -> bool:
        """Can a person open any session in it?"""
        return self.command in (None, "attach")

    @property
    def one_shot(self) -> bool:
        return self.command in ("run", "github") and not self.asks


def read_arguments(argv: Sequence[str]) -> Arguments:
    words, flags = parts_of(argv)
    command = words[0] if words and words[0] in COMMANDS else None
    rest = tuple(words[1:] if command else words)
    is_screen = command is None or not flags.isdisjoint(("-i", "--interactive"))
    is_plain = command == "run" and rest and flags.isdisjoint(("--command", "-f", "--file"))
    return Arguments(
        command,
        rest,
        session=option(argv, "-s", "--session"),
        resumes=not flags.isdisjoint(("-s", "--session", "-c", "--continue")),
        forks="--fork" in flags,
        attached=command == "attach" or "--attach" in flags,
        asks=(is_screen or command in SERVERS) and "--auto" not in flags,
        prompt=" ".join(map(quoted, rest)) if is_plain else None,
        directory=option(argv, "--dir"),
    )


def parts_of(argv: Sequence[str]) -> tuple[list[str], set[str]]:
    """Return the words that are no option, and the names of the options, without their values."""
    words: list[str] = []
    flags: set[str] = set()
    index = 1
    while index < len(argv):
        word = argv[index]
        if word == "--":
            words += argv[index + 1 :]
            break
        if word.startswith("-") and word != "-":
            flags.add(word.partition("=")[0])
            index += 1 if "=" in word or word not in VALUE_FLAGS else 2
        else:
            words.append(word)
            index += 1
    return words, flags


def quoted(word: str) -> str:
    return '"' + word.replace('"', '\\"') + '"' if " " in word else word
