"""Defences of what agentctl says of its own launches."""

from __future__ import annotations

from tests.mutants.model import mutant

LAUNCHES = (
    mutant(
        "path-of-the-person",
        "an empty or relative entry of PATH means the directory of the person",
        "a program that an agent put into its directory is run",
        "tests/kernel/test_commands.py::test_a_relative_folder_of_path_is_the_persons",
        (
            "kernel/commands.py",
            'env={**env, "PATH": os.pathsep.join(folders_of_path(env))},',
            "env=env,",
        ),
    ),
    mutant(
        "secret-with-a-hyphen",
        "the value of a secret option is redacted if it begins with a hyphen, too",
        "a password is kept in launch.json",
        "tests/test_security.py::test_one_recogniser_for_hooks_texts_and_arguments",
        ("files/redaction.py", 'if hide and not word.startswith("--"):', 'if hide and not word.startswith("-"):'),
    ),
    mutant(
        "order-taken-back",
        "what decides whether a screen was started is who has the order, not what tmux says",
        "launch says that nothing was started while the agent works",
        "tests/launch/test_interactive.py::test_a_tmux_that_fails_after_it_opened_the_pane_has_started_the_agent",
        ("launch/interactive.py", "            if waiting.is_taken_back():\n", "            if True:\n"),
    ),
    mutant(
        "hook-facts-of-the-launch",
        "a hook gets the directory and the branch that agentctl launched into",
        "a hook pushes or deletes the branch that a model wrote into its transcript",
        "tests/launch/test_launch.py::test_a_hook_gets_the_directory_and_the_branch_that_agentctl_launched_into",
        (
            "launch/start.py",
            "branch=launch.branch or (session.branch if session else None)",
            "branch=(session.branch if session else None) or launch.branch",
        ),
    ),
    mutant(
        "runner-finds-us",
        "a runner finds agentctl if Python found it by a relative path",
        "time limit and hook of a launch are lost without a word",
        "tests/launch/test_ourselves.py::test_found_by_a_relative_path",
        ("launch/start.py", "    if not (by_directory or by_relative):\n", "    if not by_directory:\n"),
    ),
    mutant(
        "ended-as-by-ctrl-c",
        "SIGTERM and SIGHUP are held back while accept moves files and branch",
        "the slot's files stay staged in the person's worktree, and nobody says so",
        "tests/workspace/test_accept_safely.py::test_ctrl_c_waits_for_the_act_and_is_told",
        ("kernel/interrupts.py", "for number in (signal.SIGINT, *ENDING)}", "for number in (signal.SIGINT,)}"),
    ),
    mutant(
        "no-guess-against-a-seen-end",
        "no process is taken for the one on a session whose last process a runner saw end",
        "a stopped session is running on a screen at its prompt, and that screen is not shown",
        "tests/query/test_judge_launches.py::test_rows",
        (
            "query/judge.py",
            "not one.agents and one.last_end(record) is not None for one in ours",
            "False for one in ours",
        ),
    ),
    mutant(
        "prompt-not-taken",
        "a screen that was launched with a prompt is not idle before its store shows a turn",
        "launch --interactive and wait returns before the agent has begun",
        "prompt-not-taken/prompt_not_taken_on_a_screen",
        ("query/judge.py", "elif turn == IDLE and is_before_its_prompt(case, link):", "elif False:"),
    ),
    mutant(
        "idle-before-its-prompt",
        "a headless run of ours that says it is idle has not taken its prompt yet",
        "a run that has just begun is called idle for a moment, and wait returns",
        "prompt-not-taken/prompt_not_taken_headless",
        (
            "query/judge.py",
            "launch.one_shot and not has_ended_a_turn(case.record, launch)",
            "launch.one_shot and link.turn != IDLE and not has_ended_a_turn(case.record, launch)",
        ),
    ),
)
