"""Lets the system start the daemon at login: a systemd user unit on Linux, a LaunchAgent on macOS.

agentctl only writes and removes the file; what a person then runs is printed. `text_of` is pure.
"""

from __future__ import annotations

import os
import sys

from agentctl.errors import AgentctlError, NotFound, Refused, remedy
from agentctl.files.private import replace_file
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNIT = "agentctl.service"
LABEL = "dev.agentctl.daemon"
MARK = "Written by `agentctl daemon install`; `agentctl daemon uninstall` removes it."
MARK_KEY = "AgentctlOwner"  # of a property list, which has no comments
LONGEST = 64 * 1024
# What decides which programs, state folder and stores the daemon uses. Nothing else of an environment: it may hold
# secrets.
HANDED_ON = ("PATH", "AGENTCTL_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")


class Unit(Value):
    path: str
    after_install: tuple[str, ...]  # commands for a person to run
    before_uninstall: tuple[str, ...]


def unit_of(env: Mapping[str, str], platform: str = sys.platform) -> Unit:
    """Return where the unit goes. Raises AgentctlError on other systems."""
    home = env.get("HOME") or os.path.expanduser("~")
    if platform == "linux":
        base = env.get("XDG_CONFIG_HOME", "")
        base = base if os.path.isabs(base) else os.path.join(home, ".config")
        path = os.path.join(base, "systemd", "user", UNIT)
        return Unit(
            path,
            ("systemctl --user daemon-reload", f"systemctl --user enable --now {UNIT}"),
            (f"systemctl --user stop {UNIT}", "systemctl --user daemon-reload"),
        )
    if platform == "darwin":
        path = os.path.join(home, "Library", "LaunchAgents", f"{LABEL}.plist")
        return Unit(path, (f"launchctl bootstrap gui/$(id -u) {path}",), (f"launchctl bootout gui/$(id -u)/{LABEL}",))
    raise AgentctlError(f"agentctl knows no way to start a daemon at login on {platform}; run `agentctl daemon start`")


def text_of(env: Mapping[str, str], command: Sequence[str], platform: str = sys.platform) -> bytes:
    """Return what the file says. Only the daemon's own process is ended: agents that it launched go on."""
    words = [*command, "daemon", "run"]
    handed = {name: env[name] for name in HANDED_ON if env.get(name)}
    if platform == "darwin":
        import plistlib

        return plistlib.dumps(
            {
                MARK_KEY: MARK,
                "Label": LABEL,
                "ProgramArguments": words,
                "EnvironmentVariables": handed,
                "RunAtLoad": True,
                "KeepAlive": {"SuccessfulExit": False},
                "AbandonProcessGroup": True,
            }
        )
    lines = [
        f"# {MARK}",
        "[Unit]",
        "Description=agentctl: records what coding agents do, and serves it on a Unix socket",
        "",
        "[Service]",
        f"ExecStart={' '.join(map(quoted, words))}",
        *(f"Environment={quoted(f'{name}={value}', dollar='$')}" for name, value in handed.items()),
        "Restart=on-failure",
        "RestartSec=5",
        "# Agents that were launched through the daemon go on without it.",
        "KillMode=process",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    return "\n".join(lines).encode(errors="surrogateescape")


def quoted(word: str, dollar: str = "$$") -> str:
    """Return a word as systemd reads it back: no specifier, no variable, no end of a line. Raises Refused."""
    if any(ord(char) < 32 or ord(char) == 127 for char in word):
        raise Refused(f"{word!r}: a unit file cannot have a control character; use another path")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", dollar)
    return f'"{escaped}"'


def is_ours(data: bytes) -> bool:
    return MARK.encode() in data


def install(env: Mapping[str, str], command: Sequence[str]) -> Unit:
    """Write the unit. Raises Refused if there is one that is not ours."""
    unit, text = unit_of(env), text_of(env, command)
    there = contents(unit.path)
    if there is not None and not is_ours(there):
        raise Refused(f"{unit.path}: agentctl did not write this file; move it away first")
    try:
        os.makedirs(os.path.dirname(unit.path), exist_ok=True)
        replace_file(unit.path, text)
    except OSError as error:
        raise AgentctlError(f"{unit.path}: {error.strerror or error}; {remedy(error)}") from error
    return unit


def uninstall(env: Mapping[str, str]) -> Unit:
    """Remove the unit. Raises NotFound if there is none, and Refused if it is not ours."""
    unit = unit_of(env)
    there = contents(unit.path)
    if there is None:
        raise NotFound(f"{unit.path}: there is no such file; nothing was installed")
    if not is_ours(there):
        raise Refused(f"{unit.path}: agentctl did not write this file, so it stays; remove it yourself")
    enabled = os.path.join(os.path.dirname(unit.path), "default.target.wants", UNIT)
    if os.path.islink(enabled) and os.path.realpath(enabled) == os.path.realpath(unit.path):
        os.unlink(enabled)  # `systemctl disable` needs the unit to be there
    os.unlink(unit.path)
    return unit


def contents(path: str) -> bytes | None:
    """Return what a file has; None if there is none. Whatever is no plain file is not ours."""
    try:
        if os.path.islink(path) or not os.path.isfile(path):
            os.lstat(path)
            return b""
        with open(path, "rb") as file:
            return file.read(LONGEST)
    except FileNotFoundError:
        return None
