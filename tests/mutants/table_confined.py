"""Mutants: what agentctl does at the word of an agent that works in a sandbox."""

from __future__ import annotations

from tests.mutants.model import mutant

IN_A_SANDBOX = "tests/terminal/test_tmux.py::test_no_client_is_run_for_a_server_in_a_sandbox"

CONFINED = (
    mutant(
        "tmux-confined",
        "no tmux client is run for a server in a sandbox",
        "the server of a sandboxed agent reads and writes the person's files, through our client",
        IN_A_SANDBOX,
        ("terminal/server.py", "if (why := why_confined(pid)) is not None:", "if (why := None) is not None:"),
    ),
    mutant(
        "tmux-elsewhere",
        "a tmux server in another PID namespace is not asked",
        "its pids are taken for ours, and a text is pasted into a stranger's pane",
        IN_A_SANDBOX,
        ("kernel/confinement.py", '"pid": "PID namespace", ', ""),
    ),
    mutant(
        "tmux-pid-recycled",
        "a server is proved by the socket that it holds, not only by the pid of whoever began to listen",
        "an unconfined process that has the pid by now stands for a server in a sandbox",
        "tests/terminal/test_tmux.py::test_whoever_has_the_pid_of_one_that_listened_proves_nothing",
        ("terminal/server.py", 'f"socket:[{inode}]" in held and is_bound', "is_bound"),
    ),
    mutant(
        "tmux-pinned",
        "the client goes to the very socket whose server was proved",
        "a socket that an agent puts in its place meanwhile is asked",
        "tests/terminal/test_tmux.py::test_a_socket_that_is_replaced_meanwhile_is_not_the_one_that_was_proved",
        ("terminal/server.py", 'yield f"{PROC}/{os.getpid()}/fd/{fd}"', "yield path"),
    ),
    mutant(
        "tmux-own-confined",
        "a launch opens no screen on a server in a sandbox",
        "whoever has put a socket into the tmux folder gets a client of ours",
        IN_A_SANDBOX,
        ("terminal/tmux.py", "    prove_own(env)\n", ""),
    ),
    mutant(
        "landlocked",
        "a process that may gain no privileges is not as free as we are",
        "an agent under Landlock counts as free",
        "tests/kernel/test_confinement.py::test_what_the_kernel_says_of_both",
        ("kernel/confinement.py", "int(status[name]) > int(own[name])", "False"),
    ),
    mutant(
        "foreign-git",
        "git does not run in a worktree whose .git an agent has replaced",
        "a filter in the agent's configuration runs as the person",
        "tests/workspace/test_foreign_git.py::test_no_command_runs_what_it_names",
        (
            "workspace/worktree.py",
            "if stat.S_ISREG(os.lstat(entry).st_mode):",
            "if True:\n            return None\n        if True:",
        ),
    ),
    mutant(
        "foreign-git-first",
        "the person's repository says which worktrees it has, not their own .git",
        "`worktree clean` takes an agent's repository for the person's, and runs git in it",
        "tests/workspace/test_foreign_git.py::test_no_command_runs_what_it_names",
        ("workspace/clean.py", "and not listed_here:", "and True:"),
    ),
    mutant(
        "command-confined",
        "no command is run for a background session in a sandbox",
        "`stop` executes a program that the agent wrote, outside of its sandbox",
        "tests/agents/test_control_stops.py::test_no_command_is_run_for_a_background_session_in_a_sandbox",
        (
            "agents/claude_code/control.py",
            "        if (why := why_confined(held)) is not None:",
            "        if (why := None) is not None:",
        ),
    ),
    mutant(
        "screen-confined",
        "no screen is opened by the program of a process in a sandbox",
        "`attach` executes a program that the agent wrote, outside of its sandbox",
        "tests/agents/test_control_stops.py::test_no_command_is_run_for_a_background_session_in_a_sandbox",
        ("agents/claude_code/control.py", "job is None or why_confined(held) is not None", "job is None"),
    ),
    mutant(
        "script-relative",
        "the script of a process is not sought in our own directory",
        "`stop` executes a file of the directory that the person is in",
        "tests/agents/test_control_stops.py::test_a_script_is_not_sought_in_our_own_directory",
        ("agents/claude_code/control.py", "os.path.isabs(path) and os.path.isfile(path)", "os.path.isfile(path)"),
    ),
    mutant(
        "password-unasked",
        "a server that asks for no password is given none",
        "the person's password for another server goes to whoever listens",
        "tests/agents/test_control_servers.py::test_a_server_that_asks_for_no_password_is_given_none",
        ("agents/opencode/control.py", 'or not api.wants_login(port, held.session.cwd or "", deadline)', ""),
    ),
    mutant(
        "password-confined",
        "a server in a sandbox is not given the person's password",
        "an agent in a sandbox gets it by asking",
        "tests/agents/test_control_servers.py::test_a_server_in_a_sandbox_is_not_given_the_password",
        ("agents/opencode/control.py", "if confinement.CAN_TELL and", "if False and"),
    ),
    mutant(
        "terminal-number",
        "a terminal is known by its file, not by its number",
        "the terminal of an agent in a sandbox is taken for the pane's, and `send` types into a shell",
        "tests/kernel/test_terminals.py::test_a_terminal_of_another_devpts_is_not_ours",
        ("kernel/keyboard.py", "        return (wanted.st_dev, wanted.st_ino) in terminals", "        return True"),
    ),
    mutant(
        "terminal-number-pane",
        "a pane of another terminal with the same number is not the session's",
        "`send` types into a shell",
        "tests/terminal/test_locate.py::test_a_terminal_of_the_same_number_in_another_devpts_is_another",
        ("terminal/locate.py", "or processes.is_at(process, pane.tty) is not False", "or True"),
    ),
    mutant(
        "rights-raised",
        "`resume` gives no more rights than a launch of ours has given",
        "a line that an agent appends to its transcript lets it do everything",
        "tests/agents/test_controls.py::test_claude_gets_no_more_rights_by_what_its_transcript_says",
        ("agents/control_base.py", "    if rank > (limit if limit is not None else FREE - 1):", "    if rank > FREE:"),
    ),
    mutant(
        "rights-of-the-launch",
        "the options of our launch are the limit",
        "a session that was launched to plan goes on changing files",
        "tests/agents/test_controls.py::test_codex_gets_no_more_rights_by_what_its_rollout_says",
        ("agents/codex/control.py", 'return RANKS.get(value_of(words, "-s", "--sandbox") or "")', "return None"),
    ),
)
