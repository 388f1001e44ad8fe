"""Directories that people want to keep agents out of, and the gate to a directory while one is being started there.

agentctl stores only what only people know: manual locks, in locks/<sha256 of the real path>.json of the state folder.
A lock holds for everything in its directory, and follows the directory if that is renamed: it has its device and inode,
and when it was made.
It judges each time whether a session works in a directory (occupancy.py). A gate is the kernel's lock on a file of
gates/, held while one command looks and starts.
"""

from __future__ import annotations

import json
import os
import time

from agentctl.durations import local, utc
from agentctl.errors import NotFound, Refused, UsageError, remedy, shown_command
from agentctl.files import bounded
from agentctl.files.bounded import moment, text_or_none
from agentctl.files.private import make_private, not_ours, sync_folder
from agentctl.kernel import places
from agentctl.kernel.flock import Flock
from agentctl.launches.records import OWNER, make_state_folder, state_folder
from agentctl.model import Problem
from agentctl.workspace.occupancy import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SUFFIX, TEMPORARY, MUTEX = ".json", ".new-", ".mutex"
PATIENCE, GATE_PATIENCE = 30.0, 120.0  # many may wait at one gate
ELSEWHERE = "or set AGENTCTL_HOME to another folder"


# Manual locks


def locks_folder(env: Mapping[str, str]) -> str:
    return os.path.join(state_folder(env), "locks")


def digest(directory: str) -> str:
    from hashlib import sha256

    return sha256(os.fsencode(directory)).hexdigest()


def lock_path(env: Mapping[str, str], directory: str) -> str:
    return os.path.join(locks_folder(env), digest(directory) + SUFFIX)


def real_directory(directory: str) -> str:
    """Return the real path of a directory that exists."""
    try:
        real = os.path.realpath(directory)
        if os.path.isdir(real):
            return real
        why = "not a directory" if os.path.lexists(real) else "no such directory"
    except (OSError, ValueError):
        why = "no such directory"
    raise UsageError(f"{directory}: {why}; check the path")


def myself() -> str:
    import pwd

    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    return f"{name}@{os.uname().nodename}"


def acquire(
    env: Mapping[str, str],
    directory: str,
    by: str | None = None,
    reason: str | None = None,
    ttl: float | None = None,
) -> Lock:
    """Lock a directory. If many try at the same time, one gets the lock, and the others learn who."""
    real = real_directory(directory)
    if by is not None and not by.strip():
        raise UsageError("an empty name; say who locks it, or leave --by out")
    if ttl is not None and ttl <= 0:
        raise UsageError("a lock that has ended before it begins; use a longer --ttl")
    now = time.time()
    if ttl is not None and now + ttl >= bounded.LATEST_MOMENT:
        raise UsageError("--ttl is too large; leave it out for a lock without an end")
    path = lock_path(env, real)
    facts = {
        "directory": real,
        "by": by or myself(),
        "reason": reason,
        "created_at": utc(now),
        "expires_at": None if ttl is None else utc(now + ttl),
        "identity": places.identity(real),
        "born": places.birth(real),
    }
    folder = locks_folder(env)
    try:
        make_state_folder(env)
        make_private(folder)
        refuse_if_held(path, real, now)  # before there is a queue
        with Flock(os.path.join(folder, MUTEX), PATIENCE):
            refuse_if_held(path, real, now)
            if os.path.lexists(path):
                os.unlink(path)  # expired
            write(path, facts)
    except OSError as error:
        raise Refused(f"{error.filename or path}: {error.strerror or error}; {remedy(error)}, {ELSEWHERE}") from error
    return parse(facts, path)  # to the same millisecond as whoever reads it


def refuse_if_held(path: str, directory: str, now: float) -> None:
    held = read_file(path)
    if isinstance(held, Problem):
        raise Refused(f"{path}: {held.problem}; {way_out(held, directory)}")
    if held is not None and not held.expired(now):
        raise Refused(f"{directory}: {held_by(held)}; `{shown_command('agentctl', 'unlock', directory)}` frees it")


