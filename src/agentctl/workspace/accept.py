"""Takes the work of one slot of a group over into the branch that a person stands on.

accept   takes the gates of both worktrees, judges, and does it
plan     only asks: what would be done, and what stands against it
prepare  makes the commits, as objects that nothing points to, and compares them with the worktree that would change

Only then a branch or a file is touched. Nobody who asks at these gates can begin between the judgement and the act.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from agentctl.errors import AgentctlError, Interrupted, Refused, UsageError
from agentctl.kernel.interrupts import Uninterrupted
from agentctl.model import ALIVE, IDLE, UNKNOWN, Value
from agentctl.workspace import compare, git, inspect, locks, merging, occupancy, presence, unsaved
from agentctl.workspace.commits import HEADS
from agentctl.workspace.unsaved import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentctl.launches.groups import Slot
    from agentctl.model import Session
    from agentctl.workspace.merging import Change, State


class Plan(Value):
    """What would be merged, and where."""

    group: str
    slot: str
    common: str  # the git folder
    branch: str  # of the slot
    worktree: str | None  # of the slot; None: only its branch is left
    top: str  # the worktree that the person is in
    into: str  # its branch
    changes: tuple[str, ...] = ()  # files of the slot that are not committed
    message: str | None = None  # to commit them with
    commits: int = 0  # that the branch here does not have

    @property
    def is_empty(self) -> bool:
        """Return whether the branch here has everything already."""
        return not self.changes and self.commits == 0

    def commands(self) -> list[list[str]]:
        """Return the same as commands for people."""
        found = []
        if self.changes and self.worktree is not None:
            message = self.message or f"{self.group}: {self.slot}"
            found.append(["git", "-C", self.worktree, "add", "--all"])
            found.append(["git", "-C", self.worktree, "commit", "-m", message])
        if not self.is_empty:
            found.append(["git", "-C", self.top, "merge", "--no-edit", self.branch])
        return found


class Prepared(Value):
    """What was made, and is not used yet: each is a commit."""

    ours: str  # where the branch here is
    theirs: str  # where the slot's branch is
    committed: str  # the same with what the slot had not committed
    merged: str
    changes: tuple[Change, ...]  # of files here


# Planning: only questions


def plan(group: str, slot: str, cwd: str, message: str | None, env: Mapping[str, str], *, force: bool = False) -> Plan:
    """Return what would be done. Raises NotFound, UsageError and Refused."""
    if message is not None and not message.strip():
        raise UsageError("-m has no text, and git makes no commit without a message; give -m TEXT")
    place = compare.place_of(group, slot, env, cwd)
    if place.branch is None:
        raise Refused(f"{slot}: its worktree is on no branch; see {place.worktree}")
    at_rest = None if force else require_rest(compare.find_slot(group, slot, env, cwd), env)
    if place.worktree is not None and not force:
        require_nobody(place.worktree, env, except_for=at_rest)
    common, top, into = where_we_are(cwd, env)
    if common != os.path.realpath(place.common):
        raise UsageError(f"{cwd} is in another repository than {slot} ({place.common}); --cwd names a directory in it")
    if place.worktree is not None and os.path.realpath(place.worktree) == os.path.realpath(top):
        raise UsageError(f"{cwd} is the worktree of {slot} itself; --cwd names where its work is to go")
    changes: Sequence[str] = ()
    if place.worktree is not None:
        require_branch(place.worktree, place.branch, env)
        changes = uncommitted(slot, place.worktree, env)
    return Plan(
        group=group,
        slot=slot,
        common=place.common,
        branch=place.branch,
        worktree=place.worktree,
        top=top,
        into=into,
        changes=tuple(changes),
        message=message,
        commits=ahead(top, place.branch, env),
    )


def require_rest(slot: Slot, env: Mapping[str, str]) -> str | None:
    """Return the session of this slot, which has ended or rests; None if none is known. Raises Refused while its agent
    works, or may work."""
    _, sessions = compare.look_at([slot.launch], env)
    session = sessions.get(slot.launch.id)
    if session is not None and (why := why_not_yet(session)) is not None:
        raise Refused(f"{slot.name}: {why}; wait for it (agentctl wait {session.id}), or use --force")
    return session.id if session is not None else None


def why_not_yet(session: Session) -> str | None:
    """Return why the work of a session is not finished; None if it is, or rests."""
    if session.process == UNKNOWN:
        return f"{session.id}: it cannot be told whether it still runs ({session.reason})"
    if session.process == ALIVE and session.turn != IDLE:
        return f"{session.id} is {session.status}"
    return None


def where_we_are(cwd: str, env: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the git folder, the top of the worktree and the branch that a directory is in. Raises UsageError."""
    common = inspect.common_folder(cwd, env)
    top = git.question(cwd, "rev-parse", "--path-format=absolute", "--show-toplevel", env=env, no=(1, git.FATAL))
    if top is None:
        raise UsageError(f"{cwd}: not in a worktree; --cwd names a directory in one")
    branch = git.question(cwd, "symbolic-ref", "--quiet", "HEAD", env=env)
    if branch is None:
        raise UsageError(f"{top}: no branch is checked out there, so nothing can be merged; `git switch` to one")
    return common, top, branch.removeprefix(HEADS)


def require_branch(worktree: str, branch: str, env: Mapping[str, str]) -> None:
    """Raise Refused if the agent has left the branch that it was given: its work is elsewhere."""
    now = git.question(worktree, "symbolic-ref", "--quiet", "HEAD", env=env)
    if now != HEADS + branch:
        at = (now or "no branch").removeprefix(HEADS)
        raise Refused(f"{worktree}: it is on {at}, not on {branch}; look there, and merge what you want yourself")


