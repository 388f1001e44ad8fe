"""What an OpenCode process was started for, by its arguments."""

from __future__ import annotations

from agentctl.agents import option
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SERVERS = frozenset("serve acp web".split())
OTHER_COMMANDS = frozenset(
    "completion mcp attach debug providers auth agent upgrade uninstall models stats export import github pr session "
    "plugin plug db generate console account".split()
)
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

    @property
    def one_shot(self) -> bool:
        return self.command in ("run", "github") and not self.asks


def read_arguments(argv: Sequence[str]) -> Arguments:
    words: list[str] = []
    flags: list[str] = []
    index = 1
    while index < len(argv):
        word = argv[index]
        if word == "--":
            words += argv[index + 1 :]
            break
        if word.startswith("-") and word != "-":
            flags.append(word.partition("=")[0])
            index += 1 if "=" in word or word not in VALUE_FLAGS else 2
        else:
            words.append(word)
            index += 1
    command = words[0] if words and (words[0] in SERVERS or words[0] in OTHER_COMMANDS or words[0] == "run") else None
    rest = tuple(words[1:] if command else words)
    interactive = command is None or any(flag in ("-i", "--interactive") for flag in flags)
    plain = command == "run" and rest and not any(flag in ("--command", "-f", "--file") for flag in flags)
    return Arguments(
        command,
        rest,
        session=option(argv, "-s", "--session"),
        resumes=any(flag in ("-s", "--session", "-c", "--continue") for flag in flags),
        forks="--fork" in flags,
        attached=command == "attach" or "--attach" in flags,
        asks=(interactive or command in SERVERS) and "--auto" not in flags,
        prompt=" ".join(map(quoted, rest)) if plain else None,
    )


def quoted(word: str) -> str:
    return '"' + word.replace('"', '\\"') + '"' if " " in word else word
