"""Which commits nothing would have any more, once a worktree or a branch is gone. Only questions.

A commit is kept by what stays and what `git gc` begins with: branches, remote branches, tags, and the HEADs of the
other worktrees. Not counted are symbolic refs (each is another name of a ref that counts itself), worktrees that
`git worktree prune` would forget, and pseudo refs such as FETCH_HEAD and ORIG_HEAD, which git gives up at any time.
"""

from __future__ import annotations

import os

from agentctl.model import Value
from agentctl.workspace import git
from agentctl.workspace.special_files import content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.workspace.worktree import Listed

HEADS = "refs/heads/"
KEEPING = (HEADS, "refs/remotes/", "refs/tags/")
OWN_REFS = ("refs/worktree", "refs/bisect", "refs/rewritten")  # those that a worktree has for itself
KEEPER_FORMAT = "--format=%(refname) %(objectname) %(symref)"
REF_FORMAT = "--format=%(objectname) %(objecttype) %(refname)"
# Commits as they are stored: `git gc` follows no replacements, and a graft is a note that anybody may delete.
AS_STORED = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
MOVED = "checkout: moving from "
REPLACED = ("commit (amend)", "rebase", "pull --rebase")  # somebody put other commits in their place


class Keepers(Value):
    """What keeps commits in a repository."""

    refs: tuple[tuple[str, str], ...] = ()  # name and object
    heads: tuple[str, ...] = ()  # of worktrees

    def objects(self, *, without: str | None = None) -> list[str]:
        """Return what they point to, each once. `without`: a branch that is about to be deleted."""
        left_out = None if without is None else HEADS + without
        return list(dict.fromkeys((*(id for name, id in self.refs if name != left_out), *self.heads)))


def refs_that_keep(
    cwd: str, at: str, env: Mapping[str, str], below: Sequence[str] = KEEPING
) -> tuple[tuple[str, str], ...]:
    """Return name and object of the refs that keep commits. Raises GitFailed."""
    said = git.answer(cwd, at, "for-each-ref", KEEPER_FORMAT, *below, env=env)
    refs = [line.split(" ") for line in said.splitlines()]
    return tuple((name, id) for name, id, target in refs if not target)


def heads_that_keep(listed: Iterable[Listed]) -> tuple[str, ...]:
    """Return the HEADs of worktrees that stay: git would forget one whose folder is gone, unless it is locked."""
    stays = (one for one in listed if one.prunable is None and (one.locked is not None or is_there(one)))
    return tuple({one.head for one in stays if one.head is not None and is_commit(one.head)})


def is_there(one: Listed) -> bool:
    """Before git 2.31, its list does not say it."""
    return one.bare or os.path.lexists(os.path.join(one.path, ".git"))


def is_commit(id: str) -> bool:
    return bool(id) and set(id) != {"0"}


def is_id(word: str) -> bool:
    return len(word) in (40, 64) and set(word) <= set("0123456789abcdef")


def keepers_beside(common: str, others: Iterable[Listed], env: Mapping[str, str]) -> Keepers:
    """Return what keeps commits besides a worktree. `others`: all worktrees but that one. Raises GitFailed."""
    return Keepers(refs_that_keep(common, git.HERE, env), heads_that_keep(others))


def own_commits(
    cwd: str, at: str, tips: Sequence[str], kept: Sequence[str], env: Mapping[str, str], *options: str
) -> int:
    """Return how many of these commits, and of those before them, nothing in `kept` has. With a grafts file, a commit
    counts as kept only if it is so with and without it. Raises GitFailed."""
    said = git.answer(cwd, at, "rev-parse", "--path-format=absolute", "--git-path", "info/grafts", env=env)
    views = (AS_STORED, {}) if os.path.lexists(said) else (AS_STORED,)
    words = (at, "rev-list", "--count", *options, "--stdin")
    lines = "".join(f"{line}\n" for line in (*tips, *(f"^{id}" for id in kept)))
    counts = []
    for view in views:
        ran = git.run(cwd, *words, env=env, patience=git.CHECKOUT_PATIENCE, more=view, input=lines.encode())
        if ran.code != 0:
            raise git.GitFailed(f"{cwd}: git rev-list: {git.why(ran)}")
        counts.append(int(git.text(ran.out)))
    return max(counts)


