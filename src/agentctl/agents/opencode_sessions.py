"""The sessions of one OpenCode store, wherever a version keeps them, each read once in a query."""

from __future__ import annotations

import os

from agentctl.agents.opencode_turn import NEWEST, Row, Turn, prompt_of, read_turn, title_of
from agentctl.model import UNKNOWN, WORKING, Evidence, Record, Value
from agentctl.stores import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.agents.opencode_db import Database
    from agentctl.agents.opencode_json import Folder
    from agentctl.model import Problem

DATABASE = "opencode.db"
FIRST_MESSAGES = 4
DEPTH = 3  # of sub-agents of sub-agents


class Reading(Value):
    row: Row
    turn: Turn
    source: Database | Folder


class Sessions:
    def __init__(self, agent: str, root: str, problems: list[Problem]) -> None:
        """Which files are there. None of them names a process, so nothing is opened yet."""
        self.agent = agent
        self.root = root
        self._problems = problems
        self.databases = [root]
        self._has_folder = False
        if os.path.isdir(root):
            inside = os.listdir(root)
            # Builds of other channels than the released ones keep a database of their own here.
            channels = [name for name in inside if name.startswith("opencode-") and name.endswith(".db")]
            self.databases = [f"{root}/{name}" for name in (DATABASE, *sorted(channels)) if name in inside]
            self._has_folder = bool(names(f"{root}/storage/session"))
        self._sources: list[Database | Folder] | None = None
        self._readings: dict[str, Reading | None] = {}
        self._newer: tuple[float, list[Row]] | None = None

    def sources(self) -> list[Database | Folder]:
        """Databases first: what they hold is left behind in the older files."""
        if self._sources is None:
            from agentctl.agents.opencode_db import Database
            from agentctl.agents.opencode_json import Folder

            databases: list[Database | Folder] = [Database(path) for path in self.databases]
            self._sources = databases + ([Folder(self.agent, self.root, self._problems)] if self._has_folder else [])
        return self._sources

    def read(self, id: str) -> Reading | None:
        if id not in self._readings:
            self._readings[id] = None
            for source in self.sources():
                if (row := source.session(id)) is not None:
                    messages = source.messages(row, NEWEST)
                    turn = read_turn(messages, source.parts)
                    if not messages and row.directory is None:
                        turn = Turn(UNKNOWN, "its file is not readable")
                    self._readings[id] = Reading(row, turn, source)
                    break
        return self._readings[id]

    def begun_since(self, moment: float) -> list[Row]:
        """The sessions, without sub-agents, that were written since. All are looked through, so once in a query."""
        if self._newer is None or moment < self._newer[0]:
            rows = {row.id: row for source in reversed(self.sources()) for row in source.begun_since(moment)}
            self._newer = (moment, list(rows.values()))
        return [row for row in self._newer[1] if (row.updated or 0.0) >= moment]

    def latest_of(self, directory: str, limit: int) -> list[Row]:
        """The sessions of a directory that were changed last, the latest first."""
        rows = {row.id: row for source in reversed(self.sources()) for row in source.of_directory(directory, limit)}
        return sorted(rows.values(), key=lambda row: -(row.updated or 0.0))[:limit]

    def first_prompt(self, reading: Reading) -> tuple[str | None, str | None]:
        """The first thing a person wrote: for people, and as it is stored."""
        for message in reading.source.first_messages(reading.row, FIRST_MESSAGES):
            if message.data and message.data.get("role") == "user":
                parts = reading.source.parts(message.id)
                if text := prompt_of(parts):
                    stored = (part.data.get("text") for part in parts if part.data.get("type") == "text")
                    return text, next((text for text in stored if isinstance(text, str)), None)
        return None, None

    def family(self, id: str, depth: int = DEPTH) -> list[str]:
        """A session and the sub-agents that it waits for: what they ask is asked on its screen."""
        reading = self.read(id)
        children = [tool.child for tool in reading.turn.tools if tool.child] if reading and depth else []
        return [id, *(one for child in children for one in self.family(child, depth - 1))]

    def record(self, id: str, *, tokens: bool) -> Record | None:
        reading = self.read(id)
        if reading is None:
            return None
        row, turn = reading.row, reading.turn
        spent = None
        if tokens:
            from agentctl.agents.opencode_usage import of_session

            spent = of_session(reading.source, row)
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
