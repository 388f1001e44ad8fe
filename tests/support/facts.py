"""Small words to say what is seen of a world, for the tables of the judge. `s` is the session that is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentctl.kernel.processes import Processes
from agentctl.model import (
    AGENT,
    STRANGER,
    Claim,
    Judgement,
    Link,
    Process,
    ProcessKey,
    Record,
    Session,
    StoreView,
    Supervisor,
)
from agentctl.query.judge import judge, sole_links
from agentctl.query.sessions import ended_of
from agentctl.query.world import World
from tests.support.table import source

if TYPE_CHECKING:
    Fact = Process | Record | Link | Claim | Supervisor | StoreView | str

A, B = "/store/a", "/store/b"
HIDDEN = "hidden"  # the table does not show everything
ABSENT = "absent"  # and the kernel says of a pid whether anybody has it


def key(pid: int, start: int | None = None, boot: str = "boot") -> ProcessKey:
    return ProcessKey(boot, pid, pid * 10 if start is None else start)


def row(pid: int, start: int | None = None, *, state: str = "S", parent: int = 1, **more: Any) -> Process:
    return Process(key(pid, start), parent, "agent", state, **{"dead": state in "ZX", **more})


def rec(turn: str, id: str = "s", store: str = A, **more: Any) -> Record:
    return Record("amber", id, store, turn, **{"path": f"{store}/{id}", "updated_at": 5.0, **more})


def link(pid: int, id: str = "s", store: str = A, *, start: int | None = None, boot: str = "boot", **more: Any) -> Link:
    return Link("amber", id, store, key(pid, start, boot), "its file", **{"here": None, **more})


def claim(pid: int, *ids: str, role: str = AGENT, store: str | None = A, **more: Any) -> Claim:
    return Claim("amber", key(pid), role, store, **{"candidates": ids, "why": "no file", **more})


def stranger(pid: int, *ids: str, **more: Any) -> Claim:
    return claim(pid, *ids, role=STRANGER, **{"why": "an unidentified program in its directory", **more})


def boss(pid: int, id: str = "s") -> Supervisor:
    return Supervisor("amber", id, key(pid), f"its daemon (pid {pid}) has it")


def shared(store: str = A) -> StoreView:
    return StoreView("amber", store, "its store is shared")


def judged(world: World) -> Judgement:
    """Judge a world as the look does: with the links that are inferred, and what the kernel proves to have ended."""
    links = (*world.links, *sole_links(world))
    return judge(world._replace(links=links, ended=ended_of(links, world.processes)))


def see(*facts: Fact) -> Judgement:
    def all_of(kind: type) -> Any:
        return tuple(fact for fact in facts if isinstance(fact, kind))

    rows: tuple[Process, ...] = all_of(Process)
    pids = {one.pid for one in rows}
    processes = Processes(
        "boot",
        rows,
        source(absent=lambda pid: ABSENT in facts and pid not in pids),
        hidden="some of /proc could not be read" if HIDDEN in facts else None,
    )
    views = {one.root: one for one in (StoreView("amber", A), StoreView("amber", B), *all_of(StoreView))}
    stores = tuple(views.values())
    links = tuple(one for one in all_of(Link) if one.left is None)
    world = World(
        processes,
        stores,
        all_of(Record),
        links,
        tuple(one for one in all_of(Claim) if one.role != STRANGER),
        all_of(Supervisor),
        strangers=tuple(one for one in all_of(Claim) if one.role == STRANGER),
        left=tuple(one for one in all_of(Link) if one.left is not None),
    )
    return judged(world)


def session(*facts: Fact, id: str = "s") -> Session:
    (found,) = [one for one in see(*facts).sessions if one.id == id]
    return found


def words(one: Session) -> str:
    return f"{one.status} {one.rule}{' ?' if one.inferred else ''}"
