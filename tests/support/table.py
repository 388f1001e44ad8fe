"""A process table for tests: what its source answers is given by name."""

from __future__ import annotations

from typing import Any

from agentctl.kernel.source import Source


def source(**answers: Any) -> Source:
    """Return a source with these functions; `locks` is the list itself. The others answer that they cannot look."""
    made = Source()
    for name, answer in answers.items():
        assert hasattr(Source, name), f"nobody asks a source for {name}"
        setattr(made, name, (lambda found=answer: found) if name == "locks" and not callable(answer) else answer)
    return made
