"""tmux: every call of it that there is. Each is bounded in time, a list of words and never a line for a shell.

Only `open_session` starts a server where there is none. A server that does not answer is a problem, never a wait.
"""

from __future__ import annotations

import os
import stat

from agentctl.errors import AgentctlError, NotFound
from agentctl.launches import MARKER
from agentctl.model import Problem, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Mapping, Sequence

PROGRAM = "tmux"
PATIENCE = 5.0  # for a server, which answers in some milliseconds; on a machine that is very busy, in some seconds
START_PATIENCE = 20.0  # for one that has to start first, and reads its configuration
COLUMNS, ROWS = "200", "50"  # of a screen that nobody looks at yet
# Words without spaces, and last the name, which may have some.
FIELDS = "pane_tty pane_pid pane_id window_id session_id pane_dead pane_in_mode pane_synchronized pane_input_off"
FORMAT = " ".join(f"#{{{name}}}" for name in (*FIELDS.split(), "session_name"))
NOBODY = ("no server running", "Connection refused", "No such file")  # a socket that was left behind
MISSING = "tmux is not installed, or not in PATH; install it (the package is called tmux)"


class Pane(Value):
    """One place in which a program has a terminal of tmux's."""

    socket: str
    id: str
    tty: str
    pid: int
    window: str
    session: str  # its id in tmux
    name: str  # of that session
    busy: str | None = None  # why keys would not reach its program, or not it alone


class Failed(AgentctlError):
    """tmux did not do what it was told, or did not answer."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"tmux: {why}")


# Where servers are


def sockets(env: Mapping[str, str], named: Iterable[str | None] = ()) -> list[str]:
    """The servers that may be ours: that of $TMUX, those that others' $TMUX name, those in our own folder. What is no
    socket of ours is passed over."""
    folder = os.path.join(env.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")
    found = [socket_in(value) for value in (env.get("TMUX"), *named)]
    try:
        if os.lstat(folder).st_uid == os.getuid():
            found += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        pass  # nobody ever started one
    ours: dict[tuple[int, int], str] = {}
    for path in found:
        if path is not None and (identity := identity_of(path)) is not None:
            ours.setdefault(identity, path)
    return list(ours.values())


def socket_in(value: str | None) -> str | None:
    """$TMUX is the socket, the server's pid and a number, with commas between."""
    path = (value or "").rsplit(",", 2)[0]
    return path if os.path.isabs(path) else None


def identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid() else None


# Asking


