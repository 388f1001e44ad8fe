"""Where Codex's input line is on its screen (measured: 0.166.0).

Its first line begins with a mark: `›` at its prompt, `!` in shell mode. While it is empty it shows a ghost. The
terminal's cursor is in it; in a menu, a search or a dialog the cursor is elsewhere, or hidden.
"""

from __future__ import annotations

from agentctl.agents.screen import PROMPT, SHELL, UNCLEAR, Input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.agents.screen import Screen

MARKS = {"›": PROMPT, "!": SHELL}
INDENT = 2  # columns: the mark and a blank; of further lines two blanks


def input_on(screen: Screen) -> Input:
    column, at = screen.cursor or (0, -1)
    if not screen.visible or not 0 <= at < len(screen.lines) or column < INDENT:
        return Input()
    top = at
    while top > 0 and not screen.lines[top][:INDENT].strip():
        top -= 1
    mode = MARKS.get(screen.lines[top][:1], UNCLEAR)
    if mode == UNCLEAR or screen.lines[top][1:INDENT].strip():
        return Input()
    text = "\n".join(line[INDENT:].rstrip() for line in screen.typed[top : at + 1]).rstrip()
    ghost = screen.lines[top][INDENT:].strip() and not screen.typed[top][INDENT:].strip()
    if ghost:
        return Input(mode) if (column, at) == (INDENT, top) else Input()  # else the cursor is in a search
    if mode == SHELL and not text:
        return Input(mode)
    # Below the cursor there may be more of it: what follows without an empty line between.
    below = at + 1
    while below < len(screen.lines) and screen.lines[below].strip():
        text += "\n" + screen.typed[below].strip()
        below += 1
    return Input(mode, text or " ")  # blanks are a draft, too: its ghost is not there
