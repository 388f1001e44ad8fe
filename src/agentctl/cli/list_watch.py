"""agentctl list --watch: the table in place, with a line of counts above it, redrawn when something changes."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

from agentctl.cli import list as listing
from agentctl.cli import output
from agentctl.cli.width import width
from agentctl.errors import UsageError
from agentctl.live.engine import Engine
from agentctl.model import STATUS_WORDS, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from agentctl.model import Answer, Session
    from agentctl.query.reading import Scope

NOT_HERE = "--watch redraws a terminal, and {}; `agentctl events -f` prints each change on a line of its own"
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # a screen of its own, without a cursor; and back
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def run(args: Namespace, scope: Scope) -> int:
    refuse_elsewhere(args)
    gc.enable()  # `list` is short-lived, and this is not
    screen = Screen()
    engine = Engine(scope, reader=sys.stdout.fileno(), tick=screen.draw)
    screen.enter()
    try:
        before: object = None
        for look in engine.looks():
            answer = listing.answer_of(look, scope, args.group)
            rows = listing.select(answer.sessions, args)
            screen.show(Frame(rows, answer, args, listing.ids_of(rows, answer, look.readings)))
            now = [(session.agent, session.id, session.status, session.waiting_for) for session in rows]
            engine.changed = engine.changed or now != before
            before = now
    finally:
        screen.leave()
    return 0


def refuse_elsewhere(args: Namespace) -> None:
    for wrong, why in (
        (args.json, "with --json there is none"),
        (not sys.stdout.isatty(), "stdout is none"),
        (os.environ.get("TERM") == "dumb", "this one cannot be redrawn (TERM=dumb)"),
    ):
        if wrong:
            raise UsageError(NOT_HERE.format(why))


class Frame(Value):
    """What is shown: a look, as far as it was asked for."""

    rows: list[Session]
    answer: Answer
    args: Namespace
    ids: Mapping[str, str]  # by session: what to type for it


def lines_of(frame: Frame, now: float) -> Iterator[str]:
    """Yield the lines of a screen. Ages grow, so it depends on the time."""
    args = frame.args
    yield counts(frame.rows, now)
    rows = frame.rows if args.n is None else frame.rows[: args.n]
    yield ""
    if rows:
        yield from listing.table_lines(rows, args.tree, frame.ids)
    else:
        yield listing.no_rows(frame.answer, args, len(frame.rows))
    for text in listing.lines_below(frame.answer, args, frame.ids):
        yield from text.split("\n")
    for problem in frame.answer.problems:
        yield output.problem_line(problem)


def counts(rows: list[Session], now: float) -> str:
    """Return the first line: how many sessions there are, and how many of each status."""
    found = {word: sum(session.status == word for session in rows) for word in STATUS_WORDS}
    words = [(f"{count} {word}", word) for word, count in found.items() if count]
    head = f"{output.clock(now)}  {len(rows)} session{'' if len(rows) == 1 else 's'}{': ' if words else ''}"
    plain = head + ", ".join(text for text, _ in words)
    return plain if len(plain) > width() else head + ", ".join(output.coloured(*each) for each in words)


class Screen:
    """Draws frames on the terminal, and gives it back as it was, whatever ends us but SIGKILL."""

    def __init__(self) -> None:
        self._frame: Frame | None = None
        self._drawn = ""
        self._is_drawing = False
        self._entered = False

    def enter(self) -> None:
        signal.signal(signal.SIGWINCH, self._resized)
        signal.signal(signal.SIGTSTP, self._suspended)
        signal.signal(signal.SIGTERM, self._terminated)
        self._entered = True
        write(ENTER)

    def leave(self) -> None:
        if self._entered:
            self._entered = False
            write(LEAVE)

    def show(self, frame: Frame) -> None:
        self._frame = frame
        self.draw()

    def draw(self) -> None:
        """Draw the last frame again if it looks different now: ages grow, and the terminal may have another size."""
        if self._frame is None or self._is_drawing:
            return
        self._is_drawing = True
        try:
            text = drawn(list(lines_of(self._frame, time.time())), *size())
            if text != self._drawn:
                self._drawn = text
                write(text)
        finally:
            self._is_drawing = False

    def _resized(self, number: int, frame: FrameType | None) -> None:
        self._drawn = ""
        self.draw()

    def _suspended(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: give the terminal back, stop, and take it again when we go on."""
        write(LEAVE)
        signal.raise_signal(signal.SIGSTOP)
        write(ENTER)
        self._resized(number, frame)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)  # by way of `leave`


def size() -> tuple[int, int]:
    """Return the columns and lines of the terminal."""
    found = os.get_terminal_size(sys.stdout.fileno())
    return width(), max(2, found.lines)


def drawn(lines: list[str], width: int, height: int) -> str:
    """Return what draws these lines over whatever the screen shows: as many as there is room for. Pure."""
    if len(lines) > height:
        hidden = len(lines) - height + 1
        lines = [*lines[: height - 1], f"{hidden} more line{'' if hidden == 1 else 's'}: the terminal is too low"]
    cut = [line if "\x1b" in line else output.shorten(line, width) for line in lines]
    return HOME + f"{REST_OF_LINE}\r\n".join(cut) + REST_OF_LINE + REST_OF_SCREEN


def write(text: str) -> None:
    """Write to the terminal at once: Python's own buffer must not be used by a signal handler while it is in use."""
    left = text.encode(output.encoding(), "backslashreplace")
    while left:
        left = left[os.write(sys.stdout.fileno(), left) :]
