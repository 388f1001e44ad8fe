"""resume asks for a word of its own if a screen may have the session open."""

from __future__ import annotations

from typing import Any

import pytest

from agentctl.agents import load_control
from agentctl.launch.start import why_not_to_go_on
from agentctl.model import Session

CONTROL = load_control("opencode")


def ended(**more: Any) -> Session:
    return Session("ses_a", "opencode", "done", "gone", "done", **more)


def test_an_ended_session_is_resumed() -> None:
    assert why_not_to_go_on(ended(), CONTROL, force=False) is None


@pytest.mark.parametrize("force", [False, True])
def test_one_that_a_screen_may_show_is_refused_whatever_is_forced(force: bool) -> None:
    why = why_not_to_go_on(ended(may_be_open_in=(7, 9)), CONTROL, force=force)
    assert why is not None
    assert "pid 7, 9" in why
    assert "--even-if-open" in why


def test_even_if_open() -> None:
    assert why_not_to_go_on(ended(may_be_open_in=(7,)), CONTROL, force=False, even_if_open=True) is None
