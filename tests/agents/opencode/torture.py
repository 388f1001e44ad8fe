"""OpenCode in the torture suite: what a case tells a stand-in to do, and where that keeps its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.agents.opencode.standin_files import timed_id
from tests.torture.agents import Agent
from tests.torture.standins.puppet import HANDLED

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from tests.torture.world import World


class OpenCode(Agent):
    AGENT = "opencode"
    STANDIN = "tests.agents.opencode.standin:OpenCode"
    PROGRAM = "opencode"
    WRAPPER_HANDLES: tuple[int, ...] = ()  # it hands nothing on
    HEADLESS = {"command": "run", "layout": "database"}  # noqa: RUF012
    BEGUN = (["open", {}], ["prompt", {}], ["step", {}])
    ENDED = (["answer", {}], ["end", {}])
    STORE_VARIABLE = ("XDG_DATA_HOME", "opencode")

    @classmethod
    def spawn(
        cls, world: World, command: str = "run", *words: str, id: str | None = None, layout: str = "database",
        log: str = "shared", opened: bool = True, exclusive: bool = False, port: bool = False,
        root: Path | None = None, argv: list[str] | None = None, **options: Any,
    ) -> OpenCode:  # fmt: skip
        """Start an OpenCode: `run` for one prompt, its `screen`, or `serve`."""
        first = {"run": ["opencode", "run", "--format", "json"], "screen": ["opencode"]}.get(
            command, ["opencode", command]
        )
        last = ["please do it"] if command == "run" else []
        config: dict[str, Any] = {"command": command, "layout": layout, "id": id or cls.new_id()}
        config["root"] = str(root or world.root(cls))
        if command in ("run", "serve"):
            config["handles"] = []  # only its screen handles any signal
        kind = OpenCodeServer if port or command == "serve" else OpenCode
        agent = world.start(kind, config, argv or [*first, *words, *last], **options)
        if opened:
            agent.do("open", log=log, exclusive=exclusive)
        if kind is OpenCodeServer:
            agent.do("serve")
        return agent

    @staticmethod
    def new_id() -> str:
        return timed_id("ses")

    @classmethod
    def printed(cls, id: str) -> str:
        when = "timestamp=2026-01-01T00:00:00 level=INFO run=0"
        return f"{when} message=created id={id} slug=x directory=/ parentID=undefined title=x"

    @property
    def database(self) -> Path:
        return self.root / "opencode.db"

    def mid_model(self, text: str = "please do it", **arguments: Any) -> Self:
        """The model is called, and has not said a word."""
        self.do("prompt", text=text, **arguments)
        self.do("step", **arguments)
        return self

    def mid_tool(self, command: str = "sleep 300", **arguments: Any) -> Self:
        self.do("prompt", **arguments)
        self.do("call", command=command, allowed=True, **arguments)
        self.tool(command, **arguments)
        return self

    def finished(self, text: str = "please do it", **arguments: Any) -> Self:
        self.do("prompt", text=text, **arguments)
        self.do("answer", **arguments)
        return self


class OpenCodeServer(OpenCode):
    STANDIN = "tests.agents.opencode.standin_server:OpenCodeServer"
    WRAPPER_HANDLES = HANDLED

    def runs(self, id: str, status: dict[str, Any], **arguments: Any) -> None:
        """A session of one of its clients in mid-turn, and what it answers for it."""
        self.do("begin", id=id, **arguments)
        self.mid_model(id=id)
        self.do("say", id=id, status=status)
