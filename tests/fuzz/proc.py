"""The kernel's own files, damaged: a /proc that is made by hand, with processes of every agent beside their stores."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING
from unittest import mock

from agentctl.kernel import linux, one_process
from tests.fuzz import agent, seeds
from tests.fuzz.agent import Result
from tests.fuzz.asking import Asked, Asker
from tests.fuzz.files import others
from tests.fuzz.trees import Tree, is_plain

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from agentctl.kernel.processes import Processes

FIRST = 700  # pid of the first process of the first agent
BOOT = b"42a28f7f-2162-4eec-9f41-11cd1652155b\n"
# Beside those of the agents. pid: (name, state, parent, flags, start, words)
OTHERS = {
    1: ("init", "S", 0, 0x400100, 1, ("/sbin/init",)),
    2: ("kthreadd", "S", 0, 0x208040, 1, ()),
}
TCP = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1000 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0
"""


def make(home: Path, proc: Path) -> tuple[dict[str, str], list[str]]:
    """Return the environment that all processes have, and the files that they have open."""
    processes = dict(OTHERS)
    env = {"HOME": str(home)}
    open_files: list[Path] = []
    held: list[tuple[int, Path]] = []
    for number, one in enumerate(agent.every()):
        mine = one.in_proc(home)
        first = FIRST + 10 * number
        for pid, (name, state, words) in enumerate(mine.processes, first):
            processes[pid] = (name, state, 1, 0x400000, 9000 + pid, words)
        if mine.processes:
            processes[first + 9] = ("bash", "T", first, 0x400000, 9009 + first, ("bash", "-c", "sleep 9"))
        env |= mine.env
        open_files += mine.open_files
        held += [(first, path) for path in mine.locked]
    descriptors = dict(zip((3, *range(5, 5 + len(open_files))), open_files, strict=False))
    for pid, (name, state, parent, flags, start, words) in processes.items():
        folder = proc / str(pid)
        rest = f"{parent} 7 7 34817 7 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 1000 10 18446744073709551615"
        stat = f"{pid} ({name}) {state} {rest}\n".encode()
        seeds.put(folder / "stat", stat)
        seeds.put(folder / "task" / str(pid) / "stat", stat)
        seeds.put(folder / "task" / str(pid + 5000) / "stat", stat.replace(b") Z ", b") S "))
        seeds.put(folder / "cmdline", "".join(word + "\0" for word in words))
        seeds.put(folder / "environ", "".join(f"{name}={value}\0" for name, value in env.items()))
        uids = "\t".join([str(os.getuid())] * 4)
        seeds.put(folder / "status", f"Name:\t{name}\nUid:\t{uids}\nNSpid:\t{pid}\t{pid + 10}\n")
        for fd, path in descriptors.items():
            seeds.put(folder / "fdinfo" / str(fd), f"pos:\t{path.stat().st_size}\nflags:\t0102001\nmnt_id:\t22\n")
        seeds.put(folder / "net" / "tcp", TCP)
        for link, target in (
            *(("exe", f"/usr/bin/{name}"), ("cwd", str(home)), ("root", "/"), ("ns/net", "net:[1]")),
            *(("fd/4", "socket:[4242]"), *((f"fd/{fd}", str(path)) for fd, path in descriptors.items())),
        ):
            (folder / link).parent.mkdir(exist_ok=True)
            (folder / link).symlink_to(target)
    locks = "".join(
        f"{number}: FLOCK  ADVISORY  WRITE {pid} 00:63:{path.stat().st_ino} 0 EOF\n"
        for number, (pid, path) in enumerate(held)
    )
    seeds.put(proc / "locks", locks + f"9: -> FLOCK  ADVISORY  WRITE {FIRST + 1} 00:63:12 0 EOF\n")
    mounts = "22 1 0:99 / / rw,relatime shared:1 - ext4 /dev/vda rw\n23 22 0:21 / /proc rw,hidepid=2 - proc proc rw\n"
    seeds.put(proc / "self" / "mountinfo", mounts + "24 22 0:45 / /a\\040b rw master:3 - nfs4 host:/x rw\n")
    seeds.put(proc / "sys" / "kernel" / "random" / "boot_id", BOOT)
    for name in ("net", "pid", "mnt"):
        (proc / "self" / "ns").mkdir(exist_ok=True)
        (proc / "self" / "ns" / name).symlink_to("pid:[4026531836]" if name == "pid" else f"{name}:[1]")
    return env, [str(path) for path in open_files]


class Kernel:
    def __init__(self) -> None:
        self._made: dict[Path, tuple[Tree, dict[str, str], list[str]]] = {}

    def run(self, folder: Path, rng: Random) -> Result:
        base = folder / "proc"
        if base not in self._made:
            (base / "home").mkdir(parents=True)
            env, open_files = make(base / "home", base / "proc")
            self._made[base] = Tree(base / "proc"), {**seeds.environment(base / "home"), **env}, open_files
        tree, env, open_files = self._made[base]
        seen: list[Processes] = []
        real = linux.snapshot

        def snapshot(names: frozenset[str]) -> Processes:
            found = real(names)
            seen.append(found)
            for row in list(found.living()) if len(seen) == 1 else ():
                found.details(row)
                found.open_files(row)
                for path in open_files:
                    found.positions(row, path)
                found.ports(row)
                found.find(row.pid + 10, row.key.start)
            found.incomplete_for(str(base))
            return found

        what = []
        try:
            for path in rng.sample(list(tree.files), rng.choice((1, 1, 2, 4))):
                if is_plain(path):
                    what.append(f"{path.parent.name}/{tree.damage(path, rng, others(), bytes_only=True)}")
            with ExitStack() as stack:
                for module in (linux, one_process):
                    stack.enter_context(mock.patch.object(module, "PROC", str(base / "proc")))
                stack.enter_context(mock.patch.object(linux, "snapshot", snapshot))
                for swap in [swap for one in agent.every() for swap in one.unreachable]:
                    stack.enter_context(mock.patch.object(*swap))
                asked = Asker(env, lambda: seen[-1], rng).ask()
        except Exception as error:  # noqa: BLE001 -- that is what is looked for
            import traceback

            return Result(what, Asked(0, [f"{error}\n{traceback.format_exc()}"]))
        finally:
            tree.restore()
        return Result(what, asked)
