"""What OpenCode's sessions have spent: each of its messages that a model wrote has its tokens and its cost.

A fork copies messages under new ids and with their times: what is older than its session was paid for elsewhere.
"""

from __future__ import annotations

import os

from agentctl.agents.opencode.db import Database
from agentctl.agents.opencode.json_store import Folder
from agentctl.agents.opencode.sessions import Sessions, check_root
from agentctl.agents.opencode.turn import NEWER_MESSAGES, model_of
from agentctl.agents.usage_base import (
    GARBLED,
    OPEN,
    PAID,
    Counted,
    Facts,
    Source,
    Spent,
    Total,
    Usage,
    amount,
    key_of,
    money,
    note_unless_absent,
    total_of,
)
from agentctl.agents.usage_base import Folder as Sources
from agentctl.files.reader import Reader
from agentctl.model import RECORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from agentctl.agents.opencode.turn import Message, Row
    from agentctl.agents.usage_base import Stamp
    from agentctl.model import Problem

NAME = "opencode"
MOST_OPEN = 1000  # unfinished messages that are looked at again; with more of them all are


class OpenCodeUsage(Usage):
    def folders(self, files: Reader, problems: list[Problem]) -> Iterator[Sources]:
        if os.path.lexists(files.root):
            check_root(files.root)
        databases = Sessions(files, problems).databases
        for folder in dict.fromkeys(map(os.path.dirname, databases)):  # they lie together
            yield from stamped(files, folder, list(map(os.path.basename, databases)), database_stamp, no_session)
        messages = f"{files.root}/storage/message"
        if os.path.isdir(files.root):
            inside = [name for name in files.names(messages) if is_of_session(f"{messages}/{name}")]
            yield from stamped(files, messages, inside, folder_stamp, str)

    def count(self, source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None = None) -> Counted:
        return count_folder(source) if source.session else count_database(source, state, tick)


def stamped(
    files: Reader,
    folder: str,
    inside: list[str],
    stamp_of: Callable[[str], Stamp],
    session_of: Callable[[str], str],
) -> Iterator[Sources]:
    found = []
    for name in inside:
        try:
            found.append((name, stamp_of(f"{folder}/{name}")))
        except OSError as error:
            note_unless_absent(files, f"{folder}/{name}", error, RECORD)
    if found:
        yield Sources(folder, found, session_of)


def is_of_session(path: str) -> bool:
    """Return whether the messages of a session belong at this path. A file that somebody left has another name."""
    return os.path.basename(path).startswith("ses_") or not os.path.isfile(path)


def no_session(name: str) -> str:
    """Return no session: a database has many."""
    return ""


def database_stamp(path: str) -> Stamp:
    """Return the stamp of a database with its write-ahead log, which has the newest rows."""
    found = [os.stat(path)]
    try:
        found.append(os.stat(f"{path}-wal"))
    except FileNotFoundError:
        pass
    return found[0].st_ino, *sums_of(found)


def folder_stamp(folder: str) -> Stamp:
    with os.scandir(folder) as entries:
        found = [status_of(entry) for entry in entries]
    return len(found), *sums_of(found)


def status_of(entry: os.DirEntry[str]) -> os.stat_result:
    """Return the status of a file; of the link itself if it leads nowhere: reading it says so."""
    try:
        return entry.stat()
    except OSError:
        return entry.stat(follow_symlinks=False)


def sums_of(found: list[os.stat_result]) -> tuple[int, int, int]:
    """Return the size of all, and when one of them was last written, and changed."""
    written = max((one.st_mtime_ns for one in found), default=0)
    changed = max((one.st_ctime_ns for one in found), default=0)
    return sum(one.st_size for one in found), written, changed


# The database


