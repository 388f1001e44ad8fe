"""Ends processes, and proves that they have ended. It opens and proves every process before the first signal, and
signals through what it opened: nobody who has the pid later is harmed."""

from __future__ import annotations

import signal
import time

from agentctl.errors import AgentctlError, Refused
from agentctl.kernel.handles import Handle, has_ended, wait_for
from agentctl.model import Value
from agentctl.stop import pipes
from agentctl.stop.plan import HOST, UNCLEAR, Left, collect, collect_adopted, holds_nobody_else, hosts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from agentctl.model import ProcessKey
    from agentctl.stop.plan import Ground, Targets, Tree

    Around = Callable[[Collection[ProcessKey]], Ground]

AGENT, TOOL, WRAPPER = "agent", "tool", "wrapper"
TOOL_GRACE = 2.0  # for a tool to end after SIGTERM
WRAPPER_GRACE = 2.0  # for a wrapper to see that what it held has ended
KILL_PATIENCE = 5.0  # for the kernel to end what was killed
LOOKS, PAUSE = 5, 0.03  # at a process in the middle of exec, which lasts for milliseconds
HANG_UP = 1.0  # for a process to end whose terminal is gone
ITSELF = "itself"
OVER = "; it has ended meanwhile"


class Ended(Value):
    pid: int
    comm: str
    part: str
    how: str  # the last signal that it was sent, or ITSELF


class Living(Value):
    pid: int
    comm: str
    part: str
    why: str


class Part:
    """One process that is to end."""

    def __init__(self, handle: Handle, part: str) -> None:
        self.handle = handle
        self.part = part
        self.how = ITSELF
        self.why = "it was not signalled"
        self.alive = True


