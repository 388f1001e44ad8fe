"""Small parts of Claude Code's files: the words of its status, its folder names, its PID domain."""

from __future__ import annotations

import os

from agentctl.agents.base import refused_calls
from agentctl.agents.claude_code.adapter import CONFIG_DIR, path_of
from agentctl.files.bounded import decode, grain_of, read_bytes, real_path, text_or_none, whole_number
from agentctl.files.reader import NOT_JSON
from agentctl.model import DETAIL, DONE, IDLE, INTERRUPTED, UNKNOWN, WAITING, WORKING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentctl.agents.claude_code.records import Tail
    from agentctl.files.reader import Reader


ASKING_TOOL = "AskUserQuestion"  # does nothing but wait for an answer
SHELLS = ("bash", "zsh", "sh", "dash", "ash", "ksh")
BACKGROUND = "background command still runs"
STARTING = 60.0  # seconds after which a process does not start any more
SCREEN = "cli"  # the entrypoint of a process with a screen


def status_of(file: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Return turn, what it waits for, and reason, from sessions/<pid>.json; turn is None if the file has no status."""
    status = file.get("status")
    if status == "busy":
        return WORKING, None, None
    if status == "waiting":
        return WAITING, text_or_none(file.get("waitingFor")) or "a person", None
    if status == "shell":
        return IDLE, None, f"at its prompt; a {BACKGROUND}"
    if status == "idle":
        return IDLE, None, None
    return (None, None, None) if status is None else (UNKNOWN, None, f"its file says status {status!r}, unknown to us")


def why_unregistered(started_at: float, now: float) -> str:
    """Return why a process of a version that registers may have no file."""
    is_young = now - started_at < STARTING
    begins = "starting, at a dialog before its first session" if is_young else "at a dialog, on no session"
    return f"not registered with a session ({begins}, or ending)"


def may_be_behind(file: dict[str, Any]) -> bool:
    """Return whether this may be the file of a version that does not renew it at /clear (cleared.py). All that give a
    status or a name do."""
    return "status" not in file and "name" not in file and file.get("kind") != "bg"


def store_in_settings(root: str, reader: Reader) -> tuple[str, ...]:
    """Return the store that the settings in this one name: its processes then use that one, and not this one. Those of
    a project cannot (measured)."""
    path = f"{root}/settings.json"
    data = reader.bytes(path, DETAIL) or b""
    if CONFIG_DIR.encode() not in data:
        return ()
    settings = decode(data)
    if settings is None:
        reader.note(path, NOT_JSON, DETAIL)
        return ()
    chosen = settings.get("env")
    named = chosen.get(CONFIG_DIR) if isinstance(chosen, dict) else None
    return (path_of(named),) if isinstance(named, str) and "\0" not in named else ()


def key_in(file: dict[str, Any] | None) -> tuple[int, int] | None:
    """Return pid and start that a file of its daemon names."""
    pid, start = whole_number((file or {}).get("pid")), whole_number((file or {}).get("procStart"))
    return (pid, start) if pid is not None and pid > 0 and start is not None else None


def ticks_in(value: object) -> int | None:
    """Return the start of a process in clock ticks, from its file: a number, or a string of digits."""
    return whole_number(int(value)) if isinstance(value, float) and value.is_integer() else whole_number(value)


def is_in_ticks(value: object) -> bool:
    """Return whether this is how every known version writes the start of its process: the clock ticks as a string."""
    return isinstance(value, str) and whole_number(value) is not None


def refusal_words(tail: Tail) -> str:
    if tail.turn != DONE or not tail.refused:
        return ""
    return f"; {refused_calls(tail.refused)}"


def ending_words(tail: Tail) -> str | None:
    if tail.turn not in (WORKING, INTERRUPTED) or tail.orderly is None:
        return None
    return "it still wrote its end marker" if tail.orderly else "without an end marker: killed hard, or crashed"


def written_since(path: str, moment: float) -> bool:
    """Return whether a file may have been written at or after a moment."""
    written = written_at(path)
    return written + grain_of(written) >= moment


def written_at(path: str) -> float:
    """Return when a transcript was written. If that cannot be read, it may be the newest: then it is the one to read,
    and nothing is said from an older copy."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return float("inf")


def children_in(subagents: list[str]) -> list[str]:
    return [
        name.removeprefix("agent-").removesuffix(".jsonl")
        for name in subagents
        if name.startswith("agent-") and name.endswith(".jsonl")
    ]


def slug(cwd: str) -> str:
    """Return the folder of a working directory, as Claude names it. It is lossy: a hint, never an identity."""
    return slug_of(real_path(cwd))


def slug_of(path: str) -> str:
    """Return the same for a path that is real where Claude runs."""
    return "".join(
        char if char.isascii() and char.isalnum() else "--" if ord(char) > 0xFFFF else "-"  # per UTF-16 code unit
        for char in path
    )


def pid_domain() -> str:
    """Return this machine and PID namespace, as newer versions write them beside their pid."""
    try:
        machine = read_bytes("/etc/machine-id", 4096).decode("ascii", "replace").strip()
    except OSError:
        machine = ""
    try:
        return f"linux:{machine}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def namespace_in(domain: str) -> str:
    """Return the PID namespace that a domain names."""
    return ":".join(domain.split(":")[2:])


def is_same_machine(theirs: str, ours: str) -> bool:
    """Return whether two domains name one machine. Different ones prove that a process is elsewhere; equal ones prove
    nothing (cloned machines share their id)."""
    return theirs.split(":")[1:2] == ours.split(":")[1:2]
