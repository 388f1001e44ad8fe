"""What was read from transcripts that have not changed since: a cache, one file for each store.

It holds facts of files, never of processes, and each only for as long as its file is the very same: device, inode, size
and both of its times, looked up after the process table was read, as the file itself would be. (No program can set the
time of a file's last change, so that a file which was put back with its old size and time is seen, too.)
A record from here is equal to one that is read anew, or tells more: what was read for the row of a table is kept as
such, and is nothing to those who ask for all. It can be deleted at any time; whatever is wrong with it, it is only
empty. Those who read and write it at one moment do not wait for each other: the last one wins.
"""

from __future__ import annotations

import json
import os
import time

from agentctl.errors import Refused
from agentctl.model import TURN_WORDS, UNKNOWN, Evidence, Record
from agentctl.private import make_private, read_own, remove_unfinished, replace_file
from agentctl.stores import LATEST_MOMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Stamp = tuple[int, int, int, int, int]

PREFIX = "records-"
LIMIT = 128 * 1024 * 1024
LONGEST = 8 * 1024  # a record with longer texts is read anew each time
SETTLED = 2.0  # seconds: a file that was written later may be written again within one tick of its clock
WORTH_LOADING = 32 * 1024  # bytes: to read a transcript takes longer than to read so much from here
WORTH_SAVING = 0.02  # of all: fewer new ones are read anew next time rather than all be written again
LEFT_BEHIND = 3600.0  # seconds after which a file that was never finished is removed
STAMP = ("device", "inode", "size", "mtime", "ctime")
WORDS = (
    *("turn", "reason", "error", "pending", "pending_tool", "pending_id", "ending", "cwd", "branch", "model"),
    *("title", "prompt", "version", "parent", "forked_from", "policy", "said"),
)
NUMBERS = ("started_at", "updated_at", "cost_usd")
FIELDS = (*WORDS, *NUMBERS, "inferred", "brief")
words_of, numbers_of = Record._several(*WORDS[:-1]), Record._several(*NUMBERS)
NOTHING = type(None)
TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    **dict.fromkeys(STAMP, (int,)),
    **dict.fromkeys(WORDS, (str, NOTHING)),
    **dict.fromkeys(NUMBERS, (int, float, NOTHING)),
    "said": (str,),
    "inferred": (bool,),
    "brief": (bool,),
}


class Derived:
    def __init__(self, folder: str, agent: str, root: str, *, brief: bool = False) -> None:
        self.brief = brief  # no more is asked for than a table shows
        self._folder = folder
        self._agent = agent
        self._root = root
        self._path = os.path.join(folder, file_name(agent, root))
        self._kept: dict[str, tuple[Any, ...]] = {}  # path -> stamp and fields
        self._fresh: dict[str, tuple[Any, ...]] = {}
        self._used: set[str] = set()
        self._replace = False  # what is there is not ours, not whole, or of other code
        self._code = code()

    def load(self, wanted: int) -> bool:
        """False: reading so few transcripts costs less than reading all that is known of their store."""
        try:
            if os.stat(self._path, follow_symlinks=False).st_size > wanted * WORTH_LOADING:
                return False
            self._kept = parse(read_own(self._path, LIMIT), self._code, self._root)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError, MemoryError):
            self._replace = True
        return True

    def through(self, id: str, path: str, found: os.stat_result | None, read: Callable[[], Record]) -> Record:
        """The record of a transcript, without reading it where nothing was written to it. `found`: how it was found to
        be, after the process table was read."""
        try:
            stamp = stamp_of(found or os.stat(path))
        except OSError:
            return read()
        kept = self._kept.get(path)
        if kept is not None and kept[: len(stamp)] == stamp and (self.brief or not kept[-1]):
            self._used.add(path)
            return record_of(kept, self._agent, id, self._root, path)
        began = time.time()
        record = read()
        if record.turn != UNKNOWN and began - stamp[3] / 1e9 > SETTLED and (values := values_of(record)):
            try:
                if stamp_of(os.stat(path)) == stamp:  # nobody wrote to it while it was read
                    self._fresh[path] = (*stamp, *values, self.brief)
                    return record._replace(stamp=(stamp[3], stamp[2]))
            except OSError:
                pass
        return record

    def save(self, *, whole: bool) -> None:
        """Where it is worth it. `whole`: every transcript was asked for, so that what was not is no more."""
        kept = {path: row for path, row in self._kept.items() if path in self._used} if whole else self._kept
        table = {**kept, **self._fresh}
        changes = len(self._fresh) + len(self._kept) - len(kept)
        if not self._code or (changes <= WORTH_SAVING * len(table) and not self._replace):
            return
        columns = list(zip(*table.values(), strict=True))
        names = [path.removeprefix(self._root + "/") for path in table]
        content = {"name": names, **dict(zip((*STAMP, *FIELDS), columns, strict=False))}
        write(self._path, {"code": self._code, "root": self._root, "columns": content})


