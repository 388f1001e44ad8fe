"""Where a session sits: which pane of tmux its process is in, or what else it runs under.

Pure, but for `seated`, which asks tmux, and what calls it. A pane is proved twice, by the kernel's word and by tmux's:
the process has the pane's terminal, and the pane's own process is that process or stands above it. What a process has
in its environment only says which servers to ask: variables are handed on, and can be made up.
"""

from __future__ import annotations

from agentctl import tmux
from agentctl.model import Evidence, Process, Value, terminal_of
from agentctl.sessions import examine
from agentctl.targets import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.model import Answer, Problem, Session
    from agentctl.processes import Processes
    from agentctl.tmux import Pane

# What people run agents in, by the beginning of a process' name (which the kernel cuts at 15 characters).
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
    """What is known of where a process sits."""

    tty: str | None = None
    pane: Pane | None = None  # proved
    like: Pane | None = None  # has its terminal, and is not proved to be its own
    around: str | None = None  # the program that it runs under
    around_pid: int | None = None
    problems: tuple[Problem, ...] = ()  # servers that do not answer: it may be in one of them


def seated(process: Process, processes: Processes, env: Mapping[str, str]) -> Seat:
    """Asks tmux, if the process has a terminal at all."""
    if terminal_of(process.tty) is None:
        return seat_of(process, processes, ())
    details = processes.details(process)
    named = details.env.get("TMUX") if details and details.env else None
    panes, problems = tmux.panes(env, [named])
    return seat_of(process, processes, panes)._replace(problems=tuple(problems))


def seat_of(process: Process, processes: Processes, panes: Iterable[Pane]) -> Seat:
    tty = (terminal_of(process.tty) or {}).get("tty")
    above = ancestors(process.pid, processes)
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
    """The nearest program above it that people sit at."""
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
    """The one that is on it, by its whole key."""
    row = processes.get(session.pid) if session.pid is not None else None
    return row if row is not None and str(row.key) == session.process_key else None


def with_pane(session: Session, seat: Seat) -> Session:
    """The session with what was found out about its pane, and how."""
    pane = seat.pane
    if pane is None or session.terminal is None:
        return session
    fact = f"its terminal {pane.tty} is pane {pane.id} of tmux session {pane.name}, whose process is pid {pane.pid}"
    shown = {**session.terminal, "tmux": pane.id, "tmux_session": pane.name, "tmux_socket": pane.socket}
    seen = Evidence("api", fact, pane.socket, pane.pid)
    return session._replace(terminal=shown, evidence=(*session.evidence, seen))


def shown_in(session: Session, processes: Processes, env: Mapping[str, str]) -> tuple[Session, Sequence[Problem]]:
    """For those who ask about one session."""
    process = process_of(session, processes)
    if process is None:
        return session, ()
    seat = seated(process, processes, env)
    return with_pane(session, seat), seat.problems


def one(prefix: str, env: Mapping[str, str], *, tokens: bool = True) -> Answer:
    """As sessions.one, and where it sits."""
    look = examine(prefix, env, tokens=tokens, every_launch=False)
    session, problems = shown_in(look.answer.sessions[0], look.world.processes, env)
    return look.answer._replace(sessions=(session,), problems=(*look.answer.problems, *problems))


def whereabouts(process: Process, seat: Seat) -> str:
    """For people, where it cannot be shown."""
    under = f", under {seat.around} (pid {seat.around_pid})" if seat.around else ""
    where = f"the terminal {seat.tty}" if seat.tty else f"a terminal that cannot be named here (device {process.tty})"
    return f"pid {process.pid} runs in {where}{under}"
