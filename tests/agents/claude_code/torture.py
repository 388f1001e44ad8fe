"""Claude Code in the torture suite: what a case tells a stand-in to do, and where that keeps its files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.torture.agents import Agent
from tests.torture.handles import WorldError, wait_until

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from tests.torture.world import World


class Claude(Agent):
    AGENT = "claude-code"
    STANDIN = "tests.agents.claude_code.standin:Claude"
    PROGRAM = "claude"
    HEADLESS = {"style": "new", "headless": True}  # noqa: RUF012
    BEGUN = (["register", {"status": "busy"}], ["prompt", {"text": "go"}])
    ENDED = (["answer", {}], ["end", {}])
    STORE_VARIABLE = ("CLAUDE_CONFIG_DIR", "")

    @classmethod
    def spawn(
        cls, world: World, status: str | None = "busy", *, style: str = "new", headless: bool = False,
        register: bool = True, id: str | None = None, argv: list[str] | None = None, root: Path | None = None,
        **options: Any,
    ) -> Self:  # fmt: skip
        """Start a Claude Code. Without a status its file has none, as in headless runs of the older style."""
        id = id or cls.new_id()
        alone = ["claude", "-p", "go", "--session-id", id, "--output-format", "stream-json", "--verbose"]
        config = {"style": style, "headless": headless, "id": id, "root": str(root or world.root(cls))}
        agent = world.start(cls, config, argv or (alone if headless else ["claude"]), **options)
        if register:
            agent.register(status)
        return agent

    @property
    def transcript(self) -> Path:
        slug = re.sub(r"[^A-Za-z0-9]", "-", self.config["cwd"])
        return self.root / "projects" / slug / f"{self.id}.jsonl"

    @property
    def file(self) -> Path:
        return self.root / "sessions" / f"{self.pid}.json"

    def register(self, status: str | None, **arguments: Any) -> None:
        self.do("register", status=status, **arguments)
        wait_until("its sessions/<pid>.json", lambda: json.loads(self.file.read_text())["sessionId"] == self.id)

    def status(self, status: str | None, waiting_for: str | None = None) -> None:
        self.do("status", status=status, waiting_for=waiting_for)
        said = json.loads(self.file.read_text())
        if (said.get("status"), said.get("waitingFor")) != (status, waiting_for):
            raise WorldError(f"{self.file} does not say {status}")

    def mid_model(self, text: str = "please do it") -> Self:
        self.do("prompt", text=text)
        return self

    def mid_tool(self, command: str = "sleep 300") -> Self:
        self.do("prompt", text="please do it")
        self.do("call", command=command)
        self.tool(command)
        return self

    def finished(self, status: str | None = "idle") -> Self:
        self.do("prompt", text="please do it")
        self.do("answer")
        if status is not None:
            self.status(status)
        return self
