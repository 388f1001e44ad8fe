"""Send a text to a live session: in the agent's own way if it has one, else as keys to its terminal in tmux.

Keys go to whatever reads the terminal. So agentctl types only if four things are proved, each anew right before: the
session is at its prompt, by an exact link; its process executes the agent; it alone reads the pane's terminal; and the
screen shows its input line, empty and in prompt mode. agentctl pastes the text, and presses Enter only if the text
stands in the input line, and nothing else. Until that look it sends no byte that can act: a line break is a key unless
the agent reads the marks of a paste, so of several lines it pastes the beginning of the first, between marks, and the
rest only if the input line then shows that beginning without the marks. It assumes nothing about the result: the
session's store has the text, or the session works now, or `send` says that it does not know.
"""

from __future__ import annotations

import os
import time

from agentctl.agents import load, load_control
from agentctl.agents.recipes import Held
from agentctl.agents.screen import PROMPT, SHELL, bare, holds_exactly
from agentctl.errors import AgentctlError, Interrupted, Refused, TruthUnavailable, UsageError
from agentctl.model import ALIVE, EXACT, GONE, IDLE, WAITING, WORKING, Details, Value
from agentctl.query.resolve import resolve
from agentctl.query.sessions import examine, open_store_of
from agentctl.terminal import tmux
from agentctl.terminal.locate import process_of, seated, whereabouts
from agentctl.workspace.locks import gate_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.agents.screen import Input
    from agentctl.kernel.processes import Processes
    from agentctl.model import Process, Session
    from agentctl.query.sessions import Look
    from agentctl.terminal.tmux import Pane

PATIENCE = 15.0  # seconds until the text must have arrived
SHOWN_WITHIN = 5.0  # seconds for a screen to show what was pasted
GLANCE = 0.1
LONGEST = 100_000  # characters
COMMANDS = "/!#"  # most screens take a text that begins with one of these for a command
TMUX, OWN = "tmux", "agent"
NOBODY_ANSWERS = (
    "it has no terminal, so nobody can answer it here; end it and continue it on a screen: agentctl stop {id} && "
    "agentctl resume --interactive {id}"
)


class Sent(Value):
    session: Session  # as judged afterwards
    by: str  # TMUX or OWN
    through: str  # for people
    joined: bool = False  # its store has the text only as a part of a longer prompt


def send(id: str, text: str, env: Mapping[str, str], *, raw: bool = False, patience: float = PATIENCE) -> Sent:
    """Raises Refused if nothing was sent, TruthUnavailable if it is not known whether the text arrived."""
    text = checked(text)
    named = resolve(id, env)
    session = named.session
    if session is None:
        look = "peek" if named.launch is not None and named.launch.headless else "attach"
        raise Refused(f"launch {id} has no live session; look at it: agentctl {look} {id}")
    # One at a time: two texts pasted at the same moment would become one.
    with gate_named(env, f"send {session.agent} {session.id}", session.id):
        return Sending(session.id, text, env, raw=raw, patience=patience).run()


def checked(text: str) -> str:
    """Return the text as it is sent. Refuses control characters: a terminal would obey them, and an agent might."""
    text = text.replace("\r\n", "\n").rstrip("\n")
    text = text[text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1 :]  # without blank lines at its beginning
    if not text.strip():
        raise UsageError("no text; give it after the ID, or - to read stdin")
    if len(text) > LONGEST:
        raise UsageError(
            f"the text has {len(text)} characters, at most {LONGEST} can be sent; put it into a file and send its name"
        )
    control = next((char for char in text if char not in "\n\t" and is_control(char)), None)
    if control is not None:
        raise UsageError(f"control characters cannot be sent ({control!r}); remove them")
    return text


