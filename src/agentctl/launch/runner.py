"""The parent of one launched agent: a small process that starts it, reaps it, and notes how its processes ended.

A fresh interpreter executes this file (`python -I -S runner.py LAUNCH-ID [ORDER]`; the id is there for people who look
at `ps`). It imports nothing of ours, and imports everything at its start, so an upgrade of agentctl cannot change it
while it runs. It knows no agent, stores no status and answers no question. Killing it harms no agent; what is lost is
the exit code, the time limit and the hook. In a pane (`interactive`) it is the pane's own process, so the pane ends
with it, as with a shell.

The order is one JSON object, on stdin or in the file ORDER, which is removed at once:

    folder        the launch's own folder: absolute, there, empty
    launch        what goes into launch.json; "runner", "child" and "pid_namespace" are added here
    executable, argv, env, cwd      of the agent
    stdin         an inherited descriptor of a file with the agent's input; null = /dev/null
    interactive   true: it gets the terminal we have, and no output.log
    time_limit    seconds, or null
    stop          the command to run at the time limit, or null
    ask           the command to run when the agent has ended, and after each later reap, or null. It exits with 0 if
                  there is nothing more to wait for; then we end, and init adopts what still lives
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
# No signal that a person or a terminal usually sends ends the runner: the exit code would be lost.
IGNORED = tuple(signal.Signals[f"SIG{name}"] for name in "INT QUIT TERM HUP PIPE XFSZ USR1 USR2 TSTP TTIN TTOU".split())
OF_THE_TERMINAL = ("TERM", "COLORTERM", "TMUX", "TMUX_PANE")  # the caller may use another terminal
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what a shell exits with
OVER, NOT_OVER = 0, 75  # what `ask` exits with if it could tell
ASK_AGAIN = (1.0, 2.0, 4.0, 8.0)  # seconds after an ask that failed: agentctl may be being upgraded;
FOR_A_HOOK = (*ASK_AGAIN, 16.0, 32.0, *[60.0] * 1439)  # and if there is a hook to run, for a day: it is a promise
STOP_AGAIN, STOP_PAUSE = 1.0, 60.0  # seconds after a stop that failed: twice as long each time, at most so long


class Failed(Exception):
    """The agent was not started."""

    def __init__(self, step: str, errno: int | None, why: str) -> None:
        super().__init__(why)
        self.message = {"report": "failed", "step": step, "errno": errno, "why": why}


def main() -> int:
    state: State = {"order": read_order(sys.argv[2:])}
    try:
        for step in STEPS:
            take(step, state)
    except Failed as failed:
        undo(state)
        report(state, failed.message)
        return 1
    names = {"runner": "runner", "child": "child_key", "pid_namespace": "pid_namespace"}
    report(state, {"report": "started", **{name: state[key] for name, key in names.items()}})
    supervise(to_supervise(state))
    return 0


def read_order(words: list[str]) -> State:
    fd = os.open(words[0], os.O_RDONLY) if words else os.dup(0)
    if words:
        os.unlink(words[0])  # it holds an environment, and so secrets
    with open(fd, "rb") as file:
        order: State = json.load(file)
    return order


def take(step: Any, state: State) -> None:
    try:
        step(state)
    except OSError as error:
        why = f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")
        raise Failed(step.__name__, error.errno, why) from error


# The steps


def see_own_processes(state: State) -> None:
    """Fail if /proc is of another PID namespace: it gives our pids to strangers, and we would note their keys."""
    prove_own_proc()


def detach(state: State) -> None:
    """Lead a session of our own, as a child of init: no launcher has to wait for us, and no terminal hangs us up."""
    if state["order"]["interactive"]:
        return
    if os.fork():
        os._exit(0)
    os.setsid()


def let_go_of_the_launcher(state: State) -> None:
    """Close all descriptors that the order does not name: one may be a pipe that somebody reads to its end."""
    order = state["order"]
    needed = {0, 1, 2, order["report"], order["stdin"]}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in needed:
            try:
                os.close(int(name))
            except OSError:
                pass  # it was the descriptor of the listing
    for fd in needed - {0, 1, 2}:
        if isinstance(fd, int):
            os.set_inheritable(fd, False)
    if not order["interactive"]:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.close(nowhere)
    os.chdir("/")


def become_parent(state: State) -> None:
    """Adopt what the agent leaves behind, and block signals until we ask for them."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (AttributeError, OSError):
        pass  # not Linux, or no ctypes: we reap only the agent itself
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for number in awaited(state["order"]):
        signal.signal(number, lambda *_: None)  # some kernels drop what would be ignored, though it is blocked
    signal.pthread_sigmask(signal.SIG_SETMASK, awaited(state["order"]))


