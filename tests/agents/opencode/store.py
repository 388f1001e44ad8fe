"""What is in OpenCode's store, read without agentctl."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def ids(root: Path) -> set[str]:
    database = root / "opencode.db"
    if not database.exists():
        return set()
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=0.05)) as connection:
            return {str(id) for (id,) in connection.execute("SELECT id FROM session WHERE parent_id IS NULL")}
    except sqlite3.Error:
        return set()  # it is being made
