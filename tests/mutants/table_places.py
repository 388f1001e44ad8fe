"""Defences of directories: they are compared by device and inode, and locks hold below themselves."""

from __future__ import annotations

from tests.mutants.model import mutant

PLACES = (
    mutant(
        "directory-of-a-process",
        "launch asks the kernel in which directory a live agent is",
        "a second agent is let into a directory that was renamed",
        "same-directory/renamed_directory",
        (
            "workspace/occupancy.py",
            "                found.append(self._processes.place(process))\n",
            "                pass\n",
        ),
    ),
    mutant(
        "path-of-other-mounts",
        "a path that an agent with other mounts recorded is not looked up in ours",
        "launch refuses a directory in which nobody is",
        "same-directory/directory_of_a_container",
        (
            "workspace/occupancy.py",
            "if not elsewhere:  # else those paths",
            "if True:  # else those paths",
        ),
    ),
    mutant(
        "directory-not-told",
        "a live agent of which nothing tells where it works may work here",
        "a second agent is let into its directory",
        "tests/workspace/test_occupancy.py::test_who_blocks_and_who_warns",
        ("workspace/occupancy.py", "return holder.sure and holder.blocks and not told", "return False"),
    ),
    mutant(
        "directory-given-up",
        "a process that has given up its directory works nowhere",
        "of many launches at once, some are refused because another one is just ending",
        "tests/workspace/test_occupancy.py::test_one_that_ends_while_we_look_is_in_no_directory",
        ("workspace/occupancy.py", "not all(map(self._has_ended, holder.pids))", "bool(holder.pids)"),
    ),
    mutant(
        "lock-follows-its-directory",
        "a lock has the device and inode of its directory",
        "an agent is let into a locked directory that was renamed",
        "same-directory/moved_lock",
        (
            "workspace/occupancy.py",
            "moved = lock.identity is not None and (now is None or now.at != lock.identity)",
            "moved = False",
        ),
    ),
    mutant(
        "lock-of-a-removed-directory",
        "a lock has the time at which its directory was made",
        "a directory that got the inode of a locked one is locked",
        "tests/workspace/test_lock_births.py::test_a_stranger_is_not_locked",
        (
            "workspace/occupancy.py",
            "        if moved and not is_a_stranger(lock, near):\n",
            "        if moved:\n",
        ),
    ),
    mutant(
        "lock-without-a-birth",
        "a directory whose time cannot be told may be the locked one",
        "an agent is let into a locked directory that was renamed",
        "tests/workspace/test_lock_births.py::test_a_file_system_that_does_not_tell",
        (
            "workspace/occupancy.py",
            "    return theirs is not None and theirs != lock.born\n",
            "    return theirs != lock.born\n",
        ),
    ),
    mutant(
        "lock-holds-below",
        "a lock holds for everything in its directory",
        "an agent is let into a folder of a locked directory",
        "lock-below/lock_below",
        (
            "workspace/occupancy.py",
            "WARNS if related[0] == BELOW else BLOCKS",
            "WARNS if related[0] != SAME else BLOCKS",
        ),
    ),
    mutant(
        "unread-lock-holds-below",
        "a lock that cannot be read may be of a directory above",
        "an agent is let into a folder of a locked directory",
        "tests/workspace/test_locks.py::test_an_unread_lock_holds_below_its_directory",
        (
            "workspace/locks.py",
            "problem.path in lock_paths(env, directory)",
            "problem.path == lock_path(env, directory)",
        ),
    ),
    mutant(
        "lock-above-a-worktree",
        "clean refuses below a locked directory",
        "a worktree is removed from a locked directory",
        "lock-below/lock_below",
        ("workspace/clean.py", "        above = folder.place is not None and any(", "        above = False and any("),
    ),
    mutant(
        "names-of-a-part",
        "a directory that is mounted at a second place is also below what is above the first",
        "an agent is let into a part of a locked directory",
        "same-directory/directory_mounted_twice",
        ("kernel/places.py", "            above.update(above_the_same(other, at))\n", "            pass\n"),
    ),
    mutant(
        "gate-of-a-directory",
        "the gate belongs to the directory, not to its path",
        "two simultaneous launches both get in, by two paths",
        "tests/workspace/test_gates.py::test_the_gate_of_a_renamed_directory",
        ("workspace/locks.py", 'f"{at[0]}:{at[1]}", real, patience', "real, real, patience"),
    ),
    mutant(
        "worktree-by-identity",
        "clean knows the directories of a worktree by device and inode",
        "a worktree is removed under an agent that has another path for it",
        "worktree-lives/worktree_under_another_path",
        (
            "workspace/clean.py",
            "return theirs.at in self.directories or related in (places.SAME, places.BELOW)",
            "return False",
        ),
        ("workspace/clean.py", "    if processes.directory(process) in folder.directories:\n", "    if False:\n"),
    ),
    mutant(
        "one-of-two-is-at-work",
        "launch refuses if one of several live agents is in mid-turn here",
        "another agent is let in, with a warning",
        "which-of-two/which_of_two",
        ("workspace/occupancy.py", 'AT_WORK = ("candidate", "newer")', "AT_WORK = ()"),
    ),
    mutant(
        "stranger-warns",
        "launch warns of a session that a program may be on that nobody recognises",
        "launch says nothing",
        "which-of-two/launch_beside_a_stranger",
        ("workspace/occupancy.py", '"supervised", STRANGER)', '"supervised")'),
    ),
    mutant(
        "clean-looks-first",
        "clean looks whether it can remove everything before it begins",
        "git forgets a worktree that it could not remove",
        "worktree-closed/worktree_closed",
        ("workspace/clean.py", "if folder.closed else []", "if False else []"),
    ),
    mutant(
        "home-is-absolute",
        "agentctl refuses a relative AGENTCTL_HOME",
        "a lock that was set in one directory does not hold in the next",
        "tests/cli/test_places.py::test_a_relative_agentctl_home_is_refused",
        ("__main__.py", "if not home or os.path.isabs(home):", "if True:"),
    ),
    mutant(
        "relative-xdg",
        "a relative folder of XDG is ignored",
        "the configuration and the caches depend on the directory that agentctl is called in",
        "tests/cli/test_places.py::test_relative_folders_of_xdg_are_ignored",
        ("config.py", "return base if os.path.isabs(base) else", "return base if base else"),
    ),
    mutant(
        "id-reaches-the-person",
        "launch says the id on stderr if stdout takes nothing",
        "an agent runs, and nothing names it",
        "tests/cli/test_places.py::test_the_id_goes_to_stderr_if_stdout_is_full",
        (
            "cli/launch_options.py",
            "    except OSError as error:\n        from agentctl.cli import give_up",
            "    except EOFError as error:\n        from agentctl.cli import give_up",
        ),
    ),
    mutant(
        "directory-as-the-process-sees-it",
        "the kernel's path of a directory is the one that the process sees: our links do not belong to it",
        "a live agent of a container is firmly stopped",
        "same-directory/link_here_directory_there",
        ("agents/directories.py", "names = [real_path(details.cwd), details.cwd]", "names = [real_path(details.cwd)]"),
    ),
    mutant(
        "directory-it-was-started-in",
        "a live process may be on the sessions of the directory that it was started in",
        "an agent without a pid file is firmly stopped once its directory was renamed",
        "same-directory/renamed_without_a_trace",
        ("agents/directories.py", "    if os.path.isabs(started_in):\n", "    if False:\n"),
    ),
    mutant(
        "recorded-directory-by-identity",
        "a recorded directory and that of a process are the same by device and inode",
        "a live agent that sees other mounts than we is firmly stopped",
        "tests/agents/test_directories.py::test_a_recorded_directory_that_is_the_same_one",
        ("agents/directories.py", "    return identity(recorded) == details.directory\n", "    return False\n"),
    ),
)
