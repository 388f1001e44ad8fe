"""Branches that launches in groups left behind: their worktrees are gone, or never were.

Only branches try/<group>/<slot> count: agentctl made them. A branch that a person named with --branch is the person's.
"""

from __future__ import annotations

import os
from types import MappingProxyType

from agentctl.errors import AgentctlError, Refused
from agentctl.launches import groups
from agentctl.model import Value
from agentctl.workspace import clean, commits, git, worktree
from agentctl.workspace.commits import HEADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.model import Launch
    from agentctl.workspace.clean import Options, Outcome
    from agentctl.workspace.worktree import Listed

DELETED = "deleted"
RETURNS_TO = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")  # files that name a branch


class Leftover(Value):
    common: str  # the git folder
    branch: str
    head: str
    kept: tuple[str, ...]  # what other refs and the worktrees point to


def leftovers(word: str, cwd: str, launched: Sequence[Launch], env: Mapping[str, str]) -> list[Leftover]:
    """Return the branches of a group, or the one branch, that no worktree has checked out: those here, if there are
    any. Raises GitFailed and SeveralGroups."""
    home = clean.git_folder_of(cwd, env)
    made_for = {os.path.realpath(one.worktree): one.branch for one in launched if one.worktree and one.branch}
    if home is not None and (found := in_repository(home, word, env, made_for)):
        return found
    members = [one for one in launched if one.group == word and one.worktree and one.repository]
    commons = dict.fromkeys(map(groups.repository_of, groups.meant(word, members, cwd)))
    return [one for common in commons if common for one in in_repository(common, word, env, made_for)]


def in_repository(
    common: str, word: str, env: Mapping[str, str], made_for: Mapping[str, str] = MappingProxyType({})
) -> list[Leftover]:
    """`made_for`: worktrees of launches, each with the branch that it was made with. Raises GitFailed and OSError."""
    if not os.path.isdir(common):
        return []  # the repository is gone, and its branches with it
    pattern = HEADS + (word if word.startswith(clean.TRIES) else f"{clean.TRIES}{word}/")
    said = git.answer(common, git.HERE, "for-each-ref", "--format=%(objectname) %(refname)", pattern, env=env)
    listed = worktree.listing(common, env, git.HERE)
    busy, keepers = in_use(common, listed, made_for), commits.keepers_beside(common, listed, env)
    found = []
    for line in said.splitlines():
        head, _, ref = line.partition(" ")
        if (branch := ref.removeprefix(HEADS)) not in busy:
            found.append(Leftover(common, branch, head, tuple(keepers.objects(without=branch))))
    return found


def in_use(common: str, listed: Sequence[Listed], made_for: Mapping[str, str]) -> set[str | None]:
    """Return the branches that worktrees have checked out, were made with, or will return to once a rebase or a bisect
    is over: git lists such a worktree as detached. Raises OSError."""
    found = {one.branch for one in listed}
    for one in listed:
        found.add(made_for.get(os.path.realpath(one.path)))
    base = os.path.join(common, "worktrees")
    for own in (common, *(os.path.join(base, name) for name in (os.listdir(base) if os.path.isdir(base) else ()))):
        for name in RETURNS_TO:
            if os.path.isfile(path := os.path.join(own, name)):
                found.add(worktree.first_line(path).removeprefix(HEADS))
    return found


def remove(left: Leftover, options: Options, env: Mapping[str, str]) -> Outcome:
    """Delete a branch. Raises Refused if commits would be lost."""
    own = commits.own_commits(left.common, git.HERE, [left.head], left.kept, env)
    if own and not options.force:
        raise Refused(f"branch {left.branch}: {own} commits that exist nowhere else; merge it, or use --force")
    if not options.dry_run:
        ran = git.run(left.common, git.HERE, "update-ref", "-d", HEADS + left.branch, left.head, env=env)
        if ran.code != 0:
            raise Refused(f"branch {left.branch}: git could not delete it: {git.why(ran)}")
    return clean.Outcome(None, left.branch, left.head, DELETED, branch_deleted=True)


def outcomes(found: Iterable[Leftover], options: Options, env: Mapping[str, str]) -> Iterable[Outcome]:
    """Yield what came of each: one that stays does not keep the others."""
    for left in found:
        try:
            yield remove(left, options, env)
        except AgentctlError as error:
            code = error.exit_code
            yield clean.Outcome(None, left.branch, left.head, clean.KEPT, why=str(error), exit_code=code)
