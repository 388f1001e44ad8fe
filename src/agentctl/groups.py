"""Many launches as one group: each slot in a worktree and on a branch of its own.

prepare_all    everything is checked, for all of them; nothing is made
launch_all     worktrees are made and agents started, a few at a time; then one look after the other for all sessions

One that fails is taken back, and the others go on. Ctrl-C: what runs goes on, what had not begun is taken back.
"""

from __future__ import annotations

import os
import queue
import signal
import threading

from agentctl import control, git, launches, worktrees
from agentctl.awaiting import await_sessions
from agentctl.errors import AgentctlError, Interrupted, LaunchFailed, Refused
from agentctl.model import Value
from agentctl.unsaved import HEADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentctl.awaiting import Begun
    from agentctl.control import Prepared, Request, Tell
    from agentctl.model import Session
    from agentctl.worktrees import Repository

BRANCHES = "try"  # branches are called try/<group>/<slot>
AT_ONCE = 4  # gits: more of them only wait for the disk
LETTERS = "bcdfghjkmnpqrstvwxz23456789"  # none that look alike, and no words
LETTERS_OF_AN_ID = (4, 6)
TRIES = 20


class Place(Value):
    """Where the slots of a group come to be."""

    repository: Repository
    cwd: str  # of the person
    group: str


class Outcome(Value):
    """What came of one slot: a session, or why there is none."""

    request: Request
    launch_id: str | None = None
    session: Session | None = None
    error: AgentctlError | None = None

    @property
    def slot(self) -> str:
        return self.request.slot or ""


# Planning


def choose_group(slots: Sequence[str], repository: Repository, env: Mapping[str, str]) -> str:
    """A new name: of no launch that is kept, no branch and no worktree."""
    used = {launch.group for launch in launches.read_all(env)[0]}
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


def earlier(group: str, env: Mapping[str, str]) -> int:
    return sum(launch.group == group for launch in launches.read_all(env)[0])


def prepare_all(
    requests: Sequence[Request],
    place: Place,
    env: Mapping[str, str],
    *,
    base_branches: Sequence[str | None],
    labels: Sequence[str],
    branch: str | None = None,
) -> list[Prepared]:
    """`requests` have their slots, and no worktrees yet. `labels`: what an error is to name. Raises the first one;
    nothing is made."""
    from concurrent.futures import ThreadPoolExecutor

    registered = {os.path.realpath(one.path) for one in worktrees.listing(place.repository.common, env)}

    def prepared(request: Request, base_branch: str | None) -> Prepared:
        control.prepare(request, env)  # before git is asked: it costs nothing
        planned = plan(request, base_branch)
        if os.path.realpath(planned.path) in registered:
            raise Refused(f"{planned.path}: git has a worktree there whose folder is gone; `git worktree prune` first")
        return control.prepare(request._replace(worktree=planned, cwd=planned.cwd), env)

    def plan(request: Request, base_branch: str | None) -> worktrees.Plan:
        return worktrees.plan(
            place.repository,
            place.cwd,
            f"{place.group}-{request.slot}",
            env,
            branch or f"{BRANCHES}/{place.group}/{request.slot}",
            base_branch,
            new_branch=branch is None,
        )

    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [pool.submit(prepared, *one) for one in zip(requests, base_branches, strict=True)]
        try:
            return [labelled(job.result, label) for job, label in zip(jobs, labels, strict=True)]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def labelled(result: Callable[[], Prepared], label: str) -> Prepared:
    try:
        return result()
    except AgentctlError as error:
        if label:
            error.args = (f"{label}: {error}",)
        raise


# Launching


class Crew:
    """A few threads for what blocks. Daemons: who presses Ctrl-C twice does not wait for git. They tell themselves when
    they have ended: a `join` that is torn by Ctrl-C takes a thread that runs for one that has ended (CPython 3.11)."""

    def __init__(self, jobs: Iterable[Callable[[], None]]) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        count = 0
        for job in jobs:
            self._jobs.put(job)
            count += 1
        self._ended = [threading.Event() for _ in range(min(AT_ONCE, count))]
        for ended in self._ended:
            threading.Thread(target=self._work, args=(ended,), daemon=True).start()

    def _work(self, ended: threading.Event) -> None:
        try:
            while (job := self._next()) is not None:
                job()
        finally:
            ended.set()

    def _next(self) -> Callable[[], None] | None:
        try:
            return self._jobs.get_nowait()
        except queue.Empty:
            return None

    def wait(self) -> None:
        for ended in self._ended:
            ended.wait()


