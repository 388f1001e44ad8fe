"""The cache of what transcripts say: one file for each store (`column_cache` says how it is kept).

It holds facts about files, never about processes. A fact is valid while its file has the same device, inode, size and
times, looked up after the process table was read, as the file itself would be. A record from here is equal to one that
is read from the file, or says more. What was read for the row of a table is marked as brief, and is not used for a
question that needs everything.
"""

from __future__ import annotations

import os
import time

from agentctl.files.bounded import LATEST_MOMENT
from agentctl.files.column_cache import SETTLED, STAMP, ColumnFile, stamp_of
from agentctl.model import TURN_WORDS, UNKNOWN, Evidence, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Row = tuple[Any, ...]  # the stamp of a transcript, then FIELDS

PREFIX = "records-"
LIMIT = 128 * 1024 * 1024
LONGEST = 8 * 1024  # characters: a record with longer texts is not cached
SAVE_EVERY, SAVE_AFTER = 500, 3.0  # transcripts, and seconds: very many are saved meanwhile, too
WORTH_LOADING = 32 * 1024  # bytes: reading one transcript takes longer than reading this much from here
WORDS = (
    *("turn", "reason", "error", "pending", "pending_tool", "pending_id", "ending", "cwd", "branch", "model"),
    *("title", "prompt", "version", "parent", "forked_from", "policy", "said"),
)
NUMBERS = ("started_at", "updated_at", "cost_usd")
FIELDS = (*WORDS, *NUMBERS, "inferred", "brief")
new_record = Record._in_order(
    "agent id store turn reason error pending pending_tool pending_id ending inferred path cwd branch model title "
    "prompt version started_at updated_at tokens cost_usd parent forked_from policy written_at fresh stamp evidence"
)
words_of, numbers_of = Record._several(*WORDS[:-1]), Record._several(*NUMBERS)
NOTHING = type(None)
TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    **STAMP,
    **dict.fromkeys(WORDS, (str, NOTHING)),
    **dict.fromkeys(NUMBERS, (int, float, NOTHING)),
    "said": (str,),
    "inferred": (bool,),
    "brief": (bool,),
}


class Derived:
    def __init__(self, folder: str, agent: str, root: str, *, brief: bool = False) -> None:
        self.brief = brief  # only what a table shows is needed
        self._agent = agent
        self._root = root
        self._file = ColumnFile(os.path.join(folder, file_name(agent, root)), root, TYPES, LIMIT)
        self._stored: dict[str, Row] = {}  # by path
        self._fresh: dict[str, Row] = {}
        self._used: set[str] = set()
        self._saved = 0  # of the fresh ones
        self._save_at = time.monotonic() + SAVE_AFTER

    def load(self, wanted: int) -> bool:
        """False: reading so few transcripts costs less than reading the cache of their whole store."""
        try:
            if self._file.size() > wanted * WORTH_LOADING:
                return False
        except OSError:
            pass
        self._stored = self._file.load(lambda content: rows_of(content["columns"], self._root), {})
        return True

    def through(self, id: str, path: str, found: os.stat_result | None, read: Callable[[], Record]) -> Record:
        """Return the record of a transcript; call `read` only if the transcript has changed. `found`: its stat, taken
        after the process table was read."""
        try:
            stamp = stamp_of(found or os.stat(path))
        except OSError:
            return read()
        row = self._stored.get(path)
        if row is not None and row[: len(stamp)] == stamp and (self.brief or not row[-1]):
            self._used.add(path)
            return record_of(row, self._agent, id, self._root, path)
        began = time.time()
        record = read()
        if record.turn != UNKNOWN and began - stamp[3] / 1e9 > SETTLED and (values := values_of(record)):
            try:
                if stamp_of(os.stat(path)) == stamp:  # it was not written to while we read it
                    self._fresh[path] = (*stamp, *values, self.brief)
                    record = record._replace(stamp=(stamp[3], stamp[2]))
                    self._save_now_and_then()
            except OSError:
                pass
        return record

    def _save_now_and_then(self) -> None:
        """Save what was read so far, while very many transcripts are read: whoever is interrupted, or gives up, goes on
        from there with the next command. Saving takes at most a tenth of the time."""
        if len(self._fresh) % SAVE_EVERY or (now := time.monotonic()) < self._save_at:
            return
        self.save(whole=False)
        after = time.monotonic()
        self._save_at = after + max(SAVE_AFTER, 10 * (after - now))

    def save(self, *, whole: bool) -> None:
        """Write the cache if enough has changed. `whole`: every transcript was asked for, so one that was not asked for
        no longer exists."""
        stored = {path: row for path, row in self._stored.items() if path in self._used} if whole else self._stored
        table = {**stored, **self._fresh}
        changes = len(self._fresh) - self._saved + len(self._stored) - len(stored)
        if self._file.is_worth_saving(changes, len(table)):
            self._saved = len(self._fresh)
            self._file.save((path.removeprefix(self._root + "/"), *row) for path, row in table.items())


def file_name(agent: str, root: str) -> str:
    """Two stores with the same hash only replace each other's file: the root is in it."""
    number = 0
    for byte in os.fsencode(root):
        number = (number * 257 + byte) % 2**61
    return f"{PREFIX}{agent}-{number:016x}.json"


def values_of(record: Record) -> tuple[Any, ...] | None:
    """Return the fields to store; None if the record is too long, or could not be restored as it is."""
    said = record.evidence[0] if len(record.evidence) == 1 else None
    if said is None or said != Evidence("store", said.fact, record.path, None, False):
        return None
    words = (*words_of(record), said.fact)
    if sum(map(len, filter(None, words))) > LONGEST:
        return None
    return (*words, *numbers_of(record), record.inferred)


def record_of(row: Row, agent: str, id: str, store: str, path: str) -> Record:
    """Return the record whose fields values_of() returned."""
    _, _, size, mtime, _, turn, reason, error, pending, tool, call, ending, cwd, branch, model, *others = row
    title, prompt, version, parent, forked_from, policy, said, started_at, updated_at, cost_usd, inferred, _ = others
    return new_record(
        agent,
        id,
        store,
        turn,
        reason,
        error,
        pending,
        tool,  # pending_tool
        call,  # pending_id
        ending,
        inferred,
        path,
        cwd,
        branch,
        model,
        title,
        prompt,
        version,
        started_at,
        updated_at,
        None,  # tokens
        cost_usd,
        parent,
        forked_from,
        policy,
        None,  # written_at
        False,  # fresh
        (mtime, size),  # stamp
        (Evidence("store", said, path, None, False),),  # evidence
    )


def rows_of(columns: dict[str, list[Any]], root: str) -> dict[str, Row]:
    """Return the rows by path. Raises ValueError for values that no record can have."""
    if not set(columns["turn"]) <= set(TURN_WORDS) - {UNKNOWN}:
        raise ValueError("unknown turns")
    for name in NUMBERS:
        if not all(0 <= number < LATEST_MOMENT for number in columns[name] if number is not None):
            raise ValueError(f"{name}: no such number")
    rows = zip(*(columns[name] for name in (*STAMP, *FIELDS)), strict=True)
    return {f"{root}/{name}": row for name, row in zip(columns["name"], rows, strict=True)}
