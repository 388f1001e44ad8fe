"""The version before the rooms, unpacked once, and homes that begin with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.git_home import git_home_in
from tests.support.launch_home import Home
from tests.support.upgrade_home import WAYS, install, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.git_home import GitHome


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("old"))


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def home(tmp_path: Path, old: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    install(home, old)
    try:
        yield home
    finally:
        home.end_all()


@pytest.fixture
def git_home(tmp_path: Path, old: Path) -> Iterator[GitHome]:
    with git_home_in(tmp_path) as home:
        install(home, old)
        yield home