class Ending:
    """One try. `around` looks at who is whose now, and reads the details of these processes and of all below them.
    `alone`: nothing below them is a part of it: a screen may have started the daemon that it shows, and its helpers."""

    def __init__(self, targets: Targets, around: Around, *, alone: bool = False) -> None:
        self.left: dict[ProcessKey, Left] = {}
        self.seconds: float | None = None  # from the first signal to the end of the last process of the session
        self._around = around
        self._alone = alone
        self._tree = False
        self._targets = targets
        self._mine = frozenset((*targets.keys, *targets.wrappers))
        self._parts: dict[ProcessKey, Part] = {}
        self._gone_before: list[ProcessKey] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in self._parts.values():
            part.handle.close()

    # Before the first signal

    def prepare(self, runner: ProcessKey | None, *, tree: bool) -> None:
        """Open and prove every process that is to end. `runner`: of the launch, which adopts what the agent leaves."""
        self._tree = tree
        self._open(self._targets.keys, AGENT)
        self._open(self._targets.wrappers, WRAPPER)

        def look(ground: Ground) -> Tree:
            below = collect(self._targets.keys, ground, self._mine, tree=tree)
            if runner is None:
                return below
            known = self._mine | {row.key for row in below.tools}
            behind = collect_adopted(runner, ground, known, tree=tree)
            return below._replace(tools=(*below.tools, *behind.tools), left=(*below.left, *behind.left))

        self._add((*self._targets.keys, *([runner] if runner is not None else [])), look)

    def _add(self, roots: Collection[ProcessKey], look: Callable[[Ground], Tree]) -> None:
        """Open the tools below these. What is in the middle of exec is looked at again: it soon shows whose it is."""
        if self._alone:
            return
        for _ in range(LOOKS):
            ground = self._around(roots)
            tree = look(ground)
            if not self._tree:  # else the sessions below end, too
                tree = pipes.spare(tree, ground, self._mine)
            if not any(one.why == UNCLEAR for one in tree.left):
                break
            time.sleep(PAUSE)
        self._open((row.key for row in tree.tools), TOOL)
        self.left.update({one.key: one for one in tree.left if one.key not in self._parts})
        for key, holds in hosts_of(tree.left, ground, tree=self._tree).items():
            part = self._parts.get(key)
            if part is not None and part.part == TOOL:  # it has started somebody else meanwhile
                del self._parts[key]
                self.left[key] = Left(key, part.handle.comm, HOST, holds)
                part.handle.close()

    def _open(self, keys: Iterable[ProcessKey], part: str) -> None:
        for key in keys:
            if key in self._parts:
                continue
            try:
                handle = Handle.open(key)
            except OSError as error:
                raise AgentctlError(
                    f"pid {key.pid} could not be opened: {error.strerror}; nobody is signalled whom we do not hold; "
                    f"{len(self._parts)} processes are held: is the limit of open files (ulimit -n) too low?"
                ) from error
            if handle is not None:
                self._parts[key] = Part(handle, part)
            elif part == AGENT:
                self._gone_before.append(key)

    # Acting

    def signal_agents(self, signals: Mapping[ProcessKey, tuple[str, ...]], grace: float) -> None:
        """Send the agent's own signals, then SIGKILL. Its signals share the time of grace."""
        began = time.monotonic()
        rounds = max((len(names) for names in signals.values()), default=0)
        for number in range(rounds):
            for key, names in signals.items():
                if key in self._parts and number < len(names):
                    self._send([self._parts[key]], signal.Signals[names[number]])
            self._wait(self._those(AGENT), began + grace * (number + 1) / rounds - time.monotonic())
        if self._those(AGENT):
            self._below_what_lives(AGENT)
            self._send(self._those(AGENT), signal.SIGKILL)
            self._wait(self._those(AGENT), KILL_PATIENCE)
        self.seconds = time.monotonic() - began

    def wait_for_agents(self, seconds: float) -> None:
        self._wait(self._those(AGENT), seconds)

    def living_agents(self) -> bool:
        return bool(self._those(AGENT))

    def end_tools(self) -> None:
        for number, patience in ((signal.SIGTERM, TOOL_GRACE), (signal.SIGKILL, KILL_PATIENCE)):
            self._wait(self._those(TOOL), 0.0)
            if self._those(TOOL):
                self._below_what_lives(TOOL)
                self._send(self._those(TOOL), number)
                self._wait(self._those(TOOL), patience)

    def wait_for_wrappers(self) -> None:
        self._wait(self._those(WRAPPER), WRAPPER_GRACE)

    def end_wrappers(self) -> None:
        self.wait_for_wrappers()
        for number, patience in ((signal.SIGTERM, TOOL_GRACE), (signal.SIGKILL, KILL_PATIENCE)):
            if not self._those(WRAPPER):
                return
            free = self._free_wrappers()
            self._send(free, number)
            self._wait(free, patience)

    def _free_wrappers(self) -> list[Part]:
        """Return the wrappers that nobody else needs. It looks again at what is just starting or ending below them."""
        for _ in range(LOOKS):
            wrappers = self._those(WRAPPER)
            ground = self._around([one.handle.key for one in wrappers])
            free = [one for one in wrappers if holds_nobody_else(one.handle.key, ground, self._mine)]
            if len(free) == len(wrappers):
                break
            time.sleep(PAUSE)
        for one in self._those(WRAPPER):
            if one not in free:
                one.why = "a wrapper that others need"
        return free

    def _below_what_lives(self, part: str) -> None:
        """Add what these have started meanwhile: after their end it would be nobody's child."""
        keys = [one.handle.key for one in self._those(part)]
        mine = self._mine | frozenset(self._parts)
        self._add(keys, lambda ground: collect(keys, ground, mine, tree=self._tree))

    def _send(self, parts: Iterable[Part], number: signal.Signals) -> None:
        for part in parts:
            suspended = number != signal.SIGKILL and part.handle.suspended()
            try:
                if not part.handle.send(number):
                    continue
                if suspended:
                    part.handle.send(signal.SIGCONT)
            except PermissionError as error:
                if part.part == AGENT:
                    raise Refused(
                        f"pid {part.handle.key.pid} ({part.handle.comm}) may not be signalled by this user: "
                        f"{error.strerror}; run agentctl as the user who started it"
                    ) from error
                part.why = f"it may not be signalled: {error.strerror}"
                continue
            part.how = number.name
            part.why = f"it lives on after {number.name}"

    def _wait(self, parts: list[Part], seconds: float) -> None:
        living = wait_for([one.handle for one in parts], max(0.0, seconds))
        for part in parts:
            part.alive = part.handle in living

    def _those(self, part: str) -> list[Part]:
        return [one for one in self._parts.values() if one.part == part and one.alive]

    # Afterwards

    def ended(self) -> tuple[Ended, ...]:
        before = [Ended(key.pid, "", AGENT, ITSELF) for key in self._gone_before]
        parts = [one for one in self._parts.values() if not one.alive]
        return (*before, *(Ended(one.handle.key.pid, one.handle.comm, one.part, one.how) for one in parts))

    def left_now(self) -> tuple[Left, ...]:
        """Return what was left alone, and say of each whether it lives: "not signalled" is not "alive". What an agent
        ends by itself may have held the terminal of one of them, which then needs a moment to end."""
        deadline = time.monotonic() + HANG_UP
        while (
            any(one.why == HOST and has_ended(one.key) for one in self.left.values())
            and not all(has_ended(one.key) for one in self.left.values())
            and time.monotonic() < deadline
        ):
            time.sleep(PAUSE)
        return as_they_are(self.left.values())

    def living(self) -> tuple[Living, ...]:
        parts = [one for one in self._parts.values() if one.alive]
        return tuple(Living(one.handle.key.pid, one.handle.comm, one.part, one.why) for one in parts)


def as_they_are(left: Iterable[Left]) -> tuple[Left, ...]:
    """Return what was left alone, each with whether it has ended by now."""
    return tuple(
        one._replace(what=f"{one.what}{OVER}") if has_ended(one.key) and not one.what.endswith(OVER) else one
        for one in left
    )