def awaited(order: State) -> set[signal.Signals]:
    """Return the signals to wait for. If the terminal of a pane is gone, only we, its session's leader, get SIGHUP."""
    return {signal.SIGCHLD, signal.SIGALRM} | ({signal.SIGHUP} if order["interactive"] else set())


def open_output(state: State) -> None:
    """Open the file that the agent itself writes to: a reader of ours could end or stall. Every process that inherits
    the descriptor also holds the shared lock: while one of them lives, in any PID namespace, the file is in use."""
    if state["order"]["interactive"]:
        return
    path = os.path.join(state["order"]["folder"], OUTPUT)
    state["output"] = fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pass  # a file system without locks: the keys in launch.json say the same


def fork_held(state: State) -> None:
    """Fork the agent's process. It waits at a pipe for the byte that lets it execute the agent."""
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
    facts["pid_namespace"] = state["pid_namespace"] = os.readlink("/proc/self/ns/pid")  # pids mean something only there
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
        pass  # it was killed while it was held: its exit status says so
    os.close(state.pop("go"))


def hear_of_failure(state: State) -> None:
    """Raise Failed if the agent's process reports a failure. If the agent is executed, the pipe just ends."""
    with open(state.pop("failure"), "rb") as file:
        said = file.read()
    if said:
        failure = json.loads(said)
        reap(state, state["child"], error=failure["why"])
        state.pop("child")
        raise Failed(failure["step"], failure["errno"], failure["why"])


