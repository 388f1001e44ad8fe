"""The cases' side of the stand-ins: what a case tells an agent to do, and where that agent keeps its files."""

from __future__ import annotations

import json
import re
from typing import IO, TYPE_CHECKING, Any

from tests.torture.handles import Handle, Puppet, Tool, WorldError, read_answer, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

CODEX_BINARY = "/usr/lib/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"


class Agent(Puppet):
    """A stand-in that is on a session."""

    def __init__(
        self,
        ready: dict[str, Any],
        popen: subprocess.Popen[bytes] | None,
        pipes: tuple[IO[bytes], IO[bytes]],
        config: dict[str, Any],
        keep: Callable[[Handle], None],
    ) -> None:
        super().__init__(ready["ready"], ready["start"], popen, *pipes)
        self.id: str = config["id"]
        self.config = config
        self.wrapper: Handle | None = None
        self._keep = keep

    def tool(self, command: str = "sleep 300", **arguments: Any) -> Tool:
        """Start the process of the pending tool call."""
        facts = self.do("tool", command=command, **arguments)
        tool = Tool(facts["pid"], facts["start"])
        self._keep(tool)
        return tool

    def leave(self, **arguments: Any) -> int | None:
        """An orderly end; its exit code."""
        self.send("end", **arguments)
        return self.reap()


class Claude(Agent):
    @property
    def root(self) -> Path:
        found: Path = self.config["root_path"]
        return found

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

    def mid_model(self, text: str = "please do it") -> Claude:
        self.do("prompt", text=text)
        return self

    def mid_tool(self, command: str = "sleep 300") -> Claude:
        self.do("prompt", text="please do it")
        self.do("call", command=command)
        self.tool(command)
        return self

    def finished(self, status: str | None = "idle") -> Claude:
        self.do("prompt", text="please do it")
        self.do("answer")
        if status is not None:
            self.status(status)
        return self


class Codex(Agent):
    @property
    def root(self) -> Path:
        found: Path = self.config["root_path"]
        return found

    def rollout_of(self, id: str | None = None) -> Path:
        (path,) = self.root.glob(f"sessions/*/*/*/rollout-*-{id or self.id}.jsonl")
        return path

    @property
    def lock(self) -> Path:
        return self.root / "thread-writer-locks" / f"{self.id}.lock"

    def mid_model(self, text: str = "please do it", **arguments: Any) -> Codex:
        self.do("prompt", text=text, **arguments)
        return self

    def mid_tool(self, command: str = "sleep 300", **arguments: Any) -> Codex:
        self.do("prompt", text="please do it", **arguments)
        self.do("call", command=command, **arguments)
        self.tool(command, **arguments)
        return self

    def finished(self, **arguments: Any) -> Codex:
        self.do("prompt", text="please do it", **arguments)
        self.do("complete", **arguments)
        return self


class CodexDaemon(Codex):
    def holds(self, id: str, status: dict[str, Any]) -> None:
        """A thread of one of its clients, and what it answers for it."""
        self.do("open", id=id)
        self.do("say", id=id, status=status)


class OpenCode(Agent):
    @property
    def root(self) -> Path:
        found: Path = self.config["root_path"]
        return found

    @property
    def database(self) -> Path:
        return self.root / "opencode.db"

    def mid_model(self, text: str = "please do it", **arguments: Any) -> OpenCode:
        """The model is called, and has not said a word."""
        self.do("prompt", text=text, **arguments)
        self.do("step", **arguments)
        return self

    def mid_tool(self, command: str = "sleep 300", **arguments: Any) -> OpenCode:
        self.do("prompt", **arguments)
        self.do("call", command=command, allowed=True, **arguments)
        self.tool(command, **arguments)
        return self

    def finished(self, text: str = "please do it", **arguments: Any) -> OpenCode:
        self.do("prompt", text=text, **arguments)
        self.do("answer", **arguments)
        return self


class OpenCodeServer(OpenCode):
    def runs(self, id: str, status: dict[str, Any], **arguments: Any) -> None:
        """A session of one of its clients in mid-turn, and what it answers for it."""
        self.do("begin", id=id, **arguments)
        self.mid_model(id=id)
        self.do("say", id=id, status=status)


class Poller(Handle):
    """A process that asks agentctl's Python API, over and over."""

    def __init__(self, popen: subprocess.Popen[bytes], start: int) -> None:
        super().__init__(popen.pid, start, popen)
        self.problems: list[str] = []

    def once(self) -> dict[str, dict[str, Any]]:
        """The rows; what could not be read is in `problems`."""
        found = self._ask(None)
        self.problems = found["problems"]
        return dict(found["rows"])

    def look_at(self, id: str) -> dict[str, Any]:
        """One session. A store that this machine was too slow for is asked again; a row is never just gone."""
        for _ in range(3):
            row = self.once().get(id)
            if row is not None or not any("did not answer" in text for text in self.problems):
                break
        return row or {"status": f"no row; problems: {self.problems}", "last_turn": None}

    def watch(self, until: Path) -> None:
        """Begin; `seen` has what it saw, after that file has appeared."""
        self._order(str(until))

    def seen(self) -> dict[str, Any]:
        assert self.popen and self.popen.stdout
        return read_answer(self.popen.stdout)

    def _ask(self, until: str | None) -> dict[str, Any]:
        self._order(until)
        return self.seen()

    def _order(self, until: str | None) -> None:
        assert self.popen and self.popen.stdin
        self.popen.stdin.write(json.dumps(until).encode() + b"\n")
        self.popen.stdin.flush()


class Demo(Handle):
    """agentctl's own demo agent: a real one."""

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
        from tests.torture.kernel import child_of
        from tests.torture.standins.files import start_ticks

        pid = wait_until("the demo agent's tool", lambda: child_of(self.pid))
        return Tool(pid, start_ticks(pid))
