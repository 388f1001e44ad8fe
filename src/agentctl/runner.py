"""The parent of one launched agent: a small process that starts it, reaps it, and notes how its processes ended.

It is executed as a file by a fresh interpreter (`python -I -S runner.py LAUNCH-ID [ORDER]`; the id is there for people
who look at `ps`), so it imports nothing of ours, and all it ever imports it has at its start: an upgrade under it
changes nothing. It knows no agent, keeps no status and answers no question. Killing it harms no agent; what is lost is
the exit code, the time limit and the hook. In a pane (`interactive`) it is the pane's own process, so there its end is
the end of the pane, as with a shell.

The order is one JSON object, on stdin or in the file ORDER, which is removed at once:

    folder        the launch's own folder: absolute, there, empty
    launch        what goes into launch.json; "runner", "child" and "pid_namespace" are added here
    executable, argv, env, cwd      of the agent
    stdin         an inherited descriptor of a file with the agent's input; null = /dev/null
    interactive   true: it gets the terminal we have, and no output.log
    time_limit    seconds, or null
    stop          the command to run at the time limit, or null
    ask           the command to run when the agent has ended, and after each later reap, or null. It exits with 0 when
                  there is nothing more to wait for; then we end, and what still lives goes to init
    commands_env  the environment of those two; null = our own
    report        a descriptor or the path of a FIFO: one JSON line says "started" or "failed"

The launch is the list STEPS. Until the agent is let go, end of file on its pipe makes it exit: however this process
ends, either launch.json names the agent that runs, or none runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time

try:
    import ctypes
except ImportError:  # a Python that was built without it
    ctypes = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    State = dict[str, Any]

LAUNCH, TEMPORARY, OUTPUT, EXITS, COMMANDS = "launch.json", ".launch.json", "output.log", "exits.jsonl", "hooks.log"
PR_SET_CHILD_SUBREAPER = 36
# Nothing that a person or a terminal sends by habit ends it: it would take the exit code with it.
IGNORED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
OF_THE_TERMINAL = ("TERM", "COLORTERM", "TMUX", "TMUX_PANE")  # the caller may sit in another one
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what a shell exits with


class Failed(Exception):
    """The agent was not started. `told` goes into the report."""

    def __init__(self, step: str, errno: int | None, why: str) -> None:
        super().__init__(why)
        self.told = {"report": "failed", "step": step, "errno": errno, "why": why}


def main() -> int:
    state: State = {"order": read_order(sys.argv[2:])}
    try:
        for step in STEPS:
            take(step, state)
    except Failed as failed:
        undo(state)
        report(state, failed.told)
        return 1
    report(state, {"report": "started", "runner": state["runner"], "child": state["child_key"]})
    supervise(to_supervise(state))
    return 0


def read_order(words: list[str]) -> State:
    fd = os.open(words[0], os.O_RDONLY) if words else os.dup(0)
    if words:
        os.unlink(words[0])  # it holds an environment, and so secrets
    with open(fd, "rb") as file:
        found: State = json.load(file)
    return found


def take(step: Any, state: State) -> None:
    try:
        step(state)
    except OSError as error:
        raise Failed(step.__name__, error.errno, f"{error.filename or ''}: {error.strerror}".lstrip(": ")) from error


# The steps


def detach(state: State) -> None:
    """A session of our own, and nobody's child: whoever launched need not wait for us, and no terminal hangs us up."""
    if state["order"]["interactive"]:
        return
    if os.fork():
        os._exit(0)
    os.setsid()


def let_go_of_the_launcher(state: State) -> None:
    """Keep only what the order names: a descriptor of the launcher's may be a pipe that somebody reads to its end."""
    order = state["order"]
    kept = {0, 1, 2, order["report"], order["stdin"]}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # it was the listing's own
    for fd in kept - {0, 1, 2}:
        if isinstance(fd, int):
            os.set_inheritable(fd, False)
    if not order["interactive"]:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.close(nowhere)
    os.chdir("/")


