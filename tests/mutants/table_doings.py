"""Defences of what agentctl does: whom a stop means, what is kept of a command, what is shown to copy."""

from __future__ import annotations

from tests.mutants.model import mutant

DOINGS = (
    mutant(
        "stop-two-writers",
        "of two processes on one session, a stop ends only those that more than a file speaks for",
        "a tool writes its session into the pid file of the person's other agent, which ends with it",
        "orphans/named_by_another orphans/two_writers_by_force",
        ("stop/writers.py", "if is_only_noted(key, session, world)] if len(keys) > 1 else []", "if False]"),
    ),
    mutant(
        "stop-two-honest-writers",
        "two processes whose own arguments name a session are on it",
        "a session that was resumed elsewhere can be stopped only by force",
        "orphans/two_writers",
        ("stop/writers.py", "names(details.argv or (), session.id)", "False"),
    ),
    mutant(
        "stop-one-of-them",
        "with --pid, a stop ends only that process",
        "both processes end",
        "orphans/named_by_another",
        ("stop/writers.py", "if pid is None or session.process != ALIVE:", "if True:"),
    ),
    mutant(
        "stop-short-launched",
        "the beginning of an id may be that of a session which a launch is about to begin",
        "`stop` says that a session has ended, and the one that was meant runs",
        "tests/stop/test_short_ids.py::test_another_session_is_launched_and_not_written_yet",
        ("query/resolve.py", "    if begun:\n", "    if False:\n"),
    ),
    mutant(
        "stop-short-unread",
        "the beginning of an id stands for one session only if everything could be read",
        "`stop` takes the one that could be read for the one that was meant",
        "tests/stop/test_short_ids.py::test_another_session_may_be_where_we_cannot_look",
        ("query/resolve.py", "    if hidden:\n", "    if False:\n"),
    ),
    mutant(
        "commands-quoted",
        "a command that a message shows is quoted",
        "a directory that is called `x;reboot` is a second command, if a person copies the first one",
        "tests/test_shown_commands.py::test_a_shell_takes_it_for_one_command "
        "tests/test_shown_commands.py::test_git_that_gives_no_answer",
        ("errors.py", "return shlex.join(words)", 'return " ".join(words)'),
    ),
    mutant(
        "commands-ids",
        "a session id has no character that a shell takes for its own",
        "a transcript that is called `x;reboot` is a second command, if a person copies the first one",
        "tests/test_shown_commands.py::test_an_id_is_one_word_of_a_shell",
        ("files/bounded.py", "and NOT_IN_AN_ID.isdisjoint(text)", 'and not {*" /\\\\"} & {*text}'),
    ),
    mutant(
        "secrets-in-json",
        "the JSON in a word of a command line is walked",
        "a token in the JSON of --mcp-config is kept in launch.json",
        "tests/files/test_redaction.py::test_json_is_walked",
        (
            "files/redaction.py",
            "for rule in (by_option, by_header, by_program, by_name, by_json):",
            "for rule in (by_option, by_header, by_program, by_name):",
        ),
    ),
    mutant(
        "secrets-by-program",
        "the options of curl and others that take a password are known, also among other letters",
        "the password of `curl -su me:x` is kept in launch.json",
        "tests/files/test_redaction.py::test_no_secret_is_left_in_a_command_line",
        (
            "files/redaction.py",
            "for rule in (by_option, by_header, by_program, by_name, by_json):",
            "for rule in (by_option, by_header, by_name, by_json):",
        ),
    ),
    mutant(
        "secrets-as-default",
        "what stands for a variable that is not set is a value",
        "the password in `PASSWORD=${Y:-x}` is kept in launch.json",
        "tests/files/test_redaction.py::test_no_secret_is_left_in_a_text",
        (
            "files/secret_names.py",
            'return bare.startswith("$") and DEFAULT.search(bare) is None',
            'return bare.startswith("$")',
        ),
    ),
    mutant(
        "git-waits-for-nothing",
        "agentctl runs no git in a git folder in which git would wait for a FIFO",
        "`worktree list` and `worktree clean` give no answer for half a minute",
        "tests/workspace/test_special_files.py::test_in_the_git_folder",
        ("workspace/worktree.py", "    if git.HERE in options:\n", "    if False:\n"),
    ),
    mutant(
        "git-waits-inside",
        "agentctl runs no git in a worktree with a repository in which git would wait for a FIFO",
        "`worktree clean` gives no answer",
        "tests/workspace/test_special_files.py::test_what_is_no_special_file",
        ("workspace/special_files.py", "found += special_git_files(entry)", "pass"),
    ),
    mutant(
        "git-silent",
        "what git does not say in time is not known",
        "a git that hangs is a failure like any other, exit code 1",
        "tests/workspace/test_special_files.py::test_a_git_that_gives_no_answer_is_ended",
        ("workspace/git.py", "(GitSilent if ran.outcome == commands.TIMED_OUT else GitFailed)(", "GitFailed("),
    ),
    mutant(
        "reflog-not-waited-for",
        "agentctl opens git's files without waiting",
        "a FIFO in the place of a reflog stops every command that looks at it",
        "tests/workspace/test_special_files.py::test_a_pipe_is_not_waited_for",
        ("workspace/special_files.py", "if not stat.S_ISREG(os.fstat(fd).st_mode):", "if False:"),
    ),
    mutant(
        "hook-in-its-directory",
        "a hook runs only in the directory that was launched into",
        "a hook runs in another directory that has its name by now",
        "tests/launch/test_hook_places.py::test_a_directory_that_was_replaced",
        ("launch/start.py", "if places.is_another(launch.cwd, launch.directory):", "if False:"),
    ),
    mutant(
        "clean-sockets",
        "a process uses the sockets that it has made",
        "`worktree clean` removes the socket that a process listens at",
        "tests/workspace/test_clean_sockets.py::test_a_socket_that_a_process_listens_at",
        ("kernel/open_files.py", "yield from bound(pid, sockets) if sockets else ()", "pass"),
    ),
    mutant(
        "clean-mark",
        "a worktree of ours is known by its mark once its launch is no longer kept",
        "`worktree clean --merged` leaves it for good",
        "tests/workspace/test_clean_whose.py::test_a_worktree_of_a_launch_whose_record_has_expired",
        ("workspace/clean.py", " or marks.is_ours(tree.common, tree.path, tree.branch)", ""),
    ),
    mutant(
        "clean-mark-of-this-one",
        "a mark is of one directory and one branch",
        "`worktree clean --merged` removes what a person has made their own",
        "tests/workspace/test_clean_whose.py::test_one_that_a_person_has_made_their_own",
        (
            "workspace/marks.py",
            'return bool(facts == {"path": os.path.realpath(path), "directory": [*made], "branch": branch})',
            "return True",
        ),
    ),
    mutant(
        "places-of-the-records",
        "a live session is in every directory that its last records name",
        "`launch` goes into a directory in which an agent works, and `worktree clean` removes it",
        "worktree-lives/worktree_lives_by_records",
        (
            "workspace/presence.py",
            "occupancy.Where(table, look.world.claims, lately(look))",
            "occupancy.Where(table, look.world.claims)",
        ),
    ),
    mutant(
        "stop-pipes",
        "a stop leaves a tool that reads or feeds another session through a pipe",
        "the other session loses its input or its output",
        "tests/stop/test_pipes.py::test_a_tool_beside_another_session",
        ("stop/terminate.py", "if not self._tree:  # else", "if False:  # else"),
    ),
    mutant(
        "stop-pipes-other-end",
        "only the other end of a pipe holds somebody",
        "a stop leaves every tool that writes to the log to which another session writes",
        "tests/stop/test_pipes.py::test_the_same_end_of_a_pipe_holds_nobody",
        (
            "stop/pipes.py",
            "reads = next((written[pipe] for pipe in ins if",
            "reads = next((written[pipe] for pipe in outs if",
        ),
        ("stop/pipes.py", "pipe in written and pipe not in outs)", "pipe in written)"),
    ),
    mutant(
        "stop-left-now",
        "what was left alone and has ended by the time of the answer is said so",
        "a session that has ended is said to be left",
        "tests/stop/test_pipes.py::test_what_has_ended_by_the_time_of_the_answer_is_said_so",
        ("stop/terminate.py", "if has_ended(one.key) and not one.what", "if False and not one.what"),
    ),
)
