"""The judge does no I/O: not by itself, and not through the process table that it is given."""

from __future__ import annotations

import ast
import inspect
import random
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest

from agentctl.kernel.processes import Processes
from agentctl.kernel.source import Source
from agentctl.model import WORKING
from agentctl.query import cases, judge, present, world
from agentctl.query.judge import sole_links
from agentctl.query.sessions import ended_of
from tests.support.facts import judged, link, rec, row
from tests.support.random_worlds import make
from tests.support.table import source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

WORLDS = 300
# What the judge may ask of a process table: rows that were read before, and arithmetic.
LOOKED_UP = {"alive", "get", "row", "started_at", "hidden", "blind"}
AUDITED_AND_HARMLESS = ("object.__", "sys._getframe", "import", "compile", "exec", "marshal", "code.__")


def refused(*_: object) -> NoReturn:
    raise AssertionError("the judge asked the kernel")


def closed_table(table: Processes) -> Processes:
    """The same rows, in a table that can read nothing more: whoever makes it ask the kernel fails."""
    asked = [name for name, value in vars(Source).items() if inspect.isfunction(value)]
    return Processes(
        table.boot,
        list(table.by_pid.values()),
        source(**dict.fromkeys(asked, refused)),
        boot_time=table.boot_time,
        ticks_per_second=table.ticks_per_second,
        hidden=table.hidden,
    )


def resolved(given: world.World) -> world.World:
    """What the look gives to the judge."""
    links = (*given.links, *sole_links(given))
    ended = ended_of(links, given.processes)
    return given._replace(processes=closed_table(given.processes), links=links, ended=ended)


def test_a_closed_table_is_closed() -> None:
    table = closed_table(Processes("boot", [row(7)], hidden="some of /proc could not be read"))
    with pytest.raises(AssertionError, match="asked the kernel"):
        table.gone(link(8).key)


def test_the_judge_never_asks_the_kernel() -> None:
    """In every random world it says the same of a table that can read nothing more."""
    hidden = 0
    for seed in range(WORLDS):
        given = make(random.Random(seed)).world
        hidden += given.processes.hidden is not None
        assert judge.judge(resolved(given)) == judged(given), f"seed {seed}"
    assert hidden > WORLDS / 20, "only a table that hides processes has to be completed by the kernel"


def test_what_the_kernel_proved_decides() -> None:
    """`World.ended` is all that the judge knows of it: a process that is in no table has not ended by that."""
    given = world.World(Processes("boot", [], hidden="some"), (), (rec(WORKING),), (link(7, here=True),))
    (unproved,) = judge.judge(given).sessions
    (proved,) = judge.judge(given._replace(ended=frozenset({link(7).key}))).sessions
    assert (unproved.process, unproved.rule) == ("unknown", "unseen")
    assert (proved.process, proved.rule) == ("gone", "key-gone")


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """The audit events of this test: Python raises one for each file, process and socket that is opened."""
    events: list[str] = []
    listening = True

    def hook(event: str, _: object) -> None:
        if listening and not event.startswith(AUDITED_AND_HARMLESS):
            events.append(event)

    sys.addaudithook(hook)
    yield events
    listening = False


def test_the_judge_opens_nothing(heard: list[str]) -> None:
    worlds = [resolved(make(random.Random(seed)).world) for seed in range(50)]
    judge.judge(worlds[0])  # imports what it imports
    heard.clear()
    for given in worlds:
        judge.judge(given)
    assert heard == []


@pytest.mark.parametrize("module", [cases, judge, present, world], ids=lambda module: module.__name__)
def test_it_names_no_method_that_reads(module: ModuleType) -> None:
    """Also of what no random world leads to: every name of a process table in the code is one that is looked up."""
    of_a_table = {name for name in dir(Processes("boot", [])) if not name.startswith("_")}
    named = {node.attr for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Attribute)}
    assert named & (of_a_table - LOOKED_UP) == set()