def file_name(agent: str, root: str) -> str:
    """Two stores of one name that hash alike would only take each other's place: the root is in the file."""
    number = 0
    for byte in os.fsencode(root):
        number = (number * 257 + byte) % 2**61
    return f"{PREFIX}{agent}-{number:016x}.json"


def code() -> str:
    """Which code reads the transcripts: another may see other things in them. Empty: it is not in files."""
    here = os.path.dirname(__file__)
    times = []
    for folder in (here, os.path.join(here, "agents")):
        try:
            with os.scandir(folder) as entries:
                times += [entry.stat().st_mtime_ns for entry in entries if entry.name.endswith(".py")]
        except OSError:
            return ""
    return f"{max(times, default=0)} {len(times)}"


def stamp_of(found: os.stat_result) -> Stamp:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def values_of(record: Record) -> tuple[Any, ...] | None:
    """None: not one that is worth keeping, or that cannot be had back the same."""
    said = record.evidence[0] if len(record.evidence) == 1 else None
    if said is None or said != Evidence("store", said.fact, record.path, None, False):
        return None
    words = (*words_of(record), said.fact)
    if sum(map(len, filter(None, words))) > LONGEST:
        return None
    return (*words, *numbers_of(record), record.inferred)


def record_of(kept: tuple[Any, ...], agent: str, id: str, store: str, path: str) -> Record:
    """All fields in their order: thousands are made at once."""
    _, _, size, mtime, _, turn, reason, error, pending, tool, call, ending, cwd, branch, model, *others = kept
    title, prompt, version, parent, forked_from, policy, said, started_at, updated_at, cost_usd, inferred, _ = others
    return Record(
        agent,
        id,
        store,
        turn,
        reason,
        error,
        pending,
        tool,
        call,
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
        (mtime, size),
        (Evidence("store", said, path, None, False),),
    )


def parse(data: bytes, expected: str, root: str) -> dict[str, tuple[Any, ...]]:
    """Path -> stamp and fields. Raises ValueError for whatever is not as we write it."""
    content = json.loads(data)
    if not isinstance(content, dict) or (content.get("code"), content.get("root")) != (expected, root):
        raise ValueError("of other code, or of another store")
    columns = content.get("columns")
    if not isinstance(columns, dict) or columns.keys() != TYPES.keys():
        raise ValueError("other columns")
    for name, kinds in TYPES.items():
        if not isinstance(columns[name], list) or not set(map(type, columns[name])) <= {*kinds}:
            raise ValueError(f"{name}: other types")
    if not set(columns["turn"]) <= set(TURN_WORDS) - {UNKNOWN}:
        raise ValueError("unknown turns")
    for name in NUMBERS:
        if not all(0 <= number < LATEST_MOMENT for number in columns[name] if number is not None):
            raise ValueError(f"{name}: no such number")
    rows = zip(*(columns[name] for name in (*STAMP, *FIELDS)), strict=True)
    return {f"{root}/{name}": row for name, row in zip(columns["name"], rows, strict=True)}


def write(path: str, content: dict[str, Any]) -> None:
    """At once, or not at all. Where it cannot be written, transcripts are read again."""
    try:
        make_private(os.path.dirname(path))
        remove_unfinished(path, LEFT_BEHIND)
        # Lone surrogates (a name that is not UTF-8) are escaped, and come back as they were.
        replace_file(path, json.dumps(content, separators=(",", ":")).encode())
    except (OSError, ValueError, Refused):
        pass