def become_parent(state: State) -> None:
    """What the agent leaves behind becomes our child; signals wait until we ask for them."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (AttributeError, OSError):
        pass  # no Linux, or no ctypes: only the agent itself is reaped
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for number in awaited(state["order"]):
        signal.signal(number, lambda *_: None)  # some kernels drop what would be ignored, though it is blocked
    signal.pthread_sigmask(signal.SIG_SETMASK, awaited(state["order"]))


def awaited(order: State) -> set[signal.Signals]:
    """In a pane the kernel tells only us, the leader of its session, that the terminal is gone."""
    return {signal.SIGCHLD, signal.SIGALRM} | ({signal.SIGHUP} if order["interactive"] else set())


def open_output(state: State) -> None:
    """Straight to a file: no reader of ours that could end or stall under the agent. The shared lock goes with the
    descriptor to whoever inherits it: while one of them lives, in whatever PID namespace, the file is in use."""
    if state["order"]["interactive"]:
        return
    path = os.path.join(state["order"]["folder"], OUTPUT)
    state["output"] = fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pass  # a file system without locks: the keys tell as well


def fork_held(state: State) -> None:
    """The agent's process, waiting at a pipe for the byte that lets it execute the agent."""
    boot = read("/proc/sys/kernel/random/boot_id").decode().strip()
    state["runner"] = key_and_name(boot, os.getpid())[0]
    held, state["go"] = os.pipe()
    state["failure"], failure = os.pipe()
    state["boot"] = boot
    state["child"] = os.fork()
    if state["child"] == 0:
        os.close(state["go"])
        become_agent(state, held, failure)
    os.close(held)
    os.close(failure)
    state["child_key"] = key_and_name(boot, state["child"])[0]


def write_launch(state: State) -> None:
    order = state["order"]
    facts = {**order["launch"], "runner": state["runner"], "child": state["child_key"]}
    facts["pid_namespace"] = os.readlink("/proc/self/ns/pid")  # pids mean something only there
    folder = order["folder"]
    temporary = os.path.join(folder, TEMPORARY)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(fd, "wb") as file:
        file.write(json.dumps(facts, indent=1).encode() + b"\n")
        file.flush()
        os.fsync(fd)
    os.rename(temporary, os.path.join(folder, LAUNCH))
    state["written"] = True
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def let_go(state: State) -> None:
    try:
        os.write(state["go"], b"g")
    except BrokenPipeError:
        pass  # it was killed while it was held: its exit tells
    os.close(state.pop("go"))


def hear_of_failure(state: State) -> None:
    """The pipe ends without a word when the agent is executed."""
    with open(state.pop("failure"), "rb") as file:
        said = file.read()
    if said:
        told = json.loads(said)
        reap(state, state["child"], error=told["why"])
        state.pop("child")
        raise Failed(told["step"], told["errno"], told["why"])


STEPS = (
    detach,
    let_go_of_the_launcher,
    become_parent,
    open_output,
    fork_held,
    write_launch,
    let_go,
    hear_of_failure,
)


def undo(state: State) -> None:
    """No agent has run. Without launch.json it was no launch, and leaves nothing; with it, the record says how it
    ended."""
    if "child" in state:
        os.kill(state["child"], signal.SIGKILL)  # held, and not reaped: the pid is its own
        os.waitpid(state["child"], 0)
    order = state["order"]
    if "failure" in state or "written" not in state:
        for name in (LAUNCH, TEMPORARY, OUTPUT):
            remove(os.path.join(order["folder"], name))
        try:
            os.rmdir(order["folder"])
        except OSError:
            pass  # somebody put a file of their own into it: the sweep will take it


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def report(state: State, message: State) -> None:
    """To whoever launched, if they still listen. It is said once; what is not heard is in the folder."""
    to = state["order"]["report"]
    line = json.dumps(message).encode() + b"\n"
    try:
        fd = os.open(to, os.O_WRONLY | os.O_NONBLOCK) if isinstance(to, str) else to
        os.write(fd, line)
    except OSError:
        pass
    if isinstance(to, str):
        remove(to)


# The agent's process


def become_agent(state: State, held: int, failure: int) -> NoReturn:
    """In the child. It leaves by execve or by _exit, never into the parent's code."""
    step, code = "hold", NOT_EXECUTABLE
    order = state["order"]
    try:
        if os.read(held, 1) != b"g":
            os._exit(NOT_EXECUTABLE)
        if not order["interactive"]:
            step = "terminal"
            os.setsid()
            step = "stdin"
            os.dup2(0 if order["stdin"] is None else order["stdin"], 0)
            os.dup2(state["output"], 1)
            os.dup2(state["output"], 2)
        step = "cwd"
        os.chdir(order["cwd"])
        restore_signals()
        step = "exec"
        os.execve(order["executable"], order["argv"], environment(order))
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        what = order["cwd"] if step == "cwd" else order["executable"] if step == "exec" else step
        complain(failure, step, error.errno, f"{what}: {error.strerror}")
    except ValueError as error:  # a NUL byte in a word
        complain(failure, step, None, str(error))
    finally:
        os._exit(code)


def environment(order: State) -> dict[str, str]:
    env: dict[str, str] = order["env"]
    if order["interactive"]:
        env = {name: value for name, value in env.items() if name not in OF_THE_TERMINAL}
        env.update({name: os.environ[name] for name in OF_THE_TERMINAL if name in os.environ})
    return env


