"""Codex (measured: 0.166.0).

Who is on what: the kernel's list of flock owners of `thread-writer-locks/<thread>.lock`, held by the one process that
owns a thread from its creation to its end; a client (the default TUI) holds none. What the turn is: the daemon's own
answer where it holds the thread, else the rollout.

Never done here: trying the lock (even a shared try makes a real `codex exec resume` fail), opening its databases,
believing a daemon about threads it has not loaded.
"""

from __future__ import annotations

import os

from agentctl.agents.base import STARTED_IN, Agent, home, script_of
from agentctl.model import (
    AGENT,
    CLIENT,
    DAEMON,
    HELPER,
    WRAPPER,
    Details,
    Process,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentctl.agents.base import Store

NAME = "codex"

# Words that take a value, so that the value is not taken for a command or a prompt.
VALUE_FLAGS = frozenset(
    "-c --config -m --model -p --profile -s --sandbox -a --ask-for-approval -C --cd -i --image --enable --disable "
    "--add-dir --oss-provider --local-provider --remote".split()
)
LOCKS = "thread-writer-locks"
TOOLS = ("apply_patch", "applypatch", "codex-linux-sandbox", "codex-execve-wrapper", "codex-responses-api-proxy")
SHORT_TOOLS = tuple(name[:15] for name in TOOLS)  # as the kernel cuts the name of a process
RELEASES = ("-musl", "-gnu", "-gnueabihf", "-darwin")  # how the names of machines end
SESSION_COMMANDS = frozenset("exec e resume fork review".split())
OTHER_COMMANDS = frozenset(
    "login logout mcp mcp-server plugin completion update doctor sandbox debug execpolicy apply archive unarchive "
    "delete cloud features agents help queue remote-control".split()
)


def command_of(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The subcommand among the words after `codex`, and what follows it. A prompt is not a subcommand."""
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            break  # what follows is a prompt
        if word in VALUE_FLAGS:
            index += 2
        elif word.startswith("-") and word != "-":
            index += 1
        else:
            known = word in SESSION_COMMANDS or word in OTHER_COMMANDS or word == "app-server"
            return (word if known else None), list(words[index + 1 :])
    return None, []


def role_of(argv: Sequence[str]) -> str:
    """Return what a process of `codex` is for, by its arguments."""
    command, rest = command_of(argv[1:])
    if command == "app-server":
        if rest[:1] == ["daemon"]:
            return HELPER if rest[1:2] == ["pid-update-loop"] else CLIENT
        return CLIENT if rest[:1] == ["proxy"] else DAEMON
    return CLIENT if command in OTHER_COMMANDS or argv[1:2] in (("--version",), ("-V",), ("--help",)) else AGENT


def is_codex(name: str) -> bool:
    """Return whether a program of this name is Codex itself: `codex`, or as its releases call it, with the machine
    that it is for (codex-x86_64-unknown-linux-musl). Its helpers are called codex-something, too."""
    return name == "codex" or (name.startswith("codex-") and name.endswith(RELEASES))


class Codex(Agent):
    NAME = NAME
    BINARIES = ("codex",)
    ENV = ("HOME", "CODEX_HOME", "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID", STARTED_IN)
    TOOL_ENV = "CODEX_THREAD_ID"
    CERTIFIED = ("0.130.0", "0.140.0", "0.146.0", "0.150.1", "0.157.0", "0.164.0", "0.166.0", "0.169.0")
    # RUNS_MANY stays False: its daemon does, and says which by their locks
    KEEPS_OPEN = True

    def looks_like(self, comm: str) -> bool:
        return comm.startswith("codex") or comm in ("node", "MainThread")

    def claims(self, process: Process, details: Details) -> str | None:
        argv = details.argv or ()
        if (script := script_of(argv)) is not None:
            ours = os.path.basename(script) == "codex" or "/@openai/codex/" in script
            return WRAPPER if ours else None
        program, runs = os.path.basename(argv[0]) if argv else "", os.path.basename(details.exe or "")
        if is_codex(program):
            return role_of(argv)
        if program in TOOLS or process.comm in SHORT_TOOLS:
            return HELPER if runs.startswith("codex") else None
        # Through a link, or under a name of its own. Any codex-NAME may be Codex: people call their builds so.
        return role_of(argv) if (runs == "codex" or runs.startswith("codex-")) and argv else None

    def executes(self, details: Details) -> bool:
        return os.path.basename(details.exe or "").startswith("codex")

    def roots(self, env: Mapping[str, str]) -> tuple[str, ...]:
        return (env.get("CODEX_HOME") or os.path.join(home(env), ".codex"),)

    def store_with(self, path: str, env: Mapping[str, str]) -> str | None:
        """By a writer lock, or by a rollout, of which older versions have no lock. Its databases may be elsewhere."""
        parts = path.split("/")
        if len(parts) > 3 and parts[-2] == LOCKS and lock_of(parts[-1]):
            return "/".join(parts[:-2])
        is_rollout = parts[-1].startswith("rollout-") and parts[-1].endswith(".jsonl")
        return "/".join(parts[:-5]) if len(parts) > 6 and is_rollout and parts[-5] == "sessions" else None

    def open_store(self, root: str) -> Store:
        from agentctl.agents.codex import store

        return store.Store(root)


def lock_of(name: str) -> str | None:
    """Return the thread that a writer lock of this name is of."""
    return name.removesuffix(".lock") if name.endswith(".lock") and not name.startswith(".") else None


def may_be_client(argv: Sequence[str]) -> bool:
    """Return whether a process with these arguments leaves its threads to a daemon, if there is one."""
    if command_of(argv[1:])[0] in ("exec", "e", "review"):
        return False
    return not any(word in ("--no-daemon", "-c", "--config") or word.startswith("--config=") for word in argv)


ADAPTER = Codex()


def is_empty(path: str) -> bool:
    try:
        return os.stat(path).st_size == 0
    except OSError:
        return False
