"""Tells what an executable is by where it is and what it is called: a program of the system, a runtime, a loader.

Pure. It names no agent: whether an executable is an agent's is for the agents to say.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentctl.model import Details

# What an executable is.
ORDINARY = "a program of the system"  # neither an agent nor something that runs other programs in itself
SCRIPTS = "a JavaScript runtime"
INNER = "a program that others of the system run"  # not a command: it may run other programs in itself
INTERPRETER = "an interpreter"  # of another language
LOADER = "a loader"  # it runs another executable in itself
UNIDENTIFIED = "an unidentified program"

COMMANDS = ("/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/")
SYSTEM_FOLDERS = (*COMMANDS, "/usr/lib", "/lib", "/usr/libexec/")
NOT_THE_SYSTEM = ("/node_modules/", "/site-packages/")  # what people install below a folder of the system
# The binaries of the agents carry a JavaScript engine or all of their libraries: all that were measured have more than
# 100 MB. So a small program of the system is none of them under another name.
LARGE = 16 * 1024 * 1024
JAVASCRIPT = ("node", "nodejs", "bun", "deno", "electron", "qjs", "tjs")
INTERPRETERS = ("python", "pypy", "perl", "ruby", "java", "php", "lua", "guile", "dotnet", "mono", "wine")
LOADERS = ("ld-linux", "ld-musl", "ld.so", "ld64", "ld-2.", "qemu-", "proot", "prooted", "box64", "box86", "FEX")
TRACERS = "/valgrind/"  # in the paths of its tools: each runs another executable in itself, as a loader does
LOADER_VALUES = (
    "--library-path --preload --audit --argv0 --inhibit-rpath --glibc-hwcaps-prepend --glibc-hwcaps-mask".split()
)


def kind_of(exe: str, size: int | None) -> str:
    """Return what the executable at this path is. `size`: of its file; None if that is not known."""
    name = os.path.basename(exe)
    if is_loader(exe):
        return LOADER
    if name.startswith(JAVASCRIPT):  # node-v22, nodejs-lts, bun-profile: a name may make it one, never exclude it
        return SCRIPTS
    if name.startswith(INTERPRETERS):
        return INTERPRETER
    if in_the_system(exe) and size is not None and size < LARGE:
        return ORDINARY if exe.startswith(COMMANDS) else INNER
    return UNIDENTIFIED


def in_the_system(exe: str) -> bool:
    return exe.startswith(SYSTEM_FOLDERS) and not any(part in exe for part in NOT_THE_SYSTEM)


def is_loader(exe: str) -> bool:
    return os.path.basename(exe).startswith(LOADERS) or (TRACERS in exe and in_the_system(exe))


def loaded_by(runs: Details) -> Details:
    """Return what a loader runs in itself (`ld-linux.so PROGRAM WORDS`), as if that had been started directly; the same
    details if no loader does."""
    argv, exe = runs.argv, runs.exe
    if argv is None or exe is None or len(argv) < 2 or not is_loader(exe):
        return runs
    place, called = 1, None
    while place < len(argv) and argv[place].startswith("-"):
        called = argv[place + 1] if argv[place] == "--argv0" and place + 1 < len(argv) else called
        place += 2 if argv[place] in LOADER_VALUES else 1
    if place >= len(argv):
        return runs
    return runs._replace(argv=(called or argv[place], *argv[place + 1 :]), exe=argv[place])


def script_in(argv: Sequence[str]) -> str | None:
    """Return the script that a JavaScript runtime was told to run; None if its arguments name none."""
    for word in argv[1:]:
        if word in ("run", "x", "exec"):
            continue  # words of bun and deno
        if word in ("-e", "--eval", "-p", "--print", "-"):
            return None
        if not word.startswith("-"):
            return word
    return None
