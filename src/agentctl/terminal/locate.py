"""Where a session runs: in which tmux pane, or under which other program.

Pure, except `seated`, which asks tmux, and its callers. A pane is proved by the kernel and by tmux: the process has the
pane's terminal, and the pane's own process is that process or an ancestor of it. The environment of a process only says
which servers to ask: variables are inherited, and can be forged.
"""

from __future__ import annotations

from agentctl.model import Evidence, Process, Value, terminal_of
from agentctl.query.orphans import left_by
from agentctl.query.resolve import resolve_session
from agentctl.terminal import tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.kernel.processes import Processes
    from agentctl.model import Answer, Problem, Session
    from agentctl.terminal.tmux import Pane

# Programs that people run agents in, by the beginning of the process name (the kernel cuts it at 15 characters).
AROUND = {
    "sshd": "ssh",
    "mosh-server": "mosh",
    "tmux": "tmux",
    "screen": "GNU screen",
    "zellij": "zellij",
    "gnome-terminal": "GNOME Terminal",
    "konsole": "Konsole",
    "xfce4-terminal": "Xfce Terminal",
    "xterm": "xterm",
    "kitty": "kitty",
    "alacritty": "Alacritty",
    "wezterm": "WezTerm",
    "ghostty": "Ghostty",
    "foot": "foot",
    "iTerm": "iTerm",
    "Terminal": "Terminal",
    "code": "VS Code",
    "cursor": "Cursor",
    "zed": "Zed",
    "emacs": "Emacs",
    "nvim": "Neovim",
    "vim": "Vim",
    "login": "a console",
}


class Seat(Value):
    """Where a process runs, as far as it is known."""

    tty: str | None = None
    pane: Pane | None = None  # proved
    like: Pane | None = None  # has the same terminal, but is not proved to be its own
    around: str | None = None  # the program that it runs under
    around_pid: int | None = None
    problems: tuple[Problem, ...] = ()  # servers that do not answer: the process may be in one of them


def seated(process: Process, processes: Processes, env: Mapping[str, str]) -> Seat:
    """Return where a process runs. Asks tmux if the process has a terminal."""
    if terminal_of(process.tty) is None:
        return seat_of(process, processes, ())
    details = processes.details(process)
    named = details.env.get("TMUX") if details and details.env else None
    panes, problems = tmux.panes(env, [named])
    tty = (terminal_of(process.tty) or {}).get("tty")  # a number: another mount of devpts has it, too
    panes = [pane for pane in panes if pane.tty != tty or processes.is_at(process, pane.tty) is not False]
    return seat_of(process, processes, panes)._replace(problems=tuple(problems))


def seat_of(process: Process, processes: Processes, panes: Iterable[Pane]) -> Seat:
    tty = (terminal_of(process.tty) or {}).get("tty")
    above = processes.ancestors(process.pid)
    here = [pane for pane in panes if tty is not None and pane.tty == tty]
    proved = [pane for pane in here if (row := processes.get(pane.pid)) is not None and row.key in above]
    around = surroundings(process, processes)
    return Seat(
        tty,
        proved[0] if proved else None,
        here[0] if here and not proved else None,
        around[0] if around else None,
        around[1] if around else None,
    )


def surroundings(process: Process, processes: Processes) -> tuple[str, int] | None:
    """Return the name and pid of the nearest ancestor that is a terminal, an editor or the like."""
    seen: set[int] = set()
    row = processes.get(process.parent)
    while row is not None and row.pid not in seen:
        seen.add(row.pid)
        for beginning, name in AROUND.items():
            rest = row.comm.removeprefix(beginning)
            if rest != row.comm and not rest[:1].isalnum():
                return name, row.pid
        row = processes.get(row.parent)
    return None


def process_of(session: Session, processes: Processes) -> Process | None:
    """Return the process of a session, found by its whole key."""
    row = processes.get(session.pid) if session.pid is not None else None
    return row if row is not None and str(row.key) == session.process_key else None


def screens_of(session: Session, processes: Processes) -> list[Process]:
    """Return the processes that show a session which a daemon holds, found by their whole keys; the first one is proved
    best."""
    rows = [(processes.get(screen["pid"]), screen["key"]) for screen in session.screens]
    return [row for row, key in rows if row is not None and str(row.key) == key]


def with_pane(session: Session, seat: Seat) -> Session:
    """Return the session with its pane, and the evidence for it."""
    pane = seat.pane
    if pane is None or session.terminal is None:
        return session
    fact = f"its terminal {pane.tty} is pane {pane.id} of tmux session {pane.name}, whose process is pid {pane.pid}"
    shown = {**session.terminal, "tmux": pane.id, "tmux_session": pane.name, "tmux_socket": pane.socket}
    seen = Evidence("api", fact, pane.socket, pane.pid)
    return session._replace(terminal=shown, evidence=(*session.evidence, seen))


def shown_in(session: Session, processes: Processes, env: Mapping[str, str]) -> tuple[Session, Sequence[Problem]]:
    """Return the session with its pane, and the tmux servers that did not answer."""
    process = next(iter(screens_of(session, processes)), None) or process_of(session, processes)
    if process is None:
        return session, ()
    seat = seated(process, processes, env)
    return with_pane(session, seat), seat.problems


def answer_about(text: str, env: Mapping[str, str], *, tokens: bool = True) -> Answer:
    """Return the answer about one session, with its tmux pane, and the tools that it left behind."""
    look = resolve_session(text, env, tokens=tokens, related_launches_only=True)
    session, problems = shown_in(look.answer.sessions[0], look.world.processes, env)
    left = left_by(session, look.world.processes)
    return look.answer._replace(sessions=(session,), problems=(*look.answer.problems, *problems), tools_left=left)


def whereabouts(process: Process, seat: Seat) -> str:
    """Say where a process runs, for people, if its screen cannot be shown."""
    under = f", under {seat.around} (pid {seat.around_pid})" if seat.around else ""
    where = f"the terminal {seat.tty}" if seat.tty else f"a terminal that cannot be named here (device {process.tty})"
    return f"pid {process.pid} runs in {where}{under}"
