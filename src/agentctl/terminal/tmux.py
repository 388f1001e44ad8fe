"""Every call of tmux. Each has a time limit and is a list of words, never a line for a shell.

Only `open_session` starts a server if there is none. A server that does not answer becomes a problem; nothing waits.
"""

from __future__ import annotations

import os
import stat

from agentctl.errors import AgentctlError, MissingProgram, shown_command
from agentctl.launches.records import MARKER
from agentctl.model import Problem, Value
from agentctl.terminal import server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.agents.screen import Screen

PROGRAM = "tmux"
PATIENCE = 5.0  # seconds for a server to answer: it takes milliseconds, on a very busy machine a few seconds
START_PATIENCE = 20.0  # seconds for a server that has to start and read its configuration first
CLIENT_GRACE = 0.2  # seconds between SIGTERM and SIGKILL for a client that does not answer
LONGEST = 40  # characters in the name of a window
COLUMNS, ROWS = "200", "50"  # the size of a detached screen
# Fields without spaces; the name, which may have spaces, comes last.
FIELDS = "pane_tty pane_pid pane_id window_id session_id pane_dead pane_in_mode pane_synchronized pane_input_off"
FORMAT = " ".join(f"#{{{name}}}" for name in (*FIELDS.split(), "session_name"))
CURSOR = "#{cursor_x} #{cursor_y} #{cursor_flag}"
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
NO_SERVER = ("no server running", "Connection refused", "No such file")  # the socket was left behind
MISSING = "tmux is not installed, or not in PATH; install it (the package is called tmux)"


class Pane(Value):
    """A pane of tmux: the terminal of one program."""

    socket: str
    id: str
    tty: str
    pid: int
    window: str
    session: str  # its id in tmux
    name: str  # of that session
    busy: str | None = None  # why keys would not reach its program, or would reach others, too


class Failed(AgentctlError):
    """tmux refused a command, or did not answer."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"tmux: {why}")


def is_installed(env: Mapping[str, str]) -> bool:
    """Return whether there is a tmux in PATH."""
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, PROGRAM), os.X_OK) for folder in folders)


# Where servers are


def sockets(env: Mapping[str, str], named: Iterable[str | None] = ()) -> list[str]:
    """Return the sockets of servers that may be ours: from $TMUX, from the $TMUX of other processes (`named`), and in
    our own folder. Skips what is not a socket of this user."""
    folder = own_folder(env)
    found = [socket_in(value) for value in (env.get("TMUX"), *named)]
    try:
        if os.lstat(folder).st_uid == os.getuid():
            found += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        pass  # no server was ever started
    ours: dict[tuple[int, int], str] = {}
    for path in found:
        if path is not None and (identity := identity_of(path)) is not None:
            ours.setdefault(identity, path)
    return list(ours.values())


def own_folder(env: Mapping[str, str]) -> str:
    return os.path.join(env.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")


def socket_in(value: str | None) -> str | None:
    """Return the socket in a value of $TMUX, which is `socket,pid,number`."""
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
    """Return all panes of the servers that answer, and a problem for each that does not. Asks all at the same time."""
    from threading import Thread

    servers = sockets(env, named)
    answers: dict[str, list[Pane] | Problem] = {}

    def ask_for_panes(socket: str) -> None:
        answers[socket] = panes_of(socket, env)

    threads = [Thread(target=ask_for_panes, args=(socket,), daemon=True) for socket in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # each has a time limit
    results = [answers.get(socket, Problem(PROGRAM, "it could not be asked", socket)) for socket in servers]
    return (
        [pane for answer in results if isinstance(answer, list) for pane in answer],
        [answer for answer in results if isinstance(answer, Problem)],
    )


def panes_of(socket: str, env: Mapping[str, str]) -> list[Pane] | Problem:
    try:
        return parse(ask(socket, ["list-panes", "-a", "-F", FORMAT], env), socket)
    except MissingProgram:
        return []  # without tmux there are no panes
    except Failed as error:
        return [] if any(word in error.why for word in NO_SERVER) else Problem(PROGRAM, error.why, socket)


def parse(text: str, socket: str) -> list[Pane]:
    """Return the panes in tmux's answer. Skips lines that do not have the form of FORMAT, and dead panes."""
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
        return "its tmux pane is in copy mode or another mode; leave that mode (press q)"
    if synchronized == "1":
        return "its tmux window sends every key to all panes; turn synchronize-panes off"
    return "its tmux pane takes no input; turn it on again (select-pane -e)" if off == "1" else None


