"""What Claude Code's sessions have spent, by their transcripts.

Every block of an answer is a line of its own and repeats the usage of the whole: the last line of a message counts.
A fork (--fork-session) is a new file that begins with a copy of the other's records, under their own message ids and
times, and nothing says so but its head: bookkeeping of the moment of the fork stands before records that are older.
Newer versions also write what was spent in money, as a running total with its sub-agents in it: `cost-state`.
"""

from __future__ import annotations

from agentctl.agents.claude_code.files import children_in
from agentctl.agents.claude_code.projects import DEEPEST, TOO_DEEP, Projects
from agentctl.agents.claude_code.records import SYNTHETIC
from agentctl.agents.usage_base import (
    OPEN,
    PAID,
    Counted,
    Folder,
    Paid,
    Reader,
    Source,
    Spent,
    Usage,
    amount,
    count_lines,
    key_of,
    money,
    transcripts,
)
from agentctl.files.bounded import decode, lines_from_start, moment, text_or_none
from agentctl.model import SESSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from agentctl.files.reader import Reader as Files
    from agentctl.model import Problem

NAME = "claude-code"
HEAD_LIMIT = 1024 * 1024
AT_ONCE = 1.0  # seconds within which a session writes its head and its first record
HEAD_CHUNK = 4096  # the first record of the conversation is near
UNREAD = object()
PAID_FIELDS = ("costUSD", "inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


class ClaudeCodeUsage(Usage):
    def folders(self, files: Files, problems: list[Problem]) -> Iterator[Folder]:
        for folder in Projects(files).folders():
            found, sessions = transcripts(files, folder, ".jsonl")
            if found:
                yield Folder(folder, found, session_of)
            for session in sessions:
                yield from children_below(f"{folder}/{session}/subagents", session, files)

    def count(self, source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None = None) -> Counted:
        return count_lines(source, state, Transcript, tick)


def children_below(folder: str, session: str, files: Files, depth: int = 0) -> Iterator[Folder]:
    """Yield the sub-agents of a session, to the bottom of its folder: those of a workflow are in one of their own."""
    found, inner = transcripts(files, folder, ".jsonl")
    stamps = dict(found)
    names = (f"agent-{child}.jsonl" for child in children_in(list(stamps)))
    if children := [(name, stamps[name]) for name in names]:
        yield Folder(folder, children, child_of, session)
    for name in inner:
        if depth < DEEPEST:
            yield from children_below(f"{folder}/{name}", session, files, depth + 1)
        else:
            files.note(f"{folder}/{name}", TOO_DEEP, SESSIONS)


def session_of(name: str) -> str:
    return name.removesuffix(".jsonl")


def child_of(name: str) -> str:
    return session_of(name).removeprefix("agent-")


class Transcript(Reader):
    WORDS = (b'"usage"', b'"cost-state"')  # without what follows: some writers put a space before the colon
    _begun: object = UNREAD  # when the head of the file was written, or None

    def item(self, offset: int, line: bytes) -> Spent | Paid | None:
        record = self.decoded(line)
        if record is None:
            return None
        if record.get("type") == "cost-state":
            return self._paid(record)
        message = record.get("message")
        usage = message.get("usage") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(usage, dict) or message.get("model") == SYNTHETIC:
            return None
        state, at = self.state, moment(record.get("timestamp"))
        if "own" not in state and self._is_copy(at):
            return None
        if at is not None:
            state["at"] = at
        if isinstance(cwd := record.get("cwd"), str):
            state["cwd"] = cwd
        key = self._key(message.get("id"), record, offset)
        given, said = amount(usage.get("input_tokens")), amount(usage.get("output_tokens"))
        read, written = amount(usage.get("cache_read_input_tokens")), amount(usage.get("cache_creation_input_tokens"))
        cost = money(record["costUSD"]) if "costUSD" in record else None  # of early versions
        model = text_or_none(message.get("model"))
        counts = (given, said, read, written, None)
        return Spent(key, self.session, model, at, counts, given or 0, said or 0, cost, OPEN if cost is None else PAID)

    def _key(self, id: object, record: dict[str, Any], offset: int) -> int:
        """Return the key that all lines and copies of one call share."""
        if id:
            return key_of(NAME, id, record.get("requestId"))
        return key_of(NAME, record.get("uuid") or (self.session, offset))

    def _is_copy(self, at: float | None) -> bool:
        """Return whether a record was copied from another session: those before the first that is not older than the
        head of the file were."""
        if self._begun is UNREAD:
            self._begun = head_moment(self.fd)
        if isinstance(self._begun, float) and at is not None and at < self._begun:
            self.state["forked"] = True
            return True
        self.state["own"] = True
        return False

    def _paid(self, record: dict[str, Any]) -> Paid:
        """Return what was added to the running total since it was last written. A fork goes on with the total of
        another session, which is not known here."""
        before: dict[str, list[float]] | None = self.state.get("paid")
        if before is None and not self.state.get("forked"):
            before = {}
        totals = running_totals(record)
        self.state["paid"] = totals
        self.state["count"] = number = self.state.get("count", 0) + 1
        by_model = None
        if before is not None and totals is not None:
            by_model = {model: added(before.get(model), values) for model, values in totals.items()}
        name = f"{self.session} {number}"
        return Paid(name, self.session, self.state.get("at"), by_model)


def running_totals(record: dict[str, Any]) -> dict[str, list[float]] | None:
    """Return model -> cost and its tokens; None if the record says that some of the cost is not known."""
    usage = record.get("modelUsage")
    if record.get("hasUnknownModelCost") or not isinstance(usage, dict):
        return None
    found = {}
    for model, values in usage.items():
        numbers = (
            [money(values.get("costUSD")), *(amount(values.get(field)) for field in PAID_FIELDS[1:])]
            if (isinstance(values, dict))
            else [None]
        )
        known = [number for number in numbers if number is not None]
        if len(known) < len(PAID_FIELDS):
            return None
        found[str(model).partition("[")[0]] = known  # a name may carry the size of its context
    return found


def added(before: list[float] | None, now: list[float]) -> tuple[float, int, int, int, int]:
    """Return what was added to a total. A total that is less than before was begun anew."""
    old = before if before and all(first <= second for first, second in zip(before, now, strict=True)) else [0.0] * 5
    cost, *tokens = (second - first for first, second in zip(old, now, strict=True))
    given, said, read, written = map(int, tokens)
    return max(0.0, round(cost, 12)), given, said, read, written


def head_moment(fd: int) -> float | None:
    """Return the newest moment in the bookkeeping before the first record of the conversation; None if that record is
    not older. Then it is no copy, and what follows it is none either, whatever the clock was set to meanwhile."""
    newest = None
    for line in lines_from_start(fd, HEAD_LIMIT, chunk=HEAD_CHUNK):
        record = decode(line) or {}
        if b'"uuid"' in line:
            begun = moment(record.get("timestamp"))
            return None if newest is None or begun is None or begun > newest - AT_ONCE else newest
        snapshot = record.get("snapshot")
        times = (record.get("timestamp"), snapshot.get("timestamp") if isinstance(snapshot, dict) else None)
        newest = max((at for at in (newest, *map(moment, times)) if at is not None), default=None)
    return newest


USAGE = ClaudeCodeUsage()
