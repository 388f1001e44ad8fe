"""Defences of stores whose names lead elsewhere: what a process has open and watches decides."""

from __future__ import annotations

from tests.mutants.model import mutant

HINTS = (
    mutant(
        "store-by-open-files",
        "the files that a process has open tell in which store it works",
        "a live agent whose store was renamed is in no row",
        "store-name/renamed_under_its_agent store-name/link_switched",
        (
            "query/locating.py",
            "found = by_files(claim, readings, processes) if claim.agent.KEEPS_OPEN else (None, None)",
            "found: Found = (None, None)",
        ),
    ),
    mutant(
        "store-out-of-reach",
        "the path of an open file counts only if it leads to that file",
        "what is mounted over a store is taken for the store",
        "store-name/out_of_reach",
        (
            "query/locating.py",
            "if opened is not None and roots.identity(seen_from + path) == opened:",
            "if opened is not None:",
        ),
    ),
    mutant(
        "store-by-watches",
        "the folder that a process watches is its store",
        "a live Claude Code whose store was switched is in no row",
        "store-name/link_switched",
        ("query/locating.py", "        found = by_watches(claim, readings, hinted, processes)\n", "        pass\n"),
    ),
    mutant(
        "store-near-its-name",
        "a watched store is looked for near the name that it had",
        "a live Claude Code whose store was switched is in no row",
        "store-name/link_switched",
        ("query/locating.py", "    for path in near(hinted):\n", "    for path in ():\n"),
    ),
    mutant(
        "lost-is-a-problem",
        "a live agent whose store cannot be found is a problem",
        '"no sessions", `--strict` 0, while an agent works',
        "store-name/out_of_reach",
        ("query/candidates.py", "if claimed.lost is not None and (", "if False and ("),
    ),
    mutant(
        "lost-keeps-out",
        "launch keeps out of the directory of a live agent whose store cannot be found",
        "a second agent is let in",
        "store-name/out_of_reach",
        ("workspace/occupancy.py", "        blocks=ours or one.lost,\n", "        blocks=ours,\n"),
    ),
    mutant(
        "lost-is-not-sole",
        "a process whose store cannot be found is not taken for the one that is on a session",
        "a session is running in a process that may work in another store",
        "store-name/home_renamed",
        ("query/candidates.py", "sole = is_placed and all(", "sole = all("),
    ),
    mutant(
        "store-never-there",
        "a store is remembered once it was there",
        '"it is gone", in every answer, of what never was',
        "store-name/never_there",
        (
            "query/locating.py",
            "    if identity is None:\n        return None, f",
            "    if False:\n        return None, f",
        ),
    ),
    mutant(
        "dots-of-the-kernel",
        "only the kernel knows where `..` leads",
        "a store behind a link is not read",
        "tests/query/test_roots.py::test_two_dots_are_left_to_the_kernel",
        (
            "kernel/places.py",
            'return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))',
            "return os.path.normpath(path)",
        ),
    ),
    mutant(
        "empty-config-dir",
        "an empty CLAUDE_CONFIG_DIR is the directory of the agent",
        "its sessions are in no row",
        "store-name/as_the_agent_means_it",
        ("agents/claude_code/adapter.py", 'else ("", default)', "else (default,)"),
    ),
    mutant(
        "composed-home",
        "Claude Code composes the letters of its paths",
        "its sessions are in no row",
        "store-name/decomposed_home",
        ("agents/claude_code/adapter.py", '    return normalize("NFC", path)\n', "    return path\n"),
    ),
    mutant(
        "store-in-settings",
        "the settings of Claude Code may name another store",
        "its sessions are in no row",
        "store-name/as_the_agent_means_it",
        (
            "agents/claude_code/store.py",
            "        self.elsewhere = files.store_in_settings(self.root, self.reader)\n",
            "",
        ),
    ),
    mutant(
        "title-over-environment",
        "a title that was written over an environment is no environment",
        "an agent is taken to work in the store of the HOME of its user",
        "tests/kernel/test_linux.py::test_a_title_over_an_environment_is_no_environment",
        ("kernel/one_process.py", " or not names_a_variable(entries[0])", ""),
    ),
)
