"""Defences of who holds a session: a live process does, by a fact; hints only say which one is taken for it."""

from __future__ import annotations

from tests.mutants.model import mutant

HELD = (
    mutant(
        "file-of-a-dead-one",
        "the file of a dead process of Claude Code does not hold its session",
        "a live one without a file that goes on with it is firmly stopped",
        "killed-mid-turn/file_of_a_dead_one",
        (
            "agents/claude_code/store.py",
            "frozenset(link.id for link in followed if link.left is None and processes.alive(link.key))",
            "frozenset(link.id for link in followed)",
        ),
    ),
    mutant(
        "directory-is-a-hint",
        "a Claude Code without a file can be on every open turn that was written since it started",
        "one that has left its directory is firmly stopped while it works",
        "killed-mid-turn/left_its_directory",
        ("agents/claude_code/store.py", "if record is not None and record.turn in (WORKING, UNKNOWN):", "if False:"),
    ),
    mutant(
        "taken-for-another-by-hints",
        "an end is inferred if a process can be on it that hints speak for another session of",
        "firmly stopped, though a live process that has left its directory can be on it",
        "killed-mid-turn/left_its_directory",
        (
            "query/judge.py",
            "bool(case.screens) or bool(case.unlikely)",
            "bool(case.screens)",
        ),
    ),
    mutant(
        "newest-transcript",
        "of the copies of a transcript the one whose last record is the newest counts",
        "a session that was killed in mid-turn is done, by an older copy",
        "damaged-store/stale_copy_of_a_transcript",
        (
            "agents/claude_code/store.py",
            "max(paths, key=last_record, default=None)",
            "max(paths, key=written_at, default=None)",
        ),
    ),
)
