"""A mutant: a small patch that takes one defence out, and the cases that must go red with it."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    file: str  # below src/agentctl
    old: str  # it is there exactly once
    new: str


class Mutant(NamedTuple):
    name: str
    defence: str
    without: str  # what happens then
    guards: tuple[str, ...]  # each of them goes red: a world of the torture suite, or a test where no world can show it
    edits: tuple[Edit, ...]


def mutant(
    name: str, defence: str, without: str, guards: str, *edits: tuple[str, str, str]
) -> Mutant:  # fmt: skip
    return Mutant(name, defence, without, tuple(guards.split()), tuple(Edit(*edit) for edit in edits))
