"""Defences of what the kernel proves and what it only names: locks, other users, boots, namespaces, first threads."""

from __future__ import annotations

from tests.mutants.model import mutant

KERNEL = (
    mutant(
        "lock-proof",
        "who the kernel's lock list names owns the lock only if its open files hold it",
        "a stranger with the pid of a dead agent is taken for it, and stop ends the stranger",
        "pid-recycled/lock_names_a_stranger tests/kernel/test_lock_proof.py::test_only_who_holds_it_owns_it",
        (
            "kernel/one_process.py",
            "lambda base: lock_proof.holds(base, identity, path), False)",
            "lambda base: True, False)",
        ),
    ),
    mutant(
        "lock-closed",
        "nobody knows who holds the lock of a thread if we may not look into the process that the list names",
        "a live session of another user is firmly stopped",
        "pid-recycled/lock_of_a_closed_process",
        ("agents/codex/store.py", "for process in processes.unproved_owners(path):", "for process in ():"),
    ),
    mutant(
        "first-thread",
        "what a process runs is read from a living thread if its first thread has ended",
        "an agent under another name is firmly stopped while it works",
        "zombie/zombie_leader_of_another_name",
        (
            "kernel/linux.py",
            "            tid = one_process.living_thread(pid)\n",
            "            tid = None\n",
        ),
    ),
    mutant(
        "foreign-agents",
        "an agent of another user who can change the store stands against a firm end",
        "live agents of root in a user's store are firmly stopped",
        "other-user/agents_of_root",
        ("query/strangers.py", "if is_foreign(claim) and claim.role in (AGENT, DAEMON)", "if False"),
    ),
    mutant(
        "foreign-who-cannot",
        "an agent of another user who cannot change the store says nothing",
        "on a machine with several users no killed session is ever firmly stopped",
        "other-user/others_who_cannot",
        ("query/strangers.py", "return user in (None, 0, found.st_uid) or bool(found.st_mode & 0o022)", "return True"),
    ),
    mutant(
        "evidence-of-any-user",
        "whose a process is does not limit what counts as evidence",
        "root calls a user's live agents firmly stopped if they run under other names",
        "other-user/asked_by_root other-user/another_real_user",
        (
            "query/strangers.py",
            "    if details is None:\n        return\n    if any(",
            "    if details is None or details.uid != os.getuid():\n        return\n    if any(",
        ),
    ),
    mutant(
        "closed-by-us",
        "if we may not look into our own user's processes, the table is not complete",
        "in a user namespace, live agents under other names are firmly stopped",
        "closed-process/closed_by_our_namespace",
        ("kernel/processes.py", "return self.hidden or self.closed() or", "return self.hidden or"),
    ),
    mutant(
        "boot-of-a-container",
        "another boot proves an end only if the record is older than the boot of this machine",
        "live agents and launches in a container with a boot id of its own are firmly stopped",
        "inner-namespace/boots_and_clocks_of_containers inner-namespace/a_launch_with_its_own_boot",
        (
            "kernel/recorded.py",
            "return key if written_at < booted_at() - GRAIN else key.recorded_in(namespace or UNNAMED)",
            "return key",
        ),
    ),
    mutant(
        "boot-before-ours",
        "a record that is older than the boot of this machine names no live process",
        "what was killed by a reboot stays unknown forever",
        "sibling-namespace/strangers_key inner-namespace/boots_and_clocks_of_containers",
        ("kernel/recorded.py", "return key if written_at < booted_at() - GRAIN else", "return"),
    ),
    mutant(
        "inner-clock",
        "a pid of an inner PID namespace is looked up by the clock of its process",
        "an agent in a PID and a time namespace is firmly stopped",
        "inner-namespace/boots_and_clocks_of_containers tests/kernel/test_namespaces.py"
        "::test_a_process_of_an_inner_namespace_and_another_clock_is_found",
        ("kernel/processes.py", "for row, own_start in self._in_other_clocks():", "for row, own_start in ():"),
    ),
    mutant(
        "root-of-the-machine",
        "a root that may be the machine's is no root of our own",
        "in a sandbox with / bound and entered by chroot, live agents outside are firmly stopped",
        "tests/kernel/test_mounts.py::test_the_root_of_a_container_is_its_own",
        ("kernel/mounts.py", "is_root and not self._may_be_the_machines()", "is_root"),
    ),
    mutant(
        "unplaced-agent",
        "an agent whose environment cannot be read may work in a store that nobody knows of",
        "a live session is not found, and nothing says that something could not be read",
        "closed-process/only_its_environment_names_its_store",
        ("query/sessions.py", ", *unplaced(located, readings))", ")"),
    ),
    mutant(
        "housemates",
        "stop does not end the first process of a container in which other agents work",
        "the stop of one session ends another, which nobody named",
        "tests/stop/test_containers.py::test_stop_names_them_and_refuses",
        ("stop/plan.py", "if others := ground.housemates.get(key):", "if others := ():"),
    ),
    mutant(
        "first-thread-since",
        "a process whose first thread has ended since the table was read still holds its locks",
        "a live session is called stopped in that moment",
        "tests/kernel/test_lock_proof.py::test_a_first_thread_that_ended_since_the_table_was_read",
        (
            "kernel/one_process.py",
            "        base = base_of(now)\n",
            "        pass\n",
        ),
    ),
    mutant(
        "frozen-cgroup",
        "an agent whose cgroup is frozen is suspended",
        "an agent that `docker pause` keeps from running is said to run",
        "tests/kernel/test_frozen.py::test_frozen",
        ("kernel/one_process.py", 'if not controllers and any(b"frozen 1" in', 'if False and any(b"frozen 1" in'),
    ),
    mutant(
        "frozen-shown",
        "a frozen process is shown as a suspended one",
        "an agent that `docker pause` keeps from running is said to run",
        "tests/kernel/test_frozen.py::test_a_frozen_agent_is_suspended",
        ("query/present.py", "(row.suspended or row.key in scene.frozen)", "row.suspended"),
    ),
)
