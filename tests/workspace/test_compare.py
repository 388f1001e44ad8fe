"""`compare`: the launches of a group side by side, by the real command on agents that really worked."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from typing import TYPE_CHECKING

import pytest

from agentctl.cli import compare as cli
from agentctl.model import Exit, Message, ProcessKey
from agentctl.workspace import compare, diff, git
from agentctl.workspace.diff import Place
from tests.support.children import until
from tests.support.git_world import Git, made
from tests.support.launch_home import COMMAND, LONG, TIMEOUT
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux

WORK = "[[bash:echo x > new; echo more >> a; git add a; git commit -qm work; echo 3 > sub/b]][[text:did it]]"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


def test_side_by_side_while_one_runs(home: Worktrees) -> None:
    ids = {"a": home.ended(WORK, "a"), "c": home.ended("[[fail:no \x1b[31mway]]", "c")}
    ids["b"] = home.slot(f"[[bash:rm a; echo >> sub/b]][[text:half]]{LONG}", "b")
    until(lambda: any(event["event"] == "text" for event in home.events(ids["b"])))
    found = home.compare()
    assert list(found) == ["a", "b", "c"]
    assert {slot: one["session_id"] for slot, one in found.items()} == ids
    assert {slot: (one["status"], one["inferred"]) for slot, one in found.items()} == {
        "a": ("done", False),
        "b": ("running", False),
        "c": ("failed", False),
    }
    keys = ("commits", "files", "added", "removed", "uncommitted", "untracked", "binary")
    assert tuple(found["a"][key] for key in keys) == (1, 3, 3, 1, 2, 1, 0)
    assert tuple(found["b"][key] for key in keys) == (0, 2, 1, 1, 2, 0, 0)
    assert tuple(found["c"][key] for key in keys) == (0, 0, 0, 0, 0, 0, 0)
    base = home.git.head(home.repository)
    for slot, one in found.items():
        path = home.path(slot)
        assert (one["worktree"], one["branch"], one["base"]) == (str(path), f"try/g/{slot}", base)
        assert one["head"] == home.git.head(path)
        assert (one["agent"], one["model"], one["cost_usd"], one["said"]) == ("demo", "demo-1", None, None)
        assert (one["ended_at"] is None) == (slot == "b")
        assert one["seconds"] >= 0
    assert (found["a"]["last_message"], found["b"]["last_message"]) == ("did it", "half")
    # The tokens of each are those that `status` counts of it alone.
    assert {slot: one["tokens"] for slot, one in found.items()} == {
        slot: home.session(id)["tokens"] for slot, id in ids.items()
    }
    table = home.agentctl("compare", "g").stdout
    header, *rows = table.splitlines()
    assert header.split()[:4] == ["SLOT", "AGENT", "MODEL", "STATUS"]
    assert [row.split()[:4] for row in rows] == [
        ["a", "demo", "demo-1", "done"],
        ["b", "demo", "demo-1", "running"],
        ["c", "demo", "demo-1", "failed"],
    ]
    assert "\x1b" not in table


def test_the_whole_diff_and_nothing_is_changed(home: Worktrees) -> None:
    """Committed, uncommitted and untracked, as one diff that makes another tree the same; binary files, too."""
    for name, value in {"diff.noprefix": "true", "diff.submodule": "log", "color.ui": "always"}.items():
        home.git(home.repository, "config", name, value)
    home.ended(f"{WORK}[[bash:printf 'a\\0b' > binary; echo x > ignored; mkdir deep; echo 'ü' > 'deep/ü x']]")
    path = home.path()
    (home.repository / ".git" / "info" / "exclude").write_text("ignored\n")
    home.env["TMPDIR"] = home.folder_named("tmp")
    before = state(home, path)
    words = [*COMMAND, "compare", "g", "--diff", "a"]
    done = subprocess.run(words, cwd=home.repository, env=home.env, capture_output=True, timeout=TIMEOUT, check=True)
    assert b"\x1b" not in done.stdout
    assert state(home, path) == before
    assert os.listdir(home.folder / "tmp") == []
    patch = home.folder / "patch"
    patch.write_bytes(done.stdout)
    home.git(home.repository, "apply", str(patch))
    for name in ("a", "new", "sub/b", "binary", "deep/ü x"):
        assert (home.repository / name).read_bytes() == (path / name).read_bytes(), name
    assert not (home.repository / "ignored").exists()
    stat = home.agentctl("compare", "g", "--stat", "a").stdout
    assert "5 files changed" in stat


@pytest.mark.parametrize("colour", [True, False])
def test_what_a_diff_shows_to_a_terminal_is_not_obeyed(home: Worktrees, colour: bool) -> None:
    home.ended("[[bash:printf '\\tred \\033[31m\\302\\233 \\342\\200\\256.\\r\\n' > new; git add new]]")
    env = {**home.env, "TERM": "xterm"} if colour else {**home.env, "NO_COLOR": "1"}
    shown = in_a_terminal([*COMMAND, "compare", "g", "--diff", "a"], home.repository, env)
    (line,) = [line for line in shown.splitlines() if "red" in line]
    assert line == ("\x1b[32m{}\x1b[0m" if colour else "{}").format("+\tred \\x1b[31m\\x9b \\u202e.")
    assert "\x1b" not in in_a_terminal([*COMMAND, "compare", "g", "--stat", "a"], home.repository, env)


def in_a_terminal(argv: list[str], cwd: Path, env: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    said = b""
    with subprocess.Popen(argv, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        while select.select([ours], [], [], TIMEOUT)[0]:
            try:
                said += os.read(ours, 65536)
            except OSError:  # its last holder has ended
                break
        assert child.wait(TIMEOUT) == 0, said
    os.close(ours)
    return said.decode()


def state(home: Worktrees, path: Path) -> object:
    """Every file of the repository and of the worktree, by its bytes; what git says of it."""
    files = {}
    for top in (home.repository, path):
        for folder, _, names in os.walk(top):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    files[os.path.join(folder, name)] = file.read()
    return files, home.git(path, "--no-optional-locks", "status", "--porcelain")


def test_a_reader_who_has_seen_enough(home: Worktrees) -> None:
    home.ended("[[bash:seq 1 200000 > many]]")
    child = subprocess.Popen(
        [*COMMAND, "compare", "g", "--diff", "a"],
        cwd=home.repository, env=home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stderr is not None
    assert child.stdout.readline().startswith(b"diff --git a/many")
    child.stdout.close()
    said = child.stderr.read()
    assert (child.wait(TIMEOUT), said) == (0, b"")
    child.stderr.close()


def test_the_worktree_is_gone(home: Worktrees) -> None:
    home.ended(WORK)
    assert home.clean("g", "--force").returncode == 0
    one = home.compare()["a"]
    assert (one["commits"], one["files"], one["uncommitted"], one["worktree_there"]) == (1, 1, 0, False)
    assert "what was committed is on try/g/a" in one["said"]
    assert "+more" in home.agentctl("compare", "g", "--diff", "a").stdout
    home.git(home.repository, "branch", "-D", "try/g/a")
    one = home.compare()["a"]
    assert (one["commits"], one["files"], one["head"], one["status"]) == (None, None, None, "done")
    assert "are gone" in one["said"]
    done = home.agentctl("compare", "g", "--diff", "a")
    assert (done.returncode, done.stdout) == (3, "")
    os.rename(home.repository, home.folder / "away")
    assert "the repository is gone" in home.agentctl("compare", "g", cwd=home.folder).stderr


def test_launches_without_worktrees_are_in_it_too(home: Worktrees) -> None:
    id = home.launch("[[text:hello]]", "--group", "g")
    home.wait_until_quiet()
    home.ended(WORK)
    (single,) = [one for one in home.compare().values() if one["session_id"] == id]
    assert single["slot"] == single["launch_id"]
    assert (single["status"], single["files"], single["last_message"]) == ("done", None, "hello")
    assert "without a worktree" in single["said"]


def test_a_session_that_was_resumed_is_one_row(home: Worktrees) -> None:
    id = home.ended(WORK)
    assert home.agentctl("resume", id, "[[text:again]]", "--group", "g").returncode == 0
    home.wait_until_quiet()
    found = home.compare()
    assert list(found) == ["a"]
    assert (found["a"]["last_message"], found["a"]["commits"]) == ("again", 1)


def test_no_such_group_or_slot(home: Worktrees) -> None:
    done = home.agentctl("compare", "g")
    assert (done.returncode, done.stdout) == (3, "")
    assert "nothing was launched with --group" in done.stderr
    home.ended("[[text:x]]")
    assert "known: g" in home.agentctl("compare", "other").stderr
    done = home.agentctl("compare", "g", "--diff", "b")
    assert done.returncode == 3
    assert "no slot 'b' in group g; it has a" in done.stderr


# The diff itself


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Git]:
    world = Git(tmp_path)
    yield world
    assert world.locks() == []


def place(world: Git, repository: Path) -> Place:
    plan = made(world, repository)
    return Place(plan.repository, plan.base, plan.path, plan.branch)


SETTINGS = {
    "diff.external": "false",
    "color.ui": "always",
    "core.splitIndex": "true",
    "core.untrackedCache": "true",
    "status.showUntrackedFiles": "no",
    "diff.ignoreSubmodules": "all",
}


def test_odd_trees(world: Git) -> None:
    """Renames, conflicts, an embedded repository, a path with a colon, settings that would get in the way."""
    repository = world.repository('re:po "x"')
    for name, value in SETTINGS.items():
        world(repository, "config", name, value)
    one = place(world, repository)
    path = one.worktree or ""
    world(path, "mv", "a", "renamed")
    world(path, "init", "-q", "inner")
    world(os.path.join(path, "inner"), "commit", "-q", "--allow-empty", "-m", "x")
    with open(os.path.join(path, "new\nline"), "w") as file:
        file.write("1\n2\n")
    shared = sorted(name for name in os.listdir(one.common) if name.startswith("sharedindex"))
    found = diff.measure(one, world.env)
    assert (found.files, found.added, found.removed) == (3, 3, 0)  # of the repository in it: its commit
    assert (found.uncommitted, found.untracked, found.commits) == (4, 2, 0)
    assert sorted(name for name in os.listdir(one.common) if name.startswith("sharedindex")) == shared
    assert world(path, "ls-files", "--", "new\nline") == ""


def test_a_base_that_is_not_there(world: Git) -> None:
    one = place(world, world.repository())._replace(base="1" * 40)
    with pytest.raises(git.GitFailed, match="git diff: "):
        diff.measure(one, world.env)


def test_in_the_middle_of_a_merge(world: Git) -> None:
    repository = world.repository()
    one = place(world, repository)
    path = one.worktree or ""
    (repository / "a").write_text("theirs\n")
    world.commit(repository)
    with open(os.path.join(path, "a"), "w") as file:
        file.write("ours\n")
    world(path, "commit", "-qam", "ours")
    assert git.run(path, "merge", "-q", "main", env=world.env).code == 1
    found = diff.measure(one, world.env)
    assert (found.commits, found.uncommitted) == (1, 1)
    assert found.files >= 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", (0, 0, 0, 0)),
        ("1\t2\ta\0-\t-\tb\0", (2, 1, 2, 1)),
        ("0\t0\t\x00old\x00new\x00" + "3\t4\tz\x00", (2, 3, 4, 0)),
        ("1\t0\ta\tb\0", (1, 1, 0, 0)),
    ],
)
def test_counting(said: str, expected: tuple[int, ...]) -> None:
    assert diff.count(said) == expected


# Small parts


def test_last_words() -> None:
    own, tool = Message("assistant", " done \n"), Message("result", "output")
    assert compare.last_words([own, tool]) == "done"
    assert compare.last_words([tool, Message("assistant", "  ")]) == "output"
    assert compare.last_words([]) is None
    assert len(compare.last_words([Message("assistant", "x" * 20_000)]) or "") == compare.TEXT_LIMIT


def test_a_launch_that_never_had_a_session() -> None:
    key = ProcessKey("b", 1, 2)
    assert compare.how_it_ended(None)[0] == "unknown"
    assert compare.how_it_ended(Exit(key, "x", 3, None, 1.0)) == ("failed", False, "no session; exit code 3")
    assert compare.how_it_ended(Exit(key, "x", None, "SIGKILL", 1.0))[0] == "stopped"
    assert compare.how_it_ended(Exit(key, "x", 0, None, 1.0))[0] == "unknown"


@pytest.mark.parametrize(("number", "text"), [(None, "-"), (0, "0"), (999, "999"), (1000, "1.0k"), (2_500_000, "2.5M")])
def test_short_numbers(number: int | None, text: str) -> None:
    assert cli.short(number) == text


def test_json_is_one_document(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    answer = json.loads(home.agentctl("compare", "g", "--json").stdout)
    assert (answer["schema"], answer["group"], answer["problems"]) == (1, "g", [])
