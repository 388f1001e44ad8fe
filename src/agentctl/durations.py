"""Spans of time and sizes as people write them (90, 90s, 10m, 1.5h, 7d; 500, 50k, 2M), and how we write times."""

from __future__ import annotations

import time

from agentctl.errors import UsageError

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
SPANS = (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1))  # a unit, and the next smaller one
NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,6})?)"
DURATION = NUMBER + r"([smhdw]?)"
SIZE = NUMBER + r"([kmg]?)"


def seconds(text: str) -> float:
    """Return a span of time in seconds. A number without a unit is a number of seconds."""
    import re

    match = re.fullmatch(DURATION, text)
    if match is None:
        raise UsageError(f"{text!r} is not a duration; use a number and s, m, h, d or w, such as 90s, 10m or 1.5h")
    return float(match[1]) * SECONDS[match[2]]


def size(text: str) -> int:
    """Return a size in bytes. A number without a unit is a number of bytes; k, M and G are powers of 1024."""
    import re

    match = re.fullmatch(SIZE, text, re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text!r} is not a size; use a number of bytes, or one with k, M or G, such as 50k or 2M")
    return int(float(match[1]) * BYTES[match[2].lower()])


def utc(moment: float) -> str:
    """Return a moment (seconds since 1970) as all our files and all JSON have it: ISO 8601 in UTC, to the
    millisecond. Whether a turn ended before a launch or after it may be a matter of milliseconds."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(moment))}.{int(moment % 1 * 1000):03d}Z"


def local(moment: float) -> str:
    """Return a moment for people: date and time in their time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def span(seconds: float, units: int = 2) -> str:
    """Return a length of time for people, by its largest unit or its two largest: 2h, 1h59m, 7d, 40s."""
    whole = int(max(0.0, seconds))
    for unit, size, next_unit, next_size in SPANS:
        if whole >= size:
            count, rest = divmod(whole, size)
            more = rest // next_size if units > 1 else 0
            return f"{count}{unit}{more}{next_unit}" if more else f"{count}{unit}"
    return f"{whole}s"
