"""Defences of what agentctl says and does about sessions that a live screen may show."""

from __future__ import annotations

from tests.mutants.model import mutant

SCREENS = (
    mutant(
        "screen-list",
        "a session that the list of a live screen offers has not firmly ended",
        "a session that a person has on the screen is firmly done",
        "open-on-a-screen/opened_in_a_list",
        ("query/cases.py", "if name[1] in claim.shows and claim.store in (None, *roots)", "if False"),
    ),
    mutant(
        "screen-list-killed",
        "a session that was killed in mid-turn has not firmly ended while a screen may show it",
        "a session that a person has on the screen is firmly stopped",
        "open-on-a-screen/opened_in_a_list",
        ("query/judge.py", " or bool(case.screens) or bool(case.unlikely)", " or bool(case.unlikely)"),
    ),
    mutant(
        "screen-place",
        "a screen offers the sessions of its own directory and below",
        "a screen of one directory puts every session of the store in doubt",
        "open-on-a-screen/opened_in_a_list",
        ("agents/opencode/db.py", 'if place and not whole and "path" in self._columns:', "if False:"),
    ),
    mutant(
        "screen-whole-project",
        "a screen whose list was opened to its project may show any session of it",
        "a session of the project that a person has on the screen is firmly done",
        "open-on-a-screen/the_whole_project",
        ("agents/opencode/store.py", "whole = is_whole_project(details.env or {})", "whole = False"),
    ),
    mutant(
        "screen-of-a-server",
        "a client of a server shows sessions of the server's directory",
        "a session that a person has open through a server is firmly done",
        "open-on-a-screen/clients_of_a_server",
        ("agents/opencode/arguments.py", 'return self.command in (None, "attach")', "return self.command is None"),
    ),
    mutant(
        "codex-screen-without-a-thread",
        "a codex screen beside a daemon is a client only if it opened a thread that the daemon holds",
        "a codex at its picker, or starting, is in no list",
        "native-daemon/codex_screens_without_a_thread",
        (
            "agents/codex/store.py",
            "return CLIENT if self._screens is not None and process.key in self._screens.busy else AGENT",
            "return CLIENT",
        ),
    ),
    mutant(
        "codex-thread-of-no-screen",
        "a thread that a program began is no opening by a screen",
        "a sub-agent or an exec of the daemon hides a codex at its picker",
        "native-daemon/codex_screens_without_a_thread",
        ("agents/codex/open_screens.py", "return head.originator == SCREEN and head.parent is None", "return True"),
    ),
    mutant(
        "codex-one-opening-one-screen",
        "each opening of a thread stands for one screen",
        "one codex screen with a thread hides all others",
        "native-daemon/codex_screens_without_a_thread",
        (
            "agents/codex/screens.py",
            "busy.add(max(free, key=lambda screen: (screen.started, screen.key)).key)",
            "busy.update(screen.key for screen in free)",
        ),
    ),
    mutant(
        "codex-screen-that-loaded-it",
        "the daemon names the port of the screen that loaded a thread, and the kernel says who listens there",
        "attach does not go to the pane that shows a session of codex's daemon",
        "daemon-screens/codex_screens_and_their_threads",
        ("agents/codex/open_screens.py", "frozenset(processes.ports(process))", "frozenset()"),
    ),
    mutant(
        "codex-screen-shows-the-last",
        "a screen shows the thread that it loaded last",
        "after /new attach goes to the screen for the thread that the person has left",
        "daemon-screens/codex_screens_and_their_threads",
        ("agents/codex/screens.py", "seen[key].moment < moment", "seen[key].moment > moment"),
    ),
    mutant(
        "codex-screen-of-the-daemon",
        "the terminal of a session in a daemon is that of the screen that shows it",
        "a session in codex's daemon has no terminal, or that of the person who started the daemon",
        "daemon-screens/codex_screens_and_their_threads",
        (
            "query/present.py",
            "if (shown := first_screen(link, scene.processes)) else own",
            "if (shown := None) else own",
        ),
    ),
    mutant(
        "codex-two-screens",
        "a screen whose arguments name a thread that another one loaded shows it, too",
        "the second screen of a session is not named",
        "daemon-screens/codex_screens_and_their_threads",
        ("agents/codex/screens.py", "by_name(screens, threads, seen, left)", "pass"),
    ),
    mutant(
        "attach-pane-of-a-screen",
        "attach goes to the pane of the screen that shows a session of a daemon",
        "attach opens a second screen on a session that is on one already",
        "daemon-screens/codex_screens_and_their_threads",
        ("cli/attach.py", "if pane is not None and (not env.get", "if False and (not env.get"),
    ),
    mutant(
        "resume-of-what-is-open",
        "a session that a screen may show is resumed only with --even-if-open",
        "the turns of two processes are mixed in one session",
        "open-on-a-screen/opened_in_a_list",
        ("launch/start.py", "and session.may_be_open_in and not even_if_open:", "and False:"),
    ),
    mutant(
        "directory-that-speaks",
        "tmux is not given a directory whose name it would read as a format",
        "a folder of a cloned repository runs a command",
        "tests/cli/test_row_words.py::test_tmux_shows_that_name_and_runs_nothing_of_it",
        ("terminal/tmux.py", 'speaks = "#" in cwd', "speaks = False"),
    ),
)
