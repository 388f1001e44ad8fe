"""A git worktree and a branch for a launch. agentctl plans it first and checks everything, then makes it, and takes it
back if nothing came of it. It never takes back what holds somebody's work.

The worktree lies beside the repository: <repository>-<name>. Nothing here stores which sessions work there; their own
records say it.
"""

from __future__ import annotations

import os
import re
import shlex
import stat

from agentctl.errors import Refused, UsageError
from agentctl.kernel.flock import FolderLock
from agentctl.model import Value
from agentctl.workspace import contents, git, submodules, unsaved
from agentctl.workspace.commits import HEADS
from agentctl.workspace.special_files import SMALL, content, refuse_special_in
from agentctl.workspace.unsaved import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentctl.kernel.commands import Ran

NAME = re.compile(r"[\w][\w.\-]*")
NAME_LENGTH = 100
PATIENCE = 60.0  # for those who make or remove worktrees of the same repository
MOST_BRANCHES = 1000  # of one name
USAGE = 129  # git does not know an option
HOOK = "post-checkout"
LITTLE_ROOM = 16 * 1024 * 1024  # bytes: what git could not write may be as large
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
    lines = git.text(said.out).rsplit("\n", 2)  # a path may have lines, too
    if said.code != 0 or len(lines) != 3:
        raise UsageError(
            f"{cwd}: {git.why(said)}; a worktree needs a git repository: `git init` makes one, --cwd names another"
        )
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
        beside(common, top, env),
        head,
        "" if inside == "." else inside,
        bare,
        changed=bool(changes.out),
        submodules=len(configured_submodules(top, env)),
    )


def beside(common: str, top: str, env: Mapping[str, str]) -> str:
    """The same from each of its worktrees. `top`: of the one that we are in."""
    first = listing(top, env)[0]
    if first.bare:
        return beside_bare(common)
    return outermost(main_worktree(common, first, top, env), env)


def main_worktree(common: str, first: Listed, top: str, env: Mapping[str, str]) -> str:
    """The one that `git clone` made, whichever of them we are in. The git folder of a submodule is elsewhere, and names
    its worktree. One that was put elsewhere by hand does not, and then where we are has to do."""
    if os.path.basename(common) == ".git":
        return os.path.dirname(common)
    if os.path.realpath(first.path) != common:
        return os.path.realpath(first.path)
    configured = git.question(common, "config", "--file", "config", "core.worktree", env=env)
    return os.path.realpath(os.path.join(common, configured) if configured else top)


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


