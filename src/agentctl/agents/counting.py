"""What a session has spent: the values, and how a transcript of JSON lines is counted, from where it was left.

An agent's own module (`<module>_usage`, the protocol is `Usage`) says which of its lines are spending. Everything here
is the same for a count of one file (`status`) and for the totals of all (`usage`), so the two cannot disagree.
"""

from __future__ import annotations

import marshal
import os

from agentctl.model import Tokens, Value
from agentctl.stores import Passage, open_regular, text_or_none

try:
    from _blake2 import blake2b  # what hashlib gives, without OpenSSL, which it loads beside: 3.4 of 47 ms of imports
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Stamp = tuple[int, int, int]  # inode, size, time of the last write in ns

# Is what a call cost on record? A running total may still come; it did; it will not.
OPEN, PAID, UNPAID = 0, 1, 2
MOST = 10**12  # tokens of one call: what is more was never spent
MOST_COST = 10**6
AT_ONCE = 256 * 1024 * 1024
HEAD, TAIL = 1024, 256  # bytes that prove that a file was only added to
SPENT_FIELDS = ("input", "output", "cache_read", "cache_write", "reasoning", "fresh", "said")


class Spent:
    """One call of a model. Not a Value: there are hundreds of thousands of them.

    The five counts are as the agent records them, and None where it records none. Some agents count what came from
    the cache among the input, or reasoning among the output; `fresh` (input neither read from the cache nor written to
    it) and `said` (all output) hold each token once.
    """

    __slots__ = ("at", "cost", "key", "model", "paid", "session", *SPENT_FIELDS)

    def __init__(
        self,
        key: int,
        session: str,
        model: str | None,
        at: float | None,
        counts: tuple[int | None, int | None, int | None, int | None, int | None],
        fresh: int,
        said: int,
        cost: float | None = None,
        paid: int = OPEN,
    ) -> None:
        self.key, self.session, self.model, self.at = key, session, model, at
        self.input, self.output, self.cache_read, self.cache_write, self.reasoning = counts
        self.fresh, self.said = fresh, said
        self.cost, self.paid = cost, paid

    def __repr__(self) -> str:
        return f"Spent({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spent) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


class Paid(Value):
    """The agent says what all calls since its last such record have cost, with its own count of their tokens."""

    name: str  # of this record, the same in every copy of it
    session: str
    at: float | None
    # model -> (cost, fresh input, output, read from the cache, written to it); None: it cannot be told
    by_model: dict[str, tuple[float, int, int, int, int]] | None


class Source:
    """Something with spending in it: a transcript, or a database. Not a Value: there are many thousands of them."""

    __slots__ = ("folder", "parent", "path", "session", "stamp")

    def __init__(self, path: str, stamp: Stamp, session: str = "", parent: str | None = None, folder: str = "") -> None:
        self.path, self.folder = path, folder
        self.stamp = stamp  # the same, so nothing has changed
        self.session = session  # of a transcript
        self.parent = parent


class Folder:
    """Sources that lie together. Where none of them has changed, none is looked at any further."""

    __slots__ = ("files", "parent", "path", "session_of")

    def __init__(
        self,
        path: str,
        files: list[tuple[str, Stamp]],  # the names below `path` of what is to be counted
        session_of: Callable[[str], str],
        parent: str | None = None,
    ) -> None:
        self.path, self.files, self.session_of, self.parent = path, files, session_of, parent

    def mark(self) -> bytes:
        """The same, so all of it is the same: names and stamps. (Version 0: the same bytes for the same values.)"""
        return blake2b(marshal.dumps(self.files, 0), digest_size=16).digest()

    def paths(self) -> set[str]:
        return {f"{self.path}/{name}" for name, _ in self.files}

    def changed(self, known: Mapping[str, Stamp]) -> list[Source]:
        """What is new or not as it was; `known`: by path."""
        return [
            Source(path, stamp, self.session_of(name), self.parent, self.path)
            for name, stamp in self.files
            if known.get(path := f"{self.path}/{name}") != stamp
        ]


class Facts(Value):
    parent: str | None = None
    cwd: str | None = None


