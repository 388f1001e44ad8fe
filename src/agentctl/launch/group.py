"""Launches agents: one, or the slots of a group, each in a worktree and on a branch of its own. A single launch is a
launch of one slot.

prepare_all    checks everything, for all slots; makes nothing
Launching      makes worktrees and starts agents, a few at a time; then looks for all their sessions together

If a slot fails, agentctl takes back what it made for it, and the others go on. After Ctrl-C agents that run go on, and
agentctl takes back what it made for the others.
"""

from __future__ import annotations

import os

from agentctl.errors import AgentctlError, Interrupted, LaunchFailed, Refused
from agentctl.fast.threads import Event, Thread
from agentctl.kernel.interrupts import Uninterrupted
from agentctl.launch import start
from agentctl.launch.await_session import await_sessions, unnamed
from agentctl.launches import groups, records
from agentctl.model import Value
from agentctl.workspace import git, worktree
from agentctl.workspace.commits import HEADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentctl.launch.spawn import Order, Started
    from agentctl.launch.start import Request, Tell
    from agentctl.model import Session
    from agentctl.workspace.worktree import Repository

BRANCHES = "try"  # branches are called try/<group>/<slot>
AT_ONCE = 4  # gits: more of them only wait for the disk
LETTERS = "bcdfghjkmnpqrstvwxz23456789"  # none that look alike, and no words
LETTERS_OF_AN_ID = (4, 6)
TRIES = 20


class Outcome(Value):
    """What came of one slot: a session, or why there is none."""

    order: Order
    launch_id: str | None = None
    session: Session | None = None
    error: Exception | None = None

    @property
    def slot(self) -> str:
        return self.order.slot or ""


# Planning


