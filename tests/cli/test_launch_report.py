"""What a launch of several slots says at its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agentctl.cli.launch_report import summary
from agentctl.errors import Interrupted

RUNS: Any = SimpleNamespace(launch_id="x", session=None, error=Interrupted("interrupted; it runs"))
NOT_BEGUN: Any = SimpleNamespace(launch_id=None, session=None, error=Interrupted("interrupted before it was begun"))


@pytest.mark.parametrize(
    ("outcomes", "says"),
    [
        (
            [RUNS, RUNS, NOT_BEGUN],
            "group g: 0 of 3 slots were launched, 2 more may run without a known session; next: ",
        ),
        ([NOT_BEGUN], "group g: 0 of 1 slots were launched"),
    ],
)
def test_agents_without_a_known_session_are_counted(outcomes: list[Any], says: str) -> None:
    """After Ctrl-C: `0 of 3 slots were launched` alone would be a lie while two of them run."""
    assert summary(outcomes, "g").startswith(says)
    assert ("next:" in summary(outcomes, "g")) == (RUNS in outcomes)
