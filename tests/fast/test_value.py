"""Values have named fields and are frozen, as frozen dataclasses are."""

from __future__ import annotations

import ast
import copy
import dataclasses
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentctl
from agentctl.kernel.processes import Processes
from agentctl.model import DONE, GONE, Evidence, Exit, Launch, ProcessKey, Record, Session, Tokens, Value
from agentctl.query.present import session_of
from agentctl.query.world import Case, Launched, Scene, Verdict
from tests.support.bare_python import run_bare

if TYPE_CHECKING:
    from collections.abc import Iterator


class Ours(Value):
    a: object
    b: object
    c: object = "c"
    count: object = None  # also the name of something that every tuple has


class Twin(Value):
    a: object
    b: object
    c: object = "c"
    count: object = None


@dataclasses.dataclass(frozen=True)
class Known:
    a: object
    b: object
    c: object = "c"
    count: object = None


FIELDS = ("a", "b", "c", "count")
SOME = st.one_of(st.none(), st.integers(0, 3), st.text(max_size=1), st.tuples(st.integers(0, 3)))
NAMED = st.dictionaries(st.sampled_from([*FIELDS, "other"]), SOME)


def made(cls: type, values: list[object], named: dict[str, object]) -> object:
    try:
        return cls(*values, **named)
    except TypeError:
        return None


@given(st.lists(SOME, max_size=6), NAMED)
def test_a_value_is_made_as_a_dataclass_is(values: list[object], named: dict[str, object]) -> None:
    ours, known = made(Ours, values, named), made(Known, values, named)
    assert (ours is None) == (known is None)
    if isinstance(ours, Ours) and isinstance(known, Known):
        assert ours._asdict() == dataclasses.asdict(known)
        assert list(ours._asdict()) == list(FIELDS)
        assert [ours.a, ours.b, ours.c, ours.count] == [known.a, known.b, known.c, known.count]
        assert repr(ours) == repr(known).replace("Known", "Ours")


@given(SOME, SOME, NAMED)
def test_a_copy_with_changes_is_a_value_of_its_own(a: object, b: object, changes: dict[str, object]) -> None:
    ours, known = Ours(a, b), Known(a, b)
    if "other" in changes:
        with pytest.raises(TypeError, match="other"):
            ours._replace(**changes)
    else:
        assert ours._replace(**changes)._asdict() == dataclasses.asdict(dataclasses.replace(known, **changes))
    assert ours._asdict() == dataclasses.asdict(known)


@given(SOME, SOME, SOME)
def test_values_are_equal_within_a_class(a: object, b: object, c: object) -> None:
    one, same, other = Ours(a, b), Ours(b=b, a=a), Ours(a, c)
    assert one == same
    assert (one != same) is False
    assert hash(one) == hash(same)
    assert (one == other) == (b == c)
    assert (one != other) == (b != c)
    stranger: object = Twin(a, b)
    plain: object = (a, b, "c", None)
    assert one != stranger
    assert (one == stranger) is False
    assert one != plain
    assert plain != one


@given(SOME, SOME)
def test_a_value_can_be_copied_and_sent(a: object, b: object) -> None:
    one = Ours(a, b, count=[a])
    for found in (copy.copy(one), copy.deepcopy(one), *(pickle.loads(pickle.dumps(one, n)) for n in (0, 2, 5))):
        assert found == one
        assert type(found) is Ours