def write(path: str, facts: dict[str, Any]) -> None:
    """Write a lock whole or not at all, and never over another one."""
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f"{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(json.dumps(facts).encode() + b"\n")
            file.flush()
            os.fsync(fd)
        os.link(temporary, path)
    finally:
        os.unlink(temporary)
    sync_folder(folder)


def release(env: Mapping[str, str], directory: str, by: str | None = None, *, force: bool = False) -> Lock | None:
    """Remove the lock of a directory, which may be gone, and return it; None if the file was no lock (with `force`).
    A damaged lock may not say which directory it is for: its own path names it, too."""
    try:
        real = os.path.realpath(directory)
    except (OSError, ValueError):
        raise UsageError(f"{directory}: no such directory; check the path") from None
    path = os.path.abspath(directory)
    if os.path.dirname(path) != locks_folder(env) or not path.endswith(SUFFIX):
        path = lock_path(env, real)
    none = NotFound(f"{real}: no manual lock; `agentctl locks` shows what there is")
    try:
        if not is_there(path):
            raise none
        with Flock(os.path.join(locks_folder(env), MUTEX), PATIENCE):
            held = read_file(path)
            if held is None or (isinstance(held, Lock) and held.expired(time.time())):
                if held is not None:
                    os.unlink(path)
                raise none
            if not force and isinstance(held, Problem):
                raise Refused(f"{path}: {held.problem}; --force removes it")
            if not force and isinstance(held, Lock) and held.by != (by or myself()):
                raise Refused(f"{real}: {held_by(held)}; --force takes it away from them")
            os.unlink(path)
    except OSError as error:
        raise Refused(f"{error.filename or path}: {error.strerror}; make it writable, or remove it yourself") from error
    return held if isinstance(held, Lock) else None


