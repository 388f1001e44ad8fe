"""The kernel's own files, damaged: a /proc that is made by hand, beside the store of an agent whose process it has."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING
from unittest import mock

from agentctl.agents import opencode_api
from agentctl.processes import linux
from tests.fuzz import seeds
from tests.fuzz.asking import Asked, Asker
from tests.fuzz.trees import Tree, is_plain
from tests.worlds import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from agentctl.processes import Processes
    from tests.fuzz.targets import Result

STATE = "running_mid_tool"
BOOT = b"42a28f7f-2162-4eec-9f41-11cd1652155b\n"
# pid: (name, state, parent, flags, start, words)
PROCESSES = {
    1: ("init", "S", 0, 0x400100, 1, ("/sbin/init",)),
    2: ("kthreadd", "S", 0, 0x208040, 1, ()),
    700: ("codex", "S", 1, 0x400000, 9000, ("codex", "exec", "--json", "do it")),
    701: ("bash", "T", 700, 0x400000, 9100, ("bash", "-c", "sleep 9")),
    702: ("codex", "Z", 1, 0x400000, 9200, ()),
    703: ("opencode", "S", 1, 0x400000, 9300, ("opencode", "run", "do it")),
    704: ("a) Z (b", "S", 1, 0x400000, 9400, ("claude",)),
}
TCP = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1000 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0
"""


def make(home: Path, proc: Path) -> None:
    root = home / "codex_home"
    shutil.copytree(FIXTURES / "codex" / STATE / "codex_home", root)
    shutil.copytree(FIXTURES / "opencode" / "running_mid_tool" / "xdg_data", home / "data")
    log = home / "data" / "opencode" / "log" / "opencode.log"
    locks = sorted((root / "thread-writer-locks").glob("[!.]*.lock"))
    env = f"HOME={home}\0CODEX_HOME={root}\0XDG_DATA_HOME={home / 'data'}\0".encode()
    for pid, (name, state, parent, flags, start, words) in PROCESSES.items():
        folder = proc / str(pid)
        rest = f"{parent} 7 7 34817 7 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 1000 10 18446744073709551615"
        stat = f"{pid} ({name}) {state} {rest}\n".encode()
        seeds.put(folder / "stat", stat)
        seeds.put(folder / "task" / str(pid) / "stat", stat)
        seeds.put(folder / "task" / str(pid + 5000) / "stat", stat.replace(b") Z ", b") S "))
        seeds.put(folder / "cmdline", "".join(word + "\0" for word in words))
        seeds.put(folder / "environ", env)
        uids = "\t".join([str(os.getuid())] * 4)
        seeds.put(folder / "status", f"Name:\t{name}\nUid:\t{uids}\nNSpid:\t{pid}\t{pid + 10}\n")
        seeds.put(folder / "fdinfo" / "3", f"pos:\t{log.stat().st_size}\nflags:\t0102001\nmnt_id:\t22\n")
        seeds.put(folder / "net" / "tcp", TCP)
        for link, target in (
            *(("exe", f"/usr/bin/{name}"), ("cwd", str(home)), ("root", "/"), ("fd/3", str(log))),
            *(("fd/4", "socket:[4242]"), ("fd/5", str(log.parents[1] / "opencode.db")), ("ns/net", "net:[1]")),
        ):
            (folder / link).parent.mkdir(exist_ok=True)
            (folder / link).symlink_to(target)
    held = "".join(
        f"{number}: FLOCK  ADVISORY  WRITE 700 00:63:{path.stat().st_ino} 0 EOF\n" for number, path in enumerate(locks)
    )
    seeds.put(proc / "locks", held + "9: -> FLOCK  ADVISORY  WRITE 701 00:63:12 0 EOF\n")
    mounts = "22 1 0:99 / / rw,relatime shared:1 - ext4 /dev/vda rw\n23 22 0:21 / /proc rw,hidepid=2 - proc proc rw\n"
    seeds.put(proc / "self" / "mountinfo", mounts + "24 22 0:45 / /a\\040b rw master:3 - nfs4 host:/x rw\n")
    seeds.put(proc / "sys" / "kernel" / "random" / "boot_id", BOOT)
    for name in ("net", "pid", "mnt"):
        (proc / "self" / "ns").mkdir(exist_ok=True)
        (proc / "self" / "ns" / name).symlink_to("pid:[4026531836]" if name == "pid" else f"{name}:[1]")


def refused(*_: object) -> None:
    """Nobody is asked: the ports of a made-up process are those of somebody else."""
    raise ConnectionRefusedError("nobody listens there")


class Kernel:
    def __init__(self) -> None:
        self._trees: dict[Path, Tree] = {}

    def run(self, folder: Path, rng: Random) -> Result:
        from tests.fuzz.targets import Result, others

        base = folder / "proc"
        if base not in self._trees:
            (base / "home").mkdir(parents=True)
            make(base / "home", base / "proc")
            self._trees[base] = Tree(base / "proc")
        tree = self._trees[base]
        env = {**seeds.environment(base / "home"), "CODEX_HOME": str(base / "home" / "codex_home")}
        seen: list[Processes] = []
        real = linux.snapshot

        def snapshot(names: frozenset[str]) -> Processes:
            found = real(names)
            seen.append(found)
            for row in list(found.living()) if len(seen) == 1 else ():
                found.details(row)
                found.open_files(row)
                found.positions(row, str(base / "home/data/opencode/log/opencode.log"))
                found.ports(row)
                found.find(row.pid + 10, row.key.start)
            found.incomplete_for(str(base))
            return found

        what = []
        try:
            for path in rng.sample(list(tree.files), rng.choice((1, 1, 2, 4))):
                if is_plain(path):
                    what.append(f"{path.parent.name}/{tree.damage(path, rng, others(), bytes_only=True)}")
            with (
                mock.patch.object(linux, "PROC", str(base / "proc")),
                mock.patch.object(linux, "snapshot", snapshot),
                mock.patch.object(opencode_api, "opened", refused),
            ):
                asked = Asker(env, lambda: seen[-1], rng).ask()
        except Exception as error:  # noqa: BLE001 -- that is what is looked for
            import traceback

            return Result(what, Asked(0, [f"{error}\n{traceback.format_exc()}"]))
        finally:
            tree.restore()
        return Result(what, asked)
