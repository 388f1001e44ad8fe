"""Defences against words: what a name, a role or a list says makes an answer weaker, never firm."""

from __future__ import annotations

from tests.mutants.model import mutant

WORDS = (
    mutant(
        "clients-count",
        "a process that its words make a client counts by what it has open, and by its directory",
        "a live agent whose words look like a client's is firmly stopped",
        "another-name/clients_by_their_words",
        (
            "query/strangers.py",
            "    passed = {os.getpid(), *known}\n",
            "    passed = {os.getpid(), *known, *others_role}\n",
        ),
    ),
    mutant(
        "codex-client-writes",
        "a rollout that is open for writing is a link, whatever the words of its process are",
        "an older `codex mcp-server` in mid-turn is not found",
        "another-name/clients_by_their_words",
        ("agents/codex/store.py", "not in (AGENT, DAEMON, CLIENT):", "not in (AGENT, DAEMON):"),
    ),
    mutant(
        "opencode-client-logs",
        "the log tells which session a process is on, whatever its words are",
        "a live OpenCode with unknown words is not found",
        "another-name/clients_by_their_words",
        (
            "agents/opencode/store.py",
            "if ADAPTER.claims(process, details) not in (AGENT, DAEMON, CLIENT):",
            "if ADAPTER.claims(process, details) not in (AGENT, DAEMON):",
        ),
    ),
    mutant(
        "codex-reads-a-rollout",
        "only a rollout that is open for writing is a link",
        "a killed thread is `running`, and stop ends the Codex that reads its rollout",
        "wrong-one/reads_a_rollout",
        (
            "agents/codex/store.py",
            "in sorted({*processes.open_files(process)} if written is None else {path for path, _ in written}):",
            "in sorted({*processes.open_files(process)}):",
        ),
    ),
    mutant(
        "log-emptied",
        "a line of the log proves whose it is only if the log was not emptied since its process started",
        "a live session is stopped, a dead one `running`, and stop ends the wrong process",
        "wrong-one/log_emptied",
        (
            "agents/opencode/log.py",
            "if not is_never_emptied(fd, started) and not begins_with_process(run, data, started):",
            "if False:",
        ),
    ),
    mutant(
        "one-run-one-process",
        "two live processes are not one run of OpenCode",
        "the session of one of them is firmly stopped",
        "wrong-one/log_emptied",
        ("agents/opencode/store.py", "            if len(keys) > 1:  #", "            if False:  #"),
        (
            "agents/opencode/log.py",
            "if not is_never_emptied(fd, started) and not begins_with_process(run, data, started):",
            "if False:",
        ),
    ),
    mutant(
        "proc-on-top",
        "the mount that /proc is counts, wherever it is in the list of mounts",
        "a /proc that hides processes is not noticed",
        "tests/kernel/test_mounts.py::test_a_proc_that_was_moved_onto_a_newer_one_is_on_top",
        (
            "kernel/mounts.py",
            "        mount = self.of(PROC)\n",
            "        mount = next((one for one in reversed(self.entries()) if one.point == PROC), None)\n",
        ),
    ),
    mutant(
        "volume-on-a-tmpfs",
        "a tmpfs in a container may be a volume that others have, too",
        "live agents outside are firmly stopped",
        "scan-incomplete/container_with_a_volume",
        ("kernel/mounts.py", "if mount is None or place is None or mount.kind", "if mount is None or mount.kind"),
        (
            "kernel/mounts.py",
            "        older = self.entries()[: place + 1]",
            "        older = self.entries()[: place or 0]",
        ),
    ),
    mutant(
        "executable-not-told",
        "a process whose executable the kernel does not name may be anything",
        "a live agent in a folder of a long path is firmly stopped",
        "another-name/path_too_long "
        "tests/kernel/test_programs.py::test_an_executable_that_cannot_be_told_is_not_absent",
        ("kernel/linux.py", '            found[pid] = ""\n', "            pass\n"),
    ),
    mutant(
        "log-quoted",
        "a line behind an entry of another run that spans lines may be quoted by it",
        "a dead session is `running`, and stop ends the process that quotes its lines",
        "wrong-one/log_quoted",
        (
            "agents/opencode/log.py",
            "if last is not None and spanning <= {last} else None",
            "if last is not None else None",
        ),
    ),
    mutant(
        "copied-session",
        "a process that two sessions of a store name is on the one that it has open",
        "a copy of a session is `running`, and stop ends the process of the other",
        "copied-store/copied_session",
        (
            "query/link_check.py",
            "            left, unsure = why_named_twice(link, reading.links, ground.processes)",
            "            pass",
        ),
    ),
    mutant(
        "runtime-of-any-name",
        "a program of any name whose arguments name the agent may run it",
        "a registered claude on a runtime of another name is stopped while it works",
        "executes-another/runtime_of_any_name",
        ("query/link_check.py", "reading.agent.is_named_in(details.argv or ())", "False"),
    ),
    mutant(
        "nameless-database",
        "a file of a database that a live process writes to and that was removed is a gap",
        '"no sessions", `--strict` 0, while OpenCode works',
        "damaged-store/removed_under_its_agent",
        ("agents/opencode/nameless.py", "return os.stat(way).st_nlink == 0", "return False"),
    ),
    mutant(
        "lock-of-this-file",
        "the open file that has a lock is compared with the file itself",
        "a killed Codex is `running` by the lock of another thread that has its inode number",
        "tests/kernel/test_lock_proof.py::test_two_files_of_one_identity_are_told_apart",
        (
            "kernel/lock_proof.py",
            "        return os.path.samestat(os.stat(way), os.stat(path))",
            "        return True",
        ),
    ),
    mutant(
        "lock-of-a-thread",
        "a thread may have open files of its own",
        "a live Codex whose thread has the lock is stopped",
        "tests/kernel/test_lock_proof.py::test_a_thread_may_have_open_files_of_its_own",
        ("kernel/lock_proof.py", "            for thread in threads[:THREADS]\n", "            for thread in ()\n"),
    ),
    mutant(
        "closed-older-codex",
        "a Codex into which we may not look may be on a thread that has no lock",
        "a live older Codex that closed itself is firmly stopped",
        "closed-process/closed_older_codex",
        ("agents/codex/store.py", "            self._closed.add(process.key)", "            pass"),
    ),
    mutant(
        "disk-not-mounted",
        "a store that had sessions on another disk, and has none here, is a problem",
        '"no sessions", `--strict` 0, while the disk is not mounted',
        "store-missing/not_mounted",
        ("query/reading.py", "    if is_on_another_disk(reading) and", "    if False and"),
    ),
    mutant(
        "disk-not-mounted-above",
        "a store that had sessions on another disk, and is not there, is a problem",
        '"no sessions", `--strict` 0, while the disk is not mounted',
        "store-missing/not_mounted",
        (
            "query/reading.py",
            "if reading.noted is not None and roots.device_above(root)",
            "if False and roots.device_above(root)",
        ),
    ),
    mutant(
        "renamed-for-a-while",
        "a remembered store whose folder is here under another name is not gone",
        "a store that was renamed for a moment is a problem for ever",
        "store-missing/renamed_for_a_while",
        ("query/sessions.py", "without_copies(with_new_names(opened))", "without_copies(opened)"),
    ),
    mutant(
        "since-before-until",
        "a time that ends before it begins is refused",
        "usage says that no tokens were used in a time that is the wrong way round",
        "tests/cli/test_words.py::test_what_makes_no_sense_is_refused",
        ("cli/usage.py", "if since is not None and until is not None and since >= until:", "if False:"),
    ),
    mutant(
        "rows-left-out",
        "a list says how many sessions it leaves out",
        "the first row of many looks like all there is",
        "tests/cli/test_words.py::test_a_list_of_some_rows_says_how_many_there_are",
        ("cli/list.py", "if rows and len(rows) < matching:", "if False:"),
    ),
)
