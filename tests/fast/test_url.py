"""A path is quoted as by urllib.parse."""

from __future__ import annotations

from urllib.parse import quote as quote_by_urllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentctl.fast.url import quote
from tests.support.bare_python import run_bare


@given(st.text() | st.binary(), st.sampled_from(["strict", "surrogateescape", "replace"]))
@example("/a b/\udc80.~%?#é", "surrogateescape")
def test_a_path_is_quoted_as_by_urllib(path: str | bytes, errors: str) -> None:
    if isinstance(path, bytes):
        assert quote(path) == quote_by_urllib(path)
        return
    try:
        expected = quote_by_urllib(path, errors=errors)
    except UnicodeEncodeError:
        with pytest.raises(UnicodeEncodeError):
            quote(path, errors=errors)
        return
    assert quote(path, errors=errors) == expected


def test_it_imports_nothing() -> None:
    found = run_bare("from agentctl.fast.url import quote; print(quote('/a b/é'), end='')")
    assert found.stdout == "/a%20b/%C3%A9"
    assert not found.modules & {"urllib", "urllib.parse", "re"}