def screen(pane: Pane, env: Mapping[str, str]) -> str:
    """Return the text on the screen of a pane."""
    return ask(pane.socket, ["capture-pane", "-p", "-t", pane.id], env)


def look(pane: Pane, env: Mapping[str, str]) -> Screen:
    """Return the screen of a pane with its cursor and colours, as they are at one moment: the server answers both
    before it reads on what the program writes."""
    from agentctl.agents.screen import screen_of

    words = ["display-message", "-p", "-t", pane.id, CURSOR, ";", "capture-pane", "-p", "-e", "-t", pane.id]
    first, _, rest = ask(pane.socket, words, env).partition("\n")
    numbers = first.split(" ")
    if len(numbers) != 3 or not all(word.isascii() and word.isdigit() for word in numbers):
        return screen_of(rest)
    return screen_of(rest, (int(numbers[0]), int(numbers[1])), visible=numbers[2] == "1")


def paste(pane: Pane, text: str, env: Mapping[str, str], *, marked: bool = False) -> None:
    """Paste a text as one piece. tmux takes no part of it for a key name. It marks a paste only if the terminal was
    asked for that, and any program that had the terminal meanwhile may have taken that back. `marked`: send the marks
    whatever the terminal was asked for."""
    buffer = f"agentctl-{os.getpid()}"
    text, marks = (f"{PASTE_BEGINS}{text}{PASTE_ENDS}", ()) if marked else (text, ("-p",))
    words = ["load-buffer", "-b", buffer, "-", ";", "paste-buffer", "-d", *marks, "-b", buffer, "-t", pane.id]
    ask(pane.socket, words, env, text.encode())


def press_enter(pane: Pane, env: Mapping[str, str]) -> None:
    ask(pane.socket, ["send-keys", "-t", pane.id, "Enter"], env)


def ask(socket: str, words: Sequence[str], env: Mapping[str, str], input: bytes = b"") -> str:
    """Give a server a command, once it is proved (server.py), and return what it says."""
    if not is_installed(env):
        raise MissingProgram(MISSING)
    try:
        with server.pinned(socket) as path:
            if (why := server.why_not_ours(path)) is not None:
                raise Failed(why)
            return run([PROGRAM, "-u", "-S", path, *words], asking(env), PATIENCE, input)
    except OSError as error:
        raise Failed(error.strerror or str(error)) from error


# A session of our own


def session_name(launch_id: str) -> str:
    return f"agentctl-{launch_id}"


def window_name(*parts: str | None) -> str:
    """Return a name for a window that tells what runs in it. tmux expands what it is given, #(commands) too: so only
    letters, digits and few signs are kept."""
    named = (os.path.basename(part.rstrip("/")) for part in parts if part)
    return " ".join("".join(char if char.isalnum() or char in "-_." else "-" for char in part) for part in named)[
        :LONGEST
    ]


