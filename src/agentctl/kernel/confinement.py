"""Is another process as free as we are?

An agent may work in a sandbox. Whatever we do at its word, we do outside of it: a program that we run for it, or a
client that obeys its server, can touch files that the agent cannot. So before agentctl acts on the word of a process,
it proves that the process may do all that agentctl may: then it gains nothing by asking us.
"""

from __future__ import annotations

import os
import sys

from agentctl.kernel.procfs import PROC, link, read

NAMESPACES = {"mnt": "mount namespace", "pid": "PID namespace", "user": "user namespace"}
# A process that cannot gain privileges may be under Landlock; one with a filter on its system calls is in a sandbox.
RESTRICTIONS = {"NoNewPrivs": "may gain no privileges", "Seccomp": "has its system calls filtered"}
RESTRICTIONS["Seccomp_filters"] = RESTRICTIONS["Seccomp"]
STATUS_SIZE = 64 * 1024
CAN_TELL = sys.platform == "linux"
UNSEEN = "agentctl may not look into it"


def why_confined(pid: int) -> str | None:
    """Return why a process may not be allowed all that we are, for people; None if it is proved that it is."""
    for name, words in NAMESPACES.items():
        theirs = link(f"{PROC}/{pid}/ns/{name}")
        if theirs is None:
            return UNSEEN
        if theirs != link(f"{PROC}/self/ns/{name}"):
            return f"it is in another {words}"
    try:
        root, own_root = (os.stat(f"{PROC}/{who}/root") for who in (pid, "self"))
        status, own = (status_of(who) for who in (str(pid), "self"))
    except (OSError, ValueError):
        return UNSEEN
    if (root.st_dev, root.st_ino) != (own_root.st_dev, own_root.st_ino):
        return "it has another root directory"
    return why_restricted(status, own)


def why_restricted(status: dict[str, str], own: dict[str, str]) -> str | None:
    """Return how a process is restricted more than we are, by what the kernel says of both."""
    for name, words in RESTRICTIONS.items():
        if name in own and (name not in status or int(status[name]) > int(own[name])):
            return f"it {words}"
    if set(status.get("Uid", "").split()) != set(own.get("Uid", "-").split()):
        return "it is of another user"
    if int(own.get("CapEff", "0"), 16) & ~int(status.get("CapEff", "0"), 16):
        return "it has fewer capabilities"
    return None


def status_of(who: str) -> dict[str, str]:
    lines = read(f"{PROC}/{who}/status", STATUS_SIZE).decode(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
