"""Prompts arrive at the agent as they were given, whatever they look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.children import until
from tests.support.launch_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


ODD = {
    "dashes": "--help -p --resume x",
    "quotes": 'it\'s "quoted" `and` $HOME \\ end',
    "lines": "one\ntwo\n\n  three\n",
    "emoji": "🚀 naïve 文字 \u202e reversed",
    "a megabyte": "x" * 1024 * 1024,
    "a dash": "-",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_prompts_arrive_as_they_are(home: Home, name: str) -> None:
    id = home.agentctl("launch", "demo", "--prompt-file", "-", input=ODD[name]).stdout.strip()
    until(lambda: any(event["event"] == "prompt" for event in home.events(id)))
    assert home.prompt_of(id) == ODD[name]


@pytest.mark.parametrize("name", ["dashes", "quotes", "lines", "emoji"])
def test_odd_prompts_as_an_argument(home: Home, name: str) -> None:
    id = home.agentctl("launch", "demo", f"--prompt={ODD[name]}").stdout.strip()
    until(lambda: any(event["event"] == "prompt" for event in home.events(id)))
    assert home.prompt_of(id) == ODD[name]


@pytest.mark.parametrize("text", ["--help", "-p", "--", "-x y", "--json"])
@pytest.mark.parametrize("option", ["-p", "--prompt"])
def test_a_prompt_that_looks_like_an_option(home: Home, option: str, text: str) -> None:
    id = home.agentctl("launch", "demo", option, text).stdout.strip()
    until(lambda: any(event["event"] == "prompt" for event in home.events(id)))
    assert home.prompt_of(id) == text