class Uninterrupted:
    """What is noted and printed together is not torn by Ctrl-C, which comes right after it. For the main thread."""

    def __enter__(self) -> None:
        self._pressed = False
        self._before = signal.getsignal(signal.SIGINT)
        if callable(self._before):  # else it is ignored, as in the background of a shell
            signal.signal(signal.SIGINT, self._note)

    def _note(self, *_: object) -> None:
        self._pressed = True

    def __exit__(self, *_: object) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)
        if self._pressed:
            raise KeyboardInterrupt


class Launching:
    """One launch of a group, with what is known of each slot."""

    def __init__(self, all: Sequence[Prepared], env: Mapping[str, str], tell: Tell) -> None:
        self._all = all
        self._env = env
        self._tell = tell
        self._off = threading.Event()
        self._begun: dict[int, Begun] = {}
        self._results: dict[int, Outcome] = {}
        self._back: Crew | None = None  # once it is at work
        self.interrupted = False

    def run(self, known: Callable[[int, Outcome], None]) -> list[Outcome]:
        """In the order of the slots. `known` is called in this thread, for each session as soon as it is known."""
        crew = Crew(self._beginning(number) for number in range(len(self._all)))
        try:
            crew.wait()
            self._await(known)
            self._take_back()
        except KeyboardInterrupt:
            self._off.set()
            self.interrupted = True
            self._tell("interrupted: what has begun goes on, the rest is taken back (Ctrl-C again: at once)")
            crew.wait()
            self._take_back()
        return [self._outcome(number) for number in range(len(self._all))]

    def _beginning(self, number: int) -> Callable[[], None]:
        def run() -> None:
            prepared = self._all[number]
            request = prepared.request

            def tell(line: str) -> None:
                self._tell(f"{request.slot}: {line}")

            try:
                if self._off.is_set():
                    raise Interrupted("interrupted before it was begun")
                begun = control.begin(prepared, self._env, tell, self._off.is_set)
            except Exception as error:  # noqa: BLE001 - in a thread: whatever it is, it is this slot's and is shown
                mine = error if isinstance(error, AgentctlError) else AgentctlError(f"{type(error).__name__}: {error}")
                id = mine.launch_id if isinstance(mine, LaunchFailed) and mine.perhaps else None
                self._results[number] = Outcome(request, id, error=mine)
                return
            self._begun[number] = begun
            where = request.worktree.path if request.worktree else request.cwd
            tell(f"{request.agent} (pid {begun.started.child.pid}) in {where}")

        return run

    def _await(self, known: Callable[[int, Outcome], None]) -> None:
        numbers = {begun.started.launch_id: number for number, begun in self._begun.items()}
        in_order = [self._begun[number] for number in sorted(self._begun)]
        for begun, found in await_sessions(in_order, self._env, self._tell):
            number = numbers[begun.started.launch_id]
            failed = found if isinstance(found, AgentctlError) else None
            outcome = Outcome(
                self._all[number].request,
                begun.started.launch_id,
                None if isinstance(found, AgentctlError) else found,
                failed,
            )
            with Uninterrupted():
                self._results[number] = outcome
                if failed is None:
                    known(number, outcome)

    def _take_back(self) -> None:
        """Of the agents that ended before they had a session."""
        failed = [
            number
            for number in self._begun
            if number in self._results and isinstance(self._results[number].error, LaunchFailed)
        ]
        self._back = self._back or Crew(self._taking_back(number) for number in failed)
        self._back.wait()

    def _taking_back(self, number: int) -> Callable[[], None]:
        def run() -> None:
            request, error = self._results[number].request, self._results[number].error
            if error is not None:
                control.give_back(request, error, self._env, lambda line: self._tell(f"{request.slot}: {line}"))

        return run

    def _outcome(self, number: int) -> Outcome:
        if number in self._results:
            return self._results[number]
        begun, request = self._begun.get(number), self._all[number].request
        if begun is None:
            return Outcome(request, error=Interrupted("interrupted before it was begun"))
        id = begun.started.launch_id
        why = f"interrupted; it runs (pid {begun.started.child.pid}): `agentctl stop {id}` ends it"
        return Outcome(request, id, error=Interrupted(why))
