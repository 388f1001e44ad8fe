"""Without argparse, the words of a command are read as argparse reads them, or not at all."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl import cli
from agentctl.errors import AgentctlError
from agentctl.fast import args
from tests.support.bare_python import run_bare

WORDS = [
    "",
    "-",
    "--",
    "-1",
    "5",
    "3f2a",
    "waiting",
    "running",
    "12h",
    "all",
    "a b",
    "-a b",
    "--json=1",
    "-n5",
    "-nx",
    "é",
]
PLAIN = ("list", "status", "why", "peek", "usage")


def options_of(name: str) -> list[str]:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    cli.load(name).add_arguments(parser)
    return [option for action in parser._actions for option in action.option_strings]


def by_argparse(name: str, words: list[str]) -> dict[str, Any] | None:
    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise ValueError(message)

    parser = Parser(allow_abbrev=False, add_help=False)
    cli.load(name).add_arguments(parser)
    try:
        return vars(parser.parse_args(words, argparse.Namespace(flags=None)))
    except (ValueError, AgentctlError):
        return None


@pytest.mark.parametrize("name", [*cli.VERBS, *cli.FOR_RUNNERS])
@given(data=st.data())
def test_the_same_or_not_at_all(name: str, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from([*options_of(name), *WORDS]) | st.text(max_size=4), max_size=6))
    found = args.parse(cli.load(name).add_arguments, words, flags=None)
    if found is not None:
        assert vars(found) == by_argparse(name, words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("list", []),
        ("list", ["--json"]),
        ("list", ["-a", "--since", "12h", "--cwd", "."]),
        ("list", ["--status", "waiting", "--status", "idle", "-n", "3", "--agent", "x"]),
        ("status", ["3f2a"]),
        ("status", ["3f2a", "--json"]),
        ("why", ["--json", "3f2a"]),
        ("peek", ["3f2a", "-n", "3", "-f"]),
        ("usage", []),
        ("usage", ["--by", "model", "--since", "all", "--until", "2026-11-01", "--agent", "x", "--json", "--strict"]),
    ],
)
def test_what_people_type_is_plain(name: str, words: list[str]) -> None:
    found = args.parse(cli.load(name).add_arguments, words, flags=None)
    assert found is not None
    assert vars(found) == by_argparse(name, words)


@pytest.mark.parametrize(
    "words",
    [["--help"], ["-h"], [], ["a", "b"], ["--jso", "a"], ["-n", "x", "a"], ["-n", "-1", "a"], ["a", "-n"], ["--", "a"]],
)
def test_what_is_not_is_left_to_argparse(words: list[str]) -> None:
    assert args.parse(cli.load("peek").add_arguments, words) is None


@pytest.mark.parametrize("name", PLAIN)
def test_the_commonest_commands_declare_nothing_else(name: str) -> None:
    declared = args.Declared()
    cli.load(name).add_arguments(declared)  # type: ignore[arg-type]
    assert set(declared.options) == {*options_of(name)} - {"-h", "--help"}


PARSE = """
import agentctl.cli as cli
from agentctl.fast import args
found = args.parse(cli.load(sys.argv[1]).add_arguments, sys.argv[2:], flags=None)
print(sorted(vars(found).items()) if found else None, end="")
"""


def test_nobody_has_to_import_argparse() -> None:
    words = ["--status", "waiting", "-n", "3", "--json"]
    found = run_bare(PARSE, "list", *words)
    assert found.stdout == str(sorted((by_argparse("list", words) or {}).items()))
    assert "argparse" not in found.modules
