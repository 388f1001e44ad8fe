"""Which stores are read, and what is said of one that is not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agentctl import config
from agentctl.agents import load
from agentctl.errors import NotFound, TruthUnavailable
from agentctl.query import remembered as memory
from agentctl.query import roots
from agentctl.query.sessions import Scope, query, query_session
from tests.support.demo_home import Home
from tests.test_config import configure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCOPE = Scope(since=0.0)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


def remembered(home: Home, *paths: Path) -> None:
    memory.remember({"demo": map(str, paths)}, home.env)


def problems(home: Home) -> list[tuple[str, str | None]]:
    return [(problem.agent, problem.path) for problem in query(SCOPE, home.env).problems]


def test_only_the_place_of_the_agent_itself_may_be_missing(home: Home) -> None:
    assert not home.root.exists()
    assert problems(home) == []


@pytest.mark.parametrize("agents", [None, ("demo",)])
def test_a_store_of_the_configuration_that_is_not_there(
    home: Home, tmp_path: Path, agents: tuple[str, ...] | None
) -> None:
    missing = tmp_path / "missing"
    configure(home.env, f"[stores]\ndemo = [{json.dumps(str(missing))}]")
    (problem,) = query(SCOPE._replace(agents=agents), home.env).problems
    assert (problem.agent, problem.path) == ("demo", str(missing))
    assert "config.toml" in problem.problem
    missing.mkdir()
    assert problems(home) == []


def test_it_may_be_the_place_of_the_agent_itself(home: Home) -> None:
    configure(home.env, f"[stores]\ndemo = [{json.dumps(str(home.root))}]")
    assert problems(home) == []


def test_of_an_agent_that_is_not_asked_for_nothing_is_said(home: Home) -> None:
    configure(home.env, '[stores]\ncodex = ["/nowhere"]')
    assert query(Scope(agents=("demo",)), home.env).problems == ()


def test_a_remembered_store_that_vanished_is_named_until_it_is_forgotten(home: Home, tmp_path: Path) -> None:
    vanished, there = tmp_path / "vanished", tmp_path / "there"
    there.mkdir()
    remembered(home, vanished, there)
    for _ in range(2):
        (problem,) = query(SCOPE, home.env).problems
        assert problem.path == str(vanished)
        assert f"agentctl agents forget {vanished}" in problem.problem
    assert memory.forget(str(vanished), home.env) == ["demo"]
    assert problems(home) == []
    assert memory.recall(home.env).roots == {"demo": [str(there)]}
    assert memory.forget(str(vanished), home.env) == []


@pytest.mark.parametrize("ignored", ["missing", "."])
def test_what_the_configuration_ignores_is_no_problem(home: Home, tmp_path: Path, ignored: str) -> None:
    missing = tmp_path / "missing"
    lines = f"demo = [{json.dumps(str(missing))}]\nignore = [{json.dumps(str(tmp_path / ignored))}]"
    configure(home.env, f"[stores]\n{lines}")
    remembered(home, missing)
    assert problems(home) == []


def test_a_broken_configuration_hides_its_stores_and_nothing_else(home: Home) -> None:
    id, _ = home.start("-p", "[[sleep:300]]")
    configure(home.env, "[stores\n")
    answer = query(SCOPE, home.env)
    assert [session.id for session in answer.sessions] == [id]
    assert [problem.agent for problem in answer.problems] == [config.OWNER]


def test_not_found_is_firm_only_if_everything_was_read(home: Home, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no session 'nosuch'"):
        query_session("nosuch", home.env)
    remembered(home, tmp_path / "vanished")
    with pytest.raises(TruthUnavailable, match=r"in what could be read; not read: .*vanished"):
        query_session("nosuch", home.env)


def test_places(home: Home) -> None:
    configure(home.env, '[stores]\ndemo = ["/a", "/a/./", "//a"]')
    places = roots.places([load("demo")], home.env)
    assert places.roots == {"demo": [str(home.root), "/a"]}
    assert list(places.expected) == ["/a"]
    assert roots.known([load("demo")], home.env) == places.roots


def test_two_dots_are_left_to_the_kernel(home: Home, tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    named = f"{tmp_path}/link//./../store/"
    configure(home.env, f"[stores]\ndemo = [{json.dumps(named)}]")
    (tmp_path / "store").mkdir()  # where the text of the path leads
    (problem,) = query(SCOPE, home.env).problems
    assert problem.path == f"{tmp_path}/link/../store"
    (tmp_path / "real" / "store").mkdir()
    assert problems(home) == []
