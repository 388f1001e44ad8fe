"""A store that two paths lead to is read once: its problems and sessions would be there twice."""

from __future__ import annotations

from agentctl.agents import load
from agentctl.query.reading import Reading, without_copies


def test_one_store_under_two_paths_is_one() -> None:
    demo, codex = load("demo"), load("codex")
    first = Reading(demo, demo.open_store("/a"), identity=(1, 2))
    again = Reading(demo, demo.open_store("/link-to-a"), identity=(1, 2))
    other = Reading(codex, codex.open_store("/a"), identity=(1, 2))
    absent = [Reading(demo, demo.open_store(path)) for path in ("/b", "/c")]
    kept = without_copies([first, again, other, *absent])
    assert [(reading.agent.NAME, reading.store.root) for reading in kept] == [
        ("demo", "/a"),
        ("codex", "/a"),
        ("demo", "/b"),
        ("demo", "/c"),
    ]
