"""What the stand-ins of the soak need: their own words, and what they print for whoever launched them."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def printed(value: dict[str, Any]) -> None:
    """On the output that a launch keeps; a full disk is no reason to end."""
    try:
        os.write(1, json.dumps(value).encode() + b"\n")
    except OSError:
        pass


def after(words: list[str], *options: str) -> str | None:
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word in options), None)
