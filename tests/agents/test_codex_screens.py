"""Which screens of Codex show a thread of the daemon, and which one: by what each loaded, and by the openings that are
left over."""

from __future__ import annotations

import pytest

from agentctl.agents.codex.rollout import begun_at
from agentctl.agents.codex.screens import Held, Opening, Screen, openings, shown_on
from agentctl.model import EXACT, SOLE, ProcessKey


def key(pid: int) -> ProcessKey:
    return ProcessKey("boot", pid, pid)


def begun(moment: float) -> str:
    """The id of a thread that began then."""
    digits = f"{int(moment * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"


def screen(pid: int, started: float, *names: str) -> Screen:
    """A screen that listens on the port of its own pid."""
    return Screen(key(pid), started, frozenset({pid}), frozenset(names))


def loaded(moment: float, pid: int, opened: float | None = None) -> Held:
    """A thread that the screen of this pid loaded then, and that was opened last at another moment."""
    return Held(begun(moment), moment + 0.2 if opened is None else opened, True, moment, pid)


def shown(screens: list[Screen], *threads: Held) -> dict[int, tuple[str, str]]:
    return {key.pid: (seen.id, seen.strength) for key, seen in shown_on(screens, threads)[0].items()}


def screens(started: dict[int, float], *threads: Held) -> set[int]:
    """The screens that show any thread, of a daemon that does not say who loaded them."""
    alive = [Screen(key(pid), start) for pid, start in started.items()]
    return {found.pid for found in shown_on(alive, threads)[1]}


def test_a_thread_id_holds_the_moment_at_which_it_began() -> None:
    assert begun_at("01a1e76f-bbfa-76f3-ac3c-d5f76119458e") == 1794884221.946
    assert begun_at("no thread") is None


def test_a_screen_that_opened_nothing_shows_nothing() -> None:
    assert screens({1: 100.0}) == set()
    assert screens({1: 100.0}, Held(begun(50), 51.0, True)) == set()


@pytest.mark.parametrize("opened", [None, 101.0])
def test_a_screen_that_began_a_thread_shows_it_before_and_after_it_notes_that(opened: float | None) -> None:
    assert screens({1: 100.0}, Held(begun(100.5), opened, True)) == {1}


def test_one_opening_is_of_one_screen_the_youngest_that_lived_then() -> None:
    assert screens({1: 100.0, 2: 200.0}, Held(begun(201), 201.2, True)) == {2}
    assert screens({1: 100.0, 2: 200.0}, Held(begun(150), 150.2, True)) == {1}


def test_two_screens_on_one_thread() -> None:
    """One began it, the other picked it later: the note has only the time of the second."""
    assert screens({1: 100.0, 2: 200.0}, Held(begun(101), 300.0, True)) == {1, 2}


def test_a_thread_of_a_program_is_no_opening_until_a_screen_picks_it() -> None:
    assert screens({1: 100.0}, Held(begun(150), None, False)) == set()
    assert screens({1: 100.0}, Held(begun(150), 180.0, False)) == {1}
    assert openings([Held(begun(150), 180.0, False), Held("odd", None, True)]) == [Opening(180.0, begun(150))]


def test_a_screen_shows_the_thread_that_it_loaded() -> None:
    first, second = loaded(101, 1), loaded(201, 2)
    assert shown([screen(1, 100), screen(2, 200)], first, second) == {1: (first.id, EXACT), 2: (second.id, EXACT)}


def test_a_screen_shows_the_thread_that_it_loaded_last() -> None:
    """/new: the daemon keeps the old thread for a minute."""
    old, new = loaded(101, 1), loaded(150, 1)
    assert shown([screen(1, 100)], old, new) == {1: (new.id, EXACT)}


def test_a_screen_that_resumed_an_ended_thread_loaded_it() -> None:
    old = Held(begun(5), 101.2, True, 101.0, 1)
    assert shown([screen(1, 100, begun(5))], old) == {1: (old.id, EXACT)}


