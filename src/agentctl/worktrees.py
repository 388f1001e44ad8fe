"""A git worktree and a branch for a launch of its own: planned first, with everything checked, then made, and taken
back where nothing came of it. Nothing that holds somebody's work is ever taken back.

The worktree lies beside the repository: <repository>-<name>. Which sessions work there is not stored here; their own
records say it.
"""

from __future__ import annotations

import os
import re

from agentctl import commands, git
from agentctl.errors import Refused, UsageError
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentctl.commands import Ran

HEADS = "refs/heads/"
NAME = re.compile(r"[\w][\w.\-]*")
NAME_LENGTH = 100
TAKEN = 50  # of the names in a message
UNFINISHED = "initializing"  # git's own lock on a worktree that it is about to make


class Repository(Value):
    """Where a person stands, in git's eyes."""

    common: str  # its git folder, which all its worktrees share
    beside: str  # worktrees are put at this path, with a name added
    head: str  # the commit here
    inside: str  # where we are below the top of the worktree; "" at the top
    bare: bool
    changed: bool  # tracked files differ from the commit: a new worktree has not got that
    submodules: int


class Plan(Value):
    """A worktree to be made."""

    repository: str  # the git folder
    path: str
    branch: str
    base: str  # the commit it begins with
    new_branch: bool
    inside: str = ""

    @property
    def cwd(self) -> str:
        """Where the agent is to work: as deep in the tree as the person was."""
        return os.path.join(self.path, self.inside) if self.inside else self.path


# Planning: only questions


