"""Commands that people hang on a launch: on-create once its session is known, on-complete once that is gone.

A hook that fails is shown, and harms nobody: nothing here raises because of what a command did. on-complete runs at
most once: the mark comes first, so a hook whose runner was killed in between is lost, and never run twice.
"""

from __future__ import annotations

import json
import os
import stat
import time

from agentctl.durations import utc
from agentctl.errors import AgentctlError, remedy
from agentctl.files import bounded
from agentctl.files.bounded import moment, text_or_none
from agentctl.files.private import sync_folder
from agentctl.launches.records import exit_code
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ON_CREATE, ON_COMPLETE = "on-create", "on-complete"
COMPLETED, RESULTS = "completed", "hooks.jsonl"
TIME_LIMIT = 300.0
GRACE = 2.0  # between asking what is too late to end, and ending it
SHELL = "/bin/sh"
BY_SIGNAL = 128  # as a shell says it
LAST_BYTES, LAST_LINES = 4096, 5
RESULTS_LIMIT = 1024 * 1024


class Facts(Value):
    """What a hook gets, as AGENTCTL_<NAME>. If a fact is not known, the variable is not set."""

    session_id: str | None = None
    cwd: str | None = None
    agent: str | None = None
    branch: str | None = None
    exit_code: int | None = None
    status: str | None = None
    group: str | None = None
    model: str | None = None
    launch: str | None = None
    slot: str | None = None
    worktree: str | None = None


class HookResult(Value):
    exit_code: int | None  # None: it was not run, or did not end by itself; 128 + the number of a signal
    timed_out: bool
    seconds: float
    last_lines: tuple[str, ...] = ()


class Ran(Value):
    """A hook that was run, as it was noted."""

    name: str
    exit_code: int | None
    timed_out: bool
    at: float | None
    last_lines: tuple[str, ...] = ()


def variables(facts: Facts, env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a hook. A fact that is not known is not in it, also not that of another hook, in which
    we may have been run: `rm -r $AGENTCTL_WORKTREE/build` must not mean /build, and `${X:?}` helps."""
    values = {f"AGENTCTL_{name.upper()}": value for name, value in {**facts._asdict(), "adapter": facts.agent}.items()}
    others = {name: value for name, value in env.items() if name not in values}
    return others | {name: str(value) for name, value in values.items() if value is not None}


def run(
    name: str,
    command: str,
    facts: Facts,
    log_path: str,
    cwd: str,
    seconds: float = TIME_LIMIT,
    env: Mapping[str, str] | None = None,
) -> HookResult:
    """Run a command in its own process session, and wait for it. What it started in the background goes on. If the time
    is up, everything in its session is ended."""
    from agentctl.kernel import commands

    began = time.monotonic()
    log = open_log(log_path, f"--- {name} at {utc(time.time())}\n")
    told = variables(facts, os.environ if env is None else env)
    try:
        with open(os.devnull, "wb") as nowhere:
            output = nowhere.fileno() if log is None else log[0]
            ran = commands.run([SHELL, "-c", command], standing(cwd), told, seconds, output=output, grace=GRACE)
        said = last_lines(log)
    except AgentctlError as error:
        return HookResult(None, False, time.monotonic() - began, (f"{name} could not be run: {error}",))
    finally:
        close(log)
    spent = time.monotonic() - began
    if ran.outcome == commands.TIMED_OUT:
        return HookResult(None, True, spent, (*said, f"{name} took longer than {seconds:g} s, and was ended"))
    if ran.outcome != commands.DONE:
        return HookResult(None, False, spent, (f"{name} could not be run: {ran.problem}",))
    return HookResult(ran.code if ran.code is None or ran.code >= 0 else BY_SIGNAL - ran.code, False, spent, said)


def standing(cwd: str) -> str:
    """Return the directory to run a hook in: `cwd`, or if that is gone the nearest folder above it that is there. Not
    one in a git repository: what a hook does to the work of its agent, it must not do to another's. Nor one that others
    can write to: a command may take programs and settings from where it runs."""
    folder = os.path.abspath(cwd)
    if os.path.lexists(folder):
        return cwd
    while (folder := os.path.dirname(folder)) != "/":
        try:
            found = os.stat(folder)
        except OSError:
            continue
        safe = found.st_uid in (0, os.geteuid()) and not found.st_mode & stat.S_IWOTH
        if safe and os.access(folder, os.X_OK) and not is_in_repository(folder):
            return folder
    return "/"


def is_in_repository(folder: str) -> bool:
    while folder != "/":
        if os.path.lexists(os.path.join(folder, ".git")):
            return True
        folder = os.path.dirname(folder)
    return os.path.lexists("/.git")


# The log


def open_log(path: str, header: str) -> tuple[int, int] | None:
    """Return a descriptor, and where the output of this run begins; None if there is no room for it: the hook runs
    anyway."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode):
            os.set_blocking(fd, True)  # the command gets this very description
            os.write(fd, own_line(fd, found.st_size, header.encode()))
            return fd, os.fstat(fd).st_size
    except OSError:
        pass
    os.close(fd)
    return None


def own_line(fd: int, size: int, line: bytes) -> bytes:
    """Return the line, after a line end if the output before it stops in the middle of a line."""
    return line if size == 0 or os.pread(fd, 1, size - 1) == b"\n" else b"\n" + line


def last_lines(log: tuple[int, int] | None) -> tuple[str, ...]:
    if log is None:
        return ()
    fd, start = log
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, LAST_BYTES, max(start, size - LAST_BYTES))
    except OSError:
        return ()
    lines = [line for line in data.decode(errors="replace").splitlines() if line.strip()]
    return tuple(lines[-LAST_LINES:])


def close(log: tuple[int, int] | None) -> None:
    if log is not None:
        os.close(log[0])


# At most once, and what became of it


def completed(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, COMPLETED))


def mark_completed(folder: str) -> bool:
    """Return True for one caller, ever. Raises an error if no mark can be made: then nobody may run the hook."""
    path = os.path.join(folder, COMPLETED)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        sync_folder(folder)
    except FileExistsError:
        return False
    except OSError as error:
        why = f"{error.strerror}; without this mark {ON_COMPLETE} is not run"
        said = f"{path}: {why}: {remedy(error)}, and run it yourself"
        raise AgentctlError(said) from error
    return True


def note(folder: str, name: str, result: HookResult) -> bool:
    """Append one line in one write. Return False if there was no room for it."""
    line = json.dumps({"name": name, **result._asdict(), "at": utc(time.time())}).encode() + b"\n"
    log = open_log(os.path.join(folder, RESULTS), "")
    if log is None:
        return False
    try:
        line = own_line(log[0], log[1], line)
        return os.write(log[0], line) == len(line)
    except OSError:
        return False
    finally:
        close(log)


def results(folder: str) -> list[Ran]:
    """Return the hooks that were run for a launch, in their order."""
    try:
        lines = list(bounded.lines_backward(os.path.join(folder, RESULTS), RESULTS_LIMIT))
    except OSError:
        return []
    return [parse(line) for line in map(bounded.decode, reversed(lines)) if line is not None]


def parse(line: dict[str, object]) -> Ran:
    said = line.get("last_lines")
    return Ran(
        name=text_or_none(line.get("name")) or "?",
        exit_code=exit_code(line.get("exit_code")),
        timed_out=line.get("timed_out") is True,
        at=moment(line.get("at")),
        last_lines=tuple(word for word in said if isinstance(word, str)) if isinstance(said, list) else (),
    )