def open_session(name: str, window: str, cwd: str, argv: Sequence[str], env: Mapping[str, str]) -> Pane:
    """Open a detached session with one pane that runs this command, on the server that the user's own `tmux` uses. When
    the program ends, its last screen stays until `let_end` or `close_session`. `window`: see `window_name`."""
    prove_own(env)
    words = ["new-session", "-d", "-s", name, "-n", window or name, "-x", COLUMNS, "-y", ROWS]
    # tmux would run the command in a path such as `#(command)`. It takes the directory of its client as it is; but a
    # new server then stays in that directory, too, and would be in the way there.
    speaks = "#" in cwd
    words += [] if speaks else ["-c", protected(cwd)]
    words += ["-P", "-F", f"#{{socket_path}} {FORMAT}", *(protected(word) for word in argv)]
    words += [";", "set-option", "-t", f"={name}:", "destroy-unattached", "off"]
    words += [";", "set-option", "-w", "-t", f"={name}:", "remain-on-exit", "on"]
    said = run([PROGRAM, "-u", *words], without_marker(env), START_PATIENCE, cwd=cwd if speaks else None)
    socket, _, rest = said.partition(" ")
    found = parse(rest, socket)
    if not found:
        raise Failed(
            f"it opened {name} but does not say in which pane: {said.strip()!r}; "
            f"close it: {shown_command(PROGRAM, 'kill-session', '-t', f'={name}')}"
        )
    return found[0]


def prove_own(env: Mapping[str, str]) -> None:
    """Raise Failed if somebody whom agentctl must not ask listens where the user's own `tmux` would look for its
    server."""
    path = socket_in(env.get("TMUX")) or os.path.join(own_folder(env), "default")
    try:
        why = server.why_not_ours(path)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        folder = os.path.dirname(path)
        if socket_in(env.get("TMUX")) is not None and not os.path.isdir(folder):
            raise Failed(f"TMUX names a server in {folder}, which is not there; unset TMUX, and try again") from None
        return  # nobody listens: tmux starts a server
    except OSError as error:
        why = error.strerror or str(error)
    if why is not None:
        raise Failed(f"{path}: {why}")


def let_end(pane: Pane, env: Mapping[str, str]) -> None:
    """Go back to the user's configuration: by default a pane closes when its program ends."""
    words = ["set-option", "-u", "-w", "-t", pane.id, "remain-on-exit"]
    ask(pane.socket, [*words, ";", "if-shell", "-F", "-t", pane.id, "#{pane_dead}", f"kill-pane -t {pane.id}"], env)


def close_session(pane: Pane, env: Mapping[str, str]) -> None:
    """Close a session that `open_session` made."""
    ask(pane.socket, ["kill-session", "-t", pane.session], env)


def protected(word: str) -> str:
    """Escape a semicolon at the end of a word: tmux would take it for the end of a command."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


# Showing a pane to a person


def attach_command(pane: Pane, env: Mapping[str, str]) -> list[str]:
    """Return the command that shows a pane in this terminal. Inside the same server it switches to the pane."""
    show = ["switch-client" if is_inside(pane, env) else "attach-session", "-t", pane.session]
    select = ["select-window", "-t", pane.window, ";", "select-pane", "-t", pane.id, ";"]
    return [PROGRAM, "-S", pane.socket, *select, *show]


def is_inside(pane: Pane, env: Mapping[str, str]) -> bool:
    socket = socket_in(env.get("TMUX"))
    return socket is not None and identity_of(socket) == identity_of(pane.socket)


# Running tmux


def asking(env: Mapping[str, str]) -> dict[str, str]:
    return {**without_marker(env), "LC_ALL": "C"}


def without_marker(env: Mapping[str, str]) -> dict[str, str]:
    """Remove the marker of our launch: a server keeps its first environment for everything it ever runs."""
    return {name: value for name, value in env.items() if name != MARKER}


def run(
    words: Sequence[str], env: Mapping[str, str], patience: float, input: bytes = b"", cwd: str | None = None
) -> str:
    """Run tmux and return what it printed. A client that does not answer in time is ended; its server is not touched:
    it leads its own POSIX session."""
    from agentctl.kernel import commands

    ran = commands.run(words, cwd, env, patience, input, grace=CLIENT_GRACE)
    if ran.outcome == commands.NOT_FOUND:
        raise MissingProgram(MISSING)
    if ran.outcome == commands.TIMED_OUT:
        raise Failed(f"no answer within {patience:g} s; is that server suspended?")
    if ran.outcome != commands.DONE:
        raise Failed(ran.problem)
    if ran.code != 0:
        raise Failed(ran.err.decode(errors="replace").strip() or f"exit code {ran.code}")
    return ran.out.decode(errors="replace")
