"""Defences that keep what could not be read from counting as nothing."""

from __future__ import annotations

from tests.mutants.model import mutant

UNREAD = (
    # Stores that are not there
    mutant(
        "named-store-missing",
        "a store that somebody named, and that is not there, is a problem",
        "the sessions on a disk that is not mounted are silently missing",
        "store-missing/store_missing",
        ("query/reading.py", "    if reading.expected is not None:\n", "    if False:\n"),
    ),
    mutant(
        "not-found-is-not-firm",
        "what was not found may be in what could not be read",
        "agentctl says that there is no such session, and it is on a disk that is not mounted",
        "store-missing/store_missing",
        ("query/sessions.py", "    if unread := unread_words(problems):\n", "    if unread := unread_words(()):\n"),
    ),
    mutant(
        "unread-is-not-empty",
        "people read `no sessions` only if everything could be read",
        "people read `no sessions`, and a store could not be read",
        "store-missing/store_missing",
        (
            "cli/output.py",
            "    if not problems:\n        return nothing + hint\n",
            "    if True:\n        return nothing + hint\n",
        ),
    ),
    mutant(
        "time-of-one-step",
        "each step of a reader has its own time, however many there were before",
        "the store with most sessions is given up on at its last step",
        "tests/kernel/test_stall_guard.py::test_the_work_of_each_step_counts_for_itself",
        (
            "kernel/stall_guard.py",
            "int(min(worked - self._step_began, MOST_WORK) / WORK)",
            "int(min(worked, MOST_WORK) / WORK)",
        ),
    ),
    mutant(
        "saved-meanwhile",
        "what was read of very many transcripts is saved while the others are read",
        "a first list that was interrupted begins anew each time",
        "tests/files/test_record_cache.py::test_very_many_are_saved_while_they_are_read",
        ("files/record_cache.py", "        self.save(whole=False)\n", "        pass\n"),
    ),
    mutant(
        "said-before-it-stalled",
        "what a store said before it was left behind is not lost in a second look",
        "nothing is shown of a store that was read nearly to its end",
        "tests/query/test_settle.py::test_what_a_store_said_before_it_was_left_behind_is_kept",
        (
            "query/sessions.py",
            "        if any(reading.stalled and reading.records for",
            "        if False and any(reading.stalled for",
        ),
    ),
)
