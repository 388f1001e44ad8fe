"""Stands for urllib.parse: `quote`, for the part of a URL that is a path.

urllib.parse compiles patterns and imports ipaddress: 8 ms. This module needs nothing private, so there is nothing to
fall back to.
"""

from __future__ import annotations

PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")


def quote(path: str | bytes, *, errors: str = "strict") -> str:
    """Return a path percent-encoded, byte by byte; a text in UTF-8, with `errors` as str.encode takes it."""
    data = path.encode(errors=errors) if isinstance(path, str) else path
    return "".join(chr(byte) if byte in PLAIN else f"%{byte:02X}" for byte in data)
