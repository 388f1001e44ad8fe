"""Defences against guesses: what a path, a name, a word or a time lets us think, and the kernel does not say."""

from __future__ import annotations

from tests.mutants.model import mutant

GUESSES = (
    mutant(
        "kind-by-file",
        "what a program is, is remembered by its file and not by its path",
        "an agent in a container is taken for the small program that has its path here",
        "tests/kernel/test_programs.py::test_one_path_may_be_two_files_in_two_mount_namespaces",
        ("kernel/linux.py", "key = (exe, found.st_dev, found.st_ino)", "key = (exe, 0, 0)"),
    ),
    mutant(
        "tracer-is-a-loader",
        "a tracer runs another program in itself",
        "an agent under valgrind is firmly stopped",
        "tests/kernel/test_programs.py::test_what_an_executable_is",
        ("kernel/programs.py", " or (TRACERS in exe and in_the_system(exe))", ""),
    ),
    mutant(
        "executes-the-unknown",
        "a process that executes what may be another program is inferred to be on its session",
        "a session is firmly running in whatever its process has executed",
        "executes-another/executes_what_is_not_known",
        (
            "query/link_check.py",
            "if alive and not is_proved(link, reading, ground):",
            "if False:",
        ),
    ),
    mutant(
        "executes-a-package",
        "a script of another package is not the agent",
        "a session is running while its process is another program",
        "executes-another/executes_what_is_not_known",
        (
            "query/link_check.py",
            "package = package_in(link.key, ground) if kind == SCRIPTS else None",
            "package = None",
        ),
    ),
    mutant(
        "text-is-no-option",
        "what follows -- is text",
        "an agent that was asked about `-v` is firmly stopped",
        "tests/agents/test_executes.py::test_what_follows_two_dashes_is_text "
        "tests/agents/test_executes.py::test_no_option_is_read_from_text",
        ("agents/base.py", 'return words[: words.index("--")] if "--" in words else words', "return words"),
    ),
    mutant(
        "bun-only-with-1",
        "BUN_BE_BUN makes OpenCode a helper only with the value 1",
        "a live OpenCode is firmly stopped",
        "tests/agents/test_executes.py::test_what_follows_two_dashes_is_text",
        ("agents/opencode/adapter.py", '.get("BUN_BE_BUN") == "1":', '.get("BUN_BE_BUN"):'),
    ),
    mutant(
        "role-is-no-alibi",
        "a client or a helper that has the store open counts",
        "an agent that looks like a helper is firmly stopped",
        "another-name/role_by_its_words",
        (
            "query/strangers.py",
            "known = {claim.process.pid for claim in located if claim.role in (AGENT, DAEMON, SPARE)}",
            "known = {claim.process.pid for claim in located}",
        ),
    ),
    mutant(
        "stranger-at-rest",
        "a stranger that has a file of the store open makes an end doubtful",
        "a live agent at its prompt has firmly ended",
        "another-name/another_name_at_rest",
        ("query/cases.py", "if (is_open or claim.proof or claim.says_so) and", "if is_open and"),
    ),
    mutant(
        "tool-at-rest",
        "a program that could be anything does not make an end doubtful",
        "every ended session is doubtful while some tool runs",
        "tests/query/test_judge_claims.py::test_a_stranger_that_shows_what_it_is_makes_a_closed_turn_doubtful",
        ("query/cases.py", "if (is_open or claim.proof or claim.says_so) and", "if"),
    ),
    mutant(
        "whole-seconds",
        "a time without a fraction may be two seconds old",
        "an agent that wrote in the second it started in is firmly stopped",
        "tests/files/test_bounded_names.py::test_a_time_of_whole_seconds_may_be_of_a_coarse_clock",
        ("files/bounded.py", "return written + grain_of(written) >= since", "return written >= since"),
    ),
    mutant(
        "covered-process",
        "a mount over the folder of a process hides it",
        "a live agent whose folder in /proc is covered is firmly stopped",
        "tests/kernel/test_mounts.py::test_a_mount_over_a_process_hides_it",
        ("kernel/mounts.py", "and name.isdigit():", "and False:"),
    ),
    mutant(
        "older-than-its-process",
        "a process cannot be on a turn that is older than itself",
        "a session that was killed and resumed is firmly running at its prompt, and wait never ends",
        "tests/query/test_ages.py::test_what_a_process_is_on killed-mid-turn/killed_and_resumed",
        ("query/cases.py", "return max(0.0, began - record.updated_at)", "return 0.0"),
    ),
    mutant(
        "older-end-than-its-run",
        "an end that is older than a run for one prompt is not the end of that run",
        "a run that has not taken its prompt yet is over, and wait returns 0",
        "tests/query/test_ages.py::test_what_a_process_is_on killed-mid-turn/resumed_for_one_prompt",
        ("query/ages.py", "if found.reason == FINISHING:", "if False:"),
    ),
    mutant(
        "as-old-as-its-process",
        "a turn that is as old as its process is only inferred to be its own",
        "a session that was killed and resumed at once is firmly running",
        "tests/query/test_ages.py::test_what_a_process_is_on",
        ("query/ages.py", "reason=seen.reason or NEARLY, inferred=True", "reason=seen.reason"),
    ),
    mutant(
        "its-clock-of-then",
        "a process that noted its start is as old as that note, if the clock was set since",
        "a turn that is at work is called interrupted because the clock was set forward",
        "tests/query/test_ages.py::test_what_a_process_is_on",
        ("query/cases.py", "began = min(began, link.lived_at)", "pass"),
    ),
    mutant(
        "who-wrote-it",
        "what a process wrote itself is its own, whatever the times say",
        "a Codex at work is called idle because the clock was set forward",
        "tests/query/test_ages.py::test_what_it_wrote_itself_is_its_own clock-step/clock_set",
        ("query/ages.py", " and not wrote(record, link, processes)", ""),
    ),
    mutant(
        "older-than-its-parent",
        "a sub-agent that is older than its parent's process ended with an earlier one",
        "a sub-agent that died an hour ago runs, since its parent was resumed",
        "tests/query/test_ages.py::test_a_sub_agent_is_not_older_than_the_process_of_its_parent",
        (
            "query/judge.py",
            "if own.process == GONE and parent.link and is_older(case.record, parent.link, world.processes):",
            "if False:",
        ),
    ),
    mutant(
        "turns-nest",
        "the end of a turn ends the turns inside it",
        "a Codex whose review is complete is firmly stopped, or runs for ever",
        "tests/agents/test_codex_turns.py::test_how_the_last_turn_stands",
        ("agents/codex/rollout.py", "if not is_closed and any(end.get(", "if False and any(end.get("),
    ),
    mutant(
        "turn-replaced",
        "a turn that took the place of another goes on",
        "a Codex at work is at its prompt because the abort of the turn before was written late",
        "tests/agents/test_codex_turns.py::test_how_the_last_turn_stands",
        ("agents/codex/rollout.py", 'end.get("reason") != REPLACED', "True"),
    ),
    mutant(
        "reverted-thread",
        "a rollout belongs to the thread that it names, not to the id at its end",
        "a Codex that works after a revert is idle, and a session that does not exist is stopped",
        "tests/agents/test_codex_parts.py::test_whose_a_rollout_is",
        ("agents/codex/rollout.py", 'if name[-PART - 1 : -PART] == "_":', "if False:"),
    ),
    mutant(
        "newest-part",
        "a thread is judged by the newest of its rollouts, of whatever day",
        "list and status say different things of a thread that was reverted on a later day",
        "tests/agents/test_codex_parts.py::test_the_newest_part_counts",
        ("agents/codex/store.py", "self._paths[id] = newest_part(self.reader, id, path)", "self._paths[id] = path"),
    ),
)
