"""Where Claude Code's input line is on its screen (measured: 2.1.197 and 2.1.325).

It is between two rules, and its first line begins with a mark: `❯` at its prompt, `!` in shell mode. The terminal's
cursor is in it, hidden or not; in a menu or a dialog the cursor is elsewhere. The letter under the cursor is inverse,
also that of a ghost.
"""

from __future__ import annotations

from agentctl.agents.screen import PROMPT, SHELL, Input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.agents.screen import Screen

MARKS = {"❯": PROMPT, "!": SHELL}
RULE, SHORTEST_RULE = "─", 10
INDENT = 2  # columns: the mark and a blank; of further lines two blanks


def is_rule(line: str) -> bool:
    """Return whether this line is a rule. It may have a title in it."""
    line = line.strip()
    return line.count(RULE) >= SHORTEST_RULE and line[:1] == line[-1:] == RULE


def box_of(screen: Screen) -> range:
    """Return the lines between the two rules around the cursor; an empty range if there are none."""
    at = screen.cursor[1] if screen.cursor is not None else -1
    rules = [number for number, line in enumerate(screen.lines) if is_rule(line)]
    above = [number for number in rules if number < at]
    below = [number for number in rules if number > at]
    return range(above[-1] + 1, below[0]) if above and below and at not in rules else range(0)


def input_on(screen: Screen) -> Input:
    box = box_of(screen)
    shown = [screen.lines[number].replace("\xa0", " ") for number in box]
    typed = [screen.typed[number].replace("\xa0", " ")[INDENT:].rstrip() for number in box]
    mode = MARKS.get(shown[0][:1]) if shown else None
    if mode is None or any(line[:INDENT].strip() for line in (shown[0][1:INDENT], *shown[1:])):
        return Input()
    if screen.cursor != (INDENT, box[0]):
        return Input(mode, "\n".join(typed).rstrip() or " ")  # blanks are a draft, too
    if len(typed[0]) == 1 and shown[0].rstrip()[INDENT + 1 :]:
        typed[0] = ""  # the first letter of a ghost is under the cursor
    return Input(mode, "\n".join(typed).strip())
