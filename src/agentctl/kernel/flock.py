"""The kernel's lock on a file or a folder: free the moment that its holder ends, however it ends."""

from __future__ import annotations

import os
import time

from agentctl.errors import Refused, remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

PAUSE = 0.02


class Flock:
    """A lock with one holder at a time: with Flock(path, seconds): ... Raises Refused if it is not free in time.

    A program that is executed meanwhile does not inherit the descriptor. The holder removes the file with the lock, so
    a locked file counts only if it still has this name.
    """

    def __init__(self, path: str, patience: float, what: str = "") -> None:
        self._path = path
        self._patience = patience
        self._what = what or path
        self._fd = -1

    def __enter__(self) -> Self:
        deadline = time.monotonic() + self._patience
        while not self._try_or_refuse():
            if time.monotonic() >= deadline:
                raise Refused(f"{self._what}: {self._holder()} ({self._path}); try again in a moment")
            time.sleep(PAUSE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            os.unlink(self._path)
        except OSError:
            pass  # it may stay
        finally:
            os.close(self._fd)

    def is_there(self) -> bool:
        """Does the locked file still have its name? If not, another process can take a lock of this name."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path, follow_symlinks=False))
        except OSError:
            return False

    def _try_or_refuse(self) -> bool:
        try:
            return self._try()
        except OSError as error:
            why = f"cannot be locked: {error.strerror or error}"
            raise Refused(f"{self._path}: {why}; {remedy(error)}, or set AGENTCTL_HOME to another folder") from error

    def _try(self) -> bool:
        import fcntl

        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.stat(self._path, follow_symlinks=False)):
                self._fd, fd = fd, -1
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        finally:
            if fd >= 0:
                os.close(fd)
        return False

    def _holder(self) -> str:
        from agentctl.kernel import processes

        owners = processes.snapshot().lock_owners(self._path)
        pids = ", ".join(str(owner.pid) for owner in owners)
        return f"another agentctl is at it, pid {pids}" if pids else "another agentctl is at it"


class FolderLock:
    """with FolderLock(folder, seconds, shared=...): ... It writes nothing: it locks the folder itself, for one holder
    or for many that share it. Raises Refused if it is not free in time. It does nothing if the file system has no such
    locks (some network ones), or if there is no such folder."""

    def __init__(self, folder: str, patience: float, *, shared: bool) -> None:
        self._folder = folder
        self._patience = patience
        self._shared = shared
        self._fd = -1

    def __enter__(self) -> Self:
        import fcntl

        try:
            self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return self
        how = (fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        deadline = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(self._fd, how)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    self.__exit__(None, None, None)
                    raise Refused(
                        f"{self._folder}: another agentctl makes or removes worktrees; try again in a moment"
                    ) from None
                time.sleep(PAUSE)
                continue
            except OSError:
                pass
            return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