def test_a_value_is_frozen() -> None:
    one = Ours(1, 2)
    for name in ("a", "other"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(one, name, 3)
    assert one.a == 1


def test_a_value_has_no_base_but_value() -> None:
    """What a base declares would be lost: the fields of a value are those of its own class."""
    with pytest.raises(TypeError, match=r"More must have Value as its only base"):

        class More(Ours):
            d: object = None

    with pytest.raises(TypeError, match="Mixed"):

        class Mixed(Known, Value):
            d: object = None

    with pytest.raises(TypeError, match="Same"):

        class Same(Ours):
            """Without fields of its own."""


@given(SOME, SOME, SOME, SOME)
def test_a_value_that_is_made_in_order_is_the_same(a: object, b: object, c: object, d: object) -> None:
    build = Ours._in_order("a b c count")
    found = build(a, b, c, d)
    assert type(found) is Ours
    assert found == Ours(a, b, c, d)
    assert found._asdict() == {"a": a, "b": b, "c": c, "count": d}


@given(st.permutations(FIELDS), st.integers(0, 4), st.booleans())
def test_another_order_is_told_when_it_is_declared(names: list[str], count: int, more: bool) -> None:
    declared = [*names[:count], *(["more"] if more else [])]
    if tuple(declared) == FIELDS:
        return
    with pytest.raises(TypeError, match="Ours has the fields 'a b c count'"):
        Ours._in_order(" ".join(declared))


def test_too_few_and_too_many_are_told() -> None:
    build: Any = Ours._in_order("a b c count")
    for values in ((), (1, 2, 3), (1, 2, 3, 4, 5)):
        with pytest.raises(TypeError, match=f"takes 4 values, not {len(values)}"):
            build(*values)


SOURCES = sorted(Path(agentctl.__file__).parent.rglob("*.py"))
MANY = 10  # fields that nobody can count at a glance


def test_no_other_value_is_made_of_many_by_position() -> None:
    nodes = [node for path in SOURCES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    values = {cls.name for cls in classes if any(ast.unparse(base).endswith("Value") for base in cls.bases)}
    assert {"Record", "Session", "Launch"} <= values
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in values]
    assert made and [ast.unparse(call) for call in made if len(call.args) >= MANY] == []


def declared_in(tree: ast.AST) -> dict[str, list[str]]:
    """The constructors by position that a module declares, and the fields that each takes."""
    return {
        node.targets[0].id: ast.literal_eval(node.value.args[0]).split()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "_in_order"
    }


def imported_in(tree: ast.AST) -> dict[str, list[str]]:
    """Those that it imports from another module of ours."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentctl."):
            path = Path(agentctl.__file__).parents[1] / f"{(node.module or '').replace('.', '/')}.py"
            declared = declared_in(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else {}
            found.update({alias.name: declared[alias.name] for alias in node.names if alias.name in declared})
    return found


def builders() -> Iterator[tuple[str, str, ast.Call, list[str], list[str]]]:
    """(file, function, call, names that were declared, lines of the file): each use of a constructor by position."""
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        declared = {**imported_in(tree), **declared_in(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in declared:
                yield path.name, node.func.id, node, declared[node.func.id], text.splitlines()


def test_every_argument_of_a_long_value_says_which_field_it_is() -> None:
    """By its own name, or in a comment beside it: so whoever changes the declared order sees what else to change."""
    found = set()
    for file, function, call, names, lines in builders():
        found.add((file, function))
        assert len(call.args) == len(names) and not call.keywords, file
        for argument, name in zip(call.args, names, strict=True):
            named = isinstance(argument, ast.Name) and argument.id == name
            comment = lines[(argument.end_lineno or 0) - 1].rpartition("  # ")[2]
            assert named or comment == name, f"{file}, line {argument.lineno}: not {name}"
    assert found == {("store.py", "new_record"), ("present.py", "new_session"), ("record_cache.py", "new_record")}


def test_every_field_of_a_session_is_of_what_it_is_named_after() -> None:
    """They are given in their order, and most are texts: two that are exchanged are seen by no type."""
    words = ("cwd", "branch", "model", "title", "prompt", "parent", "forked_from")
    record = Record(
        *("agent", "id", "the store", DONE, "not this reason", "not this error"),
        version="its version",
        path="its path",
        started_at=1.5,
        updated_at=2.5,
        tokens=Tokens(1),
        cost_usd=3.5,
        evidence=(Evidence("store", "a fact"),),
        **{name: f"its {name}" for name in words},  # type: ignore[arg-type]
    )
    key = ProcessKey("boot", 7, 8)
    launch = Launch("the launch", "agent", (), (), "/", key, key, 0.0, True, True, group="the group", slot="the slot")
    ended = Exit(key, "comm", 5, "SIGTERM", 4.5, direct=True)
    case = Case("agent", "id", record, (), (), None, (), (), Launched(launch, exits=(ended,)))
    verdict = Verdict(GONE, "failed", "closed", "the reason", "failed", "a person", True)
    found = session_of(case, verdict, Scene(Processes("boot", []), host="the host"))._asdict()
    assert found.pop("evidence")[0] == Evidence("store", "a fact")
    assert found == {
        **{name: f"its {name}" for name in words},
        "id": "id",
        "agent": "agent",
        "status": "failed",
        "process": GONE,
        "turn": "failed",
        "last_turn": "failed",
        "reason": "the reason",
        "error": "not this error",
        "waiting_for": "a person",
        "questions": (),
        "agent_version": "its version",
        "pid": None,
        "process_key": None,
        "processes": (),
        "suspended": False,
        "terminal": None,
        "started_at": 1.5,
        "updated_at": 2.5,
        "ended_at": 4.5,
        "exit_code": 5,
        "signal": "SIGTERM",
        "timed_out": False,
        "tokens": Tokens(1),
        "cost_usd": 3.5,
        "group": "the group",
        "slot": "the slot",
        "launch_id": "the launch",
        "host": "the host",
        "inferred": True,
        "link": None,
        "rule": "closed",
        "rejected": (),
        "store": "the store",
        "path": "its path",
        "may_be_open_in": (),
        "doing": None,
        "status_since": 4.5,
        "screens": (),
    }
    assert found.keys() | {"evidence"} == {*Session._fields}


OPERATIONS = """
class Point{base}:
    x: object
    y: object = 2

MAKE = (
    lambda: Point(1), lambda: Point(1, 3), lambda: Point(y=5, x=4), lambda: Point([1], "y"),
    lambda: Point(), lambda: Point(1, 2, 3), lambda: Point(1, z=1), lambda: Point(1, x=1),
)
for make in MAKE:
    try:
        point = make()
        print(point, point.x, point.y, point == make(), point != Point(0, 0))
    except TypeError:
        print("TypeError")
try:
    Point(1).x = 3
except AttributeError:
    print("frozen")
"""
BARE = "from agentctl.fast.value import Value\n" + OPERATIONS.format(base="(Value)")
DATACLASS = "import dataclasses\n@dataclasses.dataclass(frozen=True)" + OPERATIONS.format(base="")
OURS_ALONE = """
print(Point._several("y", "x")(Point(1)), Point(1)._replace(y=0), Point(1)._asdict(), Point._in_order("x y")(7, 8))
"""


@pytest.mark.parametrize("private", [True, False], ids=["as it is", "without private modules"])
def test_it_is_a_dataclass_in_a_python_without_dataclasses(private: bool) -> None:
    found = run_bare(BARE, private=private)
    assert found.stdout == run_bare(DATACLASS).stdout
    assert not found.modules & {"dataclasses", "typing", "collections", "re", "enum"}
    assert ("operator" in found.modules) == (not private)
    more = run_bare(BARE + OURS_ALONE, private=private).stdout.splitlines()[-1]
    assert more == "(2, 1) Point(x=1, y=0) {'x': 1, 'y': 2} Point(x=7, y=8)"
