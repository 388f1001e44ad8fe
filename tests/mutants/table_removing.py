"""Defences of `worktree clean`: whose worktree it is, who works on files of it, and what else is in it."""

from __future__ import annotations

from tests.mutants.model import mutant

REMOVING = (
    mutant(
        "clean-merged-only-what-launches-made",
        "--merged means worktrees that a launch made, by git's own folder of them or the time of the launch",
        "a person's own worktree at the path of a launch is removed, with the ignored files in it",
        "tests/workspace/test_clean_whose.py::test_a_persons_worktree_at_the_path_of_a_launch",
        (
            "workspace/clean.py",
            "if made_at is not None and made_at <= one.created_at)",
            "if made_at is not None)",
        ),
    ),
    mutant(
        "clean-no-worktree-by-the-name-of-its-branch",
        "the name of a branch does not make a worktree one of a group",
        "a person's own worktree on a branch try/exp/mine is removed, with the ignored files in it",
        "tests/workspace/test_clean_whose.py::test_a_branch_with_a_name_like_those_of_launches",
        (
            "workspace/clean.py",
            "    return made or (by_mark and worktree.is_marked(own))",
            "    return made or by_mark",
        ),
    ),
    mutant(
        "launch-marks-its-worktrees",
        "a launch marks its worktree in git's own folder of it",
        "once nothing is kept of the launch, --merged leaves its worktree for ever",
        "tests/workspace/test_clean_whose.py::test_merged_without_the_record_and_without_the_mark",
        (
            "workspace/worktree.py",
            "    mark(plan)\n",
            "",
        ),
    ),
    mutant(
        "clean-asks-who-writes-there",
        "a process that writes to a file of the worktree is in it, wherever its own directory is",
        "the worktree is removed under a server or a database, and what they write is lost",
        "tests/workspace/test_clean_uses.py::test_a_process_elsewhere_that_works_on_a_file_of_it",
        (
            "workspace/clean.py",
            "else processes.use_of(process, folder.has_path)",
            "else None",
        ),
    ),
    mutant(
        "clean-asks-who-executes-there",
        "a process that executes a file of the worktree is in it",
        "the worktree is removed under a program of it",
        "tests/workspace/test_clean_uses.py::test_a_program_of_it_that_runs_elsewhere",
        (
            "kernel/uses.py",
            """how = "executes" if b"x" in rights else""",
            "how =",
        ),
    ),
    mutant(
        "clean-leaves-readers-alone",
        "who only reads a file of the worktree is not in the way of its removal",
        "worktrees with a .venv or node_modules that a language server reads need --force",
        "tests/workspace/test_clean_uses.py::test_who_only_reads_is_not_in_the_way",
        (
            "kernel/uses.py",
            'elif is_there(target) and os.lstat(f"{base}/fd/{name}").st_mode & 0o200:',
            "elif is_there(target):",
        ),
    ),
    mutant(
        "clean-minds-rules-that-go-with-it",
        "a rule in a .gitignore that git does not track does not make a file ignored",
        "new work that only such a file ignores is removed with the worktree",
        "tests/workspace/test_contents.py::test_files_that_only_a_new_gitignore_ignores",
        (
            "workspace/contents.py",
            "if file == RULES and source not in tracked and folder in folders:",
            "if file == RULES and source in tracked and folder in folders:",
        ),
    ),
    mutant(
        "clean-leaves-what-tools-ignore",
        "a folder without tracked files that ignores itself stays ignored",
        "worktrees with a .venv or a cache in them need --force",
        "tests/workspace/test_contents.py::test_what_tools_make_stays_ignored",
        (
            "workspace/contents.py",
            "source not in tracked and folder in folders:",
            "source not in tracked:",
        ),
    ),
    mutant(
        "clean-minds-modes",
        "core.fileMode in the worktree's own settings hides no change of a mode",
        "a file that was made executable is removed with the worktree",
        "tests/workspace/test_contents.py::test_a_mode_that_only_its_own_settings_hide",
        (
            "workspace/contents.py",
            """, ("core.fileMode", "true")):""",
            ",):",
        ),
    ),
    mutant(
        "clean-minds-stores",
        "the store of an agent in a worktree keeps it",
        "all sessions in it are removed with the worktree",
        "tests/workspace/test_clean_stores.py::test_the_store_of_an_agent",
        (
            "workspace/clean.py",
            "if not (reading.absent or reading.stalled) and folder.holds_path(root := reading.store.root):",
            "if reading.absent and folder.holds_path(root := reading.store.root):",
        ),
    ),
    mutant(
        "clean-minds-its-own-state",
        "the state folder in a worktree keeps it, with --force, too",
        "agentctl removes its own launches and locks",
        "tests/workspace/test_clean_stores.py::test_the_state_of_agentctl",
        (
            "workspace/clean.py",
            "    if folder.holds_path(state := records.state_folder(env)):",
            "    if not (state := records.state_folder(env)):",
        ),
    ),
)
