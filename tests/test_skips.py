"""No test is skipped in silence: where all can run, a skip is a failure; what is of another system is not selected."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.support.demo_home import TIMEOUT

TREE = Path(__file__).parents[1]
SKIPS = """
import pytest

@pytest.fixture
def tool():
    pytest.skip("no such tool")

def test_by_itself():
    pytest.skip("no such tool")

def test_by_its_fixture(tool):
    pass

@pytest.mark.skipif(True, reason="no such tool")
def test_by_a_mark():
    pass

@pytest.mark.xfail
def test_that_is_known_to_fail():
    raise AssertionError

def test_that_runs():
    pass
"""
MODULE = "import pytest\npytest.importorskip('agentctl_no_such_module')\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [((), 0, "1 passed, 4 skipped, 1 xfailed"), (("--no-skips",), 1, "1 failed, 1 passed, 1 xfailed, 3 errors")],
)
def test_a_skip_is_a_failure_where_all_can_run(tmp_path: Path, words: tuple[str, ...], code: int, says: str) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_module.py").write_text(MODULE)
    (tmp_path / "pytest.ini").touch()
    options = ["-q", "-rs", "-p", "no:cacheprovider", "-p", "tests.conftest", "--continue-on-collection-errors"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *words, str(tmp_path)],
        cwd=TREE,
        env={**os.environ, "PYTHONPATH": f"{TREE}:{TREE / 'src'}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, says in done.stdout) == (code, True), done.stdout
    assert "no such tool" in done.stdout, "it says why"


@pytest.mark.parametrize(("platform", "left"), [("linux", ["a", "b"]), ("darwin", ["b"])])
def test_what_is_of_another_system_is_not_selected(
    monkeypatch: pytest.MonkeyPatch, platform: str, left: list[str]
) -> None:
    class Item:
        def __init__(self, name: str, *markers: str) -> None:
            self.name, self._markers = name, markers

        def get_closest_marker(self, name: str) -> bool:
            return name in self._markers

    class Config:
        class hook:
            @staticmethod
            def pytest_deselected(items: list[Item]) -> None:
                told.extend(item.name for item in items)

    told: list[str] = []
    monkeypatch.setattr(sys, "platform", platform)
    items = [Item("a", "linux"), Item("b")]
    conftest.pytest_collection_modifyitems(Config, items)  # type: ignore[arg-type]
    assert [item.name for item in items] == left
    assert sorted(told + left) == ["a", "b"], "pytest counts those that were left out"


def test_no_test_skips_itself_for_its_system() -> None:
    """The marker `linux` says it: so a skip is always something that is missing."""
    pattern = re.compile(r"skip(if)?\([^)\n]*(sys\.platform|platform\.system)")
    paths = [path for path in TREE.joinpath("tests").rglob("*.py") if "fixtures" not in path.parts]
    assert [path.name for path in paths if path != Path(__file__) and pattern.search(path.read_text("utf-8"))] == []
