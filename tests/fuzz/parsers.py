"""The functions that take one line, one object or one value apart: thousands of cases in the time of one command."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from agentctl.agents import load_control
from agentctl.cli import output
from agentctl.errors import AgentctlError
from agentctl.files import bounded
from agentctl.kernel import one_process
from agentctl.launches import hooks
from agentctl.launches import records as launches
from agentctl.workspace import locks
from tests import agents
from tests.fuzz import agent, mutations, oracle
from tests.fuzz.agent import Parser
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

STAT = b"7 (a) b) S 1 7 7 34817 7 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4711 1000 10 18446744073709551615\n"
SAID_NO = (bounded.Torn, AgentctlError)


def read_ours(data: bytes) -> Iterable[str]:
    value = bounded.decode(data)
    if value is None:
        return
    launches.parse_exit(value)
    hooks.parse(value)
    for parse in (
        lambda: launches.parse(str(value.get("id")), value, ".", "launch.json").launch,
        lambda: locks.parse(value, "lock.json"),
    ):
        try:
            parse()
        except SAID_NO:
            pass
    for inner in value.values():
        at = bounded.moment(inner)
        yield from oracle.moment(output.utc(at), "a moment")
        if at is not None and output.utc(at) is None:
            yield f"a moment that no calendar has: {at!r}"
        bounded.whole_number(inner)
        bounded.total([inner])


def read_printed(data: bytes) -> Iterable[str]:
    for name in agents.TABLE:
        found = load_control(name).printed_id(data)
        if not (found is None or (isinstance(found, str) and found)):
            yield f"an id that is none: {found!r}"


def read_stat(data: bytes) -> Iterable[str]:
    try:
        row = one_process.parse_stat(data, "boot")
    except ValueError:
        return
    if row is not None and not (0 <= row.key.pid < 2**67 and 0 <= row.key.start < 2**67):
        yield f"a process that cannot be: {row!r}"


def our_objects() -> Sequence[bytes]:
    """Return the lines of our own agent, and what we write ourselves: each reader has to bear those of the other."""
    own = agents.load(agents.OWN).fuzz()
    assert own is not None
    return own.parsers[0].texts()


PARSERS = (
    *(parser for one in agent.every() for parser in one.parsers),
    Parser(our_objects, read_ours),
    Parser(lambda: [path.read_bytes()[:20_000] for path in sorted(FIXTURES.glob("outputs/*"))], read_printed),
    Parser(lambda: [STAT], read_stat),
)


class Lines:
    """One of the parsers, on one line that was changed."""

    def __init__(self) -> None:
        self._texts: dict[int, Sequence[bytes]] = {}

    def case(self, rng: Random) -> tuple[str, list[str]]:
        at = rng.randrange(len(PARSERS))
        if at not in self._texts:
            self._texts[at] = PARSERS[at].texts()
        known = self._texts[at]
        data = mutations.mutate(rng.choice(known), rng, known[:20])
        try:
            return f"{data[:200]!r}", list(PARSERS[at].read(data))
        except Exception:  # noqa: BLE001 -- that is what is looked for
            return f"{data[:200]!r}", [traceback.format_exc()]
