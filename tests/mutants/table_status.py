"""The defences of what is said: identity, order of reading, completeness, links."""

from __future__ import annotations

from tests.mutants.model import mutant

STATUS = (
    # Identity
    mutant(
        "key-compare",
        "a process is its boot, pid and start ticks",
        "a stranger with the pid of a dead agent is taken for it",
        "pid-recycled/pid_recycled stale-native/stale_native",
        (
            "processes/__init__.py",
            "return row if row is not None and row.key == key and not row.dead else None",
            "return row if row is not None and not row.dead else None",
        ),
    ),
    mutant(
        "start-ticks",
        "a pid file counts only with the start ticks of the process",
        "a stale file makes a stranger the agent",
        "pid-recycled/pid_recycled pid-recycled/pid_recycled_stop",
        (
            "processes/__init__.py",
            "(start is None or row.key.start == start or self.own_start(row) == start)",
            "True",
        ),
    ),
    mutant(
        "boot-id",
        "a key of another boot is gone",
        "after a reboot somebody else is the agent",
        "reboot/reboot",
        (
            "agents/demo.py",
            "if pid is None or start is None or boot != processes.boot:",
            "if pid is None or start is None:",
        ),
    ),
    mutant(
        "boot-id-of-a-launch",
        "the record of a launch of another boot names nobody",
        "after a reboot a stranger holds the directory, and stop ends it",
        "reboot/reboot_launch",
        ("launched.py", "if launch.child.boot != processes.boot:", "if False:"),
    ),
    mutant(
        "own-clock",
        "start times are compared as the process itself reads them",
        "from inside a time namespace every live agent is a dead one",
        "clock-step/time_namespace",
        (
            "processes/linux.py",
            'return process.key.start + clock_shift(process.pid) - clock_shift("self")',
            "return process.key.start",
        ),
    ),
    mutant(
        "zombie",
        "a zombie is dead",
        "an agent that was killed and not reaped runs for ever",
        "zombie/zombie zombie/zombie_opencode",
        (
            "processes/linux.py",
            'dead = state in DEAD and not (state == "Z" and has_living_thread(pid))',
            "dead = False",
        ),
    ),
    mutant(
        "zombie-leader",
        "a zombie whose other threads live is alive",
        "an agent whose first thread has ended is called dead",
        "zombie/zombie_leader",
        (
            "processes/linux.py",
            'dead = state in DEAD and not (state == "Z" and has_living_thread(pid))',
            "dead = state in DEAD",
        ),
    ),
    mutant(
        "inner-pid",
        "a process is also found by its pid in an inner PID namespace",
        "an agent in a container is called dead",
        "foreign/foreign_in_a_container",
        (
            "processes/__init__.py",
            "for row in self._started(start) if start is not None else ():",
            "for row in ():",
        ),
    ),
    mutant(
        "device-of-a-lock",
        "the owner of a lock is looked for by the device of the mount",
        "on overlay and btrfs every codex is unattached",
        "foreign/foreign_on_overlay",
        (
            "processes/linux.py",
            "return (mount[1], mount[2], inode) if mount else None",
            "return (os.major(os.stat(path).st_dev), os.minor(os.stat(path).st_dev), inode)",
        ),
    ),
    mutant(
        "fork-before-exec",
        "between fork and exec a child is not a second agent",
        "an agent that starts a tool is shown twice",
        "one-process-five-sessions/a_fork_that_is_no_agent",
        (
            "claims.py",
            "return above is not None and (above.argv, above.exe) == (details.argv, details.exe)",
            "return False",
        ),
    ),
    mutant(
        "fork-of-a-writer",
        "a child that still has its parent's place in the log is not its writer",
        "a session of opencode has two processes",
        "one-process-five-sessions/a_fork_of_opencode",
        ("agents/opencode.py", "if above is None or above[1].run != trail.run:", "if True:"),
        (
            "claims.py",
            "return above is not None and (above.argv, above.exe) == (details.argv, details.exe)",
            "return False",
        ),
    ),
    # Order of reading
    mutant(
        "records-after-the-table",
        "records are read after the process table",
        'a session that ends normally while we look was "killed in mid-turn"',
        "normal-end/end_in_between normal-end/opencode_in_between",
        (
            "sessions.py",
            "    found = without_copies(survey(agents, roots.known(agents, env), stalled))\n",
            "    found = without_copies(survey(agents, roots.known(agents, env), stalled))\n"
            "    for one in found:\n"
            "        if one.usable:\n"
            "            early = {id: one.store.record(id) for id in one.store.recent(0.0)}\n"
            "            one.records.update({id: record for id, record in early.items() if record is not None})\n",
        ),
    ),
    mutant(
        "newer-than-the-table",
        "a record that was written after the table ends nothing",
        "a session that begins while we look was killed",
        "normal-end/begin_in_between normal-end/opencode_in_between",
        (
            "readings.py",
            "return record._replace(fresh=True) if fresh else record",
            "return record",
        ),
    ),
    mutant(
        "registered-meanwhile",
        "who registered after the store was looked through is looked at again (claude)",
        "an agent that begins while we look is not found",
        "normal-end/begin_before_the_table",
        (
            "agents/claude_code.py",
            "if name not in self._registered and (file := self._registration(name)):",
            "if False and (file := self._registration(name)):",
        ),
    ),
    mutant(
        "registered-meanwhile-demo",
        "the same (demo agent)",
        "an agent that begins while we look is not found",
        "normal-end/begin_before_the_table",
        ("agents/demo.py", "        self._catch_up(processes)\n", ""),
    ),
    mutant(
        "second-look",
        "two states that look alike for a moment are looked at twice",
        "a command that is about to start is a question, a turn that is about to end was interrupted",
        "permission/permission_for_a_moment killed-mid-turn/not_interrupted_at_all",
        (
            "sessions.py",
            "if not (found.moving or (found.doubtful and attempt == 0)):",
            "if True:",
        ),
    ),
    mutant(
        "torn-file-again",
        "a file that is half-written is read again a moment later",
        "an agent that writes its status is unknown for that moment, with a problem",
        "torn/torn_while_polled",
        ("stores.py", "TORN_TRIES = 4", "TORN_TRIES = 1"),
    ),
    mutant(
        "old-tail",
        "what follows a whole object in a file is the tail of a longer one before it",
        "an agent that has just changed its status cannot be read",
        "torn/torn_for_good",
        ("stores.py", "value = jsontext.leading(text)", "value = jsontext.whole(text)"),
    ),
    # Completeness
    mutant(
        "hidden-processes",
        "where /proc hides processes, a missing one proves nothing",
        "the live sessions of others are called stopped",
        "scan-incomplete/hidden_processes scan-incomplete/hidden_opencode",
        (
            "processes/linux.py",
            'hidden=f"{unseen} entries of {PROC} could not be read" if unseen else mounts.hidepid(),',
            "hidden=None,",
        ),
    ),
    mutant(
        "mount-of-its-own",
        "in a PID namespace, a store on a mount of its own may be written to by others",
        "a session of the host is called stopped in the container",
        "scan-incomplete/shared_mount scan-incomplete/shared_mount_opencode",
        (
            "processes/linux.py",
            'if point != "/" and kind != "tmpfs" and link(f"{PROC}/self/ns/pid") != INITIAL_PID_NAMESPACE:',
            "if False:",
        ),
    ),
    mutant(
        "shared-file-system",
        "a store on nfs, 9p and the like may be written to by other machines",
        "a session of another machine is called stopped",
        "tests/test_linux_parsers.py::test_which_stores_others_may_write_to",
        ("processes/linux.py", "if kind in SHARED_FILE_SYSTEMS:", "if False:"),
    ),
    mutant(
        "closed-process",
        "an agent into which we may not look may be on any session",
        "the session that it is on is called stopped",
        "scan-incomplete/closed_process",
        (
            "agents/claude_code.py",
            "return Candidates(None, sole=False, why=why)",
            "return Candidates((), sole=False, why=why)",
        ),
    ),
    mutant(
        "other-namespace",
        "a pid file of another PID namespace is not looked up in ours",
        "a live session of a container is called stopped",
        "scan-incomplete/other_namespace",
        ("judge.py", "if case.dead and any(link.here is False for link in case.dead):", "if False:"),
    ),
    mutant(
        "store-time-limit",
        "a store that does not answer within 1.4 s is left behind",
        "one dead mount holds up the sessions of all agents",
        "store-hangs/store_that_blocks",
        ("readings.py", "STALL = 1.4", "STALL = 6.0"),
    ),
    mutant(
        "no-waiting-for-a-fifo",
        "files are opened without waiting for a writer",
        "a FIFO where a file should be holds up its store",
        "store-hangs/store_of_fifos",
        (
            "stores.py",
            "os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)",
            "os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)",
        ),
    ),
    mutant(
        "unreadable-is-no-absence",
        "a store that cannot be read is a problem, not an empty one",
        "its sessions vanish without a word",
        "store-hangs/store_unreadable store-hangs/store_is_a_file",
        (
            "readings.py",
            "except FileNotFoundError:\n            reading.absent",
            "except OSError:\n            reading.absent",
        ),
    ),
    # Links
    mutant(
        "sole-is-inferred",
        "the only process that can be on a session is inferred to be, not proved",
        "a guess is shown as a proof, and stop acts on it",
        "foreign/foreign_of_old_versions foreign/foreign_sole",
        (
            "judge.py",
            "Link(claim.agent, name[1], record.store, claim.key, how, SOLE, inferred=True, evidence=(fact,))",
            "Link(claim.agent, name[1], record.store, claim.key, how, EXACT, evidence=(fact,))",
        ),
    ),
    mutant(
        "sole-of-both-sides",
        "a session is a process's only if no other process can be on it",
        "of two alike processes one is chosen by chance",
        "two-in-one-cwd/two_without_a_log",
        (
            "judge.py",
            "if record is not None and not taken and able == [claim]:",
            "if record is not None and not taken:",
        ),
    ),
    mutant(
        "started-before",
        "a process that was started anew cannot be on a session with nothing newer than its start",
        "five killed sessions of a directory are unknown as long as anybody works there",
        "one-process-five-sessions/five_and_a_new_one",
        ("agents/claude_code.py", "since = 0.0 if resumes else started_at", "since = 0.0"),
    ),
    mutant(
        "candidate-in-mid-turn",
        "a session that a live process may be on is not called ended",
        "a session that is being resumed is called stopped",
        "one-process-five-sessions/five_killed_and_an_old_one unflushed/resumed_and_not_registered",
        ("judge.py", "    if gone is not None and not case.blockers:\n", "    if gone is not None:\n"),
        ("judge.py", "    if case.blockers:\n        return", "    if False:\n        return"),
    ),
    mutant(
        "candidate-at-rest",
        "a closed turn that a live process may go on with is inferred",
        "a session that is being resumed is firmly done",
        "one-process-five-sessions/five_and_an_old_one",
        ("judge.py", "    inferred = bool(doubt) or bool(record and record.inferred)", "    inferred = False"),
    ),
    mutant(
        "may-be-brought-back",
        "a session that the agent's own live daemon has as unfinished is unknown",
        "a worker that is back seconds later was called stopped",
        "resurrect/resurrect_pending",
        ("judge.py", "    if case.supervisors:\n", "    if False:\n"),
    ),
    mutant(
        "settled-job",
        "a job that the daemon has as done is not brought back",
        "a finished background session is unknown for as long as the daemon lives",
        "resurrect/settled",
        ("agents/claude_code.py", 'if id is None or state in ("done", "stopped", "failed"):', "if id is None:"),
    ),
    mutant(
        "job-of-a-worker",
        "a background worker is on the session of its job, whatever id it registers under at first",
        "a session that nobody knows runs, and the real one is stopped",
        "native-daemon/claude_respawned_worker",
        (
            "agents/claude_code.py",
            'if file.get("kind") == "bg" and job and id and not id.startswith(job):',
            "if False:",
        ),
    ),
    mutant(
        "sub-agents",
        "a sub-agent lives in its parent's process",
        "a sub-agent at work is called stopped",
        "killed-mid-turn/sub_agents",
        (
            "judge.py",
            "verdicts[name] = case, decide_child(case, own, cases[top], verdicts[top][1], world)",
            "verdicts[name] = case, own",
        ),
    ),
    mutant(
        "parents-are-read",
        "with a sub-agent its parent is read, whoever is asked about",
        "status and why say another thing than list",
        "list-vs-status@killed-mid-turn/sub_agents",
        ("readings.py", "if parent is not None and parent not in reading.asked:", "if False:"),
    ),
    mutant(
        "word-of-the-dead",
        "what a dead process said of itself does not tell how it ended",
        "an agent that was killed at a question waits for a person for ever",
        "stale-native/stale_native",
        (
            "judge.py",
            "    turn = disk_turn(case)\n    if case.record is not None and case.record.fresh:",
            "    turn = next((link.turn for link in case.dead if link.turn), None) or disk_turn(case)\n"
            "    if case.record is not None and case.record.fresh:",
        ),
    ),
    mutant(
        "prompt-was-given",
        "a headless launch of ours that has written nothing works on its prompt",
        "what an agent does that was just launched cannot be told",
        "unflushed/unflushed_launch",
        (
            "judge.py",
            "if turn in (UNKNOWN, IDLE) and is_before_its_end(case, link):",
            "if False:",
        ),
    ),
    # One home, one row
    mutant(
        "home-scope",
        "agents of another HOME are not shown",
        "the agents of everybody who shares the user are shown",
        "other-home/other_home",
        (
            "claims.py",
            "many, shown = one.agent.RUNS_MANY, one.ours is not False",
            "many, shown = one.agent.RUNS_MANY, True",
        ),
    ),
    mutant(
        "home-of-a-store",
        "only the stores of agents of our HOME are read",
        "sessions of another home are listed",
        "other-home/other_home other-home/other_home_opencode",
        ("claims.py", "if one.ours and one.root is not None and", "if one.root is not None and"),
    ),
    mutant(
        "remembered-stores",
        "a store that was seen in a live agent's environment is remembered",
        "with the agent its sessions vanish",
        "other-home/other_store",
        ("sessions.py", "        roots.remember(fresh, env)\n", ""),
    ),
    mutant(
        "one-store-two-names",
        "two paths to one store are one store",
        "problems and sessions are there twice",
        "no-double/no_double_store",
        (
            "readings.py",
            "if reading.identity is None or (reading.agent.NAME, reading.identity) not in seen:",
            "if True:",
        ),
    ),
    mutant(
        "newest-copy",
        "of a session in several files the one that was written last counts",
        "a finished session is stopped, by an old copy of it",
        "no-double/no_double",
        (
            "agents/claude_code.py",
            "return paths[0] if len(paths) == 1 else max(paths, key=written_at, default=None)",
            "return min(paths, key=written_at, default=None)",
        ),
    ),
    # Turns
    mutant(
        "dialog-of-a-person",
        "a dialog that the person opened is not a question of the agent",
        "an agent at its prompt waits for a person",
        "permission/permission_claude",
        ("agents/claude_code.py", 'if link.waiting_for == "dialog open" and closed:', "if False:"),
    ),
    mutant(
        "approvals-off",
        "codex asks nobody where its approvals are off",
        "a command that runs is shown as a question",
        "permission/permission_codex",
        ("agents/codex.py", 'if not calls or record.policy == "never":', "if not calls:"),
    ),
    mutant(
        "deep-nesting",
        "a line that is nested too deeply is passed over",
        "one line in one file hides all sessions of its store",
        "hostile/hostile_claude",
        (
            "stores.py",
            "    except (ValueError, RecursionError):\n        return None",
            "    except ValueError:\n        return None",
        ),
    ),
    mutant(
        "escape-sequences",
        "control and format characters are shown, not sent",
        "a title in a transcript can write to the terminal what it likes",
        "hostile/hostile_words",
        ("cli/output.py", "char if char.isprintable() else", "char if True else"),
    ),
)
