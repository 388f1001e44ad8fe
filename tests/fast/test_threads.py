"""Events and threads without threading do what those of threading do."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.fast import threads
from tests.support.bare_python import run_bare

PATIENCE = 20.0
STEPS = st.sampled_from(["set", "is_set", "wait 0", "wait -1", "wait 0.001", "wait if set"])


def done(event: threads.Event | threading.Event, step: str) -> object:
    if step == "wait if set":
        return event.is_set() and event.wait()
    name, _, seconds = step.partition(" ")
    return getattr(event, name)(*([float(seconds)] if seconds else []))


@given(st.lists(STEPS, max_size=8))
def test_an_event_says_what_that_of_threading_says(steps: list[str]) -> None:
    ours, known = threads.Event(), threading.Event()
    assert [done(ours, step) for step in steps] == [done(known, step) for step in steps]


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_all_who_wait_are_let_go(timeout: float | None) -> None:
    event = threads.Event()
    passed: list[bool] = []
    waiting = [threading.Thread(target=lambda: passed.append(event.wait(timeout)), daemon=True) for _ in range(8)]
    setting = [threading.Thread(target=event.set, daemon=True) for _ in range(8)]
    for thread in (*waiting, *setting):
        thread.start()
    for thread in (*waiting, *setting):
        thread.join(PATIENCE)
    assert passed == [True] * 8
    assert event.is_set()


def test_it_is_waited_for_no_longer_than_was_asked() -> None:
    begun = time.monotonic()
    assert threads.Event().wait(0.05) is False
    assert 0.04 < time.monotonic() - begun < PATIENCE


def test_what_a_thread_does_is_done_elsewhere() -> None:
    found: list[object] = []
    over = threads.Event()

    def work(*words: object) -> None:
        found.extend((*words, threads.get_ident(), threading.get_ident()))
        over.set()

    threads.Thread(target=work, args=(1, "a"), daemon=True).start()
    assert over.wait(PATIENCE)
    assert found[:2] == [1, "a"]
    assert found[2] == found[3] != threading.get_ident()


def test_no_room_for_another_one_is_told_as_by_threading(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "start_new_thread", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        threads.Thread(target=print, daemon=True).start()


WORK = """
event, found = Event(), []
def work(word):
    found.append((word, get_ident() != main))
    event.set()
    event.set()
main = get_ident()
print(event.is_set(), event.wait(0))
thread = Thread(target=work, args=("x",), daemon=True)
print(thread.start())
print(event.wait(20), event.wait(), event.is_set(), found)
Thread(target=Event().wait, daemon=True).start()  # nobody waits for it
"""


@pytest.mark.parametrize("private", [True, False], ids=["as it is", "without private modules"])
def test_it_works_where_nobody_has_imported_threading(private: bool) -> None:
    names = "import Event, Thread, get_ident"
    found = run_bare(f"from agentctl.fast.threads {names}" + WORK, private=private)
    assert found.stdout == run_bare(f"from threading {names}" + WORK).stdout != ""
    assert ("threading" in found.modules) == (not private)
