"""The lives of sessions, as the one who leads them knows them: what was ordered, what was confirmed, and when.

Whether a process lives is told by its pidfd alone. A watcher looks at all of them, all the time.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from typing import TYPE_CHECKING

from tests.soak.oracle import (
    ALIVE,
    GONE,
    IDLE,
    INTERRUPTED,
    NOT_THERE,
    WAITING,
    WORKING,
    Timeline,
    Truth,
)
from tests.soak.world import Line, Lost, World, ended, patiently
from tests.torture.handles import Handle, WorldError
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

ANY_END = Truth(GONE)
GLANCE = 0.02
UNDER_WAY = (WORKING, WAITING)


class Life:
    """One session. Who changes it holds `lock`; the watcher alone says that it ended.

    This is what the soak asks of an agent's description: a subclass of Standin or of Scripted (kinds.py).
    """

    FILES: str  # pattern of the files of one session in its agent's store; {id} stands for the session
    has_other_name = False  # it was started by a link: agentctl may be unable to prove which session it is on

    @classmethod
    def prepare(cls, root: Path) -> None:
        """Make what has to be in an empty store."""

    def __init__(self, world: World, agent: str, directory: Path) -> None:
        self.world = world
        self.agent = agent
        self.directory = directory
        self.mark = f"soak-{world.number()}-"
        self.id: str | None = None
        self.timeline = Timeline(0.0, NOT_THERE)
        self.lock = threading.RLock()
        self.turn, self.last = IDLE, ""
        self.processes: dict[str, Handle] = {}  # agent, wrapper, runner
        self.tools: list[Handle] = []
        self.pids: set[int] = set()
        self.popen: subprocess.Popen[bytes] | None = None
        self.launched = False
        self.in_pane = False  # of tmux: its runner is the process of it
        self.launch_id: str | None = None
        self.hook: Path | None = None
        self.suspended = False
        self.left: list[Handle] = []  # tools whose agent was not ended by agentctl: nobody's but ours to end
        self.stopping = False  # agentctl is ending it
        self.runner_killed = False
        self.born = time.monotonic()
        self.died_at: float | None = None
        self.expected: tuple[Truth, ...] = ()  # how it may end by what was ordered
        self.line: Line | None = None
        self.terminal = -1
        self.is_deaf = False  # it cannot be told anything any more

    # What is true

    @property
    def truth(self) -> Truth:
        """While it runs, and nothing is under way."""
        return Truth(ALIVE, self.turn)

    @property
    def is_guessed(self) -> bool:
        """Is nothing there that proves which session its process is on? Then only a person who insists may end it."""
        return False

    @property
    def can_be_told(self) -> bool:
        """Does it do what it is told to?"""
        return not self.is_deaf

    def has_all(self, roles: tuple[str, ...]) -> bool:
        """Do these live, of its processes? Nobody but itself can be killed in a pane: what is in it goes with it."""
        if self.in_pane and roles not in (("agent",), ("tools",)):
            return False
        named = [self.processes.get(role) for role in roles if role != "tools"]
        tools = "tools" not in roles or any(not ended(tool.pidfd) for tool in self.tools)
        return tools and all(one is not None and not ended(one.pidfd) for one in named)

    @property
    def alive(self) -> bool:
        return "agent" in self.processes and self.died_at is None

    @property
    def is_known(self) -> bool:
        return self.id is not None

    def ends(self) -> tuple[Truth, ...]:
        """How it is to be called if its process goes now."""
        if self.turn in UNDER_WAY:
            return (Truth(GONE, INTERRUPTED),)
        return (Truth(GONE, self.last),) if self.last else (NOT_THERE, ANY_END)

    @contextlib.contextmanager
    def becoming(self, turn: str, last: str | None = None) -> Iterator[None]:
        """What is done in here leads to this turn. It may die in it, as what it was or as what it becomes."""
        before = self.ends()
        now = time.monotonic()
        old = self.turn, self.last
        self.turn, self.last = turn, self.last if last is None else last
        self.timeline.may_be(now, Truth(ALIVE, turn))
        self.expected = tuple({*self.expected, *before, *self.ends()})
        self.timeline.change_begins(now)
        try:
            yield
        except Lost:
            self.turn, self.last = old
            raise
        now = time.monotonic()
        self.timeline.change_ends(now)
        if self.alive and not ended(self.processes["agent"].pidfd):
            self.timeline.is_now(now, self.truth)
            self.expected = self.ends()

    @contextlib.contextmanager
    def touched(self) -> Iterator[None]:
        """Something is written that changes nothing."""
        self.timeline.change_begins(time.monotonic())
        try:
            yield
        finally:
            self.timeline.change_ends(time.monotonic())

    def may_end(self, *truths: Truth) -> None:
        """Before somebody ends it."""
        self.expected = truths or self.ends()
        now = time.monotonic()
        self.timeline.change_begins(now)
        self.timeline.may_be(now, *self.expected)

    def may_leave(self) -> None:
        """Before it is asked to end: it may close its turn, and go on for some moments."""
        self.may_end()
        self.timeline.may_be(time.monotonic(), Truth(ALIVE, IDLE))

    def begins(self) -> None:
        """Somebody starts it: nothing more is known until its process is."""
        now = time.monotonic()
        self.timeline.change_begins(now)
        self.timeline.may_be(now, Truth(ALIVE), ANY_END)

    def has_process(self, pid: int, start: int, watcher: Watcher, popen: subprocess.Popen[bytes] | None = None) -> bool:
        """False: it is gone again."""
        self.pids.add(pid)
        try:
            handle = Handle(pid, start, popen)
        except (OSError, WorldError):
            return False
        self.popen = popen
        self.died_at = None
        self.suspended = self.is_deaf = False
        self.expected = ()
        self.processes["agent"] = handle
        watcher.watch(handle, lambda since, until: self.died(since, until))
        return True

    def has_companion(self, role: str, pid: int, start: int, watcher: Watcher) -> None:
        with contextlib.suppress(OSError, WorldError):
            self.processes[role] = handle = Handle(pid, start)
            watcher.watch(handle, lambda since, until: None)

    def is_settled(self) -> None:
        """It runs, and what it does is known."""
        now = time.monotonic()
        if self.alive and not ended(self.processes["agent"].pidfd):
            self.timeline.is_now(now, self.truth)
        self.timeline.change_ends(now)

    def is_nothing(self) -> None:
        """It was never started, or left nothing."""
        now = time.monotonic()
        self.timeline.is_now(now, NOT_THERE)
        self.timeline.change_ends(now)

    def died(self, since: float, until: float) -> None:
        """Told by the watcher: it was alive at `since`, and is gone by `until`."""
        how = self.expected or (ANY_END, NOT_THERE)
        if self.launched and self.world.was_full(self.born, until):
            how = (ANY_END, NOT_THERE)  # an agent that cannot print may end of it
        self.world.note(f"{self.agent} {self.id} has ended, expected: {' or '.join(map(str, self.expected)) or 'no'}")
        self.timeline.may_be(since, *how)
        self.timeline.is_now(until, *how)
        if not self.stopping:
            self.left, self.tools = [*self.left, *self.tools], []
        self.died_at = until
        self.timeline.change_ends(until)

    def quiet_since(self) -> float | None:
        """When the last of its processes was gone; None while one lives."""
        living = [one for role, one in self.processes.items() if role != "agent" and not ended(one.pidfd)]
        return None if living else self.died_at

    # What is done to it

    def signal(self, role: str, number: int) -> bool:
        handle = self.processes.get(role)
        if handle is None or ended(handle.pidfd):
            return False
        try:
            handle.send_signal(number)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        self.may_end(*(self.expected or self.ends()))
        self.left += children_of(self.processes["agent"])
        self.signal("agent", signal.SIGKILL)

    def environment(self, *, wrapped: bool = False, style: str = "new") -> dict[str, str]:
        """What tells it how to be started: by a wrapper, in the style of an older version; if it has that."""
        return {}

    def leave(self) -> None:
        """It is asked to end, in its own way."""
        raise NotImplementedError

    def await_end(self) -> None:
        try:
            patiently(f"the end of {self.agent} {self.id}", lambda: self.died_at is not None)
        except WorldError as error:
            raise WorldError(f"{error}; {standing(self.processes['agent'])}\n{self.text()}") from error

    def suspend(self, on: bool) -> None:
        with self.touched():
            self.signal("agent", signal.SIGSTOP if on else signal.SIGCONT)
            self.suspended = on

    def files(self) -> list[Path]:
        """Of its own, in its agent's store."""
        return list(self.world.roots[self.agent].glob(self.FILES.format(id=self.id)))

    def forget(self) -> None:
        """It is deleted from its store."""
        for path in (*self.files(), *self.registrations()):
            path.unlink()

    def registrations(self) -> list[Path]:
        """What names its processes in its agent's store, and outlives one that was killed."""
        return []

    @property
    def is_kept(self) -> bool:
        """Is it surely in its store?"""
        now = time.monotonic()
        return NOT_THERE not in self.timeline.possible(now, now)

    def reap(self) -> None:
        if self.popen is not None:
            self.popen.wait()
            self.popen = None
        if self.terminal >= 0:
            os.close(self.terminal)
            self.terminal = -1

    def text(self) -> str:
        pids = {role: one.pid for role, one in self.processes.items()}
        kind = "launched" if self.launched else "foreign"
        return f"{self.agent} {self.id} {self.mark} {kind} in {self.directory}, {pids}\n{self.timeline.text()}"