def configured_submodules(top: str, env: Mapping[str, str]) -> list[str]:
    if not os.path.exists(os.path.join(top, ".gitmodules")):
        return []
    words = ("config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
    said = git.question(top, *words, env=env, no=(1, git.FATAL))  # only for a hint
    return [entry.split("\n", 1)[1] for entry in (said or "").split("\0") if "\n" in entry]


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
    git, or what is there already, would be against it; nothing is made. `new_branch`: one that exists is left alone,
    and the new one gets a number."""
    check_name(name)
    wanted = branch or name
    named = git.question(cwd, "check-ref-format", "--branch", wanted, env=env, no=(1, git.FATAL))
    if named != wanted or wanted.startswith("-"):
        raise UsageError(f"{wanted!r} cannot be the name of a branch; git check-ref-format(1) has the rules")
    existing = git.question(cwd, "rev-parse", "--verify", "--quiet", f"{HEADS}{wanted}^{{commit}}", env=env)
    if existing and new_branch:  # left from an earlier group of this name
        wanted, existing = free_branch(cwd, wanted, env), None
    if existing and branch is None:
        raise Refused(f"there is a branch {wanted} already; give another name, or --branch {wanted} to go on with it")
    if existing and base_branch:
        raise UsageError(f"there is a branch {wanted} already, so --base-branch would have no effect; leave it out")
    base = existing or start_of(cwd, repository, base_branch, env)
    if not existing:
        check_room(cwd, wanted, env, chosen=new_branch)
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
    kind = git.question(cwd, "cat-file", "-t", f"{base}:{inside}", env=env, no=(1, git.FATAL)) if inside else "tree"
    if kind != "tree":
        raise UsageError(f"{cwd}: this folder is not in {base[:12]}; commit it, or give another --cwd")
    return Plan(repository.common, path, wanted, base, not existing, inside)


def free_branch(cwd: str, wanted: str, env: Mapping[str, str]) -> str:
    """Return the first of NAME+2, NAME+3, ... that is no branch; no slot has such a name. Raises Refused if
    there are too many."""
    known = {*git.answer(cwd, "for-each-ref", "--format=%(refname)", f"{HEADS}{wanted}+*", env=env).splitlines()}
    for number in range(2, MOST_BRANCHES):
        if f"{HEADS}{wanted}+{number}" not in known:
            return f"{wanted}+{number}"
    raise Refused(f"there are {MOST_BRANCHES} branches {wanted}+N; remove some: `agentctl worktree clean` has the way")


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


def check_room(cwd: str, branch: str, env: Mapping[str, str], *, chosen: bool = False) -> None:
    """Raise Refused if another branch takes the place of this one: `a` and `a/b` cannot both exist. `chosen`: agentctl
    chose how it begins, so another name of the person's would begin so, too."""
    parts = branch.split("/")
    for above in ("/".join(parts[:count]) for count in range(1, len(parts))):
        if git.question(cwd, "rev-parse", "--verify", "--quiet", HEADS + above, env=env):
            other = "" if chosen and "/" not in above else ", or give another name"
            rename = f"rename it (git branch -m {shlex.quote(above)} NAME)"
            raise Refused(f"there is a branch {above}, so none can be called {branch}; {rename}{other}")
    below = git.question(cwd, "for-each-ref", "--count=1", "--format=%(refname:short)", f"{HEADS}{branch}/", env=env)
    if below:
        raise Refused(f"there is a branch {below}, so none can be called {branch}; give another name")


def check_free(cwd: str, branch: str, env: Mapping[str, str]) -> None:
    for one in listing(cwd, env):
        if one.branch == branch:
            raise Refused(f"{branch} is checked out in {one.path}: a branch can be in one worktree only")


# Making, and taking back


def keep_in_place(*folders: str) -> list[FolderLock]:
    """Return locks for one who makes a worktree, or starts an agent in one: while they are held, no worktree of these
    repositories is removed. Enter them in this order."""
    commons = dict.fromkeys(common for folder in folders for common in repositories_around(folder))
    return [FolderLock(common, PATIENCE, shared=True) for common in sorted(commons)]


def keep_others_out(common: str) -> FolderLock:
    """Return the lock for one who removes: nobody else makes, starts or removes while it is held."""
    return FolderLock(common, PATIENCE, shared=False)


def repositories_around(folder: str) -> Iterator[str]:
    """Yield the git folders of the repositories that a folder is in, from its own to the outermost, or the folder if it
    is one itself. It reads their files and asks no git; what cannot be read is none."""
    folder = os.path.realpath(folder)
    if os.path.isdir(os.path.join(folder, "objects")) and os.path.isdir(os.path.join(folder, "refs")):
        yield folder
    while True:
        entry = os.path.join(folder, ".git")
        if (found := common_of(entry)) is not None:
            yield found
        if folder == (folder := os.path.dirname(folder)):
            return


def common_of(entry: str) -> str | None:
    """Return the folder that all worktrees share, from the .git of one: a folder, or a file that names one."""
    try:
        if os.path.isdir(entry):
            own = entry
        else:
            own = os.path.join(os.path.dirname(entry), first_line(entry).removeprefix("gitdir: "))
        shared = os.path.join(own, "commondir")
        if os.path.exists(shared):
            own = os.path.join(own, first_line(shared))
        return os.path.realpath(own) if os.path.isdir(os.path.join(own, "objects")) else None
    except (OSError, ValueError):
        return None


def first_line(path: str) -> str:
    """Read one of git's own small files. A path may have more lines: only the last end of line is not its own."""
    return git.text(content(path, SMALL))


def make(plan: Plan, env: Mapping[str, str]) -> None:
    """Make a worktree. Raises GitFailed and Refused: then nothing of it is there, or the error names what is left.

    Two may have planned the same. Git makes a branch for one of them, who then knows that the worktree with it is its
    own; an existing branch is for one at a time."""
    if os.path.lexists(plan.path):
        raise Refused(f"{plan.path}: another process just created it; give another name")
    if plan.new_branch:
        ran = git.run(plan.repository, git.HERE, "branch", "--no-track", plan.branch, plan.base, env=env)
        if ran.code != 0:
            raise git.GitFailed(f"{plan.repository}: git could not make the branch {plan.branch}: {git.why(ran)}")
        check_out(plan, env)
        return
    with FolderLock(os.path.join(plan.repository, "objects"), git.CHECKOUT_PATIENCE, shared=False):
        for one in listing(plan.repository, env, git.HERE):
            if one.branch == plan.branch:
                raise Refused(f"{plan.branch} is checked out in {one.path}: a branch can be in one worktree only")
        check_out(plan, env)


def check_out(plan: Plan, env: Mapping[str, str]) -> None:
    # Quiet: if we are killed, nobody reads what git says, and it would be ended by its own words in the middle.
    words = ("worktree", "add", "--quiet", "--", plan.path, plan.branch)
    try:
        ran = git.run(plan.repository, git.HERE, *words, env=env, patience=git.CHECKOUT_PATIENCE)
    except BaseException:
        undo(plan, env, made=False)
        raise
    if ran.code != 0:
        # A hook that fails after the checkout fails the command, too: what is there is whole, and nobody's work.
        try:
            why = why_not_made(plan, ran, env)
        finally:
            left = undo(plan, env, made=False)
        raise git.GitFailed(
            f"{plan.path}: git could not make this worktree: {why}" + (f"; left there: {left}" if left else "")
        )


def why_not_made(plan: Plan, ran: Ran, env: Mapping[str, str]) -> str:
    """Return why git failed to check out, with what git does not say: its hook ran last, or there is little room."""
    said = git.why(ran)
    hook = git.question(plan.repository, git.HERE, "rev-parse", "--git-path", f"hooks/{HOOK}", env=env)
    path = os.path.join(plan.repository, hook) if hook else ""
    if ran.code != git.FATAL and os.path.isfile(path) and os.access(path, os.X_OK):
        return f"{said}: the hook {path} failed; mend it, or move it away"
    folder = os.path.dirname(plan.path)
    found = os.statvfs(folder)
    room = found.f_bavail * found.f_frsize
    return said if room > LITTLE_ROOM else f"{said}; {folder} has room for {room // 1024} kB; make more, and try again"


def undo(plan: Plan, env: Mapping[str, str], *, made: bool = True) -> str | None:
    """Take back what make() made. What has somebody's work in it stays: then why is returned. Files that git was told
    to ignore are not counted as work: hooks make them, too. Without `made`, what is at its path may be another's."""
    try:
        return take_back(plan, env, made=made)
    except git.GitFailed as error:
        return str(error)


def take_back(plan: Plan, env: Mapping[str, str], *, made: bool) -> str | None:
    """Do what `undo` says. Raises GitFailed: what git cannot tell stays."""
    listed = listing(plan.repository, env, git.HERE)
    real = os.path.realpath(plan.path)
    one = next((one for one in listed if os.path.realpath(one.path) == real), None)
    if one is not None and one.branch != plan.branch:
        if made and one.branch is not None:
            return f"{plan.path} has {one.branch} checked out"
        if not (made or one.locked == UNFINISHED):
            one = None
    if one is not None:
        if (why := holds_work(plan, env)) is not None:
            return why
        # Whole or torn: of what git wrote itself there is nothing to lose. It was looked through a moment ago.
        force = ("--force", "--force") if one.locked == UNFINISHED else ("--force",)
        words = (git.HERE, "worktree", "remove", *force, "--", plan.path)
        ran = git.run(plan.repository, *words, env=env, patience=git.CHECKOUT_PATIENCE)
        if ran.code != 0:
            return git.why(ran)
    if plan.new_branch and not any(other.branch == plan.branch for other in listed if other is not one):
        # Only if it still is where it began: with its old value given, git looks and deletes in one step.
        ran = git.run(plan.repository, git.HERE, "update-ref", "-d", HEADS + plan.branch, plan.base, env=env)
        at = ("rev-parse", "--verify", "--quiet", HEADS + plan.branch)
        if ran.code != 0 and git.question(plan.repository, git.HERE, *at, env=env) == plan.base:
            return f"branch {plan.branch}: {git.why(ran)}"
    return None


def holds_work(plan: Plan, env: Mapping[str, str]) -> str | None:
    branch = git.question(plan.repository, git.HERE, "rev-parse", "--verify", "--quiet", HEADS + plan.branch, env=env)
    if branch not in (None, plan.base):
        return f"{plan.branch} has commits"
    if not os.path.isdir(plan.path):
        return None
    if (why := why_foreign(plan.repository, plan.path)) is not None:
        return why
    words = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    head = git.question(plan.path, *words, env=env, no=(1, git.FATAL))  # of a half-made one git cannot tell
    if head not in (None, plan.base):
        return f"{plan.path} has commits"
    own = admin_folder(plan.repository, plan.path)
    if own is not None and (what := unsaved.operation(own)) is not None:
        return f"{plan.path} is in the middle of {what}"
    changes = contents.changed_files(plan.path, env)
    if changes is None:
        return f"{plan.path}: git cannot say whether it has changes"
    if changes:
        return f"{plan.path} has changes ({named(changes)})"
    return next(iter(submodules.in_submodules(plan.path, own, env)), None)


def admin_folder(common: str, path: str) -> str | None:
    """What git keeps of one worktree: a folder below `worktrees` that names its .git."""
    folder, real = os.path.join(common, "worktrees"), os.path.realpath(path)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None
    for name in names:
        own = os.path.join(folder, name)
        try:
            entry = os.path.join(own, first_line(os.path.join(own, "gitdir")))
        except OSError:
            continue
        if os.path.realpath(os.path.dirname(entry)) == real:
            return own
    return None


def why_foreign(common: str, path: str) -> str | None:
    """Return why git must not run in a worktree of this repository: its .git is not the one that git wrote, so its
    configuration may be an agent's, with programs to run. None if it is, or if this repository has no such worktree."""
    own, entry = admin_folder(common, path), os.path.join(path, ".git")
    if own is None or not os.path.isdir(path):
        return None
    try:
        if stat.S_ISREG(os.lstat(entry).st_mode):
            named = os.path.join(path, first_line(entry).removeprefix("gitdir: "))
            if os.path.realpath(named) == os.path.realpath(own):
                return None
    except (OSError, ValueError):
        pass
    return f"{entry} is not the one that git wrote; an agent may have put it there, so agentctl runs no git in it"


# Looking


class Listed(Value):
    """A worktree as git lists it; the first one is the main one."""

    path: str
    head: str | None = None
    branch: str | None = None  # None: detached, or bare
    bare: bool = False
    locked: str | None = None  # why; "" where nobody said
    prunable: str | None = None  # its folder is gone


def listing(cwd: str, env: Mapping[str, str], *options: str) -> list[Listed]:
    """The main one first. Raises GitFailed: a list that cannot be had is not an empty one. In a git folder agentctl
    looks first whether git would wait there for something that is no file."""
    if git.HERE in options:
        refuse_special_in(cwd)
    words = (*options, "worktree", "list", "--porcelain")
    ran = git.run(cwd, *words, "-z", env=env)
    if ran.code == USAGE:  # before git 2.36; there a path with a line end in it is cut
        return parse_listing(git.answer(cwd, *words, env=env).replace("\n", "\0"))
    if ran.code != 0:
        raise git.GitFailed(f"{cwd}: git worktree list: {git.why(ran)}")
    return parse_listing(git.text(ran.out))


def parse_listing(said: str) -> list[Listed]:
    found = []
    for block in said.split("\0\0"):
        facts = dict(line.partition(" ")[::2] for line in block.strip("\0").split("\0") if line)
        if "worktree" in facts:
            ref = facts.get("branch", "")  # HEAD may name any ref
            found.append(
                Listed(
                    facts["worktree"],
                    facts.get("HEAD"),
                    ref.removeprefix(HEADS) if ref.startswith(HEADS) else None,
                    "bare" in facts,
                    facts.get("locked"),
                    facts.get("prunable"),
                )
            )
    return found
