"""OpenCode's sessions as the JSON files of its older versions (before 1.2): `storage/{session,message,part}`.

A newer version copies them into its database once and leaves them behind, so the database is asked first.
"""

from __future__ import annotations

import os

from agentctl.agents.opencode.turn import Message, Part, Row
from agentctl.files.bounded import moment, text_or_none
from agentctl.model import RECORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from agentctl.files.reader import Reader

# Ids hold their time in 12 hex digits, of which the lowest three count within a millisecond: 36 bits of time, which
# wrap every 795 days. So they sort only relative to the beginning of their session.
ID_BITS = 48
COUNTER_BITS = 12
SHORTEST_HASH = 16  # characters
HOUR = 3600.0  # a clock that was set back does not make the first message the newest


class Folder:
    def __init__(self, reader: Reader) -> None:
        self.path = f"{reader.root}/storage"
        self._reader = reader

    # Sessions

    def session(self, id: str) -> Row | None:
        for project in self._projects():
            path = f"{project}/{id}.json"
            if self._reader.exists(path):
                return self._session(id, path)
        return None

    def _projects(self) -> list[str]:
        """Return the folders of all projects. A file that somebody left among them is none."""
        folder = f"{self.path}/session"
        names = self._reader.names(folder)
        return [f"{folder}/{name}" for name in names if is_project(name) or not os.path.isfile(f"{folder}/{name}")]

    def _session(self, id: str, path: str) -> Row | None:
        file = self._reader.json(path, RECORD)
        if file is None:
            return Row(id, path) if os.path.lexists(path) else None
        time = file.get("time")
        created, updated = (
            (moment(time.get(name)) for name in ("created", "updated")) if isinstance(time, dict) else (None, None)
        )
        return Row(
            id,
            path,
            text_or_none(file.get("parentID")),
            text_or_none(file.get("directory")),
            text_or_none(file.get("title")),
            text_or_none(file.get("version")),
            None,
            created,
            updated,
        )

    def _written(self, since: float) -> Iterator[Row]:
        for folder in self._projects():
            for name, found in self._reader.written_since(folder, ".json", since):
                if row := self._session(name.removesuffix(".json"), f"{folder}/{name}"):
                    written = found.st_mtime if found is not None else since  # unread: it may have been written since
                    yield row._replace(updated=max(row.updated or 0.0, written))

    def recent(self, since: float) -> list[str]:
        return [row.id for row in self._written(since) if row.parent is None]

    def begun_since(self, moment: float) -> list[Row]:
        return [row for row in self._written(moment) if row.parent is None]

    def of_directory(self, directory: str, limit: int) -> list[Row]:
        rows = [row for row in self._written(0.0) if row.parent is None and row.directory == directory]
        return sorted(rows, key=lambda row: -(row.updated or 0.0))[:limit]

    def offered(self, directory: str, *, whole: bool) -> list[str]:
        """Return the sessions that a screen in this directory can show: those of its project."""
        mine = {os.path.dirname(row.path) for row in self._written(0.0) if row.directory == directory}
        names = [name for folder in mine for name in self._reader.names(folder)]
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]

    def find(self, prefix: str) -> list[str]:
        return [
            name.removesuffix(".json")
            for folder in self._projects()
            for name in self._reader.names(folder)
            if name.startswith(prefix) and name.endswith(".json")
        ]

    def children(self, id: str) -> list[str]:
        return sorted(row.id for row in self._written(0.0) if row.parent == id)

    # What is in a session

    def has_newer_messages(self, id: str) -> bool:
        return False  # no newer version writes these files

    def messages(self, row: Row, limit: int) -> list[Message]:
        """Return the newest messages of a session, the newest first."""
        return [self._message(row, name) for name in reversed(self._message_names(row)[-limit:])]

    def first_messages(self, row: Row, limit: int) -> list[Message]:
        return [self._message(row, name) for name in self._message_names(row)[:limit]]

    def _message_names(self, row: Row) -> list[str]:
        begun = int(((row.created or 0.0) - HOUR) * 1000) << COUNTER_BITS
        names = self._reader.names(f"{self.path}/message/{row.id}", RECORD)
        return sorted(
            (name for name in names if name.endswith(".json")),
            key=lambda name: ((id_time(name) - begun) % (1 << ID_BITS), name),
        )

    def _message(self, row: Row, name: str) -> Message:
        written, data = self._read(f"{self.path}/message/{row.id}/{name}")
        time = (data or {}).get("time")
        created = moment(time.get("created")) if isinstance(time, dict) else None
        return Message(name.removesuffix(".json"), written if created is None else created, written, data)

    def parts(self, message: str) -> list[Part]:
        found = []
        for name in sorted(self._reader.names(f"{self.path}/part/{message}", RECORD)):
            written, data = self._read(f"{self.path}/part/{message}/{name}")
            if data is not None:
                time = data.get("time")
                begun = moment(time.get("start")) if isinstance(time, dict) else None
                found.append(Part(written if begun is None else begun, written, data))
        return found

    def _read(self, path: str) -> tuple[float, dict[str, Any] | None]:
        """Return when a file was written, and what it holds; None if it cannot be read, or was deleted at this
        moment."""
        found = self._reader.stat(path, RECORD)
        data = self._reader.json(path, RECORD)
        return found.st_mtime if found is not None and data is not None else 0.0, data

    def of_session(self, id: str) -> Iterator[Message]:
        if (row := self.session(id)) is not None:
            for name in self._message_names(row):
                yield self._message(row, name)


def is_project(name: str) -> bool:
    """Return whether a project can have this name: a hash, or `global`. A file of such a name hides its sessions."""
    return name == "global" or (len(name) >= SHORTEST_HASH and all(sign in "0123456789abcdef" for sign in name))


def id_time(name: str) -> int:
    """Return the time in a message's id; 0 if it has none."""
    digits = name.partition("_")[2][:12]
    return int(digits, 16) if len(digits) == 12 and all(digit in "0123456789abcdef" for digit in digits) else 0
