"""The demo agent in the torture suite: a real process, told by its prompt what to do."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

from tests.torture.agents import Live
from tests.torture.handles import Tool, wait_until
from tests.torture.kernel import child_of
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from tests.torture.world import World


class Demo(Live):
    """agentctl's own demo agent: a real one."""

    AGENT = "demo"

    @classmethod
    def spawn(cls, world: World, prompt: str | None, *, status: str = "busy", id: str | None = None) -> Self:
        """Start one. It is ready when its process file says `status`."""
        id = id or str(uuid.uuid4())
        words = [] if prompt is None else ["-p", prompt]
        popen = subprocess.Popen(
            [sys.executable, "-m", "agentctl.demo_agent", "--session-id", id, *words],
            cwd=world.work,
            env=world.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        agent = cls(id, popen, world.root(cls), start_ticks(popen.pid))
        world.keep(agent)
        agent.wait_for_status(status)
        return agent

    def __init__(self, id: str, popen: subprocess.Popen[bytes], root: Path, start: int) -> None:
        super().__init__(popen.pid, start, popen)
        self.id = id
        self.folder = root / "sessions" / id

    def process_file(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.folder / "process.json").read_text())
        except FileNotFoundError:
            return None
        return found

    def wait_for_status(self, status: str) -> None:
        wait_until(f"the demo agent's status {status}", lambda: (self.process_file() or {}).get("status") == status)

    def wait_for_event(self, event: str) -> None:
        path = self.folder / "events.jsonl"
        wait_until(
            f"the demo agent's event {event}", lambda: path.exists() and f'"event": "{event}"' in path.read_text()
        )

    def tool_process(self) -> Tool:
        """The shell of its running tool, as the kernel tells."""
        pid = wait_until("the demo agent's tool", lambda: child_of(self.pid))
        return Tool(pid, start_ticks(pid))
