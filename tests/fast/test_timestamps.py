"""A time is what datetime says it is, whatever it is written like; and what it refuses is refused."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from agentctl.fast import timestamps
from agentctl.fast.timestamps import timestamp
from tests.support.bare_python import run_bare

if TYPE_CHECKING:
    import pytest

MOMENTS = st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1))
WRITTEN = st.builds(
    lambda moment, spec, zone: moment.isoformat(timespec=spec) + zone,
    MOMENTS,
    st.sampled_from(["milliseconds", "milliseconds", "seconds", "microseconds", "minutes"]),
    st.sampled_from(["Z", "Z", "Z", "+00:00", "+05:30", ""]),
)
PIECES = st.sampled_from([*"0369:-TZ+. ,e_/", "", "\xb2", "\u0663", "\n"])


def by_datetime(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def said(read: object, text: str) -> object:
    try:
        return read(text)  # type: ignore[operator]
    except (ValueError, OverflowError) as error:
        return type(error)


@given(WRITTEN, st.integers(0, 30), PIECES)
@example("2026-11-15T18:36:49.146Z", 19, ",")
@example("2026-11-15T18:36:49.146Z", 16, ".")
@example("2026-11-15T18:36:49.146Z", 17, "+")
@example("2026-11-15T18:36:49.146Z", 17, "6")
@example("2026-11-15T18:36:49.146Z", 21, "e")
@example("2026-11-15T18:36:49.146Z", 21, "_")
@example("2026-11-15T18:36:49.146Z", 22, "")
@example("2026-11-15T18:36:49.146Z", 8, "+")
@example("2026-11-15T18:36:49.146Z", 11, "9")
@example("2026-11-15T18:36:49.146Z", 14, "6")
def test_a_time_is_as_datetime_says(text: str, place: int, put: str) -> None:
    changed = text[:place] + put + text[place + 1 :]
    for written in (text, changed):
        assert said(timestamp, written) == said(by_datetime, written)


@given(st.text(max_size=30))
def test_any_text_is_as_datetime_says(text: str) -> None:
    assert said(timestamp, text) == said(by_datetime, text)


def test_every_day_is_as_datetime_says() -> None:
    """Also those that no month has."""
    for year in (1969, 1970, 1972, 1999, 2000, 2023, 2024, 2100, 9999):
        for month in range(14):
            for day in range(33):
                text = f"{year:04}-{month:02}-{day:02}T12:34:56.789Z"
                assert said(timestamp, text) == said(by_datetime, text)


def test_every_day_but_leap_days_is_read_here() -> None:
    assert timestamps.start_of_day("2024-01-31") == by_datetime("2024-01-31T00:00:00Z")
    assert timestamps.start_of_day("2024-04-30") == by_datetime("2024-04-30T00:00:00Z")
    for text in ("2024-02-29", "2023-04-31", "2023-13-01", "2023-00-10", "2023-01-00", "1969-12-31"):
        assert timestamps.start_of_day(text) is None


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timestamps, "KEPT", 3)
    asked: list[str] = []
    memory = timestamps.Memory(lambda text: asked.append(text) or len(text))  # type: ignore[func-returns-value]
    for text in ("a", "bb", "a", "bb", "ccc", "dddd", "a"):
        assert memory[text] == len(text)
    assert asked == ["a", "bb", "ccc", "dddd", "a"]
    assert len(memory) == 2


def test_datetime_is_imported_only_for_other_forms() -> None:
    code = "from agentctl.fast.timestamps import timestamp\nprint(*map(timestamp, sys.argv[1:]), end='')"
    for text, other in (("2026-11-30T18:36:49.146Z", False), ("2026-11-15T18:36:49+01:00", True)):
        found = run_bare(code, text)
        assert float(found.stdout) == by_datetime(text)
        assert ("datetime" in found.modules) == other
