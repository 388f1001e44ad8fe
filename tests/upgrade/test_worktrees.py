"""Groups, worktrees and locks of the version before the rooms: the version at hand shows them, compares them, keeps
what lives or would be lost, and removes the rest."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.children import until
from tests.support.upgrade_home import agrees, launched, upgrade

if TYPE_CHECKING:
    from tests.support.git_home import GitHome

pytestmark = pytest.mark.linux

UNTIL_TOLD = '[[bash:while [ ! -e "$HOME/go" ]; do sleep 0.02; done]]'  # in whichever worktree
CHANGING = {"seconds"}  # of a session that lives: until now


def asked(home: GitHome, *words: str, code: int = 0) -> dict[str, Any]:
    done = home.agentctl(*words, "--json")
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compared(home: GitHome) -> dict[str, dict[str, Any]]:
    slots = asked(home, "compare", "g")["slots"]
    return {one["slot"]: {name: one[name] for name in one.keys() - CHANGING} for one in slots}


def test_a_group_in_worktrees(git_home: GitHome, way: str) -> None:
    """Two slots: one commits and goes on, the other has nothing to show. Both versions say the same of them."""
    home = git_home
    words = ("--agent", "demo", "--model", "big", "--agent", "demo", "--model", "small", "--group", "g")
    slots = home.slots(*words, "-p", UNTIL_TOLD)
    paths = {slot: one["worktree"] for slot, one in slots.items()}
    assert sorted(paths) == ["demo-big", "demo-small"]
    for one in slots.values():
        launched(home, one["launch_id"])
    big, small = paths["demo-big"], paths["demo-small"]
    with open(os.path.join(big, "file"), "a") as file:
        file.write("two\n")
    home.git("commit", "-q", "-a", "-m", "two", cwd=home.folder / big)
    (home.folder / big / "more").write_text("3\n")
    before = [compared(home), asked(home, "worktree", "list"), home.listed("--group", "g")["sessions"]]
    upgrade(home, way)

    assert agrees(before, [compared(home), asked(home, "worktree", "list"), home.listed("--group", "g")["sessions"]])
    row = before[0]["demo-big"]
    assert (row["status"], row["commits"], row["added"], row["untracked"]) == ("running", 1, 2, 1)
    for flags in ((), ("--force", "--delete-branch")):  # who lives there is not disturbed
        kept = asked(home, "worktree", "clean", big, small, *flags, code=4)["worktrees"]
        assert [one["outcome"] for one in kept] == ["kept", "kept"]
    (home.folder / "go").touch()
    assert home.agentctl("wait", "--group", "g", "--until", "ended").returncode == 0
    home.wait_until_quiet()
    assert {one["status"] for one in compared(home).values()} == {"done"}

    found = asked(home, "worktree", "clean", "--merged")["worktrees"]
    assert [(one["path"], one["outcome"]) for one in found if one["outcome"] != "kept"] == [(small, "removed")]
    assert home.agentctl("worktree", "clean", big).returncode == 4  # there is work in it
    assert home.worktrees() == [os.path.realpath(big)]
    asked(home, "worktree", "clean", "g", "--force", "--delete-branch")
    assert home.worktrees() == []


def test_a_lock_of_a_person(git_home: GitHome, way: str) -> None:
    home = git_home
    place, other = home.folder_named("place"), home.folder_named("other")
    assert home.agentctl("lock", place, "--by", "ann", "--reason", "release", "--ttl", "1h").returncode == 0
    assert home.agentctl("lock", other, "--by", "ann").returncode == 0
    before = asked(home, "locks")
    upgrade(home, way)
    assert agrees(before, asked(home, "locks"))
    assert {(row["directory"], row["kind"], row["holder"]) for row in before["locks"]} == {
        (place, "manual", "ann"),
        (other, "manual", "ann"),
    }
    refused = home.agentctl("launch", "demo", "-p", "hello", "--cwd", place)
    assert (refused.returncode, "ann" in refused.stderr, "release" in refused.stderr) == (4, True, True)
    assert home.agentctl("lock", place, "--by", "bob").returncode == 4
    assert home.agentctl("unlock", place, "--by", "ann").returncode == 0
    assert [row["directory"] for row in asked(home, "locks")["locks"]] == [other]
    assert home.launch("hello", "--cwd", place, "--wait")
    home.wait_until_quiet()


def test_a_place_where_an_agent_works(git_home: GitHome, way: str) -> None:
    """The directory of a live agent of the old version is taken, for the new one, too."""
    home = git_home
    id = home.launch(UNTIL_TOLD)
    launch = launched(home, id)
    upgrade(home, way)
    (row,) = asked(home, "locks")["locks"]
    assert (row["directory"], row["kind"], row["holder"], row["launch_id"]) == (
        *(str(home.work), "session", id),
        launch.id,
    )
    refused = home.agentctl("launch", "demo", "-p", "hello")
    assert (refused.returncode, id in refused.stderr) == (4, True)
    (home.folder / "go").touch()
    until(lambda: home.session(id)["status"] == "done")
    home.wait_until_quiet()
    home.launch("hello")
    home.wait_until_quiet()
