"""Defences of what agentctl says and does across PID namespaces."""

from __future__ import annotations

from tests.mutants.model import mutant

NAMESPACES = (
    mutant(
        "who-sees-all",
        "root sees hidden processes only with the right to trace them, in the user namespace of the machine",
        "root of a user namespace calls live agents stopped that /proc hides from it",
        "tests/kernel/test_mounts.py::test_who_sees_all_processes",
        ("kernel/access.py", "return is_of_the_machine() and bool(powers", "return bool(powers"),
    ),
    mutant(
        "recorded-namespace",
        "a launch of another PID namespace is not looked up in ours",
        "a live launch is called stopped in a sandbox, and its folder is removed; a stranger is taken for it",
        "sibling-namespace/sibling_launch sibling-namespace/strangers_key",
        (
            "kernel/recorded.py",
            "return key if namespace is None else key.recorded_in(namespace)",
            "return key",
        ),
    ),
    mutant(
        "namespace-in-the-index",
        "a cached launch names its PID namespace, and its key counts where the cache is read",
        "a command of another namespace takes the cached keys for its own",
        "tests/launches/test_index.py::test_another_namespace_reads_the_same_file",
        ("launches/index.py", 'if set(columns["namespace"]) - {None, own_pid_namespace()} or', "if False and"),
    ),
    mutant(
        "file-of-another-namespace",
        "a pid file of another PID namespace is only looked up there",
        "a stranger with its pid and start is taken for the agent, and signalled",
        "sibling-namespace/strangers_file",
        ("agents/claude_code/store.py", "if domain != ours:", "if False:"),
    ),
    mutant(
        "launched-elsewhere",
        "the session of a launch in another PID namespace is unknown",
        "it is called stopped, because no process of it is in our table",
        "sibling-namespace/strangers_key",
        ("query/judge.py", "if case.unseen is not None:", "if False:"),
    ),
    mutant(
        "gone-elsewhere",
        "a process of another PID namespace is gone only if we would see it",
        "a live launch is proved gone in a sandbox",
        "sibling-namespace/sibling_launch tests/kernel/test_namespaces.py"
        "::test_not_seen_is_gone_only_where_it_would_be_seen",
        (
            "kernel/processes.py",
            "return self._outermost or any(self._source.pid_namespace(row) == namespace for row, _ in inner)",
            "return True",
        ),
    ),
    mutant(
        "inner-launch",
        "a launch of a PID namespace below ours is found by namespace, pid and start",
        "a live launch of a container is unknown, and cannot be stopped",
        "inner-namespace/inner_launch",
        ("kernel/processes.py", "return named[0] if named else None", "return None"),
    ),
    mutant(
        "inner-launch-by-its-namespace",
        "equal pid and start are of another process if its PID namespace is another one",
        "a process of another container is taken for the launch",
        "tests/kernel/test_namespaces.py::test_a_process_of_an_inner_namespace_is_known_by_namespace_pid_and_start",
        (
            "kernel/processes.py",
            "return key.namespace == UNNAMED or self._source.pid_namespace(row) in (None, key.namespace)",
            "return True",
        ),
        (
            "kernel/processes.py",
            "named = [row for row in rows if key.namespace in (UNNAMED, self._source.pid_namespace(row))]",
            "named = rows",
        ),
    ),
    mutant(
        "clock-of-a-launch",
        "a launch of a time namespace is the process whose own clock says that start",
        "a live launch is called gone, and stop does not end it",
        "clock-step/launch_in_a_time_namespace",
        (
            "kernel/processes.py",
            "and start is not None and start not in (row.key.start, self.own_start(row)):",
            "and start is not None and start != row.key.start:",
        ),
    ),
    mutant(
        "copied-mounts",
        "in a sandbox with the mounts of the namespace around it, processes outside may be on its stores",
        "live sessions of agents outside are called stopped in the sandbox",
        "sibling-namespace/sibling_agents",
        ("kernel/mounts.py", "if (is_ours and not self._is_copied(root)) or", "if is_ours or"),
        ("kernel/mounts.py", "        return mount not in older and all(", "        return True or all("),
    ),
    mutant(
        "no-thread",
        "agentctl answers if the kernel gives it no thread",
        "under `unshare --pid` every command fails with a raw error",
        "foreign-proc/foreign_proc",
        ("kernel/stall_guard.py", "daemon=True).start_or_run()", "daemon=True).start()"),
    ),
    mutant(
        "foreign-proc-later",
        "a runner over whose /proc another one was put records no key",
        "exits.jsonl names a stranger",
        "tests/query/test_foreign_proc.py::test_a_runner_records_nothing_of_a_stranger",
        ("launch/runner.py", "    prove_own_proc()\n    data = read", "    data = read"),
    ),
    mutant(
        "blind-launch",
        "nothing is launched if /proc does not show our own processes",
        "only the runner finds out, and the error is its own",
        "foreign-proc/foreign_proc no-proc/no_proc",
        ("launch/start.py", "if (blind := look.world.processes.blind) is not None:", "if (blind := None) is not None:"),
    ),
    mutant(
        "handle-elsewhere",
        "a process that was recorded in another PID namespace is never opened to be signalled",
        "it counts as ended, which is not known",
        "tests/kernel/test_namespaces.py::test_nothing_holds_or_watches_what_was_recorded_elsewhere",
        ("kernel/handles.py", "        if key.namespace is not None:\n", "        if False:\n"),
    ),
    mutant(
        "stop-elsewhere",
        "stop refuses a launch of another PID namespace",
        "it says that the launch is gone, and it lives",
        "sibling-namespace/sibling_without_session",
        (
            "stop/stop.py",
            "if (unseen := why_unseen(launch, look.world.processes)) is not None:",
            "if (unseen := None) is not None:",
        ),
    ),
    mutant(
        "wait-elsewhere",
        "a launch of another PID namespace without a session ends a wait: it cannot be known",
        "wait says that it lives, and waits for ever",
        "sibling-namespace/sibling_without_session",
        (
            "wait.py",
            "if (unseen := why_unseen(launch, looked.processes)) is not None:",
            "if (unseen := None) is not None:",
        ),
    ),
    mutant(
        "directory-of-a-launch-elsewhere",
        "a launch of another PID namespace keeps its directory",
        "a second agent is let into the directory of a live one",
        "sibling-namespace/sibling_without_session",
        (
            "workspace/occupancy.py",
            "return launch.child.namespace is not None and not processes.gone(launch.child)",
            "return False",
        ),
    ),
    mutant(
        "directory-out-of-sight",
        "a session in mid-turn whose process cannot be seen from here keeps its directory",
        "a second agent is let into the directory of a live one outside of the sandbox",
        "sibling-namespace/sibling_agents",
        (
            "workspace/occupancy.py",
            "session.rule in OUT_OF_SIGHT and session.turn in (WORKING, WAITING)",
            "False",
        ),
    ),
)
