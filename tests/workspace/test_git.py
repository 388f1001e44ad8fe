"""Git as a program: in its own words, bounded, without a shell, and with nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import UsageError
from agentctl.kernel import commands
from agentctl.workspace import git
from tests.support.children import until
from tests.support.git_world import Git

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEPT_ON_PURPOSE = {
    "GIT_CONFIG",  # of `git config` without a file; we name the file
    "GIT_CONFIG_PARAMETERS",  # -c of the person, such as safe.directory
    "GIT_CONFIG_COUNT",
}
SLOW = 0.3


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Git]:
    world = Git(tmp_path)
    yield world
    assert world.locks() == []


def put_in_path(world: Git, name: str, text: str) -> None:
    folder = world.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    world.env["PATH"] = f"{folder}:{world.env['PATH']}"


def test_what_points_to_another_repository_is_forgotten(world: Git) -> None:
    """All that git itself calls local to a repository."""
    known = world(world.folder, "rev-parse", "--local-env-vars").split()
    assert set(known) <= {*git.OF_ANOTHER_REPOSITORY, *KEPT_ON_PURPOSE}
    given = {**dict.fromkeys(git.OF_ANOTHER_REPOSITORY, "x"), "GIT_CONFIG_COUNT": "0", "OTHER": "y"}
    found = git.environment(given)
    assert not set(found) & set(git.OF_ANOTHER_REPOSITORY)
    assert (found["GIT_CONFIG_COUNT"], found["OTHER"]) == ("0", "y")


def test_inside_of_a_hook_it_answers_for_its_directory(world: Git) -> None:
    one, two = world.repository("one"), world.repository("two")
    world.commit(two)
    for name in ("GIT_DIR", "GIT_COMMON_DIR"):
        world.env[name] = str(one / ".git")
    world.env["GIT_WORK_TREE"] = str(one)
    world.env["GIT_INDEX_FILE"] = str(one / "nothing")
    world.env["GIT_OBJECT_DIRECTORY"] = str(one / "nowhere")
    env = dict(world.env)
    assert git.answer(str(two), "rev-parse", "--show-toplevel", env=env) == str(two)
    assert git.answer(str(two), "status", "--porcelain", env=env) == ""


@pytest.mark.parametrize(
    "tongue", [{"LANG": "de_DE.UTF-8"}, {"LC_ALL": "de_DE.UTF-8"}, {"LANGUAGE": "de:fr", "LANG": "C.UTF-8"}]
)
def test_whatever_the_language(world: Git, tongue: dict[str, str]) -> None:
    """Seen by git: there may be no translations on this machine."""
    put_in_path(world, "git", '#!/bin/sh\necho "$LC_ALL|$LANGUAGE|$GIT_TERMINAL_PROMPT|$GIT_OPTIONAL_LOCKS"\n')
    assert git.answer(str(world.folder), "x", env={**world.env, **tongue}) == "C||0|0"


def test_no_shell_ever(world: Git) -> None:
    repository = world.repository()
    for name in ("$(touch x)", ";touch x", "`touch x`", "a b", "a\nb", "|touch x", "-x"):
        assert (
            git.question(str(repository), "rev-parse", "--verify", "--quiet", f"refs/heads/{name}", env=world.env)
            is None
        )
    assert world(repository, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["with space", "line\nend", "ends\n", "-dash", "ünï✓", "$(touch x)", "quote\"'"])
def test_any_path(world: Git, name: str) -> None:
    repository = world.repository(name)
    assert git.answer(str(repository), "rev-parse", "--show-toplevel", env=world.env) == str(repository)


def test_a_path_that_is_not_unicode(world: Git) -> None:
    path = os.path.join(os.fsencode(world.folder), b"caf\xe9")
    world(world.folder, "init", "-q", path)
    name = os.fsdecode(path)
    assert git.answer(name, "rev-parse", "--show-toplevel", env=world.env) == name


def test_a_word_that_no_program_can_be_given(world: Git) -> None:
    with pytest.raises(UsageError, match="null byte"):
        git.run(str(world.folder), "a\0b", env=world.env)


def test_no_such_directory(world: Git) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        git.run(str(world.folder / "none"), "status", env=world.env)


def test_no_git(world: Git) -> None:
    with pytest.raises(git.GitFailed, match="not in PATH; install git"):
        git.run(str(world.folder), "status", env={**world.env, "PATH": str(world.folder)})
    with pytest.raises(git.GitFailed, match="not in PATH; install git"):
        git.stream(str(world.folder), "status", env={**world.env, "PATH": str(world.folder)})


def test_the_reason_is_what_git_said(world: Git) -> None:
    with pytest.raises(git.GitFailed, match=r": git status: not a git repository"):
        git.answer(str(world.folder), "status", env=world.env)
    traced = git.run(str(world.folder), "status", env={**world.env, "GIT_TRACE": "1"})
    assert git.why(traced).startswith("not a git repository")
    silent = commands.Ran(3, b"", b"")
    assert git.why(silent) == "exit code 3"
    assert git.why(commands.Ran(3, b"", b"words of a hook\n")) == "words of a hook"
    assert git.why(commands.Ran(1, b"", b"error: \x1b[31mred\n")) == "[31mred"


def test_a_repository_of_somebody_else(world: Git) -> None:
    """With what to do about it, in one line."""
    repository = world.repository()
    env = {**world.env, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    with pytest.raises(git.GitFailed) as caught:
        git.answer(str(repository), "status", env=env)
    said = str(caught.value)
    assert "dubious ownership" in said
    assert f"git config --global --add safe.directory {repository}" in said
    assert "\n" not in said


# Bounded


def test_one_that_hangs_is_ended_and_takes_its_lock_away(world: Git) -> None:
    """A commit that waits for its editor holds index.lock: SIGTERM comes first, and git tidies up."""
    repository = world.repository()
    (repository / "a").write_text("changed\n")
    world.hook(repository, "pre-commit", f"touch {world.folder}/begun; exec sleep 300")
    child = subprocess.Popen(
        [sys.executable, "-c", HANGING, str(repository)],
        env={**world.env, "PYTHONPATH": os.pathsep.join(sys.path)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    until((world.folder / "begun").exists)
    assert world.locks() == [str(repository / ".git" / "index.lock")]  # or this test would show nothing
    out, _ = child.communicate(timeout=60)
    assert "has not answered in" in out
    assert "there yourself" in out


# Its time is over once the hook has begun: nothing here depends on how fast that is.
HANGING = """
import os, sys, time
from agentctl.kernel import commands
from agentctl.workspace import git

