"""What each kept launch is of, without reading all of them: a cache, one file for a folder of launches.

Every command asks which launches concern what it looks at, and of hundreds that are kept a few do. So of each its
agent, its process and its session are known here, for as long as the files that say so are the very same: device,
inode, size and both of their times, looked up each time. Everything else that a launch says is read from its own files.
What is damaged, or no launch yet, is never known here. `files/column_cache.py` says how the file is kept.
"""

from __future__ import annotations

import os
import time

from agentctl.files.column_cache import SETTLED, STAMP, ColumnFile, stamp_of
from agentctl.kernel.procfs import own_pid_namespace
from agentctl.kernel.recorded import key_here, own_boot
from agentctl.launches.records import LAUNCH, OUTPUT, SESSION
from agentctl.model import ELSEWHERE, ProcessKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentctl.files.column_cache import Stamp

    # Its agent, the key of its process as it counts here, its session, the PID namespace that it names.
    Row = tuple[str, ProcessKey, str | None, str | None]
    Known = tuple[Stamp, str, Row]  # of launch.json; which file named the session, or did not

FILE = "launches.json"
LIMIT = 16 * 1024 * 1024
WORTH_IT = 50  # launches: fewer are read themselves as fast
TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    **STAMP,
    **dict.fromkeys(("agent", "boot", "told_by"), (str,)),
    **dict.fromkeys(("pid", "start"), (int,)),
    **dict.fromkeys(("session", "namespace"), (str, type(None))),
}


class Index:
    def __init__(self, cache: str, folder: str, at: int) -> None:
        """`at`: the folder of the launches, open."""
        self._file = ColumnFile(os.path.join(cache, FILE), folder, TYPES, LIMIT)
        self._at = at
        self._used: dict[str, Known] = {}
        self._fresh = 0
        nothing: tuple[dict[str, Known], dict[str, Stamp]] = ({}, {})
        self._known, self._beside = self._file.load(parse, nothing)  # and of the other file a session was looked for in

    def find(self, name: str) -> Row | None:
        """What is known of a launch; None: it has to be read."""
        known = self._known.get(name)
        if known is None:
            return None
        stamp, told_by, row = known
        try:
            if self._stamp(name, LAUNCH) != stamp:
                return None
            if told_by != LAUNCH and self._stamp(name, told_by) != self._beside.get(name):
                return None
        except OSError:
            return None
        self._used[name] = known
        return row

    def stamps(self, name: str) -> tuple[float, dict[str, Stamp]]:
        """When it was looked, and how the files were that may say what a launch is of: before they are read."""
        began, found = time.time(), {}
        for file in (LAUNCH, SESSION, OUTPUT):
            try:
                found[file] = self._stamp(name, file)
            except OSError:
                continue
        return began, found

    def keep(self, name: str, row: Row, told_by: str, before: tuple[float, dict[str, Stamp]]) -> None:
        """What was just read of a launch whose files were so `before`. `told_by`: the file that its session was looked
        for in last: its record, or the one other."""
        (began, then), (_, now) = before, self.stamps(name)
        for file in (LAUNCH, told_by):
            stamp = then.get(file)
            if stamp is None or stamp != now.get(file) or began - max(stamp[-2:]) / 1e9 <= SETTLED:
                return  # it may be written again, or was while it was read
        self._used[name] = then[LAUNCH], told_by, row
        self._beside[name] = then[told_by]
        self._fresh += 1

    def save(self) -> None:
        """Where it is worth it. What was not asked for is no more."""
        changes = self._fresh + len(self._known.keys() - self._used.keys())
        if not self._file.is_worth_saving(changes, len(self._used)):
            return
        rows = [
            (name, *stamp, agent, boot.partition(ELSEWHERE)[0], told_by, pid, start, session, namespace)
            for name, (stamp, told_by, (agent, (boot, pid, start), session, namespace)) in self._used.items()
        ]
        beside = {name: self._beside[name] for name, (_, told_by, _) in self._used.items() if told_by != LAUNCH}
        self._file.save(rows, beside=beside)

    def _stamp(self, name: str, file: str) -> Stamp:
        return stamp_of(os.stat(f"{name}/{file}", dir_fd=self._at))


def parse(content: dict[str, Any]) -> tuple[dict[str, Known], dict[str, Stamp]]:
    """Raises ValueError for whatever is not as we write it. Rows are made all at once, by zip: it is for speed."""
    columns, beside = content["columns"], content.get("beside")
    if not isinstance(beside, dict):
        raise ValueError("no other stamps")
    if not set(columns["told_by"]) <= {LAUNCH, SESSION, OUTPUT}:
        raise ValueError("other files")
    if not set(map(type, beside.values())) <= {list}:
        raise ValueError("other stamps")
    stamps = zip(*(columns[name] for name in STAMP), strict=True)
    children = list(map(ProcessKey, columns["boot"], columns["pid"], columns["start"]))
    # A command of another PID namespace may read this file, and records of other boots may be of containers.
    if set(columns["namespace"]) - {None, own_pid_namespace()} or set(columns["boot"]) - {own_boot()}:
        written = (nanoseconds / 1e9 for nanoseconds in columns["mtime"])
        children = list(map(key_here, children, columns["namespace"], written))
    rows = zip(columns["agent"], children, columns["session"], columns["namespace"], strict=True)
    known = zip(columns["name"], zip(stamps, columns["told_by"], rows, strict=True), strict=True)
    return dict(known), {name: tuple(stamp) for name, stamp in beside.items()}
