"""What a session has spent: the values, and how a transcript of JSON lines is counted, from where it was left.

An agent's own `usage.py` (a `Usage`) says which of its lines are spending. Everything here is the
same for a count of one file (`status`) and for the totals of all (`usage`), so the two cannot disagree.
"""

from __future__ import annotations

import marshal
import os
from abc import ABC, abstractmethod

from agentctl.errors import AgentFault, show_traceback
from agentctl.fast.hash import blake2b
from agentctl.files.bounded import Passage, check_absent, decode, open_regular, text_or_none
from agentctl.model import RECORD, SESSIONS, Problem, Tokens, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any

    from agentctl.files.reader import Reader as Files

    # Inode, size, and in ns the time of the last write, which anybody can set, and of the last change, which none can.
    Stamp = tuple[int, int, int, int]

# Is what a call cost on record? A running total may still come; it did; it will not.
OPEN, PAID, UNPAID = 0, 1, 2
MOST = 10**12  # tokens of one call: what is more was never spent
MOST_COST = 10**6
AT_ONCE = 256 * 1024 * 1024
HEAD, TAIL = 1024, 256  # bytes that prove that a file was only added to
GARBLED = "not all of it could be counted: it holds what its agent does not write"
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
    """A record in which the agent says what all calls since the last such record have cost, with its count of
    tokens."""

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
    """Sources in one folder. If none of them has changed, none is read."""

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
        """Return a mark of all names and stamps: if it is the same, nothing has changed. (Version 0 of marshal: the
        same bytes for the same values.)"""
        return blake2b(marshal.dumps(self.files, 0), digest_size=16).digest()

    def paths(self) -> set[str]:
        return {f"{self.path}/{name}" for name, _ in self.files}

    def changed(self, known: Mapping[str, Stamp]) -> list[Source]:
        """Return the sources that are new or have changed. `known`: the stamps by path."""
        return [
            Source(path, stamp, self.session_of(name), self.parent, self.path)
            for name, stamp in self.files
            if known.get(path := f"{self.path}/{name}") != stamp
        ]


class Facts(Value):
    parent: str | None = None
    cwd: str | None = None


class Counted(Value):
    """What a source holds, or what was added since last time."""

    spent: list[Spent | Paid]
    sessions: dict[str, Facts]
    state: dict[str, Any]  # to go on from; plain JSON
    anew: bool  # this is all of it: what was counted before is void
    problem: str | None = None


class Total(Value):
    """What one session spent."""

    tokens: Tokens | None
    cost_usd: float | None


