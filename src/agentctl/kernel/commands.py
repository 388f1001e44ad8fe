"""Run another program: without a shell, without a terminal, with a limit on its time and on its output.

`run` returns a value for everything that can happen to a program; it raises only for what the caller got wrong (a
directory that does not exist, a NUL byte in a word). The program leads its own POSIX session, so that all it started
can be ended with it.
"""

from __future__ import annotations

import os
import time

from agentctl.errors import UsageError
from agentctl.files import bounded
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from select import poll
    from subprocess import Popen
    from typing import IO, Any

DONE, NOT_FOUND, NOT_RUNNABLE, TIMED_OUT, TOO_LONG = "done", "not found", "not runnable", "timed out", "too long"
OUTPUT_LIMIT = 256 * 1024 * 1024  # bytes of stdout, and of stderr
GRACE = 5.0  # seconds between SIGTERM and SIGKILL: git removes its lock files on the first
PAUSE = 0.05
SIZE_CHECK = 0.1  # seconds between two looks at the size of the output
PIPE_SIZE = 64 * 1024
SESSION_FIELD = 3  # of /proc/<pid>/stat, behind the name: state, parent, group, session


class Ran(Value):
    """What became of a program."""

    code: int | None  # its exit code, or minus the number of the signal that ended it; None unless `outcome` is DONE
    out: bytes = b""
    err: bytes = b""
    outcome: str = DONE
    problem: str = ""  # for people: what went wrong, unless `outcome` is DONE

    @property
    def said(self) -> str:
        """Return the last line of its stderr, safe to show."""
        return last_line(self.err.decode(errors="replace"))


def run(
    argv: Sequence[str],
    cwd: str | None,
    env: Mapping[str, str],
    patience: float,
    input: bytes = b"",
    *,
    output: int | None = None,
    limit: int = OUTPUT_LIMIT,
    grace: float | None = None,
) -> Ran:
    """Run a program and wait until it ends, but not for what it leaves running in the background. If it takes longer
    than `patience` or prints more than `limit` bytes, end it with everything in its session. With `output`, stdout and
    stderr go to that descriptor, without a limit. Raises UsageError if there is no such directory."""
    with scratch() as out, scratch() as err:
        to = (out, err) if output is None else (output, output)
        child = begin(argv, cwd, env, *to, feed=bool(input))
        if isinstance(child, Ran):
            return child
        try:
            outcome = supervise(child, patience, limit, (out, err), input)
        finally:  # also if we are interrupted: it has no terminal from which it could be interrupted
            if child.stdin is not None:
                child.stdin.close()
            ended = has_ended(child) or end(child, grace)
            code = child.wait() if ended else None  # None: even SIGKILL did not end it
        if outcome == TIMED_OUT:
            return Ran(None, outcome=TIMED_OUT, problem=f"{argv[0]} has not answered in {patience:g} s")
        if outcome == TOO_LONG:
            return Ran(None, outcome=TOO_LONG, problem=f"{argv[0]} printed more than {limit} bytes")
        return Ran(code, content(out), content(err))


def folders_of_path(env: Mapping[str, str]) -> list[str]:
    """Return the folders in which a program is looked for. An empty or relative one means the directory of the person:
    what an agent put into the directory that a command works on is not run because of it."""
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    if all(map(os.path.isabs, folders)):
        return folders
    try:
        here = os.getcwd()
    except FileNotFoundError:
        return [folder for folder in folders if os.path.isabs(folder)]
    return [os.path.normpath(os.path.join(here, folder)) for folder in folders]


def stream(argv: Sequence[str], cwd: str, env: Mapping[str, str], each: Callable[[bytes], object] | None = None) -> Ran:
    """Run a program with its stdout as ours, or call `each` with every line of it. There is no limit: it may print as
    much, and we may read as slowly, as we like. Ran.out is empty."""
    import subprocess
    import sys

    sys.stdout.flush()
    with scratch() as err:
        child = begin(argv, cwd, env, sys.stdout if each is None else subprocess.PIPE, err)
        if isinstance(child, Ran):
            return child
        with child:
            try:
                for line in child.stdout or ():
                    assert each is not None
                    each(line)
                child.wait()
            except BaseException:
                end(child)
                raise
        return Ran(child.returncode, b"", content(err))


