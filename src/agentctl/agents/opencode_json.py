"""OpenCode's sessions as the JSON files of its older versions (before 1.2): `storage/{session,message,part}`.

A newer version copies them into its database once and leaves them behind, so the database is asked first.
"""

from __future__ import annotations

import os

from agentctl.agents.opencode_turn import Message, Part, Row
from agentctl.model import Problem, Tokens
from agentctl.stores import Torn, amount, modified_since, moment, names, read_json, text_or_none, total

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Ids hold their time in 12 hex digits, of which the lowest three count within a millisecond: 36 bits of time, which
# wrap every 795 days. So they sort only relative to the beginning of their session.
ID_BITS = 48
COUNTER_BITS = 12
HOUR = 3600.0  # a clock that was set back does not make the first message the newest


class Folder:
    def __init__(self, agent: str, root: str, problems: list[Problem]) -> None:
        self.path = f"{root}/storage"
        self._agent = agent
        self._problems = problems

    # Sessions

    def session(self, id: str) -> Row | None:
        for project in names(f"{self.path}/session"):
            path = f"{self.path}/session/{project}/{id}.json"
            if os.path.lexists(path):
                return self._session(id, path)
        return None

    def _session(self, id: str, path: str) -> Row | None:
        try:
            file = read_json(path)
        except FileNotFoundError:
            return None
        except Torn:
            return Row(id, path)
        except OSError as error:
            self._report(error, path)
            return Row(id, path)
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
        for project in names(f"{self.path}/session"):
            folder = f"{self.path}/session/{project}"
            for name, written in modified_since(folder, ".json", since):
                if row := self._session(name.removesuffix(".json"), f"{folder}/{name}"):
                    yield row._replace(updated=max(row.updated or 0.0, written))

    def recent(self, since: float) -> list[str]:
        return [row.id for row in self._written(since) if row.parent is None]

    def begun_since(self, moment: float) -> list[Row]:
        return [row for row in self._written(moment) if row.parent is None]

    def of_directory(self, directory: str, limit: int) -> list[Row]:
        rows = [row for row in self._written(0.0) if row.parent is None and row.directory == directory]
        return sorted(rows, key=lambda row: -(row.updated or 0.0))[:limit]

    def find(self, prefix: str) -> list[str]:
        return [
            name.removesuffix(".json")
            for project in names(f"{self.path}/session")
            for name in names(f"{self.path}/session/{project}")
            if name.startswith(prefix) and name.endswith(".json")
        ]

    def children(self, id: str) -> list[str]:
        return sorted(row.id for row in self._written(0.0) if row.parent == id)

    # What is in a session

    def messages(self, row: Row, limit: int) -> list[Message]:
        """The newest ones, the newest first."""
        return [self._message(row, name) for name in reversed(self._message_names(row)[-limit:])]

    def first_messages(self, row: Row, limit: int) -> list[Message]:
        return [self._message(row, name) for name in self._message_names(row)[:limit]]

    def _message_names(self, row: Row) -> list[str]:
        begun = int(((row.created or 0.0) - HOUR) * 1000) << COUNTER_BITS
        return sorted(
            (name for name in names(f"{self.path}/message/{row.id}") if name.endswith(".json")),
            key=lambda name: ((id_time(name) - begun) % (1 << ID_BITS), name),
        )

    def _message(self, row: Row, name: str) -> Message:
        written, data = self._read(f"{self.path}/message/{row.id}/{name}")
        time = (data or {}).get("time")
        created = moment(time.get("created")) if isinstance(time, dict) else None
        return Message(name.removesuffix(".json"), written if created is None else created, written, data)

    def parts(self, message: str) -> list[Part]:
        found = []
        for name in sorted(names(f"{self.path}/part/{message}")):
            written, data = self._read(f"{self.path}/part/{message}/{name}")
            if data is not None:
                time = data.get("time")
                begun = moment(time.get("start")) if isinstance(time, dict) else None
                found.append(Part(written if begun is None else begun, written, data))
        return found

    def _read(self, path: str) -> tuple[float, dict[str, Any] | None]:
        """(when it was written, what it holds); None = torn, no file, or deleted this moment."""
        try:
            return os.stat(path).st_mtime, read_json(path)
        except (FileNotFoundError, Torn):
            return 0.0, None
        except OSError as error:
            self._report(error, path)
            return 0.0, None

    def _report(self, error: OSError, path: str) -> None:
        """One file that cannot be read is the matter of its own session."""
        self._problems.append(Problem(self._agent, error.strerror or str(error), path))

    def usage(self, row: Row) -> tuple[Tokens | None, float | None]:
        """Tokens and cost of this session alone: the messages that a fork copied were paid for where they were made."""
        counts, cost = [0] * 5, 0.0
        for name in self._message_names(row):
            message = self._message(row, name)
            tokens, paid = (message.data or {}).get("tokens"), (message.data or {}).get("cost")
            if message.created < (row.created or 0.0) or not isinstance(tokens, dict):
                continue
            cache = tokens.get("cache")
            cached = cache if isinstance(cache, dict) else {}
            values = (
                tokens.get("input"),
                tokens.get("output"),
                cached.get("read"),
                cached.get("write"),
                tokens.get("reasoning"),
            )
            counts = [count + total([value]) for count, value in zip(counts, values, strict=True)]
            cost += amount(paid) or 0.0
        return (Tokens(*counts), round(cost, 10)) if any(counts) else (None, None)


def id_time(name: str) -> int:
    """The time in a message's id, as far as it has one."""
    digits = name.partition("_")[2][:12]
    return int(digits, 16) if len(digits) == 12 and all(digit in "0123456789abcdef" for digit in digits) else 0