def panes(env: Mapping[str, str], named: Iterable[str | None] = ()) -> tuple[list[Pane], list[Problem]]:
    """Every pane of every server that answers, and those that do not. All are asked at once."""
    from threading import Thread

    servers = sockets(env, named)
    answers: dict[str, list[Pane] | Problem] = {}

    def ask_for_panes(socket: str) -> None:
        answers[socket] = panes_of(socket, env)

    threads = [Thread(target=ask_for_panes, args=(socket,), daemon=True) for socket in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # each is bounded
    told = [answers.get(socket, Problem(PROGRAM, "it could not be asked", socket)) for socket in servers]
    return (
        [pane for answer in told if isinstance(answer, list) for pane in answer],
        [answer for answer in told if isinstance(answer, Problem)],
    )


def panes_of(socket: str, env: Mapping[str, str]) -> list[Pane] | Problem:
    try:
        return parse(ask(socket, ["list-panes", "-a", "-F", FORMAT], env), socket)
    except NotFound:
        return []  # without tmux there are none
    except OSError as error:
        return Problem(PROGRAM, error.strerror or str(error), socket)
    except Failed as error:
        return [] if any(word in error.why for word in NOBODY) else Problem(PROGRAM, error.why, socket)


def parse(text: str, socket: str) -> list[Pane]:
    """What is not of the shape that was asked for is nothing."""
    found = []
    for line in text.splitlines():
        words = line.split(" ", len(FIELDS.split()))
        if len(words) != len(FIELDS.split()) + 1 or not words[1].isdigit() or not words[2].startswith("%"):
            continue
        tty, pid, id, window, session, dead, mode, synchronized, off, name = words
        if dead != "1":
            busy = why_busy(mode, synchronized, off)
            found.append(Pane(socket, id, tty, int(pid), window, session, name, busy))
    return found


def why_busy(mode: str, synchronized: str, off: str) -> str | None:
    if mode not in ("", "0"):
        return "its pane is scrolled back or in another mode of tmux; leave that (q)"
    if synchronized == "1":
        return "its window hands every key to all its panes; turn synchronize-panes off"
    return "its pane takes no keys; turn that on again (select-pane -e)" if off == "1" else None


def screen(pane: Pane, env: Mapping[str, str]) -> str:
    """What it shows."""
    return ask(pane.socket, ["capture-pane", "-p", "-t", pane.id], env)


def paste(pane: Pane, text: str, env: Mapping[str, str]) -> None:
    """As one paste, which a program that asked for it can tell from keys. No word of it is the name of a key."""
    buffer = f"agentctl-{os.getpid()}"
    words = ["load-buffer", "-b", buffer, "-", ";", "paste-buffer", "-d", "-p", "-b", buffer, "-t", pane.id]
    ask(pane.socket, words, env, text.encode())


def press_enter(pane: Pane, env: Mapping[str, str]) -> None:
    ask(pane.socket, ["send-keys", "-t", pane.id, "Enter"], env)


def ask(socket: str, words: Sequence[str], env: Mapping[str, str], input: bytes = b"") -> str:
    return run([PROGRAM, "-u", "-S", socket, *words], asking(env), PATIENCE, input)


# A session of our own


def session_name(launch_id: str) -> str:
    return f"agentctl-{launch_id}"


def open_session(name: str, cwd: str, argv: Sequence[str], env: Mapping[str, str]) -> Pane:
    """A detached session whose one pane runs this, on the server that the person's own `tmux` would use. When its
    program ends, what it showed last stays, until `let_end` or `close_session`."""
    words = ["new-session", "-d", "-s", name, "-x", COLUMNS, "-y", ROWS, "-c", cwd]
    words += ["-P", "-F", f"#{{socket_path}} {FORMAT}", *(protected(word) for word in argv)]
    words += [";", "set-option", "-t", f"={name}:", "destroy-unattached", "off"]
    words += [";", "set-option", "-w", "-t", f"={name}:", "remain-on-exit", "on"]
    said = run([PROGRAM, "-u", *words], without_marker(env), START_PATIENCE)
    socket, _, rest = said.partition(" ")
    found = parse(rest, socket)
    if not found:
        raise Failed(f"it has opened {name}, and does not say which pane that is: {said.strip()!r}")
    return found[0]


def let_end(pane: Pane, env: Mapping[str, str]) -> None:
    """From now on it is as the person's configuration has it: by default a pane closes with its program."""
    words = ["set-option", "-u", "-w", "-t", pane.id, "remain-on-exit"]
    ask(pane.socket, [*words, ";", "if-shell", "-F", "-t", pane.id, "#{pane_dead}", f"kill-pane -t {pane.id}"], env)


def close_session(pane: Pane, env: Mapping[str, str]) -> None:
    """Of a session that `open_session` made."""
    ask(pane.socket, ["kill-session", "-t", pane.session], env)


def protected(word: str) -> str:
    """tmux takes a semicolon at the end of a word for the end of a command."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


# Showing one to a person


def attach_command(pane: Pane, env: Mapping[str, str]) -> list[str]:
    """Shows a pane in this terminal: from inside the same server by switching to it."""
    show = ["switch-client" if is_inside(pane, env) else "attach-session", "-t", pane.session]
    select = ["select-window", "-t", pane.window, ";", "select-pane", "-t", pane.id, ";"]
    return [PROGRAM, "-S", pane.socket, *select, *show]


def is_inside(pane: Pane, env: Mapping[str, str]) -> bool:
    socket = socket_in(env.get("TMUX"))
    return socket is not None and identity_of(socket) == identity_of(pane.socket)


# Running it


def asking(env: Mapping[str, str]) -> dict[str, str]:
    return {**without_marker(env), "LC_ALL": "C"}


def without_marker(env: Mapping[str, str]) -> dict[str, str]:
    """A server that is started keeps the environment for all that it ever runs: nothing of that is of our launch."""
    return {name: value for name, value in env.items() if name != MARKER}


def start(words: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    from subprocess import PIPE, Popen

    return Popen(words, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE)


def run(words: Sequence[str], env: Mapping[str, str], patience: float, input: bytes = b"") -> str:
    import subprocess

    try:
        process = start(words, env)
    except FileNotFoundError as error:
        raise NotFound(MISSING) from error
    try:
        out, err = process.communicate(input, timeout=patience)
    except subprocess.TimeoutExpired as error:
        end(process)
        raise Failed(f"no answer within {patience:g} s; is that server suspended?") from error
    if process.returncode != 0:
        said = err.decode(errors="replace").strip() or f"exit code {process.returncode}"
        raise Failed(said)
    return out.decode(errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """The client that we started; its server is not touched."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
