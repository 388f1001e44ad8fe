"""Types of the options that take a span of time or a size; the configuration understands the same."""

from __future__ import annotations

from agentctl.durations import seconds, size

__all__ = ["seconds", "size"]
