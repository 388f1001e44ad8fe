"""A mutant: a small edit that removes one defence, and the cases that must fail then."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    file: str  # below src/agentctl
    old: str  # the file has it exactly once
    new: str


class Mutant(NamedTuple):
    name: str
    defence: str
    without: str  # what happens without the defence
    guards: tuple[str, ...]  # each must fail: a world of the torture suite, or a test if no world can show it
    edits: tuple[Edit, ...]


def mutant(
    name: str, defence: str, without: str, guards: str, *edits: tuple[str, str, str]
) -> Mutant:  # fmt: skip
    return Mutant(name, defence, without, tuple(guards.split()), tuple(Edit(*edit) for edit in edits))
