"""The finder of our modules against importlib: the same modules, and the same answer to damaged compiled code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agentctl

PACKAGE = Path(agentctl.__file__).parent
NAMES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.name != "__main__.py" and path != PACKAGE / "launch" / "runner.py"
)
DESCRIBE = """
import json, sys
if sys.argv[1] == "ours":
    from agentctl.fast import finder
    finder.install()
found = {}
for name in sys.argv[2:]:
    __import__(name)
for name in sys.argv[2:]:
    module = sys.modules[name]
    spec = module.__spec__
    found[name] = [
        module.__file__, getattr(module, "__cached__", None), module.__package__,
        list(getattr(module, "__path__", [])), spec.name, spec.origin, spec.cached, spec.parent, spec.has_location,
        spec.submodule_search_locations,
        isinstance(module.__loader__, type(json.__loader__)), module.__loader__ is spec.loader,
        sorted(name for name in vars(module) if not name.startswith("__")),
    ]
print(json.dumps(found))
"""
SMALL = "agentctl.durations"
HIDE = "import sys; sys.modules['_frozen_importlib_external'] = None\n"


def run(code: str, *words: str, source: Path = PACKAGE.parent, **env: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", code, *words],
        env={"PYTHONPATH": str(source), "PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Our sources, without compiled code."""
    shutil.copytree(PACKAGE, tmp_path / "agentctl", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_modules_are_the_same_as_importlib_makes() -> None:
    assert len(NAMES) > 100
    ours, theirs = run(DESCRIBE, "ours", *NAMES), run(DESCRIBE, "theirs", *NAMES)
    for name in NAMES:
        assert ours[name] == theirs[name], name


WHO_LOADED = """
import json, sys
from agentctl.fast import finder
finder.install()
import agentctl.durations as module
print(json.dumps([type(module.__loader__).__module__, getattr(module, "MARK", None)]))
"""


def test_compiled_code_is_written_and_then_read(copy: Path) -> None:
    assert run(WHO_LOADED, source=copy)[0] == "agentctl.fast.finder"
    (compiled,) = (copy / "agentctl" / "__pycache__").glob("durations.*.pyc")
    before = compiled.stat()
    assert run(WHO_LOADED, source=copy)[0] == "agentctl.fast.finder"
    assert (compiled.stat().st_mtime_ns, compiled.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize("how", ["newer", "older", "another size"])
def test_a_source_that_was_changed_is_compiled_again(copy: Path, how: str) -> None:
    source = copy / "agentctl" / "durations.py"
    assert run(WHO_LOADED, source=copy)[1] is None
    noted = source.stat()
    source.write_text(source.read_text() + 'MARK = "changed"\n')
    if how != "another size":
        source.write_text(source.read_text())
    shift = {"newer": 10, "older": -10, "another size": 0}[how]
    os.utime(source, ns=(noted.st_atime_ns, noted.st_mtime_ns + shift * 10**9))
    assert run(WHO_LOADED, source=copy)[1] == "changed"


@pytest.mark.parametrize(
    "damage", [b"", b"\0", b"\0" * 16, b"x" * 400, "a hash instead of a time", "another Python"], ids=str
)
def test_compiled_code_that_is_not_ours_is_not_read(copy: Path, damage: bytes | str) -> None:
    run(WHO_LOADED, source=copy)
    (compiled,) = (copy / "agentctl" / "__pycache__").glob("durations.*.pyc")
    data = compiled.read_bytes()
    if damage == "a hash instead of a time":
        damage = data[:4] + b"\1\0\0\0" + bytes(8) + data[16:]  # unchecked: importlib believes it
    elif damage == "another Python":
        damage = b"\0\0" + data[2:]
    assert isinstance(damage, bytes)
    compiled.write_bytes(damage)
    assert run(WHO_LOADED, source=copy)[1] is None


def test_a_folder_beside_a_file_of_its_name_wins_as_with_importlib(copy: Path) -> None:
    """As an upgrade may leave them, where files are only copied."""
    (copy / "agentctl" / "durations").mkdir()
    (copy / "agentctl" / "durations" / "__init__.py").write_text('MARK = "the folder"\n')
    assert run(WHO_LOADED, source=copy)[1] == "the folder"


def test_with_a_folder_of_its_own_for_compiled_code_importlib_finds_them(copy: Path, tmp_path: Path) -> None:
    found = run(WHO_LOADED, source=copy, PYTHONPYCACHEPREFIX=str(tmp_path / "compiled"))
    assert found[0] == "importlib._bootstrap_external" or "frozen" in found[0]


def test_without_the_private_module() -> None:
    code = HIDE + "from agentctl.fast import finder\nassert finder.SourceFileLoader.__module__\n" + WHO_LOADED
    assert run(code)[0] == "agentctl.fast.finder"


def test_what_is_not_ours_is_left_to_importlib() -> None:
    from agentctl.fast.finder import Finder

    assert Finder.find_spec("json", None) is None
    assert Finder.find_spec("agentctl", None) is None
    assert Finder.find_spec("agentctl.nothing_of_this_name", [str(PACKAGE)]) is None
    assert Finder.find_spec("agentctl.model", [str(PACKAGE), "/elsewhere"]) is None
    assert Finder.find_spec("agentctlx.model", [str(PACKAGE)]) is None
