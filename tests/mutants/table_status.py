"""Defences of what agentctl says: identity, order of reading, completeness, links."""

from __future__ import annotations

from tests.mutants.model import mutant

STATUS = (
    # Identity
    mutant(
        "key-compare",
        "a process is identified by boot id, pid and start time",
        "another process with a dead agent's pid is taken for the agent",
        "pid-recycled/pid_recycled_by_its_like "
        "tests/kernel/test_processes.py::test_another_process_with_the_pid_is_not_it",
        (
            "kernel/processes.py",
            "return row if row is not None and row.key == key and not row.dead else None",
            "return row if row is not None and not row.dead else None",
        ),
    ),
    mutant(
        "start-ticks",
        "a pid file counts only if its start time is that of the process",
        "a stale file makes another process the agent",
        "tests/kernel/test_processes.py::test_another_process_with_the_pid_is_not_it",
        (
            "kernel/processes.py",
            "if row is not None and start is not None and start not in (row.key.start, self.own_start(row)):",
            "if False:",
        ),
    ),
    mutant(
        "boot-id",
        "a process key from before a reboot is gone",
        "after a reboot another process is taken for the agent",
        "tests/kernel/test_namespaces.py::test_a_container_may_have_a_boot_of_its_own",
        (
            "kernel/processes.py",
            "return self.find(key.pid, key.start) if key.boot == self.boot else None",
            "return self.find(key.pid, key.start)",
        ),
    ),
    mutant(
        "boot-id-of-a-launch",
        "a launch record from before a reboot names no process",
        "after a reboot another process holds the directory, and stop ends it",
        "reboot/reboot_launch",
        (
            "kernel/processes.py",
            "return self.find(key.pid, key.start) if key.boot == self.boot else None",
            "return self.find(key.pid, key.start)",
        ),
    ),
    mutant(
        "own-clock",
        "start times are compared as the process itself reads them",
        "inside a time namespace every live agent is called dead",
        "clock-step/time_namespace",
        (
            "kernel/one_process.py",
            "return process.key.start + clock_shift(process.pid) - own_clock_shift()",
            "return process.key.start",
        ),
    ),
    mutant(
        "zombie",
        "a zombie is dead",
        "an agent that was killed and not reaped runs for ever",
        "zombie/zombie zombie/zombie_opencode",
        (
            "kernel/one_process.py",
            'dead = state in DEAD and not (state == "Z" and living_thread(pid) is not None)',
            "dead = False",
        ),
    ),
    mutant(
        "zombie-leader",
        "a zombie whose other threads live is alive",
        "an agent whose first thread has ended is called dead",
        "zombie/zombie_leader",
        (
            "kernel/one_process.py",
            'dead = state in DEAD and not (state == "Z" and living_thread(pid) is not None)',
            "dead = state in DEAD",
        ),
    ),
    mutant(
        "inner-pid",
        "a process is also found by its pid in an inner PID namespace",
        "an agent in a container is called dead",
        "tests/kernel/test_namespaces.py::test_a_pid_of_an_inner_namespace_is_found_by_its_start",
        (
            "kernel/processes.py",
            "for row in self._started(start):",
            "for row in ():",
        ),
    ),
    mutant(
        "device-of-a-lock",
        "the owner of a lock is found by the device of the mount",
        "on overlay and btrfs every codex is unattached",
        "foreign/foreign_on_overlay",
        (
            "kernel/mounts.py",
            "return mount.major, mount.minor, found.st_ino",
            "return os.major(found.st_dev), os.minor(found.st_dev), found.st_ino",
        ),
    ),
    mutant(
        "fork-before-exec",
        "between fork and exec a child is not a second agent",
        "an agent that starts a tool is shown twice",
        "one-process-five-sessions/a_fork_that_is_no_agent",
        (
            "query/candidates.py",
            "return above is not None and (above.argv, above.exe) == (details.argv, details.exe)",
            "return False",
        ),
    ),
    mutant(
        "fork-of-a-writer",
        "a child that still has its parent's place in the log is not its writer",
        "an opencode session has two processes",
        "one-process-five-sessions/a_fork_of_opencode",
        ("agents/opencode/store.py", "if above is None or above[1].run != trail.run:", "if True:"),
        (
            "query/candidates.py",
            "return above is not None and (above.argv, above.exe) == (details.argv, details.exe)",
            "return False",
        ),
    ),
    # Order of reading
    mutant(
        "records-after-the-table",
        "records are read after the process table",
        "a session that ends normally during the look is called killed in mid-turn",
        "normal-end/end_in_between normal-end/opencode_in_between",
        (
            "query/sessions.py",
            "    readings = without_copies(with_new_names(opened))\n",
            "    readings = without_copies(with_new_names(opened))\n"
            "    for one in readings:\n"
            "        if one.usable:\n"
            "            read = {id: one.store.record(id) for id in one.store.recent(0.0)}\n"
            "            early = {id: record._replace(stamp=(0, 0)) for id, record in read.items() if record}\n"
            "            late = one.store.record\n"
            "            one.store.record = lambda id, tokens=0, early=early, late=late: early.get(id) or late(id)\n",
        ),
    ),
    mutant(
        "newer-than-the-table",
        "a record that is newer than the process table ends nothing",
        "a session that begins during the look is called killed",
        "normal-end/begin_in_between normal-end/opencode_in_between",
        (
            "query/store_reader.py",
            "record = record._replace(fresh=True)",
            "pass",
        ),
    ),
    mutant(
        "registered-meanwhile",
        "a claude that registers after the store was read is looked at again",
        "an agent that begins during the look is missed",
        "normal-end/begin_before_the_table",
        (
            "agents/claude_code/store.py",
            "if name not in self._registered and (file := self._registration(name, processes)):",
            "if False and (file := self._registration(name, processes)):",
        ),
    ),
    mutant(
        "registered-meanwhile-demo",
        "a demo agent that registers after the store was read is looked at again",
        "an agent that begins during the look is missed",
        "normal-end/begin_before_the_table",
        ("agents/demo/store.py", "        self._catch_up(processes)\n", ""),
    ),
    mutant(
        "second-look",
        "two states that look alike for a moment are looked at twice",
        "a command that is about to start is called a question, and a turn that is about to end is called interrupted",
        "permission/permission_for_a_moment killed-mid-turn/not_interrupted_at_all",
        (
            "query/sessions.py",
            "if not (latest.moving or (latest.doubtful and attempt == 0)):",
            "if True:",
        ),
    ),
    mutant(
        "between-two-programs",
        "an agent that is between two of its programs still counts",
        "the session that it is on is called stopped",
        "tests/query/test_passers.py::test_an_agent_between_two_of_its_programs_still_counts",
        ("query/sessions.py", "if not claim.vague or claim.process.key in before)", "if not claim.vague)"),
    ),
    mutant(
        "torn-file-again",
        "a half-written file is read again a moment later",
        "an agent that is writing its status is unknown, with a problem",
        "torn/torn_while_polled",
        ("files/bounded.py", "TORN_TRIES = 4", "TORN_TRIES = 1"),
    ),
    mutant(
        "old-tail",
        "text after a whole object in a file is left over from a longer one",
        "an agent that has just changed its status cannot be read",
        "torn/torn_for_good",
        ("files/bounded.py", "value, _ = fast_json.raw_decode(text)", "value = fast_json.loads(text)"),
    ),
    # Completeness
    mutant(
        "hidden-processes",
        "if /proc hides processes, a missing process proves nothing",
        "live sessions of other users are called stopped",
        "tests/kernel/test_linux.py::test_a_process_table_that_refuses_entries_is_incomplete",
        (
            "kernel/linux.py",
            'hidden=f"{unseen} entries of {PROC} could not be read"\n        if unseen\n',
            "hidden=None\n        if unseen\n",
        ),
    ),
    mutant(
        "mount-of-its-own",
        "in a PID namespace, processes outside it may write to a store on a separate mount",
        "a session of the host is called stopped in the container",
        "scan-incomplete/shared_mount scan-incomplete/shared_mount_opencode",
        (
            "kernel/mounts.py",
            "is_ours = is_root and not self._may_be_the_machines()",
            "is_ours = not in_chroot",
        ),
    ),
    mutant(
        "chroot-in-a-namespace",
        "in a PID namespace, processes outside it may write to a store in a plain chroot",
        "a session of a process outside is called stopped in the chroot",
        "tests/kernel/test_statfs.py::"
        "test_who_is_outside_of_a_chroot_and_of_our_pid_namespace_may_write_to_a_store_in_it",
        (
            "kernel/mounts.py",
            "is_ours = is_root and not self._may_be_the_machines()",
            'is_ours = point == "/"',
        ),
    ),
    mutant(
        "foreign-proc",
        "a /proc of another PID namespace proves nothing",
        "strangers who have the pids are taken for agents, and signalled",
        "tests/query/test_foreign_proc.py::test_nobody_is_signalled",
        ("kernel/procfs.py", "if own != str(os.getpid()):", "if False:"),
    ),
    mutant(
        "shared-file-system",
        "other machines may write to a store on nfs, 9p and the like",
        "a session of another machine is called stopped",
        "tests/kernel/test_mounts.py::test_which_stores_others_may_write_to",
        ("kernel/mounts.py", "if kind not in LOCAL_FILE_SYSTEMS:", "if False:"),
    ),
    mutant(
        "closed-process",
        "an agent process that cannot be read may be on any session",
        "the session that it is on is called stopped",
        "scan-incomplete/closed_process",
        (
            "agents/claude_code/store.py",
            "return Candidates(None, sole=False, why=why)",
            "return Candidates((), sole=False, why=why)",
        ),
    ),
    mutant(
        "other-namespace",
        "a pid file from another PID namespace is not looked up in ours",
        "a live session of a container is called stopped",
        "scan-incomplete/other_namespace",
        ("query/judge.py", "if case.dead and any(link.here is False for link in case.dead):", "if False:"),
    ),
    mutant(
        "store-time-limit",
        "agentctl gives up on a store that makes no progress for 1.4 s",
        "one dead mount delays the sessions of all agents",
        "store-hangs/store_that_blocks",
        ("kernel/stall_guard.py", "STALL = 1.4", "STALL = 6.0"),
    ),
    mutant(
        "no-waiting-for-a-fifo",
        "files are opened without waiting for a writer",
        "a FIFO in place of a file blocks its store",
        "store-hangs/store_of_fifos",
        (
            "files/bounded.py",
            "os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)",
            "os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)",
        ),
    ),
    mutant(
        "unreadable-is-no-absence",
        "a store that cannot be read is a problem, not an empty store",
        "its sessions vanish without a word",
        "store-hangs/store_unreadable store-hangs/store_is_a_file",
        (
            "query/reading.py",
            "    except FileNotFoundError:\n        if os.path.lexists(root):\n            raise\n",
            "    except OSError:\n",
        ),
    ),
    # Links
    mutant(
        "sole-is-inferred",
        "the only process that can be on a session is inferred, not proved",
        "a guess is shown as a proof, and stop acts on it",
        "foreign/foreign_of_old_versions foreign/foreign_sole",
        (
            "query/judge.py",
            "Link(claim.agent, record.id, record.store, claim.key, how, SOLE, inferred=True, evidence=(fact,))",
            "Link(claim.agent, record.id, record.store, claim.key, how, 'exact', evidence=(fact,))",
        ),
    ),
    mutant(
        "sole-of-both-sides",
        "a session is linked to a process only if no other process can be on it",
        "one of two similar processes is chosen by chance",
        "two-in-one-cwd/two_without_a_log",
        (
            "query/judge.py",
            "if name in records and name not in taken and able == [claim] and not ",
            "if name in records and name not in taken and not ",
        ),
    ),
    mutant(
        "started-before",
        "a freshly started process cannot be on a session without a record newer than its start",
        "five killed sessions of a directory are unknown as long as any agent works there",
        "one-process-five-sessions/five_and_a_new_one",
        ("agents/claude_code/store.py", "since = 0.0 if resumes else started_at", "since = 0.0"),
    ),
    mutant(
        "candidate-in-mid-turn",
        "a session that a live process may be on is not called ended",
        "a session that is being resumed is called stopped",
        "one-process-five-sessions/five_killed_and_an_old_one unflushed/resumed_and_not_registered",
        ("query/judge.py", "    if gone is not None and not case.blockers and", "    if gone is not None and"),
        ("query/judge.py", "    if case.blockers:\n        return", "    if False:\n        return"),
    ),
    mutant(
        "candidate-at-rest",
        "a closed turn that a live process may continue is inferred",
        "a session that is being resumed is firmly done",
        "one-process-five-sessions/five_and_an_old_one",
        ("query/judge.py", "    inferred = bool(doubt) or bool(record and record.inferred)", "    inferred = False"),
    ),
    mutant(
        "may-be-brought-back",
        "a session that the agent's own live daemon lists as unfinished is unknown",
        "a worker that is back seconds later is called stopped",
        "resurrect/resurrect_pending",
        ("query/judge.py", "    if case.supervisors:\n", "    if False:\n"),
    ),
    mutant(
        "settled-job",
        "a job that the daemon lists as done is not brought back",
        "a finished background session is unknown as long as the daemon lives",
        "resurrect/settled",
        ("agents/claude_code/store.py", 'if id is None or state in ("done", "stopped", "failed"):', "if id is None:"),
    ),
    mutant(
        "job-of-a-worker",
        "a background worker is on the session of its job, whatever id it registers at first",
        "an unknown session runs, and the real one is stopped",
        "native-daemon/claude_respawned_worker",
        (
            "agents/claude_code/store.py",
            'if file.get("kind") == "bg" and job and id and not id.startswith(job):',
            "if False:",
        ),
    ),
    mutant(
        "sub-agents",
        "a sub-agent lives in its parent's process",
        "a working sub-agent is called stopped",
        "killed-mid-turn/sub_agents",
        (
            "query/judge.py",
            "children[name] = decide_child(cases[name], verdicts[name], cases[top], verdicts[top], world)",
            "children[name] = verdicts[name]",
        ),
    ),
    mutant(
        "parents-are-read",
        "the parent of a sub-agent is always read as well",
        "status and why contradict list",
        "list-vs-status@killed-mid-turn/sub_agents",
        ("query/store_reader.py", "if parent is not None and parent not in self._asked:", "if False:"),
    ),
    mutant(
        "word-of-the-dead",
        "the last status of a dead process does not say how it ended",
        "an agent that was killed at a question waits for a person for ever",
        "stale-native/stale_native",
        (
            "query/judge.py",
            "    turn = disk_turn(case)\n    if case.supervisors:",
            "    turn = next((link.turn for link in case.dead if link.turn), None) or disk_turn(case)\n"
            "    if case.supervisors:",
        ),
    ),
    mutant(
        "prompt-was-given",
        "our own headless launch that has written nothing works on its prompt",
        "the status of a fresh launch is unclear",
        "unflushed/unflushed_launch",
        (
            "query/judge.py",
            "if turn in (UNKNOWN, IDLE) and is_before_its_end(case, link):",
            "if False:",
        ),
    ),
    # One home, one row
    mutant(
        "home-scope",
        "agents with another HOME are not shown",
        "the agents of everyone who shares the user are shown",
        "other-home/other_home",
        (
            "query/candidates.py",
            "many, shown = agent.RUNS_MANY, claimed.ours is not False",
            "many, shown = agent.RUNS_MANY, True",
        ),
    ),
    mutant(
        "home-of-a-store",
        "only stores of agents with our HOME are read",
        "sessions of another home are listed",
        "other-home/other_home other-home/other_home_opencode",
        ("query/candidates.py", "if claim.ours and claim.root is not None and", "if claim.root is not None and"),
    ),
    mutant(
        "remembered-stores",
        "a store that was seen in a live agent's environment is remembered",
        "its sessions vanish when the agent ends",
        "other-home/other_store",
        ("query/sessions.py", "        forgotten += remembered.remember(fresh, env)\n", ""),
    ),
    mutant(
        "one-store-two-names",
        "two paths to one store are one store",
        "problems and sessions appear twice",
        "tests/query/test_one_store.py::test_one_store_under_two_paths_is_one",
        (
            "query/reading.py",
            "if reading.identity is None or (reading.agent.NAME, reading.identity) not in seen:",
            "if True:",
        ),
    ),
    mutant(
        "newest-copy",
        "if a session has several files, the one that was written last counts",
        "an old copy makes a finished session stopped",
        "no-double/no_double",
        (
            "agents/claude_code/store.py",
            "return paths[0] if len(paths) == 1 else max(paths, key=last_record, default=None)",
            "return min(paths, key=last_record, default=None)",
        ),
    ),
    # Turns
    mutant(
        "dialog-of-a-person",
        "a dialog that the person opened is not a question of the agent",
        "an agent at its prompt is called waiting",
        "permission/permission_claude",
        ("agents/claude_code/observing.py", 'if link.waiting_for == "dialog open" and (', "if False and ("),
    ),
    mutant(
        "approvals-off",
        "codex asks no one if its approvals are off",
        "a running command is shown as a question",
        "permission/permission_codex",
        ("agents/codex/store.py", 'if not calls or record.policy == "never":', "if not calls:"),
    ),
    mutant(
        "deep-nesting",
        "a line that is nested too deeply is skipped",
        "one line in one file hides all sessions of its store",
        "hostile/hostile_claude",
        (
            "files/bounded.py",
            "    except (ValueError, RecursionError):\n        return None",
            "    except ValueError:\n        return None",
        ),
    ),
    mutant(
        "escape-sequences",
        "control and format characters are shown, not sent",
        "a title in a transcript can send escape sequences to the terminal",
        "hostile/hostile_words",
        ("cli/output.py", "char if char.isprintable() else", "char if True else"),
    ),
)
