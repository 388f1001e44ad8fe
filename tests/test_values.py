"""Values: named fields, frozen, as a frozen dataclass has them."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.findings import session_of
from agentctl.model import DONE, GONE, Evidence, Exit, Launch, ProcessKey, Record, Session, Tokens, Value
from agentctl.processes import Processes
from agentctl.world import Case, Launched, Verdict


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
    named = {name: value for name, value in named.items() if name not in FIELDS[: len(values)]}
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
    found = session_of(case, verdict, Processes("boot", []), set(), {}, "the host")._asdict()
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
    }
    assert found.keys() | {"evidence"} == {*Session._fields}
