"""From a request to the words of a command: all arrives as it was given, and nothing is taken for an option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl import cli
from agentctl.errors import UsageError
from agentctl.server import openapi
from agentctl.server.operations import (
    AGENT_OPTIONS,
    FLAG,
    ID,
    IDS,
    NUMBER,
    OPERATIONS,
    PAIRS,
    PLACE,
    STDIN,
    TEXTS,
    Given,
    Operation,
    command_of,
    values_in,
)

if TYPE_CHECKING:
    from argparse import Namespace

BY_NAME = {operation.name: operation for operation in OPERATIONS}
TEXT_VALUES = st.one_of(
    st.sampled_from(["--help", "-", "-n", "a b", "", "--json", "x=y", "\n", "é", "--force"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20).filter(
        lambda text: text != "--"
    ),
)
ID_VALUES = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,12}", fullmatch=True)


def values_for(one: Given) -> st.SearchStrategy[Any]:
    if one.choices:
        choice = st.sampled_from(one.choices)
        return st.lists(choice, max_size=3) if one.kind == TEXTS else choice
    return {
        FLAG: st.booleans(),
        NUMBER: st.integers(0, 1000),
        PAIRS: st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), TEXT_VALUES, max_size=3),
        ID: ID_VALUES,
        IDS: st.lists(ID_VALUES, max_size=3),
        TEXTS: st.lists(TEXT_VALUES, max_size=3),
        AGENT_OPTIONS: st.lists(TEXT_VALUES, max_size=3),
        PLACE: TEXT_VALUES.map(lambda text: "/" + text),
        STDIN: TEXT_VALUES,
    }.get(one.kind, TEXT_VALUES)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Operation, dict[str, Any]]:
    operation = draw(st.sampled_from(OPERATIONS))
    wanted = [one for one in operation.given if one.required or draw(st.booleans())]
    return operation, {one.name: draw(values_for(one)) for one in wanted}


def parsed(words: tuple[str, ...]) -> Namespace:
    """What the command itself makes of the words, by argparse."""
    verb = cli.load(words[0])
    rest, flags = [*words[1:]], None
    if getattr(verb, "TAKES_FLAGS", False):
        cut = rest.index("--") if "--" in rest else len(rest)
        rest, flags = rest[:cut], rest[cut + 1 :]
    plain, texts = cli.without_texts(rest, getattr(verb, "TEXTS", ()))
    found = cli.parsed(words[0], verb, plain, flags)
    vars(found).update(texts)
    return found


@settings(max_examples=300, deadline=None)
@given(requests())
def test_what_was_given_arrives_as_it_was_given(request: tuple[Operation, dict[str, Any]]) -> None:
    operation, values = request
    command = command_of(operation, values)
    arrived = vars(parsed(command.words))
    assert arrived["json"] is True
    for one in operation.given:
        if one.name not in values:
            continue
        value = values[one.name]
        if one.kind == STDIN:
            assert command.stdin == value
            assert "-" in (arrived.get("prompt_file"), arrived.get("text"))
        elif one.kind == PAIRS:
            assert arrived["env"] == [f"{name}={text}" for name, text in value.items()]
        else:
            name = {"ids": "id"}.get(one.name, one.name)
            assert arrived[name] == value or (not value and not arrived[name])


def test_every_option_is_one_of_the_command() -> None:
    for operation in OPERATIONS:
        help = cli.parser_of(operation.verb, cli.load(operation.verb)).format_help()
        for one in operation.given:
            option = one.option.partition("=")[0]
            assert not option.startswith("--") or option == "--" or option in help, (operation.name, option)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("get_session", {}, "id is missing"),
        ("get_session", {"id": "--help"}, "no id looks like this"),
        ("get_session", {"id": "../x"}, "no id looks like this"),
        ("get_session", {"id": "a", "more": 1}, "unknown parameter"),
        ("list_sessions", {"status": ["asleep"]}, "give one of waiting"),
        ("list_sessions", {"status": "idle"}, "give a list"),
        ("list_sessions", {"n": -1}, "give a number"),
        ("list_sessions", {"n": True}, "give a number"),
        ("list_sessions", {"all": "yes"}, "give true or false"),
        ("list_sessions", {"cwd": "here"}, "begins with /"),
        ("list_sessions", {"since": "a\0b"}, "a NUL"),
        ("list_sessions", {"since": "\udcff"}, "half a character"),
        ("list_sessions", {"since": "x" * 100_000}, "longer than"),
        ("list_sessions", {"since": "--"}, "-- alone"),
        ("launch", {"prompt": "x"}, "cwd is missing"),
        ("launch", {"prompt": 5, "cwd": "/"}, "give a string"),
        ("launch", {"prompt": "x", "cwd": "/", "env": {"A=B": "c"}}, "no name of a variable"),
        ("launch", {"prompt": "x", "cwd": "/", "env": ["A"]}, "give an object"),
        ("launch", {"prompt": "x", "cwd": "/", "flags": "-x"}, "give a list"),
        ("stop", {"ids": ["-f"]}, "no id looks like this"),
        ("stop", {"ids": "abc"}, "give a list"),
    ],
)
def test_what_is_wrong_is_refused(name: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        command_of(BY_NAME[name], values)


def test_a_query_string() -> None:
    operation = BY_NAME["list_sessions"]
    pairs = [("status", "idle"), ("status", "done"), ("all", "true"), ("tree", "false"), ("n", "5"), ("since", "2h")]
    found = values_in(operation, pairs)
    assert found == {"status": ["idle", "done"], "all": True, "tree": False, "n": 5, "since": "2h"}
    for wrong in ([("all", "1")], [("n", "x")], [("n", "-1")], [("n", "9" * 20)], [("since", "1h"), ("since", "2h")]):
        with pytest.raises(UsageError):
            values_in(operation, wrong)


def test_the_document_describes_every_operation() -> None:
    document = openapi.document()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {("GET", "/v1/health"), ("GET", "/v1/events")} | {(one.method, one.path) for one in OPERATIONS}
    for operation in OPERATIONS:
        found = document["paths"][operation.path][operation.method.lower()]
        body = found.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        named = {one["name"] for one in found.get("parameters", ())} | {*body.get("properties", ())}
        assert named == {one.name for one in operation.given}