def choose_group(slots: Sequence[str], repository: Repository, env: Mapping[str, str]) -> str:
    """Return a new name that no stored launch, no branch and no worktree has. Raises Refused."""
    used = {launch.group for launch in records.read_all(env)[0]}
    pattern = f"{HEADS}{BRANCHES}/"
    said = git.answer(repository.common, "for-each-ref", "--format=%(refname)", pattern, env=env)
    used |= {name.removeprefix(pattern).partition("/")[0] for name in said.splitlines()}
    for attempt in range(TRIES):
        group = new_group(LETTERS_OF_AN_ID[attempt > TRIES // 2])
        paths = (f"{repository.beside}-{group}-{slot}" for slot in slots)
        if group not in used and not any(map(os.path.lexists, paths)):
            return group
    raise Refused(f"no free name for the group in {TRIES} tries; give one with --group")


def new_group(length: int) -> str:
    return "g-" + "".join(LETTERS[byte % len(LETTERS)] for byte in os.urandom(length))


def earlier(group: str, repository: Repository, env: Mapping[str, str]) -> int:
    """Return how many launches this group has in a repository."""
    mine = [launch for launch in records.read_all(env)[0] if launch.group == group]
    return sum(groups.repository_of(launch) == os.path.realpath(repository.common) for launch in mine)


def prepare_all(
    requests: Sequence[Request],
    env: Mapping[str, str],
    repository: Repository | None = None,
    *,
    base_branches: Sequence[str | None] = (),
    labels: Sequence[str] = (),
    branch: str | None = None,
) -> list[Order]:
    """Return the orders; nothing is made. `repository`: every slot gets a worktree of it; without it each works where
    its request says. `labels`: what an error names. Raises the first error."""
    if repository is None:
        return [start.prepare(request, env) for request in requests]
    from concurrent.futures import ThreadPoolExecutor

    registered = {os.path.realpath(known.path) for known in worktree.listing(repository.common, env)}

    def prepared(request: Request, base_branch: str | None, label: str) -> Order:
        try:
            start.prepare(request, env)  # before git is asked: it costs nothing
            plan = plan_worktree(request, repository, env, base_branch, branch)
            if os.path.realpath(plan.path) in registered:
                raise Refused(f"{plan.path}: git has a worktree there whose folder is gone; `git worktree prune` first")
            return start.prepare(request._replace(worktree=plan, cwd=plan.cwd), env)
        except AgentctlError as error:
            if label:
                error.args = (f"{label}: {error}",)
            raise

    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [pool.submit(prepared, *words) for words in zip(requests, base_branches, labels, strict=True)]
        try:
            return [job.result() for job in jobs]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def plan_worktree(
    request: Request, repository: Repository, env: Mapping[str, str], base_branch: str | None, branch: str | None
) -> worktree.Plan:
    return worktree.plan(
        repository,
        request.cwd,
        f"{request.group}-{request.slot}",
        env,
        branch or f"{BRANCHES}/{request.group}/{request.slot}",
        base_branch,
        new_branch=branch is None,
    )


# Launching


class Crew:
    """A few threads for work that blocks. Python does not wait for them at its exit, so a person who presses Ctrl-C
    twice does not wait for git."""

    def __init__(self, jobs: Sequence[Callable[[], None]]) -> None:
        self._waiting = list(enumerate(jobs))[::-1]
        self._ended = [Event() for _ in jobs]
        for _ in range(min(AT_ONCE, len(jobs))):
            Thread(target=self._work, daemon=True).start_or_run()

    def _work(self) -> None:
        while self._waiting:
            try:
                number, job = self._waiting.pop()
            except IndexError:
                return  # another thread took the last one
            try:
                job()
            finally:
                self._ended[number].set()

    def wait(self, numbers: Iterable[int] | None = None) -> None:
        """Wait for these jobs; None: for all."""
        for number in range(len(self._ended)) if numbers is None else numbers:
            self._ended[number].wait()


class Slot:
    """What is known about one slot while it is launched."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.committed = False  # from now on its agent may be started
        self.started: Started | None = None
        self.outcome: Outcome | None = None

    def holds_something(self) -> bool:
        """Return whether there may be something to wait for after Ctrl-C: an agent that is starting, or a worktree to
        take back."""
        return self.committed or self.order.worktree is not None

    def final(self) -> Outcome:
        """Return what came of it, even if Ctrl-C came first."""
        if self.outcome is not None:
            return self.outcome
        if self.started is None:
            return Outcome(self.order, error=Interrupted("interrupted before it was started; it does not run"))
        id = self.started.launch_id
        why = (
            f"interrupted; it runs (pid {self.started.child.pid}) as launch {id}, and its session is not known yet: "
            f"`agentctl stop {id}` ends it"
        )
        return Outcome(self.order, id, error=Interrupted(why))


class Launching:
    """One launch of one or more slots. `named`: lines for people begin with the name of their slot."""

    def __init__(self, orders: Sequence[Order], env: Mapping[str, str], tell: Tell, *, named: bool = True) -> None:
        self._slots = [Slot(order) for order in orders]
        self._env = env
        self._tell = tell
        self._named = named
        self._off = Event()
        self._back: Crew | None = None  # once it is at work
        self.interrupted = False

    def run(self, known: Callable[[int, Outcome], None]) -> list[Outcome]:
        """Launch them, and return what came of each, in the order of the slots. `known` is called in this thread, for
        each session as soon as it is known."""
        crew = Crew([self._beginning(slot) for slot in self._slots])
        try:
            crew.wait()
            self._await(known)
            self._take_back()
        except KeyboardInterrupt:
            self._off.set()
            self.interrupted = True
            busy = [number for number, slot in enumerate(self._slots) if slot.holds_something()]
            if len(self._slots) > 1:
                self._tell("interrupted: what has begun goes on, agentctl removes the rest (Ctrl-C again: at once)")
            elif any(self._slots[number].started is None for number in busy):
                self._tell("interrupted: agentctl waits until what it began runs or is removed (Ctrl-C again: at once)")
            crew.wait(busy)
            self._take_back()
        finally:
            self._leave_screens()
        return [slot.final() for slot in self._slots]

    def _beginning(self, slot: Slot) -> Callable[[], None]:
        order, tell = slot.order, self._teller(slot)

        def go_on() -> None:
            slot.committed = True  # before the check: `run` sets `_off` first, and then waits for the committed slots
            if self._off.is_set():
                raise Interrupted("interrupted before it was started")

        def run() -> None:
            try:
                if self._off.is_set():
                    raise Interrupted("interrupted before it was begun")
                slot.started = start.begin(order, self._env, tell, go_on)
            except Exception as error:  # noqa: BLE001 - in a thread: whatever it is, it is this slot's and is shown
                id = error.launch_id if isinstance(error, LaunchFailed) and error.perhaps else None
                slot.outcome = Outcome(order, id, error=error)
                return

        return run

    def _teller(self, slot: Slot) -> Tell:
        if not self._named:
            return self._tell
        return lambda line: self._tell(f"{slot.order.slot}: {line}")

    def _await(self, known: Callable[[int, Outcome], None]) -> None:
        numbers = {}
        awaited = []
        for number, slot in enumerate(self._slots):
            if slot.started is None:
                continue
            numbers[slot.started.launch_id] = number
            if slot.order.late is not None:
                error = unnamed(slot.started, slot.order.late)
                slot.outcome = Outcome(slot.order, slot.started.launch_id, error=error)
            else:
                awaited.append(slot.started)
        for started, result in await_sessions(awaited, self._env, self._tell):
            number = numbers[started.launch_id]
            slot = self._slots[number]
            with Uninterrupted():
                if isinstance(result, AgentctlError):
                    slot.outcome = Outcome(slot.order, started.launch_id, error=result)
                else:
                    slot.outcome = Outcome(slot.order, started.launch_id, result)
                    known(number, slot.outcome)
            if not isinstance(result, AgentctlError):
                self._note_id(slot, started, result.id)

    def _note_id(self, slot: Slot, started: Started, id: str) -> None:
        """Note the id of a session that a screen began, and say so if an agent took another one than we chose."""
        chosen = slot.order.session_id
        if started.screen is not None and chosen is None:
            records.note_session(started.folder, id)
        if chosen is not None and id != chosen:
            self._teller(slot)(f"{slot.order.agent} did not take the id {chosen}: its session is {id}")

    def _leave_screens(self) -> None:
        for slot in self._slots:
            if slot.started is not None and slot.started.screen is not None:
                slot.started.screen.leave(dead=isinstance(slot.final().error, LaunchFailed))

    def _take_back(self) -> None:
        """Take back what was made for the agents that ended before they had a session."""
        if self._back is None:
            ended = [(slot, slot.final().error) for slot in self._slots if slot.started is not None]
            self._back = Crew([self._giving_back(slot, why) for slot, why in ended if isinstance(why, LaunchFailed)])
        self._back.wait()

    def _giving_back(self, slot: Slot, error: LaunchFailed) -> Callable[[], None]:
        return lambda: start.give_back(slot.order, error, self._env, self._teller(slot))


def launch_one(
    order: Order,
    env: Mapping[str, str],
    tell: Tell,
    known: Callable[[Session], None] = lambda session: None,
) -> Session:
    """Launch one agent and return its session. `known` is called with it as soon as it is known. Raises LaunchFailed;
    TimedOut and NoSessionYet (the agent is left running); Refused, NotFound, UsageError; and after Ctrl-C Interrupted,
    which says what goes on."""

    def pass_on(_: int, outcome: Outcome) -> None:
        if outcome.session is not None:
            known(outcome.session)

    launching = Launching([order], env, tell, named=False)
    (outcome,) = launching.run(pass_on)
    if outcome.session is None:
        raise outcome.error or AgentctlError("agentctl does not know what became of it; see `agentctl list`")
    if launching.interrupted:
        raise Interrupted(goes_on(outcome.session))
    return outcome.session


def goes_on(session: Session) -> str:
    """Return what to say to a person who pressed Ctrl-C after the session was known."""
    return f"interrupted; {session.agent} goes on, session {session.id}: `agentctl stop {session.id}` ends it"
