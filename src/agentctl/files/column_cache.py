"""A cache file: what was read from other files, as columns of values, valid while those files stay the same.

A user of it keeps, for each name, the stamp of the file that the values came from. It can be deleted at any time. If it
is damaged, too large, not ours alone, or written by other code, it counts as empty and is replaced. Processes that use
it at the same moment do not wait for each other: the last writer wins.
"""

from __future__ import annotations

import os

from agentctl.errors import Refused
from agentctl.fast import json as fast_json
from agentctl.files.private import CACHE_CODE, make_private, read_own, remove_unfinished, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    Parsed = TypeVar("Parsed")
    Types = Mapping[str, tuple[type, ...]]  # the types that the values of each column may have
    Stamp = tuple[int, int, int, int, int]

SETTLED = 2.0  # seconds: a file that was written later may be written again within one tick of its clock
WORTH_SAVING = 0.02  # of all rows: fewer new ones are read again next time, rather than write the whole file again
LEFT_BEHIND = 3600.0  # seconds after which a file that was never finished is removed
STAMP: Types = dict.fromkeys(("device", "inode", "size", "mtime", "ctime"), (int,))


def stamp_of(found: os.stat_result) -> Stamp:
    """What identifies the content of a file. No program can set the time of its last change (ctime), so a file that was
    put back with its old size and time differs, too."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class ColumnFile:
    """The file of one cache. `about`: what it holds, as a path; a file about something else counts as damaged."""

    def __init__(self, path: str, about: str, types: Types, limit: int) -> None:
        self._path, self._about, self._types, self._limit = path, about, types, limit
        self._replace = False  # the file cannot be used

    def load(self, parse: Callable[[dict[str, Any]], Parsed], nothing: Parsed) -> Parsed:
        """Return what `parse` makes of the content, or `nothing` if there is no usable file. `parse` may raise
        ValueError; the columns it gets have the right names, types and lengths."""
        try:
            return parse(self._content())
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError, MemoryError):
            self._replace = True
        return nothing

    def size(self) -> int:
        return os.stat(self._path, follow_symlinks=False).st_size

    def _content(self) -> dict[str, Any]:
        content = fast_json.loads(read_own(self._path, self._limit))
        if not isinstance(content, dict) or (content.get("code"), content.get("about")) != (CACHE_CODE, self._about):
            raise ValueError("written by other code, or about something else")
        columns = content.get("columns")
        if not isinstance(columns, dict) or columns.keys() != self._types.keys():
            raise ValueError("other columns")
        for name, types in self._types.items():
            if not isinstance(columns[name], list) or not set(map(type, columns[name])) <= {*types}:
                raise ValueError(f"{name}: other types")
        if len(set(map(len, columns.values()))) > 1:
            raise ValueError("columns of different lengths")
        return content

    def is_worth_saving(self, changes: int, rows: int) -> bool:
        return changes > WORTH_SAVING * rows or self._replace

    def save(self, rows: Iterable[Sequence[object]], **more: object) -> None:
        """Write these rows, each with a value for each column, or nothing if that fails: then the files are read
        again next time."""
        columns = list(zip(*rows, strict=True)) or [()] * len(self._types)
        content = {
            "code": CACHE_CODE,
            "about": self._about,
            "columns": dict(zip(self._types, columns, strict=True)),
            **more,
        }
        try:
            make_private(os.path.dirname(self._path))
            remove_unfinished(self._path, LEFT_BEHIND)
            # Lone surrogates (a name that is not UTF-8) are escaped, and come back as they were.
            replace_file(self._path, fast_json.dumps(content, separators=(",", ":")).encode())
        except (OSError, ValueError, Refused):
            pass
