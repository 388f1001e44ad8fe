"""Where the daemon keeps its files, and which process it is: daemon/ in the state folder.

daemon.json   which process it is (boot, pid, start, PID namespace), its version, its socket
socket        mode 0600; elsewhere if the path would be too long for a socket
lock          the kernel's lock on it: who holds it is the daemon
daemon.log    what it has to say about itself
"""

from __future__ import annotations

import json
import os
import sys

from agentctl.errors import Refused
from agentctl.files.bounded import text_or_none
from agentctl.files.private import make_private, not_ours, read_own, replace_file
from agentctl.kernel import handles
from agentctl.kernel.recorded import key_here, written_at
from agentctl.launches import records
from agentctl.model import ProcessKey, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

IDENTITY, SOCKET, LOCK, GATE, OWN_LOG = "daemon.json", "socket", "lock", "starting", "daemon.log"
LONGEST_PATH = 100  # bytes of the path of a socket: Linux takes 107, macOS 103
LONGEST_FILE = 64 * 1024
RUNS, GONE, CANNOT_TELL = "running", "gone", "unknown"


class Identity(Value):
    """What daemon.json says. It counts only if the process is proved."""

    key: ProcessKey
    version: str
    socket: str
    started_at: str | None = None


def folder(env: Mapping[str, str]) -> str:
    return os.path.join(records.state_folder(env), records.DAEMON)


def path(env: Mapping[str, str], name: str) -> str:
    return os.path.join(folder(env), name)


def make_folder(env: Mapping[str, str]) -> str:
    """Make the folder. Raises Refused and OSError."""
    records.make_state_folder(env)
    make_private(folder(env))
    return folder(env)


def events_folder(env: Mapping[str, str]) -> str:
    return os.path.join(records.state_folder(env), records.EVENTS)


def socket_path(env: Mapping[str, str]) -> str:
    """Return where the socket goes: into our folder, or into XDG_RUNTIME_DIR if that path is too long. Raises
    Refused."""
    near = path(env, SOCKET)
    if len(os.fsencode(near)) <= LONGEST_PATH:
        return near
    import hashlib

    name = hashlib.sha256(os.fsencode(os.path.realpath(folder(env)))).hexdigest()[:12]
    runtime = env.get("XDG_RUNTIME_DIR", "")
    far = os.path.join(runtime, f"agentctl-{name}.socket")
    if os.path.isabs(runtime) and len(os.fsencode(far)) <= LONGEST_PATH and is_private(runtime):
        return far
    raise Refused(
        f"{near}: this path is too long for a socket ({len(os.fsencode(near))} bytes, at most {LONGEST_PATH}), and "
        f"XDG_RUNTIME_DIR names no private folder with a shorter one; set AGENTCTL_HOME to a shorter path"
    )


def is_private(name: str) -> bool:
    try:
        return not_ours(name) is None
    except OSError:
        return False


# Which process it is


def own_key() -> ProcessKey:
    """Return the key of this process. Raises OSError if the kernel does not tell."""
    if sys.platform == "linux":
        from agentctl.kernel import linux, one_process, procfs

        if (why := procfs.why_blind()) is not None:
            raise OSError(why)
        row = one_process.parse_stat(one_process.read_row(f"{procfs.PROC}/{os.getpid()}/stat"), linux.boot_id())
    else:
        from agentctl.kernel import portable

        row = portable.row(os.getpid(), portable.boot_id())
    if row is None:
        raise OSError("the kernel does not show this process")
    return row.key


def write_identity(env: Mapping[str, str], identity: Identity) -> None:
    from agentctl.kernel.procfs import own_pid_namespace

    found = {
        "schema": 1,
        "version": identity.version,
        "pid": identity.key.pid,
        "key": str(identity.key),
        "pid_namespace": own_pid_namespace() if sys.platform == "linux" else None,
        "socket": identity.socket,
        "started_at": identity.started_at,
    }
    replace_file(path(env, IDENTITY), json.dumps(found).encode() + b"\n")


def read_identity(env: Mapping[str, str]) -> Identity | None:
    """Return what daemon.json says; None if there is none that can be believed or understood."""
    name = path(env, IDENTITY)
    try:
        found = json.loads(read_own(name, LONGEST_FILE))
        key = ProcessKey.parse(found.get("key"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    where, version = text_or_none(found.get("socket")), text_or_none(found.get("version"))
    if key is None or where is None:
        return None
    key = key_here(key, text_or_none(found.get("pid_namespace")), written_at(name))
    return Identity(key, version or "?", where, text_or_none(found.get("started_at")))


def state_of(identity: Identity) -> str:
    """Does this very process live?"""
    try:
        return RUNS if handles.row_of(identity.key) is not None else GONE
    except OSError:
        return CANNOT_TELL  # of another PID namespace, or the kernel does not tell


def remove_own(env: Mapping[str, str], key: ProcessKey, where: str) -> None:
    """Remove what this daemon has made, unless it is another one's by now."""
    found = read_identity(env)
    if found is not None and found.key == key:
        for name in (path(env, IDENTITY), where):
            try:
                os.unlink(name)
            except OSError:
                pass  # a stale one is replaced
