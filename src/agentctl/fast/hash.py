"""Stands for hashlib: `blake2b`, from the module in C that hashlib takes it from.

hashlib loads OpenSSL beside it and takes 3 ms to import. Without that module, it comes from hashlib.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["blake2b"]
