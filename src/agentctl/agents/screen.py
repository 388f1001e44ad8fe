"""What stands in the input line of an agent's screen: an empty prompt, a draft, a command for a shell, or nobody knows.

Pure. A screen is the text of a terminal with the place of its cursor. Each agent says in `Control.input_on` where its
input line is; what they share is here. If a screen is not one that was measured, nothing is known of its input line.
"""

from __future__ import annotations

from agentctl.model import Value

PROMPT, SHELL, UNCLEAR = "prompt", "shell", "unclear"  # what the input line takes a text for
SEQUENCE = r"\x1b\[([\d;:]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-Za-z]|\x1b[=>]|[\x0e\x0f]"
# A mark in place of a long paste: [Pasted text #1 +29 lines], [Pasted Content 3000 chars], [...Truncated text #1 ...]
PASTE_MARK = r"(?i)\[[^][]*(?:pasted|truncated)[^][]*\]"
MANY = 8  # lines that an input line shows at least before it scrolls
GRAYS = range(236, 251)  # in the 256 colours of a terminal, without those that are nearly black or white
GRAY_PARTS = range(60, 200)  # of red, green and blue alike


class Screen(Value):
    """What a terminal shows. A ghost is a text in gray or faint letters: a hint, which nobody typed."""

    lines: tuple[str, ...]
    typed: tuple[str, ...]  # the same lines, in which each letter of a ghost is a blank
    cursor: tuple[int, int] | None = None  # column and line; None if that is not known
    visible: bool = True  # does the terminal show its cursor?


class Input(Value):
    """What stands in the input line."""

    mode: str = UNCLEAR
    text: str = ""  # without ghosts

    @property
    def is_empty_prompt(self) -> bool:
        return self.mode == PROMPT and not self.text


def screen_of(text: str, cursor: tuple[int, int] | None = None, *, visible: bool = True) -> Screen:
    """Return the screen in a text with the terminal's own sequences for colours."""
    import re

    lines, typed = [], []
    faint = gray = False
    for line in text.split("\n"):
        shown: list[str] = []
        solid: list[str] = []
        at = 0
        for found in (*re.finditer(SEQUENCE, line), None):
            part = line[at : found.start() if found else len(line)]
            shown.append(part)
            solid.append(" " * len(part) if faint or gray else part)
            if found is not None:
                at = found.end()
                faint, gray = ghostly(found[1], faint, gray) if found[2] == "m" else (faint, gray)
        lines.append("".join(shown))
        typed.append("".join(solid))
    return Screen(tuple(lines), tuple(typed), cursor, visible)


def ghostly(numbers: str, faint: bool, gray: bool) -> tuple[bool, bool]:
    """Return whether what follows these numbers of a colour sequence is faint, and whether it is gray."""
    words = [int(word) if word.isdigit() else 0 for word in numbers.replace(":", ";").split(";")]
    at = 0
    while at < len(words):
        word = words[at]
        if word == 0:
            faint = gray = False
        elif word in (2, 22):
            faint = word == 2
        elif word == 38 and words[at + 1 : at + 2] == [5]:
            gray = words[at + 2 : at + 3] != [] and words[at + 2] in GRAYS
            at += 2
        elif word == 38 and words[at + 1 : at + 2] == [2]:
            parts = words[at + 2 : at + 5]
            gray = len(set(parts)) == 1 and parts[0] in GRAY_PARTS
            at += 4
        elif word == 48:
            at += 2 if words[at + 1 : at + 2] == [5] else 4
        elif word == 90 or 30 <= word <= 39 or 91 <= word <= 97:
            gray = word == 90
        at += 1
    return faint, gray


def bare(text: str) -> str:
    """Remove the white space: a screen or a store may set it differently."""
    return "".join(text.split())


def holds_exactly(found: Input, text: str, *, command: bool = False) -> bool:
    """Return whether this text stands in the input line, and nothing else. Line breaks may differ, and the screen may
    show a mark in place of a long paste. `command`: the text was meant as a command, and the screen may take its first
    letter for the mode."""
    import re

    if found.mode == SHELL:
        return command and text[:1] == "!" and bare(found.text) == bare(text[1:])
    if found.mode != PROMPT:
        return False
    first, *more = (bare(part) for part in re.split(PASTE_MARK, found.text))
    wanted = bare(text)
    if bare(found.text) == wanted:
        return True
    if more:
        return wanted.startswith(first) and wanted.endswith(more[-1])
    # A long text is scrolled: its end is to be seen, and the first line may have a note of the screen at its right.
    lines = found.text.split("\n")
    return len(lines) >= MANY and len(bare(found.text)) < len(wanted) and wanted.endswith(bare("".join(lines[1:])))
