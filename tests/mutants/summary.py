"""The mutants on docs/torture.md: which of them were caught, and in which run. A run of some of them replaces only
theirs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

RUN = re.compile(r"^Run of (.+): (\d+) of (\d+) mutants caught\.$", re.M)
NAME = re.compile(r"`([\w-]+)`")


def text_of(runs: Mapping[str, Sequence[str]]) -> str:
    """Return the part of the page for these runs, each with the mutants that it caught."""
    return "\n\n".join(
        f"Run of {run}: {len(names)} of {len(names)} mutants caught.\n\n{wrapped([f'`{name}`' for name in names])}"
        for run, names in runs.items()
    )


def wrapped(words: Sequence[str], width: int = 120) -> str:
    """Return the words as lines, separated by commas."""
    lines = [""]
    for word in (*(f"{word}," for word in words[:-1]), *words[-1:]):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def read(text: str) -> dict[str, list[str]]:
    """Return what a part of the page says: for each run the mutants that were caught in it. Nothing of a run in which
    one was not."""
    found = list(RUN.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    runs = {}
    for match, end in zip(found, ends, strict=False):  # no run: no match, and one end
        names = NAME.findall(text[match.end() : end])
        if match[2] == match[3] == str(len(names)):
            runs[match[1]] = names
    return runs


def with_run(
    runs: Mapping[str, Sequence[str]], run: str, caught: Sequence[str], known: Collection[str]
) -> dict[str, list[str]]:
    """Return the runs with one more, which was the last to try these mutants, without what is no mutant any more."""
    older = {
        name: [mutant for mutant in names if mutant in known and mutant not in caught] for name, names in runs.items()
    }
    older[run] = [*older.pop(run, ()), *caught]
    return {name: names for name, names in older.items() if names}
