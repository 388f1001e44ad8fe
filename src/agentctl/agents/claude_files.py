"""Small readings of Claude Code's files: the words of its status, its folder names, its PID domain."""

from __future__ import annotations

import os

from agentctl.model import DONE, IDLE, INTERRUPTED, UNKNOWN, WAITING, WORKING
from agentctl.stores import read_bytes, real_path, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentctl.agents.claude_records import Tail

INITIAL_PID_NAMESPACE = "pid:[4026531836]"


def status_of(file: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """(turn, what it waits for, reason) from sessions/<pid>.json; turn None where it has no status."""
    status = file.get("status")
    if status == "busy":
        return WORKING, None, None
    if status == "waiting":
        return WAITING, text_or_none(file.get("waitingFor")) or "a person", None
    if status == "shell":
        return IDLE, None, "at its prompt; a background command still runs"
    if status == "idle":
        return IDLE, None, None
    return (None, None, None) if status is None else (UNKNOWN, None, f"its file says status {status!r}, unknown to us")


def refusal_words(tail: Tail) -> str:
    if tail.turn != DONE or not tail.refused:
        return ""
    return f"; {tail.refused} tool calls were refused" if tail.refused > 1 else "; 1 tool call was refused"


def ending_words(tail: Tail) -> str | None:
    if tail.turn not in (WORKING, INTERRUPTED) or tail.orderly is None:
        return None
    return "it still wrote its end marker" if tail.orderly else "without an end marker: killed hard, or crashed"


def written_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def children_in(subagents: list[str]) -> list[str]:
    return [
        name.removeprefix("agent-").removesuffix(".jsonl")
        for name in subagents
        if name.startswith("agent-") and name.endswith(".jsonl")
    ]


def slug(cwd: str) -> str:
    """The folder of a working directory, as Claude names it. Lossy, and hashed when long: a hint, never an identity."""
    return "".join(
        char if char.isascii() and char.isalnum() else "--" if ord(char) > 0xFFFF else "-"  # per UTF-16 code unit
        for char in real_path(cwd)
    )


def pid_domain() -> str:
    """This machine and PID namespace, as newer versions write it beside their pid."""
    try:
        machine = read_bytes("/etc/machine-id", 4096).decode("ascii", "replace").strip()
    except OSError:
        machine = ""
    try:
        return f"linux:{machine}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def is_elsewhere(theirs: str, ours: str) -> bool:
    """Is a process of their domain out of our sight? From the outermost namespace of a machine all its inner ones are
    seen. Equal domains prove nothing (cloned machines share their id), other ones do."""
    if theirs == ours:
        return False
    same_machine = theirs.split(":")[1:2] == ours.split(":")[1:2]
    return not (same_machine and ours.endswith(INITIAL_PID_NAMESPACE))


def reason_of(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "not valid JSON, also on a second look"
