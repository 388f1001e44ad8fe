"""Defences of `worktree clean`: whose worktree it is, who works on files of it, and what else is in it."""

from __future__ import annotations

from tests.mutants.model import mutant

REMOVING = (
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
