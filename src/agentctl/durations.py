"""How people write spans of time and sizes: 90, 90s, 10m, 1.5h, 7d; 500, 50k, 2M."""

from __future__ import annotations

from agentctl.errors import UsageError

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,6})?)"
DURATION = NUMBER + r"([smhdw]?)"
SIZE = NUMBER + r"([kmg]?)"


def seconds(text: str) -> float:
    """A number without a unit is a number of seconds."""
    import re

    found = re.fullmatch(DURATION, text)
    if found is None:
        raise UsageError(f"{text!r} is no duration; use a number and s, m, h, d or w, such as 90s, 10m or 1.5h")
    return float(found[1]) * SECONDS[found[2]]


def size(text: str) -> int:
    """A number without a unit is a number of bytes; k, M and G are powers of 1024."""
    import re

    found = re.fullmatch(SIZE, text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"{text!r} is no size; use a number of bytes, or one with k, M or G, such as 50k or 2M")
    return int(float(found[1]) * BYTES[found[2].lower()])
