"""Starts and ends the daemon, and says how it is. A daemon is signalled only if its process is proved."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time

from agentctl import __version__
from agentctl.errors import AgentctlError, NotFound, Refused
from agentctl.kernel import handles
from agentctl.kernel.flock import Flock
from agentctl.launches.records import MARKER
from agentctl.model import Value
from agentctl.server import client, extra, own_log, place
from agentctl.server.place import GONE, RUNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from agentctl.model import ProcessKey
    from agentctl.server.place import Identity

COMMAND = (sys.executable, "-P", "-m", "agentctl")
START_PATIENCE = 30.0  # seconds until it answers
GATE_PATIENCE = 60.0  # seconds for another start to be over
STOP_PATIENCE, KILL_PATIENCE = 10.0, 5.0
PAUSE = 0.05
NOT_RUNNING = "the daemon is not running; `agentctl daemon start` starts it"


class Found(Value):
    """The daemon as it is now."""

    state: str  # RUNS, GONE (or there never was one), CANNOT_TELL
    identity: Identity | None = None
    key: ProcessKey | None = None  # of the process, if it is proved
    health: Mapping[str, Any] | None = None  # None: it does not answer
    why: str | None = None

    @property
    def other_version(self) -> str | None:
        version = self.identity.version if self.identity is not None else None
        return version if version not in (None, __version__) else None


def find(env: Mapping[str, str], patience: float = 2.0) -> Found:
    """Return how the daemon is: which process, and whether it answers."""
    identity = place.read_identity(env)
    state = place.state_of(identity) if identity is not None else GONE
    if identity is None or state == GONE:
        # Its file may be gone, or it is only starting: whoever holds the kernel's lock is the daemon.
        key = lock_holder(env)
        return Found(RUNS, None, key, why="it has no identity file (yet)") if key is not None else Found(GONE, identity)
    try:
        health = client.get(identity.socket, "/v1/health", patience)
    except (OSError, http.client.HTTPException, AgentctlError) as error:
        return Found(state, identity, identity.key if state == RUNS else None, why=str(error) or type(error).__name__)
    return Found(state, identity, identity.key if state == RUNS else None, health)


def lock_holder(env: Mapping[str, str]) -> ProcessKey | None:
    """Return the process that holds the daemon's lock, by the kernel's own list."""
    from agentctl.kernel import processes

    lock = place.path(env, place.LOCK)
    owners = processes.snapshot().lock_owners(lock) if os.path.exists(lock) else ()
    return owners[0].key if len(owners) == 1 else None


# Start


def start(env: Mapping[str, str]) -> tuple[Found, bool]:
    """Start the daemon unless it runs. Return it, and whether it was started. Raises Refused and AgentctlError."""
    extra.require()
    place.make_folder(env)
    with Flock(place.path(env, place.GATE), GATE_PATIENCE, "the start of the daemon"):
        found = find(env)
        if found.state == GONE:
            return start_now(env), True
        if found.other_version is not None:
            raise Refused(f"{named(found)} runs; `agentctl daemon restart` replaces it")
        if found.health is None:
            found = until_it_answers(env, None)
        return found, False


def start_now(env: Mapping[str, str]) -> Found:
    place.socket_path(env)  # says now what the daemon would say in its log
    own = {name: value for name, value in env.items() if name != MARKER}  # it is nobody's tool
    child = subprocess.Popen(
        [*COMMAND, "daemon", "run", "--to-log"],
        env=own,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return until_it_answers(env, child)


def until_it_answers(env: Mapping[str, str], child: subprocess.Popen[bytes] | None) -> Found:
    deadline = time.monotonic() + START_PATIENCE
    while time.monotonic() < deadline:
        ended = child is not None and child.poll() is not None
        found = find(env)
        if found.state == RUNS and found.health is not None:
            if child is not None:
                child.returncode = child.returncode or 0  # it is left to itself: no warning that nobody waited for it
            return found
        if ended and found.state == GONE:
            break
        time.sleep(PAUSE)
    said = last_word(env)
    raise AgentctlError(f"the daemon does not answer{': ' + said if said else ''}; `agentctl daemon logs` shows more")


def last_word(env: Mapping[str, str]) -> str:
    try:
        lines = own_log.last_lines(place.path(env, place.OWN_LOG), 1)
    except OSError:
        return ""
    return lines[0].partition(" ")[2].removeprefix("agentctl: ") if lines else ""


def named(found: Found) -> str:
    """Return what to call a daemon in a sentence."""
    pid = f", pid {found.key.pid}" if found.key is not None else ""
    return f"a daemon of another version ({found.other_version}{pid})" if found.other_version else f"the daemon{pid}"


# Stop


class Ended(Value):
    key: ProcessKey | None = None  # None: none was running
    how: str = ""


def stop(env: Mapping[str, str]) -> Ended:
    """End the daemon. Raises Refused if its process cannot be proved or signalled."""
    found = find(env)
    if found.state == GONE:
        return Ended()
    if found.key is None:
        why = found.identity.key.namespace if found.identity is not None else None
        where = f" in another PID namespace ({why})" if why else ""
        raise Refused(
            f"the daemon was started{where}, and cannot be proved from here; run `agentctl daemon stop` there"
        )
    handle = handles.Handle.open(found.key)
    if handle is None:
        return Ended()
    try:
        return Ended(found.key, end(handle))
    except PermissionError as error:
        raise Refused(f"pid {found.key.pid}: {error.strerror}; it runs as another user: stop it as that one") from error
    finally:
        handle.close()


def end(handle: handles.Handle) -> str:
    for number, patience in ((signal.SIGTERM, STOP_PATIENCE), (signal.SIGKILL, KILL_PATIENCE)):
        handle.send(number)
        if not handles.wait_for([handle], patience):
            return number.name
    raise AgentctlError(f"pid {handle.key.pid} does not end, not even by SIGKILL; look at what it waits for")


# For commands that need it


def needed(env: Mapping[str, str], tell: Callable[[str], None]) -> Found:
    """Return the daemon that runs, for a command that cannot do without. Raises NotFound if it does not, unless the
    configuration allows to start it."""
    found = find(env)
    if found.health is not None:
        if found.other_version is not None:
            tell(f"{named(found)} answers; `agentctl daemon restart` replaces it")
        return found
    if found.state == GONE and autostart(env):
        tell("the daemon is not running; starting it, as the configuration allows")
        return start(env)[0]
    if found.state == GONE:
        raise NotFound(NOT_RUNNING)
    raise AgentctlError(f"{named(found)} does not answer ({found.why}); `agentctl daemon restart` replaces it")


def autostart(env: Mapping[str, str]) -> bool:
    from agentctl import config

    return config.daemon_autostart(env)