# What goes with the git folder of a worktree


def in_own_folder(
    common: str, own: str | None, keepers: Keepers, env: Mapping[str, str], *, head: str | None, detached: bool
) -> list[str]:
    """Return what only the git folder of this worktree has: its own refs, and the reflog of its HEAD. `head`: what HEAD
    is now, which is judged elsewhere."""
    if own is None:
        return ["git's own folder of this worktree cannot be found, so it cannot be told which refs are in it"]
    return [
        *in_own_refs(common, own, keepers, env),
        *in_own_reflog(common, own, keepers, env, head, detached=detached),
    ]


def in_own_refs(common: str, own: str, keepers: Keepers, env: Mapping[str, str]) -> list[str]:
    try:
        said = git.answer(common, f"--git-dir={own}", "for-each-ref", REF_FORMAT, *OWN_REFS, env=env)
        refs = [line.split(" ", 2) for line in said.splitlines()]
        commits = [commit for commit, kind, _ in refs if kind == "commit"]
        count = own_commits(common, git.HERE, commits, keepers.objects(), env) if commits else 0
    except git.GitFailed as error:
        return [f"git cannot say whether anything else has what its own refs point to: {error}"]
    found = [
        f"git cannot say whether anything else has what {name} points to" for _, kind, name in refs if kind != "commit"
    ]
    if count:
        found.append(f"{commits_of(count)} of refs that only this worktree has nowhere else")
    return found


def in_own_reflog(
    common: str, own: str, keepers: Keepers, env: Mapping[str, str], head: str | None, *, detached: bool
) -> list[str]:
    try:
        left = left_behind(reflog_of(own), detached=detached, unborn=head is None)
        kept = [*keepers.objects(), *([head] if head is not None else [])]
        # Git may have removed some of them since.
        count = own_commits(common, git.HERE, left, kept, env, "--ignore-missing") if left else 0
    except (git.GitFailed, OSError) as error:
        return [f"it cannot be told which commits its HEAD left behind: {error}"]
    return [f"{commits_of(count)} that its HEAD left behind ({left[-1][:12]}) only in its reflog"] if count else []


def reflog_of(git_folder: str) -> str:
    """Return the reflog of HEAD in the git folder of a worktree. Raises OSError, and GitFailed if git keeps its refs in
    another format."""
    if os.path.lexists(os.path.join(git_folder, "reftable")):
        raise git.GitFailed(f"{git_folder}: its reflog is in a reftable, which agentctl cannot read")
    try:
        return os.fsdecode(content(os.path.join(git_folder, "logs", "HEAD")))
    except FileNotFoundError:
        return ""  # it keeps none: then nothing is only there


def left_behind(log: str, *, detached: bool, unborn: bool = False) -> list[str]:
    """Return the commits that HEAD has left while no branch was checked out, the last one at the end: by a checkout or
    a reset. Those that were amended or rebased are not among them, and neither are those of a branch, which has a
    reflog of its own. `detached`, `unborn`: how HEAD is now. Raises GitFailed if the log is damaged."""
    found: list[str] = []
    since: list[
        str
    ] = []  # what HEAD has left since the last checkout; whether it was on a branch then, the next one says
    last = ""
    for line in log.splitlines():
        facts, _, what = line.partition("\t")
        old, new = (*facts.split(" ", 2), "", "")[:2]
        if not (is_id(old) and is_id(new)):
            raise git.GitFailed(f"its reflog has a line that cannot be read: {line[:40]!r}")
        if is_commit(old) and not what.startswith(REPLACED):
            since.append(old)
        elif not is_commit(old) and is_commit(last):
            found.append(last)  # a branch without a commit was begun
        if what.startswith(MOVED):
            was_detached = what.removeprefix(MOVED).split(" ", 1)[0] == old
            found += since if was_detached else ()
            since = []
        last = new
    if detached:
        found += since
    if unborn and is_commit(last):
        found.append(last)
    return list(dict.fromkeys(found))


def commits_of(count: int) -> str:
    return f"{count} commit{'' if count == 1 else 's'}"
