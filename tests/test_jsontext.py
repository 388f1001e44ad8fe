"""The decoder and the encoder without their package say what json.loads and json.dumps say, of whatever comes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentctl import jsontext

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
    assert said(jsontext.whole, text) == said(json.loads, text)
    data = text.encode("utf-8", "surrogatepass")
    assert said(jsontext.whole, data) == said(json.loads, data)
    assert repr(jsontext.leading(text)) == repr(json.JSONDecoder().raw_decode(text)[0])


@given(objects, st.data())
def test_of_what_is_torn(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    text = text[: data.draw(st.integers(0, len(text)))]
    assert said(jsontext.whole, text) == said(json.loads, text)
    assert said(jsontext.whole, text.encode()) == said(json.loads, text)
    assert said(jsontext.leading, text) == said(lambda text: json.JSONDecoder().raw_decode(text)[0], text)


@given(st.lists(pieces | st.characters(), max_size=20).map("".join))
@example('{"a": NaN, "b": -Infinity, "c": 1.0, "d": 10000000000000000000000}')
@example('\ufeff{"a": 1}')
@example('{"a": 1')
@example('{"a": "\t"}')
@example("")
def test_of_what_is_not(text: str) -> None:
    assert said(jsontext.whole, text) == said(json.loads, text)
    assert said(jsontext.leading, text) == said(lambda text: json.JSONDecoder().raw_decode(text)[0], text)
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le"):
        data = text.encode(encoding, "surrogatepass")
        assert said(jsontext.whole, data) == said(json.loads, data)


@given(st.binary(max_size=30).map(lambda data: b"{" + data))
def test_of_any_bytes(data: bytes) -> None:
    assert said(jsontext.whole, data) == said(json.loads, data)


def test_what_is_too_deep_is_told_as_by_the_package() -> None:
    for read in (jsontext.whole, jsontext.leading):
        with pytest.raises(RecursionError):
            read('{"a":' * 100_000)


@given(values)
@example({"a": [1.5, -0.0, 10**30, float("inf"), "\ud800\t\x7f\u2028"], "": {}, "b": [[], None, True]})
def test_what_is_written_is_what_the_package_writes(value: Any) -> None:
    assert jsontext.compact(value) == json.dumps(value, separators=(",", ":"))


def test_what_cannot_be_written_is_told() -> None:
    for value in (b"", {"a": object()}, {(): 1}):
        with pytest.raises(TypeError):
            jsontext.compact(value)
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(RecursionError):
        jsontext.compact(circle)


BARE = """\
import sys
from agentctl import jsontext
TEXTS = ('{', '{"a"', '{"a":', '{"a": "b', '{"a": [1,}', '{"a": "\\\\x"}')
MORE = ('{"a": 1', '{1: 2}', '[1 2]', '"', '{}', '{"a": [1, {"b": nul')
for text in TEXTS + MORE:
    for read in (jsontext.whole, jsontext.leading):
        if read is jsontext.leading or text[0] == "{":
            try:
                print(read(text), end=" ")
            except ValueError:
                print("wrong", end=" ")
    assert "json" not in sys.modules or sys.version_info >= (3, 12)
"""


def test_what_is_wrong_is_told_where_nobody_has_imported_the_package() -> None:
    found = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=False, timeout=60)
    assert found.stderr == ""
    words = found.stdout.split()
    assert words.count("wrong") == len(words) - 2 and words.count("{}") == 2


WITHOUT = """\
import sys
sys.modules["_json"] = None
from agentctl import jsontext
print(jsontext.whole('{"a": [1, 2.5, null]}'), jsontext.leading('{} x'), "json" in sys.modules)
print(jsontext.compact({"a": [1, None]}))
"""


def test_where_python_has_no_such_decoder_it_is_the_package() -> None:
    found = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "{'a': [1, 2.5, None]} {} True\n" + '{"a":[1,null]}\n'


@pytest.mark.parametrize(
    "text", ["{", '{"a": }', '{"a": 1,}', '{"a": "x', '{"a" 1}', "{'a': 1}", '{"a": "\\q"}', '{"a": 1 2}']
)
def test_what_is_wrong_is_told_in_a_program_without_the_package(text: str) -> None:
    """SystemError: the scanner returned NULL without setting an exception."""
    program = (
        "import sys; from agentctl import jsontext; assert 'json' not in sys.modules\n"
        "for read in (jsontext.whole, jsontext.leading):\n"
        "    try: read(sys.argv[1])\n"
        "    except ValueError as error: print('no')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, text], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "no\nno\n"), done.stderr
