"""Launch folders end by themselves: some time after the last process of the launch ended, whatever command runs next
takes them away. Never one with a live process, nor one whose worktree is there: its record says whose work that is."""

from __future__ import annotations

import os

from agentctl import config
from agentctl.durations import span
from agentctl.files.private import not_ours
from agentctl.launches.records import (
    EXITS,
    LAUNCH,
    MARKER,
    OUTPUT,
    exits_in,
    is_id,
    launches_folder,
    made_at,
    read_folder,
)
from agentctl.model import Launch, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentctl.kernel.processes import Processes

RETENTION = 7 * 24 * 3600.0
OUTPUT_LIMIT = 100 * 1024 * 1024
HALF_MADE = 3600.0  # a folder that never became a launch
MOST = 20
REMOVING = ".removing-"
SWEPT, EVERY = ".swept", 3600.0  # a launch that lives for weeks is not looked at by every command
HEAD_KEPT = 1024 * 1024
BLOCK = 512  # the unit of st_blocks
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2


class Swept(Value):
    removed: tuple[str, ...] = ()
    trimmed: tuple[str, ...] = ()
    left: int = 0  # could go, too: next time
    kept: tuple[tuple[str, str], ...] = ()  # (launch id, why it stays)


def sweep_as_configured(
    env: Mapping[str, str], processes: Processes, now: float, most: int = MOST, *, dry_run: bool = False
) -> Swept:
    """Sweep with the limits of the person's configuration, or with the defaults above."""
    keep, limit = config.retention(env), config.output_limit(env)
    return sweep(
        env,
        processes,
        now,
        RETENTION if keep is None else keep,
        most,
        output_limit=OUTPUT_LIMIT if limit is None else limit,
        dry_run=dry_run,
    )


def is_due(env: Mapping[str, str], now: float, retention: float = RETENTION) -> bool:
    """Return whether a sweep could find anything, and the last one was long enough ago. Cheap: every command asks
    this."""
    folder = launches_folder(env)
    try:
        names = os.listdir(folder)
        oldest = min((made_at(name) for name in names if is_id(name)), default=now)
        if oldest >= now - retention and not any(name.startswith(REMOVING) for name in names):
            return False
        last = os.stat(os.path.join(folder, SWEPT)).st_mtime
    except FileNotFoundError:
        return os.path.isdir(folder)
    except OSError:
        return False
    return not now - EVERY < last <= now


def note_sweep(env: Mapping[str, str]) -> None:
    path = os.path.join(launches_folder(env), SWEPT)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.utime(path)
    except OSError:
        pass  # then it is done again by the next command


def sweep(
    env: Mapping[str, str],
    processes: Processes,
    now: float,
    retention: float = RETENTION,
    most: int = MOST,
    *,
    output_limit: int | None = None,
    dry_run: bool = False,
) -> Swept:
    """Remove the launches that are over for long enough. Others may sweep at the same time: each folder is first
    renamed, so nobody sees half of one."""
    if MARKER not in processes.env_names:
        raise ValueError(f"a process table that was read without {MARKER} cannot say what descends from a launch")
    folder = launches_folder(env)
    try:
        names = sorted(os.listdir(folder))
        if not_ours(folder) is not None:
            return Swept()
    except OSError:
        return Swept()
    if not dry_run:
        for name in [name for name in names if name.startswith(REMOVING)][:most]:
            remove_tree(os.path.join(folder, name))  # the sweeper that began it was killed
    removed: list[str] = []
    trimmed: list[str] = []
    kept: list[tuple[str, str]] = []
    left = 0
    markers: dict[str, int] | None = None
    for id in filter(is_id, names):
        path = os.path.join(folder, id)
        if output_limit is not None and trim(os.path.join(path, OUTPUT), output_limit, dry_run=dry_run):
            trimmed.append(id)
        if (why := why_kept(id, path, processes, now, retention)) is not None:
            kept.append((id, why))
            continue
        if len(removed) == most:
            left += 1
            continue
        if markers is None:
            markers = dict(carried(processes))
        if id in markers:
            kept.append((id, f"pid {markers[id]} descends from it"))
        elif dry_run or take_away(folder, id):
            removed.append(id)
        elif os.path.lexists(path):
            kept.append((id, "it cannot be moved"))
    return Swept(tuple(removed), tuple(trimmed), left, tuple(kept))


