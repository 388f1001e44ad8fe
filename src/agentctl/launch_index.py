"""What each kept launch is of, without reading all of them: a cache, one file for a folder of launches.

Every command asks which launches concern what it looks at, and of hundreds that are kept a few do. So of each its
agent, its process and its session are known here, for as long as the files that say so are the very same: device,
inode, size and both of their times, looked up each time. Everything else that a launch says is read from its own files.
What is damaged, or no launch yet, is never known here. It can be deleted at any time; whatever is wrong with it, it is
only empty. Those who read and write it at one moment do not wait for each other: the last one wins.
"""

from __future__ import annotations

import os
import time

from agentctl import jsontext
from agentctl.errors import Refused
from agentctl.launches import LAUNCH, OUTPUT, SESSION
from agentctl.private import make_private, read_own, remove_unfinished, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Stamp = tuple[int, ...]
    Row = tuple[str, tuple[str, int, int], str | None]  # its agent, the key of its process, its session
    Known = tuple[Stamp, str, Row]  # of launch.json; which file named the session, or did not

FILE = "launches.json"
LIMIT = 16 * 1024 * 1024
WORTH_IT = 50  # launches: fewer are read themselves as fast
WORTH_SAVING = 0.02  # of all: fewer new ones are read anew next time rather than all be written again
SETTLED = 2.0  # seconds: a file that was written later may be written again within one tick of its clock
LEFT_BEHIND = 3600.0  # seconds after which a file that was never finished is removed
TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    **dict.fromkeys(("device", "inode", "size", "mtime", "ctime"), (int,)),
    **dict.fromkeys(("agent", "boot", "told_by"), (str,)),
    **dict.fromkeys(("pid", "start"), (int,)),
    "session": (str, type(None)),
}


class Index:
    def __init__(self, cache: str, folder: str, at: int, code: str) -> None:
        """`at`: the folder of the launches, open. `code`: which code reads them; another may see other things."""
        self._path = os.path.join(cache, FILE)
        self._folder = folder
        self._at = at
        self._code = code
        self._known: dict[str, Known] = {}
        self._beside: dict[str, Stamp] = {}  # of the other file that a session was looked for in
        self._used: dict[str, Known] = {}
        self._fresh = 0
        self._replace = False  # what is there is not ours, not whole, or of other code
        try:
            self._known, self._beside = parse(read_own(self._path, LIMIT), code, folder)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError, MemoryError):
            self._replace = True

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
        if not self._code or (changes <= WORTH_SAVING * len(self._used) and not self._replace):
            return
        import json

        try:
            make_private(os.path.dirname(self._path))
            remove_unfinished(self._path, LEFT_BEHIND)
            # Lone surrogates (a session that is not UTF-8) are escaped, and come back as they were.
            replace_file(self._path, json.dumps(self._content(), separators=(",", ":")).encode())
        except (OSError, ValueError, Refused):
            pass  # then they are read again

    def _stamp(self, name: str, file: str) -> Stamp:
        found = os.stat(f"{name}/{file}", dir_fd=self._at)
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def _content(self) -> dict[str, Any]:
        lines = [
            (name, *stamp, agent, boot, told_by, pid, start, session)
            for name, (stamp, told_by, (agent, (boot, pid, start), session)) in self._used.items()
        ]
        columns = list(zip(*lines, strict=True)) or [()] * len(TYPES)
        beside = {name: self._beside[name] for name, (_, told_by, _) in self._used.items() if told_by != LAUNCH}
        return {
            "code": self._code,
            "folder": self._folder,
            "columns": dict(zip(TYPES, columns, strict=True)),
            "beside": beside,
        }


def parse(data: bytes, code: str, folder: str) -> tuple[dict[str, Known], dict[str, Stamp]]:
    """Raises ValueError for whatever is not as we write it. Rows are made all at once, by zip: it is for speed."""
    content = jsontext.whole(data)
    if not isinstance(content, dict) or (content.get("code"), content.get("folder")) != (code, folder):
        raise ValueError("of other code, or of another folder")
    columns, beside = content.get("columns"), content.get("beside")
    if not isinstance(columns, dict) or columns.keys() != TYPES.keys() or not isinstance(beside, dict):
        raise ValueError("other columns")
    for name, kinds in TYPES.items():
        if not isinstance(columns[name], list) or not set(map(type, columns[name])) <= {*kinds}:
            raise ValueError(f"{name}: other types")
    if not set(columns["told_by"]) <= {LAUNCH, SESSION, OUTPUT}:
        raise ValueError("other files")
    if not set(map(type, beside.values())) <= {list}:
        raise ValueError("other stamps")
    stamps = zip(*(columns[name] for name in ("device", "inode", "size", "mtime", "ctime")), strict=True)
    children = zip(columns["boot"], columns["pid"], columns["start"], strict=True)
    rows = zip(columns["agent"], children, columns["session"], strict=True)
    known = zip(columns["name"], zip(stamps, columns["told_by"], rows, strict=True), strict=True)
    return dict(known), {name: tuple(stamp) for name, stamp in beside.items()}


def code_of(folder: str, *modules: str) -> str:
    """Which code this is: the times of these files, and of those in a folder. Empty: it is not in files."""
    try:
        with os.scandir(folder) as entries:
            times = [entry.stat().st_mtime_ns for entry in entries if entry.name.endswith(".py")]
        times += [os.stat(module).st_mtime_ns for module in modules]
    except OSError:
        return ""
    return f"{sum(times)} {len(times)}"
