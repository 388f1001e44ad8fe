"""What is read in a quick way is what the plain way gives: decoding a line, and taking a moment apart."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentctl import jsontext, stores

if TYPE_CHECKING:
    from collections.abc import Callable


LINE = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda value, encoding, space: (space + json.dumps(value, ensure_ascii=False) + space).encode(
            encoding, "surrogatepass"
        ),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=6,
        ),
        st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-be", "utf-16-le"]),
        st.sampled_from(["", " ", "\t", "\ufeff", "x", "\0"]),
    ),
)


@settings(deadline=None, max_examples=300)
@given(line=LINE, cut=st.integers(0, 60))
def test_a_value_is_what_json_says(line: bytes, cut: int) -> None:
    for text in (line, line[:cut], line + b"}", line.decode("utf-8", "replace")):
        assert outcome(jsontext.whole, text) == outcome(json.loads, text)


def outcome(decoded: Callable[[bytes | str], object], text: bytes | str) -> str:
    try:
        return repr(decoded(text))  # so that NaN is NaN, and 1 is not 1.0
    except ValueError:
        return "no JSON"


MOMENT = st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1)).map(lambda moment: moment.isoformat() + "Z")


@settings(deadline=None)
@example("2026-11-15T18:36:49.146Z", 19, ",")  # datetime takes it
@given(MOMENT, st.integers(0, 30), st.sampled_from([*"0369:-TZ+. ,e_", "", "\xb2"]))
def test_a_moment_is_as_datetime_says(text: str, place: int, put: str) -> None:
    assert stores.moment(text) == plain_moment(text)
    changed = text[:place] + put + text[place + 1 :]
    found, expected = stores.moment(changed), plain_moment(changed)
    assert found == expected or expected is None  # a few of what datetime refuses are understood


def plain_moment(text: str) -> float | None:
    try:
        seconds = datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
    return seconds if seconds >= 0 else None
