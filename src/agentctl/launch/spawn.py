"""Starts a runner, and through it an agent: an order comes in; two process keys go out, or the reason why not."""

from __future__ import annotations

import fcntl
import json
import os
import select
import sys
import time

from agentctl.durations import utc
from agentctl.errors import LaunchFailed, MissingProgram, Refused, UsageError
from agentctl.files.bounded import text_or_none
from agentctl.files.redaction import holds_secret, redact, redact_text, shortened
from agentctl.kernel import places
from agentctl.kernel.commands import folders_of_path
from agentctl.kernel.procfs import own_pid_namespace
from agentctl.kernel.recorded import key_here
from agentctl.launch.program import wrapper_in
from agentctl.launches import groups, lineage, records
from agentctl.launches.records import MARKER, Reserved
from agentctl.model import Launch, ProcessKey, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any, Self

    from agentctl.launch.interactive import Watcher
    from agentctl.model import Launcher
    from agentctl.workspace.worktree import Plan

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runner.py")
PATIENCE = 30.0  # for a runner to say how it went; it takes 50 ms
ID_PATIENCE = 60.0  # for an agent to name its session
REPORT_LIMIT = 64 * 1024
PROMPT_KEPT = 64 * 1024  # characters: to be shown to people, not to be run again
ORDER, REPORT = ".order.json", ".report"
STDIN_OF_THE_RUNNER, STDOUT_OF_THE_RUNNER, REPORT_OF_THE_RUNNER, INPUT_OF_THE_AGENT = range(4)
FREE_OF_STANDARD = 10
OF_THE_AGENT = ("exec", "cwd")  # the steps whose failure is the agent's, not ours


class Order(Value):
    """One agent to start: everything that is decided before anything is made."""

    agent: str
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]  # the agent's whole environment; the marker is added
    input: bytes | None = None  # for its stdin, through a file: it is there whole, or not at all
    prompt: str | None = None
    group: str | None = None
    spec: str | None = None
    hooks: Mapping[str, str] | None = None
    worktree: Plan | None = None  # to be made for it; then `cwd` is in there
    slot: str | None = None
    session_id: str | None = None  # if we choose it
    one_shot: bool = False
    interactive: bool = False  # in tmux
    time_limit: float | None = None
    ask: tuple[str, ...] | None = None  # commands of ours that the runner runs: runner.py says when
    stop: tuple[str, ...] | None = None
    commands_env: Mapping[str, str] | None = None  # of those two; None = the environment of this process
    model: str | None = None
    resumes: str | None = None  # the session that it continues
    given: Launch | None = None  # the launch that its worktree was made for, if it goes on there
    even_if_open: bool = False  # as asked for: resume a session that a screen may show
    force: bool = False  # start even if another session works there
    id_patience: float = ID_PATIENCE  # for its session id
    said: str | None = None  # by its agent, for the person, before it starts
    late: str | None = None  # why it has no session before somebody types something
    launcher: Launcher | None = None
    store: str | None = None  # where the agent keeps its sessions, by `env`


class Started(Value):
    """A launch whose agent was executed."""

    order: Order
    launch_id: str
    folder: str
    runner: ProcessKey
    child: ProcessKey
    screen: Watcher | None = None  # of an agent in a terminal


def start(reserved: Reserved, order: Order, patience: float = PATIENCE) -> Started:
    """Start an agent without a terminal, and return once it is executed. Raises LaunchFailed: then its folder is gone,
    or says how it ended; MissingProgram, Refused and UsageError before anything is started."""
    descriptors: list[int] = []
    try:
        document = runner_order(reserved, order, headless=True)
        commands_env = dict(os.environ if order.commands_env is None else order.commands_env)
        listening, speaking = os.pipe()
        descriptors += [listening, speaking]
        given = file_of(json.dumps(document).encode(), descriptors)
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, STDOUT_OF_THE_RUNNER, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, given, STDIN_OF_THE_RUNNER),
            (os.POSIX_SPAWN_DUP2, above_standard(speaking, descriptors), REPORT_OF_THE_RUNNER),
        ]
        if order.input is not None:
            actions.append((os.POSIX_SPAWN_DUP2, file_of(order.input, descriptors), INPUT_OF_THE_AGENT))
        pid = os.posix_spawn(sys.executable, command(reserved), commands_env, file_actions=actions)
        for fd in descriptors[1:]:
            os.close(fd)
        del descriptors[1:]
        heard = listen(listening, patience)
        wait_for(pid, os.WNOHANG if heard is None else 0)
        return outcome(reserved, order, heard)
    except OSError as error:
        discard(reserved)
        raise LaunchFailed(f"the runner could not be started: {error}", reserved.id, errno=error.errno) from error
    except (MissingProgram, Refused, UsageError):
        discard(reserved)
        raise
    finally:
        for fd in descriptors:
            os.close(fd)


