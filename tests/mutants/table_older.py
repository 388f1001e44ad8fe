"""Defences of what agentctl says of older versions, whose files say less."""

from __future__ import annotations

from tests.mutants.model import mutant

CLEARED = "tests/agents/test_claude_cleared.py::"
OLDER_LOG = "tests/agents/test_opencode_older_log.py::"

OLDER = (
    # Claude Code: a pid file that does not follow /clear
    mutant(
        "clear-unseen",
        "a pid file without a status may name a session that its process has left by /clear",
        "the session that /clear began is stopped while its process works on it",
        f"id-rotates/file_is_not_renewed {CLEARED}test_it_is_on_the_session_that_clear_began",
        (
            "agents/claude_code/files.py",
            'return "status" not in file and "name" not in file and file.get("kind") != "bg"',
            "return False",
        ),
    ),
    mutant(
        "clear-untold",
        "a screen may have gone on to a new session though nothing tells",
        "a session in mid-turn is stopped while its screen works on it",
        f"id-rotates/nothing_tells_who_began_it {CLEARED}test_what_nothing_tells",
        ("agents/claude_code/store.py", "if lives and way.others:", "if False:"),
    ),
    mutant(
        "clear-disputed",
        "a session that two processes may have begun is taken for neither's",
        "the process of another session is called its own",
        f"{CLEARED}test_two_on_one_session",
        ("agents/claude_code/cleared.py", "if place and id in elsewhere", "if False"),
    ),
    mutant(
        "clear-moment",
        "/clear began a session only if both were noted at one moment",
        "a session is taken for that of a screen that never was on it",
        f"{CLEARED}test_a_command_of_another_moment_did_not_begin_it",
        ("agents/claude_code/cleared.py", "any(abs(begun.cleared - at) <= TOGETHER for at in moments)", "moments"),
    ),
    mutant(
        "clear-beginner",
        "a screen has begun no session of another version or entrypoint",
        "a killed session of a newer version is unknown as long as an older screen lives in its directory",
        f"id-rotates/not_where_it_went {CLEARED}test_what_it_cannot_have_begun",
        (
            "agents/claude_code/cleared.py",
            "if begun.version not in (None, version or begun.version) or begun.entrypoint not in (None, entrypoint):",
            "if False:",
        ),
    ),
    mutant(
        "clear-ended",
        "nobody is on a session that was ended in order",
        "an ended session is unknown as long as an older screen lives in its directory",
        f"id-rotates/not_where_it_went {CLEARED}test_what_it_cannot_have_begun",
        ("agents/claude_code/cleared.py", "if not has_ended_orderly(begun.path):", "if True:"),
    ),
    mutant(
        "clear-named",
        "a session that a file names is that of the process of this file",
        "the session of a killed process is unknown as long as an older screen lives in its directory",
        "id-rotates/not_where_it_went",
        ("agents/claude_code/cleared.py", "if other in named or (", "if ("),
    ),
    mutant(
        "clear-and-back",
        "a file that was renewed after a session was written names where its process went then",
        "a session that /clear began keeps the process that went back by /resume",
        "id-rotates/back_again",
        (
            "agents/claude_code/cleared.py",
            "since = max(registered, written_at(own) if os.path.exists(own) else 0.0)",
            "since = 0.0",
        ),
        ("agents/claude_code/cleared.py", "(registered == written and not grain_of(written))", "False"),
    ),
    # Claude Code: a screen without a status
    mutant(
        "screen-asks",
        "a screen without a status may ask a person for what is pending",
        "an open permission dialog is running",
        "permission/permission_without_status",
        (
            "agents/claude_code/observing.py",
            "asks = ON_SCREEN if entrypoint == files.SCREEN else None",
            "asks = None",
        ),
    ),
    mutant(
        "prompt-taken-back",
        "a prompt without an answer may have been taken back, which nothing tells",
        "a screen at its prompt is firmly running",
        "permission/permission_without_status",
        (
            "agents/claude_code/observing.py",
            "return link._replace(turn=WORKING, reason=why, inferred=True)",
            "return link._replace(turn=WORKING)",
        ),
    ),
    mutant(
        "shell-of-the-call",
        "the process of a pending call is not older than the call",
        "a command that an earlier turn left running hides that a person is asked",
        "permission/permission_without_status",
        ("agents/claude_code/observing.py", "if processes.started_at(child.key) >= called", "if True"),
    ),
    mutant(
        "arguments-written-over",
        "a run without a screen whose arguments are not seen may ask on its stdin",
        "an open question of a version that writes over its arguments is running",
        "permission/permission_without_status",
        (
            "agents/claude_code/observing.py",
            "is_hidden = entrypoint not in (None, files.SCREEN) and len(argv) == 1",
            "is_hidden = False",
        ),
    ),
    # OpenCode: a log for each start
    mutant(
        "older-log",
        "a server without a run in the shared log is asked about the directories that its own log says it has open",
        "its sessions are unknown",
        "native-daemon/opencode_server_with_its_own_log",
        (
            "agents/opencode/store.py",
            "return sorted(wanted & self._hints_of(process).folders) if wanted else []",
            "return []",
        ),
    ),
    mutant(
        "older-log-opened",
        "a server is asked only about directories that it has open",
        "agentctl makes a server open a directory, and write into the repository there",
        "native-daemon/opencode_server_with_its_own_log",
        (
            "agents/opencode/store.py",
            "return sorted(wanted & self._hints_of(process).folders) if wanted else []",
            "return sorted(wanted)",
        ),
    ),
    mutant(
        "older-log-of-two",
        "a log with two starts is nobody's own",
        "a process is taken to have open what another one opened",
        f"{OLDER_LOG}test_two_that_started_in_one_second",
        ("agents/opencode/older_log.py", "if starts < 2:", "if True:"),
        ("agents/opencode/older_log.py", "if starts == 1:", "if starts:"),
    ),
    mutant(
        "older-log-shared",
        "a log that another process has open is nobody's own",
        "a process is taken to be on a session of another one",
        f"{OLDER_LOG}test_which_logs_are_its_own",
        ("agents/opencode/older_log.py", " - shared)", ")"),
    ),
    mutant(
        "older-log-late",
        "a turn that a log does not name yet may be of the process that writes this log",
        "a session in mid-turn is stopped in the moments before its screen has logged it",
        "open-on-a-screen/opencode_screen_with_its_own_log",
        ("agents/opencode/store.py", "working[0] in named else ids", "working[0] in named else named[-1:] or ids"),
    ),
    mutant(
        "wrapper-shows-nothing",
        "a wrapper has no screen of its own",
        "a session counts as open in two processes, and one of them is a script",
        "open-on-a-screen/opencode_screen_with_its_own_log",
        (
            "query/store_reader.py",
            "shows = frozenset() if role == WRAPPER else frozenset(store.screen(process, details))",
            "shows = frozenset(store.screen(process, details))",
        ),
    ),
)