class Watcher:
    """Looks at all pidfds, over and over: each ended between the look before and this one."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._told: dict[int, tuple[Handle, Callable[[float, float], None], float]] = {}
        self._guard = threading.Lock()
        self._tick = threading.Condition()
        self._looked_at = 0.0
        self.strays: list[str] = []
        threading.Thread(target=self._run, daemon=True).start()

    def watch(self, handle: Handle, tell: Callable[[float, float], None]) -> None:
        with self._guard:
            self._told[handle.pidfd] = handle, tell, time.monotonic()
            self._poll.register(handle.pidfd, select.EPOLLIN)

    def _run(self) -> None:
        before = time.monotonic()
        while True:
            began = time.monotonic()
            events = self._poll.poll(GLANCE, 4096)
            now = time.monotonic()
            for fd, _ in events:
                with self._guard:
                    self._poll.unregister(fd)
                    _, tell, since = self._told.pop(fd)
                tell(max(before, since), now)
            before = began
            with self._tick:
                self._looked_at = began
                self._tick.notify_all()

    def has_looked_after(self, at: float) -> None:
        """Until every end that came before this moment has been told."""
        with self._tick:
            self._tick.wait_for(lambda: self._looked_at > at)


def children_of(handle: Handle) -> list[Handle]:
    found = []
    with contextlib.suppress(OSError, WorldError):
        with open(f"/proc/{handle.pid}/task/{handle.pid}/children") as file:
            pids = [int(word) for word in file.read().split()]
        for pid in pids:
            found.append(Handle(pid, start_ticks(pid)))
    return found


def standing(handle: Handle) -> str:
    """What the kernel says of one that does not do what it was to do."""
    try:
        with open(f"/proc/{handle.pid}/wchan") as place, open(f"/proc/{handle.pid}/stat") as stat:
            return f"pid {handle.pid} is in {place.read() or 'user mode'}: {stat.read()}"
    except OSError as error:
        return f"pid {handle.pid}: {error}"


def key_of(text: str) -> tuple[int, int]:
    _, pid, start = text.rsplit(":", 2)
    return int(pid), int(start)


def ticks_of(pid: int) -> int | None:
    try:
        return start_ticks(pid)
    except OSError:
        return None
