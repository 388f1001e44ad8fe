"""Codex in the torture suite: what a case tells a stand-in to do, and where that keeps its files."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

from tests.torture.agents import Agent
from tests.torture.handles import WorldError
from tests.torture.standins.files import timed_id
from tests.torture.standins.puppet import HANDLED

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from tests.torture.world import World

CODEX_BINARY = "/usr/lib/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"


class Codex(Agent):
    AGENT = "codex"
    STANDIN = "tests.agents.codex.standin:Codex"
    PROGRAM = "codex"
    HANDLES: tuple[int, ...] = (signal.SIGINT,)
    HEADLESS = {"source": "exec", "policy": "never"}  # noqa: RUF012
    BEGUN = (["open", {}], ["prompt", {"text": "go"}])
    ENDED = (["complete", {}], ["end", {}])
    STORE_VARIABLE = ("CODEX_HOME", "")

    @classmethod
    def spawn(
        cls, world: World, *, source: str = "exec", policy: str = "never", lock: bool = True, opened: bool = True,
        id: str | None = None, argv: list[str] | None = None, root: Path | None = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Start a Codex that owns a thread: `exec`, or a TUI that runs embedded."""
        id = id or cls.new_id()
        words = ["exec", "--json", "go"] if source == "exec" else ["--no-daemon"]
        config = {"source": source, "policy": policy, "id": id, "root": str(root or world.root(cls))}
        world.root(cls).mkdir(exist_ok=True)
        agent = world.start(cls, config, argv or [CODEX_BINARY, *words], **options)
        if opened:
            agent.do("open", lock=lock)
            if lock and not agent.lock.exists():
                raise WorldError("no writer lock")
        return agent

    @staticmethod
    def new_id() -> str:
        return timed_id()

    @classmethod
    def printed(cls, id: str) -> str:
        return json.dumps({"type": "thread.started", "thread_id": id})

    def rollout_of(self, id: str | None = None) -> Path:
        (path,) = self.root.glob(f"sessions/*/*/*/rollout-*-{id or self.id}.jsonl")
        return path

    @property
    def lock(self) -> Path:
        return self.root / "thread-writer-locks" / f"{self.id}.lock"

    def mid_model(self, text: str = "please do it", **arguments: Any) -> Self:
        self.do("prompt", text=text, **arguments)
        return self

    def mid_tool(self, command: str = "sleep 300", **arguments: Any) -> Self:
        self.do("prompt", text="please do it", **arguments)
        self.do("call", command=command, **arguments)
        self.tool(command, **arguments)
        return self

    def finished(self, **arguments: Any) -> Self:
        self.do("prompt", text="please do it", **arguments)
        self.do("complete", **arguments)
        return self


class CodexDaemon(Codex):
    STANDIN = "tests.agents.codex.standin_daemon:CodexDaemon"
    HANDLES = HANDLED

    @classmethod
    def spawn(cls, world: World) -> Self:  # type: ignore[override]
        root = world.root(cls)
        root.mkdir(exist_ok=True)
        argv = [f"{root}/packages/app-server-daemon/bin/codex", "app-server", "--listen", "unix://"]
        config = {"source": "vscode", "policy": "on-request", "id": cls.new_id(), "root": str(root)}
        daemon = world.start(cls, config, [*argv, "--managed-daemon"])
        daemon.do("serve", socket_path=str(world.folder / "control.sock"))
        return daemon

    def holds(self, id: str, status: dict[str, Any]) -> None:
        """A thread of one of its clients, and what it answers for it."""
        self.do("open", id=id)
        self.do("say", id=id, status=status)
