"""SQLite without its package is SQLite: the same objects, in a Python that never imports the package, too."""

from __future__ import annotations

import sqlite3

import pytest

from agentctl.fast import sqlite as fast_sqlite
from tests.support.bare_python import run_bare


def test_all_of_it_is_of_the_package() -> None:
    assert fast_sqlite.__all__
    for name in fast_sqlite.__all__:
        assert getattr(fast_sqlite, name) is getattr(sqlite3, name)


WORK = """
db = module.connect(":memory:", isolation_level=None)
assert isinstance(db, module.Connection)
db.execute("create table t (a integer, b text, c real, d blob)")
db.executemany("insert into t values (?, ?, ?, ?)", [(1, "x", 1.5, b"y"), (None, "\\u00e9", -0.0, b"")])
print(db.execute("select * from t order by a").fetchall())
print(db.setlimit(module.SQLITE_LIMIT_LENGTH, 100) > 100, module.SQLITE_BUSY, module.SQLITE_LOCKED)
for sql in ("select", "select * from nothing", "select zeroblob(1000)"):
    try:
        db.execute(sql).fetchall()
    except module.Error as error:
        print(type(error).__name__, isinstance(error, module.OperationalError), error, error.sqlite_errorcode)
print(issubclass(module.DatabaseError, module.Error))
db.close()
"""


@pytest.mark.parametrize("private", [True, False], ids=["as it is", "without private modules"])
def test_it_works_where_nobody_has_imported_the_package(private: bool) -> None:
    found = run_bare("from agentctl.fast import sqlite as module" + WORK, private=private)
    assert found.stdout == run_bare("import sqlite3 as module" + WORK).stdout
    assert "OperationalError" in found.stdout
    assert ("sqlite3" in found.modules) == (not private)
    assert ("datetime" in found.modules) == (not private)
