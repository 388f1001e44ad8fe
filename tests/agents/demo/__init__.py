"""agentctl's own demo agent, as the suites know it. It is a real agent, so no suite needs a stand-in for it."""

from __future__ import annotations

from tests.agents.base import Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from tests.fuzz.agent import Fuzz
    from tests.soak.lives import Life
    from tests.torture.agents import Live


class Demo(Description):
    NAME = "demo"
    PROGRAM = "agentctl-demo"
    LACKS = {  # noqa: RUF012
        "fixtures": "its own tests start it in every state",
        "lab": "it is our own program, of our own version: nothing is installed",
        "bench": "nobody keeps years of its sessions",
    }

    def root(self, home: Path, data: Path) -> Path:
        return data / "agentctl-demo"

    def ids(self, root: Path) -> set[str]:
        return {path.name for path in root.glob("sessions/*")}

    def torture(self) -> type[Live]:
        from tests.agents.demo import torture

        return torture.Demo

    def soak(self) -> type[Life]:
        from tests.agents.demo import soak

        return soak.DemoLife

    def fuzz(self) -> Fuzz:
        from tests.agents.demo import fuzz

        return fuzz.FUZZ


DESCRIPTION = Demo()