def repository_at(cwd: str, env: Mapping[str, str]) -> Repository:
    """Raises UsageError where there is none, or none with a commit."""
    words = ("rev-parse", "--path-format=absolute", "--git-common-dir", "--is-bare-repository", "--is-inside-work-tree")
    said = git.run(cwd, *words, env=env)
    lines = git.text(said.out).split("\n")
    if said.code != 0 or len(lines) != 3:
        why = said.said.removeprefix("fatal: ") or "no answer from git"
        raise UsageError(f"{cwd}: {why}; a worktree needs a git repository: `git init` makes one, --cwd names another")
    common, bare, in_tree = os.path.realpath(lines[0]), lines[1] == "true", lines[2] == "true"
    head = git.question(cwd, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", env=env)
    if head is None:
        raise UsageError(
            f"{cwd}: the repository has no commit yet, so a worktree would have nothing in it; commit first"
        )
    if not in_tree:
        return Repository(common, beside_bare(common), head, "", bare, changed=False, submodules=0)
    top = git.answer(cwd, "rev-parse", "--path-format=absolute", "--show-toplevel", env=env)
    inside = os.path.relpath(os.path.realpath(cwd), os.path.realpath(top))
    changes = git.run(top, "status", "--porcelain", "--untracked-files=no", "-z", env=env)
    return Repository(
        common,
        beside_bare(common) if bare else outermost(main_worktree(common, top, env), env),
        head,
        "" if inside == "." else inside,
        bare,
        changed=bool(changes.out),
        submodules=len(submodules(top, env)),
    )


def main_worktree(common: str, top: str, env: Mapping[str, str]) -> str:
    """The one that `git clone` made, whichever of them we are in. The git folder of a submodule is elsewhere; there and
    with a separate git folder, git lists the worktree of the folder that it is configured for."""
    if os.path.basename(common) == ".git":
        return os.path.dirname(common)
    listed = listing(top, env)
    if listed and not listed[0].bare and os.path.realpath(listed[0].path) != common:
        return os.path.realpath(listed[0].path)
    return os.path.realpath(top)


def outermost(top: str, env: Mapping[str, str]) -> str:
    """Beside a submodule would be in the tree of the repository that has it: the outermost counts, and the name tells
    both."""
    names = [os.path.basename(top)]
    while above := git.question(top, "rev-parse", "--show-superproject-working-tree", env=env):
        top = os.path.realpath(above)
        names.insert(0, os.path.basename(top))
    return os.path.join(os.path.dirname(top), "-".join(names))


def beside_bare(common: str) -> str:
    """repo.git -> repo; repo/.bare and repo/.git (a bare repository with its worktrees around it) -> repo/repo."""
    folder, name = os.path.split(common)
    if name.startswith("."):
        return os.path.join(folder, os.path.basename(folder) or "repository")
    return os.path.join(folder, name.removesuffix(".git") or name)


def submodules(top: str, env: Mapping[str, str]) -> list[str]:
    if not os.path.exists(os.path.join(top, ".gitmodules")):
        return []
    said = git.question(top, "config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$", env=env)
    return [line.split(" ", 1)[1] for line in (said or "").splitlines() if " " in line]


def plan(
    repository: Repository,
    cwd: str,
    name: str,
    env: Mapping[str, str],
    branch: str | None = None,
    base_branch: str | None = None,
    *,
    new_branch: bool = False,
) -> Plan:
    """`name` is added to the repository's. Without `branch`, that is the name too. Raises UsageError and Refused where
    git, or what is there already, would be against it; nothing is made. `new_branch`: one that exists is refused."""
    check_name(name)
    wanted = branch or name
    if git.question(cwd, "check-ref-format", "--branch", wanted, env=env) != wanted or wanted.startswith("-"):
        raise UsageError(f"{wanted!r} cannot be the name of a branch; git check-ref-format(1) has the rules")
    existing = git.question(cwd, "rev-parse", "--verify", "--quiet", f"{HEADS}{wanted}^{{commit}}", env=env)
    if existing and new_branch:
        raise Refused(
            f"there is a branch {wanted} already; give another --group, or delete it: `git branch -D {wanted}` "
            "(`agentctl worktree clean` where a worktree has it)"
        )
    if existing and branch is None:
        raise Refused(f"there is a branch {wanted} already; give another name, or --branch {wanted} to go on with it")
    if existing and base_branch:
        raise UsageError(f"there is a branch {wanted} already, so --base-branch would have no effect; leave it out")
    base = existing or start_of(cwd, repository, base_branch, env)
    if not existing:
        check_room(cwd, wanted, env)
    else:
        check_free(cwd, wanted, env)
    path = f"{repository.beside}-{name}"
    if os.path.lexists(path):
        raise Refused(
            f"{path}: there is something already; `agentctl worktree list` shows worktrees, or give another name"
        )
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Refused(f"{folder}: a worktree cannot be made there: it is not writable")
    inside = repository.inside
    if inside and git.question(cwd, "cat-file", "-t", f"{base}:{inside}", env=env) != "tree":
        raise UsageError(f"{cwd}: this folder is not in {base[:12]}; commit it, or give another --cwd")
    return Plan(repository.common, path, wanted, base, not existing, inside)


def check_name(name: str) -> None:
    if NAME.fullmatch(name) is None or len(name.encode()) > NAME_LENGTH or ".." in name or name.endswith(".lock"):
        raise UsageError(f"{name!r} cannot be in the name of a worktree: use letters, digits, - and _, not too many")


def start_of(cwd: str, repository: Repository, base_branch: str | None, env: Mapping[str, str]) -> str:
    """The commit that a new branch begins with. A branch that only a remote has is taken as it was fetched last."""
    if base_branch is None:
        return repository.head
    if not base_branch.startswith("-"):
        for word in (f"{HEADS}{base_branch}", f"refs/remotes/origin/{base_branch}", base_branch):
            commit = git.question(cwd, "rev-parse", "--verify", "--quiet", f"{word}^{{commit}}", env=env)
            if commit:
                return commit
    raise UsageError(f"--base-branch {base_branch}: there is no such branch or commit here; perhaps after `git fetch`")


def check_room(cwd: str, branch: str, env: Mapping[str, str]) -> None:
    """A branch `a` and a branch `a/b` cannot both be."""
    parts = branch.split("/")
    for above in ("/".join(parts[:count]) for count in range(1, len(parts))):
        if git.question(cwd, "rev-parse", "--verify", "--quiet", HEADS + above, env=env):
            raise Refused(f"there is a branch {above}, so none can be called {branch}; rename it, or give another name")
    below = git.question(cwd, "for-each-ref", "--count=1", "--format=%(refname:short)", f"{HEADS}{branch}/", env=env)
    if below:
        raise Refused(f"there is a branch {below}, so none can be called {branch}; give another name")


def check_free(cwd: str, branch: str, env: Mapping[str, str]) -> None:
    for one in listing(cwd, env):
        if one.branch == branch:
            raise Refused(f"{branch} is checked out in {one.path}: a branch can be in one worktree only")


# Making, and taking back


def make(plan: Plan, env: Mapping[str, str]) -> None:
    """Raises GitFailed, and Refused where somebody was faster: then nothing of it is there. The caller keeps others of
    ours from that path meanwhile: so what is there afterwards is what we made, and may be taken back.

    The branch is made in a step of its own, by which git says whose it is."""
    if os.path.lexists(plan.path):
        raise Refused(f"{plan.path}: somebody was faster: there is something already; give another name")
    if plan.new_branch:
        git.answer(plan.repository, "update-ref", HEADS + plan.branch, plan.base, "", env=env)
    try:
        # Quiet: if we are killed, nobody reads what git says, and it would be ended by its own words in the middle.
        words = ("worktree", "add", "--quiet", "--", plan.path, plan.branch)
        ran = git.run(plan.repository, *words, env=env, patience=git.CHECKOUT_PATIENCE)
        if ran.code != 0:
            raise git.GitFailed(f"{plan.path}: git could not make this worktree: {complaints(ran)}")
    except BaseException as error:
        # A hook that fails after the checkout fails the command, too: what is there is whole, and nobody's work.
        left = undo(plan, env)
        if left and isinstance(error, git.GitFailed):
            error.args = (f"{error}; left there: {left}",)
        raise


def complaints(ran: Ran) -> str:
    """The first and the last of them: a full disk is told first, and what it meant for git last."""
    lines = [commands.last_line(line) for line in ran.err.decode(errors="replace").splitlines()]
    found = [line.partition(": ")[2] for line in lines if line.startswith(("error: ", "fatal: "))]
    return "; ".join(dict.fromkeys((*found[:1], *found[-1:]))) or ran.said or f"exit code {ran.code}"


def undo(plan: Plan, env: Mapping[str, str]) -> str | None:
    """Take back what make() made. What has somebody's work in it stays: then why is returned."""
    try:
        listed = {os.path.realpath(one.path): one for one in listing(plan.repository, env)}
    except git.GitFailed as error:
        return str(error)
    one = listed.get(os.path.realpath(plan.path))
    if one is not None:
        if os.path.isdir(plan.path) and (why := holds_work(plan, env)) is not None:
            return why
        # Whole or torn: of what git wrote itself there is nothing to lose. It was looked through a moment ago.
        force = ("--force", "--force") if one.locked == UNFINISHED else ("--force",)
        words = ("worktree", "remove", *force, "--", plan.path)
        ran = git.run(plan.repository, *words, env=env, patience=git.CHECKOUT_PATIENCE)
        if ran.code != 0:
            return ran.said.removeprefix("fatal: ")
    if plan.new_branch:
        # Only if it still is where it began: with its old value given, git looks and deletes in one step.
        ran = git.run(plan.repository, "update-ref", "-d", HEADS + plan.branch, plan.base, env=env)
        if ran.code != 0 and git.question(plan.repository, "rev-parse", "--verify", "-q", HEADS + plan.branch, env=env):
            return f"branch {plan.branch}: {ran.said}"
    return None


def holds_work(plan: Plan, env: Mapping[str, str]) -> str | None:
    head = git.question(plan.path, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", env=env)
    if head not in (None, plan.base):
        return f"{plan.path} has commits"
    changes = changed_files(plan.path, env)
    if changes is None:
        return f"{plan.path}: git cannot say whether it has changes"
    return f"{plan.path} has changes ({named(changes)})" if changes else None


def changed_files(path: str, env: Mapping[str, str]) -> list[str] | None:
    """Tracked or not, submodules included; None: it cannot be told."""
    words = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none", "-z")
    ran = git.run(path, *words, env=env, patience=git.CHECKOUT_PATIENCE)
    if ran.code != 0:
        return None
    entries = git.text(ran.out).split("\0")
    found, skip = [], False
    for entry in entries:
        if skip or not entry:
            skip = False
            continue
        skip = entry[0] in "RC"  # the next entry is the name that it had
        found.append(entry[3:])
    return found


def named(names: Sequence[str], count: int = 3) -> str:
    shown = ", ".join(name[:TAKEN] for name in names[:count])
    return shown if len(names) <= count else f"{shown} and {len(names) - count} more"


# Looking


class Listed(Value):
    """A worktree as git lists it; the first one is the main one."""

    path: str
    head: str | None = None
    branch: str | None = None  # None: detached, or bare
    bare: bool = False
    locked: str | None = None  # why; "" where nobody said
    prunable: str | None = None  # its folder is gone


def listing(cwd: str, env: Mapping[str, str]) -> list[Listed]:
    """Raises GitFailed: what could not be listed is not absent."""
    return parse_listing(git.answer(cwd, "worktree", "list", "--porcelain", "-z", env=env))


def parse_listing(said: str) -> list[Listed]:
    found = []
    for block in said.split("\0\0"):
        facts = dict(line.partition(" ")[::2] for line in block.strip("\0").split("\0") if line)
        if "worktree" in facts:
            branch = facts.get("branch", "")
            found.append(
                Listed(
                    facts["worktree"],
                    facts.get("HEAD"),
                    branch.removeprefix(HEADS) or None,
                    "bare" in facts,
                    facts.get("locked"),
                    facts.get("prunable"),
                )
            )
    return found