class Pane:
    """Starts an agent in a terminal that somebody else opens: a tmux pane, with `argv` as its command.

    with Pane(reserved, order) as pane:
        (open a terminal that runs pane.argv)
        started = pane.wait()
    """

    def __init__(self, reserved: Reserved, order: Order) -> None:
        self.reserved = reserved
        self._order = order
        self._paths = [os.path.join(reserved.folder, name) for name in (ORDER, REPORT)]
        self.argv = [*command(reserved), self._paths[0]]

    def __enter__(self) -> Self:
        """Put the order into a private file until the runner takes it: every user can see a command line."""
        if self._order.input is not None:
            raise UsageError("an agent in a terminal reads from that terminal; put the prompt into its arguments")
        try:
            document = runner_order(self.reserved, self._order, headless=False)
            document["report"] = self._paths[1]
            document["commands_env"] = dict(
                os.environ if self._order.commands_env is None else self._order.commands_env
            )
            os.mkfifo(self._paths[1], 0o600)
            self._listening = os.open(self._paths[1], os.O_RDONLY | os.O_NONBLOCK)
            fd = os.open(self._paths[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(fd, "wb") as file:
                file.write(json.dumps(document).encode())
        except OSError as error:
            discard(self.reserved)
            raise LaunchFailed(f"{error}", self.reserved.id, errno=error.errno) from error
        except (MissingProgram, Refused, UsageError):
            discard(self.reserved)
            raise
        return self

    def is_taken_back(self) -> bool:
        """Take the order back, and return whether that came in time: the runner removes it, too, before it begins. So
        exactly one of us has it, and if it is we, nothing was started and nothing will be."""
        try:
            os.unlink(self._paths[0])
        except FileNotFoundError:
            return False
        discard(self.reserved)
        return True

    def wait(self, patience: float = PATIENCE) -> Started:
        return outcome(self.reserved, self._order, listen(self._listening, patience))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._listening)
        taken = not os.path.lexists(self._paths[0])
        for path in self._paths:
            remove(path)
        if not taken:
            discard(self.reserved)


def command(reserved: Reserved) -> list[str]:
    return [sys.executable, "-I", "-S", RUNNER, reserved.id]


def place_of(order: Order) -> dict[str, str | None]:
    """Return where its work goes: the worktree that is made for it, or the one in which it goes on. Of an agent without
    one, only the repository that its group is of."""
    if order.worktree is not None:
        plan = order.worktree
        return {"worktree": plan.path, "branch": plan.branch, "base": plan.base, "repository": plan.repository}
    if order.given is not None:
        return {name: getattr(order.given, name) for name in ("worktree", "branch", "base", "repository")}
    repository = groups.repository_at(order.cwd) if order.group is not None else None
    return {"worktree": None, "branch": None, "base": None, "repository": repository}


def runner_order(reserved: Reserved, order: Order, *, headless: bool) -> dict[str, Any]:
    if sys.platform != "linux":
        raise Refused("launch needs Linux: on this system a process has no key before it runs")
    env = {**order.env, MARKER: reserved.id, "PWD": order.cwd}
    for text in (*order.argv, order.cwd, *env, *env.values()):
        if "\0" in text:
            raise UsageError("a NUL byte cannot be in an argument or a variable; take it out, or use a file")
    for name, command in (order.hooks or {}).items():
        if holds_secret(command):
            raise UsageError(
                f"{name} has what looks like a key in it, and agentctl would store it in a file; "
                "put the key into a variable, and $NAME into the command"
            )
    path = executable(order.argv[0], env, order.cwd)
    facts = {
        "id": reserved.id,
        "agent": order.agent,
        "argv": redact(order.argv),
        "env_names": sorted(env),
        "cwd": order.cwd,
        "directory": places.made(order.cwd),
        "prompt": shortened(redact_text(order.prompt), PROMPT_KEPT) if order.prompt is not None else None,
        "group": order.group,
        "spec": order.spec,
        "hooks": dict(order.hooks) if order.hooks else None,
        **place_of(order),
        "slot": order.slot,
        "session_id": order.session_id,
        "store": order.store,
        "headless": headless,
        "one_shot": order.one_shot,
        "time_limit": order.time_limit,
        "created_at": utc(time.time()),
        "wrapper": wrapper_in(order.agent, path, order.argv),
        "launcher": lineage.as_facts(order.launcher, own_pid_namespace()) if order.launcher is not None else None,
    }
    return {
        "folder": reserved.folder,
        "launch": facts,
        "executable": path,
        "argv": order.argv,
        "env": env,
        "cwd": order.cwd,
        "stdin": INPUT_OF_THE_AGENT if order.input is not None else None,
        "interactive": not headless,
        "time_limit": order.time_limit,
        "stop": order.stop,
        "ask": order.ask,
        "commands_env": None,
        "report": REPORT_OF_THE_RUNNER,
    }


def executable(word: str, env: Mapping[str, str], cwd: str) -> str:
    """Return the program that a shell would find: never in the current folder, unless PATH says so. Raises
    MissingProgram."""
    if "/" in word:
        return os.path.join(cwd, word)
    for folder in folders_of_path(env):
        path = os.path.join(folder, word)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise MissingProgram(f"{word}: not found in PATH; install it, or add its folder to PATH")


def file_of(data: bytes, descriptors: list[int]) -> int:
    """Return a descriptor of a new file without a name, at its beginning, so that its reader gets all of it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("agentctl", os.MFD_CLOEXEC)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    descriptors.append(fd)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return above_standard(fd, descriptors)


def above_standard(fd: int, descriptors: list[int]) -> int:
    """Return a copy of a descriptor that no standard descriptor will replace, even if ours were closed."""
    descriptors.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FREE_OF_STANDARD))
    return descriptors[-1]


# What the runner says


def listen(fd: int, patience: float) -> bytes | None:
    """Return what comes, up to the end of a line or of the file; None if nothing came in time."""
    deadline = time.monotonic() + patience
    heard = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while len(heard) < REPORT_LIMIT:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        data = os.read(fd, 4096)
        heard += data
        if not data or (heard.startswith(b"{") and heard.endswith(b"\n")):
            break
    return heard


def outcome(reserved: Reserved, order: Order, heard: bytes | None) -> Started:
    """Return what the runner started, by what it said. Raises LaunchFailed."""
    if heard is None:
        raise LaunchFailed(
            f"the runner has not answered in time; the agent may still start: `agentctl stop {reserved.id}` ends it",
            reserved.id,
            perhaps=True,
        )
    try:
        said = json.loads(heard)
    except ValueError:
        said = {}
    if said.get("report") == "failed":
        discard(reserved)
        raise LaunchFailed(explained(said, reserved), reserved.id, errno=said["errno"], step=said["step"])
    runner, child = ProcessKey.parse(said.get("runner")), ProcessKey.parse(said.get("child"))
    if runner is not None and child is not None:
        # A runner in a tmux server is where that server is, which may be another PID namespace than ours.
        namespace = text_or_none(said.get("pid_namespace"))
        runner, child = (key_here(key, namespace, time.time()) for key in (runner, child))
        return Started(order, reserved.id, reserved.folder, runner, child)
    # The runner was killed, and its end of the pipe is closed everywhere: the agent is executed, or will never be.
    launch = records.read_folder(reserved.id, reserved.folder)
    if isinstance(launch, Launch):
        return Started(order, reserved.id, reserved.folder, launch.runner, launch.child)
    discard(reserved)
    last = heard.decode(errors="replace").strip().rpartition("\n")[2]
    raise LaunchFailed(f"the runner ended before it started the agent: {last or 'it was killed'}", reserved.id)


def explained(said: dict[str, Any], reserved: Reserved) -> str:
    """Return what failed, where, and what to do about it."""
    why = str(said["why"])
    if said["step"] in OF_THE_AGENT:
        return why  # it names the program or the directory
    if said["errno"] is None:
        return f"{why}; nothing was started"
    if reserved.folder not in why:
        why = f"{reserved.folder}: {why}"
    return f"{why} ({said['step'].replace('_', ' ')}); nothing was started. Make room there, or set AGENTCTL_HOME"


def wait_for(pid: int, flags: int) -> None:
    """Reap the runner's first process, which ends at once: it has forked, and init adopts its child."""
    try:
        os.waitpid(pid, flags)
    except ChildProcessError:
        pass  # our caller reaps children itself


def discard(reserved: Reserved) -> None:
    """Remove a reservation that did not become a launch. Files that somebody else put there stay."""
    if os.path.lexists(os.path.join(reserved.folder, records.LAUNCH)):
        return
    for name in (records.OUTPUT, ".launch.json", ORDER, REPORT):
        remove(os.path.join(reserved.folder, name))
    try:
        os.rmdir(reserved.folder)
    except OSError:
        pass


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
