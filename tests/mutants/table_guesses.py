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
)
