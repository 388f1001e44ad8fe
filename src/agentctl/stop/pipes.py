"""Tools that read or feed a process of another session through a pipe. They are left: that one would feel their end."""

from __future__ import annotations

import os
import stat

from agentctl.kernel.procfs import PROC, link
from agentctl.stop.plan import HOST, Left, left_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from agentctl.model import Process, ProcessKey
    from agentctl.stop.plan import Ground, Tree

PIPE = "pipe:["
STANDARD = ("0", "1", "2")


def spare(tree: Tree, ground: Ground, mine: Collection[ProcessKey]) -> Tree:
    """Return what ends and what is left, with those tools left that hold the other end of a pipe which is the input or
    the output of a process of another session."""
    others = {key: ids for key, ids in ground.on.items() if key not in mine}
    if not tree.tools or not others:
        return tree
    read: dict[str, str] = {}  # the pipes that others read, and who
    written: dict[str, str] = {}
    for key, ids in others.items():
        ins, outs = ends_of(key.pid, STANDARD)
        who = f"pid {key.pid} ({ground.of_agents.get(key, 'an agent')} session {', '.join(ids)})"
        read.update(dict.fromkeys(ins, who))
        written.update(dict.fromkeys(outs, who))
    held = [one for tool in tree.tools if (one := why_held(tool, read, written)) is not None]
    keys = {one.key for one in held}
    return tree._replace(tools=tuple(tool for tool in tree.tools if tool.key not in keys), left=(*tree.left, *held))


def why_held(tool: Process, read: dict[str, str], written: dict[str, str]) -> Left | None:
    ins, outs = ends_of(tool.pid)
    feeds = next((read[pipe] for pipe in outs if pipe in read and pipe not in ins), None)
    reads = next((written[pipe] for pipe in ins if pipe in written and pipe not in outs), None)
    if feeds is None and reads is None:
        return None
    return left_as(tool, HOST, f"it feeds {feeds} through a pipe" if feeds else f"it reads from {reads} through a pipe")


def ends_of(pid: int, only: Iterable[str] | None = None) -> tuple[set[str], set[str]]:
    """Return the pipes that a process can read from, and those that it can write to. Nothing of a process that we may
    not look into: that one is not ours to end either."""
    folder = f"{PROC}/{pid}/fd"
    ins: set[str] = set()
    outs: set[str] = set()
    try:
        for name in os.listdir(folder) if only is None else only:
            target = link(f"{folder}/{name}")
            if target is None or not target.startswith(PIPE):
                continue
            mode = os.lstat(f"{folder}/{name}").st_mode
            ins |= {target} if mode & stat.S_IRUSR else set()
            outs |= {target} if mode & stat.S_IWUSR else set()
    except OSError:
        return ins, outs  # it has ended meanwhile
    return ins, outs
