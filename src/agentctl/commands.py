"""Other people's programs that are asked something: without a shell, without a terminal, and not for ever."""

from __future__ import annotations

import os

from agentctl.errors import AgentctlError, UsageError
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import Popen

TO_TIDY_UP = 5.0  # seconds between SIGTERM and SIGKILL: git takes its lock files away on the first


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
    """Raises Missing, TooSlow, and UsageError where there is no such directory."""
    import subprocess

    try:
        child = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
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
    with child:
        try:
            out, err = child.communicate(input or None, timeout=patience)
        except BaseException as error:
            end(child)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TooSlow(f"{argv[0]} has not answered in {patience:g} s") from None
            raise
    return Ran(child.returncode, out, err)


def end(child: Popen[bytes]) -> None:
    """It is not reaped before: nobody else can have its number, nor that of its group."""
    import signal
    import subprocess

    if child.returncode is None:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.communicate(timeout=TO_TIDY_UP)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(char for char in lines[-1] if char.isprintable())[:500] if lines else ""
