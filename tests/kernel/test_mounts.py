"""A store that others may write to is not taken for one of our own: no session in it is called ended by our table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import access, mounts, statfs
from agentctl.kernel.mounts import is_mapped_for, mounts_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.linux
LISTED = "1 0 8:1 / / rw - ext4 /dev/x rw\n2 1 0:9 / /mnt rw - {kind} host:/volume rw\n"
COVERED = "1 0 8:1 / / rw - ext4 /dev/x rw\n2 1 0:9 / /h/s rw - tmpfs t rw\n3 1 0:10 / /h rw - nfs4 host:/volume rw\n"


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], mounts.Mounts]:
    def built(mountinfo: str, namespace: str) -> mounts.Mounts:
        monkeypatch.setattr(mounts, "read", lambda path, limit: mountinfo.encode())
        monkeypatch.setattr(mounts, "own_pid_namespace", lambda: namespace)
        monkeypatch.setattr(statfs, "type_number", lambda path: 0xEF53)
        return mounts.Mounts()

    return built


@pytest.mark.parametrize(
    "kind",
    [
        *("fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.juicefs", "fuse.ceph-fuse", "fuse.vmhgfs-fuse"),
        *("beegfs", "gpfs", "orangefs", "coda", "vmhgfs", "prl_fs", "a-type-of-tomorrow"),
    ],
)
def test_a_network_file_system_is_no_local_one(build: Callable[[str, str], mounts.Mounts], kind: str) -> None:
    """statfs is believed only about types that are known to be local; so should mountinfo be."""
    found = build(LISTED.format(kind=kind), mounts.INITIAL_PID_NAMESPACE)
    assert found.shared_with_others("/mnt/home/.codex") is not None


def test_a_mount_that_another_one_covers_is_not_where_a_path_is(build: Callable[[str, str], mounts.Mounts]) -> None:
    found = build(COVERED, mounts.INITIAL_PID_NAMESPACE)
    assert found.shared_with_others("/h/s/.codex") is not None


# The table of mounts

MOUNTS = rb"""
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
24 22 0:45 / /merged rw,relatime shared:7 master:3 propagate_from:2 - overlay overlay rw,lowerdir=/a:/b
25 24 0:46 / /merged/inner rw - tmpfs tmpfs rw,size=1k
26 22 0:47 / /with\040blank\011tab\134slash rw - nfs4 server:/x rw,vers=4.2
27 22 0:48 /sub /twice rw - btrfs /dev/sdb rw,subvol=/sub
28 27 0:49 / /twice rw - tmpfs tmpfs rw
29 22 0:50 / /no-options rw - tmpfs tmpfs
30 22 0:51 / /n\303\244h rw - tmpfs tmpfs rw
not a mount
"""


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> mounts.Mounts:
    return mounts_of(monkeypatch, MOUNTS)


def mounts_of(monkeypatch: pytest.MonkeyPatch, text: bytes) -> mounts.Mounts:
    monkeypatch.setattr(mounts, "read", lambda path, limit: text)
    return mounts.Mounts()


@pytest.mark.parametrize(
    ("path", "device", "kind"),
    [
        ("/", (8, 2), "ext4"),
        ("/home/x", (8, 2), "ext4"),
        ("/merged", (0, 45), "overlay"),
        ("/merged/file", (0, 45), "overlay"),
        ("/mergedfile", (8, 2), "ext4"),
        ("/merged/inner/file", (0, 46), "tmpfs"),
        ("/merged/innermost", (0, 45), "overlay"),
        ("/with blank\ttab\\slash/file", (0, 47), "nfs4"),
        ("/twice/file", (0, 49), "tmpfs"),
        ("/no-options/file", (0, 50), "tmpfs"),
    ],
)
def test_the_mount_of_a_path(table: mounts.Mounts, path: str, device: tuple[int, int], kind: str) -> None:
    found = table.of(path)
    assert found is not None
    assert ((found.major, found.minor), found.kind) == (device, kind)


def test_the_identity_of_a_file_is_of_its_mount_and_not_of_its_stat(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path.resolve() / "a mount"
    folder.mkdir()
    (folder / "file").touch()
    (tmp_path / "link").symlink_to(folder / "file")
    point = str(folder).replace(" ", "\\040")
    table = mounts_of(monkeypatch, MOUNTS + f"40 22 251:259 / {point} rw - btrfs /dev/x rw\n".encode())
    inode = (folder / "file").stat().st_ino
    assert table.identity(str(folder / "file")) == (251, 259, inode)
    assert table.identity(str(tmp_path / "link")) == (251, 259, inode)
    assert table.identity(str(folder / "missing")) is None


@pytest.mark.parametrize(
    ("root", "namespace", "why"),
    [
        ("/home/x", mounts.INITIAL_PID_NAMESPACE, None),
        ("/merged/x", mounts.INITIAL_PID_NAMESPACE, None),
        ("/with blank\ttab\\slash/x", mounts.INITIAL_PID_NAMESPACE, "nfs4"),
        ("/home/x", "pid:[1]", "the root of the machine"),
        ("/merged/x", "pid:[1]", "PID namespace"),
        ("/merged/inner", "pid:[1]", "PID namespace"),
        ("/merged/x", None, "PID namespace"),
    ],
)
def test_which_stores_others_may_write_to(
    table: mounts.Mounts, monkeypatch: pytest.MonkeyPatch, root: str, namespace: str | None, why: str | None
) -> None:
    monkeypatch.setattr(mounts, "own_pid_namespace", lambda: namespace)
    found = table.shared_with_others(root)
    assert found is None if why is None else found is not None and why in found


def test_without_mountinfo_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, limit: int) -> bytes:
        raise PermissionError

    monkeypatch.setattr(mounts, "read", refuse)
    assert mounts.Mounts().of("/") is None
    assert mounts.Mounts().identity("/") is None
    assert mounts.Mounts().shared_with_others("/") is not None


@pytest.mark.parametrize(
    ("options", "hides"),
    [
        ("rw,nosuid - proc proc rw", False),
        ("rw - proc proc rw,hidepid=0", False),
        ("rw - proc proc rw,hidepid=off", False),
        ("rw - proc proc rw,gid=5,hidepid=2", True),
        ("rw - proc proc rw,hidepid=invisible", True),
        ("rw - proc proc rw,hidepid=ptraceable", True),
        ("rw,hidepid=1 - proc proc rw", True),
        ("rw - proc proc rw,subset=pid", True),
    ],
)
def test_hidepid(monkeypatch: pytest.MonkeyPatch, options: str, hides: bool) -> None:
    text = f"23 22 0:21 / /proc {options}\n24 22 0:22 / /elsewhere rw - proc proc rw,hidepid=2\n".encode()
    monkeypatch.setattr(mounts, "may_see_all", lambda: False)
    assert (mounts_of(monkeypatch, text).hidepid() is not None) is hides
    monkeypatch.setattr(mounts, "may_see_all", lambda: True)
    assert mounts_of(monkeypatch, text).hidepid() is None


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        (b"21 1 0:50 / / rw - overlay overlay rw\n", True),
        (b"21 1 8:1 /var/lib/lxc/one/rootfs / rw - ext4 /dev/sda1 rw\n", True),
        (b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n", False),  # or / of the machine, entered by chroot
    ],
)
def test_the_root_of_a_container_is_its_own(monkeypatch: pytest.MonkeyPatch, line: bytes, ours: bool) -> None:
    monkeypatch.setattr(mounts, "own_pid_namespace", lambda: "pid:[1]")
    table = mounts_of(monkeypatch, line + b"22 21 0:21 / /proc rw - proc proc rw\n")
    assert (table.shared_with_others("/home/x") is None) == ours


SANDBOX = b"""21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:21 / /proc rw - proc proc rw
23 21 0:30 / /volume rw - tmpfs tmpfs rw
24 22 0:31 / /proc rw - proc proc rw
25 21 0:32 / /home rw - tmpfs tmpfs rw
26 21 0:30 / /again rw - tmpfs tmpfs rw
27 21 0:33 /sub /part rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("root", "ours"),
    [
        ("/home/x", True),
        ("/volume/x", False),  # it was there before we were
        ("/again/x", False),  # the same one, under another name
        ("/part/x", False),  # somebody has the rest of it
    ],
)
def test_a_tmpfs_is_ours_if_it_is_whole_and_not_copied(monkeypatch: pytest.MonkeyPatch, root: str, ours: bool) -> None:
    monkeypatch.setattr(mounts, "own_pid_namespace", lambda: "pid:[1]")
    assert (mounts_of(monkeypatch, SANDBOX).shared_with_others(root) is None) == ours


