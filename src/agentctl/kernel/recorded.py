"""Keys of processes that somebody recorded: what they say here.

A record names a process by boot, pid and start. Each of them counts only where it was read: the pid in its PID
namespace, the start by the clock of its time namespace, the boot by what its container shows as the boot (LXC and Incus
give each container one of its own). So another boot does not prove that a process has ended. It does so if the record
is older than the boot of this machine, or if it names our own PID namespace: there, the boot is ours.
"""

from __future__ import annotations

import os
import sys
import time

from agentctl.kernel.procfs import PROC, own_pid_namespace, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.model import ProcessKey

UNNAMED = "pid:[0]"  # stands for a PID namespace that a record does not name; no namespace has this number
OWN_BOOT: list[str] = []  # once it is known
GRAIN = 2.0  # seconds by which the clock may have been corrected since the boot


def key_here(key: ProcessKey, namespace: str | None, written_at: float, boot: str | None = None) -> ProcessKey:
    """Return a recorded key as it counts here. One that may be of a live process in another PID namespace says so
    (`ProcessKey.recorded_in`): `Processes.own` looks it up there. `namespace`: that the record names, if it does;
    `written_at`: when the record was written; `boot`: ours."""
    if sys.platform != "linux":
        return key
    if namespace is not None and namespace == own_pid_namespace():
        return key
    if key.boot == (boot or own_boot()):
        return key if namespace is None else key.recorded_in(namespace)
    return key if written_at < booted_at() - GRAIN else key.recorded_in(namespace or UNNAMED)


def written_at(path: str) -> float:
    """Return when a record was written; in the future if that is not known, so that it may be new."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return float("inf")


def own_boot() -> str:
    """Return the boot that we see; empty if it cannot be read. No process outlives it."""
    if not OWN_BOOT:
        try:
            OWN_BOOT.append(read(f"{PROC}/sys/kernel/random/boot_id", 64).decode(errors="replace").strip())
        except OSError:
            return ""
    return OWN_BOOT[0]


def booted_at() -> float:
    """Return when this machine was booted, by its clock today. In a time namespace that may be any time."""
    from agentctl.kernel.one_process import TICKS_PER_SECOND, own_clock_shift

    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + own_clock_shift() / TICKS_PER_SECOND
