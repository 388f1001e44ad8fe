"""Mutants of the events: differences between two looks, and what wakes the next look."""

from __future__ import annotations

from tests.mutants.model import mutant

DIFFERENCE = "tests/live/test_difference.py"
LIVE = (
    mutant(
        "events-gap-removes",
        "a session that a problem may hide was not removed",
        "a store that does not answer for a moment removes all its sessions from the stream",
        f"{DIFFERENCE}::test_an_absent_session_is_not_removed_if_a_problem_may_hide_it",
        (
            "live/difference.py",
            "return any(agent in (before.agent, *NOT_AN_AGENT) for agent, _ in (*look.problems, *look.unread))",
            "return False",
        ),
    ),
    mutant(
        "events-own-files-hide",
        "if our own files or the configuration cannot be read, any store may be missing",
        "a broken config.toml removes the sessions of the stores that it names",
        f"{DIFFERENCE}::test_an_absent_session_is_not_removed_if_a_problem_may_hide_it",
        ("live/difference.py", "agent in (before.agent, *NOT_AN_AGENT) for", "agent == before.agent for"),
    ),
    mutant(
        "events-unread-ends",
        "a store that was not read to its end ends no session",
        "a store that times out in the middle tells an end that never was",
        f"{DIFFERENCE}::test_a_store_that_was_not_read_to_its_end_ends_nothing",
        ("live/difference.py", "return ends and (after.agent, after.store) in look.unread", "return False"),
    ),
    mutant(
        "events-end-once",
        "a session that has ended does not become unknown because of a gap",
        "one end is told twice, before the gap and after it",
        f"{DIFFERENCE}::test_the_end_of_a_session_is_told_once_whatever_cannot_be_read_later",
        ("live/difference.py", "or (before.status in ENDS and after.status == UNKNOWN):", "or False:"),
    ),
    mutant(
        "events-next-question",
        "another question is an event, although the session waits as before",
        "a person who answered the first question is never told of the second",
        f"{DIFFERENCE}::test_another_question_is_an_event_of_its_own",
        (
            "live/difference.py",
            "if before.status != after.status or asks_anew(before, after):",
            "if before.status != after.status:",
        ),
    ),
    mutant(
        "events-two-processes",
        "two processes on one session may come in either order",
        "each look resumes a session that two processes are on",
        f"{DIFFERENCE}::test_another_process_on_it_has_resumed_it_only_if_the_first_is_not_on_it_any_more",
        ("live/difference.py", ', *(entry.get("key") for entry in after.processes)}:', "}:"),
    ),
    mutant(
        "events-problem-by-words",
        "a problem is known by its place, not by its words",
        "a count in the words of a problem makes an event of each look",
        f"{DIFFERENCE}::test_a_problem_is_known_by_its_place_not_by_its_words",
        (
            "live/difference.py",
            "    for place, problem in new.items():\n        if place not in old:",
            "    for place, problem in new.items():\n        if old.get(place) != problem:",
        ),
    ),
    mutant(
        "events-filter-first-question",
        "--type session.waiting also takes a session that is first seen while it asks",
        "a question that was asked between two looks is filtered out",
        f"{DIFFERENCE}::test_whoever_asks_for_questions_misses_none",
        ("live/difference.py", "return event.type in types or led_to in types", "return event.type in types"),
    ),
    mutant(
        "events-removal-twice",
        "a removal takes two looks in a row",
        "a file that is being replaced removes its session and starts it again",
        "tests/live/test_engine.py::test_one_that_is_absent_for_a_moment_was_not_removed",
        ("live/engine.py", "not doubted and any(", "False and any("),
    ),
    mutant(
        "events-ended-followed",
        "a session that the stream follows is seen after its end, too",
        "every end is told as a removal",
        "tests/live/test_engine.py::test_a_session_that_is_followed_is_shown_whenever_it_ended",
        ("query/sessions.py", "if (session.agent, session.id) in scope.also:", "if False:"),
    ),
    mutant(
        "events-twice-a-second",
        "files wake at most twice in any second",
        "constant writing makes agentctl look without a rest",
        "tests/live/test_pace.py::test_constant_writing_wakes_at_most_twice_a_second",
        (
            "live/pace.py",
            "return max(soon, self._wakes[0] + SPAN) if len(self._wakes) == BURST else soon",
            "return soon",
        ),
    ),
    mutant(
        "events-check-keeps-rest",
        "a check of the pids does not cut short the rest after files",
        "constant writing causes a look more at each check",
        "tests/live/test_engine.py::test_a_check_of_the_pids_keeps_the_rest_that_files_have_to_take",
        (
            "live/engine.py",
            "check = max(self._checked + CHECK_PIDS, pace.earliest())",
            "check = self._checked + CHECK_PIDS",
        ),
    ),
    mutant(
        "events-read-twice",
        "a new process is read at two checks: at the first it may be before exec",
        "an agent whose shell had not executed it yet is found only after 15 s",
        "tests/kernel/test_newcomers.py::test_a_new_process_is_named_at_two_checks",
        ("kernel/newcomers.py", "found = new | (self._young & now)", "found = new"),
    ),
    mutant(
        "events-no-room",
        "that the kernel has no room for watches is noticed",
        "without watches the stream is late, and nobody says why",
        "tests/kernel/test_watch.py::test_what_finds_no_room_is_tried_again",
        ("kernel/watch.py", "if number < 0 and self._errno() == errno.ENOSPC:", "if False:"),
    ),
    mutant(
        "events-reader-gone",
        "a reader that goes away ends the stream",
        "`events -f | head -1` stays until the next event, which may never come",
        "tests/kernel/test_watch.py::test_a_reader_that_goes_away_wakes",
        ("kernel/watch.py", "        if self._reader in ready:\n            return CLOSED\n", ""),
    ),
    mutant(
        "events-text-neutral",
        "what an agent wrote cannot draw on the terminal of `events`",
        "a question clears the screen of the person who is asked",
        "tests/cli/test_events.py::test_text_is_for_people_and_an_agent_cannot_draw",
        ("cli/events.py", "(*where, status, output.plain(words))", "(*where, status, words)"),
    ),
    mutant(
        "watch-terminal-back",
        "`list --watch` gives the terminal back as it was",
        "after Ctrl-C the shell has no cursor, on a screen that is not its own",
        "tests/cli/test_list_watch.py::test_a_signal_gives_the_terminal_back",
        (
            "cli/list_watch.py",
            "            self._entered = False\n            write(LEAVE)\n",
            "            self._entered = False\n",
        ),
    ),
)