@pytest.mark.parametrize(
    ("line", "hides"),
    [
        (b"30 22 0:40 / /proc/77 rw - tmpfs none rw", True),
        (b"30 22 0:21 /5 /proc/77 rw - proc proc rw", True),
        (b"30 22 0:40 / /proc/kcore rw - tmpfs none rw", False),
        (b"30 21 0:40 / /process/77 rw - tmpfs none rw", False),
        (b"30 21 0:40 / /proc/77 rw - tmpfs none rw\n31 22 0:41 / /proc rw - proc proc rw", False),  # under our /proc
    ],
)
def test_a_mount_over_a_process_hides_it(monkeypatch: pytest.MonkeyPatch, line: bytes, hides: bool) -> None:
    text = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:21 / /proc rw - proc proc rw\n" + line + b"\n"
    assert (mounts_of(monkeypatch, text).covered() is not None) is hides


def test_a_tmpfs_in_a_container_with_one_proc_may_be_a_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "own_pid_namespace", lambda: "pid:[1]")
    text = b"21 1 0:50 / / rw - overlay overlay rw\n22 21 0:21 / /proc rw - proc proc rw\n"
    table = mounts_of(monkeypatch, text + b"23 21 0:32 / /home rw - tmpfs tmpfs rw\n")
    assert table.shared_with_others("/home/x") is not None
    assert table.shared_with_others("/root/x") is None


