"""The sessions of one OpenCode store, wherever a version keeps them, each read once in a query."""

from __future__ import annotations

import os

from agentctl.agents import load_part
from agentctl.agents.opencode.turn import NEWER_MESSAGES, NEWEST, Row, Tool, Turn, prompt_of, read_turn, title_of
from agentctl.errors import AgentFault, show_traceback
from agentctl.files.bounded import read_bytes
from agentctl.model import RECORD, SESSIONS, UNKNOWN, WORKING, Evidence, Problem, Record, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agentctl.agents.opencode.db import Database
    from agentctl.agents.opencode.json_store import Folder
    from agentctl.agents.usage_base import Total
    from agentctl.files.reader import Reader

DATABASE = "opencode.db"
SQLITE = b"SQLite format 3\0"  # how a database begins
FIRST_MESSAGES = 4
DEPTH = 3  # of sub-agents of sub-agents


class Reading(Value):
    row: Row
    turn: Turn
    source: Database | Folder


class Sessions:
    def __init__(self, reader: Reader, problems: list[Problem]) -> None:
        """Note which files are there. None of them names a process, so nothing is opened yet."""
        self.agent = reader.agent
        self.root = root = reader.root
        self._reader = reader
        self._problems = problems
        self.databases = [root]
        self._has_folder = False
        if os.path.isdir(root):
            inside = os.listdir(root)
            # Builds of other release channels keep their own database here.
            channels = [name for name in inside if name.startswith("opencode-") and name.endswith(".db")]
            self.databases = [f"{root}/{name}" for name in (DATABASE, *sorted(channels)) if name in inside]
            self._has_folder = bool(reader.names(f"{root}/storage/session"))
        self._sources: list[Database | Folder] | None = None
        self._readings: dict[str, Reading | None] = {}
        self._newer: tuple[float, list[Row]] | None = None

    def sources(self) -> list[Database | Folder]:
        """Return the databases, then the older files: those still hold what was copied into a database."""
        if self._sources is None:
            from agentctl.agents.opencode.db import Database
            from agentctl.agents.opencode.json_store import Folder

            databases: list[Database | Folder] = [Database(path, self._noted_in(path)) for path in self.databases]
            self._sources = databases + ([Folder(self._reader)] if self._has_folder else [])
        return self._sources

    def _noted_in(self, path: str) -> Callable[[str], None]:
        return lambda why: self._reader.note(path, why, SESSIONS)

    def read(self, id: str) -> Reading | None:
        if id not in self._readings:
            copies = [(row, source) for source in self.sources() if (row := source.session(id)) is not None]
            newest = max(copies, key=lambda copy: copy[0].updated or 0.0, default=None)  # of equal ones, the first
            self._readings[id] = None if newest is None else self._reading(*newest)
        return self._readings[id]

    def _reading(self, row: Row, source: Database | Folder) -> Reading:
        before = self._reader.failures
        messages = source.messages(row, NEWEST)
        turn = read_turn(messages, source.parts)
        if self._reader.failures > before or (not messages and row.directory is None):
            turn = turn._replace(turn=UNKNOWN, reason="a part of its files is not readable", inferred=False)
        elif not messages and source.has_newer_messages(row.id):
            self._reader.note(row.path, NEWER_MESSAGES, RECORD, row.id)
            turn = turn._replace(turn=UNKNOWN, reason=NEWER_MESSAGES)
        return Reading(row, turn, source)

    def begun_since(self, moment: float) -> list[Row]:
        """Return the sessions, without sub-agents, that were written since. That reads all of them, so once in a
        query."""
        if self._newer is None or moment < self._newer[0]:
            self._newer = (moment, newest_of(row for source in self.sources() for row in source.begun_since(moment)))
        return [row for row in self._newer[1] if (row.updated or 0.0) >= moment]

    def latest_of(self, directory: str, limit: int) -> list[Row]:
        """Return the sessions of a directory that were changed last, the latest first."""
        rows = newest_of(row for source in self.sources() for row in source.of_directory(directory, limit))
        return sorted(rows, key=lambda row: -(row.updated or 0.0))[:limit]

    def offered(self, directory: str, *, whole: bool) -> set[str]:
        """Return the sessions that a screen in this directory can show. The older files count only if no database is
        there: a version that has one does not show them."""
        sources = self.sources()[: len(self.databases) or None]
        return {id for source in sources for id in source.offered(directory, whole=whole)}

    def first_prompt(self, reading: Reading) -> tuple[str | None, str | None]:
        """Return the first thing that a person wrote: for people, and as it is stored."""
        for message in reading.source.first_messages(reading.row, FIRST_MESSAGES):
            if message.data and message.data.get("role") == "user":
                parts = reading.source.parts(message.id)
                if text := prompt_of(parts):
                    stored = (part.data.get("text") for part in parts if part.data.get("type") == "text")
                    return text, next((text for text in stored if isinstance(text, str)), None)
        return None, None

    def last_prompt(self, reading: Reading) -> str | None:
        """Return what the person wrote last, if it is among the newest messages."""
        for message in reading.source.messages(reading.row, NEWEST):
            if message.data and message.data.get("role") == "user":
                return prompt_of(reading.source.parts(message.id))
        return None

    def family(self, id: str, depth: int = DEPTH) -> list[str]:
        """Return a session and the sub-agents that it waits for: their questions appear on its screen."""
        reading = self.read(id)
        children = [tool.child for tool in reading.turn.tools if tool.child] if reading and depth else []
        return [id, *(member for child in children for member in self.family(child, depth - 1))]

    def open_tools(self, id: str) -> list[tuple[str, Tool]]:
        """Return the calls without an end of a session and of the sub-agents that it waits for, each with its
        session."""
        readings = [(member, self.read(member)) for member in self.family(id)]
        turns = [(member, reading.turn) for member, reading in readings if reading is not None]
        return [(member, tool) for member, turn in turns if turn.turn == WORKING for tool in turn.tools]

    def _spent(self, reading: Reading) -> Total | None:
        """Return what a session spent; None, and a problem, if usage.py fails."""
        try:
            of_session: Callable[[Database | Folder, Row], tuple[Total, str | None]]
            of_session = load_part(self.agent, "usage", "of_session")
        except AgentFault as fault:
            show_traceback(fault)
            self._problems.append(Problem(self.agent, fault.why))
            return None
        total, why = of_session(reading.source, reading.row)
        if why is not None:
            self._problems.append(Problem(self.agent, why, reading.row.path))
        return total

    def record(self, id: str, *, tokens: bool) -> Record | None:
        reading = self.read(id)
        if reading is None:
            return None
        row, turn = reading.row, reading.turn
        spent = self._spent(reading) if tokens else None
        tool = turn.tools[-1] if turn.tools else None
        written = max(moment or 0.0 for moment in (row.created, row.updated, turn.written))
        return Record(
            self.agent,
            id,
            self.root,
            turn.turn,
            reason=turn.reason,
            error=turn.error,
            pending=tool.what if tool else None,
            pending_tool=tool.name if tool else None,
            pending_id=tool.call if tool else None,
            ending=None if turn.turn != WORKING or turn.answering else "its last prompt was never answered",
            inferred=turn.inferred,
            path=row.path,
            written_at=written,
            cwd=row.directory,
            model=turn.model or row.model,
            title=title_of(row.title),
            prompt=self.first_prompt(reading)[0],
            version=row.version,
            started_at=row.created,
            updated_at=written,
            tokens=spent.tokens if spent else None,
            cost_usd=spent.cost_usd if spent else None,
            parent=row.parent,
            evidence=(Evidence("store", turn.reason, row.path),),
        )


def check_root(root: str) -> None:
    """Raise OSError if there is something else than a folder or, as OPENCODE_DB may name, a database."""
    if not os.path.isdir(root) and (head := read_bytes(root, len(SQLITE))) not in (b"", SQLITE):
        raise OSError(f"not a folder and not a database: it begins with {head!r}")


def newest_of(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each session. If it is in several databases, or also in older files, the newest row counts: a
    person took it along to another release channel or version, and went on with it there."""
    newest: dict[str, Row] = {}
    for row in rows:
        known = newest.get(row.id)
        if known is None or (row.updated or 0.0) > (known.updated or 0.0):
            newest[row.id] = row
    return list(newest.values())