def is_there(path: str) -> bool:
    """Return whether there is such a file. Raises OSError if that cannot be told: a folder above it may be a link to a
    disk that is not mounted now."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        above = os.path.dirname(path)
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        os.stat(above)
        return False
    return True


def may_keep_out(problem: Problem, env: Mapping[str, str], directory: str) -> bool:
    """Return whether what could not be read may be a lock of this directory, or of one above it. A file of locks/ can
    only be the lock of the directory that it is named after; all locks are in the folder."""
    name = os.path.basename(problem.path or "")
    return not name.endswith(SUFFIX) or problem.path in lock_paths(env, directory)


def lock_paths(env: Mapping[str, str], directory: str) -> list[str]:
    """Return the files that the locks of a directory, and of those above it, have."""
    found = [lock_path(env, directory)]
    while directory != (directory := os.path.dirname(directory)):
        found.append(lock_path(env, directory))
    return found


def way_out(problem: Problem, directory: str | None = None) -> str:
    """Return what a person can do about a lock that could not be read."""
    if (problem.path or "").endswith(SUFFIX):
        command = shown_command("agentctl", "unlock", "--force", directory or problem.path or "")
        return f"it may be a lock: `{command}` removes it"
    return "there may be locks in it: make it a folder that you can read, and that others cannot write to"


def held_by(lock: Lock) -> str:
    why = f" ({lock.reason})" if lock.reason else ""
    until = f", until {local(lock.expires_at)}" if lock.expires_at is not None else ""
    return f"locked by {lock.by}{why} since {local(lock.created_at)}{until}"


def read_all(env: Mapping[str, str]) -> tuple[list[Lock], list[Problem]]:
    """Return the locks that hold, by directory, and what could not be read. Expired ones are removed, if that is
    possible now."""
    now = time.time()
    found, problems = stored(env)
    if any(lock.expired(now) for lock in found):
        sweep(env, now, patience=0.0)
    return sorted((lock for lock in found if not lock.expired(now)), key=lambda lock: lock.directory), problems


def stored(env: Mapping[str, str]) -> tuple[list[Lock], list[Problem]]:
    """Return all locks, expired or not, and what could not be read."""
    folder = locks_folder(env)
    try:
        if not is_there(folder):
            return [], []  # nothing was ever locked
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX) and not name.startswith("."))
        if names and (why := not_ours(folder) or not_ours(state_folder(env))):
            return [], [Problem(OWNER, f"its locks are not read: {why}", folder)]
    except OSError as error:
        return [], [Problem(OWNER, f"its locks cannot be read: {error.strerror or error}", folder)]
    found = [read_file(os.path.join(folder, name)) for name in names]
    return [one for one in found if isinstance(one, Lock)], [one for one in found if isinstance(one, Problem)]


def sweep(env: Mapping[str, str], now: float, *, patience: float = PATIENCE, dry_run: bool = False) -> list[Lock]:
    """Remove the expired locks, and return them. What cannot be removed now stays for the next sweep."""
    expired = [lock for lock in stored(env)[0] if lock.expired(now)]
    folder = locks_folder(env)
    swept = []
    try:
        torn = [name for name in bounded.names(folder) if name.startswith(TEMPORARY)]
        if dry_run or not (expired or torn):
            return expired
        with Flock(os.path.join(folder, MUTEX), patience):
            for name in set(torn).intersection(bounded.names(folder)):  # who made it was killed, or is done by now
                os.unlink(os.path.join(folder, name))
            for lock in expired:
                held = read_file(lock.path)  # again: somebody may have locked it anew
                if isinstance(held, Lock) and held.expired(now):
                    os.unlink(lock.path)
                    swept.append(held)
    except (OSError, Refused):
        pass
    return swept


def read_file(path: str) -> Lock | Problem | None:
    """Return the lock in a file; a Problem if it cannot be read; None if there is no such file."""
    try:
        if os.path.islink(path):
            raise bounded.Torn("a link where a lock should be")
        return parse(bounded.read_json(path), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Problem(OWNER, error.strerror or str(error), path)
    except bounded.Torn as error:
        return Problem(OWNER, str(error), path)


def parse(facts: dict[str, Any], path: str) -> Lock:
    directory, by, until = text_or_none(facts.get("directory")), text_or_none(facts.get("by")), facts.get("expires_at")
    created_at, expires_at = moment(facts.get("created_at")), moment(until)
    if directory is None or by is None or created_at is None or (until is not None and expires_at is None):
        raise bounded.Torn(f"not a lock: {path}")
    try:
        mine = digest(directory) + SUFFIX == os.path.basename(path)
    except UnicodeEncodeError:
        mine = False
    if not mine:
        raise bounded.Torn(f"the lock of another directory: {path}")
    reason = text_or_none(facts.get("reason"))
    born = facts.get("born") if type(facts.get("born")) is int else None
    return Lock(directory, by, reason, created_at, expires_at, path, identity_in(facts.get("identity")), born)


def identity_in(noted: object) -> tuple[int, int] | None:
    """Return the device and inode that a lock noted; None if it has none: older versions noted only the path."""
    if isinstance(noted, (list, tuple)) and len(noted) == 2:
        device, inode = noted
        if type(device) is int and type(inode) is int:
            return device, inode
    return None


# The gate


def gate(env: Mapping[str, str], directory: str, patience: float = GATE_PATIENCE) -> Flock:
    """Let one command at a time look at a directory and start there: `with gate(env, directory): ...`."""
    real = real_directory(directory)
    at = places.identity(real)
    if at is None:
        raise UsageError(f"{directory}: no such directory; check the path")
    return gate_named(env, f"{at[0]}:{at[1]}", real, patience)  # whichever path leads to it


def gate_named(env: Mapping[str, str], name: str, what: str, patience: float = GATE_PATIENCE) -> Flock:
    """Return the same gate for what is no directory. `what`: its name for people."""
    folder = os.path.join(state_folder(env), "gates")
    try:
        make_state_folder(env)
        make_private(folder)
    except OSError as error:
        raise Refused(f"{error.filename or folder}: {error.strerror or error}; {remedy(error)}, {ELSEWHERE}") from error
    return Flock(os.path.join(folder, digest(name) + ".lock"), patience, what)
