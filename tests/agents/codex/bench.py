"""Stored sessions of Codex, for the benchmarks."""

from __future__ import annotations

import json
import time
from typing import Any

from bench.stored import DAY, Kind, compact, utc


class Sessions(Kind):
    SHARE = 0.15
    LIVE = 1
    LAUNCHED = 1

    def store(self, count: int) -> None:
        for _ in range(count):
            self.one()

    def one(self) -> None:
        written = self.make.now - self.make.age()
        began = written - self.make.random.random() * DAY / 4
        id, cwd = self.make.timed(began), self.make.project()
        meta: dict[str, Any] = {
            "id": id,
            "session_id": id,
            "timestamp": utc(began),
            "cwd": cwd,
            "cli_version": "0.166.0",
        }
        meta |= {"source": "exec", "git": {"branch": "trunk"}, "base_instructions": {"text": self.make.text(12_000)}}
        head = [rollout_line(began, "session_meta", **meta), *self.turn(began, id, cwd)]
        tail = self.turn(written, id, cwd)
        if self.make.random.random() < 0.15:
            del tail[-1:]
        local = time.localtime(began)
        name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', local)}-{id}.jsonl"
        folder = self.make.folder / "home/.codex/sessions" / time.strftime("%Y/%m/%d", local)
        self.make.write(folder / name, head, self.name, tail, written)
        self.make.ids[self.name].append(id)

    def turn(self, at: float, id: str, cwd: str) -> list[bytes]:
        turn = self.make.timed(at)

        def message(role: str, text: str) -> bytes:
            content = [{"type": "input_text", "text": text}]
            return rollout_line(at, "response_item", type="message", role=role, content=content)

        lines = [
            rollout_line(at, "event_msg", type="task_started", turn_id=turn),
            message("developer", f"<permissions instructions>{self.make.text(2000)}"),
            message("user", f"<environment_context><cwd>{cwd}</cwd></environment_context>"),
            rollout_line(
                at, "turn_context", turn_id=turn, cwd=cwd, approval_policy="never", model="gpt-5-codex"
            ),
            message("user", self.make.text(self.make.random.randint(20, 400))),
        ]  # fmt: skip
        for _ in range(min(int(self.make.random.lognormvariate(2.0, 0.9)), 120)):
            call = f"call_{self.make.random.getrandbits(64):016x}"
            given = json.dumps({"cmd": self.make.text(60)})
            named = {"name": "exec_command", "arguments": given, "call_id": call}
            lines.append(rollout_line(at, "response_item", type="function_call", **named))
            usage = {"input_tokens": 1000, "cached_input_tokens": 400, "output_tokens": 50}
            lines.append(rollout_line(at, "token_usage_record", thread_id=id, response_id=call, usage=usage))
            output = self.make.output()
            lines.append(rollout_line(at, "response_item", type="function_call_output", call_id=call, output=output))
            lines.append(rollout_line(at, "event_msg", type="token_count", info={"total_token_usage": usage}))
        lines.append(message("assistant", self.make.text(600)))
        lines.append(rollout_line(at, "event_msg", type="task_complete", turn_id=turn))
        return lines


def rollout_line(at: float, kind: str, /, **payload: Any) -> bytes:
    return compact({"timestamp": utc(at), "ordinal": 1, "type": kind, "payload": payload})
