"""Git, as a program: bounded, in its own words whatever the person's language, and without leaving a lock behind.

What git says goes through bytes: a path or a branch has the encoding that its maker gave it.
"""

from __future__ import annotations

import os
import time

from agentctl import commands
from agentctl.errors import AgentctlError

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
SAID = ("fatal: ", "error: ")
# For the moment in which another git makes a worktree, its folder is there without its files; in the one in which it
# takes one away, the folder was there. Git dies of both.
HALF_MADE, OF_A_WORKTREE, TRIES, PAUSE = (b"failed to read ", b"Invalid path "), b"worktrees/", 60, 0.05
HINT = "git config --global --add safe.directory "
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
    """Git said no; what it said is in the message."""


def environment(env: Mapping[str, str]) -> dict[str, str]:
    return {**of_its_directory(env), **OURS}


def of_its_directory(env: Mapping[str, str]) -> dict[str, str]:
    """For whoever is to work in another worktree than we do."""
    return {name: value for name, value in env.items() if name not in OF_ANOTHER_REPOSITORY}


def argv_of(words: Sequence[str]) -> list[str]:
    return ["git", *(word for setting in SETTINGS for word in ("-c", setting)), *words]


def run(
    cwd: str,
    *words: str,
    env: Mapping[str, str],
    patience: float | None = None,
    more: Mapping[str, str] | None = None,
) -> commands.Ran:
    """However it ends. Raises GitFailed only where it could not be run, or not in time. `more`: for this one alone."""
    seconds = PATIENCE if patience is None else patience
    try:
        for _ in range(TRIES):
            ran = commands.run(argv_of(words), cwd, {**environment(env), **(more or {})}, seconds)
            if ran.code == 0 or not met_another(ran.err):
                break
            time.sleep(PAUSE)
        return ran
    except commands.Missing as error:
        raise GitFailed(f"{error}; install git (https://git-scm.com)") from None
    except commands.TooSlow as error:
        raise GitFailed(f"{cwd}: {error}; try `git {' '.join(words)}` there yourself") from None


def met_another(said: bytes) -> bool:
    return OF_A_WORKTREE in said and any(words in said for words in HALF_MADE)


def stream(
    cwd: str,
    *words: str,
    env: Mapping[str, str],
    more: Mapping[str, str] | None = None,
    each: Callable[[bytes], object] | None = None,
) -> commands.Ran:
    """The same, for as long as it takes; its output is ours, or goes to `each`, line by line."""
    try:
        return commands.stream(argv_of(words), cwd, {**environment(env), **(more or {})}, each)
    except commands.Missing as error:
        raise GitFailed(f"{error}; install git (https://git-scm.com)") from None


def answer(cwd: str, *words: str, env: Mapping[str, str], patience: float | None = None) -> str:
    """What it printed, without the end of the line. Raises GitFailed."""
    ran = run(cwd, *words, env=env, patience=patience)
    if ran.code != 0:
        raise GitFailed(f"{cwd}: git {words[0]}: {why(ran)}")
    return text(ran.out)


def question(cwd: str, *words: str, env: Mapping[str, str]) -> str | None:
    """The same, where a no is an answer, too: None."""
    ran = run(cwd, *words, env=env)
    return text(ran.out) if ran.code == 0 else None


def why(ran: commands.Ran) -> str:
    """What it said of its failure: not its hints after that, nor the words of a hook or a trace before. A full disk is
    told first, as an error, and what it meant for git last."""
    lines = [line.strip() for line in ran.err.decode(errors="replace").splitlines()]
    fatal, errors = ([line.removeprefix(word) for line in lines if line.startswith(word)] for word in SAID)
    if not (fatal or errors):
        return ran.said or f"exit code {ran.code}"
    hint = [f"if you trust it: {one}" for one in lines if one.startswith(HINT)]
    return commands.last_line("; ".join((*errors[:1], *fatal[:1], *hint[:1])))


def text(out: bytes) -> str:
    return os.fsdecode(out.removesuffix(b"\n"))
