"""Runs `scripts/demo.py` in a pseudo-terminal and draws what it really printed as an SVG: `make screenshot`."""

from __future__ import annotations

import os
import pty
import re
import sys
from html import escape
from pathlib import Path

REPO = Path(__file__).parent.parent
OUT = REPO / "docs" / "images" / "demo.svg"
COLUMNS = 118
LINE, LETTER, MARGIN = 19, 8.43, 16
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#f2cc60", "35": "#d2a8ff", "36": "#79c0ff"}
SGR = re.compile(r"\x1b\[([0-9;]*)m")
UNTIL = "sources consulted"  # of the second `why`: the rest is more of the same


def record() -> str:
    """The demo's output, colours and all."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS=str(COLUMNS), TERM="xterm-256color")
        os.environ.pop("NO_COLOR", None)
        os.execv(sys.executable, [sys.executable, str(REPO / "scripts" / "demo.py")])
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"the demo failed: {os.waitstatus_to_exitcode(status)}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def draw(text: str) -> str:
    lines = [line.rstrip() for line in text.split("\n")]
    longest = max(len(SGR.sub("", line)) for line in lines)
    width, height = longest * LETTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    rows = []
    for index, line in enumerate(lines):
        y = MARGIN + LINE * (index + 0.75)
        rows.append(f'<text x="{MARGIN}" y="{y:.1f}" xml:space="preserve">{spans(line)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>'
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#c9d1d9">'
        f"{''.join(rows)}</g></svg>\n"
    )


def spans(line: str) -> str:
    if line.startswith("$ "):
        return f'<tspan fill="#8b949e">$</tspan><tspan fill="#ffffff" font-weight="bold">{escape(line[1:])}</tspan>'
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


def main() -> None:
    text = record()
    first = text.index(UNTIL)
    cut = text.find(UNTIL, first + 1)
    kept = text[: cut if cut > 0 else first].rstrip()
    # The first `why`'s list of sources names temporary folders: it says nothing in a picture.
    kept = re.sub(rf"\n\n{UNTIL}\n(?:  .*\n)+", "\n", kept)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(draw(kept), encoding="utf-8")
    print(f"wrote {OUT.relative_to(REPO)}")


if __name__ == "__main__":
    main()
