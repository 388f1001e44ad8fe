"""Spans of time and sizes, as people write them."""

from __future__ import annotations

import pytest

from agentctl.durations import seconds, size, span
from agentctl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("0s", 0.0),
        ("10m", 600.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("4w", 4 * 7 * 86400.0),
        ("1.5h", 5400.0),
        ("0.25s", 0.25),
        ("007", 7.0),
    ],
)
def test_seconds(text: str, expected: float) -> None:
    assert seconds(text) == expected


NO_DURATION = ["", " ", "s", "soon", "-1", "+1", "1 h", " 1h", "1h ", "1h\n", "1H", "1h30m", "1.", ".5h", "1e3"]


@pytest.mark.parametrize("text", [*NO_DURATION, "nan", "inf", "١", "1\0", "0x10", "1_000", "9" * 16, "1,5h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a duration; use .* such as 90s, 10m or 1\.5h"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("500", 500),
        ("50k", 50 * 1024),
        ("50K", 50 * 1024),
        ("2M", 2 * 1024**2),
        ("2m", 2 * 1024**2),
        ("1.5G", 3 * 1024**3 // 2),
    ],
)
def test_size(text: str, expected: int) -> None:
    found = size(text)
    assert (found, type(found)) == (expected, int)


@pytest.mark.parametrize("text", ["", "k", "big", "-1k", "1 k", "1kB", "1k\n", "1t", "1e3", "٣k", "9" * 16])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a size; use .* such as 50k or 2M"):
        size(text)


@pytest.mark.parametrize(
    ("seconds", "two", "one"),
    [
        (-1.0, "0s", "0s"),
        (0.9, "0s", "0s"),
        (59.9, "59s", "59s"),
        (60.0, "1m", "1m"),
        (125.0, "2m5s", "2m"),
        (3600.0, "1h", "1h"),
        (3659.0, "1h", "1h"),
        (7199.0, "1h59m", "1h"),
        (7 * 86400.0, "7d", "7d"),
        (86400.0 + 3599.0, "1d", "1d"),
        (90000.0, "1d1h", "1d"),
    ],
)
def test_a_length_of_time_has_two_units_at_most(seconds: float, two: str, one: str) -> None:
    assert (span(seconds), span(seconds, 1)) == (two, one)
