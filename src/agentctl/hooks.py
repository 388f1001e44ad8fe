"""Commands that people hang on a launch: on-create once its session is known, on-complete once that is gone.

A hook that fails is shown, and harms nobody: nothing here raises because of what a command did. on-complete runs at
most once: the mark comes first, so a hook whose runner was killed in between is lost, and never run twice.
"""

from __future__ import annotations

import json
import os
import stat
import time

from agentctl import stores
from agentctl.errors import AgentctlError
from agentctl.launches import exit_code
from agentctl.model import Value
from agentctl.private import sync_folder
from agentctl.stores import moment, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

ON_CREATE, ON_COMPLETE = "on-create", "on-complete"
COMPLETED, RESULTS = "completed", "hooks.jsonl"
TIME_LIMIT = 300.0
GRACE = 2.0  # between asking what is too late to end, and ending it
SHELL = "/bin/sh"
BY_SIGNAL = 128  # as a shell says it
LAST_BYTES, LAST_LINES = 4096, 5
RESULTS_LIMIT = 1024 * 1024
SESSION_FIELD = 3  # of /proc/<pid>/stat, behind the name: state, parent, group, session


class Facts(Value):
    """What a hook is told, as AGENTCTL_<NAME>. What is not known is an empty string."""

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
    """A hook of the past, as it was noted."""

    name: str
    exit_code: int | None
    timed_out: bool
    at: float | None
    last_lines: tuple[str, ...] = ()


def variables(facts: Facts) -> dict[str, str]:
    values = {**facts._asdict(), "adapter": facts.agent}
    return {f"AGENTCTL_{name.upper()}": "" if value is None else str(value) for name, value in values.items()}


def run(
    name: str,
    command: str,
    facts: Facts,
    log_path: str,
    cwd: str,
    seconds: float = TIME_LIMIT,
    env: Mapping[str, str] | None = None,
) -> HookResult:
    """Run a command in a session of its own, and wait for it. What it started in the background goes on, unless the
    time is up: then all that is in its session is ended."""
    import subprocess

    began = time.monotonic()
    log = open_log(log_path, f"--- {name} at {now()}\n")
    try:
        child = subprocess.Popen(
            [SHELL, "-c", command],
            cwd=cwd,
            env={**(os.environ if env is None else env), **variables(facts)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if log is None else log[0],
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        close(log)
        return HookResult(None, False, time.monotonic() - began, (f"{name} could not be run: {error}",))
    try:
        in_time = wait_for(child, seconds) or has_ended(child)
    finally:
        # Also when we are interrupted: it has no terminal of its own to be interrupted from.
        if child.returncode is None and not has_ended(child):
            end_session(child)
        code = reaped(child)
        said = last_lines(log)
        close(log)
    spent = time.monotonic() - began
    if not in_time:
        return HookResult(None, True, spent, (*said, f"{name} took longer than {seconds:g} s, and was ended"))
    return HookResult(code if code is None or code >= 0 else BY_SIGNAL - code, False, spent, said)


# Waiting and ending. Until it is reaped, nobody else can have the number of a process, its group or its session.


def wait_for(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Has it ended in time? It is not reaped where the kernel can tell otherwise."""
    if not hasattr(os, "pidfd_open"):
        from subprocess import TimeoutExpired

        try:
            child.wait(seconds)
        except TimeoutExpired:
            return False
        return True
    import select

    fd = os.pidfd_open(child.pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(fd)


def has_ended(child: subprocess.Popen[bytes]) -> bool:
    return wait_for(child, 0)


def end_session(child: subprocess.Popen[bytes]) -> None:
    """Its group is asked first. Then the group, and what a shell with job control put into other groups, is killed."""
    import signal

    if hasattr(os, "pidfd_open"):
        signal_group(child.pid, signal.SIGTERM)
        wait_for(child, GRACE)
    if child.returncode is None:
        signal_group(child.pid, signal.SIGKILL)
        for fd in session_members(child.pid):
            try:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            except ProcessLookupError:
                pass
    wait_for(child, GRACE)


def signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # nobody is left, or what is left took another identity
        pass


def session_members(session: int) -> Iterator[int]:
    """A pidfd of each process of a session, opened before it was looked at."""
    if not hasattr(os, "pidfd_open"):
        return
    for name in stores.names("/proc"):
        if not name.isdigit() or int(name) == session:
            continue
        try:
            fd = os.pidfd_open(int(name))
        except OSError:
            continue
        try:
            if session_of(name) == session:
                yield fd
        finally:
            os.close(fd)


def session_of(pid: str) -> int | None:
    try:
        fields = stores.read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return int(fields[SESSION_FIELD])
    except (OSError, ValueError, IndexError):
        return None


def reaped(child: subprocess.Popen[bytes]) -> int | None:
    """Its exit code; None if even the kernel could not end it: it is left to whoever adopts it."""
    return child.wait() if has_ended(child) or child.returncode is not None else None


# The log


def open_log(path: str, header: str) -> tuple[int, int] | None:
    """(descriptor, where the output of this run begins); None where there is no room for it: it runs all the same."""
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
    """Behind what was cut off in the middle of its line, on a line of its own."""
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
    """True for one caller, ever. Where no mark can be made, nobody may run it: an error."""
    path = os.path.join(folder, COMPLETED)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        sync_folder(folder)
    except FileExistsError:
        return False
    except OSError as error:
        said = f"{path}: {error.strerror}; without this mark {ON_COMPLETE} is not run: make room, and run it yourself"
        raise AgentctlError(said) from error
    return True


def note(folder: str, name: str, result: HookResult) -> bool:
    """One line, in one write. False: there was no room for it."""
    line = json.dumps({"name": name, **result._asdict(), "at": now()}).encode() + b"\n"
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
    """The hooks that were run for a launch, in that order."""
    try:
        lines = list(stores.lines_backward(os.path.join(folder, RESULTS), RESULTS_LIMIT))
    except OSError:
        return []
    return [parse(line) for line in map(stores.decode, reversed(lines)) if line is not None]


def parse(line: dict[str, object]) -> Ran:
    said = line.get("last_lines")
    return Ran(
        name=text_or_none(line.get("name")) or "?",
        exit_code=exit_code(line.get("exit_code")),
        timed_out=line.get("timed_out") is True,
        at=moment(line.get("at")),
        last_lines=tuple(word for word in said if isinstance(word, str)) if isinstance(said, list) else (),
    )


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
