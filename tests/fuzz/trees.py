"""A folder of files that is damaged for one case and whole again for the next. The only part that writes."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.fuzz import mutations, sqlite_damage
from tests.fuzz.guard import GUARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

DATABASES = (".db", ".db-wal")
# Seconds since 1970: before it, at it, in ten thousand years, and where a signed 64 bit number ends.
TIMES = (-1e10, -1.0, 0.0, 1.0, 4e9, 1e11, 253402300800.0, 1e14, 9e15)


class Tree:
    """What stood in a folder when it was taken up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if is_plain(path)}
        self._times = {path: path.stat().st_mtime_ns for path in self.files}
        self._modes = {path: stat.S_IMODE(path.stat().st_mode) for path in self.files}
        self._folders = [path for path in sorted(folder.rglob("*")) if kind_of(path) == stat.S_IFDIR]
        self._all = self._names()
        self._changed: set[Path] = set()

    def _names(self) -> set[Path]:
        return {Path(entry.path) for entry in walk(self.folder)}

    def matching(self, *patterns: str) -> list[Path]:
        """The files that a pattern of a path below the folder names."""
        return [path for path in self.files if any(path.relative_to(self.folder).match(one) for one in patterns)]

    def damage(self, path: Path, rng: Random, others: Sequence[bytes], *, bytes_only: bool = False) -> str:
        """Damage one file in one way; what was done, for people."""
        self._changed.add(path)
        luck = 0.0 if bytes_only else rng.random()
        if luck < 0.80:
            data = self.files[path]
            if path.name.endswith(DATABASES):
                return f"{path.name}: {sqlite_damage.damage(path, data, rng)}"
            path.write_bytes(mutations.mutate(data, rng, others))
            return f"{path.name}: other bytes"
        if luck < 0.88:
            at = rng.choice(TIMES)
            with suppress(OSError, OverflowError):  # not every file system has every time
                os.utime(path, (at, at))
            return f"{path.name}: of the time {at}"
        if luck < 0.94:
            return f"{path.name}: {rng.choice(INSTEAD)(path, rng)}"
        return f"{path.name}: {self._rename(path, rng)}"

    def _rename(self, path: Path, rng: Random) -> str:
        """The file, a copy of it, or a copy of the folder that it is in, under a name that nobody expects."""
        name = rng.choice(mutations.NAMES)
        if rng.random() < 0.6:
            name = name[: 255 - len(path.suffix)] + os.fsencode(path.suffix)
        target = path.with_name(os.fsdecode(name))
        with suppress(OSError, shutil.Error):
            match rng.randrange(3):
                case 0:
                    path.rename(target)
                case 1:
                    shutil.copyfile(path, target)
                case 2 if self.folder not in (path.parent, path.parent.parent):
                    # As links: a link to the folder above would be followed without an end.
                    shutil.copytree(path.parent, path.parent.with_name(os.fsdecode(name)), symlinks=True)
        return f"as {name!r}"

    def state(self) -> dict[str, tuple[int, int, int]]:
        """Everything that a write would change. SQLite keeps files of its own beside a database that is read."""
        found = {}
        for entry in walk(self.folder):
            if not entry.name.endswith(("-shm", "-wal")):
                seen = entry.stat(follow_symlinks=False)
                folder = stat.S_ISDIR(seen.st_mode)
                found[entry.path] = (seen.st_mode, 0 if folder else seen.st_size, 0 if folder else seen.st_mtime_ns)
        return found

    def restore(self) -> None:
        for path in sorted(self._names() - self._all):
            remove(path)
        for path in self._folders:
            if kind_of(path) != stat.S_IFDIR:
                remove(path)
                path.mkdir()
        for path, data in self.files.items():
            if path in self._changed or not is_plain(path):
                remove(path)
                path.write_bytes(data)
                path.chmod(self._modes[path])
                os.utime(path, ns=(self._times[path], self._times[path]))
        self._changed.clear()

    @contextmanager
    def changing(self, path: Path, rng: Random) -> Iterator[str]:
        """While it is read, at some call that reads: shorter, longer, another file, gone."""
        self._changed.add(path)
        change = rng.choice(CHANGES)
        left = rng.choice((1, 1, 2, 2, 3, 5, 9))

        def after(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*words: Any, **named: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    with GUARD.paused(), suppress(OSError):
                        change(path, self.files[path])
                return real(*words, **named)

            return call

        with (
            mock.patch.object(os, "read", after(os.read)),
            mock.patch.object(os, "pread", after(os.pread)),
            mock.patch.object(os, "fstat", after(os.fstat)),
        ):
            yield f"{path.name}: {change.__name__} at read {left}"


def walk(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder, not through links."""
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from walk(entry.path)


def kind_of(path: Path) -> int:
    """Of what stands there itself; 0: nothing."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except OSError:  # no such name, or no way to it
        return 0


def is_plain(path: Path) -> bool:
    return kind_of(path) == stat.S_IFREG


def remove(path: Path) -> None:
    match kind_of(path):
        case 0:
            pass
        case stat.S_IFDIR:
            shutil.rmtree(path)
        case _:
            path.unlink()


# Something else where a file should be


def a_folder(path: Path, rng: Random) -> str:
    path.unlink()
    path.mkdir()
    return "a folder"


def a_pipe(path: Path, rng: Random) -> str:
    path.unlink()
    os.mkfifo(path)
    return "a FIFO"


def a_socket(path: Path, rng: Random) -> str:
    path.unlink()
    here = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:  # by a short path: that of a socket has 107 bytes
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{path.name[:60]}")
        (path.parent / path.name[:60]).rename(path)
    except OSError:
        pass
    finally:
        os.close(here)
    return "a socket"


def a_link(path: Path, rng: Random) -> str:
    path.unlink()
    target = rng.choice((path.name, "nowhere", "/dev/zero", "/dev/full", "..", "/proc/self/mem", "/", "a" * 3000))
    path.symlink_to(target)
    return f"a link to {target}"


def nothing(path: Path, rng: Random) -> str:
    path.unlink()
    return "gone"


def a_file_for_its_folder(path: Path, rng: Random) -> str:
    remove(path.parent)
    path.parent.write_bytes(b"{}")
    return "its folder is a file"


def a_loop_for_its_folder(path: Path, rng: Random) -> str:
    remove(path.parent)
    path.parent.symlink_to(path.parent.name)
    return "its folder is a link to itself"


INSTEAD: tuple[Callable[[Path, Random], str], ...] = (
    a_folder,
    a_pipe,
    a_socket,
    a_link,
    a_link,
    nothing,
    a_file_for_its_folder,
    a_loop_for_its_folder,
)

# What happens to a file while it is read


def half_is_cut_off(path: Path, data: bytes) -> None:
    os.truncate(path, len(data) // 2)


def all_is_cut_off(path: Path, data: bytes) -> None:
    os.truncate(path, 0)


def it_grows(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data[-5000:] + b'{"type":')


def it_is_written_over(path: Path, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.write(b"\0" * (len(data) // 3))


def it_is_replaced(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data[: len(data) // 3])


def it_is_removed(path: Path, data: bytes) -> None:
    path.unlink()


CHANGES: tuple[Callable[[Path, bytes], None], ...] = (
    half_is_cut_off,
    all_is_cut_off,
    it_grows,
    it_is_written_over,
    it_is_replaced,
    it_is_removed,
)