def test_a_second_screen_on_a_thread_that_is_held() -> None:
    """It loaded nothing; its arguments name the thread. Both show it."""
    thread = loaded(101, 1, opened=201.0)
    assert shown([screen(1, 100), screen(2, 200, thread.id)], thread) == {1: (thread.id, EXACT), 2: (thread.id, SOLE)}


def test_arguments_say_where_a_screen_began_not_where_it_is() -> None:
    """codex resume ID, then /new: it shows what it loaded since."""
    old, new = loaded(101, 1), loaded(250, 2)
    assert shown([screen(1, 100), screen(2, 200, old.id)], old, new) == {1: (old.id, EXACT), 2: (new.id, EXACT)}


def test_a_later_opening_of_another_thread_makes_it_inferred() -> None:
    """A screen that loaded a thread may have gone to one that another screen holds: nothing names who opened that."""
    mine, other = loaded(101, 1), loaded(150, 2, opened=300.0)
    two = [screen(1, 100), screen(2, 140)]
    assert shown(two, mine, other) == {1: (other.id, SOLE), 2: (other.id, EXACT)}
    three = [*two, screen(3, 290, other.id)]
    assert shown(three, mine, other) == {1: (mine.id, SOLE), 2: (other.id, EXACT), 3: (other.id, SOLE)}
    started_later = [screen(2, 140), screen(1, 310)]
    assert shown(started_later, other, loaded(311, 1))[1] == (begun(311), EXACT)


def test_an_opening_that_two_may_have_made_is_of_neither() -> None:
    mine, yours, other = loaded(101, 1), loaded(102, 2), loaded(150, 3, opened=300.0)
    found = shown([screen(1, 100), screen(2, 100), screen(3, 140)], mine, yours, other)
    assert found == {1: (mine.id, SOLE), 2: (yours.id, SOLE), 3: (other.id, EXACT)}


def test_a_picker_that_picked_a_held_thread() -> None:
    thread = loaded(101, 1, opened=300.0)
    assert shown([screen(1, 100), screen(2, 200)], thread) == {1: (thread.id, EXACT), 2: (thread.id, SOLE)}


def test_two_pickers_of_which_one_picked() -> None:
    thread = loaded(101, 1, opened=300.0)
    both = [screen(1, 100), screen(2, 200), screen(3, 210)]
    assert shown(both, thread) == {1: (thread.id, EXACT)}
    assert {found.pid for found in shown_on(both, [thread])[1]} == {1, 3}


def test_a_thread_whose_screen_has_gone_hides_no_picker() -> None:
    """The daemon keeps it for a minute. Its opening was that of the screen that loaded it."""
    gone = loaded(201, 9)
    assert shown_on([screen(1, 100)], [gone]) == ({}, set())


def test_two_networks_with_the_same_port_prove_nothing() -> None:
    thread = Held(begun(101), 101.2, True, 101.0, 7)
    both = [Screen(key(1), 100, frozenset({7})), Screen(key(2), 100, frozenset({7}))]
    assert shown(both, thread) == {}


def test_a_screen_whose_ports_cannot_be_seen_may_have_loaded_it() -> None:
    """Another network namespace, or a process that we may not look into: no port is not "another port"."""
    thread = loaded(101, 9)
    shows, busy = shown_on([Screen(key(1), 100)], [thread])
    assert (shows[key(1)].id, shows[key(1)].strength, busy) == (thread.id, SOLE, {key(1)})


def test_an_opening_within_the_grain_of_the_clocks_takes_no_screen_away() -> None:
    """The start of a process is known to a hundredth: a thread that began as it did is not one that it went on to."""
    named, other = begun(100.0), begun(100.02)
    one = Screen(key(1), 100.0, frozenset(), frozenset({named}))
    assert shown([one], Held(named, None, True), Held(other, None, True)) == {1: (named, SOLE)}
    later = begun(100.2)
    assert shown([one], Held(named, None, True), Held(later, None, True)) == {1: (later, SOLE)}