ALL_POWERS, NO_TRACING = "000001ffffffffff", "000001fffff7ffff"


@pytest.mark.parametrize(
    ("users", "powers", "sees"),
    [
        ("0 0 4294967295", ALL_POWERS, True),
        ("0 0 4294967295", NO_TRACING, False),  # root without CAP_SYS_PTRACE
        ("0 0 4294967295", "0000000000000000", False),  # an ordinary user
        ("0 1000 1", ALL_POWERS, False),  # root in a user namespace
    ],
)
def test_who_sees_all_processes(monkeypatch: pytest.MonkeyPatch, users: str, powers: str, sees: bool) -> None:
    files = {
        "uid_map": f"         {users}\n",
        "status": f"Name:\tx\nCapPrm:\t{ALL_POWERS}\nCapEff:\t{powers}\nCapBnd:\t0\n",
    }
    monkeypatch.setattr(access, "read", lambda path, limit: files[os.path.basename(path)].encode())
    assert access.may_see_all() == sees


def test_who_cannot_ask_does_not_see_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: str, limit: int) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(access, "read", read)
    assert not access.may_see_all()


def test_of_two_mounts_on_proc_only_the_upper_one_can_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "may_see_all", lambda: False)
    hiding, plain = b"23 22 0:21 / /proc rw - proc proc rw,hidepid=2\n", b"24 23 0:22 / /proc rw - proc proc rw\n"
    assert mounts_of(monkeypatch, hiding + plain).hidepid() is None
    assert mounts_of(monkeypatch, plain + hiding).hidepid() is None


MOVED = b"""21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 23 0:21 / /proc rw - proc proc rw,hidepid=2
23 21 0:22 / /proc rw - proc proc rw
24 22 0:40 / /proc/77 rw - tmpfs none rw
"""


def test_a_proc_that_was_moved_onto_a_newer_one_is_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "may_see_all", lambda: False)
    assert mounts_of(monkeypatch, MOVED).hidepid() is not None
    assert mounts_of(monkeypatch, MOVED).covered() is not None


def test_proc_may_be_a_link_to_a_proc_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "may_see_all", lambda: False)
    real = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path, **_: "/mnt/proc" if path == "/proc" else real(path))
    text = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:21 / /mnt/proc rw - proc proc rw,hidepid=2\n"
    assert mounts_of(monkeypatch, text).hidepid() is not None
    assert mounts_of(monkeypatch, text + b"23 22 0:40 / /mnt/proc/77 rw - tmpfs none rw\n").covered() is not None


def test_a_proc_that_is_no_proc_file_system_may_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:21 / /proc rw - overlay overlay rw\n"
    assert mounts_of(monkeypatch, text).hidepid() is not None


OURS = b"30 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n31 30 0:27 / /dev/shm rw - tmpfs tmpfs rw\n"


@pytest.mark.parametrize(
    ("theirs", "mapped"),
    [
        (b"111 157 254:0 /home/me /data rw,relatime,idmapped - ext4 /dev/vda rw\n", True),
        (b"111 157 254:0 /home/me/.claude/projects /data rw,idmapped - ext4 /dev/vda rw\n", True),
        (b"111 157 254:0 / /data rw,idmapped - ext4 /dev/vda rw\n", True),
        (b"111 157 254:0 /home/me /data rw,relatime - ext4 /dev/vda rw\n", False),
        (b"111 157 254:0 /home/me2 /data rw,idmapped - ext4 /dev/vda rw\n", False),
        (b"111 157 254:1 / /data rw,idmapped - ext4 /dev/vdb rw\n", False),
        (b"", False),
    ],
)
def test_who_reaches_a_store_through_an_id_mapped_mount(theirs: bytes, mapped: bool) -> None:
    assert is_mapped_for("/home/me/.claude", mounts_in(OURS), mounts_in(theirs)) is mapped
    assert not is_mapped_for("/dev/shm/store", mounts_in(OURS), mounts_in(theirs))
