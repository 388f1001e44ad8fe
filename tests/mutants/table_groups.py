"""Defences of groups: whose name it is, which launch a slot is, and where its work is."""

from __future__ import annotations

from tests.mutants.model import mutant

NAMES = "tests/workspace/test_group_names.py::"

GROUPS = (
    mutant(
        "a-group-is-of-a-repository",
        "a name of a group means the one of the repository that the command is in",
        "`stop`, `accept` and `worktree clean` act on the group of another repository",
        NAMES + "test_a_name_in_two_repositories_is_two_groups",
        (
            "launches/groups.py",
            "by_repository.setdefault(repository_of(launch), [])",
            "by_repository.setdefault(None, [])",
        ),
    ),
    mutant(
        "two-groups-are-not-one",
        "outside of both repositories, a name that two have is refused",
        "the first of them is taken",
        NAMES + "test_outside_of_both_every_verb_names_the_choices",
        (
            "launches/groups.py",
            "        if ours not in by_repository:\n",
            "        ours = ours if ours in by_repository else next(iter(by_repository))\n        if False:\n",
        ),
    ),
    mutant(
        "wait-takes-the-newest-launch-of-a-slot",
        "`wait --group` waits for the newest launch of each slot",
        "the failure of an earlier night is the exit code of each later one",
        NAMES + "test_wait_takes_the_newest_launch_of_each_slot",
        (
            "wait.py",
            "RECENT), env)).of_now()\n",
            "RECENT), env))\n",
        ),
    ),
    mutant(
        "a-resume-keeps-the-place",
        "the record of a resume has the worktree, branch, base and repository of the launch that it continues",
        "hooks of a resumed slot do not know its worktree",
        NAMES + "test_a_resumed_slot_keeps_its_place",
        (
            "launch/start.py",
            "._replace(given=given_to(session, request.cwd, env))",
            "",
        ),
    ),
    mutant(
        "a-resume-takes-no-other-worktree",
        "a resume keeps a place only if the worktree there is the one that the launch was given",
        "a person's own worktree at its path is taken for the slot's, and removed with the group",
        NAMES + "test_a_worktree_that_a_person_made_at_its_path_is_not_the_slots",
        (
            "launch/start.py",
            "(one for one in reversed(here) if clean.given_to(one, env))",
            "reversed(here)",
        ),
    ),
    mutant(
        "a-slot-has-the-worktree-of-an-earlier-launch",
        "the place of a slot is the worktree of its newest launch that has one",
        "the work of a slot that an older agentctl resumed is not found",
        "tests/launches/test_groups.py::test_a_slot_is_its_newest_launch_and_its_place_is_the_worktree",
        (
            "launches/groups.py",
            "before.given if before is not None and launch.worktree is None else launch",
            "launch",
        ),
    ),
    mutant(
        "a-launch-stays-while-its-worktree-is-there",
        "the sweep keeps a launch whose worktree is there",
        "after a week `compare`, `accept` and `worktree clean` know nothing of work that is not merged",
        "tests/launches/test_retention.py::test_never_while_its_worktree_is_there",
        (
            "launches/retention.py",
            "if launch.worktree is not None and not is_gone(launch.worktree):",
            "if launch.worktree is not None and launch.worktree == path:",
        ),
    ),
    mutant(
        "a-hook-does-not-object-to-itself",
        "an on-complete hook that has begun is not in the way of a command that it runs",
        "a hook that cleans up after its agent is always refused",
        "tests/workspace/test_clean_away.py::test_the_hook_that_asks_is_not_in_its_own_way",
        (
            "workspace/clean.py",
            "if hooks.completed(own) and processes.own(launch.runner) in ours:",
            "if not ours:",
        ),
    ),
    mutant(
        "a-hook-that-runs-objects-to-others",
        "an on-complete hook that runs is in the way of every command but its own",
        "the worktree is removed under a hook that saves its work",
        "tests/workspace/test_clean_away.py::test_another_command_waits_for_a_hook_that_runs",
        (
            "workspace/clean.py",
            "if hooks.completed(own) and processes.own(launch.runner) in ours:",
            "if hooks.completed(own):",
        ),
    ),
    mutant(
        "prune-closes-dead-panes",
        "`prune` closes the dead pane of a launch that is over",
        "a killed `launch --interactive` leaves a tmux session for good",
        "tests/terminal/test_dead_panes.py::test_the_dead_pane_of_a_launch_that_is_over",
        (
            "terminal/dead_panes.py",
            "return gone and now - max(ends, default=launch.created_at) > PATIENCE",
            "return False",
        ),
    ),
    mutant(
        "prune-leaves-panes-that-a-person-keeps",
        "`prune` closes only panes that `launch` itself told to stay",
        "a pane that a person's tmux.conf keeps is closed, with its last screen",
        "tests/terminal/test_dead_panes.py::test_a_pane_that_the_persons_own_setting_keeps_stays",
        (
            "terminal/dead_panes.py",
            " and is_kept_by_us(dead, env)]",
            "]",
        ),
    ),
    mutant(
        "what-a-hook-is-not-told-is-unset",
        "a fact that is not known is no variable of a hook",
        "`rm -r $AGENTCTL_WORKTREE/build` means /build",
        "tests/launches/test_hooks.py::test_what_it_is_told",
        (
            "launches/hooks.py",
            "{name: str(value) for name, value in values.items() if value is not None}",
            '{name: "" if value is None else str(value) for name, value in values.items()}',
        ),
    ),
)