supervise = commands.supervise

def supervise_once_begun(*args):
    while not os.path.exists(os.path.join(os.environ["HOME"], "begun")):
        time.sleep(0.01)
    return supervise(*args)

commands.supervise = supervise_once_begun
try:
    git.run(sys.argv[1], "commit", "-a", "-m", "x", env=os.environ, patience=0.3)
except git.GitFailed as error:
    print(error)
"""


def test_one_that_heeds_nothing_is_killed_with_what_it_started(world: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "GRACE", SLOW)
    put_in_path(
        world, "git", "#!/bin/sh\ntrap '' TERM\n(trap '' TERM; echo $$ >> pids; while :; do sleep 0.1; done) &\n"
        "echo $! >> pids\nwhile :; do sleep 0.1; done\n",
    )  # fmt: skip
    with pytest.raises(git.GitFailed, match="not answered in"):
        git.run(str(world.folder), "x", env=world.env, patience=SLOW)
    pids = {int(line) for line in (world.folder / "pids").read_text().split()}
    until(lambda: not any(is_running(pid) for pid in pids))


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_it_leaves_in_the_background_is_not_waited_for(world: Git) -> None:
    """A hook may start a daemon, which has git's output open for ever. It goes on."""
    put_in_path(world, "git", "#!/bin/sh\nsleep 300 &\necho $!\n")
    pid = int(git.answer(str(world.folder), "x", env=world.env))
    try:
        assert is_running(pid)
    finally:
        os.kill(pid, signal.SIGKILL)  # ours: it was started by what we started, a moment ago


def test_ctrl_c_ends_it(world: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_path(world, "git", "#!/bin/sh\necho $$ > pid\nexec sleep 300\n")

    def interrupted(*_: object, **__: object) -> None:
        until(lambda: (world.folder / "pid").exists() and bool((world.folder / "pid").read_text().strip()))
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "supervise", interrupted)
    with pytest.raises(KeyboardInterrupt):
        git.run(str(world.folder), "x", env=world.env)
    assert not is_running(int((world.folder / "pid").read_text()))


def test_a_lot_of_output(world: Git) -> None:
    put_in_path(world, "git", "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\nhead -c 300000 /dev/zero >&2\n")
    ran = git.run(str(world.folder), "x", env=world.env)
    assert (len(ran.out), len(ran.err)) == (3_000_000, 300_000)


def test_input_reaches_it(world: Git) -> None:
    assert commands.run(["cat"], str(world.folder), world.env, 30, b"x" * 300_000).out == b"x" * 300_000


@pytest.mark.parametrize(
    "words",
    [
        "failed to read .git/worktrees/x/commondir: Success",
        'Invalid path "/r/.git/worktrees/x": No such file or directory',
    ],
)
def test_a_worktree_that_another_git_is_just_making_or_taking_away(world: Git, words: str) -> None:
    """Seen with 24 `git worktree add` at once: git dies of the folder of another that has no files yet, or no more."""
    put_in_path(world, "git", f"#!/bin/sh\nif mkdir seen 2>/dev/null; then echo 'fatal: {words}' >&2; exit 128; fi\n")
    assert git.run(str(world.folder), "worktree", "list", env=world.env).code == 0
    put_in_path(world, "git", "#!/bin/sh\nmkdir once || exit 3\necho 'fatal: failed to read x' >&2\nexit 128\n")
    assert git.run(str(world.folder), "status", env=world.env).code == 128  # no other failure is tried again
