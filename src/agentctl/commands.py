"""Other people's programs that are asked something: without a shell, without a terminal, and not for ever."""

from __future__ import annotations

import os

from agentctl.errors import AgentctlError, UsageError
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from subprocess import Popen
    from typing import IO, Any

TO_TIDY_UP = 5.0  # seconds between SIGTERM and SIGKILL: git takes its lock files away on the first
PAUSE = 0.05


class Missing(AgentctlError):
    """The program is not there, or cannot be run."""


class TooSlow(AgentctlError):
    """It has not ended in time, and was ended, with what it had started."""


class Ran(Value):
    code: int
    out: bytes
    err: bytes

    @property
    def said(self) -> str:
        """Its last word on stderr, fit to be shown."""
        return last_line(self.err.decode(errors="replace"))


def run(argv: Sequence[str], cwd: str, env: Mapping[str, str], patience: float, input: bytes = b"") -> Ran:
    """Raises Missing, TooSlow, and UsageError where there is no such directory. It is over when the program is: what it
    leaves running in the background may keep its output open."""
    with scratch() as out, scratch() as err:
        with begin(argv, cwd, env, out, err, feed=bool(input)) as child:
            supervise(child, argv[0], patience, input)
        return Ran(child.returncode, whole(out), whole(err))


def stream(argv: Sequence[str], cwd: str, env: Mapping[str, str], each: Callable[[bytes], object] | None = None) -> Ran:
    """The same, with its output straight to ours, or with `each` line of it: of any length, and as slowly as it is
    read."""
    import subprocess
    import sys

    sys.stdout.flush()
    with scratch() as err:
        with begin(argv, cwd, env, sys.stdout if each is None else subprocess.PIPE, err) as child:
            try:
                for line in child.stdout or ():
                    assert each is not None
                    each(line)
            except BaseException:
                end(child)
                raise
            supervise(child, argv[0], None)
        return Ran(child.returncode, b"", whole(err))


def begin(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], out: IO[Any] | int, err: IO[Any], *, feed: bool = False
) -> Popen[bytes]:
    import subprocess

    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        if error.filename == cwd:
            raise UsageError(f"{cwd}: no such directory") from None
        raise Missing(f"{argv[0]} is not in PATH") from None
    except OSError as error:
        raise Missing(f"{argv[0]} cannot be run: {error.strerror}") from error
    except ValueError as error:  # a NUL byte in a word
        raise UsageError(f"{argv[0]}: {error}") from error


def supervise(child: Popen[bytes], name: str, patience: float | None, input: bytes = b"") -> None:
    import subprocess

    try:
        child.communicate(input or None, timeout=patience)
    except BaseException as error:
        end(child)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TooSlow(f"{name} has not answered in {patience:g} s") from None
        raise


def scratch() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("output"), "w+b", buffering=0)
    from tempfile import TemporaryFile

    return TemporaryFile(buffering=0)


def whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def end(child: Popen[bytes]) -> None:
    """It is not reaped before the last signal: nobody else can have its number, nor that of its group."""
    import signal
    import time

    if child.returncode is not None:
        return
    signal_group(child, signal.SIGTERM)
    deadline = time.monotonic() + TO_TIDY_UP
    while not has_ended(child) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    time.sleep(PAUSE)  # what it had started was told at the same moment
    signal_group(child, signal.SIGKILL)


def signal_group(child: Popen[bytes], number: int) -> None:
    if child.returncode is None:
        try:
            os.killpg(child.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # only the dead are left in it


def has_ended(child: Popen[bytes]) -> bool:
    """It stays to be reaped, where the system lets us look without."""
    if not hasattr(os, "waitid"):
        return child.poll() is not None
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(char for char in lines[-1] if char.isprintable())[:500] if lines else ""
