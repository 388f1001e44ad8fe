"""Slots: agents side by side on one task, each with its name. Pure: nothing is looked up, made or run here.

The names are in branches, in paths and in what people type: short, lower case, and the same for the same input.
"""

from __future__ import annotations

import re

from agentctl.errors import UsageError
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST = 64  # slots of one command
MODEL_LENGTH = 20
GROUP_LENGTH = 48
GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")
OTHER_THAN_A_NAME = re.compile(r"[^a-z0-9.]+|(?<![0-9])\.|\.(?![0-9])")  # a point stays in 5.1, and nowhere else
SAYS_NOTHING = re.compile(r"[-@:]?(20\d\d-?\d\d-?\d\d|latest)$")  # at the end of a model


class Wanted(Value):
    """One slot that a person wants. For a field that is None, the command or the configuration decides."""

    agent: str
    model: str | None = None
    permissions: str | None = None
    prompt: str | None = None
    base_branch: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    where: str | None = None  # file and line, if a file wants it


def names_of(wanted: Sequence[Wanted], short: Mapping[str, str]) -> list[str]:
    """Return a name for each slot: the agent's, by `short`; with the model if the same agent has several models; with a
    number if that is not enough."""
    models: dict[str, set[str | None]] = {}
    for slot in wanted:
        models.setdefault(slot.agent, set()).add(slot.model)
    names: list[str] = []
    for slot in wanted:
        name = word_of(short[slot.agent])
        if len(models[slot.agent]) > 1 and slot.model and (model := short_model(slot.model, name)):
            name = f"{name}-{model}"
        names.append(numbered(name, names))
    return names


def short_model(model: str, agent: str) -> str:
    """Return a short name for a model: opus-4-5 for anthropic/claude-opus-4-5-20250929 of the agent claude."""
    word = SAYS_NOTHING.sub("", model.rsplit("/", 1)[-1].lower())
    return word_of(word_of(word).removeprefix(f"{agent}-")[:MODEL_LENGTH])


def word_of(text: str) -> str:
    return re.sub("-{2,}", "-", OTHER_THAN_A_NAME.sub("-", text.lower())).strip("-.")


def numbered(name: str, taken: Sequence[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def check_group(name: str) -> str:
    """Return the name of a group, which is part of branches and paths, and which people type. Raises UsageError."""
    odd = GROUP.fullmatch(name) is None or ".." in name or name.endswith((".", ".lock"))
    if odd or len(name) > GROUP_LENGTH:
        raise UsageError(
            f"--group {name!r}: use letters, digits, - _ and . (the first a letter or a digit, at most {GROUP_LENGTH})"
        )
    return name


def check_number(count: int, where: str = "") -> None:
    if count > MOST:
        raise UsageError(f"{where}{count} slots are too many for one command: at most {MOST}")
