"""Mutants of what could not be read: gaps, and transcripts that say nothing."""

from __future__ import annotations

from tests.mutants.model import mutant

GAPS = (
    mutant(
        "line-not-decoded",
        "a whole line that cannot be decoded may be the record that decides",
        "one bad byte in the last prompt makes an interrupted session done",
        "tests/query/test_gaps.py::test_a_whole_line_that_cannot_be_decoded_may_be_the_one_that_decides",
        (
            "agents/claude_code/transcript.py",
            "if line is not None and record is None and not order.decided and may_be_step(line):",
            "if False:",
        ),
    ),
    mutant(
        "link-to-nowhere",
        "a link that leads nowhere is not an absence",
        "a store on a disk that is not mounted is empty, and nothing says so",
        "tests/query/test_gaps.py::test_what_is_no_folder_is_not_an_empty_one "
        "tests/query/test_gaps.py::test_list_and_status_agree_on_a_transcript_that_leads_nowhere",
        ("files/bounded.py", "if is_link and not os.path.exists(path):", "if False and is_link:"),
    ),
    mutant(
        "gap-is-a-problem",
        "every gap is a problem",
        "`--strict` says 0 while a folder could not be read",
        "tests/query/test_gaps.py::test_what_is_no_folder_is_not_an_empty_one",
        (
            "agents/base.py",
            "return (*(gap.problem for gap in self.reader.gaps), *self.problems)",
            "return tuple(self.problems)",
        ),
    ),
    mutant(
        "gap-hides-holders",
        "while files that name processes cannot be read, a missing process proves nothing",
        "a session whose process lives is firmly stopped",
        "store-hangs/folders_that_lead_nowhere "
        "tests/query/test_gaps.py::test_only_a_gap_that_hides_who_is_on_it_keeps_an_end_from_being_firm",
        ("query/gaps.py", "if gap.hides == HOLDERS and gap.session is None), None)", "if False), None)"),
    ),
    mutant(
        "gap-of-one-session",
        "a gap that concerns one session blocks that session alone",
        "one unreadable file makes all sessions of its store unknown, or none",
        "tests/query/test_gaps.py::test_only_a_gap_that_hides_who_is_on_it_keeps_an_end_from_being_firm",
        ("query/cases.py", 'and id in ("", session))', 'and id == "")'),
    ),
    mutant(
        "file-that-cannot-be-looked-at",
        "a file whose stat cannot be read may be new",
        "`list` leaves out a session that `status` shows",
        "tests/query/test_gaps.py::test_list_and_status_agree_on_a_transcript_that_leads_nowhere",
        ("files/bounded.py", "                        yield entry.name, None\n", ""),
    ),
    mutant(
        "before-1970",
        "a time before 1970 says nothing of when a file was written",
        "a session whose file has such a time is in no list",
        "tests/query/test_gaps.py::test_a_time_before_1970_hides_no_session",
        (
            "files/bounded.py",
            "return written + grain_of(written) >= since or written < EARLIEST",
            "return written + grain_of(written) >= since",
        ),
    ),
    mutant(
        "nothing-understood-claude",
        "the turn of a transcript in which nothing was understood is unknown",
        "a transcript of NULs is firmly done",
        "tests/query/test_gaps.py::test_a_transcript_that_says_nothing_says_of_no_turn_that_it_ended",
        (
            "agents/claude_code/transcript.py",
            "    if any((record := decode(line)) is not None and is_own(record) for line",
            "    if True or any((record := decode(line)) is not None and is_own(record) for line",
        ),
    ),
    mutant(
        "nothing-understood-codex",
        "the turn of a rollout in which nothing was understood is unknown",
        "a rollout of another format is firmly done",
        "tests/query/test_gaps.py::test_a_transcript_that_says_nothing_says_of_no_turn_that_it_ended",
        ("agents/codex/rollout.py", "elif self.understood and not self.cut:", "elif True:"),
    ),
    mutant(
        "codex-failed-without-an-error",
        "a turn that ended while the model had to answer has failed, though its rollout names no error",
        "with codex 0.14x a turn that the model refused is done",
        "tests/lab/test_evidence.py::test_codex_closed_a_turn_that_failed_as_one_that_is_complete",
        ("agents/codex/rollout.py", "last is not None and awaits_answer(last)", "last is None"),
    ),
    mutant(
        "codex-shell-mode-is-no-prompt",
        "what the program tells the model by itself awaits no answer",
        "after a command behind `!` codex has failed",
        "tests/lab/test_evidence.py::test_a_turn_of_codex_in_which_nothing_was_to_be_answered_is_done",
        ("agents/codex/rollout.py", 'return not message_text(item).startswith("<")', "return True"),
    ),
    mutant(
        "codex-item-behind-an-end",
        "what stands behind the end of a turn does not say how that turn ended",
        "a late message makes a failed turn done",
        "tests/lab/test_evidence.py::test_what_stands_behind_the_end_of_a_turn_is_not_of_that_turn",
        ("agents/codex/rollout.py", "self.knows_last_item = self.item_before_end is not None", "pass"),
    ),
    mutant(
        "codex-command-without-its-call",
        "a process of the thread that began after the last output runs the pending command",
        "with codex 0.14x and 0.15x a running command is a question",
        "tests/lab/test_evidence.py::test_a_sandboxed_command_of_codex_runs",
        ("agents/codex/calls.py", "return by_time or unseen", "return unseen"),
    ),
    mutant(
        "codex-command-left-running",
        "a command that began before the last output is not the pending one",
        "a command in the background hides that codex asks",
        "tests/lab/test_evidence.py::test_codex_waits_beside_a_command_that_it_left_running",
        ("agents/codex/calls.py", "processes.started_at(child.key) >= since - TICK", "True"),
    ),
    mutant(
        "codex-command-of-another-thread",
        "a command of a sub-agent in the same process is not the pending one of its parent",
        "the command of a sub-agent hides that codex asks",
        "tests/lab/test_evidence.py::test_a_command_of_another_thread_in_the_same_process_is_not_the_pending_one",
        ("agents/codex/calls.py", "(call is None and details.env.get(THREAD) == thread)", "(call is None)"),
    ),
    mutant(
        "codex-command-closed-to-us",
        "a process that we may not look into may run the pending command",
        "a running command of another user is a question",
        "tests/lab/test_evidence.py::test_a_process_that_we_may_not_look_into_may_run_the_pending_command",
        ("agents/codex/calls.py", "unseen = unseen or Runner(child.pid, known=False)", "unseen = None"),
    ),
    mutant(
        "garbled-end",
        "bytes that no agent writes, behind the last turn, hide how it went on",
        "a turn is firmly done though a power cut took what came after it",
        "tests/query/test_gaps.py::test_a_transcript_that_says_nothing_says_of_no_turn_that_it_ended",
        ("files/bounded.py", 'return not line.startswith(b"{") or b"\\0" in line', "return False"),
    ),
    mutant(
        "table-renamed",
        "a database that has tables, and none of sessions, is not a new one",
        "OpenCode has no sessions, and nothing says so",
        "tests/query/test_gaps.py::test_a_database_without_its_table_of_sessions",
        ("agents/opencode/db.py", "if not set(tables) <= set(FIRST_TABLES):", "if False:"),
    ),
    mutant(
        "database-cut",
        "a database that is shorter than its header says was cut",
        "OpenCode has no sessions, and nothing says so",
        "tests/query/test_gaps.py::test_a_database_that_was_cut_after_its_first_page",
        ("agents/opencode/db.py", " or pages_in(header) > 1)", ")"),
    ),
)
