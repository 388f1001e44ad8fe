"""What must hold of every answer, whatever stands in the files: its shape, its words, and who is said to be alive."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentctl.cli.output import SCHEMA
from agentctl.kernel.processes import Processes
from agentctl.model import ALIVE, PROCESS_WORDS, STATUS_WORDS, TURN_WORDS, Session, status_word
from agentctl.query.world import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
FIELDS = frozenset(Session._fields) - {"rule", "rejected", "store", "path"}
WORDS = (
    *("id", "agent", "status", "process", "turn"),
    *("agent_version", "last_turn", "reason", "error", "waiting_for", "process_key", "cwd", "branch", "model"),
    *("title", "prompt", "signal", "parent", "forked_from", "group", "launch_id", "host", "link"),
)
NEEDED = ("id", "agent", "status", "process", "turn")
TIMES = ("started_at", "updated_at", "ended_at")
ROLES = ("user", "assistant", "tool", "result", "note")
LARGEST = 2**64  # what any reader of our JSON can take for a number
NOBODY = Processes("boot", ())  # where no process is spoken of
SAID_OF_A_FAULT = "run again with AGENTCTL_DEBUG=1"
STALLED = "did not answer within"


def parse(text: str) -> Any:
    """JSON as everybody reads it: no NaN, no number without an end, and bytes that are UTF-8."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text.encode("utf-8"), parse_constant=refuse)


def human(text: str) -> Iterator[str]:
    """Text for a terminal, which must not obey it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        yield f"text that cannot be printed: {error}"
    odd = sorted({char for char in text if char != "\n" and not char.isprintable()})
    if odd:
        at = text.index(odd[0])
        yield f"control characters {odd!r} in {text[max(0, at - 60) : at + 20]!r}"


def document(found: Any, processes: Processes) -> Iterator[str]:
    """Of any command with --json."""
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        yield "not a document of ours"
        return
    yield from numbers(found, "")
    rows = found.get("sessions", [])
    for row in [*rows, *([found["session"]] if "session" in found else [])]:
        yield from (f"session {row.get('id')!r:.60}: {why}" for why in session(row, processes))
    names = [(row["agent"], row["id"]) for row in rows]
    if len(names) != len(set(names)):
        yield "two rows of one session"
    for one in found.get("unattached", ()):
        if not isinstance(one["pid"], int) or processes.get(one["pid"]) is None:
            yield f"unattached: no live process has pid {one['pid']!r}"
    for one in found.get("problems", ()):
        if set(one) != {"agent", "problem", "path"} or not one["agent"] or not one["problem"]:
            yield f"a problem that says nothing: {one!r}"
    for one in found.get("messages", ()):
        if one["role"] not in ROLES or not isinstance(one["text"], str):
            yield f"a message of {one['role']!r}, {one['text']!r:.60}"
        yield from moment(one["at"], "a message")
    if "rule" in found and found["rule"] not in RULES:
        yield f"the rule {found['rule']!r}"


def numbers(value: Any, where: str) -> Iterator[str]:
    """No number that another program could not read."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{where}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, where)
    elif isinstance(value, (int, float)) and not (math.isfinite(value) and abs(value) < LARGEST):
        yield f"{where} is {value!r:.40}"


def session(row: dict[str, Any], processes: Processes) -> Iterator[str]:
    if set(row) != FIELDS:
        yield f"other fields: {sorted(set(row) ^ FIELDS)}"
        return
    for name in WORDS:
        if not (isinstance(row[name], str) or (row[name] is None and name not in NEEDED)):
            yield f"{name} is {row[name]!r:.60}"
    for name in TIMES:
        yield from moment(row[name], name)
    if row["process"] not in PROCESS_WORDS or row["turn"] not in TURN_WORDS or row["status"] not in STATUS_WORDS:
        yield f"words: {row['process']!r}, {row['turn']!r}, {row['status']!r}"
    elif row["status"] != status_word(row["process"], row["turn"]):
        yield f"{row['status']} for {row['process']}, {row['turn']}"
    if row["last_turn"] not in (None, *TURN_WORDS):
        yield f"last turn {row['last_turn']!r}"
    yield from alive(row, processes)
    for name, count in (row["tokens"] or {}).items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
            yield f"tokens: {name} is {count!r:.60}"
    cost, code = row["cost_usd"], row["exit_code"]
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, (int, float)) or cost < 0):
        yield f"a cost of {cost!r:.60}"
    if code is not None and (isinstance(code, bool) or not isinstance(code, int)):
        yield f"an exit code of {code!r:.60}"
    for fact in row["evidence"]:
        if not isinstance(fact["fact"], str) or not isinstance(fact["inferred"], bool):
            yield f"evidence {fact!r:.100}"
    if not row["evidence"]:
        yield "no evidence"
    if not isinstance(row["inferred"], bool) or not isinstance(row["suspended"], bool):
        yield "a yes or no that is neither"


def alive(row: dict[str, Any], processes: Processes) -> Iterator[str]:
    """Only a process that is in the table and lives is shown, and only of what is alive."""
    living = {str(one.key): one.pid for one in processes.living()}
    if (row["process"] == ALIVE) != (row["pid"] is not None):
        yield f"process {row['process']}, pid {row['pid']}"
    if (row["pid"] is None) != (row["link"] is None) or (row["pid"] is None) != (row["process_key"] is None):
        yield f"pid {row['pid']}, link {row['link']}, key {row['process_key']}"
    if row["pid"] is not None and living.get(row["process_key"]) != row["pid"]:
        yield f"pid {row['pid']} ({row['process_key']}) is shown and is not alive"
    if row["link"] == "sole" and not row["inferred"]:
        yield "a sole link, and not inferred"
    if row["process"] == ALIVE:
        shown = {entry["key"]: entry["pid"] for entry in row["processes"]}
        if not shown or any(living.get(key) != pid for key, pid in shown.items()):
            yield f"processes that do not live: {shown}"


def moment(value: object, name: str) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, str) or MOMENT.fullmatch(value) is None:
        yield f"{name} is {value!r}"
        return
    try:
        datetime.fromisoformat(value)
    except ValueError:
        yield f"{name} is {value!r}, which no calendar has"
