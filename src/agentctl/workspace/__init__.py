"""Directories and git: worktrees, what is in them, who works there, and who may not.

Comes in: directories, an answer of the query. Goes out: worktrees made or removed, differences, conflicts, locks.
May import: everything up to terminal.
"""
