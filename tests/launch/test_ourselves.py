"""A runner lives in another directory: it must find agentctl however Python found it here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import agentctl

SOURCES = Path(agentctl.__file__).parent.parent
SAYS = """
import json, os
from agentctl.launch.start import able_to_find_us
print(json.dumps(dict(able_to_find_us(os.environ))))
"""


def asked(*options: str, cwd: Path, **env: str) -> str | None:
    done = subprocess.run(
        [sys.executable, *options, "-c", SAYS], cwd=cwd, env={"PATH": os.environ["PATH"], **env}, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    found: str | None = json.loads(done.stdout).get("PYTHONPATH")
    return found


def test_found_in_the_current_directory(tmp_path: Path) -> None:
    assert asked("-S", cwd=SOURCES) == str(SOURCES)


def test_found_by_a_relative_path() -> None:
    name = SOURCES.name
    assert asked("-S", cwd=SOURCES.parent, PYTHONPATH=f"{name}:/other") == f"{SOURCES}:{name}:/other"


def test_found_by_an_absolute_path(tmp_path: Path) -> None:
    assert asked("-S", cwd=tmp_path, PYTHONPATH=str(SOURCES)) == str(SOURCES)  # as it was


def test_installed(tmp_path: Path) -> None:
    assert asked(cwd=tmp_path) is None
