"""What Codex' threads have spent, by their rollouts.

`token_usage_record` has one response of the model. Its running totals are inherited by forks and forget killed turns:
none of them is believed. Older versions wrote `token_count` events alone (the running total, and the last response),
repeated them, and copied all of a parent's into the file of a fork or a sub-agent, behind the parent's session_meta.
"""

from __future__ import annotations

from agentctl.agents.codex.rollout import days_in, from_meta, payload_of, thread_of
from agentctl.agents.usage_base import (
    Counted,
    Folder,
    Reader,
    Source,
    Spent,
    Usage,
    amount,
    count_lines,
    key_of,
    transcripts,
)
from agentctl.files.bounded import moment, text_or_none
from agentctl.files.reader import TRANSCRIPTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from agentctl.files.reader import Reader as Files
    from agentctl.model import Problem

NAME = "codex"
FIELDS = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "reasoning_output_tokens",
)


class CodexUsage(Usage):
    def folders(self, files: Files, problems: list[Problem]) -> Iterator[Folder]:
        for folder in (*days_in(files), f"{files.root}/archived_sessions"):
            found, _ = transcripts(files, folder, TRANSCRIPTS)
            rollouts = []
            for name, stamp in found:
                if thread_of(name) is not None:
                    rollouts.append((name, stamp))
                else:
                    files.note_stray(f"{folder}/{name}")
            if rollouts:
                yield Folder(folder, rollouts, lambda name: thread_of(name) or name)

    def count(self, source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None = None) -> Counted:
        return count_lines(source, state, Rollout, tick)


class Rollout(Reader):
    WORDS = (b'"token_usage_record"', b'"token_count"', b'"turn_context"', b'"session_meta"')

    def item(self, offset: int, line: bytes) -> Spent | None:
        if self.state.get("records") and b'"token_count"' in line and b'"token_usage_record"' not in line:
            return None  # says the same once more
        found = payload_of(line)
        if found is None:
            self.decoded(line)  # it may hold tokens
            return None
        kind, payload, record = found
        if kind == "session_meta":
            self._meet(payload)
        elif kind == "turn_context":
            self.state["model"] = text_or_none(payload.get("model")) or self.state.get("model")
        elif kind == "token_usage_record" and isinstance(usage := payload.get("usage"), dict):
            self.state["records"] = True
            response = payload.get("response_id")
            name = (payload.get("thread_id"), response) if response else (self.session, offset)
            return self._spent(key_of(NAME, *name), usage, record)
        elif kind == "event_msg" and payload.get("type") == "token_count" and not self.state.get("records"):
            return self._of_event(payload.get("info"), record)
        return None

    def _meet(self, payload: dict[str, Any]) -> None:
        """Note whose records follow. The first session_meta is its own; what follows another one was copied from there,
        or goes on with it."""
        head = from_meta(payload)
        if "lineage" not in self.state:
            self.state["cwd"], self.state["parent"] = head.cwd, head.parent
            self.state["lineage"] = head.forked_from or head.id or self.session
        else:
            self.state["lineage"] = head.id or self.state["lineage"]

    def _of_event(self, info: object, record: dict[str, Any]) -> Spent | None:
        total, last = (
            (info.get("total_token_usage"), info.get("last_token_usage")) if isinstance(info, dict) else (0, 0)
        )
        if not isinstance(total, dict) or not isinstance(last, dict):
            return None
        mark = [amount(usage.get(field)) for usage in (total, last) for field in FIELDS]
        if mark[:5] == self.state.get("total"):
            return None  # repeated
        self.state["total"] = mark[:5]
        return self._spent(key_of(NAME, "event", self.state.get("lineage", self.session), mark), last, record)

    def _spent(self, key: int, usage: dict[str, Any], record: dict[str, Any]) -> Spent:
        given, said, read, written, thought = (amount(usage.get(field)) for field in FIELDS)
        fresh = max(0, (given or 0) - (read or 0) - (written or 0))  # both are counted among the input
        at = moment(record.get("timestamp"))
        model = text_or_none(self.state.get("model"))
        return Spent(
            key, self.session, model, at, (given, said, read, written, thought), fresh, said or 0
        )  # reasoning is counted among the output


USAGE = CodexUsage()
