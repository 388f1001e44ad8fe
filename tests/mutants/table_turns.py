"""Defences of what begins a turn, and of what ends one."""

from __future__ import annotations

from tests.mutants.model import mutant

TURNS = (
    # What begins a turn
    mutant(
        "own-records-begin-turns",
        "a record of the program's own behind the last answer opens a turn unless it is known to be local",
        "a session that was killed while it worked on a slash command or a Stop hook is done",
        "tests/agents/test_claude_turns.py::test_what_begins_a_turn",
        (
            "agents/claude_code/records.py",
            "    text = plain_text(record).lstrip()\n    if text.startswith(SHELL_OUTPUT):",
            '    text = plain_text(record).lstrip()\n    if record.get("isMeta"):\n        return False\n'
            "    if text.startswith(SHELL_OUTPUT):",
        ),
    ),
    mutant(
        "unknown-starts-are-doubtful",
        "a record of the program's own of no known kind makes the end of the turn doubtful only",
        "a session is firmly stopped by a record with which no model was asked",
        "tests/agents/test_claude_turns.py::test_what_begins_a_turn",
        (
            "agents/claude_code/records.py",
            "return tail._replace(turn=WORKING, reason=PERHAPS_ASKED, inferred=True)",
            "return tail._replace(turn=WORKING, reason=PERHAPS_ASKED)",
        ),
    ),
    mutant(
        "step-before-an-own-record",
        "a record of the program's own within an open turn leaves it firmly open",
        "each prompt with an image is doubtful",
        "tests/agents/test_claude_turns.py::test_what_begins_a_turn",
        ("agents/claude_code/transcript.py", "        self.settle_unsure(record)\n", ""),
    ),
    mutant(
        "glance-leaves-the-unsure",
        "a glance does not judge by a record of the program's own alone",
        "list and status disagree",
        "tests/agents/test_claude_turns.py::test_what_begins_a_turn",
        ("agents/claude_code/row.py", "    if is_unsure(tail):\n        return None\n", ""),
    ),
    mutant(
        "dead-at-work",
        "a dead process whose own file says that it went to work behind the last record did not end at its prompt",
        "a session that was killed before its prompt was written is done",
        "tests/query/test_judge.py::test_what_is_said",
        (
            "query/judge.py",
            "if turn == WORKING or (case.dead and was_at_work(case)):",
            "if turn == WORKING:",
        ),
    ),
    # What ends a turn
    mutant(
        "hooks-end-turns",
        "a hook that puts a call off or stops a turn ends it",
        "a run that ended in order, by a hook, is stopped",
        "tests/agents/test_claude_turns.py::test_what_ends_a_turn",
        ("agents/claude_code/transcript.py", "        if self.hook is not None:", "        if False:"),
    ),
    mutant(
        "put-off-is-the-pending-call",
        "a hook that put a call off ends the turn only if that call is the pending one",
        "a session that was killed in mid-turn is done",
        "tests/agents/test_claude_turns.py::test_what_ends_a_turn",
        (
            "agents/claude_code/records.py",
            'if tail.pending_id is None or hook.get("toolUseID") != tail.pending_id:',
            "if tail.pending_id is None:",
        ),
    ),
    mutant(
        "orderly-end-within-a-turn",
        "an open turn whose process wrote the marker of an orderly end is stopped only perhaps",
        "a run that something unknown ended in order is firmly stopped",
        "tests/agents/test_claude_turns.py::test_what_ends_a_turn",
        (
            "agents/claude_code/records.py",
            "    return tail._replace(inferred=True)\n\n\ndef is_end_mark",
            "    return tail\n\n\ndef is_end_mark",
        ),
    ),
    mutant(
        "glance-sees-end-marks",
        "a glance has the same doubt about an orderly end as the whole walk",
        "list and status disagree",
        "tests/agents/test_claude_turns.py::test_what_ends_a_turn",
        ("agents/claude_code/row.py", "    if is_end_mark(end.marks):", "    if False:"),
    ),
    mutant(
        "cut-off-behind-the-end",
        "a dead process that was at work with a sub-agent behind the end of the turn was stopped",
        "a session that was killed while its sub-agents worked is done",
        "tests/query/test_judge.py::test_what_is_said "
        "tests/agents/test_claude_turns.py::test_a_sub_agent_that_was_cut_off_behind_the_end_of_the_turn",
        ("query/judge.py", "            if link.reason is not None:", "            if False:"),
        (
            "agents/claude_code/observing.py",
            "        if child.turn == WORKING and (child.updated_at or 0.0)",
            "        if False and (child.updated_at or 0.0)",
        ),
    ),
    # Sub-agents
    mutant(
        "sub-agents-of-a-workflow",
        "the folder of a session's sub-agents is read to its bottom, for sessions and for usage",
        "the agents of a workflow, and nearly all that it cost, are missing without a word",
        "tests/agents/test_claude_projects.py::test_sub_agents_are_found_to_the_bottom_of_their_folder "
        "tests/agents/test_claude_projects.py::test_a_folder_that_leads_back_is_a_gap",
        ("agents/claude_code/projects.py", "            if not name.endswith(PLAIN) and", "            if False and"),
        ("agents/claude_code/usage.py", "    for name in inner:", "    for name in ():"),
    ),
    # OpenCode
    mutant(
        "put-in-by-a-program",
        "a message of OpenCode that a program put in behind a closed turn begins one only perhaps",
        "a session with a plugin's note behind its last answer is stopped",
        "tests/agents/test_opencode_turn.py::test_a_message_that_a_program_put_in_need_not_begin_a_turn",
        (
            "agents/opencode/turn.py",
            "elif (closed := closed_before(messages, parts)) is not None:",
            "elif (closed := None) is not None:",
        ),
    ),
    mutant(
        "messages-in-newer-tables",
        "that no turn was begun needs that no table of a newer interface has messages of the session",
        "a session that was killed in mid-turn is done, and what it cost is missing without a word",
        "tests/agents/test_opencode_store.py::test_a_session_whose_messages_are_in_other_tables_is_unknown",
        (
            "agents/opencode/db.py",
            "            return any(self._rows(query, values) for query in queries)",
            "            return False",
        ),
    ),
    # Copies
    mutant(
        "own-first-record",
        "a transcript whose first record is not older than its head is no fork: none of its records is a copy",
        "what a session spends after the clock was set back is missing",
        "tests/usage/test_index.py::test_a_clock_that_was_set_back_makes_no_copies",
        ("agents/claude_code/usage.py", "begun > newest - AT_ONCE else newest", "False else newest"),
    ),
    # Roles
    mutant(
        "claude-in-chrome",
        "the processes of Claude in Chrome are on no session",
        "every killed session whose file was swept is unknown while Chrome runs",
        "tests/agents/test_claude_registered.py::test_what_a_process_is_for",
        (
            "agents/claude_code/adapter.py",
            '    **dict.fromkeys(("--chrome-native-host", "--claude-in-chrome-mcp"), HELPER),\n',
            "",
        ),
    ),
    mutant(
        "not-starting-for-ever",
        "a process that is older than a minute is not said to be starting",
        "a process that never registers is starting for ever",
        "tests/agents/test_claude_registered.py::test_an_old_process_is_not_starting",
        ("agents/claude_code/files.py", "is_young = now - started_at < STARTING", "is_young = True"),
    ),
)