def key_of(*names: object) -> int:
    """Return the same key for the same names. It has 64 bits: a million calls collide with a chance of 1 in 37
    million."""
    digest = blake2b(repr(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def amount(value: object) -> int | None:
    """Return a count of tokens, or None if this cannot be one."""
    return value if type(value) is int and 0 <= value < MOST else None


def money(value: object) -> float | None:
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if numeric and 0 <= value < MOST_COST else None  # type: ignore[operator, arg-type]


# A transcript


class Usage(ABC):
    """What an agent's sessions have spent. Only commands that count import it."""

    @abstractmethod
    def folders(self, files: Files, problems: list[Problem]) -> Iterator[Folder]:
        """Yield everything with spending in it, by listing folders alone, each path once. `files` lists and reads the
        store at `files.root`, and notes what cannot be read; what else is wrong goes to `problems`."""

    @abstractmethod
    def count(self, source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None = None) -> Counted:
        """Return what a source holds, or what it holds more than when it was left with this state. Calls `tick` while
        it is still reading."""


class NoUsage(Usage):
    """The default of a package without `usage.py`. An agent that is used and not counted is a problem, not a zero."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def folders(self, files: Files, problems: list[Problem]) -> Iterator[Folder]:
        if os.path.exists(files.root):
            problems.append(Problem(self._agent, "agentctl does not count what this agent spends", files.root))
        return iter(())

    def count(self, source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None = None) -> Counted:
        raise NotImplementedError(f"{self._agent} has no sources")


class FailedUsage(Usage):
    """Stands for a `usage.py` that fails: nothing can be counted in a store that is there."""

    def __init__(self, why: str) -> None:
        self._why = why

    def folders(self, files: Files, problems: list[Problem]) -> Iterator[Folder]:
        if os.path.exists(files.root):
            raise OSError(self._why)
        return iter(())

    def count(self, source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None = None) -> Counted:
        raise OSError(self._why)


class Reader:
    """Reads the lines of one transcript in order; an agent's own module says what each of them holds. `state` remembers
    what the next pass needs."""

    WORDS: tuple[bytes, ...] = ()  # a line without any of them is not looked at

    def __init__(self, source: Source, state: dict[str, Any], fd: int) -> None:
        self.session = source.session
        self.state = state
        self.fd = fd  # of the transcript, to look elsewhere in it
        self.garbled = False  # a line that may hold tokens could not be decoded

    def item(self, offset: int, line: bytes) -> Spent | Paid | None:
        raise NotImplementedError

    def decoded(self, line: bytes) -> dict[str, Any] | None:
        """Return the record in a line; None, and a note, if it cannot be decoded."""
        record = decode(line)
        self.garbled = self.garbled or record is None
        return record

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
    """Return the spending in a transcript: from where the last pass ended if lines were only added since, else all of
    it."""
    fd = open_regular(source.path)
    try:
        found = os.fstat(fd)
        start = place_in(fd, found.st_ino, found.st_size, state)
        reader = open_reader(source, dict(state["reader"]) if start and state else {}, fd)
        passage = Passage(fd, start, found.st_size, reader.WORDS, tick)
        spent = [item for offset, line in passage if (item := reader.item(offset, line)) is not None]
        place = {"inode": found.st_ino, "offset": passage.offset, "marks": marks(fd, passage.offset)}
        place["size"] = found.st_size
        garbled = passage.garbled or reader.garbled or begins_garbled(fd, found.st_size)
    finally:
        os.close(fd)
    too_long = passage.too_long + (amount(state.get("too_long")) or 0 if start and state else 0)
    garbled = garbled or bool(start and state and state.get("garbled"))
    problem = f"{too_long} lines are too long to be counted" if too_long else GARBLED if garbled else None
    place["garbled"] = garbled
    facts = {source.session: Facts(reader.parent or source.parent, reader.cwd)}
    return Counted(spent, facts, {**place, "too_long": too_long, "reader": reader.state}, start == 0, problem)


def begins_garbled(fd: int, size: int) -> bool:
    """Return whether a file begins like no transcript of JSON objects."""
    return size > 0 and not os.pread(fd, HEAD, 0).lstrip().startswith(b"{")


def place_in(fd: int, inode: int, size: int, state: dict[str, Any] | None) -> int:
    """Return how far it was read, if the file has grown and those bytes are still the same; else 0. A file that has
    changed and not grown was written over, wherever."""
    if not state or not isinstance(state.get("reader"), dict):
        return 0
    offset = state.get("offset")
    if not isinstance(offset, int) or not 0 <= offset <= size or state.get("inode") != inode:
        return 0
    if state.get("size") == size:
        return 0
    return offset if state.get("marks") == marks(fd, offset) else 0


def marks(fd: int, offset: int) -> str:
    """Return a fingerprint of the beginning of a file and of the bytes just before an offset."""
    digest = blake2b(os.pread(fd, min(HEAD, offset), 0), digest_size=8)
    begin = max(0, offset - TAIL)
    digest.update(os.pread(fd, offset - begin, begin))
    return digest.hexdigest()


def transcripts(files: Files, folder: str, suffix: str | tuple[str, ...]) -> tuple[list[tuple[str, Stamp]], list[str]]:
    """Return (name, stamp) of the files of a folder, and the names of the folders in it. What cannot be listed or
    looked at is a gap; so is a file in the place of the folder of a transcript, which listing it shows."""
    found, folders, plain = [], [], []
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        note_unless_absent(files, folder, error, SESSIONS)
        return [], []
    try:
        with os.scandir(fd) as entries:  # of an open folder: the kernel need not find it again for each of its files
            for entry in entries:
                name = entry.name
                if name.endswith(suffix):
                    try:
                        status = entry.stat()
                    except FileNotFoundError as error:
                        note_unless_absent(files, f"{folder}/{name}", error, RECORD)
                        continue
                    except OSError as error:
                        files.note_file(folder, name, error, SESSIONS)
                        continue
                    found.append((name, stamp_of(status)))
                elif not entry.is_file():  # what is neither may be a link that leads nowhere: listing it says so
                    folders.append(name)
                else:
                    plain.append(name)
    except OSError as error:
        files.note(folder, error, SESSIONS)
    finally:
        os.close(fd)
    if plain and isinstance(suffix, str):
        folders += {name.removesuffix(suffix) for name, _ in found}.intersection(plain)
    return found, folders


def stamp_of(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def note_unless_absent(files: Files, path: str, error: OSError, hides: str) -> None:
    """Note that something could not be read, unless it is gone by now."""
    try:
        if isinstance(error, FileNotFoundError):
            check_absent(path)
        else:
            files.note(path, error, hides)
    except OSError as why:
        files.note(path, why, hides)


# What it comes to


def settle(items: Iterable[Spent | Paid], known: dict[int, Spent]) -> dict[int, Spent]:
    """Return each call once, by its key, with what it has cost: of the lines about one call the last counts.

    `known`: calls of earlier passes: those that are still open, and those that these lines are about. Returns the calls
    that are new or have changed.

    A record of what was paid is believed if it has at least the tokens that we have counted since the last one: one
    that has fewer has forgotten some of the calls (a killed process takes its running total with it).
    """
    changed = dict[int, Spent]()
    waiting = {key: call for key, call in known.items() if call.paid == OPEN}
    for item in items:
        if not isinstance(item, Spent):
            changed.update((call.key, call) for call in pay(item, waiting.values()))
            waiting = {}
            continue
        before = changed.get(item.key) or known.get(item.key)
        if before is not None and before.paid != OPEN and item.paid == OPEN:
            item.paid = before.paid
        changed[item.key] = item
        waiting.pop(item.key, None)
        if item.paid == OPEN:
            waiting[item.key] = item
    return changed


def pay(paid: Paid, calls: Collection[Spent]) -> Iterator[Spent]:
    """Give each of these calls, which no record has paid yet, its part of the cost; yield them and what is left."""
    believed = covers(paid, calls)
    for call in calls:
        call.paid = PAID if believed else UNPAID
        yield call
    for model, (cost, *_) in (paid.by_model or {}).items() if believed else ():
        mine = [call for call in calls if call.model == model]
        if mine:
            spread(cost, mine)
        elif cost > 0:  # of calls that are in no transcript, such as those for a title; or in a sub-agent's
            key = key_of("paid", paid.name, model)
            yield Spent(key, paid.session, model, paid.at, (None,) * 5, 0, 0, cost, PAID)


def spread(cost: float, calls: list[Spent]) -> None:
    """Spread one sum over the calls that it is for, so that each day of a long session has its part. The weights are
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


def spent_in(agent: str, path: str, session: str, problems: list[Problem]) -> tuple[Total, bool]:
    """Return what `total_in` counts in the transcript of a session. If the agent's usage.py fails, that is a problem,
    and the rest of the session's record is as good as without it."""
    from agentctl.agents import load_part

    try:
        usage: Usage = load_part(agent, "usage", "USAGE")
    except AgentFault as fault:
        show_traceback(fault)
        problems.append(Problem(agent, fault.why))
        return Total(None, None), False
    total, forked, why = total_in(path, session, usage.count)
    if why is not None:
        problems.append(Problem(agent, why, path))
    return total, forked


def total_in(
    path: str, session: str, count: Callable[[Source, dict[str, Any] | None, None], Counted]
) -> tuple[Total, bool, str | None]:
    """Return what one transcript holds, for `status`, whether it begins with a copy of another one, and why that may
    not be all. A transcript that is too large to be counted while somebody waits is not counted."""
    if os.stat(path).st_size > AT_ONCE:
        return Total(None, None), False, None
    counted = count(Source(path, (0, 0, 0, 0), session), None, None)
    forked = bool(counted.state["reader"].get("forked"))
    return total_of(counted).get(session, Total(None, None)), forked, counted.problem


def total_of(counted: Counted) -> dict[str, Total]:
    """Return tokens and recorded cost of each session of a source that was counted as a whole."""
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
