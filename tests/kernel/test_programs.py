"""What an executable is, by its path and size; and what a loader runs in itself."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from agentctl.kernel import linux, one_process, programs
from agentctl.kernel.processes import snapshot
from agentctl.model import Details

KINDS = {
    "/usr/bin/sleep": programs.ORDINARY,
    "/usr/lib/firefox/firefox": programs.INNER,
    "/usr/libexec/valgrind/memcheck-amd64-linux": programs.LOADER,
    "/home/me/valgrind/x": programs.UNIDENTIFIED,
    "/bin/bash": programs.ORDINARY,
    "/usr/lib/node_modules/x/bin/x": programs.UNIDENTIFIED,
    "/usr/local/bin/cc": programs.UNIDENTIFIED,
    "/home/me/bin/sleep": programs.UNIDENTIFIED,
    "/opt/google/chrome/chrome": programs.UNIDENTIFIED,
    "/usr/bin/node": programs.SCRIPTS,
    "/usr/bin/node-22": programs.SCRIPTS,
    "/usr/bin/node22": programs.SCRIPTS,
    "/usr/bin/node-v22": programs.SCRIPTS,
    "/usr/bin/nodejs-lts": programs.SCRIPTS,
    "/usr/bin/node.real": programs.SCRIPTS,
    "/usr/bin/bun-profile": programs.SCRIPTS,
    "/home/me/.bun/bin/bun": programs.SCRIPTS,
    "/usr/bin/python3.12": programs.INTERPRETER,
    "/opt/pypy/bin/pypy3": programs.INTERPRETER,
    "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": programs.LOADER,
    "/lib/ld-musl-x86_64.so.1": programs.LOADER,
    "/usr/bin/qemu-aarch64": programs.LOADER,
}


@pytest.mark.parametrize("exe", KINDS)
def test_what_an_executable_is(exe: str) -> None:
    assert programs.kind_of(exe, 50_000) == KINDS[exe]


def test_a_large_program_of_the_system_may_be_an_agent_under_another_name() -> None:
    assert programs.kind_of("/usr/bin/cc", 200_000_000) == programs.UNIDENTIFIED
    assert programs.kind_of("/usr/bin/cc", None) == programs.UNIDENTIFIED


LOADER = "/lib64/ld-linux-x86-64.so.2"
LOADED: dict[str, tuple[tuple[str, ...], str, tuple[str, ...], str]] = {
    "a program": ((LOADER, "/x/a", "run"), LOADER, ("/x/a", "run"), "/x/a"),
    "with options": (
        (LOADER, "--library-path", "/l", "--inhibit-cache", "/x/a", "-b"),
        LOADER,
        ("/x/a", "-b"),
        "/x/a",
    ),
    "under another name": ((LOADER, "--argv0", "b", "/x/a", "c"), LOADER, ("b", "c"), "/x/a"),
    "nothing": ((LOADER, "--list"), LOADER, (LOADER, "--list"), LOADER),
    "no loader": (("a", "/x/b"), "/x/a", ("a", "/x/b"), "/x/a"),
}


@pytest.mark.parametrize("name", LOADED)
def test_what_a_loader_runs(name: str) -> None:
    argv, exe, then_argv, then_exe = LOADED[name]
    assert programs.loaded_by(Details(argv=argv, exe=exe)) == Details(argv=then_argv, exe=then_exe)


def test_what_cannot_be_read_stays_unread() -> None:
    assert programs.loaded_by(Details()) == Details()


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ("node server.js", "server.js"),
        ("node --inspect=1 a/b.js c", "a/b.js"),
        ("bun run ./src/index.ts", "./src/index.ts"),
        ("node -e 1", None),
        ("node", None),
        ("node --version", None),
    ],
)
def test_the_script_of_a_runtime(words: str, script: str | None) -> None:
    assert programs.script_in(words.split()) == script


class Seen(NamedTuple):
    st_dev: int
    st_ino: int
    st_size: int


@pytest.mark.linux
def test_one_path_may_be_two_files_in_two_mount_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/proc/7/exe": Seen(1, 10, 50_000), "/proc/8/exe": Seen(2, 10, 120 << 20)}
    real = os.stat
    source = linux.Proc(frozenset())
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda path, **more: files[path] if path in files else real(path, **more))
        kinds = source.kind(7, "/usr/bin/x"), source.kind(8, "/usr/bin/x")
    assert kinds == (programs.ORDINARY, programs.UNIDENTIFIED)
    assert source.kind(9, "/home/u/x") == programs.UNIDENTIFIED


@pytest.mark.linux
def test_an_executable_that_cannot_be_told_is_not_absent() -> None:
    """Linux answers ENAMETOOLONG for a path of more than 4096 bytes. A process without an executable is ending."""
    errors = {
        7: OSError(36, "File name too long"),
        8: FileNotFoundError(2, "No such file"),
        9: PermissionError(1, "no"),
    }

    def readlink(path: str) -> str:
        raise errors[int(path.split("/")[2])]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "readlink", readlink)
        patch.setattr(one_process, "living_thread", lambda pid: None)
        found = linux.executables((7, 8, 9))
    assert found == {7: "", 9: None}
    assert programs.kind_of("", None) == programs.UNIDENTIFIED


@pytest.mark.linux
def test_every_process_has_its_executable_and_only_written_files_count(tmp_path: os.PathLike[str]) -> None:
    read, written = os.path.join(tmp_path, "read"), os.path.join(tmp_path, "written")
    for path in (read, written):
        with open(path, "w") as file:
            file.write("x")
    with open(read) as reading, open(written, "a") as writing:
        fds = (reading.fileno(), writing.fileno())
        with subprocess.Popen(["/bin/sleep", "300"], pass_fds=fds) as child:
            try:
                table = snapshot()
                process = table.get(child.pid)
                assert process is not None
                executable = table.executables()[child.pid]
                assert executable == os.readlink(f"/proc/{child.pid}/exe")
                assert table.executables()[os.getpid()] == os.path.realpath(sys.executable)
                assert [
                    path for path, _ in one_process.written_files(process) or () if path.startswith(str(tmp_path))
                ] == [written]
            finally:
                child.kill()
