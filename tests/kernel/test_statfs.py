"""A path that mountinfo does not cover, as in a plain chroot: what statfs says of it, and what is concluded."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.agents.codex.store import Store
from agentctl.kernel import mounts, procfs, statfs
from agentctl.kernel.processes import Processes
from agentctl.model import Details, Process, ProcessKey
from tests.support.children import PATIENCE
from tests.support.demo_home import SOURCES
from tests.support.table import source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.linux

# In a chroot, /proc and what is mounted in it are listed, and what is around it is not.
SILENT = b"108 88 0:42 / /proc rw,relatime - proc proc rw\n109 88 0:27 / /dev/shm rw - tmpfs tmpfs rw\n"


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], mounts.Mounts]:
    """The mounts of a plain chroot on a file system of this type."""
    monkeypatch.setattr(mounts, "read", lambda path, limit: SILENT)

    def build(number: int) -> mounts.Mounts:
        monkeypatch.setattr(statfs, "type_number", lambda path: number)
        return mounts.Mounts()

    return build


@pytest.mark.parametrize(
    ("number", "why"),
    [
        *((number, None) for number in (0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0xF2F52010)),
        (0x6969, "its store is on nfs (/): processes of other machines may be on it"),
        (0xFF534D42, "its store is on cifs (/): processes of other machines may be on it"),
        (0xFE534D42, "its store is on smb3 (/): processes of other machines may be on it"),
        (0x01021997, "its store is on 9p (/): processes of other machines may be on it"),
        (0x65735546, "its store is on fuse (/): processes of other machines may be on it"),
        (0x00C36400, "its store is on ceph (/): processes of other machines may be on it"),
        (0x786F4256, "its store is on vboxsf (/): processes of other machines may be on it"),
        (0x1234, "the file system of its store is not known: statfs says type 0x1234, which agentctl does not know"),
    ],
)  # fmt: skip
def test_what_is_not_listed_is_on_the_mount_of_the_root(
    silent: Callable[[int], mounts.Mounts],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    why: str | None,
) -> None:
    monkeypatch.setattr(mounts, "own_pid_namespace", lambda: mounts.INITIAL_PID_NAMESPACE)
    assert silent(number).shared_with_others("/home/x/.codex") == why


@pytest.mark.parametrize("namespace", ["pid:[1]", None])
@pytest.mark.parametrize("number", [0xEF53, 0x794C7630, 0x01021994])  # the last: a tmpfs may be a volume
def test_who_is_outside_of_a_chroot_and_of_our_pid_namespace_may_write_to_a_store_in_it(
    silent: Callable[[int], mounts.Mounts],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    namespace: str | None,
) -> None:
    """The root folder of a chroot is a folder of a file system that is mounted outside, too."""
    monkeypatch.setattr(mounts, "own_pid_namespace", lambda: namespace)
    why = "we are inside a PID namespace, and its store is in a chroot: others may be on it"
    assert silent(number).shared_with_others("/home/x/.codex") == why


def test_each_type_is_local_or_shared_as_in_mountinfo() -> None:
    """A name that is in no list would be taken for a local one."""
    shared = {kind for kind in statfs.TYPES.values() if kind not in mounts.LOCAL_FILE_SYSTEMS}
    assert shared == {"nfs", "cifs", "smb3", "smbfs", "9p", "fuse", "ceph", "afs", "vboxsf", "ocfs2", "gfs2", "lustre"}
    assert set(mounts.SAME_DEVICE) < set(statfs.TYPES.values()) - shared


def test_a_listed_mount_is_not_asked_for(
    silent: Callable[[int], mounts.Mounts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "own_pid_namespace", lambda: mounts.INITIAL_PID_NAMESPACE)
    assert silent(0x6969).shared_with_others("/dev/shm/store") is None


@pytest.mark.parametrize(("number", "known"), [(0xEF53, True), (0x01021994, True), (0x794C7630, False), (0x1, False)])
def test_a_lock_is_looked_up_by_stat_only_where_that_is_the_same_number(
    silent: Callable[[int], mounts.Mounts], tmp_path: Path, number: int, known: bool
) -> None:
    """On overlay and btrfs stat names another device: then it is not known who holds a lock, and not: nobody."""
    (tmp_path / "file").touch()
    found = os.stat(tmp_path / "file")
    chroot = silent(number)
    expected = (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino) if known else None
    assert chroot.identity(str(tmp_path / "file")) == expected
    assert chroot.identity(str(tmp_path / "missing")) is None
    table = Processes("boot", [], source(locks={}, lock_identity=chroot.identity))
    assert table.knows_locks(str(tmp_path)) == known


@pytest.mark.parametrize("known", [True, False])
def test_a_codex_whose_locks_cannot_be_told_may_be_on_a_thread(tmp_path: Path, known: bool) -> None:
    (tmp_path / "thread-writer-locks").mkdir()
    store = Store(str(tmp_path))
    store.links(Processes("boot", [], source(locks={}, lock_identity=lambda path: (8, 2, 300) if known else None)))
    id = "0199a213-81c0-7800-8aa1-bbab2a035a53"
    process = Process(ProcessKey("boot", 7, 1), 1, "codex", "S")
    found = store.candidates(process, Details(argv=("codex", "resume", id), cwd="/"), 0.0)
    assert found.ids == (() if known else (id,))
    assert ("list of locks does not tell" in found.why) != known


# The real one


def test_the_type_of_a_file_system_that_is_always_there() -> None:
    assert statfs.type_number("/proc") == 0x9FA0
    with pytest.raises(OSError, match="0x9fa0"):
        statfs.kind_of("/proc")
    with pytest.raises(FileNotFoundError):
        statfs.kind_of("/no/such/path")


def test_it_agrees_with_mountinfo_on_this_machine() -> None:
    listed = mounts.Mounts()
    alike = {"ext2": "ext4", "ext3": "ext4", "devtmpfs": "tmpfs", "nfs4": "nfs", "cifs": "smb3"}
    alike |= {"fuseblk": "fuse", "virtiofs": "fuse"}
    compared = set()
    for point in [mount.point for mount in listed.entries()]:
        entry = listed.of(point)
        try:
            number = statfs.type_number(point)
        except OSError:
            continue  # not ours to see
        if entry is not None and entry.point == point and number in statfs.TYPES:
            kind = entry.kind.partition(".")[0]
            assert alike.get(kind, kind) == alike.get(statfs.TYPES[number], statfs.TYPES[number]), point
            compared.add(kind)
    assert compared, "at least the file system of the root"


def test_without_statfs_it_stays_unknown(
    silent: Callable[[int], mounts.Mounts], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> None:
        raise OSError("no C library")

    chroot = silent(0)
    monkeypatch.undo()
    monkeypatch.setattr(mounts, "read", lambda path, limit: SILENT)
    monkeypatch.setattr(ctypes, "CDLL", none)
    found = chroot.shared_with_others("/home/x")
    assert found == "the file system of its store is not known: statfs cannot be called: no C library"


# After the chroot nothing can be imported any more.
IN_A_CHROOT = """
import ctypes, encodings.idna, fcntl, json, os, sys
from agentctl.kernel import linux, mounts, processes, statfs
os.chroot(sys.argv[1])
os.chdir("/")
os.makedirs("/store")
held = open("/store/held", "w")
fcntl.flock(held, fcntl.LOCK_EX)
open("/store/free", "w").close()
table = processes.snapshot()
print(json.dumps({
    "listed": mounts.Mounts().of("/store") is not None,
    "kind": statfs.kind_of("/store"),
    "why": table.incomplete_for("/store"),
    "knows": table.knows_locks("/store"),
    "owners": [[one.pid == os.getpid() for one in table.lock_owners(f"/store/{name}")] for name in ("held", "free")],
}))
"""


@pytest.mark.parametrize("kind", ["as it is", "tmpfs"])
def test_in_a_real_chroot(tmp_path: Path, kind: str) -> None:
    """Its root is a folder and no mount point."""
    enter = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    root = tmp_path / "mount" / "root"
    mount = 'mkdir -p "$1" && mount --rbind /proc "$1"'
    if kind == "tmpfs":
        mount = f'mount -t tmpfs tmpfs "{tmp_path}/mount" && {mount}'
    (tmp_path / "mount").mkdir()
    if subprocess.run([*enter, "sh", "-ec", mount, "sh", f"{root}/proc"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    python = [sys.executable, "-c", IN_A_CHROOT, str(root)]
    done = subprocess.run(
        [*enter, "sh", "-ec", f'{mount} && shift && exec "$@"', "sh", f"{root}/proc", *python],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found["listed"]
    assert kind in ("as it is", found["kind"])
    if found["kind"] not in mounts.LOCAL_FILE_SYSTEMS:
        assert found["why"].startswith(f"its store is on {found['kind']}")
    elif procfs.link("/proc/self/ns/pid") == mounts.INITIAL_PID_NAMESPACE:
        assert found["why"] is None
    else:
        assert "in a chroot" in found["why"]
    assert found["knows"] == (found["kind"] in mounts.SAME_DEVICE)
    assert found["owners"] == ([[True], []] if found["knows"] else [[], []])
