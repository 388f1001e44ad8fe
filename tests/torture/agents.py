"""What torture asks of an agent's description: a class that starts one of its processes and tells it what to do.

This is the side of the cases. What runs in the process of a stand-in is the class that STANDIN names.
"""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from tests.torture.handles import Handle, Puppet, Tool, read_answer
from tests.torture.standins.files import random_id
from tests.torture.standins.puppet import HANDLED

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from tests.torture.world import World


class Live(Handle):
    """A process of an agent that is on a session."""

    AGENT: str  # as agentctl calls it
    id: str

    @classmethod
    def spawn(cls, world: World, *args: Any, **options: Any) -> Self:
        """Start one in this world. It is ready when this returns."""
        raise NotImplementedError


class Agent(Live, Puppet):
    """A stand-in that is on a session."""

    STANDIN: str  # module:class of what runs in its process
    PROGRAM: str  # the name of that process
    HANDLES: tuple[int, ...] = HANDLED  # the signals that it handles
    WRAPPER_HANDLES: tuple[int, ...] = HANDLED  # the signals that its wrapper hands on to it
    HEADLESS: dict[str, Any] = {}  # noqa: RUF012  the config of a run for one prompt, without its id and store
    BEGUN: tuple[Any, ...] = ()  # orders that bring such a run into its first turn
    ENDED: tuple[Any, ...] = ()  # orders that end that turn and the process
    STORE_VARIABLE: tuple[str, str] = ("", "")  # the variable that names its store, and what follows its value

    def __init__(
        self,
        ready: dict[str, Any],
        popen: subprocess.Popen[bytes] | None,
        pipes: tuple[IO[bytes], IO[bytes]],
        config: dict[str, Any],
        keep: Callable[[Handle], None],
    ) -> None:
        super().__init__(ready["ready"], ready["start"], popen, *pipes)
        self.id = config["id"]
        self.config = config
        self.wrapper: Handle | None = None
        self._keep = keep

    @property
    def root(self) -> Path:
        """Return its store."""
        found: Path = self.config["root_path"]
        return found

    @staticmethod
    def new_id() -> str:
        return random_id()

    @classmethod
    def printed(cls, id: str) -> str:
        """Return the line in which a run for one prompt names its session; empty if agentctl chooses its id."""
        return ""

    def mid_model(self) -> Self:
        """Bring it to where it waits for the model's answer to a prompt."""
        raise NotImplementedError

    def mid_tool(self) -> Self:
        """Bring it to where a tool runs that was called by the model."""
        raise NotImplementedError

    def finished(self) -> Self:
        """Bring it to the end of a turn."""
        raise NotImplementedError

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
