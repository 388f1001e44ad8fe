"""Which session the arguments of Claude Code name, as its own parser takes them."""

from __future__ import annotations

import pytest

from agentctl.agents.claude_code.arguments import Opens, opens

ID = "0d2e6f71-920c-4d14-b136-f9a141222f9f"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--resume", ID), Opens(ID, True)),
        ((f"--resume={ID}",), Opens(ID, True)),
        (("-r", ID), Opens(ID, True)),
        ((f"-r{ID}",), Opens(ID, True)),
        ((f"-r={ID}",), Opens(ID, True)),
        ((f"-pr{ID}", "go on"), Opens(ID, True)),
        (("-pr", ID, "go on"), Opens(ID, True)),
        (("--resume", f"/store/projects/-work/{ID}.jsonl"), Opens(ID, True)),
        (("--session-id", ID), Opens(ID, False)),
        ((f"--session-id={ID}",), Opens(ID, False)),
        (("--resume", "my title"), Opens(None, True)),
        (("--resume=my title",), Opens(None, True)),
        (("-rmy title",), Opens(None, True)),
        (("-r",), Opens(None, True)),
        (("-c",), Opens(None, True)),
        (("-pc", "go on"), Opens(None, True)),
        (("--from-pr=12",), Opens(None, True)),
        (("-p", "go on"), Opens(None, False)),
        (("-nrc", "x"), Opens(None, False)),  # a name
        (("-p", "--", f"-r{ID}"), Opens(None, False)),
        ((), Opens(None, False)),
    ],
)
def test_which_session_it_opens(words: tuple[str, ...], expected: Opens) -> None:
    assert opens(("claude", *words)) == expected
