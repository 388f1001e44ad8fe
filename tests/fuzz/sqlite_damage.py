"""What can be wrong with a SQLite database: its pages, and what stands in its rows, whatever their columns promise."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from tests.fuzz import mutations

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

PAGE = 4096
HEADER = (16, 18, 19, 20, 24, 28, 32, 36, 44, 48, 52, 56, 60, 96)  # where the fields of the first page begin
COLUMNS = {
    "session": "id parent_id directory title version model time_created time_updated cost tokens_input".split(),
    "message": "id session_id time_created time_updated data".split(),
    "part": "id message_id session_id time_created time_updated data".split(),
}
VALUES: tuple[Any, ...] = (
    None,
    b"",
    b"\xff\xfe\x00",
    b'{"role":"user"}',
    float("inf"),
    1e308,
    2**63 - 1,
    -(2**63),
    -1,
    0,
    1.5,
    "12",
    "9" * 400,
    "x" * 100_000,
    "[" * 2000,
)
# Of a database that somebody wrote by hand. A view may never end: its rows are made while they are read.
SCHEMAS = (
    "drop table {table}",
    "alter table {table} rename to other",
    "alter table {table} drop column {column}",
    "delete from {table}",
    "create table {table}_2 as select * from {table}; drop table {table}; alter table {table}_2 rename to {table}",
    "alter table {table} rename to other; create view {table} as select * from other",
    "alter table {table} rename to other; create view {table} as with recursive n(i) as "
    "(select 1 union all select i + 1 from n) select other.* from n, other",
    "alter table {table} rename to other; create view {table} as select * from missing",
    "create view v as select 1; pragma user_version = 99",
)


def damage(path: Path, data: bytes, rng: Random) -> str:
    if path.name.endswith(".db-wal") or rng.random() < 0.4:
        path.write_bytes(pages(data, rng))
        return "other pages"
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("pragma journal_mode = memory")
            connection.execute("pragma synchronous = off")
            connection.execute("pragma foreign_keys = off")
            return rows(connection, rng)
    except sqlite3.Error as error:
        return f"nothing ({error})"


def pages(data: bytes, rng: Random) -> bytes:
    found = bytearray(data)
    match rng.randrange(6):
        case 0:
            at = rng.choice(HEADER)
            found[at : at + 4] = rng.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\1"))
        case 1:  # the head of a b-tree page: kind, free blocks, count of cells, where they begin, and where each is
            at = PAGE * rng.randrange(max(1, len(found) // PAGE))
            for _ in range(rng.choice((1, 3))):
                found[min(len(found) - 1, at + rng.randrange(40))] = rng.randrange(256)
        case 2:
            del found[PAGE * rng.randrange(max(1, len(found) // PAGE)) :]
        case 3:
            one, two = (PAGE * rng.randrange(max(1, len(found) // PAGE)) for _ in range(2))
            found[one : one + PAGE], found[two : two + PAGE] = found[two : two + PAGE], found[one : one + PAGE]
        case 4:
            for _ in range(rng.choice((1, 10, 200))):
                found[rng.randrange(len(found))] = rng.randrange(256)
        case _:
            return mutations.cut(mutations.flip(data, rng, ()), rng, ())
    return bytes(found)


def rows(connection: sqlite3.Connection, rng: Random) -> str:
    table = rng.choice(list(COLUMNS))
    column = rng.choice(COLUMNS[table])
    if rng.random() < 0.1:
        statement = rng.choice(SCHEMAS).format(table=table, column=column)
        connection.execute("pragma legacy_alter_table = on")
        connection.executescript(statement)
        return statement
    for _ in range(rng.choice((1, 1, 2, 4))):
        column = rng.choice(COLUMNS[table])
        found = connection.execute(
            f"select rowid, {column} from {table} order by random_order limit 1".replace(
                "random_order", f"(rowid * {rng.randrange(1, 1000)}) % 97"
            )
        ).fetchone()
        if found is None:
            return "nothing: no rows"
        value = odd(found[1], rng)
        connection.execute(f"update or replace {table} set {column} = ? where rowid = ?", (value, found[0]))
    return f"{table}.{column} = {value!r:.60}"


def odd(old: object, rng: Random) -> Any:
    if isinstance(old, str) and old.startswith("{") and rng.random() < 0.8:
        try:
            text = mutations.write(mutations.mutate_value(json.loads(old), rng), rng)
            return text.encode(errors="replace").decode()
        except (ValueError, RecursionError):
            pass
    if rng.random() < 0.4:
        return rng.choice(mutations.TEXTS).encode(errors="replace").decode()
    return rng.choice(VALUES)
