"""Stands for datetime.datetime: `timestamp(text)` is datetime.fromisoformat(text).timestamp().

All agents write 2026-11-15T18:36:49.146Z, so this module reads that form, from 1970 on, and remembers what its parts
mean: the lines of a transcript are seconds apart. Everything else goes to datetime, which takes 2 ms to import.
`Memory` stands for functools.lru_cache, whose import takes longer than all of this.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

KEPT = 1024
LENGTH = len("2026-11-15T18:36:49.146Z")
DIGITS = "0123456789"
SHORT_MONTHS = (4, 6, 9, 11)


def timestamp(text: str) -> float:
    """Return the seconds since 1970 of a time in ISO 8601. Raises ValueError and OverflowError."""
    if len(text) == LENGTH:
        minute, second, fraction = MINUTES[text[:17]], SECONDS[text[17:19]], FRACTIONS[text[19:]]
        if minute is not None and second is not None and fraction is not None:
            return minute + second + fraction
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


# The parts of a time, in seconds; None if datetime has to read it.


def start_of_minute(text: str) -> float | None:
    """Of `2026-11-15T18:36:`, since 1970."""
    day, clock = DAYS[text[:10]], text[11:13] + text[14:16]
    if day is None or text[10] + text[13] + text[16] != "T::" or clock.strip(DIGITS):
        return None
    hour, minute = int(clock[:2]), int(clock[2:])
    return day + hour * 3600 + minute * 60 if hour < 24 and minute < 60 else None


def start_of_day(text: str) -> int | None:
    """Of `2026-11-15`, since 1970. Leap days are left to datetime."""
    if text[4] + text[7] != "--" or (text[:4] + text[5:7] + text[8:]).strip(DIGITS):
        return None
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:])
    last = 28 if month == 2 else 30 if month in SHORT_MONTHS else 31
    if not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= last):
        return None
    # Days since 1970-01-01, counting the year from March so that the leap day is its last.
    shifted, years = (month + 9) % 12, year - (month < 3)
    days = years * 365 + years // 4 - years // 100 + years // 400 + (shifted * 153 + 2) // 5 + day - 719469
    return days * 86400


def seconds(text: str) -> int | None:
    """Of `49`."""
    return None if text.strip(DIGITS) or text >= "6" else int(text)


def fraction(text: str) -> float | None:
    """Of `.146Z`."""
    return None if text[0] + text[-1] != ".Z" or text[1:-1].strip(DIGITS) else float(text[:-1])


class Memory(dict[str, "float | None"]):
    """What a function gave for the last texts that it was asked about."""

    def __init__(self, work_out: Callable[[str], float | None]) -> None:
        super().__init__()
        self._work_out = work_out

    def __missing__(self, text: str) -> float | None:
        if len(self) >= KEPT:
            self.clear()
        self[text] = found = self._work_out(text)
        return found


DAYS, MINUTES, SECONDS, FRACTIONS = Memory(start_of_day), Memory(start_of_minute), Memory(seconds), Memory(fraction)
