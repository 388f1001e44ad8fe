"""A group is a repository and a name, and a slot is its newest launch: for every command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import NotFound, SeveralGroups
from agentctl.launches import groups
from agentctl.model import Launch, ProcessKey
from tests.support.git_world import Git

if TYPE_CHECKING:
    from pathlib import Path

KEY = ProcessKey("boot", 1, 1)


def launched(id: str, *, slot: str | None = None, group: str = "night", **more: str) -> Launch:
    kinds = {"headless": True, "one_shot": True, "pid_namespace": None}
    given = {"cwd": "/nowhere", "runner": KEY, "child": KEY, "created_at": 1.0, **kinds, **more}
    return Launch(id=id, agent="demo", argv=(), env_names=(), group=group, slot=slot, **given)  # type: ignore[arg-type]


def test_a_slot_is_its_newest_launch_and_its_place_is_the_worktree(tmp_path: Path) -> None:
    first = launched("l1", slot="a", worktree="/w")
    again = launched("l2", slot="a", worktree="/w+2")
    resumed_by_an_older_agentctl = launched("l3", slot="a")
    alone = launched("l4")
    found = groups.slots([first, again, resumed_by_an_older_agentctl, alone])
    assert [(one.name, one.launch.id, one.given.id) for one in found] == [("a", "l3", "l2"), ("l4", "l4", "l4")]
    by_word = {word: groups.slot_named(word, [first, again, alone]) for word in ("a", "l1", "l4", "x")}
    assert {word: one and one.given.id for word, one in by_word.items()} == {
        "a": "l2",
        "l1": "l1",
        "l4": "l4",
        "x": None,
    }


@pytest.fixture
def world(tmp_path: Path) -> Git:
    return Git(tmp_path)


@pytest.fixture
def two(world: Git) -> list[Launch]:
    """A group `night` in each of two repositories."""
    for name in ("A", "B"):
        world.repository(name)
    a, b = (str(world.folder / name) for name in ("A", "B"))
    return [launched("l1", repository=f"{a}/.git"), launched("l2", cwd=b), launched("l3", group="late", cwd=b)]


@pytest.mark.parametrize(
    ("where", "group", "meant"),
    [
        ("A", "night", ["l1"]),
        ("A/sub", "night", ["l1"]),
        ("B/sub", "night", ["l2"]),
        ("B", "late", ["l3"]),
        ("A", "late", ["l3"]),  # one alone has this name
        (".", "late", ["l3"]),
        ("A", "never", []),
    ],
)
def test_a_name_means_the_group_of_this_repository(
    world: Git, two: list[Launch], where: str, group: str, meant: list[str]
) -> None:
    assert [one.id for one in groups.meant(group, two, str(world.folder / where))] == meant


@pytest.mark.parametrize("where", [".", None])
def test_outside_of_both_it_is_ambiguous(world: Git, two: list[Launch], where: str | None) -> None:
    here = None if where is None else str(world.folder / where)
    with pytest.raises(SeveralGroups) as raised:
        groups.of_group("night", two, here)
    assert raised.value.exit_code == 3
    assert raised.value.repositories == [str(world.folder / name) for name in ("A", "B")]


def test_what_there_is_if_there_is_no_such_group(two: list[Launch]) -> None:
    with pytest.raises(NotFound, match="no group 'never'; known: late, night"):
        groups.of_group("never", two, "/")


def test_the_repository_is_found_as_git_finds_it(world: Git) -> None:
    repository = world.repository()
    world(repository, "worktree", "add", "-q", "--detach", "../linked")
    world(world.folder, "clone", "-q", "--bare", str(repository), "bare.git")
    world(world.folder / "bare.git", "worktree", "add", "-q", "../of-bare")
    world(repository, "submodule", "add", "-q", str(repository), "module")
    (world.folder / "link").symlink_to(repository / "sub")
    for name in ("repo", "repo/sub", "repo/.git", "linked/sub", "bare.git", "of-bare", "repo/module/sub", "link"):
        folder = str(world.folder / name)
        said = world(folder, "rev-parse", "--path-format=absolute", "--git-common-dir")
        assert groups.repository_at(folder) == os.path.realpath(said), name
    assert groups.repository_at(str(world.folder)) is None
    assert groups.repository_at(str(repository / "removed" / "since")) == str(repository / ".git")
