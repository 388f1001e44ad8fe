"""Without their package, the decoder and the encoder say what json.loads and json.dumps say, of whatever comes."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentctl.fast import json as fast_json
from tests.support.bare_python import run_bare

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=4)
pieces = st.sampled_from(
    ["{", "}", "[", "]", '"', "\\", ":", ",", " ", "\t", "\0", "1e5", "-0", "NaN", "é", "\ud800", "a"]
)


def said(read: Any, text: str | bytes) -> tuple[str, str]:
    try:
        return "value", repr(read(text))
    except ValueError:
        return "error", ""


@given(objects, st.booleans(), st.sampled_from(["", " ", "\r\n", "\n x", "{}"]))
def test_of_what_is_written_as_json(value: dict[str, Any], ascii: bool, behind: str) -> None:
    text = json.dumps(value, ensure_ascii=ascii) + behind
    assert said(fast_json.loads, text) == said(json.loads, text)
    data = text.encode("utf-8", "surrogatepass")
    assert said(fast_json.loads, data) == said(json.loads, data)
    assert said(fast_json.raw_decode, text) == said(json.JSONDecoder().raw_decode, text)


@given(objects, st.data())
def test_of_what_is_torn(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    text = text[: data.draw(st.integers(0, len(text)))]
    assert said(fast_json.loads, text) == said(json.loads, text)
    assert said(fast_json.loads, text.encode()) == said(json.loads, text)
    assert said(fast_json.raw_decode, text) == said(json.JSONDecoder().raw_decode, text)


@given(st.lists(pieces | st.characters(), max_size=20).map("".join))
@example('{"a": NaN, "b": -Infinity, "c": 1.0, "d": 10000000000000000000000}')
@example('\ufeff{"a": 1}')
@example('{"a": 1')
@example('{"a": "\t"}')
@example("")
def test_of_what_is_not(text: str) -> None:
    assert said(fast_json.loads, text) == said(json.loads, text)
    assert said(fast_json.raw_decode, text) == said(json.JSONDecoder().raw_decode, text)
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le"):
        data = text.encode(encoding, "surrogatepass")
        assert said(fast_json.loads, data) == said(json.loads, data)


@given(st.binary(max_size=30).map(lambda data: b"{" + data))
def test_of_any_bytes(data: bytes) -> None:
    assert said(fast_json.loads, data) == said(json.loads, data)


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


@settings(max_examples=300)
@given(line=LINE, cut=st.integers(0, 60))
def test_a_value_is_what_json_says(line: bytes, cut: int) -> None:
    for text in (line, line[:cut], line + b"}", line.decode("utf-8", "replace")):
        assert said(fast_json.loads, text) == said(json.loads, text)


def test_what_is_too_deep_is_told_as_by_the_package() -> None:
    for read in (fast_json.loads, fast_json.raw_decode, json.loads):
        with pytest.raises(RecursionError):
            read('{"a":' * 100_000)


@given(objects | values, st.integers(0, 3), st.sampled_from(["", " ", "x"]))
def test_a_value_in_the_middle_of_a_text(value: Any, start: int, behind: str) -> None:
    text = "abc"[:start] + json.dumps(value) + behind
    for place in (start, start + 1, len(text), len(text) + 1):
        found = said(lambda text, at=place: fast_json.raw_decode(text, at), text)
        assert found == said(lambda text, at=place: json.JSONDecoder().raw_decode(text, at), text)


@given(values, st.sampled_from([(",", ":"), (", ", ": "), (";", "="), None]))
@example({"a": [1.5, -0.0, 10**30, float("inf"), "\ud800\t\x7f\u2028"], "": {}, "b": [[], None, True]}, (",", ":"))
@example({1: 2, None: 3, False: 4, 1.5: 5}, (",", ":"))
@example({"a": float("nan")}, (",", ":"))
def test_what_is_written_is_what_the_package_writes(value: Any, separators: tuple[str, str] | None) -> None:
    assert fast_json.dumps(value, separators=separators) == json.dumps(value, separators=separators)


def test_what_cannot_be_written_is_told_as_by_the_package() -> None:
    circle: list[object] = []
    circle.append({"a": circle})
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value, kind in (
        (b"", TypeError),
        ({"a": object()}, TypeError),
        ({(): 1}, TypeError),
        (circle, ValueError),
        (deep, RecursionError),
    ):
        for write in (fast_json.dumps, json.dumps):
            with pytest.raises(kind):
                write(value, separators=(",", ":"))
        # What was left behind by a failure is not taken for a circle later.
        assert fast_json.dumps([1], separators=(",", ":")) == "[1]"
    with pytest.raises(TypeError, match="Object of type bytes is not JSON serializable"):
        fast_json.dumps(b"", separators=(",", ":"))


TORN = (
    *("{", '{"a"', '{"a":', '{"a": "b', '{"a": [1,}', '{"a": "\\x"}', '{"a": 1', "{1: 2}", '{"a": [1, {"b": nul'),
    *('{"a": }', '{"a": 1,}', '{"a": "x', '{"a" 1}', "{'a': 1}", '{"a": "\\q"}', '{"a": 1 2}', '{"a": "\t"}'),
)
WHOLE = ("{}", '{"a": [1, 2.5, null, "\\u00e9"]}')
READ = """
from agentctl.fast import json as fast_json
for text in sys.argv[1:]:
    for read in (fast_json.loads, fast_json.raw_decode, lambda text: fast_json.loads(text.encode())):
        try:
            print(read(text))
        except ValueError:
            print("no JSON")
print(fast_json.dumps({"a": [1, None, "\\xe9"]}, separators=(",", ":")))
"""
READ_BY_JSON = READ.replace("from agentctl.fast import json as fast_json", "import json as fast_json").replace(
    "fast_json.raw_decode", "fast_json.JSONDecoder().raw_decode"
)


@pytest.mark.parametrize("private", [True, False], ids=["as it is", "without private modules"])
def test_it_says_the_same_where_nobody_has_imported_the_package(private: bool) -> None:
    """On Python 3.11 the scanner then returns NULL without setting an exception: a SystemError."""
    found, expected = run_bare(READ, *WHOLE, *TORN, private=private), run_bare(READ_BY_JSON, *WHOLE, *TORN)
    assert found.stdout == expected.stdout
    assert found.stdout.count("no JSON") == 3 * len(TORN)
    if private:
        assert "json" not in found.modules or sys.version_info >= (3, 12)  # there the scanner imports it
    else:
        assert "json" in found.modules
    assert not run_bare(READ, *WHOLE).modules & {"json", "re", "enum"}
