"""Checks that a mutant still fits today's sources and tests, without running anything: `make mutants-match`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.mutants.runner import PACKAGE, REPOSITORY, is_test, world_of
from tests.torture.registry import CASES
from tests.torture.runner import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.mutants.model import Mutant


def mismatches(mutants: Sequence[Mutant], package: Path = PACKAGE) -> list[str]:
    """Return one line for each thing that does not fit; an empty table of mutants does not fit either."""
    lines = [f"{mutant.name}: {line}" for mutant in mutants for line in mismatches_of(mutant, package)]
    return lines if mutants else ["there are no mutants"]


def mismatches_of(mutant: Mutant, package: Path) -> Iterator[str]:
    if not mutant.edits:
        yield "it changes nothing"
    if not mutant.guards:
        yield "no case guards it"
    yield from edit_mismatches(mutant, package)
    for guard in mutant.guards:
        if not (has_test(guard) if is_test(guard) else has_world(guard)):
            yield f"there is no guard {guard}"


def edit_mismatches(mutant: Mutant, package: Path) -> Iterator[str]:
    """Apply the edits in memory: each text must be there exactly once, and the result must be Python."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        if edit.file not in texts:
            try:
                texts[edit.file] = (package / edit.file).read_text()
            except OSError as error:
                yield f"{edit.file}: {error.strerror}"
                continue
        if (count := texts[edit.file].count(edit.old)) != 1:
            yield f"{edit.file} has this text {count} times: {edit.old}"
        if edit.old == edit.new:
            yield f"{edit.file}: the edit changes nothing: {edit.old}"
        texts[edit.file] = texts[edit.file].replace(edit.old, edit.new)
    for file, text in texts.items():
        try:
            ast.parse(text)
        except SyntaxError as error:
            yield f"{file} is not Python after the edit: line {error.lineno}: {error.msg}"


def has_test(guard: str) -> bool:
    path, _, name = guard.partition("[")[0].partition("::")
    file = REPOSITORY / path
    tree = ast.parse(file.read_text() if file.exists() else "")
    return name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def has_world(guard: str) -> bool:
    rule, at, _ = guard.partition("@")
    return world_of(guard) in {case.world for case in CASES} and (not at or rule in ALWAYS)
