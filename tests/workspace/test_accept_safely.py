"""`accept` loses nothing of the person's, says what is so, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import Interrupted, Refused
from agentctl.kernel.interrupts import ENDING, heed_ends
from agentctl.workspace import accept, git, locks, merging
from tests.support.launch_home import LONG
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.linux

COMMITTED = "[[bash:echo mine > a; git commit -qam work]]"
NEW = "[[bash:echo mine > a; echo theirs > notes; git add -f a notes; git commit -qm work]]"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


def commit(home: Worktrees, name: str, text: str) -> None:
    (home.repository / name).write_text(text)
    home.git(home.repository, "add", "-f", name)
    home.git(home.repository, "commit", "-qm", name)


def facts(home: Worktrees) -> list[str]:
    """What must be the same after a refusal, here and in the slot."""
    words = (("rev-parse", "HEAD"), ("ls-files", "--stage"), ("status", "--porcelain"))
    return [home.git(where, *each) for where in (home.repository, home.path("a")) for each in words]


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
@pytest.mark.parametrize("forward", [True, False])
def test_a_file_that_git_was_told_not_to_look_at(home: Worktrees, flag: str, forward: bool) -> None:
    home.ended(COMMITTED, "a")
    if not forward:
        commit(home, "other", "mine\n")
    home.git(home.repository, "update-index", flag, "a")
    (home.repository / "a").write_text("my only copy\n")
    before = facts(home)
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 4 and "git was told not to look at a;" in done.stderr
    assert "nothing was changed" in done.stderr and facts(home) == before
    assert (home.repository / "a").read_text() == "my only copy\n"


@pytest.mark.parametrize("case", ["forward", "merge", "conflict"])
@pytest.mark.parametrize("ignored", [True, False])
def test_a_file_that_git_does_not_track(home: Worktrees, case: str, ignored: bool) -> None:
    home.ended(NEW, "a")
    if case != "forward":
        commit(home, "a" if case == "conflict" else "other", "another\n")
    if ignored:
        (home.repository / ".git" / "info" / "exclude").write_text("notes\n")
    (home.repository / "notes").write_text("my only copy\n")
    before = facts(home)
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 4 and "nothing was changed" in done.stderr, done.stderr
    assert case == "conflict" or "has notes, which git does not track; move that away" in done.stderr
    assert (home.repository / "notes").read_text() == "my only copy\n" and facts(home) == before


@pytest.mark.parametrize("place", ["notes/deep", "notes"])
def test_an_ignored_file_where_a_folder_comes_and_the_reverse(home: Worktrees, place: str) -> None:
    made = "notes" if place != "notes" else "notes/deep"
    script = f"mkdir -p $(dirname {made}); echo theirs > {made}; git add -f {made}; git commit -qm work"
    home.ended(f"[[bash:{script}]]", "a")
    (home.repository / ".git" / "info" / "exclude").write_text("notes\n")
    (home.repository / place).parent.mkdir(exist_ok=True)
    (home.repository / place).write_text("my only copy\n")
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 4 and f"has {place}, which git does not track" in done.stderr, done.stderr
    assert (home.repository / place).read_text() == "my only copy\n"


def test_a_tracked_folder_may_become_a_file(home: Worktrees) -> None:
    commit(home, "place", "x\n")
    home.ended("[[bash:git rm -q place; mkdir place; echo y > place/y; git add place; git commit -qm work]]", "a")
    assert home.agentctl("accept", "g", "a").returncode == 0
    assert (home.repository / "place" / "y").read_text() == "y\n"


def test_other_changes_of_the_person_stay(home: Worktrees) -> None:
    commit(home, "other", "x\n")
    home.ended(COMMITTED, "a")
    commit(home, "third", "x\n")
    (home.repository / "other").write_text("half a thought\n")
    (home.repository / "new").write_text("new\n")
    home.git(home.repository, "add", "new")
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 0, done.stderr
    assert home.git(home.repository, "status", "--porcelain").splitlines() == ["A  new", " M other"]
    assert (home.repository / "a").read_text() == "mine\n"


@pytest.mark.parametrize("option", ["-s ours", "-X ours"])
def test_settings_choose_no_other_merge(home: Worktrees, option: str) -> None:
    home.ended("[[bash:echo theirs > new; git add new; git commit -qm work]]", "a")
    commit(home, "other", "mine\n")
    home.git(home.repository, "config", "branch.main.mergeOptions", option)
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 0, done.stderr
    assert (home.repository / "new").read_text() == "theirs\n"
    assert home.git(home.repository, "log", "-1", "--format=%s").strip() == "Merge branch 'try/g/a' into main"
    assert home.git(home.repository, "status", "--porcelain") == ""


def test_what_is_refused_commits_nothing_in_the_slot(home: Worktrees) -> None:
    home.ended("[[bash:echo theirs > a; echo new > b]]", "a")
    (home.repository / "a").write_text("mine\n")
    before = facts(home)
    done = home.agentctl("accept", "g", "a", "-m", "work")
    assert done.returncode == 4 and "nothing was changed" in done.stderr
    assert facts(home) == before


def test_what_was_left_is_committed_in_the_slot_too(home: Worktrees) -> None:
    home.ended("[[bash:echo theirs > a; echo new > b; mkdir d; echo x > d/x]]", "a")
    assert home.agentctl("accept", "g", "a", "-m", "work").returncode == 0
    assert home.git.head(home.path("a")) == home.git.head(home.repository)
    assert home.git(home.path("a"), "status", "--porcelain") == ""
    assert home.git(home.repository, "status", "--porcelain") == ""


def test_a_repository_that_the_slot_made(home: Worktrees) -> None:
    script = "git init -q lib; cd lib; echo work > w; git add w; git commit -qm w"
    home.ended(f"[[bash:{script}]]", "a")
    before = facts(home)
    done = home.agentctl("accept", "g", "a", "-m", "work")
    assert done.returncode == 4 and "lib is a repository of its own" in done.stderr, done.stderr
    assert facts(home) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_waits_for_the_act_and_is_told(
    home: Worktrees, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    home.ended(COMMITTED, "a")
    before = {one: signal.signal(one, signal.SIG_DFL) for one in ENDING}
    heed_ends()
    real = merging.done

    def slow(cwd: str, *words: str, env: Mapping[str, str], more: Mapping[str, str] | None = None) -> str:
        found = real(cwd, *words, env=env, more=more)
        os.kill(os.getpid(), number)
        time.sleep(0)
        return found

    monkeypatch.setattr(merging, "done", slow)
    try:
        with pytest.raises(Interrupted) as raised:
            accept.accept("g", "a", str(home.repository), None, home.env)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert f"{home.repository} is at {home.git.head(home.path('a'))[:12]} now, and was at " in str(raised.value)
    assert home.git(home.repository, "status", "--porcelain") == ""


def test_a_checkout_that_stops_is_taken_back(home: Worktrees, monkeypatch: pytest.MonkeyPatch) -> None:
    home.ended(NEW, "a")
    before = facts(home)
    real = merging.done

    def broken(cwd: str, *words: str, env: Mapping[str, str], more: Mapping[str, str] | None = None) -> str:
        if "read-tree" in words:  # the disk is full in the middle
            (home.repository / "a").write_text("mine\n")
            (home.repository / "notes").write_text("the")
            raise git.GitFailed("no space left")
        return real(cwd, *words, env=env, more=more)

    monkeypatch.setattr(merging, "done", broken)
    with pytest.raises(git.GitFailed, match="no space left; nothing was changed"):
        accept.accept("g", "a", str(home.repository), None, home.env)
    assert facts(home) == before


def breaking(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], *, fails: bool) -> None:
    """Do something right before git's checkout, which then fails, or runs as it does."""
    real = merging.done

    def broken(cwd: str, *words: str, env: Mapping[str, str], more: Mapping[str, str] | None = None) -> str:
        if "read-tree" in words:
            act()
            if fails:
                raise git.GitFailed("no space left")
        return real(cwd, *words, env=env, more=more)

    monkeypatch.setattr(merging, "done", broken)


