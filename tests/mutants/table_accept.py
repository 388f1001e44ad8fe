"""Defences of `accept`: what a person has in the worktree that a merge changes."""

from __future__ import annotations

from tests.mutants.model import mutant

ACCEPT = (
    mutant(
        "accept-looks-before-it-writes",
        "accept refuses if the worktree has a file that git does not track in the place of one that comes",
        "an ignored file of the person, the only copy, is overwritten",
        "tests/workspace/test_accept_safely.py::test_a_file_that_git_does_not_track",
        (
            "workspace/merging.py",
            "    if occupied:\n",
            "    if occupied and not paths:\n",
        ),
    ),
    mutant(
        "accept-minds-flagged-files",
        "accept refuses if a file that changes has the flag assume-unchanged or skip-worktree",
        "what the person wrote into such a file is lost",
        "tests/workspace/test_accept_safely.py::test_a_file_that_git_was_told_not_to_look_at",
        (
            "workspace/merging.py",
            "    if flagged:\n",
            "    if flagged and not paths:\n",
        ),
    ),
    mutant(
        "accept-names-uncommitted-files",
        "accept refuses if a file that changes has changes that are not committed",
        "git is asked to overwrite it",
        "tests/workspace/test_accept.py::test_changes_of_the_person_are_not_overwritten",
        (
            "workspace/merging.py",
            "    if changed:\n",
            "    if changed and not paths:\n",
        ),
    ),
    mutant(
        "accept-refuses-empty-links",
        "accept refuses a link to a repository whose commits nobody here can get",
        "it is merged, and only an empty folder arrives",
        "tests/workspace/test_accept_safely.py::test_a_repository_that_the_slot_made",
        (
            "workspace/merging.py",
            "if one.mode == GITLINK and not can_be_had",
            "if one.mode != one.mode and not can_be_had",
        ),
    ),
    mutant(
        "accept-compares-before-it-says-nothing",
        "accept says that nothing was changed only if it compared",
        "nothing was changed, it says, and something was",
        "tests/workspace/test_accept_safely.py::test_what_was_changed_is_not_called_nothing",
        (
            "workspace/accept.py",
            "        elif new == old:\n",
            "        elif new == new:\n",
        ),
    ),
    mutant(
        "accept-takes-a-checkout-back",
        "accept takes back what a checkout that stopped has written",
        "half of the slot's files stay in the person's worktree",
        "tests/workspace/test_accept_safely.py::test_a_checkout_that_stops_is_taken_back",
        (
            "workspace/merging.py",
            "        raise put_back(top, changes, error, env) from error\n",
            "        raise\n",
        ),
    ),
    mutant(
        "accept-takes-only-its-own-back",
        "accept takes back only a file that has what git was writing there",
        "what a person saved a moment before is deleted",
        "tests/workspace/test_accept_safely.py::test_what_a_person_saves_meanwhile_is_not_taken_back",
        (
            "workspace/undo.py",
            "if is_gits and same(",
            "if same(",
        ),
    ),
    mutant(
        "accept-follows-no-link-back",
        "accept takes nothing back that is behind a link",
        "a file outside of the repository is deleted",
        "tests/workspace/test_accept_safely.py::test_nothing_behind_a_link_is_taken_back",
        (
            "workspace/undo.py",
            "            below = os.open(part, FOLDER, dir_fd=at)\n",
            "            below = os.open(part, FOLDER & ~os.O_NOFOLLOW, dir_fd=at)\n",
        ),
    ),
    mutant(
        "accept-looks-again-at-ignored-places",
        "accept looks right before git's checkout whether a place in which a file comes is taken",
        "git overwrites an ignored file that a person made meanwhile",
        "tests/workspace/test_accept_safely.py::test_an_ignored_file_that_a_person_makes_meanwhile",
        (
            "workspace/merging.py",
            "    refuse_occupied(top, changes)  # again",
            "    # again",
        ),
    ),
    mutant(
        "accept-holds-ctrl-c-back",
        "Ctrl-C waits until accept has moved files and branch",
        "the slot's files stay staged in the person's worktree, and nobody says so",
        "tests/workspace/test_accept_safely.py::test_ctrl_c_waits_for_the_act_and_is_told",
        (
            "workspace/accept.py",
            "    with Uninterrupted():\n",
            "    with ExitStack():\n",
        ),
    ),
    mutant(
        "accept-judges-behind-the-gate",
        "accept judges once it has the gates of both worktrees",
        "half of a turn is committed and merged",
        "tests/workspace/test_accept_safely.py::test_it_waits_at_the_gate_of_the_slot",
        (
            "workspace/accept.py",
            "for one in (top, place.worktree) if one is not None}):",
            "for one in (top,) if one is not None}):",
        ),
    ),
    mutant(
        "accept-wants-a-message",
        "accept makes no commit without a message",
        "a commit without a message is merged",
        "tests/workspace/test_remedies.py::test_a_message_without_text",
        (
            "workspace/accept.py",
            "if message is not None and not message.strip():",
            "if message is not None and not group:",
        ),
    ),
    mutant(
        "a-failed-hook-of-git-is-named",
        "if git's post-checkout hook fails, the error names it",
        "`exit code 1` is all that a person learns",
        "tests/workspace/test_remedies.py::test_a_hook_of_git_that_fails",
        (
            "workspace/worktree.py",
            "if ran.code != git.FATAL and os.path.isfile(path)",
            "if ran.code == 0 and os.path.isfile(path)",
        ),
    ),
    mutant(
        "accept-refreshes-the-index",
        "accept refreshes the index before git's checkout",
        "a file that was only touched stops it, for good",
        "tests/workspace/test_accept_safely.py::test_a_file_that_was_only_touched_is_in_nobodys_way",
        (
            "workspace/merging.py",
            "    refresh(top, env)\n    refuse_occupied",
            "    refuse_occupied",
        ),
    ),
    mutant(
        "accept-tries-every-lock",
        "accept looks for every lock of git that it needs, in both worktrees, before it moves anything",
        "the person's branch is moved, and the slot's index is left at the old commit",
        "tests/workspace/test_accept_safely.py::test_a_lock_of_git_is_found_before_anything_moves",
        (
            "workspace/accept.py",
            "        merging.refuse_locked(plan.worktree, plan.branch, env)\n",
            "        pass\n",
        ),
    ),
    mutant(
        "accept-moves-the-slots-branch-with-its-index",
        "the slot's branch goes back if its index could not follow",
        "the slot shows its own work as deleted and as new",
        "tests/workspace/test_accept_safely.py::test_the_branch_of_the_slot_does_not_move_without_its_index",
        (
            "workspace/merging.py",
            '        git.answer(worktree, "update-ref", "-m", why, "HEAD", old, commit, env=env)\n        raise\n',
            "        raise\n",
        ),
    ),
)
