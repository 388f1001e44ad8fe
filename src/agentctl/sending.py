"""Giving a live session a text: by its agent's own way where it has one, else by the keys of its terminal in tmux.

Keys are blind: they go to whatever has the screen. So they are sent only to a session that is proved to be at its
prompt, by an exact link, judged anew right before; the text goes as one paste, Enter only once the screen shows it.
What came of it is not assumed: the session's own store has the text, or it works now, or that is not known and said so.
"""

from __future__ import annotations

import os
import time

from agentctl import launches, tmux
from agentctl.agents import load_control
from agentctl.errors import AgentctlError, NotFound, Refused, TruthUnavailable, UsageError
from agentctl.locks import gate_named
from agentctl.model import ALIVE, EXACT, GONE, IDLE, WAITING, WORKING, Details, Launch, Value
from agentctl.recipes import Held
from agentctl.sessions import Scope, examine, open_store_of, settled_look
from agentctl.terminals import process_of, seated, whereabouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.model import Process, Session
    from agentctl.processes import Processes
    from agentctl.sessions import Look
    from agentctl.tmux import Pane

PATIENCE = 15.0  # until it must have arrived
SHOWN_WITHIN = 5.0  # for a screen to show what was pasted
GLANCE = 0.1
LONGEST = 100_000  # characters
COMMANDS = "/!#"  # what an agent's screen takes for a command, at the beginning
TMUX, OWN = "tmux", "agent"
PASTED = "pasted"  # screens show a long paste as such, in place of its text


class Sent(Value):
    session: Session  # as it was judged afterwards
    by: str  # TMUX or OWN
    through: str  # for people
    joined: bool = False  # with something that stood in its input before


def send(id: str, text: str, env: Mapping[str, str], *, raw: bool = False, patience: float = PATIENCE) -> Sent:
    """Raises Refused where nothing was sent, TruthUnavailable where that is not known."""
    text = checked(text)
    session = examine(session_named(id, env), env).answer.sessions[0]
    # One at a time: two texts that are pasted at the same moment would be one.
    with gate_named(env, f"send {session.agent} {session.id}", session.id):
        return Sending(session.id, text, env, raw=raw, patience=patience).run()


def session_named(text: str, env: Mapping[str, str]) -> str:
    """A launch id stands for the session that it is on."""
    if not launches.is_id(text):
        return text
    try:
        launch = launches.read(text, env)
    except NotFound:
        return text
    found = settled_look(Scope(), env).answer.sessions
    mine = [one.id for one in found if one.launch_id == text and one.process == ALIVE and one.parent is None]
    if not mine or not isinstance(launch, Launch):
        raise Refused(f"launch {text} is on no session that lives; look at it: agentctl attach {text}")
    return mine[0]


def checked(text: str) -> str:
    """As it is sent. A terminal would obey control characters, and so might an agent."""
    text = text.replace("\r\n", "\n").rstrip("\n")
    if not text.strip():
        raise UsageError("no text; give it behind the ID, or - for stdin")
    if len(text) > LONGEST:
        raise UsageError(f"a text of {len(text)} characters; at most {LONGEST}: put it into a file, and name that")
    odd = next((char for char in text if char not in "\n\t" and is_control(char)), None)
    if odd is not None:
        raise UsageError(f"control characters cannot be sent ({odd!r}); take them out")
    return text


