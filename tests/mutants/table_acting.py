"""Defences of what agentctl does: what stop may touch, what launch leaves, which agent may use a directory."""

from __future__ import annotations

from tests.mutants.model import mutant

ACTING = (
    # What stop may touch
    mutant(
        "key-before-signal",
        "a process is proved by its key after it was opened",
        "the signal goes to any process that has the pid by then",
        "pid-recycled/pid_recycled_meanwhile",
        (
            "kernel/handles.py",
            "return row if row is not None and row.key == key and not row.dead else None",
            "return row if row is not None and not row.dead else None",
        ),
    ),
    mutant(
        "proof-after-opening",
        "the pidfd is opened first, then the key is proved",
        "another process can take the pid between the proof and the opening",
        "tests/kernel/test_handles.py::test_the_key_is_proved_after_it_was_opened",
        (
            "kernel/handles.py",
            '        fd = None\n        if hasattr(os, "pidfd_open")',
            '        fd, row = None, row_of(key)\n        if hasattr(os, "pidfd_open")',
        ),
        (
            "kernel/handles.py",
            "        row = row_of(key)\n        if row is None:\n            if fd",
            "        if row is None:\n            if fd",
        ),
    ),
    mutant(
        "signal-by-pidfd",
        "signals go to the opened pidfd, not to a pid",
        "another process that has the pid by then is ended",
        "pid-recycled/pid_recycled_meanwhile",
        (
            "kernel/handles.py",
            "        if not self.alive():\n            return False\n"
            "        try:\n            if self._fd is not None:",
            "        try:\n            if False:",
        ),
    ),
    mutant(
        "sole-needs-force",
        "an inferred process is not ended without --force",
        "stop acts on a guess",
        "foreign/foreign_sole",
        (
            "stop/plan.py",
            "    if SOLE in links:\n",
            "    if False:\n",
        ),
    ),
    mutant(
        "no-agent-by-its-arguments",
        "a process that a store names but that is not an agent is not ended",
        "a forged file can have any process ended",
        "wrong-one/wrong_one_forged",
        ("stop/plan.py", "    if key not in ground.roles:\n", "    if False:\n"),
    ),
    mutant(
        "holds-other-sessions",
        "a process that also holds other sessions is not ended for one of them",
        "a forged file ends another session",
        "wrong-one/wrong_one_forged",
        ("stop/plan.py", "    if others or strangers:\n", "    if False:\n"),
    ),
    mutant(
        "another-user",
        "another user's process is never signalled",
        "root's stop ends whatever process a store names",
        "wrong-one/wrong_one_user",
        ("stop/plan.py", "    if owner != ground.uid:\n", "    if False:\n"),
    ),
    mutant(
        "tool-of-another-user",
        "stop names a tool of another user and leaves it",
        "root's stop ends what sudo started",
        "wrong-one/wrong_one_tool_of_another_user",
        ("stop/plan.py", "    if details.uid != ground.uid:\n", "    if False:\n"),
    ),
    mutant(
        "own-ancestors",
        "a process that this command runs in is never signalled",
        "an agent that stops itself dies halfway",
        "wrong-one/wrong_one_ourselves",
        (
            "stop/plan.py",
            "    if key in ground.ourselves:\n        raise Refused",
            "    if False:\n        raise Refused",
        ),
    ),
    mutant(
        "daemons",
        "an agent's daemon is never signalled for one of its sessions",
        "stopping one session ends all of them",
        "native-daemon/codex_daemon_silent_stop",
        (
            "stop/plan.py",
            '    if role == DAEMON:\n        return f"it lives',
            '    if False:\n        return f"it lives',
        ),
        ("stop/plan.py", "    if others or strangers:\n", "    if False:\n"),
        (
            "agents/codex/control.py",
            "        if ADAPTER.claims(held.process, held.details) == DAEMON:\n",
            "        if False:\n",
        ),
    ),
    mutant(
        "daemon-below",
        "stop leaves an agent's daemon that descends from the stopped agent",
        "the daemon and all its sessions end with the agent that started it",
        "nested/nested_daemon",
        (
            "stop/plan.py",
            "    if role == DAEMON:\n        return left_as(",
            "    if False:\n        return left_as(",
        ),
    ),
    mutant(
        "nested-session",
        "stop names an agent that descends from the stopped one, and leaves it",
        "its session ends too, without being asked for",
        "tests/stop/test_plan.py::test_who_is_left_with_all_below",
        ("stop/plan.py", "    if role in (AGENT, SPARE):\n", "    if False:\n"),
    ),
    mutant(
        "sub-agent-of-a-process",
        "a sub-agent cannot be stopped by itself: its process is its parent's",
        "stopping a sub-agent ends its parent",
        "wrong-one/wrong_one_sub_agent",
        ("stop/plan.py", "    if session.parent is not None:\n        top", "    if False:\n        top"),
        ("stop/plan.py", "    if others or strangers:\n", "    if False:\n"),
    ),
    mutant(
        "marker-is-descent",
        "a launch marker proves descent, not which process is the agent",
        "a process that inherited it is taken for the agent and ended",
        "wrong-one/wrong_one_marker_of_a_launch",
        (
            "query/attribution.py",
            "    agents = agents_of(record, claimed, processes)\n",
            "    agents = [\n"
            "        key for key, one in claimed.items()\n"
            "        if (one.details.env or {}).get(records.MARKER) == record.launch.id\n"
            "    ]\n",
        ),
    ),
    mutant(
        "ambiguous-beginning",
        "a prefix that matches several ids means none of them",
        "stop ends the first that matches",
        "id-prefix/id_prefix",
        ("query/sessions.py", "    if len(matching) > 1:\n", "    if False:\n"),
    ),
    # How stop ends it
    mutant(
        "tools-end-too",
        "stop ends the processes that an agent leaves behind",
        "tools in process sessions of their own live on for ever",
        "orphans/orphans stubborn/stubborn",
        (
            "stop/stop.py",
            "            ending.signal_agents(signals, self._options.grace)\n            ending.end_tools()\n",
            "            ending.signal_agents(signals, self._options.grace)\n",
        ),
    ),
    mutant(
        "tools-of-the-last-moment",
        "stop also collects what the agent starts while it is told to end",
        "a tool that starts at the last moment lives on",
        "orphans/tool_of_the_last_moment",
        ("stop/terminate.py", "            self._below_what_lives(AGENT)\n", ""),
    ),
    mutant(
        "escalation",
        "an agent that ignores the polite signals is killed",
        "a stubborn agent lives on",
        "stubborn/stubborn",
        ("stop/terminate.py", "            self._send(self._those(AGENT), signal.SIGKILL)\n", ""),
    ),
    mutant(
        "wake-the-suspended",
        "a suspended agent is continued, so that it can end in order",
        "it is killed, and its files stay behind",
        "stubborn/suspended",
        ("stop/terminate.py", "                if suspended:\n", "                if False:\n"),
    ),
    mutant(
        "stopped-is-proved",
        "stop says stopped only after a new judgement says so",
        "an agent that still works is called stopped",
        "resurrect/command_that_lies",
        ("stop/stop.py", "        if over and not outcome.living:\n", "        if True:\n"),
    ),
    mutant(
        "own-command",
        "a session that a daemon would bring back is ended by the agent's own command",
        "it is back seconds later",
        "resurrect/resurrect",
        (
            "stop/stop.py",
            "        if command is not None:\n            return self._by_command(",
            "        if False:\n            return self._by_command(",
        ),
        (
            "stop/stop.py",
            "if targets.resident is None and command is None and not all(way.signals for way in ways.values()):",
            "ways = {key: Way() for key in ways}\n        if False:",
        ),
    ),
    # Launch
    mutant(
        "store-names-the-id",
        "our launch record does not prove the session id",
        "launch prints an id that the agent may never use",
        "unflushed/unflushed_launch",
        (
            "launch/await_session.py",
            "if link.agent == ours.launch.agent and link.key in ours.agents and link.path != ours.launch.path",
            "if link.agent == ours.launch.agent and link.key in ours.agents",
        ),
    ),
    mutant(
        "launch-is-no-life",
        "a process holds a directory, a launch record does not",
        "the directory of a dead agent stays closed as long as any process has its pid",
        "lock-of-dead/lock_of_a_recycled_pid",
        (
            "workspace/occupancy.py",
            "if processes.alive(launch.child) is not None or",
            "if processes.get(launch.child.pid) is not None or",
        ),
    ),
    mutant(
        "locks-not-listed",
        "a folder of locks that cannot be listed may hold any lock",
        "an agent is let into a locked directory",
        "lock-not-read/lock_not_read",
        (
            "workspace/locks.py",
            'return [], [Problem(OWNER, f"its locks cannot be read: {error.strerror or error}", folder)]',
            "return [], []",
        ),
    ),
    mutant(
        "lock-not-read",
        "a lock that cannot be read keeps agents out of its directory",
        "an agent is let into a locked directory",
        "lock-not-read/lock_not_read",
        ("launch/start.py", "        if mine and not order.force:\n", "        if False:\n"),
    ),
    mutant(
        "broken-configuration",
        "a command that acts does not go on without what a person has set",
        "an agent is launched without the permissions and the model that were set for it",
        "tests/cli/test_words.py::test_what_acts_refuses_in_one_line",
        ("cli/__init__.py", "    if not may_go_on:\n", "    if False:\n"),
    ),
    mutant(
        "exit-explains-the-gone",
        "the exit of a launch's first process explains only a session that is gone",
        "a session that works on has the exit code of its wrapper",
        "wrapper-exit/wrapper_of_a_launch",
        ("query/present.py", "if case.launched is None or verdict.process != GONE:", "if case.launched is None:"),
    ),
    mutant(
        "agent-left-by-its-wrapper",
        "what runs below a launch's runner is the launch's own, also after its wrapper has ended",
        "launch waits a minute for a session that is there, and calls it a timeout",
        "wrapper-exit/wrapper_gone_before_the_session",
        (
            "launch/await_session.py",
            "return {*ours.agents, *(process.key for process in below)}",
            "return set(ours.agents)",
        ),
    ),
    mutant(
        "wrapper-before-its-agent",
        "what a wrapper left behind may be about to execute the agent: nobody is told for a moment that it is over",
        "launch says that the agent has ended, and stop that the launch is over, while the agent starts",
        "wrapper-exit/wrapper_gone_before_the_agent",
        ("query/attribution.py", "    return list(left.values())\n", "    return []\n"),
    ),
    mutant(
        "foreign-proc-of-a-runner",
        "a runner that sees another PID namespace in /proc starts nothing",
        "launch.json names strangers as the agent and its runner",
        "tests/query/test_foreign_proc.py::test_a_runner_starts_nothing_if_strangers_have_its_pids",
        (
            "launch/runner.py",
            '    if not os.path.islink("/proc/self") or os.readlink("/proc/self") != str(os.getpid()):\n',
            "    if False:\n",
        ),
    ),
    mutant(
        "gate",
        "one launch at a time looks at a directory and starts there",
        "two simultaneous launches both get in",
        "tests/launch/test_gate.py::test_a_launch_waits_for_another_that_is_at_the_gate_of_its_directory",
        ("launch/start.py", "        gates.enter_context(locks.gate(env, order.cwd))\n", ""),
    ),
    mutant(
        "busy-directory",
        "launch refuses a directory in which an agent works",
        "two agents write to the same files",
        "gate/gate unflushed/unflushed_launch",
        (
            "launch/start.py",
            "        if conflict.kind != occupancy.WARNS and not order.force:\n",
            "        if False:\n",
        ),
    ),
    mutant(
        "one-writer",
        "a live session is not resumed",
        "two processes write one transcript",
        "resume-live/resume_live",
        (
            "launch/start.py",
            "    if session.process == GONE:\n        return None\n",
            "    if True:\n        return None\n",
        ),
    ),
    mutant(
        "record-before-the-agent",
        "the agent starts only after its launch is on disk",
        "an agent runs that no record mentions",
        "disk-full/disk_full_launch",
        ("launch/runner.py", "    write_launch,\n    let_go,\n", "    let_go,\n    write_launch,\n"),
        (
            "launch/runner.py",
            '        os.kill(state["child"], signal.SIGKILL)  # held, and not reaped: the pid is its own\n',
            "",
        ),
    ),
    mutant(
        "held-until-told",
        "an agent that reads end of file instead of the go byte is not executed",
        "a runner that is killed halfway leaves an agent that no record mentions",
        "tests/launch/test_runner_crashes.py::test_the_runner_is_killed[fork_held]",
        ("launch/runner.py", '        if os.read(held, 1) != b"g":\n', '        if os.read(held, 1) == b"x":\n'),
    ),
    mutant(
        "input-by-a-file",
        "a prompt is passed in a file, not through a pipe",
        "an agent whose launcher is killed works on half a prompt",
        "crash-anywhere/half_a_prompt",
        (
            "launch/spawn.py",
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
        "on-complete is marked before it runs, by a file that only one process can create",
        "every process that asks runs it",
        "on-complete-once/on_complete_once",
        (
            "launches/hooks.py",
            "os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))",
            "os.O_WRONLY | os.O_CREAT, 0o600))",
        ),
    ),
    mutant(
        "private-state",
        "a state folder that others can write to is not trusted",
        "a forged launch can have any process ended",
        "private-state/private_state",
        ("files/private.py", "    if found.st_mode & OTHERS_MAY_WRITE:\n", "    if False:\n"),
    ),
    mutant(
        "kept-while-it-lives",
        "a launch folder stays while any process of the launch lives",
        "the output of a live agent is removed under it",
        "tests/launches/test_retention.py::test_never_while_a_process_of_its_keys_lives",
        ("launches/retention.py", "    if living:\n        return", "    if False:\n        return"),
    ),
    mutant(
        "no-nul",
        "a prompt with a NUL is refused",
        "the agent gets a different prompt",
        "prompt-odd/prompt_odd",
        ("launch/prompt.py", '    if "\\0" in text:\n', "    if False:\n"),
        ("launch/prompt.py", '    if b"\\0" in data:\n', "    if False:\n"),
    ),
)
