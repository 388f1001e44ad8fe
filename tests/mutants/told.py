"""The part of docs/torture.md that has the defences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.torture import page
from tests.torture.page import cell, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.model import Mutant


def write(mutants: Sequence[Mutant], *, published: bool) -> str:
    path = page.put("defences", text_of(mutants), published=published)
    return f"written: {path.relative_to(page.REPOSITORY)}"


def text_of(mutants: Sequence[Mutant], *, tried: bool = True) -> str:
    """Of a run in which all of them were caught; or only what there is to be tried."""
    rows = [
        (f"**{one.name}**", cell(one.defence), cell(one.without), ", ".join(f"`{guard}`" for guard in one.guards))
        for one in mutants
    ]
    first = f"Run of {page.when()}: {len(mutants)} defences, each of them missed by every case that guards it."
    if not tried:
        first = "No whole run has been written here yet: `make mutants` says that all of them were caught."
    return "\n".join([first, "", *table(("name", "defence", "without it", "guarded by"), rows)])


def named_in(text: str) -> list[str]:
    return re.findall(r"^\| \*\*([\w-]+)\*\* \|", text, re.MULTILINE)
