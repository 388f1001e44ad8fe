"""The names of slots and groups: short, unique, the same each time, and good in branches and paths."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.errors import UsageError
from agentctl.launch import slots
from agentctl.launch.slots import Wanted

SHORT = {"claude-code": "claude", "codex": "codex", "demo": "demo"}
GOOD = re.compile(r"[a-z0-9]+(?:[.\-][a-z0-9]+)*")

NAMES: dict[str, tuple[list[tuple[str, str | None]], list[str]]] = {
    "each once": ([("claude-code", "opus"), ("codex", None)], ["claude", "codex"]),
    "one agent, two models": (
        [("claude-code", "opus"), ("claude-code", "sonnet"), ("codex", "gpt-5.1")],
        ["claude-opus", "claude-sonnet", "codex"],
    ),
    "the same twice": ([("codex", None), ("codex", None), ("codex", None)], ["codex", "codex-2", "codex-3"]),
    "the same model twice": ([("codex", "o3"), ("codex", "o3")], ["codex", "codex-2"]),
    "with and without": ([("codex", None), ("codex", "o3"), ("codex", "o3")], ["codex", "codex-o3", "codex-o3-2"]),
    "whole names": (
        [("claude-code", "anthropic/claude-opus-4-5-20250929"), ("claude-code", "claude-sonnet-4.5@20250929")],
        ["claude-opus-4-5", "claude-sonnet-4.5"],
    ),
    "odd characters": (
        [("demo", "A B/C..D.lock"), ("demo", "模型"), ("demo", "x")],
        ["demo-c-d-lock", "demo", "demo-x"],
    ),
    "a number that is taken": ([("demo", None), ("demo", None), ("demo", "2")], ["demo", "demo-2", "demo-2-2"]),
    "long": (
        [("demo", "a-model-of-a-very-long-name"), ("demo", "a-model-of-a-very-long-name-too")],
        ["demo-a-model-of-a-very-lo", "demo-a-model-of-a-very-lo-2"],
    ),
    "the latest": ([("demo", "big-latest"), ("demo", "small:latest")], ["demo-big", "demo-small"]),
}


@pytest.mark.parametrize("case", NAMES)
def test_names(case: str) -> None:
    wanted, names = NAMES[case]
    assert slots.names_of([Wanted(agent, model) for agent, model in wanted], SHORT) == names


MODELS = st.none() | st.text(max_size=40) | st.sampled_from(["opus", "o3", "2", "-", "..", "a.lock", "x/y", "5.", ".5"])


@given(st.lists(st.builds(Wanted, st.sampled_from(sorted(SHORT)), MODELS), max_size=slots.MOST))
def test_names_are_unique_short_stable_and_good(wanted: list[Wanted]) -> None:
    names = slots.names_of(wanted, SHORT)
    assert len(set(names)) == len(wanted)
    assert names == slots.names_of(wanted, SHORT)
    for one, name in zip(wanted, names, strict=True):
        assert GOOD.fullmatch(name), name
        assert name.startswith(SHORT[one.agent])
        assert len(name) <= 40
        assert ".." not in name
        assert not name.endswith(".lock")


@pytest.mark.parametrize("name", ["night", "g-b2c3", "a.b_c-D9", "1", "x" * slots.GROUP_LENGTH])
def test_groups(name: str) -> None:
    assert slots.check_group(name) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a/b", "-a", ".a", "a..b", "a.", "a.lock", "ä", "a\n", "$(x)", "x" * (slots.GROUP_LENGTH + 1)],
)
def test_groups_that_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="letters, digits"):
        slots.check_group(name)


def test_not_too_many() -> None:
    slots.check_number(slots.MOST)
    with pytest.raises(UsageError, match="65 slots are too many"):
        slots.check_number(slots.MOST + 1)
