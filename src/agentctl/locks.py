"""Directories that people want to keep agents out of, and the gate to a directory while one is being started there.

Stored is only what only people know: manual locks, in locks/<sha256 of the real path>.json of the state folder. That a
session works in a directory is judged each time (busy.py). A gate is the kernel's lock on a file of gates/, held while
one command looks and starts.
"""

from __future__ import annotations

import json
import os
import time

from agentctl import stores
from agentctl.busy import ANCESTOR, BLOCKS, WARNS, Conflict, Lock, conflicts
from agentctl.errors import NotFound, Refused, UsageError
from agentctl.flocks import Flock
from agentctl.launches import OWNER, make_private, not_ours, state_folder, sync_folder
from agentctl.model import Problem
from agentctl.stores import moment, text_or_none

__all__ = ["ANCESTOR", "BLOCKS", "WARNS", "Conflict", "Lock", "acquire", "conflicts", "gate", "read_all", "release"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SUFFIX, TEMPORARY, MUTEX = ".json", ".new-", ".mutex"
PATIENCE, GATE_PATIENCE = 30.0, 120.0  # many may wait at one gate
FULL = "make room there, or set AGENTCTL_HOME to another folder"


# Manual locks


def locks_folder(env: Mapping[str, str]) -> str:
    return os.path.join(state_folder(env), "locks")


def digest(directory: str) -> str:
    from hashlib import sha256

    return sha256(os.fsencode(directory)).hexdigest()


def lock_path(env: Mapping[str, str], directory: str) -> str:
    return os.path.join(locks_folder(env), digest(directory) + SUFFIX)


def real_directory(directory: str) -> str:
    """Of a directory that is there."""
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
    """Of many who try at the same time one gets it, and the others are told who."""
    real = real_directory(directory)
    if by is not None and not by.strip():
        raise UsageError("an empty name; say who locks it, or leave --by out")
    if ttl is not None and ttl <= 0:
        raise UsageError("a lock that has ended before it begins; use a longer --ttl")
    now = time.time()
    if ttl is not None and now + ttl >= stores.LATEST_MOMENT:
        raise UsageError("no calendar has that day; leave --ttl out for a lock without an end")
    path = lock_path(env, real)
    facts = {
        "directory": real,
        "by": by or myself(),
        "reason": reason,
        "created_at": utc(now),
        "expires_at": None if ttl is None else utc(now + ttl),
    }
    folder = locks_folder(env)
    try:
        make_private(state_folder(env))
        make_private(folder)
        refuse_if_held(path, real, now)  # before there is a queue
        with Flock(os.path.join(folder, MUTEX), PATIENCE):
            refuse_if_held(path, real, now)
            if os.path.lexists(path):
                os.unlink(path)  # expired
            write(path, facts)
    except OSError as error:
        raise Refused(f"{error.filename or path}: {error.strerror or error}; {FULL}") from error
    return parse(facts, path)  # to the same millisecond as whoever reads it


def refuse_if_held(path: str, directory: str, now: float) -> None:
    held = read_file(path)
    if isinstance(held, Problem):
        raise Refused(f"{path}: {held.problem}; `agentctl unlock --force {directory}` removes it")
    if held is not None and not held.expired(now):
        raise Refused(f"{directory}: {held_by(held)}; `agentctl unlock {directory}` frees it")


def write(path: str, facts: dict[str, Any]) -> None:
    """Whole, or not at all; and never over another one."""
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


def utc(at: float) -> str:
    """With milliseconds: a lock of a second is not over at once."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1000):03d}Z"


def release(env: Mapping[str, str], directory: str, by: str | None = None, *, force: bool = False) -> Lock | None:
    """The lock that was taken away; None for a file that was no lock, with `force`. The directory may be gone."""
    try:
        real = os.path.realpath(directory)
    except (OSError, ValueError):
        raise UsageError(f"{directory}: no such directory; check the path") from None
    path = lock_path(env, real)
    none = NotFound(f"{real}: no manual lock; `agentctl locks` shows what there is")
    if not os.path.lexists(path):
        raise none
    try:
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


def held_by(lock: Lock) -> str:
    why = f" ({lock.reason})" if lock.reason else ""
    until = f", until {utc(lock.expires_at)}" if lock.expires_at is not None else ""
    return f"locked by {lock.by}{why} since {utc(lock.created_at)}{until}"


def read_all(env: Mapping[str, str]) -> tuple[list[Lock], list[Problem]]:
    """The locks that hold, by directory. Expired ones are taken away, if nobody is at it and it can be done."""
    now = time.time()
    found, problems = stored(env)
    if any(lock.expired(now) for lock in found):
        sweep(env, now, patience=0.0)
    return sorted((lock for lock in found if not lock.expired(now)), key=lambda lock: lock.directory), problems


def stored(env: Mapping[str, str]) -> tuple[list[Lock], list[Problem]]:
    """Everything that is there, expired or not."""
    folder = locks_folder(env)
    try:
        names = sorted(name for name in stores.names(folder) if name.endswith(SUFFIX) and not name.startswith("."))
        if names and (why := not_ours(folder) or not_ours(state_folder(env))):
            return [], [Problem(OWNER, f"its locks are not read: {why}", folder)]
    except OSError as error:
        return [], [Problem(OWNER, error.strerror or str(error), folder)]
    found = [read_file(os.path.join(folder, name)) for name in names]
    return [one for one in found if isinstance(one, Lock)], [one for one in found if isinstance(one, Problem)]


def sweep(env: Mapping[str, str], now: float, *, patience: float = PATIENCE, dry_run: bool = False) -> list[Lock]:
    """The expired locks, which are taken away; what cannot be taken away now is for the next time."""
    expired = [lock for lock in stored(env)[0] if lock.expired(now)]
    folder = locks_folder(env)
    swept = []
    try:
        torn = [name for name in stores.names(folder) if name.startswith(TEMPORARY)]
        if dry_run or not (expired or torn):
            return expired
        with Flock(os.path.join(folder, MUTEX), patience):
            for name in set(torn).intersection(stores.names(folder)):  # who made it was killed, or is done by now
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
    """None: no lock."""
    try:
        if os.path.islink(path):
            raise stores.Torn("a link where a lock should be")
        return parse(stores.read_json(path), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Problem(OWNER, error.strerror or str(error), path)
    except stores.Torn as error:
        return Problem(OWNER, str(error), path)


def parse(facts: dict[str, Any], path: str) -> Lock:
    directory, by, until = text_or_none(facts.get("directory")), text_or_none(facts.get("by")), facts.get("expires_at")
    created_at, expires_at = moment(facts.get("created_at")), moment(until)
    if directory is None or by is None or created_at is None or (until is not None and expires_at is None):
        raise stores.Torn(f"not a lock: {path}")
    try:
        mine = digest(directory) + SUFFIX == os.path.basename(path)
    except UnicodeEncodeError:
        mine = False
    if not mine:
        raise stores.Torn(f"the lock of another directory: {path}")
    return Lock(directory, by, text_or_none(facts.get("reason")), created_at, expires_at, path)


# The gate


def gate(env: Mapping[str, str], directory: str, patience: float = GATE_PATIENCE) -> Flock:
    """with gate(env, directory): look whether it is free, and start. One command at a time, for each directory."""
    return gate_to(env, real_directory(directory), patience)


def gate_to(env: Mapping[str, str], real: str, patience: float = GATE_PATIENCE) -> Flock:
    """The same for a directory that is still to be made."""
    folder = os.path.join(state_folder(env), "gates")
    try:
        make_private(state_folder(env))
        make_private(folder)
    except OSError as error:
        raise Refused(f"{error.filename or folder}: {error.strerror or error}; {FULL}") from error
    return Flock(os.path.join(folder, digest(real) + ".lock"), patience, real)
