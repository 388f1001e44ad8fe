"""How wide the output may be. Even `--help` asks, so this imports nothing."""

from __future__ import annotations

import os
import sys

ANY_WIDTH = 160  # columns, if stdout is no terminal


def width() -> int:
    """Return how many columns a line may have."""
    return known_width() or ANY_WIDTH


def has_width() -> bool:
    """Return whether lines must not be longer than `width`: not in a pipe or a file."""
    return known_width() is not None


def known_width() -> int | None:
    """Return the width that COLUMNS gives, or that of the terminal; None if there is none."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given[:9]) > 0:
        return int(given[:9])
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None
