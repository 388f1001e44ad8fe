"""The verdict of `python -m bench.against`: which statistic decides, and when a command counts as slower."""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from bench import report, stored
from bench.against import Bench, Case, counted
from bench.verdict import COUNTS, TIMES, Cost, Figures, compare, even

if TYPE_CHECKING:
    from bench.sides import Side

LOG = """\
SYSCALL[73,1](257) sys_openat ( -100, 0x4a2c3b0(x), 524288 ) --> [async] ...
SYSCALL[73,1](257) ... [async] --> Success(0x4)
SYSCALL[73,1](228) sys_clock_gettime( 1, 0x1ffefff740 )[sync] --> Success(0x0)
SYSCALL[73,2](202) sys_futex ( 0x52ae10, 393, 0, 0x0, 0x0 ) --> [async] ...
SYSCALL[73,1](231) exit_group( 0 ) --> [pre-success] Success(0x0)
==73==
==73== I   refs:      94,712,221
"""


def figures(old: list[float], new: list[float], bare: float = 0.01) -> Figures:
    return Figures([Cost(bare)] * len(old), [Cost(amount) for amount in old], [Cost(amount) for amount in new])


def test_a_row_has_ratios_of_the_minima_and_the_median_of_the_pairs() -> None:
    row = compare(figures([0.10, 0.20, 0.40], [0.11, 0.20, 0.60]))
    assert (row.rounds, row.bare) == (3, 0.01)
    assert row.old == pytest.approx(10)
    assert row.new == pytest.approx(11)
    assert row.median == pytest.approx(1.1)
    assert row.minima == pytest.approx(1.1)
    assert row.calls == 1


def test_load_that_both_runs_of_a_pair_feel_changes_no_median() -> None:
    load = [1.0, 1.7, 1.2, 2.5, 1.1, 1.0]
    row = compare(figures([0.05 * one for one in load], [0.05 * 1.03 * one for one in load]))
    assert row.median == pytest.approx(1.03)


def test_a_few_pairs_that_load_hit_unevenly_decide_nothing() -> None:
    even_pairs = [0.05] * 14
    assert TIMES.slower({"list": figures([*even_pairs, *[0.05] * 6], [*even_pairs, *[0.20] * 6])}, 1.05) == []
    assert TIMES.slower({"list": figures([*even_pairs, *[0.20] * 6], [0.06] * 20)}, 1.05) == ["list"]


def test_one_lucky_run_decides_nothing() -> None:
    lucky = figures([0.04, *[0.05] * 9], [0.05] * 10)
    assert compare(lucky).minima == pytest.approx(1.25)
    assert TIMES.slower({"list": lucky}, 1.05) == []


def test_being_second_costs_both_versions_the_same() -> None:
    """With an even number of rounds: each version is second in half of them."""
    first, second = 0.050, 0.055
    assert compare(figures([first, second] * 3, [second, first] * 3)).median == pytest.approx(1, abs=0.006)
    assert [even(rounds) for rounds in (1, 2, 15, 20)] == [2, 2, 16, 20]


def test_only_what_is_above_the_limit_is_slower() -> None:
    measured = {name: figures([100.0] * 4, [new] * 4) for name, new in (("a", 105.0), ("b", 105.1), ("c", 50.0))}
    assert TIMES.slower(measured, 1.05) == ["b"]
    assert TIMES.slower(measured, 1.052) == []


def test_time_is_measured_again_if_rounds_disagree_on_a_slower_case() -> None:
    always, mostly = figures([100.0] * 4, [110.0] * 4), figures([100.0] * 4, [110.0, 110.0, 110.0, 100.0])
    fine = figures([100.0] * 4, [104.0, 104.0, 104.0, 190.0])
    measured = {"always": always, "mostly": mostly, "fine": fine}
    assert TIMES.slower(measured, 1.05) == ["always", "mostly"]
    assert TIMES.doubtful(measured, 1.05) == ["mostly"]


def test_counts_are_judged_by_the_minima() -> None:
    waited = figures([100.0, 130.0, 130.0], [130.0, 100.0, 130.0])
    hidden = figures([130.0, 100.0, 130.0], [110.0, 130.0, 140.0])
    assert COUNTS.slower({"waited": waited, "hidden": hidden}, 1.05) == ["hidden"]


def test_counts_are_measured_again_if_runs_or_versions_disagree() -> None:
    measured = {
        "same": figures([100.0, 100.1], [102.0, 102.1]),
        "one run waited": figures([100.0, 130.0], [100.0, 100.1]),
        "slower": figures([100.0, 100.1], [130.0, 130.1]),
        "faster": figures([130.0, 130.1], [100.0, 100.1]),
    }
    assert COUNTS.doubtful(measured, 1.05) == ["one run waited", "slower", "faster"]


def test_rounds_that_are_not_whole_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        compare(figures([0.1, 0.1], [0.1]))
    with pytest.raises(ValueError, match="fewer than two"):
        compare(figures([0.1], [0.1]))


def test_system_calls_are_compared_but_not_judged() -> None:
    more = Figures([Cost(1e6, 50)] * 2, [Cost(5e6, 100)] * 2, [Cost(5e6, 150)] * 2)
    assert compare(more).calls == pytest.approx(1.5)
    assert COUNTS.slower({"list": more}, 1.05) == []


def test_a_log_of_valgrind_is_counted() -> None:
    assert counted(LOG) == Cost(94_712_221, 3)
    assert counted(LOG + "==74== I   refs:      1,000\n") == Cost(94_713_221, 3)
    with pytest.raises(ValueError, match="counted nothing"):
        counted("==73== Process terminating with default action of signal 9")


class Recorded(Bench):
    """Runs nothing, and notes which version would have run."""

    def __init__(self) -> None:
        home: Any = SimpleNamespace(folder=Path("nowhere"), env={})
        super().__init__(home, lambda argv, env, output: Cost(0.01))
        self.order: list[str] = []

    def cost(self, side: Side, case: Case) -> Cost:
        self.order.append(side.name)
        return Cost(1.0 if side.name == "old" else 2.0)


def test_the_versions_take_turns_at_being_first() -> None:
    old, new = (cast("Side", SimpleNamespace(name=name)) for name in ("old", "new"))
    bench, measured = Recorded(), {"list": Figures([], [], [])}
    bench.measure(old, new, [Case("list", ("list",))], 4, measured)
    assert bench.order == ["old", "new", "new", "old"] * 2
    assert compare(measured["list"]).median == 2


def test_two_benchmarks_do_not_share_the_stored_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "CACHE", tmp_path)
    monkeypatch.setattr(stored, "LOCKS", [])
    with open(tmp_path / "lock", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="another benchmark"):
            stored.alone()
    stored.alone()
    stored.alone()  # one process may ask twice


def test_one_session_is_chosen_without_the_name_of_an_agent() -> None:
    made = stored.Stored(Path("nowhere"), {"few": ["a"], "many": ["b", "c", "d"]}, 0)
    assert made.typical == "c"


def test_the_page_says_what_its_generator_says() -> None:
    assert report.AGAINST in report.TEXT.read_text(encoding="utf-8")
