"""The arguments of Claude Code that say which session a process opens, as its own parser (commander) takes them:
`--resume ID`, `--resume=ID`, `-r ID`, `-rID`, and short options in one word, as in `-pc` and `-prID`."""

from __future__ import annotations

import os

from agentctl.agents.base import before_text, option
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CONTINUE, RESUME = "c", "r"
WITH_VALUE = "dnw"  # short options whose value may follow in the same word
LONG = ("--continue", "--resume", "--from-pr")


class Opens(Value):
    """Which session a process was told to open."""

    id: str | None = None
    resumes: bool = False  # an earlier one, and `id` is None if its arguments do not tell which: a title, the newest


def opens(argv: Sequence[str]) -> Opens:
    """Return which session these arguments name."""
    words = before_text(argv)
    resumes, value = False, option(argv, "--resume", "--session-id")
    for index, word in enumerate(words[1:], 1):
        resumes = resumes or word.partition("=")[0] in LONG
        if len(word) > 1 and word[0] == "-" and word[1] != "-":
            letters, rest = letters_of(word[1:])
            resumes = resumes or CONTINUE in letters or RESUME in letters
            if RESUME in letters and value is None:
                value = rest or (words[index + 1] if index + 1 < len(words) else None)
    named = os.path.basename((value or "").removeprefix("=")).removesuffix(".jsonl")
    return Opens(named if len(named) == 36 and named.count("-") == 4 else None, resumes)


def letters_of(cluster: str) -> tuple[str, str]:
    """Return the short options in one word, and the value that follows the last of them in it."""
    for index, letter in enumerate(cluster):
        if letter == RESUME or letter in WITH_VALUE:
            return cluster[: index + 1], cluster[index + 1 :]
    return cluster, ""
