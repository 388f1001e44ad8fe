"""Stored sessions of Claude Code, for the benchmarks."""

from __future__ import annotations

from typing import Any

from bench.stored import DAY, Kind, compact, utc

INTERACTIVE = 0.7  # of its sessions: only these get a title
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5")


class Sessions(Kind):
    SHARE = 0.80
    LIVE = 4
    LAUNCHED = 3

    def store(self, count: int) -> None:
        for _ in range(count):
            self.one()

    def one(self) -> None:
        id, cwd, written = self.make.uuid(), self.make.project(), self.make.now - self.make.age()
        began = written - self.make.random.random() * DAY / 4
        stamps = [
            compact({"type": "last-prompt", "lastPrompt": "go on", "leafUuid": self.make.uuid(), "sessionId": id})
        ]
        if self.make.random.random() < INTERACTIVE:
            stamps.append(compact({"type": "ai-title", "aiTitle": self.make.text(40), "sessionId": id}))
        stamps.append(compact({"type": "mode", "mode": "normal", "sessionId": id}))
        head = [compact({"type": "mode", "mode": "normal", "sessionId": id}), *self.turn(began, id, cwd)]
        tail = self.turn(written, id, cwd)
        if self.make.random.random() < 0.15:
            del tail[-1:]  # killed in mid-turn
        else:
            tail += [*stamps, compact({"type": "cost-state", "totalCostUSD": 0.25, "sessionId": id})]
        folder = self.make.folder / "home/.claude/projects" / cwd.replace("/", "-")
        self.make.write(folder / f"{id}.jsonl", head, self.name, tail, written, tuple(stamps))
        self.make.ids[self.name].append(id)
        if self.make.random.random() < 0.08:
            for _ in range(self.make.random.randint(1, 4)):
                sub = folder / id / "subagents" / f"agent-{self.make.random.getrandbits(64):016x}.jsonl"
                self.make.write(sub, self.turn(began, id, cwd, sidechain=True), self.name, tail, written)

    def turn(self, at: float, id: str, cwd: str, *, sidechain: bool = False) -> list[bytes]:
        """A prompt, some calls with their results, an answer."""
        lines = []
        parent: str | None = None

        def add(kind: str, **fields: Any) -> None:
            nonlocal parent
            own = self.make.uuid()
            common = {"uuid": own, "timestamp": utc(at), "userType": "external", "entrypoint": "cli", "cwd": cwd}
            common |= {"sessionId": id, "version": "2.1.325", "gitBranch": "trunk"}
            lines.append(compact({"parentUuid": parent, "isSidechain": sidechain, **fields, "type": kind, **common}))
            parent = own

        def assistant(stop: str, **block: Any) -> None:
            message = {"id": f"msg_{own_id}", "type": "message", "role": "assistant", "model": model}
            usage = {"input_tokens": 11, "cache_creation_input_tokens": 7, "output_tokens": 42}
            add("assistant", message={**message, "content": [block], "stop_reason": stop, "usage": usage})

        model = self.make.random.choice(MODELS)
        own_id = f"{self.make.random.getrandbits(64):016x}"
        add(
            "user",
            message={"role": "user", "content": self.make.text(self.make.random.randint(20, 400))},
            promptSource="typed",
        )
        for _ in range(min(int(self.make.random.lognormvariate(2.0, 0.9)), 120)):
            own_id = call = f"{self.make.random.getrandbits(64):016x}"
            assistant("tool_use", type="text", text=self.make.text(120))
            given = {"command": self.make.text(60), "description": "run it"}
            assistant("tool_use", type="tool_use", id=f"toolu_{call}", name="Bash", input=given)
            said = self.make.output()
            block = {"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": said, "is_error": False}
            result = {"stdout": said, "stderr": "", "interrupted": False}
            add("user", message={"role": "user", "content": [block]}, toolUseResult=result)
        own_id = f"{self.make.random.getrandbits(64):016x}"
        assistant("end_turn", type="text", text=self.make.text(600))
        return lines