def uncommitted(slot: str, worktree: str, env: Mapping[str, str]) -> list[str]:
    changes = unsaved.changed_files(worktree, env)
    if changes is None:
        raise Refused(f"{slot}: {worktree}: git cannot say whether it has changes; see `git status` there")
    return changes


def ahead(top: str, branch: str, env: Mapping[str, str]) -> int:
    return int(git.answer(top, "rev-list", "--count", f"HEAD..{HEADS}{branch}", env=env) or 0)


# Doing


def accept(
    group: str, slot: str, cwd: str, message: str | None, env: Mapping[str, str], *, force: bool = False
) -> tuple[Plan, str | None]:
    """Do it. Return what was to be done, and the commit that the branch here is at then; None if there was nothing to
    do. Raises Refused, UsageError, NotFound, GitFailed and Interrupted."""
    place = compare.place_of(group, slot, env, cwd)
    _, top, _ = where_we_are(cwd, env)
    with ExitStack() as gates:
        # In one order, whoever asks: two that go opposite ways do not wait for each other.
        for folder in sorted({os.path.realpath(one) for one in (top, place.worktree) if one is not None}):
            gates.enter_context(locks.gate(env, folder))
        found = plan(group, slot, cwd, message, env, force=force)
        if found.is_empty:
            return found, None
        before = states(found, env)
        try:
            prepared = prepare(found, env, force=force)
            return found, act(found, prepared, env)
        except AgentctlError as error:
            raise type(error)(f"{error}; {what_became(found, before, env)}") from error
        except KeyboardInterrupt as error:
            raise Interrupted(f"interrupted; {what_became(found, before, env)}") from error


def prepare(plan: Plan, env: Mapping[str, str], *, force: bool = False) -> Prepared:
    """Make the commits, and judge them. Raises Refused and GitFailed."""
    if plan.changes and plan.message is None:
        raise Refused(
            f"{plan.worktree}: {plan.slot} has not committed {named(plan.changes)}; give -m MESSAGE to commit all of "
            "it first, or commit there what you want"
        )
    if not force:
        require_nobody(plan.top, env)
    own = git.answer(plan.top, "rev-parse", "--path-format=absolute", "--git-dir", env=env)
    if (what := unsaved.operation(own)) is not None:
        raise Refused(f"{plan.top} is in the middle of {what}; finish that first")
    merging.refuse_locked(plan.top, plan.into, env)
    if plan.worktree is not None and plan.changes:
        merging.refuse_locked(plan.worktree, plan.branch, env)
    ours, theirs = (merging.head_of(plan.top, branch, env) for branch in (plan.into, plan.branch))
    committed = theirs
    if plan.changes and plan.worktree is not None and plan.message is not None:
        committed = merging.committed(plan.worktree, theirs, plan.message, env)
    title = f"Merge branch '{plan.branch}' into {plan.into}"
    try:
        merged = merging.merged(plan.top, ours, committed, title, env)
    except Refused as error:
        raise Refused(f"{error}; merge it by hand: {by_hand(plan)}") from error
    changes = merging.changes_between(plan.top, ours, merged, env)
    merging.refuse_empty_links(plan.top, plan.worktree, changes, env)
    merging.refuse_overwriting(plan.top, changes, env)
    return Prepared(ours, theirs, committed, merged, tuple(changes))


def by_hand(plan: Plan) -> str:
    import shlex

    return " && ".join(map(shlex.join, plan.commands()))


def act(plan: Plan, prepared: Prepared, env: Mapping[str, str]) -> str:
    """Move the two branches, and the files here. The person's branch goes first: if that fails, the slot's stays, too.
    Ctrl-C waits."""
    with Uninterrupted():
        why = f"agentctl accept {plan.group} {plan.slot}"
        merging.bring(plan.top, prepared.ours, prepared.merged, why, prepared.changes, env)
        if plan.worktree is not None and prepared.committed != prepared.theirs:
            merging.move_branch(plan.worktree, prepared.committed, prepared.theirs, why, env)
    return prepared.merged


def states(plan: Plan, env: Mapping[str, str]) -> list[tuple[str, State]]:
    return [(one, merging.state_of(one, env)) for one in (plan.top, plan.worktree) if one is not None]


def what_became(plan: Plan, before: Sequence[tuple[str, State]], env: Mapping[str, str]) -> str:
    """Say what is not as it was: compared, whatever git said."""
    said = []
    for folder, old in before:
        try:
            new = merging.state_of(folder, env)
        except git.GitFailed as error:
            said.append(f"it cannot be told what was changed in {folder}: {error}")
            continue
        if new.status is None or old.status is None:
            said.append(f"it cannot be told what was changed in {folder}: see `git status` there")
        elif new == old:
            continue
        elif new.head != old.head:
            said.append(f"{folder} is at {(new.head or 'nothing')[:12]} now, and was at {(old.head or 'nothing')[:12]}")
        else:
            said.append(f"the files or the index of {folder} were changed: see `git status` there")
    return "; ".join(said) if said else "nothing was changed"


def require_nobody(top: str, env: Mapping[str, str], except_for: str | None = None) -> None:
    """Raise Refused if an agent is in a worktree whose files are about to be committed or changed. What started us does
    not count, and neither does one session that rests."""
    for one in presence.look_around(env).in_the_way(top):
        if one.kind == occupancy.BLOCKS and one.who != except_for:
            raise Refused(f"{top}: {one.why}; wait for it, or use --force")
