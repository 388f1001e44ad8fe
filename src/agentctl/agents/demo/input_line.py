"""Where the demo agent's input line is on its screen: behind its mark, up to the cursor."""

from __future__ import annotations

from agentctl.agents.screen import PROMPT, Input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.agents.screen import Screen

MARK = "> "
FIRST = "session: "  # what it says first
PASTE = ("^[[200~", "^[[201~")  # its terminal shows the ends of a paste like this


def input_on(screen: Screen) -> Input:
    column, at = screen.cursor or (0, -1)
    if not 0 <= at < len(screen.lines):
        return Input()
    top = next((line for line in range(at, -1, -1) if screen.lines[line].startswith(MARK[0])), None)
    begins = len(MARK)
    if top is None and any(line.startswith(FIRST) for line in screen.lines):
        top, begins = at, 0  # one that was started before it had a mark: it waits in an empty line
    if top is None:
        return Input()
    text = "\n".join([screen.lines[top][begins:], *screen.lines[top + 1 :]]).rstrip()
    for end in PASTE:
        text = text.replace(end, "")
    return Input(PROMPT, text or ("" if (column, at) == (begins, top) else " "))
