"""What OpenCode's sessions have spent: each of its messages that a model wrote has its tokens and its cost.

A fork copies messages under new ids and with their times: what is older than its session was paid for elsewhere.
"""

from __future__ import annotations

import os

from agentctl.agents.counting import (
    OPEN,
    PAID,
    Counted,
    Facts,
    Source,
    Spent,
    Total,
    amount,
    key_of,
    money,
    total_of,
)
from agentctl.agents.counting import (
    Folder as Sources,
)
from agentctl.agents.opencode_db import Database
from agentctl.agents.opencode_json import Folder
from agentctl.agents.opencode_sessions import Sessions
from agentctl.agents.opencode_turn import model_of
from agentctl.model import Problem
from agentctl.stores import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from agentctl.agents.counting import Stamp
    from agentctl.agents.opencode_turn import Message, Row

NAME = "opencode"
MOST_OPEN = 1000  # unfinished messages that are looked at again; with more of them all are


def folders(root: str, problems: list[Problem]) -> Iterator[Sources]:
    databases = Sessions(NAME, root, problems).databases
    for folder in dict.fromkeys(map(os.path.dirname, databases)):  # they lie together
        yield from stamped(folder, list(map(os.path.basename, databases)), database_stamp, no_session, problems)
    messages = f"{root}/storage/message"
    yield from stamped(messages, names(messages), folder_stamp, str, problems)


def stamped(
    folder: str,
    inside: list[str],
    stamp_of: Callable[[str], Stamp],
    session_of: Callable[[str], str],
    problems: list[Problem],
) -> Iterator[Sources]:
    files = []
    for name in inside:
        try:
            files.append((name, stamp_of(f"{folder}/{name}")))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problems.append(Problem(NAME, error.strerror or str(error), f"{folder}/{name}"))
    if files:
        yield Sources(folder, files, session_of)


def no_session(name: str) -> str:
    """A database has many."""
    return ""


def database_stamp(path: str) -> Stamp:
    """With its write-ahead log, which has the newest rows."""
    found = [os.stat(path)]
    try:
        found.append(os.stat(f"{path}-wal"))
    except FileNotFoundError:
        pass
    return found[0].st_ino, sum(one.st_size for one in found), max(one.st_mtime_ns for one in found)


def folder_stamp(folder: str) -> Stamp:
    with os.scandir(folder) as entries:
        found = [entry.stat() for entry in entries]
    return len(found), sum(one.st_size for one in found), max((one.st_mtime_ns for one in found), default=0)


def count(source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None = None) -> Counted:
    return count_folder(source) if source.session else count_database(source, state, tick)


# The database


def count_database(source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None) -> Counted:
    """Rows are added at the end. Of those that were read before, only the unfinished can still change."""
    database = Database(source.path)
    try:
        place = database.place()
        unfinished = list(state["open"]) if state and database.only_grew(state["place"]) else None
        if unfinished is None or len(unfinished) > MOST_OPEN:
            after, unfinished = 0, []
        else:
            after = state["place"][1] if state else 0
        spent, still_open = [], []
        rows: dict[str, Row | None] = {}
        for id, message in database.written(after, unfinished):
            if tick is not None:
                tick()
            if id not in rows:
                rows[id] = database.session(id)
            row = rows[id]
            if row is not None and (call := of_message(row, message)) is not None:
                spent.append(call)
            if is_unfinished(message):
                still_open.append(message.id)
        facts = {id: Facts(row.parent, row.directory) for id, row in rows.items() if row is not None}
        return Counted([*spent], facts, {"place": place, "open": still_open}, after == 0)
    finally:
        database.close()


def is_unfinished(message: Message) -> bool:
    data = message.data or {}
    time = data.get("time")
    return data.get("role") == "assistant" and not (isinstance(time, dict) and time.get("completed"))


# The files of older versions


def count_folder(source: Source) -> Counted:
    problems: list[Problem] = []
    folder = Folder(NAME, source.path.removesuffix(f"/storage/message/{source.session}"), problems)
    row = folder.session(source.session)
    if row is None:
        return Counted([], {}, {}, True)
    calls = (of_message(row, message, older=True) for message in folder.of_session(row.id))
    facts = {row.id: Facts(row.parent, row.directory)}
    problem = f"{problems[0].problem}: {problems[0].path}" if problems else None
    return Counted([call for call in calls if call is not None], facts, {}, True, problem)


# Both


def of_session(source: Database | Folder, row: Row) -> Total:
    """Of one session, for `status`."""
    calls = (of_message(row, message, older=isinstance(source, Folder)) for message in source.of_session(row.id))
    counted = Counted([call for call in calls if call is not None], {}, {}, True)
    return total_of(counted).get(row.id, Total(None, None))


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
