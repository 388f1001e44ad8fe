"""Mutants of what agentctl knows of stores: the list of them, damaged stores, and what is still valid of a cache."""

from __future__ import annotations

from tests.mutants.model import mutant

STORES = (
    mutant(
        "list-of-stores-unread",
        "a list of stores that cannot be read is a problem",
        'a torn list means "no sessions", `--strict` 0',
        "store-missing/list_of_stores_damaged",
        ("query/roots.py", "(*wrong_in(settings), *memory.problems)", "tuple(wrong_in(settings))"),
    ),
    mutant(
        "list-of-stores-replaced",
        "a damaged list of stores is never replaced",
        "the next look makes a new list, and the problem ends with the stores that were in the old one",
        "tests/query/test_remembered.py::test_a_damaged_list_is_a_problem_and_is_never_replaced",
        ("query/remembered.py", "        if memory.problems:\n", "        if False:\n"),
    ),
    mutant(
        "list-of-stores-unsynced",
        "the list of stores is synced before it gets its name",
        "after a power cut the list is empty",
        "tests/query/test_remembered.py::test_it_is_synced_before_it_gets_its_name",
        ("files/private.py", "    _replace(path, data, os.fsync)\n", "    _replace(path, data, lambda fd: None)\n"),
    ),
    mutant(
        "list-of-stores-unlocked",
        "the list of stores is changed under its lock",
        "of two looks that find a store at the same time, one forgets what the other has noted",
        "tests/query/test_remembered.py::test_nobody_overwrites_what_another_has_noted",
        (
            "query/remembered.py",
            '    with Flock(os.path.join(folder, "lock"), PATIENCE, "the list of stores"):\n',
            "    if True:\n",
        ),
    ),
    mutant(
        "list-of-stores-unwritten",
        "a store that cannot be noted is a problem",
        "the store of a live agent is forgotten at its end, and nothing has said so",
        "store-missing/list_of_stores_closed",
        (
            "query/sessions.py",
            "        forgotten += remembered.remember(fresh, env)\n",
            "        remembered.remember(fresh, env)\n",
        ),
    ),
    mutant(
        "list-of-stores-of-older",
        "the list that an older version kept in the cache is taken over",
        "after an upgrade the stores of dead agents are gone",
        "store-missing/list_of_stores_in_the_cache",
        ("query/roots.py", "        remembered.take_over(env)\n", "        pass\n"),
    ),
    mutant(
        "store-of-a-launch",
        "a launch notes the store of its agent before it starts the agent",
        "an agent that ends at once, with a store elsewhere, was never there",
        "tests/query/test_remembered.py::test_a_launch_notes_the_store_of_its_agent",
        ("launch/start.py", "        note_store(order, env, tell)\n", ""),
    ),
    mutant(
        "empty-database",
        "an empty database is new only while a process that has just started has it open",
        'a database that a power cut has emptied means "no sessions", `--strict` 0',
        "damaged-store/database_cut_to_nothing "
        "tests/agents/test_opencode_begin.py::test_an_empty_database_that_nobody_fills_is_lost",
        ("agents/opencode/db.py", "(log > 0 or not is_being_made(path))", "log > 0"),
    ),
    mutant(
        "log-of-an-empty-database",
        "an empty database is never opened: SQLite deletes its log",
        "agentctl deletes what is left of the sessions",
        "tests/agents/test_opencode_begin.py::test_the_log_of_an_empty_database_is_left",
        ("agents/opencode/db.py", "            if is_empty(self.path):\n", "            if False:\n"),
    ),
    mutant(
        "message-not-decoded",
        "a message that cannot be decoded may have had tokens",
        "`usage` leaves out the tokens of a damaged message, `--strict` 0",
        "damaged-store/message_cut",
        (
            "agents/opencode/db.py",
            '"(instr(data, \'\\"tokens\\"\') or json_valid(data) is not 1)"',
            '"instr(data, \'\\"tokens\\"\')"',
        ),
    ),
    mutant(
        "time-of-the-change",
        "a stamp has the time of the last change, which nobody can set",
        "`usage` answers from the old count of a transcript that was written over",
        "damaged-store/written_over_in_place",
        ("agents/usage_base.py", "found.st_mtime_ns, found.st_ctime_ns", "found.st_mtime_ns, 0"),
    ),
    mutant(
        "changed-and-not-grown",
        "a transcript that has changed and not grown is counted anew",
        "what was written over between its beginning and its end is not counted",
        "damaged-store/written_over_in_place",
        ("agents/usage_base.py", '    if state.get("size") == size:\n', "    if False:\n"),
    ),
    mutant(
        "newline-lost-claude",
        "of two records in one line neither is absent",
        "the end of a turn is glued to bookkeeping, and a session that is done is firmly stopped",
        "damaged-store/newline_lost",
        ("agents/claude_code/transcript.py", "if is_garbled(line) or GLUED in line:", "if is_garbled(line):"),
    ),
    mutant(
        "newline-lost-codex",
        "a line with two records is never passed over",
        "the beginning of a turn is glued to a line that is not decoded, and the turn before it counts",
        "tests/agents/test_codex_glued.py::test_a_line_with_two_records_is_never_passed_over",
        ("agents/codex/rollout.py", " or data.find(GLUED, begin, after) >= 0:", ":"),
    ),
    mutant(
        "time-of-no-agent",
        "a time before there was any agent says nothing",
        "`list -a` leaves out a session that ended a moment ago, `--strict` 0",
        "damaged-store/time_of_no_agent",
        ("files/bounded.py", "written < EARLIEST", "written < 0"),
    ),
    mutant(
        "another-name-of-a-rollout",
        "what may be a transcript, and has no name or place of one, is a gap",
        "a session whose file was renamed is firmly not there",
        "damaged-store/another_name_of_a_rollout",
        ("files/reader.py", "        if path.endswith(TRANSCRIPTS):\n", "        if False:\n"),
    ),
    mutant(
        "sub-agents-in-its-life",
        "a sub-agent begins in the life of its parent",
        "`status` opens every later rollout",
        "tests/agents/test_codex_children.py::test_only_what_began_in_the_life_of_a_thread_is_opened",
        ("agents/codex/rollout.py", "(began is None or began <= ended_at)", "True"),
    ),
    mutant(
        "sub-agents-of-no-time",
        "a time of no agent is no end of a thread",
        "`status` leaves out the sub-agents of a thread whose rollout is of 1970",
        "tests/agents/test_codex_children.py::test_a_time_of_no_agent_is_no_end",
        (
            "agents/codex/rollout.py",
            'return end + AFTER_ITS_END if end > EARLIEST else float("inf")',
            "return end + AFTER_ITS_END",
        ),
    ),
    mutant(
        "rows-not-read",
        "an answer with more rows than are read is a gap",
        "the sessions behind the hundred-thousandth are not there",
        "tests/agents/test_opencode_begin.py::test_rows_that_were_not_read_are_told",
        ("agents/opencode/db.py", "        if len(rows) > MOST_ROWS:\n", "        if False:\n"),
    ),
)
