"""Git, as a program: bounded, in its own words whatever the person's language, and without leaving a lock behind.

What git says goes through bytes: a path or a branch has the encoding that its maker gave it.
"""

from __future__ import annotations

import os
import time

from agentctl.errors import AgentctlError, TruthUnavailable, shown_command
from agentctl.kernel import commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PATIENCE = 30.0  # for an answer
CHECKOUT_PATIENCE = 600.0  # for a tree to be written, or taken away
# What points git to another repository than that of its directory: set in hooks, aliases and `git rebase --exec`.
OF_ANOTHER_REPOSITORY = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)
# For a git folder itself: it need not be found, so safe.bareRepository has no say in it. Only for a repository that was
# found by a look from inside of it: git asks who owns it then.
HERE = "--git-dir=."
# For the top of a worktree: git looks at this folder, whatever core.worktree says, as `git worktree remove` does.
THIS_TREE = "--work-tree=."
SAID = ("fatal: ", "error: ")
# For the moment in which another git makes a worktree, its folder is there without its files; in the one in which it
# takes one away, the folder was there. Git dies of both.
HALF_MADE, OF_A_WORKTREE, TRIES, PAUSE = (b"failed to read ", b"Invalid path "), b"worktrees/", 60, 0.05
HINT = "git config --global --add safe.directory "
NO_REPOSITORY = b"not a git repository"
FATAL = 128  # git's exit code if it gives up; some questions have only this way to say no
# Of many that delete branches at one moment each waits for the others' lock, by default for a second.
SETTINGS = (
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.packedRefsTimeout=20000",
    "core.filesRefLockTimeout=20000",
)
OURS = {
    "LC_ALL": "C",
    "LANGUAGE": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # a look at the changes does not refresh the index: no index.lock of ours, ever
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
}


class GitFailed(AgentctlError):
    """Git failed; the message says what git printed."""


class GitSilent(GitFailed):
    """Git gave no answer in time, or would give none."""

    exit_code = TruthUnavailable.exit_code


def environment(env: Mapping[str, str]) -> dict[str, str]:
    return {**of_its_directory(env), **OURS}


def of_its_directory(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that lead git to our repository, for work in another worktree."""
    return {name: value for name, value in env.items() if name not in OF_ANOTHER_REPOSITORY}


def argv_of(words: Sequence[str]) -> list[str]:
    return ["git", *(word for setting in SETTINGS for word in ("-c", setting)), *words]


def run(
    cwd: str,
    *words: str,
    env: Mapping[str, str],
    patience: float | None = None,
    more: Mapping[str, str] | None = None,
    input: bytes = b"",
) -> commands.Ran:
    """Run git, and return what it did, whatever its exit code. Raises GitFailed if it could not be run, or took too
    long. `more`: variables for this call alone."""
    seconds = PATIENCE if patience is None else patience
    for _ in range(TRIES):
        ran = commands.run(argv_of(words), cwd, {**environment(env), **(more or {})}, seconds, input=input)
        if ran.code == 0 or not met_another(ran.err):
            break
        time.sleep(PAUSE)
    return run_to_its_end(ran, cwd, words)


def run_to_its_end(ran: commands.Ran, cwd: str, words: Sequence[str]) -> commands.Ran:
    """Return what git did, whatever its exit code. Raises GitFailed if it did not run to its end."""
    if ran.outcome in (commands.NOT_FOUND, commands.NOT_RUNNABLE):
        raise GitFailed(f"{ran.problem}; install git (https://git-scm.com)")
    if ran.outcome != commands.DONE:
        raise (GitSilent if ran.outcome == commands.TIMED_OUT else GitFailed)(
            f"{cwd}: {ran.problem}; try `{shown_command('git', *words)}` there yourself"
        )
    return ran


def met_another(said: bytes) -> bool:
    return OF_A_WORKTREE in said and any(words in said for words in HALF_MADE)


def stream(
    cwd: str,
    *words: str,
    env: Mapping[str, str],
    more: Mapping[str, str] | None = None,
    each: Callable[[bytes], object] | None = None,
) -> commands.Ran:
    """Run git for as long as it takes. Its output goes to our own, or to `each`, line by line."""
    return run_to_its_end(commands.stream(argv_of(words), cwd, {**environment(env), **(more or {})}, each), cwd, words)


def answer(cwd: str, *words: str, env: Mapping[str, str], patience: float | None = None) -> str:
    """Return what git printed, without the end of the line. Raises GitFailed."""
    ran = run(cwd, *words, env=env, patience=patience)
    if ran.code != 0:
        raise GitFailed(f"{cwd}: git {first_verb(words)}: {why(ran)}")
    return text(ran.out)


def question(cwd: str, *words: str, env: Mapping[str, str], no: Sequence[int] = (1,)) -> str | None:
    """Return what git printed; None if git says no, which it does by one of the exit codes `no`. Raises GitFailed if
    it could not be run or failed: that is no answer."""
    ran = run(cwd, *words, env=env)
    if ran.code != 0 and ran.code not in no:
        raise GitFailed(f"{cwd}: git {first_verb(words)}: {why(ran)}")
    return text(ran.out) if ran.code == 0 else None


def first_verb(words: Sequence[str]) -> str:
    """Return which command of git this is: the first word that is no option."""
    return next((word for word in words if not word.startswith("-")), "")


def why(ran: commands.Ran) -> str:
    """Return why git failed, in its words: without its hints, and without the words of a hook or a trace. If the disk
    is full, git says so first and what follows from it last, so both are returned."""
    lines = [line.strip() for line in ran.err.decode(errors="replace").splitlines()]
    fatal, errors = ([line.removeprefix(word) for line in lines if line.startswith(word)] for word in SAID)
    if not (fatal or errors):
        return ran.said or f"exit code {ran.code}"
    hint = [f"if you trust it: {one}" for one in lines if one.startswith(HINT)]
    return commands.last_line("; ".join((*errors[:1], *fatal[:1], *hint[:1])))


def text(out: bytes) -> str:
    return os.fsdecode(out.removesuffix(b"\n"))
