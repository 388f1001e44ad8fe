"""Defences of what agentctl says of its own launches."""

from __future__ import annotations

from tests.mutants.model import mutant

LAUNCHES = (
    mutant(
        "looked-after-the-end",
        "launch gives up only after a look that began after its agent had ended",
        "the first run of an agent is done, and launch says that it ended without a session",
        "tests/launch/test_first_run.py::test_a_look_that_opened_the_stores_before_the_agent_made_its_own",
        ("launch/await_session.py", "            if not over <= ended:\n", "            if False:\n"),
    ),
    mutant(
        "handed-on",
        "the end of a wrapper proves nothing of an agent that was never seen below it",
        "a session that works on another machine is firmly stopped",
        "handed-on/handed_to_another_machine",
        (
            "query/attribution.py",
            "    return with_wrapper(launched, processes) if may_be_handed_on(launched) else launched\n",
            "    return launched\n",
        ),
    ),
    mutant(
        "agent-below-a-wrapper",
        "launch notes that it saw the agent's process below a wrapper",
        "every agent that was started by a wrapper and killed is unknown",
        "wrapper-exit/wrapper_of_a_launch",
        ("launch/await_session.py", "            launches.note_agent(started.folder, key)\n", "            pass\n"),
    ),
    mutant(
        "wait-for-a-wrapper",
        "wait goes on while the wrapper of a launch lives",
        "wait gives up on an agent that works on another machine",
        "tests/test_wait.py::test_what_ends_a_wait",
        ("wait.py", 'session.rule == "wrapped":', "False:"),
    ),
    mutant(
        "own-child-is-here",
        "a process that our own runner started or reaped was on this machine",
        "an agent that a wrapper executed and that was killed at once is unknown",
        "tests/query/test_judge_launches.py::test_a_wrapper_that_may_have_handed_the_agent_on",
        ("query/judge.py", " and not launched.saw(case.dead):", ":"),
    ),
    mutant(
        "words-of-a-resume",
        "the arguments of Claude Code are read as its own parser reads them",
        "a session that is being resumed is firmly done",
        "tests/agents/test_claude_arguments.py::test_which_session_it_opens",
        (
            "agents/claude_code/arguments.py",
            'if len(word) > 1 and word[0] == "-" and word[1] != "-":',
            "if False:",
        ),
    ),
    mutant(
        "strict-reads-old-turns",
        "list --strict reads old sessions, too, where the process table is not complete",
        "--strict exits with 0 while the state of an old session is not known",
        "tests/query/test_strict.py::test_an_old_open_turn_where_the_process_table_is_not_complete",
        ("query/store_reader.py", "    if unsure and scope.strict:\n", "    if False:\n"),
    ),
    mutant(
        "fork-of-a-dead-agent",
        "what a process has open proves nothing if it was forked and has executed nothing since",
        "a killed session is running while a fork of its agent lives",
        "fork-of-dead/fork_that_outlives_its_agent",
        ("query/link_check.py", "or why_a_fork(link, ground) if alive", "if alive"),
    ),
    mutant(
        "id-mapped-mount",
        "an agent of another user counts if its mounts show our store with mapped IDs",
        "a session that an agent in such a container works on is firmly stopped",
        "tests/kernel/test_mounts.py::test_who_reaches_a_store_through_an_id_mapped_mount",
        ("kernel/mounts.py", '"idmapped" in one.options.split(",")', "False"),
    ),
    mutant(
        "store-not-made-yet",
        "launch notes a store that only its agent's environment names, before the agent makes it",
        "the agent makes it and ends, and nobody finds its session again",
        "tests/launch/test_first_run.py::test_launch_notes_the_store_before_the_agent_makes_it",
        ("launch/start.py", "*remembered.expect({order.agent: unmade}, env),", ""),
    ),
    mutant(
        "made-store-must-stay",
        "a store that was noted before it was made is remembered as one that was there, once it is seen",
        "its disk is not mounted, and no answer says that sessions are missing",
        "tests/launch/test_first_run.py::test_a_store_that_only_the_launch_names_and_the_run_makes",
        ("query/sessions.py", "forgotten = remembered.remember(by_agent(made), env)", "forgotten = ()"),
    ),
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
        (
            "files/redaction.py",
            'or word.startswith(("--", "<"))',
            'or word.startswith(("-", "<"))',
        ),
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