def why_kept(id: str, path: str, processes: Processes, now: float, retention: float) -> str | None:
    """Return why a launch stays; None if all its processes are proved to have ended, long enough ago."""
    launch = read_folder(id, path)
    if not isinstance(launch, Launch):  # one that never was, or a file that is damaged
        age, what = (HALF_MADE, "never became a launch") if launch is None else (retention, "its record is damaged")
        if (since := now - last_written(path)) <= age:
            return f"{what}; {too_young(since, age)}"
        return "its output is in use" if is_in_use(path) else None
    ended = exits_in(path, launch.pid_namespace)
    keys = {launch.runner, launch.child, *(exit.key for exit in ended if exit.key is not None)}
    living = sorted(key.pid for key in keys if not processes.gone(key))
    if living and launch.child.namespace is not None:
        return f"launched in another PID namespace ({launch.child.namespace}), where its processes may live"
    if living:
        return "not proved gone: pid " + ", ".join(map(str, living))
    times = [exit.at for exit in ended if exit.at is not None]
    since = now - (max(times) if times else last_written(path))
    if since <= retention:
        return too_young(since, retention)
    if launch.worktree is not None and not is_gone(launch.worktree):
        return f"its worktree is there: {launch.worktree}"
    return "its output is in use" if is_in_use(path) else None


def is_gone(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # that cannot be told
    return False


def too_young(since: float, age: float) -> str:
    return f"ended {span(since)} ago, stays for {span(age)}"


def last_written(path: str) -> float:
    times = []
    for file in (path, *(os.path.join(path, name) for name in (LAUNCH, OUTPUT, EXITS))):
        try:
            times.append(os.stat(file, follow_symlinks=False).st_mtime)
        except OSError:
            continue
    return max(times, default=float("inf"))


def is_in_use(path: str) -> bool:
    """Return whether any process has the agent's output open, as the agent's descendants do. The runner locked that
    file for all of them, so this also holds for processes in other PID namespaces, which no key of ours can find."""
    import fcntl

    try:
        fd = os.open(os.path.join(path, OUTPUT), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # that cannot be told
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(fd)
    return False


def carried(processes: Processes) -> Iterator[tuple[str, int]]:
    """Return the launches that a living process descends from by its environment, each with the process."""
    for process in processes.living():
        details = processes.details(process)
        if details is not None and details.env and MARKER in details.env:
            yield details.env[MARKER], process.pid


def take_away(folder: str, id: str) -> bool:
    """Remove a launch. Return False if another sweep was first, or if it is not ours to remove."""
    out_of_the_way = os.path.join(folder, f"{REMOVING}{id}-{os.getpid()}")
    try:
        os.rename(os.path.join(folder, id), out_of_the_way)
    except OSError:
        return False
    remove_tree(out_of_the_way)
    return True


def remove_tree(path: str) -> None:
    """Remove a folder. If somebody else removes it too, or a file cannot be removed, the next sweep takes the rest."""
    import shutil

    try:
        os.unlink(path)  # a link or a file in the place of a folder: never what it leads to
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def trim(path: str, limit: int, *, dry_run: bool = False) -> bool:
    """Give the middle of a long output back to the disk. Its first MB and its tail stay at their places, so whoever
    writes to it notices nothing; the middle reads as zeros. Return False if there was nothing to do, or it is not
    possible here."""
    try:
        found = os.stat(path, follow_symlinks=False)
        if found.st_blocks * BLOCK <= max(limit, 2 * HEAD_KEPT):
            return False
        if dry_run:
            return True
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        tail = max(limit - HEAD_KEPT, HEAD_KEPT) // 2  # so that it can grow for a while before the next time
        return punch(fd, HEAD_KEPT, found.st_size - tail)
    finally:
        os.close(fd)


def punch(fd: int, start: int, end: int) -> bool:
    if end <= start:
        return False
    import ctypes

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fallocate = libc.fallocate64 if hasattr(libc, "fallocate64") else libc.fallocate
    except (AttributeError, OSError):
        return False
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return bool(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start, end - start) == 0)