def complain(failure: int, step: str, errno: int | None, why: str) -> None:
    os.write(failure, json.dumps({"step": step, "errno": errno, "why": why}).encode())


def restore_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


# After the start


def to_supervise(state: State) -> State:
    """What is needed from here on. The rest is let go: prompts, environments, the launcher's pipe."""
    order = state["order"]
    for fd in (state.get("output"), order["stdin"], order["report"]):
        if isinstance(fd, int) and fd > 2:
            os.close(fd)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)
    if order["time_limit"] is not None:
        signal.setitimer(signal.ITIMER_REAL, max(order["time_limit"], 0.001))
    kept: State = {name: order[name] for name in ("folder", "ask", "stop", "commands_env")}
    return {"order": kept, "awaited": awaited(order), "child": state["child"], "boot": state["boot"]}


def supervise(state: State) -> None:
    """Reap until nobody is left or `ask` says that it is over. It sleeps until a child ends or the time is up."""
    order = state["order"]
    state.update(asking=None, over=False, commands=set())
    while True:
        left = reap_all(state)
        if state["over"]:
            return
        if state.get("unasked") and not state["asking"]:
            state["unasked"] = False
            state["asking"] = run_command(state, order["ask"])
            left = left or bool(state["asking"])
        if not left:
            return
        number = signal.sigwait(state["awaited"])
        if number == signal.SIGALRM:
            run_command(state, order["stop"])
        elif number == signal.SIGHUP and state["child"]:
            os.kill(state["child"], signal.SIGHUP)  # our child, not reaped: the pid is its own
            os.kill(state["child"], signal.SIGCONT)


def reap_all(state: State) -> bool:
    """Is anybody left?"""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return False
        if ended is None:
            return True
        pid = ended.si_pid
        if pid in state["commands"]:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            state["commands"].discard(pid)
            if pid == state["asking"]:
                state["asking"] = None
                state["over"] = code == 0
        else:
            reap(state, pid)
            if pid == state["child"]:
                state["child"] = None
            # Before its end there is nothing to ask; an ask that runs may not have seen this one.
            state["unasked"] = state["child"] is None


def reap(state: State, pid: int, error: str | None = None) -> None:
    """Name and key are in the process table until the reaping, usage and exit code come with it."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        key, comm = key_and_name(state["boot"], pid)
    except OSError:
        key, comm = None, None
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    line: State = {"key": key, "comm": comm}
    line.update({"exit_code": code} if code >= 0 else {"signal": signal_name(-code)})
    line.update(
        at=now(),
        rusage={"utime": usage.ru_utime, "stime": usage.ru_stime, "maxrss": usage.ru_maxrss},
        direct=pid == state["child"],
    )
    if error is not None:
        line["error"] = error
    append(state, json.dumps(line).encode() + b"\n")


def append(state: State, line: bytes) -> None:
    """One write, so that lines never mix. A full disk loses the line, and nothing else."""
    if state.get("torn"):
        line = b"\n" + line  # the last one did not fit: this one begins on its own
    try:
        fd = os.open(
            os.path.join(state["order"]["folder"], EXITS),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW,
            0o600,
        )
        try:
            state["torn"] = os.write(fd, line) < len(line)
        finally:
            os.close(fd)
    except OSError:
        pass


def run_command(state: State, argv: list[str] | None) -> int | None:
    """agentctl itself, in a process of its own; its words go to a file of the launch. None: it could not be run."""
    if not argv:
        return None
    order = state["order"]
    try:
        pid = os.fork()
    except OSError:
        return None
    if pid == 0:
        try:
            os.setsid()
            path = os.path.join(order["folder"], COMMANDS)
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
                os.dup2(fd, 1)
                os.dup2(fd, 2)
            except OSError:
                pass  # no room for its words: it is run all the same
            restore_signals()
            os.execve(argv[0], argv, order["commands_env"] or os.environ)
        except (OSError, ValueError) as error:
            os.write(2, f"{argv[0]}: {error}\n".encode(errors="replace"))
        finally:
            os._exit(NOT_FOUND)
    state["commands"].add(pid)
    return pid


# What the kernel says


def key_and_name(boot: str, pid: int) -> tuple[str, str]:
    """boot:pid:start, where start is field 22 of stat. The name may hold anything: take the last bracket."""
    data = read(f"/proc/{pid}/stat")
    opening, closing = data.find(b"("), data.rfind(b")")
    return f"{boot}:{pid}:{int(data[closing + 2 :].split()[19])}", data[opening + 1 : closing].decode(errors="replace")


def read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal


def now() -> str:
    seconds = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1000):03}Z"


if __name__ == "__main__":
    sys.exit(main())
