"""The functions that take one line, one object or one value apart: thousands of cases in the time of one command."""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

from agentctl import hooks, launches, locks, stores
from agentctl.agents import claude_records, codex_rollout, demo, load_control, opencode_messages
from agentctl.agents.opencode_turn import Message, Part, read_turn
from agentctl.cli import output, peek
from agentctl.errors import AgentctlError
from agentctl.processes import linux
from tests.fuzz import mutations, oracle, seeds
from tests.worlds import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

    from agentctl import model

STAT = b"7 (a) b) S 1 7 7 34817 7 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4711 1000 10 18446744073709551615\n"
SAID_NO = (stores.Torn, AgentctlError)


class Parser(NamedTuple):
    texts: Callable[[], Sequence[bytes]]
    read: Callable[[bytes], Iterable[str]]


def lines_of(pattern: str) -> Callable[[], list[bytes]]:
    """The lines of real files, each of a kind, by the words at its beginning."""

    def read() -> list[bytes]:
        kinds: dict[bytes, bytes] = {}
        for path in sorted(FIXTURES.glob(pattern)):
            for line in path.read_bytes().splitlines():
                kinds.setdefault(line[:60], line)
        return [line for line in kinds.values() if len(line) < 20_000]

    return read


def shown(messages: Iterable[model.Message]) -> Iterable[str]:
    for message in messages:
        yield from oracle.human(peek.line_of(message))
        text = json.dumps(peek.message_json(message), ensure_ascii=False)
        found = oracle.parse(text.encode("utf-8", "backslashreplace").decode())
        yield from oracle.document({"schema": output.SCHEMA, "messages": [found]}, oracle.NOBODY)


def read_claude(data: bytes) -> Iterable[str]:
    yield from shown(claude_records.messages_of(data))
    if (record := stores.decode(data)) is not None:
        tail = claude_records.judge_turn(claude_records.Tail(), record, max_turns=False)
        yield from texts(claude_records.with_context(claude_records.with_title(tail, record), record))
        claude_records.refusal(record)
        claude_records.is_conversation(record)


def read_codex(data: bytes) -> Iterable[str]:
    yield from shown(codex_rollout.messages_of(data))
    if (found := codex_rollout.payload_of(data)) is not None:
        yield from texts(codex_rollout.from_meta(found[1]))
        yield from texts(codex_rollout.judge_turn(codex_rollout.Tail(), found[1]))
        codex_rollout.describe_call(found[1])


def read_opencode(data: bytes) -> Iterable[str]:
    value = stores.decode(data)
    if value is None:
        return
    inner = value.get("data")
    text = stores.decode(inner) if isinstance(inner, str) else inner if isinstance(inner, dict) else value
    part = Part(1.0, 2.0, text or {})
    for role in ("user", "assistant"):
        for others in ({}, {"role": role}, {"role": role, "time": {"completed": 1}, "finish": "stop"}):
            turn = read_turn([Message("msg_1", 1.0, 2.0, {**part.data, **others})], lambda _: [part, part])
            yield from texts(turn)
        yield from shown(message for _, message in opencode_messages.of_part({"role": role}, part.data, 1.0))


def texts(value: Any) -> Iterable[str]:
    """What a reader calls a text is one, or nothing."""
    for name in ("turn", "reason", "error", "model", "branch", "cwd", "version", "parent", "prompt", "id"):
        found = getattr(value, name, None)
        if not (found is None or isinstance(found, str)):
            yield f"{name} is {found!r:.60}"


def read_ours(data: bytes) -> Iterable[str]:
    value = stores.decode(data)
    if value is None:
        return
    launches.parse_exit(value)
    hooks.parse(value)
    for parse in (
        lambda: launches.parse(str(value.get("id")), value, ".", "launch.json").launch,
        lambda: locks.parse(value, "lock.json"),
    ):
        try:
            parse()
        except SAID_NO:
            pass
    for inner in value.values():
        at = stores.moment(inner)
        yield from oracle.moment(output.utc(at), "a moment")
        if at is not None and output.utc(at) is None:
            yield f"a moment that no calendar has: {at!r}"
        stores.whole_number(inner)
        stores.total([inner])


def read_printed(data: bytes) -> Iterable[str]:
    for agent in ("claude-code", "codex", "opencode"):
        found = load_control(agent).printed_id(data)
        if not (found is None or (isinstance(found, str) and found)):
            yield f"an id that is none: {found!r}"


def read_stat(data: bytes) -> Iterable[str]:
    try:
        row = linux.parse_stat(data, "boot")
    except ValueError:
        return
    if row is not None and not (0 <= row.key.pid < 2**67 and 0 <= row.key.start < 2**67):
        yield f"a process that cannot be: {row!r}"


def our_objects() -> list[bytes]:
    found = [json.dumps(event).encode() for event in seeds.demo_events()]
    lock = {"directory": "/w", "by": "me", "reason": None, "created_at": seeds.AT, "expires_at": seeds.AT}
    usage = {"utime": 0.1, "stime": 0.2, "maxrss": 5}
    ended = {"key": "b:1:2", "comm": "x", "exit_code": 0, "at": seeds.AT, "rusage": usage, "direct": True}
    ran = {"name": "on-create", "exit_code": 1, "timed_out": False, "last_lines": ["x"], "at": seeds.AT}
    return [*found, *(json.dumps(one).encode() for one in (lock, ended, ran, seeds.launch_facts("x", "demo", None, 0)))]


PARSERS = (
    Parser(lines_of("claude*/*/.claude/projects/*/*.jsonl"), read_claude),
    Parser(lines_of("codex/*/codex_home/sessions/*/*/*/*.jsonl"), read_codex),
    Parser(lines_of("opencode/*/dump.jsonl"), read_opencode),
    Parser(our_objects, read_ours),
    Parser(our_objects, lambda data: shown(demo.messages_of(data))),
    Parser(lambda: [path.read_bytes()[:20_000] for path in sorted(FIXTURES.glob("outputs/*"))], read_printed),
    Parser(lambda: [STAT], read_stat),
)


class Lines:
    """One of the parsers, on one line that was changed."""

    def __init__(self) -> None:
        self._texts: dict[int, Sequence[bytes]] = {}

    def case(self, rng: Random) -> tuple[str, list[str]]:
        at = rng.randrange(len(PARSERS))
        if at not in self._texts:
            self._texts[at] = PARSERS[at].texts()
        known = self._texts[at]
        data = mutations.mutate(rng.choice(known), rng, known[:20])
        try:
            return f"{data[:200]!r}", list(PARSERS[at].read(data))
        except Exception:  # noqa: BLE001 -- that is what is looked for
            return f"{data[:200]!r}", [traceback.format_exc()]
