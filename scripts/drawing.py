"""Draws what a terminal showed as an SVG: a picture of it, or a recording that plays."""

from __future__ import annotations

import os
import pty
import re
import time
from html import escape
from typing import NamedTuple

COLUMNS = 118
LINE, LETTER, MARGIN = 19, 8.43, 16
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#f2cc60", "35": "#d2a8ff", "36": "#79c0ff"}
PROMPT = re.compile(r"(?:~\S* )?\$ ")
SGR = re.compile(r"\x1b\[([0-9;]*)m")


class Shown(NamedTuple):
    """A line, and when it was there: seconds from the beginning."""

    at: float
    text: str


def watch(argv: list[str], env: dict[str, str], cwd: str | None = None) -> tuple[list[Shown], int]:
    """Run it in a pseudo-terminal; what it printed, colours and all, and its exit code."""
    begun = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        if cwd is not None:
            os.chdir(cwd)
        os.execvpe(argv[0], argv, {**env, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"})
    lines, rest = [], b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        *whole, rest = (rest + part).split(b"\n")
        lines += [Shown(time.monotonic() - begun, line.decode().rstrip("\r").expandtabs()) for line in whole]
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    if rest:
        lines.append(Shown(time.monotonic() - begun, rest.decode()))
    return lines, os.waitstatus_to_exitcode(status)


def draw(lines: list[Shown]) -> str:
    """Each line is there from its moment on; where a picture cannot move, all of them from the beginning."""
    lines = [Shown(line.at, part) for line in lines for part in wrapped(line.text)]
    longest = max(len(SGR.sub("", line.text)) for line in lines)
    width, height = longest * LETTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    rows = []
    for index, line in enumerate(lines):
        y = MARGIN + LINE * (index + 0.75)
        hidden = f'<set attributeName="visibility" to="hidden" end="{line.at:.2f}s"/>' if line.at else ""
        rows.append(f'<text x="{MARGIN}" y="{y:.1f}" xml:space="preserve">{hidden}{spans(line.text.rstrip())}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>'
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#c9d1d9">'
        f"{''.join(rows)}</g></svg>\n"
    )


def wrapped(text: str) -> list[str]:
    """As a terminal does it; a line with colours is a row of a table, and fits."""
    if "\x1b" in text or len(text) <= COLUMNS:
        return [text]
    return [text[at : at + COLUMNS] for at in range(0, len(text), COLUMNS)]


def spans(line: str) -> str:
    if (prompt := PROMPT.match(line)) is not None:
        typed = escape(line[prompt.end() :])
        return f'<tspan fill="#8b949e">{prompt[0]}</tspan><tspan fill="#ffffff" font-weight="bold">{typed}</tspan>'
    found, style = [], ""
    for index, part in enumerate(SGR.split(line)):
        if index % 2:
            codes = part.split(";")
            colour = next((COLOURS[code] for code in codes if code in COLOURS), None)
            style = f' fill="{colour}"' if colour else ' fill="#8b949e"' if "2" in codes else ""
            style += ' font-weight="bold"' if "1" in codes else ""
        elif part:
            found.append(f"<tspan{style}>{escape(part)}</tspan>")
    return "".join(found)