def is_control(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff"


def in_two(text: str) -> tuple[str, str]:
    """Return what is pasted first, and the rest: nothing, if the text is one line. The cut is between two letters, so
    that neither piece has white space at the cut, which some screens remove."""
    end = text.find("\n")
    if end < 0:
        return text, ""
    solid = (at for at in range(end - 1, 0, -1) if is_letter(text[at - 1]) and is_letter(text[at]))
    cut = next(solid, end)
    return text[:cut], text[cut:]


def is_letter(char: str) -> bool:
    return char.isascii() and char.isalnum()


# May it be sent?


def why_not(session: Session, *, reachable: bool = True) -> str | None:
    """Return why this session can take no text now, and what to do; None: it can. `reachable`: it could take one at
    another time, at its terminal or in its agent's own way."""
    id = session.id
    if session.parent is not None:
        return f"{id} is a sub-agent, and only its parent can send to it; send to the parent: {session.parent}"
    if session.process == GONE:
        pids = ", ".join(map(str, session.may_be_open_in))
        open_in = f"; pid {pids} may have it open, which is not proved, so nothing is typed there" if pids else ""
        return f"{id} has ended ({session.status}){open_in}; to continue it: agentctl resume {id} TEXT"
    if session.process != ALIVE:
        return f"{id}: agentctl cannot tell whether it is alive ({session.reason}); `agentctl why {id}` shows more"
    if session.suspended:
        return f"{id} is suspended; {how_to_continue(session)}"
    if session.turn == WAITING:
        asked = session.waiting_for or "something"
        if not reachable:
            return f"{id} waits for a person: {asked}; {NOBODY_ANSWERS.format(id=id)}"
        return f"{id} waits for a person: {asked}; answer it: agentctl attach {id}"
    if session.turn == WORKING and not reachable:
        return f"{id} is working, and can be given no text while it runs: it has no terminal; {after_its_end(id)}"
    if session.turn == WORKING:
        return f"{id} is working; wait for it: agentctl wait --until idle {id} && agentctl send {id} TEXT"
    if session.turn != IDLE:
        doubt = session.reason or "its store does not say"
        return f"{id} is alive, but agentctl cannot tell what it does ({doubt}); look at it: agentctl attach {id}"
    return None


def how_to_continue(session: Session) -> str:
    """Return how a suspended session goes on. With a terminal its shell must do it: after SIGCONT alone the session
    would be in the background there, and could read no key."""
    from agentctl.kernel.one_process import frozen_in

    if frozen_in(f"/proc/{session.pid}"):
        return "its cgroup is frozen: thaw it first (docker unpause, systemctl thaw)"
    tty = (session.terminal or {}).get("tty")
    if tty is None:
        return f"continue it first: kill -CONT {session.pid}"
    return f"type `fg` in its terminal ({tty}; agentctl attach {session.id}), and try again"


def why_no_keys(session: Session) -> str | None:
    """Return why no keys may be sent to an idle session; None: they may."""
    if session.link == EXACT and not session.inferred:
        return None
    what = "that it is idle" if session.link == EXACT else f"that pid {session.pid} shows it"
    return f"{session.id}: {what} is inferred, not proved, so nothing was typed; agentctl attach {session.id}"


def refuse(why: str | None) -> None:
    if why is not None:
        raise Refused(why)


def held_by(look: Look, env: Mapping[str, str]) -> Held:
    """Return the session and its process. Raises Refused if the session can take no text now."""
    session, processes = look.answer.sessions[0], look.world.processes
    process = process_of(session, processes)
    details = (processes.details(process) if process is not None else None) or Details()
    if (why := why_not(session)) is not None:
        held = Held(session, process, details, env) if process is not None else None
        raise Refused(
            why if held is None or is_reachable(held, processes) else why_not(session, reachable=False) or why
        )
    if process is None:
        raise Refused(f"{session.id}: its process (pid {session.pid}) ended or changed just now; try again")
    if details.uid != os.getuid():
        raise Refused(f"{session.id}: pid {process.pid} belongs to another user (uid {details.uid}); ask them")
    return Held(session, process, details, env)


def why_not_empty(found: Input, id: str) -> str | None:
    """Return why nothing may be typed at this input line; None if it is empty and at its prompt."""
    if found.is_empty_prompt:
        return None
    if found.mode == SHELL:
        what = "its input line is in shell mode: a text would run there as a command; leave that mode"
    elif found.mode == PROMPT:
        what = "a draft is in its input line, and a text would be sent together with it; send or delete the draft"
    else:
        what = "its screen does not show an empty input line; close what is open there"
    return f"{id}: {what} (agentctl attach {id}), and try again; nothing was typed"


def after_its_end(id: str) -> str:
    """Return what to do with a session that can be given no text while it runs."""
    return f"continue it once it has ended: agentctl wait --until ended {id} && agentctl resume {id} TEXT"


def is_reachable(held: Held, processes: Processes) -> bool:
    """Return whether a session could ever be given a text: it reads a terminal, or its agent has a way of its own."""
    unheard = processes.why_unheard(held.process)
    if unheard is None or not unheard.never:
        return True
    try:
        return load_control(held.session.agent).way_to_send(held) is not None
    except Refused:
        return False


# How it is sent


class Sending:
    """A text on its way to a session."""

    def __init__(self, id: str, text: str, env: Mapping[str, str], *, raw: bool, patience: float) -> None:
        self._id, self._text, self._env, self._raw = id, text, env, raw
        self._patience = patience

    def run(self) -> Sent:
        look = examine(self._id, self._env)
        held = held_by(look, self._env)
        delivery = load_control(held.session.agent).way_to_send(held)
        if delivery is not None:
            mark = mark_of(held.session)
            delivery.deliver(self._text, self._patience)
            return self._proved(held, mark, OWN, delivery.name)
        pane = self._pane(held, look.world.processes)
        mark = mark_of(held.session)
        self._type(held, pane)
        return self._proved(held, mark, TMUX, f"tmux pane {pane.id} ({pane.name})")

    def _pane(self, held: Held, processes: Processes) -> Pane:
        """Return the pane that may get keys now. Raises Refused."""
        refuse(why_no_keys(held.session))
        seat = seated(held.process, processes, self._env)
        if seat.tty is None and held.process.tty == 0:
            raise Refused(
                f"{self._id} has no terminal, and its agent has no other way to take a text; `agentctl peek -f "
                f"{self._id}` follows it, and `agentctl resume {self._id} TEXT` continues it once it has ended"
            )
        if seat.pane is None:
            silent = "".join(f"; {problem.path}: {problem.problem}" for problem in seat.problems)
            where = whereabouts(held.process, seat)
            raise Refused(f"{self._id}: {where}, which is no tmux pane; `agentctl attach {self._id}` says more{silent}")
        refuse(f"{self._id}: {seat.pane.busy}" if seat.pane.busy else None)
        self._check_reader(held, processes)
        if self._text[0] in COMMANDS and not self._raw:
            raise Refused(
                f"a screen may take a text that begins with {self._text[0]!r} for a command; put a word before it, or "
                "send it as it is with --raw"
            )
        return seat.pane

    def _check_reader(self, held: Held, processes: Processes) -> None:
        """Raise Refused unless the process executes the agent, and alone reads what is typed at its terminal."""
        session, pid = held.session, held.process.pid
        if not load(session.agent).executes(held.details):
            runs = held.details.exe or "a program that cannot be read"
            raise Refused(
                f"{session.id}: pid {pid} executes {runs}, which is not proved to be {session.agent}; nothing was typed"
            )
        if (why := processes.why_unheard(held.process)) is not None:
            way_out = after_its_end(session.id) if why.never else f"look at it: agentctl attach {session.id}"
            raise Refused(f"{session.id}: {why.text}; nothing was typed; {way_out}")

    def _type(self, held: Held, pane: Pane) -> None:
        self._again(held.process, pane)
        refuse(why_not_empty(self._input_of(held, pane), self._id))
        try:
            self._paste(held, pane)
        except KeyboardInterrupt:
            raise Interrupted(f"{self._id}: {self._left_in(pane)}") from None
        tmux.press_enter(pane, self._env)

    def _paste(self, held: Held, pane: Pane) -> None:
        """Put the text into the input line, and prove that it stands there. Raises TruthUnavailable."""
        begins, rest = in_two(self._text)
        for piece, whole in ((begins, begins), (rest, self._text)):
            if not piece:
                continue
            tmux.paste(pane, piece, self._env, marked=bool(rest))
            self._wait_until_shown(held, pane, whole)
            try:
                self._again(held.process, pane)
            except AgentctlError as error:
                raise TruthUnavailable(f"{error}; {self._left_in(pane)}") from error
            if not self._stands_in(self._input_of(held, pane), whole):
                raise TruthUnavailable(f"{self._id}: its input line has changed meanwhile; {self._left_in(pane)}")

    def _wait_until_shown(self, held: Held, pane: Pane, text: str) -> None:
        """Wait until the text stands in the input line, and nothing else. Raises TruthUnavailable."""
        deadline = time.monotonic() + SHOWN_WITHIN
        while not self._stands_in(self._input_of(held, pane), text):
            if time.monotonic() >= deadline:
                part = "the text" if text == self._text else "the beginning of its first line"
                raise TruthUnavailable(
                    f"{self._id}: agentctl pasted {part}, but the input line does not show it, or shows more than "
                    f"it; {self._left_in(pane)}"
                )
            time.sleep(GLANCE)

    def _input_of(self, held: Held, pane: Pane) -> Input:
        return load_control(held.session.agent).input_on(tmux.look(pane, self._env))

    def _stands_in(self, found: Input, text: str) -> bool:
        return holds_exactly(found, text, command=self._raw)

    def _left_in(self, pane: Pane) -> str:
        return f"the text may be in pane {pane.id}, but Enter was not pressed: agentctl attach {self._id}"

    def _again(self, process: Process, pane: Pane) -> None:
        """Judge again: is it still this process, at its prompt, in this pane? Raises Refused if not."""
        look = examine(self._id, self._env)
        held = held_by(look, self._env)
        load_control(held.session.agent).way_to_send(held)
        now = self._pane(held, look.world.processes)
        if held.process.key != process.key or now != pane:
            raise Refused(f"{self._id}: it has moved to pid {held.process.pid} in pane {now.id} meanwhile; try again")

    # Did it arrive?

    def _proved(self, held: Held, mark: object, by: str, through: str) -> Sent:
        """Wait for proof. Its store has the text: proved. It works: it took something, and no one else is known to have
        sent anything. Raises TruthUnavailable otherwise."""
        deadline = time.monotonic() + self._patience
        while True:
            session = examine(self._id, self._env).answer.sessions[0]
            if (joined := is_among(self._text, prompts_since(session, mark))) is not None:
                return Sent(session, by, through, joined)
            if time.monotonic() >= deadline:
                break
            time.sleep(GLANCE)
        if session.process == ALIVE and session.turn in (WORKING, WAITING):
            return Sent(session, by, through)
        raise TruthUnavailable(
            f"{self._id}: the text was sent through {through}, but agentctl cannot tell whether it arrived: after "
            f"{self._patience:g} s it is not in the store, and the session is {session.status}; look before you send "
            f"it again: agentctl peek {self._id}"
        )


def mark_of(session: Session) -> object:
    """Return where its conversation ends now."""
    try:
        return open_store_of(session).messages(session.id, 1).cursor
    except OSError:
        return None  # it has no transcript yet


def prompts_since(session: Session, mark: object) -> list[str]:
    try:
        page = open_store_of(session).messages_after(session.id, mark)
    except OSError:
        return []
    return [message.text for message in page.messages if message.role == "user"]


def is_among(text: str, prompts: list[str]) -> bool | None:
    """Is the text among these prompts? None: no; False: as it is; True: as a part of one."""
    wanted = bare(text)
    known = [bare(prompt) for prompt in prompts]
    if wanted in known:
        return False
    return True if any(wanted in prompt for prompt in known) else None
