"""Stands for sqlite3: the connection, the errors and the numbers that we use.

They are those of the module in C that the package wraps, the very same objects. The package adds conversions of dates,
and takes half as long again to import. Without that module, they come from the package. So a query must neither bind a
date nor expect one.
"""

from __future__ import annotations

try:
    from _sqlite3 import (
        SQLITE_BUSY,
        SQLITE_LIMIT_LENGTH,
        SQLITE_LOCKED,
        Connection,
        DatabaseError,
        Error,
        OperationalError,
        connect,
    )
except ImportError:
    from sqlite3 import (
        SQLITE_BUSY,
        SQLITE_LIMIT_LENGTH,
        SQLITE_LOCKED,
        Connection,
        DatabaseError,
        Error,
        OperationalError,
        connect,
    )

__all__ = [
    "SQLITE_BUSY",
    "SQLITE_LIMIT_LENGTH",
    "SQLITE_LOCKED",
    "Connection",
    "DatabaseError",
    "Error",
    "OperationalError",
    "connect",
]
