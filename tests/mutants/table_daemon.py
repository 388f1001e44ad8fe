"""Mutants of the daemon: its log, its process, its stream, its API."""

from __future__ import annotations

from tests.mutants.model import mutant

LOG = "tests/live/test_log.py"
PROCESS = "tests/server/test_daemon.py"
PARTS = "tests/server/test_parts.py"
API = "tests/server/test_api.py"
DAEMON = (
    mutant(
        "log-torn-line",
        "a torn last line is cut before anything follows it",
        "half an event and the next one become one damaged line",
        f"{LOG}::test_a_torn_last_line_is_cut",
        ("live/log.py", "            os.ftruncate(self._fd, size - torn)\n", "            pass\n"),
    ),
    mutant(
        "log-half-written",
        "what a full disk left of an event is cut off",
        "the event after a full disk is appended to half a line",
        f"{LOG}::test_a_full_disk_is_said_and_no_number_is_given",
        ("live/log.py", "            os.ftruncate(self._fd, self._size)\n", "            pass\n"),
    ),
    mutant(
        "log-lost-is-said",
        "events that could not be written are a gap in the log",
        "after a full disk the log goes on as if nothing were missing",
        f"{LOG}::test_a_full_disk_is_said_and_no_number_is_given daemon-trouble/full_disk",
        ("live/log.py", "        self.lost += len(told)\n", ""),
    ),
    mutant(
        "log-deleted-while-written",
        "the writer notices that its segment was deleted",
        "a daemon writes into a deleted file for ever",
        f"{LOG}::test_the_whole_log_may_be_deleted_while_it_is_written",
        ("live/log.py", "not self.lost and not self._is_there():", "False:"),
    ),
    mutant(
        "log-numbers-once",
        "if the end of a log was deleted, the log gets another name",
        "a number is given to two events, and a listener misses the second",
        f"{LOG}::test_numbers_are_not_given_twice_if_the_end_of_a_log_was_deleted",
        ("live/log.py", "        if closed:  #", "        if False:  #"),
    ),
    mutant(
        "log-gap-between-segments",
        "a segment that is missing between two others is a gap",
        "deleted events are passed over in silence",
        f"{LOG}::test_a_segment_that_was_deleted_is_a_gap",
        (
            "live/segments.py",
            'if missing is None and self._shown is not None and entry["seq"] > self._shown:',
            "if False:",
        ),
    ),
    mutant(
        "log-other-numbers",
        "a number of another log is a gap",
        "whoever goes on with a number of a deleted log misses events",
        f"{LOG}::test_numbers_are_not_given_twice_if_the_end_of_a_log_was_deleted",
        ("live/segments.py", 'if since.log is not None and since.log != known[-1][1]["log"]:', "if False:"),
    ),
    mutant(
        "log-redacted",
        "redaction precedes the log",
        "the key in a prompt is on disk for 30 days",
        f"{LOG}::test_secrets_are_not_in_the_log",
        ("live/entries.py", "        return redact_text(value)\n", "        return value\n"),
    ),
    mutant(
        "log-expires",
        "the oldest segments are removed",
        "the log grows without bound",
        f"{LOG}::test_segments_are_bounded_and_each_begins_with_a_checkpoint",
        ("live/log.py", "if sum(sizes.values()) > room or too_old:", "if too_old:"),
    ),
    mutant(
        "daemon-late",
        "after a restart the stream goes on from what the log says",
        "what changed while no daemon ran is never told",
        "tests/server/test_recording.py::test_what_happened_while_no_daemon_ran_is_told_late_and_once",
        ("server/recorder.py", "follow(self._engine, self._log.seen)", "follow(self._engine)"),
    ),
    mutant(
        "daemon-late-ended",
        "the first look after a restart also looks at what the log follows",
        "every session that ended while no daemon ran is told as removed",
        "tests/server/test_recording.py::test_what_happened_while_no_daemon_ran_is_told_late_and_once",
        (
            "live/engine.py",
            "    if before is not None:\n        engine.scope = scope._replace(also=frozenset(before.sessions))\n",
            "",
        ),
    ),
    mutant(
        "daemon-proved",
        "a process is the daemon only if boot, pid and start prove it",
        "a stranger that got the pid of a dead daemon is killed",
        "stale-daemon-files/stranger_with_its_pid",
        ("server/place.py", "return RUNS if handles.row_of(identity.key) is not None else GONE", "return RUNS"),
        ("server/control.py", "    handle = handles.Handle.open(found.key)\n", "    handle = forced(found.key)\n"),
        (
            "server/control.py",
            "def end(handle",
            "def forced(key):  # type: ignore\n"
            "    from agentctl.kernel import linux, one_process\n"
            '    row = one_process.parse_stat(one_process.read_row(f"/proc/{key.pid}/stat"), linux.boot_id())\n'
            "    return handles.Handle(row, os.pidfd_open(key.pid))\n\n\n"
            "def end(handle",
        ),
    ),
    mutant(
        "daemon-one",
        "a second daemon does not start beside the first",
        "two daemons write and serve at once",
        f"{PROCESS}::test_of_twenty_that_start_at_once_one_stays",
        ("server/serve.py", "        lock.__enter__()\n    except", "        pass\n    except"),
        ("server/serve.py", "        lock.__exit__(None, None, None)\n", "        pass\n"),
    ),
    mutant(
        "daemon-lock-removed",
        "a daemon whose lock was deleted ends itself",
        "a second daemon starts beside one whose folder was deleted",
        f"{PROCESS}::test_one_whose_files_were_deleted_ends_itself",
        ("server/serve.py", "            self._server.should_exit = True\n", "            pass\n"),
    ),
    mutant(
        "daemon-version",
        "a daemon of another version is named",
        "after an upgrade the old daemon goes on, and nobody knows",
        f"{PROCESS}::test_a_daemon_of_another_version_is_named_and_replaced stale-daemon-files/another_version",
        ("server/control.py", "return version if version not in (None, __version__) else None", "return None"),
    ),
    mutant(
        "daemon-marker",
        "the daemon is no tool of the agent that started it",
        "a stop of that agent ends the daemon",
        f"{PROCESS}::test_the_daemon_is_nobodys_tool",
        (
            "server/control.py",
            "for name, value in env.items() if name != MARKER}  #",
            "for name, value in env.items()}  #",
        ),
    ),
    mutant(
        "daemon-peer",
        "another user is not answered, whatever the mode of the socket",
        "a socket that was opened by mistake shows all sessions to everybody",
        f"{PARTS}::test_another_user_is_not_answered_even_if_the_socket_is_open_to_all two-users/two_daemons",
        ("server/peer.py", "            if uid != user:", "            if False:"),
    ),
    mutant(
        "daemon-unit-ours",
        "uninstall removes only a unit that agentctl wrote",
        "a unit that a person wrote is deleted",
        f"{PARTS}::test_install_and_uninstall_touch_only_what_is_ours",
        ("server/units.py", "return MARK.encode() in data", "return True"),
    ),
    mutant(
        "daemon-unit-kill-mode",
        "the unit ends only the daemon's own process",
        "`systemctl stop` kills every agent that was launched through the daemon",
        f"{PARTS}::test_a_systemd_unit",
        ("server/units.py", '        "KillMode=process",\n', ""),
    ),
    mutant(
        "stream-slow",
        "what waits for a listener is bounded",
        "one listener that does not read takes all memory",
        f"{PARTS}::test_one_that_is_too_slow_is_cut_off_and_nothing_is_kept_for_it",
        ("server/hub.py", "if len(self._waiting) >= MOST_KEPT:", "if False:"),
    ),
    mutant(
        "stream-joined-once",
        "a listener gets only what was told after it joined",
        "an event that is in the checkpoint is told again",
        f"{PARTS}::test_a_listener_gets_what_is_told_after_it_joined_and_only_that",
        ("server/hub.py", "if turn <= self._joined or self.cut:", "if self.cut:"),
    ),
    mutant(
        "api-ids",
        "what no id can look like is refused",
        "GET /v1/sessions/--help is a command that a caller made up",
        "tests/server/test_operations.py::test_what_is_wrong_is_refused",
        ("server/operations.py", "        if not is_session_id(text):", "        if False:"),
    ),
    mutant(
        "api-one-word",
        "a value and its option are one word",
        "a value that begins with a dash is taken for an option",
        "tests/server/test_operations.py::test_what_was_given_arrives_as_it_was_given",
        (
            "server/operations.py",
            '    return [f"{given.option}={text}" for text in texts]',
            "    return [word for text in texts for word in (given.option, text)]",
        ),
    ),
    mutant(
        "api-old-look",
        "only those who ask within 50 ms share a look",
        "an answer is older than the question",
        f"{API}::test_a_look_that_began_earlier_is_not_shared",
        ("server/asking.py", "time.monotonic() - look.began > SHARED or ", ""),
    ),
    mutant(
        "api-wait-left",
        "a client that leaves ends its wait",
        "each client that gives up leaves a process behind",
        f"{API}::test_a_client_that_leaves_ends_its_wait",
        ("server/asking.py", "                child.terminate()  #", "                pass  #"),
        ("server/asking.py", "                await child.wait()\n", ""),
    ),
    mutant(
        "api-wait-orphan",
        "a wait ends with the daemon that runs it",
        "the waits of a daemon that was killed go on for ever",
        f"{API}::test_a_wait_ends_with_a_daemon_that_is_killed",
        ("server/mortal.py", "    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)\n", ""),
    ),
    mutant(
        "api-in-line",
        "there is a bound to the requests in line",
        "a client in a loop takes all memory",
        f"{API}::test_there_is_a_bound_to_those_in_line",
        ("server/asking.py", "if room.locked() and self._in_line >= MOST_IN_LINE:", "if False:"),
    ),
    mutant(
        "api-agent-is-agent",
        "an agent that asks the daemon is an agent",
        "an agent stops its own session through the daemon",
        f"{API}::test_an_agent_that_asks_is_an_agent",
        ("server/asking.py", "env={**self._env, **caller},", "env=self._env,"),
    ),
)
