"""Defences of what agentctl says of its own launches."""

from __future__ import annotations

from tests.mutants.model import mutant

LAUNCHES = (
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