def test_nothing_behind_a_link_is_taken_back(home: Worktrees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slot has put a folder in the place of a link; git cannot begin, so the link is still there."""
    (shared := tmp_path / "shared").mkdir()
    (shared / "settings").write_text("copy\n")
    (home.repository / "conf").symlink_to(shared)
    home.git(home.repository, "add", "conf")
    home.git(home.repository, "commit", "-qm", "link")
    home.ended("[[bash:rm conf; mkdir conf; echo copy > conf/settings; git add -A; git commit -qm work]]", "a")
    breaking(monkeypatch, lambda: None, fails=True)
    with pytest.raises(git.GitFailed, match="no space left; nothing was changed"):
        accept.accept("g", "a", str(home.repository), None, home.env)
    assert (shared / "settings").read_text() == "copy\n" and (home.repository / "conf").is_symlink()


@pytest.mark.parametrize("fails", [True, False])
def test_what_a_person_saves_meanwhile_is_not_taken_back(
    home: Worktrees, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    home.ended(NEW, "a")

    def save() -> None:
        (home.repository / "a").write_text("my only copy\n")
        (home.repository / "notes").write_text("mine, too\n")

    breaking(monkeypatch, save, fails=fails)
    with pytest.raises(git.GitFailed, match="a, notes changed meanwhile, and stays as it is now; the files or the"):
        accept.accept("g", "a", str(home.repository), None, home.env)
    assert (home.repository / "a").read_text() == "my only copy\n"
    assert (home.repository / "notes").read_text() == "mine, too\n"


def test_an_ignored_file_that_a_person_makes_meanwhile(home: Worktrees, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git overwrites what it is told to ignore."""
    home.ended(NEW, "a")
    (home.repository / ".git" / "info" / "exclude").write_text("notes\n")
    real = merging.refuse_overwriting

    def then_made(*all: Any) -> None:
        real(*all)
        (home.repository / "notes").write_text("my only copy\n")

    monkeypatch.setattr(merging, "refuse_overwriting", then_made)
    with pytest.raises(Refused, match="has notes, which git does not track"):
        accept.accept("g", "a", str(home.repository), None, home.env)
    assert (home.repository / "notes").read_text() == "my only copy\n"


def test_a_half_made_folder_in_the_place_of_a_link_is_taken_back(
    home: Worktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.repository / "conf").symlink_to("nowhere")
    (home.repository / "d").mkdir()
    (home.repository / "d" / "x").write_text("x\n")
    home.git(home.repository, "add", "conf", "d")
    home.git(home.repository, "commit", "-qm", "link")
    script = "rm -r conf d; mkdir -p conf/deep; echo copy > conf/deep/settings; ln -s to d; git add -A"
    home.ended(f"[[bash:{script}; git commit -qm work]]", "a")
    before = facts(home)

    def half() -> None:
        (home.repository / "conf").unlink()
        (home.repository / "conf" / "deep").mkdir(parents=True)
        (home.repository / "conf" / "deep" / "settings").write_text("co")
        (home.repository / "d" / "x").unlink()
        (home.repository / "d").rmdir()
        (home.repository / "d").symlink_to("to")

    breaking(monkeypatch, half, fails=True)
    with pytest.raises(git.GitFailed, match="no space left; nothing was changed"):
        accept.accept("g", "a", str(home.repository), None, home.env)
    assert facts(home) == before and (home.repository / "conf").is_symlink()
    assert (home.repository / "d" / "x").read_text() == "x\n"


def test_a_branch_that_cannot_be_moved(home: Worktrees) -> None:
    home.ended(NEW, "a")
    hook = home.repository / ".git" / "hooks" / "reference-transaction"
    hook.write_text('#!/bin/sh\n! grep -q refs/heads/main || [ "$1" != prepared ]\n')
    hook.chmod(0o755)
    before = facts(home)
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 1 and "nothing was changed" in done.stderr, done.stderr
    assert facts(home) == before and not (home.repository / "notes").exists()


def test_what_was_changed_is_not_called_nothing(home: Worktrees, monkeypatch: pytest.MonkeyPatch) -> None:
    home.ended(COMMITTED, "a")

    def broken(top: str, *_: object) -> None:
        (home.repository / "a").write_text("by somebody\n")
        raise Refused("it failed")

    monkeypatch.setattr(merging, "bring", broken)
    with pytest.raises(Refused, match=r"it failed; the files or the index of .* were changed: see `git status` there"):
        accept.accept("g", "a", str(home.repository), None, home.env)


def test_what_cannot_be_compared_is_not_called_nothing(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    os.mkfifo(home.repository / ".gitignore")
    done = home.agentctl("accept", "g", "a")
    assert done.returncode != 0 and f"it cannot be told what was changed in {home.repository}" in done.stderr
    assert "nothing was changed" not in done.stderr


def test_it_is_judged_behind_the_gates(home: Worktrees) -> None:
    """While accept waits at the gate of the person's worktree, an agent begins in the slot."""
    home.ended("[[bash:echo first > new]]", "a")
    with locks.gate(home.env, str(home.repository)):
        waiting = home.start("accept", "g", "a", "-m", "work")
        id = home.agentctl("launch", "demo", "-p", LONG, "--cwd", str(home.path("a"))).stdout.strip()
        assert waiting.poll() is None
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 4 and id in said, said
    assert not (home.repository / "new").exists()


def test_it_waits_at_the_gate_of_the_slot(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    with locks.gate(home.env, str(home.path("a"))):
        waiting = home.start("accept", "g", "a")
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=4)
        assert (home.repository / "a").read_text() != "mine\n"
    assert waiting.communicate(timeout=60) and waiting.returncode == 0


def test_two_that_go_opposite_ways_do_not_wait_for_each_other(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    home.ended("[[bash:echo b > b; git add b; git commit -qm b]]", "b")
    both = [home.start("accept", "g", slot, cwd=home.path(other)) for slot, other in (("a", "b"), ("b", "a"))]
    assert [one.communicate(timeout=60)[1] and one.returncode for one in both] == [0, 0]


def test_a_slot_whose_session_was_resumed(home: Worktrees) -> None:
    id = home.ended("[[bash:echo first > new]]", "a")
    assert home.agentctl("resume", id, "[[bash:echo second > new]]").returncode == 0
    home.wait_until_quiet()
    done = home.agentctl("accept", "g", "a", "-m", "work")
    assert done.returncode == 0, done.stderr
    assert (home.repository / "new").read_text() == "second\n"


@pytest.mark.parametrize("forward", [True, False])
def test_a_file_that_was_only_touched_is_in_nobodys_way(home: Worktrees, forward: bool) -> None:
    """Saved as it was, by a formatter, or restored from a backup: its contents count."""
    home.ended(COMMITTED, "a")
    if not forward:
        commit(home, "other", "mine\n")
    os.utime(home.repository / "a", (1, 1))
    printed = home.agentctl("accept", "g", "a", "--print")
    done = home.agentctl("accept", "g", "a")
    assert (printed.returncode, done.returncode) == (0, 0), done.stderr
    assert (home.repository / "a").read_text() == "mine\n"
    assert home.git(home.repository, "status", "--porcelain") == ""


LOCKS = {
    "index here": "index.lock",
    "HEAD here": "HEAD.lock",
    "branch here": "refs/heads/main.lock",
    "index of the slot": "worktrees/repo-g-a/index.lock",
    "HEAD of the slot": "worktrees/repo-g-a/HEAD.lock",
    "branch of the slot": "refs/heads/try/g/a.lock",
}


@pytest.mark.parametrize("which", LOCKS)
@pytest.mark.parametrize("words", [(), ("--print",)])
def test_a_lock_of_git_is_found_before_anything_moves(home: Worktrees, which: str, words: tuple[str, ...]) -> None:
    """A git command was killed there. `--print` refuses as accept does."""
    home.ended("[[bash:echo theirs > a; echo new > b]]", "a")
    before = facts(home)
    lock = home.repository / ".git" / LOCKS[which]
    lock.touch()
    done = home.agentctl("accept", "g", "a", "-m", "work", *words)
    lock.unlink()  # the remedy that the message names
    assert done.returncode == 4 and f"{lock} is there: " in done.stderr, done.stderr
    assert facts(home) == before
    assert home.agentctl("accept", "g", "a", "-m", "work").returncode == 0
    assert home.git(home.path("a"), "status", "--porcelain") == ""


def test_a_lock_of_a_git_that_works_is_waited_for(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    lock = home.repository / ".git" / "index.lock"
    lock.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: lock.unlink(missing_ok=True))
        _, head = accept.accept("g", "a", str(home.repository), None, home.env)
    assert head == home.git.head(home.path("a"))


def test_the_branch_of_the_slot_does_not_move_without_its_index(
    home: Worktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock comes between the look and the act."""
    home.ended("[[bash:echo new > b]]", "a")
    slot = home.git.head(home.path("a"))
    real = merging.move_branch

    def with_lock(*all: Any) -> None:
        lock = home.repository / ".git" / LOCKS["index of the slot"]
        lock.touch()
        try:
            real(*all)
        finally:
            lock.unlink()

    monkeypatch.setattr(merging, "move_branch", with_lock)
    with pytest.raises(git.GitFailed, match=f"{home.repository} is at .* now, and was at "):
        accept.accept("g", "a", str(home.repository), "work", home.env)
    assert home.git.head(home.path("a")) == slot
    assert home.git(home.path("a"), "status", "--porcelain") == "?? b"
