"""The defences of what is done: whom a stop may touch, what a launch leaves, who may be in a directory."""

from __future__ import annotations

from tests.mutants.model import mutant

ACTING = (
    # Stop: whom
    mutant(
        "key-before-signal",
        "a process is proved by its key after it was opened",
        "who has the pid when the signal is sent gets it",
        "pid-recycled/pid_recycled_meanwhile",
        (
            "processes/handles.py",
            "return row if row is not None and row.key == key and not row.dead else None",
            "return row if row is not None and not row.dead else None",
        ),
    ),
    mutant(
        "proof-after-opening",
        "the pidfd is opened first, then its key is proved",
        "between the proof and the opening a stranger can take the pid",
        "tests/test_handles.py::test_the_key_is_proved_after_it_was_opened",
        (
            "processes/handles.py",
            '        fd = None\n        if hasattr(os, "pidfd_open")',
            '        fd, row = None, row_of(key)\n        if hasattr(os, "pidfd_open")',
        ),
        (
            "processes/handles.py",
            "        row = row_of(key)\n        if row is None:\n            if fd",
            "        if row is None:\n            if fd",
        ),
    ),
    mutant(
        "signal-by-pidfd",
        "signals go to what was opened, not to a pid",
        "a stranger that has the pid by then is ended",
        "pid-recycled/pid_recycled_meanwhile",
        (
            "processes/handles.py",
            "        if not self.alive():\n            return False\n"
            "        try:\n            if self._fd is not None:",
            "        try:\n            if False:",
        ),
    ),
    mutant(
        "sole-needs-force",
        "what is only inferred is not ended without --force",
        "stop acts on a guess",
        "foreign/foreign_sole",
        (
            "targets.py",
            "if not force and any(link == SOLE for _, role, link in entries if role == AGENT):",
            "if False:",
        ),
    ),
    mutant(
        "no-agent-by-its-arguments",
        "a process that a store names, and that is no agent, is not ended",
        "a forged file ends whom it likes",
        "wrong-one/wrong_one_forged",
        ("targets.py", "if key not in ground.roles and not force:", "if False:"),
    ),
    mutant(
        "holds-other-sessions",
        "a process that holds other sessions, too, is not ended for one of them",
        "a forged file ends another session",
        "wrong-one/wrong_one_forged",
        ("targets.py", "    if others or strangers:\n", "    if False:\n"),
    ),
    mutant(
        "another-user",
        "another user's process is never signalled",
        "root's stop ends what a store names, whoever it belongs to",
        "wrong-one/wrong_one_user",
        ("targets.py", "    if owner != ground.uid:\n", "    if False:\n"),
    ),
    mutant(
        "tool-of-another-user",
        "a tool that runs as another user is named and left",
        "root's stop ends what sudo started",
        "wrong-one/wrong_one_tool_of_another_user",
        ("targets.py", "    if details.uid != ground.uid:\n", "    if False:\n"),
    ),
    mutant(
        "own-ancestors",
        "what this command runs in is never signalled",
        "an agent that stops itself ends in the middle of it",
        "wrong-one/wrong_one_ourselves",
        (
            "targets.py",
            "    if key in ground.ourselves:\n        raise Refused",
            "    if False:\n        raise Refused",
        ),
    ),
    mutant(
        "daemons",
        "an agent's daemon is never signalled for one of its sessions",
        "stop of one session ends all of them",
        "native-daemon/codex_daemon_silent_stop",
        ("targets.py", '    if role == DAEMON:\n        return f"it lives', '    if False:\n        return f"it lives'),
        ("targets.py", "    if others or strangers:\n", "    if False:\n"),
        (
            "agents/codex_control.py",
            "    if claims(held.process, held.details) == DAEMON:\n",
            "    if False:\n",
        ),
    ),
    mutant(
        "daemon-below",
        "an agent's daemon below the one that is stopped is left",
        "with the agent that started it, a daemon and all its sessions end",
        "nested/nested_daemon",
        (
            "targets.py",
            "    if role == DAEMON:\n        return left(",
            "    if False:\n        return left(",
        ),
    ),
    mutant(
        "nested-session",
        "an agent below the one that is stopped is named and left",
        "its session ends with it, unasked",
        "nested/nested",
        ("targets.py", "    if role in (AGENT, SPARE):\n", "    if False:\n"),
    ),
    mutant(
        "sub-agent-of-a-process",
        "a sub-agent is not stopped by itself: its process is its parent's",
        "stop of a sub-agent ends its parent",
        "wrong-one/wrong_one_sub_agent",
        ("targets.py", "    if session.parent is not None:\n        top", "    if False:\n        top"),
        ("targets.py", "    if others or strangers:\n", "    if False:\n"),
    ),
    mutant(
        "marker-is-descent",
        "the marker of a launch proves descent, and names no agent of it",
        "whoever inherited it is taken for the agent, and ended with it",
        "wrong-one/wrong_one_marker_of_a_launch",
        (
            "launched.py",
            "        agents = agents_of(record, self._claimed, self._processes)\n",
            "        agents = [\n"
            "            key for key, one in self._claimed.items()\n"
            "            if (one.details.env or {}).get(launches.MARKER) == record.launch.id\n"
            "        ]\n",
        ),
    ),
    mutant(
        "ambiguous-beginning",
        "a beginning that several ids share means none of them",
        "stop ends the first that matches",
        "id-prefix/id_prefix",
        ("sessions.py", "    if len(found) > 1:\n", "    if False:\n"),
    ),
    # Stop: how
    mutant(
        "tools-end-too",
        "what an agent leaves behind is ended after it",
        "tools in sessions of their own live on for ever",
        "orphans/orphans stubborn/stubborn",
        (
            "stopping.py",
            "            ending.signal_agents(signals, self._options.grace)\n            ending.end_tools()\n",
            "            ending.signal_agents(signals, self._options.grace)\n",
        ),
    ),
    mutant(
        "tools-of-the-last-moment",
        "what was started while it was told to end is collected, too",
        "a tool of the last moment lives on",
        "orphans/tool_of_the_last_moment",
        ("ending.py", "            self._below_what_lives(AGENT)\n", ""),
    ),
    mutant(
        "escalation",
        "who ignores the polite signals is killed",
        "a stubborn agent lives on",
        "stubborn/stubborn",
        ("ending.py", "            self._send(self._those(AGENT), signal.SIGKILL)\n", ""),
    ),
    mutant(
        "wake-the-suspended",
        "a suspended agent is told to go on, so that it can end in its own way",
        "it is killed, and its files stay behind",
        "stubborn/suspended",
        ("ending.py", "                if suspended:\n", "                if False:\n"),
    ),
    mutant(
        "stopped-is-proved",
        '"stopped" is said after a judgement that says so',
        "an agent that works on is said to be stopped",
        "resurrect/command_that_lies",
        ("stopping.py", "        if over and not outcome.living:\n", "        if True:\n"),
    ),
    mutant(
        "own-command",
        "a session that a daemon would bring back is ended by its agent's own command",
        "it is back seconds later",
        "resurrect/resurrect",
        (
            "stopping.py",
            "        if command is not None:\n            outcome",
            "        if False:\n            outcome",
        ),
        (
            "stopping.py",
            "if targets.resident is None and command is None and not all(way.signals for way in ways.values()):",
            "ways = {key: Way() for key in ways}\n        if False:",
        ),
    ),
    # Launch
    mutant(
        "store-names-the-id",
        "our own record of a launch is no proof of its session",
        "an id is printed that the agent may never take",
        "unflushed/unflushed_launch",
        (
            "awaiting.py",
            "if link.agent == one.launch.agent and link.key in one.agents and link.path != one.launch.path",
            "if link.agent == one.launch.agent and link.key in one.agents",
        ),
    ),
    mutant(
        "launch-is-no-life",
        "a directory is held by a process, not by the record of a launch",
        "the directory of a dead agent stays closed for as long as anybody has its pid",
        "lock-of-dead/lock_of_a_recycled_pid",
        (
            "busy.py",
            "if processes.alive(launch.child) is not None]",
            "if processes.get(launch.child.pid) is not None]",
        ),
    ),
    mutant(
        "exit-explains-the-gone",
        "how the first process of a launch ended is told only of a session that is gone",
        "a session that works on has the exit code of its wrapper",
        "wrapper-exit/wrapper_of_a_launch",
        ("findings.py", "if case.launched is None or verdict.process != GONE:", "if case.launched is None:"),
    ),
    mutant(
        "gate",
        "one launch at a time looks at a directory and starts there",
        "of two at the same moment both get in",
        "gate/gate",
        ("control.py", "    with locks.gate(env, request.cwd):\n", "    if True:\n"),
    ),
    mutant(
        "busy-directory",
        "a directory in which somebody works is refused",
        "two agents write into the same files",
        "gate/gate unflushed/unflushed_launch",
        ("control.py", "        if conflict.kind != locks.WARNS and not request.force:\n", "        if False:\n"),
    ),
    mutant(
        "one-writer",
        "a session that is alive is not resumed",
        "two processes write one transcript",
        "resume-live/resume_live",
        ("control.py", "    if session.process == GONE:\n        return None\n", "    if True:\n        return None\n"),
    ),
    mutant(
        "record-before-the-agent",
        "the agent is let go when its launch is on disk",
        "an agent runs of which nothing tells",
        "disk-full/disk_full_launch",
        ("runner.py", "    write_launch,\n    let_go,\n", "    let_go,\n    write_launch,\n"),
        (
            "runner.py",
            '        os.kill(state["child"], signal.SIGKILL)  # held, and not reaped: the pid is its own\n',
            "",
        ),
    ),
    mutant(
        "held-until-told",
        "end of file instead of the go byte: the agent is not executed",
        "a runner that is killed in the middle leaves an agent of which nothing tells",
        "tests/test_runner_crashes.py::test_the_runner_is_killed[fork_held]",
        ("runner.py", '        if os.read(held, 1) != b"g":\n', '        if os.read(held, 1) == b"x":\n'),
    ),
    mutant(
        "input-by-a-file",
        "a prompt is given through a file, not a pipe",
        "an agent whose launcher is killed works on half a prompt",
        "crash-anywhere/half_a_prompt",
        (
            "launching.py",
            "actions.append((os.POSIX_SPAWN_DUP2, file_of(order.input, descriptors), INPUT_OF_THE_AGENT))\n",
            "import threading\n"
            "            reading, writing = os.pipe()\n"
            "            descriptors.append(reading)\n"
            "            threading.Thread(target=os.write, args=(writing, order.input), daemon=True).start()\n"
            "            reading = above_standard(reading, descriptors)\n"
            "            actions.append((os.POSIX_SPAWN_DUP2, reading, INPUT_OF_THE_AGENT))\n",
        ),
    ),
    mutant(
        "hook-once",
        "on-complete is marked before it runs, by a file that only one can make",
        "everybody who asks runs it",
        "on-complete-once/on_complete_once",
        (
            "hooks.py",
            "os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))",
            "os.O_WRONLY | os.O_CREAT, 0o600))",
        ),
    ),
    mutant(
        "private-state",
        "a state folder that others can write to is not believed",
        "anybody can have a stranger ended by a forged launch",
        "private-state/private_state",
        ("private.py", "    if found.st_mode & OTHERS_MAY_WRITE:\n", "    if False:\n"),
    ),
    mutant(
        "kept-while-it-lives",
        "what is kept of a launch stays while any process of it lives",
        "the output of a live agent is removed under it",
        "tests/test_retention.py::test_never_while_a_process_of_its_keys_lives",
        ("retention.py", "    if living:\n        return", "    if False:\n        return"),
    ),
    mutant(
        "no-nul",
        "a prompt with a NUL is refused",
        "the agent gets another prompt than was given",
        "prompt-odd/prompt_odd",
        ("prompts.py", '    if "\\0" in text:\n', "    if False:\n"),
        ("prompts.py", '    if b"\\0" in data:\n', "    if False:\n"),
    ),
)