def is_control(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff"


# Whether


def why_not(session: Session) -> str | None:
    """Why it is not given anything now, whichever way; and what to do."""
    id = session.id
    if session.parent is not None:
        return f"{id} is a sub-agent, which only its parent speaks to; send it to that: {session.parent}"
    if session.process == GONE:
        return f"{id} has ended ({session.status}); go on with it: agentctl resume {id} TEXT"
    if session.process != ALIVE:
        return f"{id}: it cannot be told whether it lives ({session.reason}); `agentctl why {id}` shows what is known"
    if session.suspended:
        return f"{id} is suspended (pid {session.pid}); continue it first"
    if session.turn == WAITING:
        asked = session.waiting_for or "something"
        return f"{id} waits for a person: {asked}; answer it there: agentctl attach {id}"
    if session.turn == WORKING:
        return f"{id} is working; wait for it: agentctl wait --until idle {id} && agentctl send {id} TEXT"
    if session.turn != IDLE:
        doubt = session.reason or "its store does not say"
        return f"{id} lives, but what it does cannot be told ({doubt}); look at it: agentctl attach {id}"
    return None


def why_no_keys(session: Session) -> str | None:
    """What an idle session lacks to be typed to."""
    if session.link == EXACT and not session.inferred:
        return None
    what = "that it is idle" if session.link == EXACT else f"that pid {session.pid} shows it"
    return f"{session.id}: {what} is inferred, not proved, so nothing is typed there; agentctl attach {session.id}"


def refuse(why: str | None) -> None:
    if why is not None:
        raise Refused(why)


def held_by(look: Look, env: Mapping[str, str]) -> Held:
    """The session and its process, if it may be given something now."""
    session, processes = look.answer.sessions[0], look.world.processes
    refuse(why_not(session))
    process = process_of(session, processes)
    if process is None:
        raise Refused(f"{session.id}: its process (pid {session.pid}) cannot be named; ask again")
    details = processes.details(process) or Details()
    if details.uid != os.getuid():
        raise Refused(f"{session.id}: pid {process.pid} belongs to another user (uid {details.uid}); ask them")
    return Held(session, process, details, env)


# How


class Sending:
    """One text on its way to one session."""

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
        """The pane that may be typed to, now."""
        refuse(why_no_keys(held.session))
        seat = seated(held.process, processes, self._env)
        if seat.tty is None and held.process.tty == 0:
            raise Refused(
                f"{self._id} has no terminal, and its agent no other way to be spoken to; agentctl peek -f {self._id} "
                f"follows it, agentctl resume {self._id} TEXT goes on once it has ended"
            )
        if seat.pane is None:
            silent = "".join(f"; {one.path}: {one.problem}" for one in seat.problems)
            where = whereabouts(held.process, seat)
            raise Refused(f"{self._id}: {where}, which is no pane of tmux; `agentctl attach` says more{silent}")
        refuse(f"{self._id}: {seat.pane.busy}" if seat.pane.busy else None)
        if self._text[0] in COMMANDS and not self._raw:
            raise Refused(
                f"a text that begins with {self._text[0]!r} may be a command to its screen, not a prompt; "
                "put a word before it, or send it as it is with --raw"
            )
        return seat.pane

    def _type(self, held: Held, pane: Pane) -> None:
        before = tmux.screen(pane, self._env)
        self._again(held.process, pane)
        tmux.paste(pane, self._text, self._env)
        deadline = time.monotonic() + SHOWN_WITHIN
        while not is_shown(self._text, before, tmux.screen(pane, self._env)):
            if time.monotonic() >= deadline:
                raise TruthUnavailable(
                    f"{self._id}: it was pasted into pane {pane.id}, which does not show it, so Enter was not pressed; "
                    f"look at it: agentctl attach {self._id}"
                )
            time.sleep(GLANCE)
        try:
            self._again(held.process, pane)
        except AgentctlError as error:
            raise TruthUnavailable(
                f"{error}; it was pasted into pane {pane.id} before, and Enter was not pressed: look at it there"
            ) from error
        tmux.press_enter(pane, self._env)

    def _again(self, process: Process, pane: Pane) -> None:
        """Everything anew: is it still this process, at its prompt, in this pane?"""
        look = examine(self._id, self._env)
        held = held_by(look, self._env)
        load_control(held.session.agent).way_to_send(held)
        now = self._pane(held, look.world.processes)
        if held.process.key != process.key or now != pane:
            raise Refused(f"{self._id}: it has moved to pid {held.process.pid} in pane {now.id} meanwhile; ask again")

    # What came of it

    def _proved(self, held: Held, mark: object, by: str, through: str) -> Sent:
        """Its store has it: proof. It works: it took something, and nobody else is known to have spoken to it."""
        deadline = time.monotonic() + self._patience
        while True:
            found = examine(self._id, self._env).answer.sessions[0]
            said = prompts_since(found, mark)
            if (joined := is_among(self._text, said)) is not None:
                return Sent(found, by, through, joined)
            if time.monotonic() >= deadline:
                break
            time.sleep(GLANCE)
        if found.process == ALIVE and found.turn in (WORKING, WAITING):
            return Sent(found, by, through)
        raise TruthUnavailable(
            f"{self._id}: it was sent through {through}, and whether it arrived is not known: within "
            f"{self._patience:g} s its store does not have it, and it is {found.status}; do not send it again before "
            f"you have looked: agentctl peek {self._id}"
        )


def mark_of(session: Session) -> object:
    """Where its conversation ends now."""
    try:
        return open_store_of(session).messages(session.id, 1).cursor
    except OSError:
        return None  # nothing is written of it yet


def prompts_since(session: Session, mark: object) -> list[str]:
    try:
        page = open_store_of(session).messages_after(session.id, mark)
    except OSError:
        return []
    return [message.text for message in page.messages if message.role == "user"]


def is_among(text: str, said: list[str]) -> bool | None:
    """None: no; False: as it is; True: together with something else."""
    wanted = bare(text)
    found = [bare(one) for one in said]
    if wanted in found:
        return False
    return True if any(wanted in one for one in found) else None


def bare(text: str) -> str:
    """Without what a screen or a store may set otherwise: the white space."""
    return "".join(text.split())


def is_shown(text: str, before: str, after: str) -> bool:
    """Does a screen show the end of a text, once more than before? Frames and line breaks may stand in it; a long paste
    may be shown as one."""
    last = letters(text.rstrip().rpartition("\n")[2])[-30:] or bare(text)[-30:]
    shape = letters if letters(last) else bare
    if shape(after).count(last) > shape(before).count(last):
        return True
    return after.lower().count(PASTED) > before.lower().count(PASTED)


def letters(text: str) -> str:
    return "".join(char for char in text if char.isalnum())
