"""Runs code in a Python that has imported next to nothing: no site, no pytest, nothing of its environment.

Here a module of `agentctl.fast` is tried where nobody has imported the public module that it stands for, and where
CPython's private modules are missing.
"""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

from tests.support.demo_home import SOURCES, TIMEOUT

# As in a Python that has renamed or dropped them. The public modules still find them: they are built upon them.
WITHOUT_PRIVATE = """\
import builtins
import_any = builtins.__import__
def import_public(name, globals=None, *more):
    private = name.startswith("_") and name != "__future__"
    if private and (globals or {}).get("__name__", "").startswith("agentctl.fast."):
        raise ImportError(name)
    return import_any(name, globals, *more)
builtins.__import__ = import_public
"""
END = "\nprint('\\0' + ' '.join(sys.modules))\n"


class Bare(NamedTuple):
    stdout: str
    modules: set[str]  # those that were imported in the end


def run_bare(code: str, *arguments: str, private: bool = True) -> Bare:
    """`private`: are there private modules for agentctl.fast?"""
    start = f"import sys; sys.path.insert(0, {SOURCES!r})\n" + ("" if private else WITHOUT_PRIVATE)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + code + END, *arguments],
        env={},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said, _, modules = done.stdout.partition("\0")
    return Bare(said, set(modules.split()))