STEPS = (
    see_own_processes,
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
    """Remove what was made, because no agent has run. If launch.json was written and the agent's process has ended, the
    record stays and says how it ended."""
    if "child" in state:
        os.kill(state["child"], signal.SIGKILL)  # held, and not reaped: the pid is its own
        os.waitpid(state["child"], 0)
    order = state["order"]
    if "failure" in state or "written" not in state:
        for name in (LAUNCH, TEMPORARY, OUTPUT):
            remove(os.path.join(order["folder"], name))
        remove(order["folder"], os.rmdir)  # if somebody put another file into it, the sweep will remove it


def remove(path: str, how: Any = os.unlink) -> None:
    try:
        how(path)
    except OSError:
        pass


def report(state: State, message: State) -> None:
    """Write one line to the launcher, if it still listens. The folder says the same."""
    to = state["order"]["report"]
    try:
        fd = os.open(to, os.O_WRONLY | os.O_NONBLOCK) if isinstance(to, str) else to
        os.write(fd, json.dumps(message).encode() + b"\n")
    except OSError:
        pass
    if isinstance(to, str):
        remove(to)


# The agent's process


def become_agent(state: State, held: int, failure: int) -> NoReturn:
    """Execute the agent, in the child. It ends with execve or _exit, and never returns to the parent's code."""
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
    """Return what is needed from here on, and drop the rest: prompts, environments, the launcher's pipe."""
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
    needed: State = {name: order[name] for name in ("folder", "ask", "stop", "commands_env", "time_limit")}
    kept = {"awaited": awaited(order), "ask_again": FOR_A_HOOK if order["launch"].get("hooks") else ASK_AGAIN}
    return {"order": needed, **kept, "child": state["child"], "boot": state["boot"], "late": False}


def supervise(state: State) -> None:
    """Reap until no child is left or `ask` says that it is over. Sleep until a child ends or the time is up."""
    order = state["order"]
    state.update(asking=None, over=False, commands=set(), pauses=[], stopping=None, stop_again=STOP_AGAIN)
    while True:
        left = reap_all(state)
        if state["over"]:
            return
        if state.get("unasked") and not state["asking"]:
            state["unasked"] = False
            state["asking"] = run_command(state, order["ask"])
            left = left or bool(state["asking"])
        if not left and not state["pauses"]:
            return
        number = wait_for_signal(state)
        if number == signal.SIGALRM:
            state["late"] = state["child"] is not None
            state["stopping"] = run_command(state, order["stop"])
            if state["stopping"] is None:  # there was no room for its process
                signal.setitimer(signal.ITIMER_REAL, STOP_PAUSE)
        elif number == signal.SIGHUP and state["child"]:
            os.kill(state["child"], signal.SIGHUP)  # our child, not reaped: the pid is its own
            os.kill(state["child"], signal.SIGCONT)


def wait_for_signal(state: State) -> int | None:
    """Sleep until a signal comes, and return it. After an ask that failed, sleep for a pause, and then ask again."""
    if state["asking"] or not state["pauses"]:
        return signal.sigwait(state["awaited"])
    received = signal.sigtimedwait(state["awaited"], state["pauses"].pop(0))
    state["unasked"] = state["unasked"] or received is None
    return received.si_signo if received else None


def reap_all(state: State) -> bool:
    """Reap what has ended, and return whether a child is left."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return False
        if ended is None:
            return True
        pid = ended.si_pid
        if pid in state["commands"]:
            end_of_command(state, pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        else:
            reap(state, pid)
            if pid == state["child"]:
                state["child"] = None
            # Before the agent's end there is nothing to ask; an ask that runs may not have seen this end.
            state["unasked"] = state["child"] is None
            state["pauses"] = list(state["ask_again"]) if state["unasked"] and state["order"]["ask"] else []


def end_of_command(state: State, pid: int, code: int) -> None:
    """Take the answer of a command of ours that has ended; if it could not stop the agent, try again later."""
    state["commands"].discard(pid)
    if pid == state["asking"]:
        state["asking"] = None
        state["over"] = code == OVER
        state["pauses"] = [] if code == NOT_OVER else state["pauses"]
    elif pid == state["stopping"] and code != 0 and state["child"]:
        signal.setitimer(signal.ITIMER_REAL, state["stop_again"])  # until the agent has ended: the limit is a promise
        state["stop_again"] = min(2 * state["stop_again"], STOP_PAUSE)


def reap(state: State, pid: int, error: str | None = None) -> None:
    """Reap a process, and note how it ended. Its name and key are in the process table only until then."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        key, comm = key_and_name(state["boot"], pid)
    except OSError:
        key, comm = None, None
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    end: State = {"exit_code": code} if code >= 0 else {"signal": signal_name(-code)}
    line: State = {"key": key, "comm": comm, **end}
    rusage = {"utime": usage.ru_utime, "stime": usage.ru_stime, "maxrss": usage.ru_maxrss}
    line.update(at=now(), rusage=rusage, direct=pid == state["child"])
    line.update({"error": error} if error is not None else {})
    line.update({"time_limit": state["order"]["time_limit"]} if state.get("late") and line["direct"] else {})
    append(state, json.dumps(line).encode() + b"\n")


def append(state: State, line: bytes) -> None:
    """Append a line in one write, so that lines never mix. If the disk is full, only this line is lost."""
    if state.get("torn"):
        line = b"\n" + line  # the last line was cut off: begin a new one
    try:
        path = os.path.join(state["order"]["folder"], EXITS)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            state["torn"] = os.write(fd, line) < len(line)
        finally:
            os.close(fd)
    except OSError:
        pass


def run_command(state: State, argv: list[str] | None) -> int | None:
    """Run agentctl in its own process, with its output in a file of the launch. Return its pid; None if it fails."""
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
                pass  # no room for its output: run it anyway
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
    """Return boot:pid:start (field 22 of stat), and the name, which may hold brackets. Raises OSError."""
    prove_own_proc()
    data = read(f"/proc/{pid}/stat")
    opening, closing = data.find(b"("), data.rfind(b")")
    return f"{boot}:{pid}:{int(data[closing + 2 :].split()[19])}", data[opening + 1 : closing].decode(errors="replace")


def prove_own_proc() -> None:
    """Raise OSError unless /proc is of our own PID namespace, also if somebody put another over it since we started."""
    if not os.path.islink("/proc/self") or os.readlink("/proc/self") != str(os.getpid()):
        raise OSError("/proc is of another PID namespace, or not mounted: mount it anew (`mount -t proc proc /proc`)")


def read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(4096)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal


def now() -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at := time.time()))}.{int(at % 1 * 1000):03}Z"


if __name__ == "__main__":
    sys.exit(main())
