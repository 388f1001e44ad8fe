"""An index in a temporary folder, for questions that would otherwise change a worktree's own."""

from __future__ import annotations

import os
from contextlib import contextmanager

from agentctl.workspace import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Git keeps nothing of such an index elsewhere, takes files outside of a sparse checkout like any others, and runs no
# hook because of it (post-index-change).
ON_ITS_OWN = tuple(
    word
    for setting in (
        "core.splitIndex=false",
        "core.untrackedCache=false",
        "core.sparseCheckout=false",
        f"core.hooksPath={os.devnull}",
    )
    for word in ("-c", setting)
)


@contextmanager
def copied(worktree: str, env: Mapping[str, str]) -> Iterator[str]:
    """Copy the index of a worktree into a temporary folder; return its path, for GIT_INDEX_FILE. Raises GitFailed."""
    import shutil

    with temporary() as index:
        own = git.answer(worktree, "rev-parse", "--path-format=absolute", "--git-path", "index", env=env)
        if os.path.exists(own):
            shutil.copyfile(own, index)
        yield index


@contextmanager
def filled(entries: Iterable[str], worktree: str, env: Mapping[str, str]) -> Iterator[str]:
    """Make an index of these entries, as `git ls-files --stage` prints them; return its path. It has no sizes, times
    and flags of files, so git has to read them. Raises GitFailed."""
    given = os.fsencode("".join(f"{entry}\0" for entry in entries))
    with temporary() as index:
        words = (*ON_ITS_OWN, "update-index", "-z", "--index-info")
        more = {"GIT_INDEX_FILE": index}
        ran = git.run(worktree, *words, env=env, patience=git.CHECKOUT_PATIENCE, more=more, input=given)
        if ran.code != 0:
            raise git.GitFailed(f"{worktree}: git update-index: {git.why(ran)}")
        yield index


@contextmanager
def temporary() -> Iterator[str]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="agentctl-index-") as folder:
        yield os.path.join(folder, "index")
