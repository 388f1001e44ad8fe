"""What the configuration says, and what is wrong with it: a broken file, values and keys that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentctl import config
from agentctl.errors import UsageError
from agentctl.files.reader import is_below
from agentctl.query import roots

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def configure(env: Mapping[str, str], text: str | bytes) -> str:
    path = Path(config.config_path(env))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def wrong(env: Mapping[str, str]) -> list[str]:
    """What is wrong with the file, in words."""
    found = list(roots.wrong_in(config.read(env)))
    assert {problem.path for problem in found} <= {config.config_path(env)}
    return [problem.problem for problem in found]


def test_no_file_is_no_problem(env: dict[str, str]) -> None:
    assert wrong(env) == []
    assert config.load(env) == {}


BROKEN = {
    "a value that is missing": ("agent = 'demo'\nretention =\n", "line 2"),
    "a text without an end": ("agent = 'demo'\n\ncwd = '''x\n", "line 3"),
    "not UTF-8": (b"agent = 'demo'\ncwd = '\xff'\n", "line 2"),
    "a table twice": ("[stores]\n[stores]\n", "line 2"),
}


@pytest.mark.parametrize(("text", "where"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_one_problem_with_its_line_and_stops_what_acts(
    env: dict[str, str], text: str | bytes, where: str
) -> None:
    path = configure(env, text)
    (problem,) = wrong(env)
    assert where in problem
    assert "correct it" in problem
    with pytest.raises(UsageError, match=where) as raised:
        config.load(env)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)
    assert (config.prices(env), config.ignored_paths(env)) == ([], ())


UNKNOWN = {
    "top level": ('retentoin = "7d"', ["retentoin: unknown key; did you mean retention?"]),
    "nothing like it": ("zzz = 1", ["zzz: unknown key"]),
    "a table": ("[store]\nx = 1", ["store: unknown key; did you mean stores?"]),
    "of an agent": ("[agents.codex]\nmodle = 'x'", ["agents.codex.modle: unknown key; did you mean model?"]),
    "no agent": ("[agents.codxe]\nmodel = 'x'", ["agents.codxe: no such agent; did you mean codex?"]),
    "an alias": ("[agents.claude]\nmodel = 'x'", ["agents.claude: no such agent; use claude-code"]),
    "no agent of a store": ("[stores]\nopncode = ['/x']", ["stores.opncode: no such agent; did you mean opencode?"]),
    "nearly ignore": ("[stores]\nignor = ['/x']", ["stores.ignor: no such agent; did you mean ignore?"]),
    "of a price": ("[prices.x]\ninptu = 1", ['prices."x".inptu: unknown key; did you mean input?']),
    "known ones": ("agent='demo'\ncwd='~'\nretention=1\noutput_limit=1\n[agents.demo]\nmodel='x'\n"
                   "permissions='plan'\nunset=['A']\n[stores]\nclaude=['/x']\ndemo='/y'\nignore=['/z']\n"
                   "[prices.x]\ninput=1\noutput=1\ncache_read=1\ncache_write=1", []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_keys_are_named_with_the_nearest_one(env: dict[str, str], text: str, says: list[str]) -> None:
    configure(env, text)
    assert wrong(env) == says


VALUES = {
    "agent = 1": "agent must be a string",
    "cwd = []": "cwd must be a string",
    'retention = "soon"': "retention: ",
    "output_limit = true": "output_limit: ",
    "agents = 1": "[agents.NAME] must be a table",
    "agents.demo = 1": "[agents.demo] must be a table",
    "agents.demo.model = 1": "agents.demo.model must be a string",
    "agents.demo.unset = 'A'": "agents.demo.unset must be a list",
    "stores = 1": "[stores] must be a table",
    "stores.demo = 1": "stores.demo must be a list of paths",
    "stores.ignore = [1]": "stores.ignore must be a list of paths",
    'stores.demo = ["a\\u0000"]': "stores.demo: a path cannot contain a NUL",
    "prices = 1": '[prices."model"] must be a table',
    "prices.x = 1": 'prices."x" must be a table',
    "prices.x.input = -1": 'prices."x".input is not valid',
}


@pytest.mark.parametrize(("text", "says"), VALUES.items(), ids=VALUES)
def test_values_of_the_wrong_kind_are_named(env: dict[str, str], text: str, says: str) -> None:
    configure(env, text)
    (problem,) = wrong(env)
    assert problem.startswith(says)


def test_one_wrong_price_leaves_the_others(env: dict[str, str]) -> None:
    configure(env, "[prices.a]\ninput = 1\n[prices.b]\ninptu = 2\n[prices.c]\noutput = 3")
    assert config.prices(env) == [("a", {"input": 1}), ("c", {"output": 3})]
    assert len(wrong(env)) == 1


def test_ignored_paths_are_absolute(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", env["HOME"])
    configure(env, '[stores]\nignore = ["~/disk", "/mnt/a/../b/"]')
    assert config.ignored_paths(env) == (f"{env['HOME']}/disk", "/mnt/b")
    assert config.stores_in(config.read(env)) == ({}, [])


@pytest.mark.parametrize(
    ("path", "is_it"), [("/a/b", True), ("/a/b/c", True), ("/a/bc", False), ("/a", False), ("/x", False)]
)
def test_what_is_below_an_ignored_path(path: str, is_it: bool) -> None:
    assert is_below(path, ("/a/b", "/q")) == is_it
    assert is_below(path, ("/",))
