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
    from collections.abc import Mapping

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
# Git dies of a worktree that another git is just making or removing, between two files of its entry: for a moment only.
BEING_MADE = (b"failed to read ", b"worktrees/")
TRIES, PAUSE = 20, 0.02
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


def run(cwd: str, *words: str, env: Mapping[str, str], patience: float | None = None) -> commands.Ran:
    """However it ends. Raises GitFailed only where it could not be run, or not in time."""
    argv = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", *words]
    try:
        for _ in range(TRIES):
            ran = commands.run(argv, cwd, environment(env), PATIENCE if patience is None else patience)
            if ran.code == 0 or not all(word in ran.err for word in BEING_MADE):
                break
            time.sleep(PAUSE)
        return ran
    except commands.Missing as error:
        raise GitFailed(f"{error}; install git (https://git-scm.com)") from None
    except commands.TooSlow as error:
        raise GitFailed(f"{cwd}: {error}; try `git {' '.join(words)}` there yourself") from None


def answer(cwd: str, *words: str, env: Mapping[str, str], patience: float | None = None) -> str:
    """What it printed, without the end of the line. Raises GitFailed."""
    ran = run(cwd, *words, env=env, patience=patience)
    if ran.code != 0:
        raise GitFailed(f"{cwd}: git {words[0]}: {ran.said or f'exit code {ran.code}'}")
    return text(ran.out)


def question(cwd: str, *words: str, env: Mapping[str, str]) -> str | None:
    """The same, where a no is an answer, too: None."""
    ran = run(cwd, *words, env=env)
    return text(ran.out) if ran.code == 0 else None


def text(out: bytes) -> str:
    return os.fsdecode(out.removesuffix(b"\n"))