def count_database(source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None) -> Counted:
    """Count the rows that were added at the end. Of those that were read before, only unfinished ones can change."""
    database = Database(source.path)
    try:
        place = database.place()
        unfinished = list(state["open"]) if state and database.only_grew(state["place"]) else None
        if unfinished is None or len(unfinished) > MOST_OPEN:
            after, unfinished = 0, []
        else:
            after = state["place"][1] if state else 0
        spent, still_open = [], []
        odd = bool(after and state and state.get("odd"))  # messages without a name cannot be looked at again
        garbled = 0
        rows: dict[str, Row | None] = {}
        for id, message in database.written(after, unfinished):
            if tick is not None:
                tick()
            if message.data is None:
                garbled += 1
                odd = odd or not message.id
            if id not in rows:
                rows[id] = database.session(id)
            row = rows[id]
            if row is not None and (call := of_message(row, message)) is not None:
                spent.append(call)
            if message.id and is_unfinished(message):
                still_open.append(message.id)
        facts = {id: Facts(row.parent, row.directory) for id, row in rows.items() if row is not None}
        where = {"place": place, "open": still_open, "odd": odd}
        return Counted([*spent], facts, where, after == 0, GARBLED if garbled or odd else unread_in(database))
    finally:
        database.close()


def unread_in(database: Database) -> str | None:
    """Return why what sessions spent may be elsewhere in this database."""
    return NEWER_MESSAGES if database.has_newer_messages() else None


def is_unfinished(message: Message) -> bool:
    """Return whether a message may still change. One that cannot be decoded may be whole the next time."""
    if message.data is None:
        return True
    data = message.data
    time = data.get("time")
    return data.get("role") == "assistant" and not (isinstance(time, dict) and time.get("completed"))


# The files of older versions


def count_folder(source: Source) -> Counted:
    files = Reader(NAME, source.path.removesuffix(f"/storage/message/{source.session}"))
    folder = Folder(files)
    row = folder.session(source.session)
    if row is None:
        why = f"{files.gaps[0].why}: {files.gaps[0].path}" if files.gaps else None
        return Counted([], {}, {}, True, why)
    calls = [of_message(row, message, older=True) for message in folder.of_session(row.id)]  # all are read here
    facts = {row.id: Facts(row.parent, row.directory)}
    problem = f"{files.gaps[0].why}: {files.gaps[0].path}" if files.gaps else None
    return Counted([call for call in calls if call is not None], facts, {}, True, problem)


# Both


def of_session(source: Database | Folder, row: Row) -> tuple[Total, str | None]:
    """Return what one session spent, for `status`, and why that may not be all."""
    messages, older = list(source.of_session(row.id)), isinstance(source, Folder)
    calls = (of_message(row, message, older=older) for message in messages)
    counted = Counted([call for call in calls if call is not None], {}, {}, True)
    garbled = not older and any(message.data is None for message in messages)  # of a file, its reader tells
    unread = NEWER_MESSAGES if not messages and source.has_newer_messages(row.id) else None
    return total_of(counted).get(row.id, Total(None, None)), GARBLED if garbled else unread


def of_message(row: Row, message: Message, *, older: bool = False) -> Spent | None:
    data = message.data or {}
    tokens = data.get("tokens")
    if not isinstance(tokens, dict) or message.created < (row.created or 0.0):
        return None
    cache = tokens.get("cache")
    cached = cache if isinstance(cache, dict) else {}
    values = (tokens.get("input"), tokens.get("output"), cached.get("read"), cached.get("write"))
    given, said, read, written = map(amount, values)
    thought = amount(tokens.get("reasoning"))
    if not any((given, said, read, written, thought)):
        return None  # begun, and nothing was answered
    cost = money(data.get("cost"))
    whole = (said or 0) + (0 if older else thought or 0)  # older versions counted reasoning among the output
    counts = (given, said, read, written, thought)
    paid = OPEN if cost is None else PAID
    key = key_of(NAME, message.id)
    return Spent(key, row.id, model_of(data), message.created, counts, given or 0, whole, cost, paid)


USAGE = OpenCodeUsage()
