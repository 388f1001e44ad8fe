"""The stores that agentctl remembers: written durably, never lost in silence."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl import config
from agentctl.launch import spawn, start
from agentctl.launch.spawn import Order
from agentctl.query import remembered
from agentctl.query.sessions import Scope, settled_look

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "AGENTCTL_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


def list_in(env: dict[str, str]) -> str:
    return os.path.join(remembered.folder_of(env), remembered.NAME)


def cached(env: dict[str, str], text: str) -> Path:
    folder = config.cache_folder(env)
    os.makedirs(folder, 0o700)
    path = os.path.join(folder, remembered.NAME)
    with open(path, "w") as file:
        file.write(text)
    return Path(path)


def test_it_is_synced_before_it_gets_its_name(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            steps.append(name)
            return real(*given)

        return run

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    assert remembered.remember({"demo": ["/a"]}, env) == ()
    assert steps == ["fsync", "replace", "fsync"]  # the file, its name, the folder
    remembered.remember({"demo": ["/a"]}, env)
    assert len(steps) == 3  # nothing new


def test_nobody_overwrites_what_another_has_noted(env: dict[str, str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda number: remembered.remember({"demo": [f"/{number}"]}, env), range(24)))
    assert set(told) == {()}
    assert set(remembered.recall(env).roots["demo"]) == {f"/{number}" for number in range(24)}
    assert os.listdir(remembered.folder_of(env)) == [remembered.NAME]


@pytest.mark.parametrize("text", ["", "{", '{"demo": ["/a"', "null", '{"demo": 5}', '{"demo": ["a"]}'])
def test_a_damaged_list_is_a_problem_and_is_never_replaced(env: dict[str, str], text: str) -> None:
    remembered.remember({"demo": ["/a"]}, env)
    with open(list_in(env), "w") as file:
        file.write(text)
    (problem,) = remembered.recall(env).problems
    assert problem.path == list_in(env)
    (problem,) = remembered.remember({"demo": ["/b"]}, env)
    assert problem.path == "/b"
    with open(list_in(env)) as file:
        assert file.read() == text


def test_a_list_that_leads_nowhere_is_a_problem(env: dict[str, str]) -> None:
    remembered.remember({"demo": ["/a"]}, env)
    os.unlink(list_in(env))
    assert remembered.recall(env) == remembered.Memory({})
    os.symlink("/nowhere/at/all", list_in(env))
    assert remembered.recall(env).problems


def test_the_list_of_an_older_version_is_taken_over(env: dict[str, str]) -> None:
    older = cached(env, '{"demo": ["/a"]}')
    assert remembered.recall(env).cached
    remembered.take_over(env)
    assert not remembered.recall(env).cached
    older.write_text('{"demo": ["/a", "/b"]}')  # an older version has noted one more
    remembered.remember({"demo": ["/c"]}, env)
    older.write_text("{")
    assert remembered.recall(env) == remembered.Memory({"demo": ["/a", "/b", "/c"]})


def test_forgetting_is_for_both(env: dict[str, str]) -> None:
    older = cached(env, '{"demo": ["/a", "/b"]}')
    assert remembered.forget("/a", env) == ["demo"]
    assert remembered.recall(env).roots == {"demo": ["/b"]}
    assert json.loads(older.read_text()) == {"demo": ["/b"]}


def test_a_launch_notes_the_store_of_its_agent(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent may have ended before anybody looks. One that it has not made yet is noted as such."""
    order = Order(
        agent="demo", argv=("true",), cwd=str(tmp_path), env={**env, "XDG_DATA_HOME": str(tmp_path / "other")}
    )
    monkeypatch.setattr(start, "check_directory", lambda *given: settled_look(Scope(), env))
    known: list[Mapping[str, list[str]]] = []  # when the agent is started
    monkeypatch.setattr(spawn, "start", lambda reserved, order: known.append(remembered.recall(env).roots))
    start.start(order, env, print, lambda: None)
    root = tmp_path / "other" / "agentctl-demo"
    root.mkdir(parents=True)
    start.start(order, env, print, lambda: None)
    assert known == [{"demo" + remembered.NOT_MADE: [str(root)]}, {"demo": [str(root)]}]
