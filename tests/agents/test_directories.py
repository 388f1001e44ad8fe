"""Which directory a process is in, by what its agent may have written down for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentctl.agents.directories import is_in, names_of
from agentctl.kernel.places import identity
from agentctl.model import Details

if TYPE_CHECKING:
    from pathlib import Path


def test_the_names_of_a_directory(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    assert names_of(Details()) == ()
    assert names_of(Details(cwd=str(real))) == (str(real),)
    # The kernel's own name has no links of the process; one of ours may stand there.
    assert names_of(Details(cwd=str(link))) == (str(real), str(link))
    started = Details(cwd=str(real), env={"PWD": "/was/here", "HOME": "/h"})
    assert names_of(started) == (str(real), "/was/here")
    assert names_of(Details(cwd=str(real), env={"PWD": "relative"})) == (str(real),)


def test_a_recorded_directory_that_is_the_same_one(tmp_path: Path) -> None:
    real, link, other = tmp_path / "real", tmp_path / "link", tmp_path / "other"
    real.mkdir()
    other.mkdir()
    link.symlink_to(real)
    details = Details(cwd="/in/its/own/mounts", directory=identity(str(real)))
    assert is_in(details, "/in/its/own/mounts")
    assert is_in(details, str(real))
    assert is_in(details, str(link))
    assert not is_in(details, str(other))
    assert not is_in(details, str(tmp_path / "none"))
    assert not is_in(details._replace(directory=None), str(real))
