"""A hook runs in the directory that was launched into, and in no other one that has its name by now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import places
from tests.support.children import until
from tests.support.launch_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


@pytest.mark.parametrize("replaced", [True, False])
def test_a_directory_that_was_replaced(home: Home, replaced: bool) -> None:
    place = home.folder / "place"
    place.mkdir()
    id = home.launch("[[sleep:300]]", "--on-complete", "touch here", "--cwd", str(place))
    (folder,) = (home.state / "launches").iterdir()
    if replaced:
        place.rename(home.folder / "moved")
        place.mkdir()
    home.agentctl("stop", id)
    until(lambda: (folder / "hooks.jsonl").exists() and (folder / "hooks.jsonl").read_text().endswith("\n"))
    result = json.loads((folder / "hooks.jsonl").read_text())
    assert (place / "here").exists() != replaced
    assert (result["exit_code"], "is another directory" in "".join(result["last_lines"])) == (
        (None, True) if replaced else (0, False)
    )


def test_which_directory_it_is(tmp_path: Path) -> None:
    first = places.made(str(tmp_path))
    assert first is not None
    device, inode, born = first
    assert not places.is_another(str(tmp_path), first)
    assert not places.is_another(str(tmp_path), None)
    assert not places.is_another(str(tmp_path / "none"), first)
    assert places.is_another(str(tmp_path), (device, inode + 1, born))
    assert places.is_another(str(tmp_path), (device + 1, inode, None))
    if born is not None:
        assert places.is_another(str(tmp_path), (device, inode, born + 1))
        assert not places.is_another(str(tmp_path), (device + 1, inode, born)), "the same, mounted anew"