def begin(
    argv: Sequence[str],
    cwd: str | None,
    env: Mapping[str, str],
    out: IO[Any] | int,
    err: IO[Any] | int,
    *,
    feed: bool = False,
) -> Popen[bytes] | Ran:
    """Start a program in its own session; return why not if it cannot be started."""
    import subprocess

    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env={**env, "PATH": os.pathsep.join(folders_of_path(env))},
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        if cwd is not None and error.filename == cwd:
            raise UsageError(f"{cwd}: no such directory") from None
        return Ran(None, outcome=NOT_FOUND, problem=f"{argv[0]} is not in PATH")
    except OSError as error:
        return Ran(None, outcome=NOT_RUNNABLE, problem=f"{argv[0]} cannot be run: {error.strerror}")
    except ValueError as error:  # a NUL byte in a word
        raise UsageError(f"{argv[0]}: {error}") from error


def supervise(
    child: Popen[bytes], patience: float, limit: int, files: tuple[IO[bytes], IO[bytes]], input: bytes
) -> str:
    """Give a program its input and wait: DONE if it ended, else TIMED_OUT or TOO_LONG."""
    import select

    deadline = time.monotonic() + patience
    events = select.poll()
    exits = watch_exit(child, events)
    if child.stdin is not None:
        os.set_blocking(child.stdin.fileno(), False)
        events.register(child.stdin, select.POLLOUT)
    try:
        while not has_ended(child):
            left = deadline - time.monotonic()
            if left <= 0:
                return TIMED_OUT
            if any(os.fstat(file.fileno()).st_size > limit for file in files):
                return TOO_LONG
            ready = events.poll(min(left, PAUSE if exits is None else SIZE_CHECK) * 1000)
            if child.stdin is not None and any(fd == child.stdin.fileno() for fd, _ in ready):
                input = feed(child.stdin, input)
                if not input:
                    events.unregister(child.stdin)
                    child.stdin.close()
                    child.stdin = None
    finally:
        if exits is not None:
            os.close(exits)
    return TOO_LONG if any(os.fstat(file.fileno()).st_size > limit for file in files) else DONE


def watch_exit(child: Popen[bytes], events: poll) -> int | None:
    """Let `events` report the end of a program, if the system can; return the descriptor."""
    import select

    try:
        exits = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # macOS, an old kernel, no descriptor left
        return None
    events.register(exits, select.POLLIN)
    return exits


def feed(pipe: IO[bytes], data: bytes) -> bytes:
    """Write what the pipe takes now; return the rest, which is nothing if the program has closed its stdin."""
    try:
        return data[os.write(pipe.fileno(), data[:PIPE_SIZE]) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return b""


def scratch() -> IO[bytes]:
    """Return an empty file without a name. Unlike a pipe it has no end that a background process could hold open."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("output"), "w+b", buffering=0)
    from tempfile import TemporaryFile

    return TemporaryFile(buffering=0)


def content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


# Ending it. Until a process is reaped, no other can have its number, nor that of its group and its session.


def end(child: Popen[bytes], grace: float | None = None) -> bool:
    """Ask the group of a program to end, then kill everything in its session. Return whether it has ended."""
    import signal

    if child.returncode is not None:
        return True
    grace = GRACE if grace is None else grace
    signal_group(child, signal.SIGTERM)
    wait_for(child, grace)
    time.sleep(PAUSE)  # what it had started got the signal at the same moment
    signal_group(child, signal.SIGKILL)
    for fd in session_members(child.pid) if child.returncode is None else ():
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except OSError:  # it has ended, or is not ours to signal
            pass
    return wait_for(child, grace)


def wait_for(child: Popen[bytes], seconds: float) -> bool:
    """Wait, and return whether it has ended in time."""
    deadline = time.monotonic() + seconds
    while not (ended := has_ended(child)) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return ended


def has_ended(child: Popen[bytes]) -> bool:
    """Return whether it has ended. It is not reaped if the system can tell without that."""
    if child.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return child.poll() is not None
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def signal_group(child: Popen[bytes], number: int) -> None:
    if child.returncode is None:
        try:
            os.killpg(child.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # only dead processes are left in it, or those that took another identity


def session_members(session: int) -> Iterator[int]:
    """Yield a pidfd of each other process in a session, opened before the process was looked at. They may be in other
    groups: a shell with job control puts there what it starts."""
    if not hasattr(os, "pidfd_open"):
        return
    for name in bounded.names("/proc"):
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
        fields = bounded.read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return int(fields[SESSION_FIELD])
    except (OSError, ValueError, IndexError):
        return None


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(char for char in lines[-1] if char.isprintable())[:500] if lines else ""