class Counted(Value):
    """What a source has, or what it has more than last time."""

    spent: list[Spent | Paid]
    sessions: dict[str, Facts]
    state: dict[str, Any]  # to go on from; plain JSON
    anew: bool  # this is all of it: what was counted before is void
    problem: str | None = None


class Total(Value):
    """Of one session."""

    tokens: Tokens | None
    cost_usd: float | None


def key_of(*names: object) -> int:
    """The same for the same names: 64 bits, so that a million calls are kept apart but for one chance in 37 million."""
    digest = blake2b(repr(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def amount(value: object) -> int | None:
    """A count of tokens, or None for what cannot be one."""
    return value if type(value) is int and 0 <= value < MOST else None


def money(value: object) -> float | None:
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if numeric and 0 <= value < MOST_COST else None  # type: ignore[operator, arg-type]


# A transcript


class Reader:
    """The lines of one transcript, in order: what an agent's own module says of each of them. What has to be remembered
    between two passes is in `state`."""

    WORDS: tuple[bytes, ...] = ()  # a line without any of them is not looked at

    def __init__(self, source: Source, state: dict[str, Any], fd: int) -> None:
        self.session = source.session
        self.state = state
        self.fd = fd  # of the transcript, to look elsewhere in it

    def item(self, offset: int, line: bytes) -> Spent | Paid | None:
        raise NotImplementedError

    @property
    def cwd(self) -> str | None:
        return text_or_none(self.state.get("cwd"))

    @property
    def parent(self) -> str | None:
        return text_or_none(self.state.get("parent"))


def count_lines(
    source: Source,
    state: dict[str, Any] | None,
    open_reader: Callable[[Source, dict[str, Any], int], Reader],
    tick: Callable[[], None] | None = None,
) -> Counted:
    """The spending in a transcript, from where it was left if it was only added to since; else all of it."""
    fd = open_regular(source.path)
    try:
        found = os.fstat(fd)
        start = place_in(fd, found.st_ino, found.st_size, state)
        reader = open_reader(source, dict(state["reader"]) if start and state else {}, fd)
        passage = Passage(fd, start, found.st_size, reader.WORDS, tick)
        spent = [item for offset, line in passage if (item := reader.item(offset, line)) is not None]
        place = {"inode": found.st_ino, "offset": passage.offset, "marks": marks(fd, passage.offset)}
    finally:
        os.close(fd)
    too_long = passage.too_long + (amount(state.get("too_long")) or 0 if start and state else 0)
    problem = f"{too_long} lines are too long to be counted" if too_long else None
    facts = {source.session: Facts(reader.parent or source.parent, reader.cwd)}
    return Counted(spent, facts, {**place, "too_long": too_long, "reader": reader.state}, start == 0, problem)


def place_in(fd: int, inode: int, size: int, state: dict[str, Any] | None) -> int:
    """How far it was read, if what was read is still there as it was; else 0."""
    if not state or not isinstance(state.get("reader"), dict):
        return 0
    offset = state.get("offset")
    if not isinstance(offset, int) or not 0 <= offset <= size or state.get("inode") != inode:
        return 0
    return offset if state.get("marks") == marks(fd, offset) else 0


def marks(fd: int, offset: int) -> str:
    """A fingerprint of the beginning of a file and of the bytes just before an offset."""
    digest = blake2b(os.pread(fd, min(HEAD, offset), 0), digest_size=8)
    begin = max(0, offset - TAIL)
    digest.update(os.pread(fd, offset - begin, begin))
    return digest.hexdigest()


def transcripts(folder: str, suffix: str) -> tuple[list[tuple[str, Stamp]], list[str]]:
    """(name, stamp) of the files of a folder, and the names of the folders in it. One that cannot be listed is the
    caller's to report."""
    files, folders = [], []
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    try:
        with os.scandir(fd) as entries:  # of an open folder: the kernel need not find it again for each of its files
            for entry in entries:
                name = entry.name
                if name.endswith(suffix):
                    try:
                        found = entry.stat()
                    except OSError:
                        continue  # gone this moment, or a link that leads nowhere
                    files.append((name, (found.st_ino, found.st_size, found.st_mtime_ns)))
                elif entry.is_dir():
                    folders.append(name)
    finally:
        os.close(fd)
    return files, folders


# What it comes to


def settle(items: Iterable[Spent | Paid], known: dict[int, Spent]) -> dict[int, Spent]:
    """Each call once, by its key: of the lines about one call the last counts. And what each of them has cost.

    `known`: calls of earlier passes: those that are still open, and those that these lines are about. Given are the
    calls that are new or have changed.

    A record of what was paid is believed if it has at least the tokens that we have counted since the last one: one
    that has fewer has forgotten some of the calls (a killed process takes its running total with it).
    """
    found = dict[int, Spent]()
    waiting = {key: call for key, call in known.items() if call.paid == OPEN}
    for item in items:
        if isinstance(item, Spent):
            before = found.get(item.key) or known.get(item.key)
            if before is not None and before.paid != OPEN and item.paid == OPEN:
                item.paid = before.paid
            found[item.key] = item
            waiting.pop(item.key, None)
            if item.paid == OPEN:
                waiting[item.key] = item
            continue
        believed = covers(item, waiting.values())
        for call in waiting.values():
            call.paid = PAID if believed else UNPAID
            found[call.key] = call
        for model, (cost, *_) in (item.by_model or {}).items() if believed else ():
            calls = [call for call in waiting.values() if call.model == model]
            if calls:
                spread(cost, calls)
            elif cost > 0:  # of calls that are in no transcript, such as those for a title; or in a sub-agent's
                key = key_of("paid", item.name, model)
                found[key] = Spent(key, item.session, model, item.at, (None,) * 5, 0, 0, cost, PAID)
        waiting = {}
    return found


def spread(cost: float, calls: list[Spent]) -> None:
    """One sum over the calls that it is for: so that each day of a long session has its part of it. By weights that are
    near to how prices relate; the sum is the agent's own."""
    weights = [
        call.fresh + 5 * call.said + (call.cache_read or 0) / 10 + (call.cache_write or 0) * 1.25 + 1e-9
        for call in calls
    ]
    whole = sum(weights)
    for call, weight in zip(calls, weights, strict=True):
        call.cost = cost * weight / whole


def covers(paid: Paid, calls: Iterable[Spent]) -> bool:
    if paid.by_model is None:
        return False
    counted: dict[str, list[int]] = {}
    for call in calls:
        sums = counted.setdefault(call.model or "", [0, 0, 0, 0])
        for index, count in enumerate((call.fresh, call.said, call.cache_read, call.cache_write)):
            sums[index] += count or 0
    return all(
        model in paid.by_model and all(sum <= most for sum, most in zip(sums, paid.by_model[model][1:], strict=True))
        for model, sums in counted.items()
    )


def total_in(
    path: str, session: str, count: Callable[[Source, dict[str, Any] | None, None], Counted]
) -> tuple[Total, bool]:
    """Of one transcript, for `status`, and whether it begins with a copy of another one. Not of one that is too large
    to be counted while somebody waits."""
    if os.stat(path).st_size > AT_ONCE:
        return Total(None, None), False
    counted = count(Source(path, (0, 0, 0), session), None, None)
    return total_of(counted).get(session, Total(None, None)), bool(counted.state["reader"].get("forked"))


def total_of(counted: Counted) -> dict[str, Total]:
    """Tokens and recorded cost of each session of a source that was counted as a whole."""
    by_session: dict[str, list[Spent]] = {}
    for call in settle(counted.spent, {}).values():
        by_session.setdefault(call.session, []).append(call)
    return {session: Total(tokens_of(calls), cost_of(calls)) for session, calls in by_session.items()}


def tokens_of(calls: list[Spent]) -> Tokens | None:
    sums = []
    for name in SPENT_FIELDS[:5]:
        counts = [count for call in calls if (count := getattr(call, name)) is not None]
        sums.append(sum(counts) if counts else None)
    return Tokens(*sums) if any(count is not None for count in sums) else None


def cost_of(calls: list[Spent]) -> float | None:
    costs = [call.cost for call in calls if call.cost is not None]
    return round(sum(costs), 10) if costs else None
