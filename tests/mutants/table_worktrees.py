"""Defences of `worktree clean`: what would be lost with a worktree, where `git status` does not look."""

from __future__ import annotations

from tests.mutants.model import mutant

WORKTREES = (
    mutant(
        "clean-looks-into-tracked-folders",
        "clean looks for repositories in every folder of a worktree",
        "a repository in a folder that git tracks is deleted with its commits",
        "tests/workspace/test_clean_everywhere.py::test_a_repository_in_a_tracked_folder",
        (
            "workspace/unsaved.py",
            "        if name not in known and (",
            "        if name in known and (",
        ),
    ),
    mutant(
        "clean-asks-submodules-for-operations",
        "clean asks each submodule whether somebody is in the middle of something",
        "the autostash of a rebase in a submodule is deleted",
        "tests/workspace/test_clean_everywhere.py::test_a_rebase_in_a_submodule",
        (
            "workspace/submodules.py",
            "    if (what := unsaved.operation(folder)) is not None:",
            "    if (what := None) is not None:",
        ),
    ),
    mutant(
        "clean-minds-unknown-admin-files",
        "a file in git's own folder of a worktree that is not known to be harmless keeps the worktree",
        "what only this file names is deleted",
        "tests/workspace/test_clean_everywhere.py::test_a_file_in_gits_folder_that_nobody_knows",
        (
            "workspace/clean.py",
            "    elif tree.unknown:",
            "    elif tree.unknown and not tree.unknown:",
        ),
    ),
    mutant(
        "clean-keeps-branches-of-rebases",
        "a branch that a rebase or a bisect will return to is in use",
        "the branch of a live agent is deleted in the middle of its rebase",
        "tests/workspace/test_clean_everywhere.py::test_a_branch_that_a_rebase_or_a_bisect_will_return_to",
        (
            "workspace/branches.py",
            "        for name in RETURNS_TO:",
            "        for name in ():",
        ),
    ),
    mutant(
        "clean-keeps-branches-of-kept-worktrees",
        "a branch is in use while the worktree that was made with it is there",
        "the worktree is kept, and its branch is deleted",
        "tests/workspace/test_clean_everywhere.py::test_a_branch_of_a_launch_whose_worktree_is_there",
        (
            "workspace/branches.py",
            "        found.add(made_for.get(os.path.realpath(one.path)))",
            "        found.add(None)",
        ),
    ),
    mutant(
        "clean-minds-worktrees-that-are-away",
        "a worktree that is not there is known by its path, also to live agents",
        "it is pruned under a live agent",
        "tests/workspace/test_clean_away.py::test_a_worktree_that_is_away_under_a_live_agent",
        (
            "workspace/clean.py",
            "by_path = folder.place is None or not holder.pids",
            "by_path = not holder.pids",
        ),
    ),
    mutant(
        "undo-asks-what-clean-asks",
        "the undo of a launch asks all that clean asks",
        "a worktree is removed under a process, and with a repository in it",
        "tests/workspace/test_clean_away.py::test_undo_leaves_a_worktree_with_a_process_in_it",
        (
            "launch/start.py",
            "why = why or clean.why_it_must_stay(",
            "why = why or (lambda *_: None)(",
        ),
    ),
    mutant(
        "clean-waits-for-hooks",
        "a launch is over only when its hook has run",
        "the worktree is removed before on-complete runs there",
        "tests/workspace/test_clean_away.py::test_not_before_the_hook_has_run",
        (
            "workspace/clean.py",
            "        if all(ran.name != hooks.ON_COMPLETE",
            "        if not all(ran.name != hooks.ON_COMPLETE",
        ),
    ),
    mutant(
        "git-waits-for-no-fifo",
        "git is not asked while a FIFO is in the place of its rules",
        "list, compare and clean give no answer",
        "tests/workspace/test_clean_away.py::test_a_fifo_in_the_place_of_rules",
        (
            "workspace/unsaved.py",
            "elif entry.name in RULES and not (",
            "elif entry.name not in RULES and not (",
        ),
    ),
    mutant(
        "clean-looks-deep",
        "clean looks for repositories at any depth of ignored folders",
        "a repository in a folder of an ignored folder is deleted",
        "tests/workspace/test_unsaved.py::test_repositories_deep_in_ignored_folders",
        (
            "workspace/unsaved.py",
            "        front += (f",
            "        _ = (f",
        ),
    ),
    mutant(
        "clean-sees-hidden-changes",
        "clean looks at changed files that git was told not to look at",
        "work in a file with the flag skip-worktree is deleted",
        "tests/workspace/test_unsaved.py::test_changed_files_that_git_was_told_not_to_look_at",
        (
            "workspace/contents.py",
            "if not (letters == GONE and name in unseen)]",
            "if name not in unseen]",
        ),
    ),
    mutant(
        "clean-keeps-own-refs",
        "clean looks at the refs that only this worktree has",
        "commits that only refs/worktree has are deleted",
        "tests/workspace/test_unsaved.py::test_commits_that_only_its_own_refs_have",
        (
            "workspace/clean.py",
            "for what in tree.in_own_folder]",
            "for what in ()]",
        ),
    ),
    mutant(
        "clean-counts-every-ref-of-submodules",
        "clean counts what any ref of a submodule has",
        "commits in notes and other refs of a submodule are deleted",
        "tests/workspace/test_unsaved.py::test_other_refs_of_a_submodule",
        (
            "workspace/submodules.py",
            '"--exclude=refs/stash", "--all"',
            '"--branches", "--tags"',
        ),
    ),
    mutant(
        "clean-finds-old-submodules",
        "clean looks into the git folders of submodules that are no longer checked out",
        "their commits are deleted",
        "tests/workspace/test_unsaved.py::test_a_submodule_that_is_no_longer_checked_out",
        (
            "workspace/submodules.py",
            "in module_folders(own) if own is not None else ()",
            "in ()",
        ),
    ),
    mutant(
        "git-failed-is-no-answer",
        "a git that fails has not said no",
        "compare says that a worktree is gone because git could not run",
        "tests/workspace/test_unsaved.py::test_a_git_that_fails_has_not_said_no",
        (
            "workspace/git.py",
            "if ran.code != 0 and ran.code not in no:",
            "if False:",
        ),
    ),
    mutant(
        "clean-symbolic-refs",
        "a symbolic ref keeps no commits",
        "a branch is deleted with commits that only a name of itself has",
        "tests/workspace/test_commits.py::test_a_symbolic_ref_keeps_nothing",
        (
            "workspace/commits.py",
            "for name, id, target in refs if not target)",
            "for name, id, target in refs)",
        ),
    ),
    mutant(
        "clean-prunable-worktrees",
        "a worktree that git would forget keeps no commits",
        "the commits of a detached worktree are deleted",
        "tests/workspace/test_commits.py::test_a_prunable_worktree_keeps_nothing",
        (
            "workspace/commits.py",
            "one.prunable is None and (one.locked is not None or is_there(one))",
            "True",
        ),
    ),
    mutant(
        "clean-left-behind",
        "clean looks at the commits that a detached HEAD has left",
        "commits that only the reflog of the worktree has are deleted",
        "tests/workspace/test_commits.py::test_commits_that_its_head_left_behind",
        (
            "workspace/commits.py",
            "        count = own_commits(common, git.HERE, left, kept, env",
            "        count = 0 and own_commits(common, git.HERE, left, kept, env",
        ),
    ),
    mutant(
        "clean-left-behind-replaced",
        "commits that were amended or rebased are not left behind",
        "clean refuses after every amend of a detached HEAD",
        "tests/workspace/test_commits.py::test_commits_that_were_replaced_are_not_left_behind",
        (
            "workspace/commits.py",
            'REPLACED = ("commit (amend)", "rebase", "pull --rebase")',
            'REPLACED = ("nothing",)',
        ),
    ),
    mutant(
        "clean-left-behind-orphan",
        "a branch without a commit leaves what HEAD was",
        "commits of a detached HEAD are deleted after `checkout --orphan`",
        "tests/workspace/test_commits.py::test_commits_that_its_head_left_behind",
        (
            "workspace/commits.py",
            "    if unborn and is_commit(last):\n",
            "    if False:\n",
        ),
    ),
    mutant(
        "clean-left-behind-submodule",
        "clean looks at the commits that the HEAD of a submodule has left",
        "commits that `submodule update` left are deleted",
        "tests/workspace/test_commits.py::test_left_behind_in_a_submodule",
        (
            "workspace/submodules.py",
            "[*([head] if head else []), *left]",
            "[*([head] if head else [])]",
        ),
    ),
    mutant(
        "clean-damaged-reflog",
        "a reflog that cannot be read has not said that nothing was left",
        "commits are deleted that only a damaged reflog names",
        "tests/workspace/test_commits.py::test_a_damaged_reflog",
        (
            "workspace/commits.py",
            "        if not (is_id(old) and is_id(new)):\n",
            "        if False:\n",
        ),
    ),
    mutant(
        "clean-as-stored",
        "replacements and grafts keep no commits",
        "a branch is deleted that only a replaced commit has",
        "tests/workspace/test_commits.py::test_a_replaced_commit_keeps_nothing",
        (
            "workspace/commits.py",
            'AS_STORED = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}',
            "AS_STORED: dict[str, str] = {}",
        ),
    ),
    mutant(
        "clean-with-grafts",
        "what a graft hides is not kept",
        "a branch is deleted whose commits gc would remove",
        "tests/workspace/test_commits.py::test_a_graft_that_hides_parents",
        (
            "workspace/commits.py",
            "(AS_STORED, {}) if os.path.lexists(said)",
            "(AS_STORED,) if os.path.lexists(said)",
        ),
    ),
    mutant(
        "clean-head-of-another-kind",
        "a HEAD that names no branch is on none",
        "commits are deleted that only a ref outside of refs/heads has",
        "tests/workspace/test_commits.py::test_a_head_that_names_another_ref",
        (
            "workspace/worktree.py",
            "ref.removeprefix(HEADS) if ref.startswith(HEADS) else None",
            "ref.removeprefix(HEADS) or None",
        ),
    ),
    mutant(
        "clean-reads-contents",
        "clean compares what is in files, not their sizes and times",
        "a change with the same size and time is deleted",
        "tests/workspace/test_contents.py::test_a_change_with_the_same_size_and_time",
        (
            "workspace/inspect.py",
            "(contents if fully else unsaved).changed_files",
            "unsaved.changed_files",
        ),
    ),
    mutant(
        "clean-reads-contents-of-submodules",
        "clean compares what is in the files of submodules",
        "a change in a submodule with the same size and time is deleted",
        "tests/workspace/test_contents.py::test_the_same_in_a_submodule",
        (
            "workspace/submodules.py",
            "if changes := contents.changes(inner, env):",
            "if changes := ():",
        ),
    ),
    mutant(
        "clean-each-name",
        "a new file is new though its name differs in case alone",
        "a file that git takes for another is deleted",
        "tests/workspace/test_contents.py::test_a_new_file_whose_name_differs_in_case_alone",
        (
            "workspace/unsaved.py",
            "(*scratch_index.ON_ITS_OWN, *EACH_NAME)",
            "scratch_index.ON_ITS_OWN",
        ),
    ),
    mutant(
        "clean-this-tree",
        "clean looks at the folder that it removes, whatever core.worktree says",
        "files are deleted because another folder has no changes",
        "tests/workspace/test_contents.py::test_a_worktree_that_looks_elsewhere",
        (
            "workspace/git.py",
            'THIS_TREE = "--work-tree=."',
            'THIS_TREE = "--no-pager"',
        ),
    ),
    mutant(
        "clean-own-excludes",
        "settings that go with the worktree do not say what may be ignored",
        "a file that only this worktree ignores is deleted",
        "tests/workspace/test_contents.py::test_files_that_only_its_own_settings_ignore",
        (
            "workspace/contents.py",
            '    if not any(scope == "worktree" for scope, _ in values):\n',
            "    if True:\n",
        ),
    ),
    mutant(
        "clean-as-checked-out",
        "a file as git would write it is not changed",
        "clean refuses because of line ends that nobody changed",
        "tests/workspace/test_contents.py::test_line_ends_that_were_committed_against_the_rules",
        (
            "workspace/contents.py",
            "        same = set(as_checked_out(path, new, index, env)) if new else set()\n",
            "        same: set[str] = set()\n",
        ),
    ),
    mutant(
        "clean-without-hooks",
        "a look at a worktree runs no hook",
        "a hook of the person runs because of a question",
        "tests/workspace/test_contents.py::test_no_hook_runs_because_of_a_look",
        (
            "workspace/scratch_index.py",
            '        f"core.hooksPath={os.devnull}",\n',
            "",
        ),
    ),
    mutant(
        "clean-staged-and-gone",
        "the index of a worktree whose folder is gone may have work",
        "what was staged is deleted",
        "tests/workspace/test_contents.py::test_what_was_staged_in_a_worktree_that_is_gone",
        (
            "workspace/clean.py",
            "        elif tree.staged:\n",
            "        elif False:\n",
        ),
    ),
    mutant(
        "clean-operation-and-gone",
        "a worktree whose folder is gone may be in the middle of something",
        "the autostash of a rebase is deleted",
        "tests/workspace/test_contents.py::test_a_rebase_in_a_worktree_that_is_gone",
        (
            "workspace/clean.py",
            "    if tree.operation is not None:\n",
            "    if tree.operation is not None and tree.there:\n",
        ),
    ),
    mutant(
        "clean-autostash",
        "what a killed merge has put away is work",
        "the autostash of a merge is deleted",
        "tests/workspace/test_contents.py::test_operations",
        (
            "workspace/unsaved.py",
            '    "MERGE_AUTOSTASH": "a merge",\n',
            "",
        ),
    ),
)
