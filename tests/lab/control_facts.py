"""What an agent is known to do when it is controlled: exit codes, what a mode allows, what a stop leaves.

The facts themselves are in the descriptions (tests/agents/<agent>/lab_facts.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.lab.running import Key, table, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.stage import Run, Stage

Exits = dict[tuple[str, str], int]


@dataclass(frozen=True)
class Failure:
    name: str
    code: int
    prompt: str = "[[text:hello]]"
    more: dict[str, Any] = field(default_factory=dict)
    status: str | None = None  # what agentctl says of the session afterwards; None = there is none
    says: str | None = None
    made: Callable[[Stage], Run] | None = None  # where it is not a recipe of ours


@dataclass(frozen=True)
class Facts:
    model: str  # its usual one, as it is told
    first_signal: str
    records_end: bool  # after an orderly stop its store says that the turn was interrupted
    tool_survives: bool
    exits: Exits
    modes: dict[str, tuple[int, bool]]  # mode -> (exit code, can it write a file)
    failures: tuple[Failure, ...]
    flags: tuple[tuple[str, ...], ...]
    allow_edits: Callable[[Stage], None]  # in the person's own configuration
    background: Callable[[Stage, str], Key]
    screen: tuple[str, ...]  # its interface in a process of its own
    ready: str  # what that shows at its prompt
    screen_code: int
    screen_records_end: bool = False
    screen_tool_survives: bool = False
    background_tool_survives: bool | None = False  # its daemon's own command ended the session; None: at times
    daemon_stays: bool = True
    kept: dict[str, tuple[int, bool]] = field(default_factory=dict)  # where a resumed session differs from its mode
    sandbox: dict[str, str] = field(default_factory=dict)  # the environment in which nothing is refused
    keeps_bypass: bool = True
    also: Exits = field(default_factory=dict)  # another exit code that the same signal has at times
    without: dict[str, str] = field(default_factory=dict)  # checks that it cannot have, and why


def without_flag(stage: Stage, flag: str, **more: Any) -> Run:
    recipe = stage.control.start(stage.task("[[text:x]]", **more))
    plain = stage.home.folder / "plain"
    plain.mkdir(exist_ok=True)
    return stage.run(recipe._replace(argv=tuple(word for word in recipe.argv if word != flag)), plain)


def configure(stage: Stage, path: str, **more: Any) -> None:
    file = stage.home.folder / path
    file.write_text(json.dumps(json.loads(file.read_text()) | more))


def daemon(matches: Callable[[tuple[str, ...]], bool]) -> Key:
    found: list[Key] = []

    def seen() -> bool:
        found[:] = [row.key for row in table().values() if not row.dead and matches(row.argv)]
        return bool(found)

    until(seen, 30, "its daemon")
    return found[0]
