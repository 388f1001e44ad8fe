"""Claude Code (measured: 2.1.197 and 2.1.325; judged by what its files hold, not by version).

Who is on what: `sessions/<pid>.json`, written by every running process before its first prompt, with its start ticks;
it follows /clear, but for older versions (cleared). What the turn is: `status` in that file where it has one, else the
transcript (observing).
Background sessions (`--bg`) have a daemon that brings dead workers back: `daemon.lock`, `daemon/roster.json`, `jobs/`.

Never done here: `claude agents --json` (it deletes the files of the dead), reading sessions/*.key, messaging sockets.
"""

from __future__ import annotations

import os

from agentctl.agents.base import STARTED_IN, Agent, before_text, home, script_of
from agentctl.kernel.programs import SCRIPTS, kind_of, script_in
from agentctl.model import (
    AGENT,
    CLIENT,
    DAEMON,
    HELPER,
    SPARE,
    WRAPPER,
    Details,
    Process,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentctl.agents.base import Store

NAME = "claude-code"

RUNTIMES = ("node", "bun")
SUBCOMMANDS = frozenset(
    "agents attach auth config doctor import install logs mcp plugin purge respawn rm setup-token stop update".split()
)
CONFIG_DIR = "CLAUDE_CONFIG_DIR"
# The role of a process by its first word.
ROLES = {
    **dict.fromkeys(("--bg-pty-host", "bg-pty-host"), WRAPPER),
    **dict.fromkeys(("--bg-spare", "bg-spare"), SPARE),
    **dict.fromkeys(("--version", "-v", "--help", "-h"), CLIENT),
    # Chrome keeps the first one, and the other is a tool server: neither registers, nor writes a transcript.
    **dict.fromkeys(("--chrome-native-host", "--claude-in-chrome-mcp"), HELPER),
}


def is_ours(argv: Sequence[str], exe: str) -> bool:
    if is_native(argv[0]) or argv[0] == "claude" or argv[0].startswith("claude bg-"):
        return True
    if is_native(exe) or "/claude/versions/" in exe:
        return True
    script = script_of(argv, RUNTIMES)
    return script is not None and is_script(script)


def is_script(path: str) -> bool:
    return "/@anthropic-ai/claude-code" in path or os.path.basename(path) == "claude"


def is_native(path: str) -> bool:
    return os.path.basename(path) in ("claude", "claude.exe") or "/claude/versions/" in path


def path_of(name: str) -> str:
    """Return the path that Claude Code makes of the name of its store."""
    path = os.path.normpath(name)
    if path.isascii():
        return path
    from unicodedata import normalize

    return normalize("NFC", path)


def role_of(words: Sequence[str]) -> str:
    """Return what a process of `claude` is for, by the words behind its name."""
    first = words[0] if words else ""
    if first == "daemon":
        return DAEMON if words[1:2] == ["run"] else CLIENT
    if first in ROLES:
        return ROLES[first]
    if first in SUBCOMMANDS or "--bg" in before_text(words):
        return CLIENT
    return HELPER if first == "--ripgrep" else AGENT


class ClaudeCode(Agent):
    NAME = NAME
    ALIASES = ("claude",)
    BINARIES = ("claude",)
    ENV = ("HOME", CONFIG_DIR, "CLAUDE_CODE_SESSION_ID", STARTED_IN)
    TOOL_ENV = "CLAUDE_CODE_SESSION_ID"
    CERTIFIED = ("2.1.118", "2.1.170", "2.1.197", "2.1.228", "2.1.285", "2.1.325", "2.1.326")
    BY_DIRECTORY = True  # it keeps no file of its store open
    WATCHES = True
    PACKAGES = ("@anthropic-ai/claude-code", "@anthropic-ai/claude-agent-sdk")

    def looks_like(self, comm: str) -> bool:
        # The native installer names the binary after its version; a Node build runs as node or MainThread.
        return (
            comm.startswith("claude") or comm in ("node", "bun", "MainThread") or (comm[:1].isdigit() and "." in comm)
        )

    def claims(self, process: Process, details: Details) -> str | None:
        argv = details.argv or ()
        if not argv or not is_ours(argv, details.exe or ""):
            return None
        if os.path.basename(argv[0]) == "rg":
            return HELPER  # the binary carries its own ripgrep
        words = argv[0].split()[1:] + list(argv[1:])
        if script_of(argv, RUNTIMES) is not None:
            words = words[1:]  # node, then the script
        return role_of(words)

    def executes(self, details: Details) -> bool:
        exe = details.exe or ""
        script = script_in(details.argv or ()) if kind_of(exe, None) == SCRIPTS else None
        return is_native(exe) or (script is not None and is_script(script))

    def is_named_in(self, argv: Sequence[str]) -> bool:
        return any(is_native(word) or is_script(word) for word in argv)

    def roots(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """An empty CLAUDE_CONFIG_DIR is to Claude Code the directory that it works in. It removes `..` from the text of
        a path, and composes its letters (NFC): in a HOME of decomposed ones it makes a second folder."""
        chosen, default = env.get(CONFIG_DIR), os.path.join(home(env), ".claude")
        names = (default,) if chosen is None else (chosen,) if chosen else ("", default)
        return tuple(path_of(name) for name in names)

    def is_store(self, root: str) -> bool:
        return any(os.path.isdir(f"{root}/{name}") for name in ("projects", "sessions"))

    def open_store(self, root: str) -> Store:
        from agentctl.agents.claude_code import store

        return store.Store(root)


ADAPTER = ClaudeCode()
