"""OpenCode's store: locked, hung, hidden, torn, twice there, and counted once."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing, contextmanager
from itertools import count, product
from typing import TYPE_CHECKING, Any

from tests.agents.opencode.standin_files import timed_id
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_ends import ask_in_between
from tests.torture.cases_hostile import CONTENTS, KINDS, ODDEST, Thing, Trial, kinds_at
from tests.torture.cases_machine import block, check_soon, check_time, make_fifo, others_of
from tests.torture.kernel import (
    as_nobody,
    as_nobody_who_sees_little,
    hanging,
    mounted,
    read_only,
    without_file_powers,
)
from tests.torture.registry import case
from tests.torture.world import Contains

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.torture.world import World


def wal_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def check_not_ended(world: World, label: str, agent: OpenCode) -> None:
    """Its store cannot be read: its live process is still shown, and nothing of it is said to have ended."""
    row = world.listing.rows.get(agent.id, {})
    shown = agent.pid in world.listing.unattached or row.get("process") in ("alive", "unknown")
    said = f"{row.get('status', 'no row')}, unattached: {agent.pid in world.listing.unattached}"
    world.says(f"{label}: shown, and not ended", said, shown and row.get("process") != "gone", str(world.listing))
    world.expects_unattached.add(agent.pid)


@case("store-hangs")
def opencode_locked(world: World) -> None:
    """opencode's database is locked for good by its own process, or by somebody else's"""
    others = others_of(world)
    live = OpenCode.spawn(world, exclusive=True).mid_model()
    world.look()
    check_soon(world, others)
    world.check("it lets nobody read: its files are copied", live.id, "running", pid=live, link="exact")
    live.do("answer")
    live.leave()
    world.until_the_end(locked(live.database))
    world.look()
    check_soon(world, others)
    world.check("somebody else lets nobody read", live.id, "done", process="gone")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As a backup does: nobody else may even read."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("pragma locking_mode = exclusive")
        database.execute("update project set time_updated = 1")
        yield


@case("store-hangs")
def opencode_of_fifos(world: World) -> None:
    """FIFOs where opencode's database, its log or its older files should be"""
    others = others_of(world)
    live = OpenCode.spawn(world).mid_model()
    kept = live.database.read_bytes()
    make_fifo(live.database)
    world.look()
    check_soon(world, others)
    world.check_problem("the database", world.root(OpenCode))
    said = str(world.listing.problems)
    world.says("nobody waited for it: it is no regular file", said, "not a regular file" in said)
    check_not_ended(world, "its database is a FIFO", live)
    live.database.unlink()
    live.database.write_bytes(kept)
    log = live.root / "log" / "opencode.log"
    make_fifo(log)
    world.look()
    check_soon(world, others)
    check_not_ended(world, "its log is a FIFO", live)
    older = OpenCode.spawn(world, layout="json", log="own", cwd=world.folder_at("older")).mid_model()
    make_fifo(sorted((older.root / "storage" / "message" / older.id).glob("*.json"))[-1])
    world.look()
    check_time(world)
    check_not_ended(world, "its newest message is a FIFO", older)
    check_not_ended(world, "its own database has no name any more", live)


@case("store-hangs")
def opencode_on_a_dead_mount(world: World) -> None:
    """opencode's store is on a mount whose server never answers"""
    others = others_of(world)
    live = OpenCode.spawn(world, opened=False)
    world.until_the_end(hanging(world.root(OpenCode)))
    world.hangs = True
    world.sample = 1
    world.limit = 8.0
    world.look()
    check_soon(world, others)
    world.check_problem("opencode's store", world.root(OpenCode))
    world.check_unattached("its live process", live)


@case("store-hangs")
def opencode_that_blocks(world: World) -> None:
    """opencode's adapter blocks for ever while it reads"""
    others = others_of(world)
    live = OpenCode.spawn(world).mid_model()
    block(world, "opencode")
    world.look()
    check_soon(world, others)
    world.check_problem("opencode's store", world.root(OpenCode))
    world.check_unattached("its live process", live)


@case("store-hangs")
def opencode_unreadable(world: World) -> None:
    """opencode's store, its database or its log is closed to us"""
    others = others_of(world)
    live = OpenCode.spawn(world).mid_model()
    world.around = without_file_powers
    for path in (world.root(OpenCode), live.database, wal_of(live.database)):
        mode = path.stat().st_mode
        path.chmod(0)
        world.look()
        check_soon(world, others)
        found = [one["problem"] for one in world.listing.problems]
        world.says(f"{path.name} of mode 000: a problem", str(found), bool(found))
        check_not_ended(world, f"{path.name} of mode 000", live)
        path.chmod(mode)
    world.expects_problems = False
    world.expects_unattached.clear()
    world.look()
    world.check("opened again", live.id, "running", pid=live, link="exact")


@case("scan-incomplete")
def hidden_opencode(world: World) -> None:
    """/proc hides the processes of others, and opencode is another user's"""
    live = OpenCode.spawn(world).mid_model()
    dead = OpenCode.spawn(world).mid_model()
    dead.kill()
    done = OpenCode.spawn(world).finished()
    done.leave()
    world.look()
    world.check("seen by root: alive", live.id, "running", pid=live)
    world.check("seen by root: killed", dead.id, "stopped")
    world.around = as_nobody_who_sees_little
    world.look()
    for label, agent in {"hidden": live, "killed": dead}.items():
        world.check(f"opencode, {label}", agent.id, "unknown", process="unknown", pid=None)
    world.check("opencode, finished: keeps its word", done.id, "done", inferred=True)


@case("scan-incomplete")
def closed_opencode(world: World) -> None:
    """an opencode of our own user into which we may not look: it may be on any session"""
    left = OpenCode.spawn(world).mid_model()
    left.kill()
    world.look()
    world.check("killed, nobody is there", left.id, "stopped")
    closed = world.bare("opencode", ["opencode"], around=as_nobody)
    closed.do("close_doors")
    world.around = as_nobody
    world.look()
    world.check("killed, and a closed opencode lives", left.id, "unknown", process="unknown")
    world.check_unattached("the closed one", closed)
    world.check_problem("its store is not known", f"/proc/{closed.pid}/environ")


@case("scan-incomplete")
def shared_mount_opencode(world: World) -> None:
    """opencode's store on a mount of its own inside a PID namespace: others may be on it"""
    world.until_the_end(mounted("ramfs", world.root(OpenCode)))
    live = OpenCode.spawn(world).mid_model()
    dead = OpenCode.spawn(world).mid_model()
    dead.kill()
    world.look()
    world.check("alive", live.id, "running", pid=live, link="exact")
    world.check("killed", dead.id, "unknown", process="unknown", reason=Contains("mount"))


@case("disk-full")
def read_only_opencode(world: World) -> None:
    """opencode's store in a folder that cannot be written: read all the same, as a copy where there is no other way"""
    agent = OpenCode.spawn(world).mid_model()
    killed = OpenCode.spawn(world).mid_model()
    killed.kill()
    world.until_the_end(read_only(world.folder / "data"))
    world.look()
    world.check("in mid-turn", agent.id, "running", pid=agent, link="exact")
    # In a PID namespace a mount of its own may be a volume that others have, too.
    world.check("killed", killed.id, "unknown", process="unknown")


@case("clock-step")
def clock_step_opencode(world: World) -> None:
    """opencode's rows of hours ago in a process of now: a turn that it cannot have begun is not called its own"""
    live, dead = OpenCode.spawn(world).mid_model(), OpenCode.spawn(world).mid_model()
    dead.kill()
    with closing(sqlite3.connect(live.database, isolation_level=None)) as database:
        for table in ("session", "message", "part"):
            database.execute(
                f"update {table} set time_created = time_created - 7200000, time_updated = time_updated - 7200000"
            )
    world.look()
    row = world.listing.rows.get(live.id, {})
    said = f"{row.get('status')}, process {row.get('process')}"
    world.says("a live one whose times are two hours back: not ended", said, row.get("process") in ("alive", "unknown"))
    world.check("a killed one whose times are two hours back", dead.id, "stopped", process="gone")
    world.expects_unattached.add(live.pid)


@case("no-double")
def no_double_opencode(world: World) -> None:
    """an opencode session in the older files and in the database that they were copied into"""
    copied = OpenCode.spawn(world, layout="json", log="own", cwd=world.folder_at("one")).mid_model()
    copied.kill()
    only_old = OpenCode.spawn(world, layout="json", log="own", cwd=world.folder_at("two")).finished()
    only_old.leave()
    new = OpenCode.spawn(
        world, id=copied.id, cwd=world.folder_at("one")
    )  # the newer version copies it, and goes on with it
    new.do("begin")
    new.finished()
    new.leave()
    channel = OpenCode.spawn(world, cwd=world.folder_at("three")).mid_model()
    with (
        closing(sqlite3.connect(channel.database)) as one,
        closing(sqlite3.connect(channel.root / "opencode-local.db")) as other,
    ):
        one.backup(other)  # of a build of another channel
    world.look()
    twice = [id for id in set(world.listing.ids) if world.listing.ids.count(id) > 1]
    world.says("each session once", f"{len(world.listing.ids)} rows, {len(twice)} twice", not twice)
    world.check("in both, the files say mid-turn: the database counts", copied.id, "done", process="gone")
    world.check("in the older files only", only_old.id, "done", process="gone")
    world.check("in the databases of two channels", channel.id, "running", pid=channel)


@case("usage-once")
def usage_once_opencode(world: World) -> None:
    """opencode: a step's usage is stored three times, a fork repeats all of it, a sub-agent has its own"""
    for layout in ("database", "older database", "json"):
        agent = OpenCode.spawn(world, layout=layout, log="own" if layout == "json" else "shared").mid_model()
        agent.do("call", command="true", allowed=True)
        agent.do("result")
        child, fork = timed_id("ses"), timed_id("ses")
        agent.do("sub", child=child)
        agent.do("prompt", text="look", id=child)
        agent.do("answer", id=child)
        agent.do("result")
        agent.do("answer")
        agent.do("branch", id=agent.id, new=fork)
        agent.do("prompt", text="go on", id=fork)
        agent.do("answer", id=fork)
        agent.leave()
        wanted = {"three steps": (agent.id, 3), "its sub-agent": (child, 1), "its fork": (fork, 1)}
        for label, (id, steps) in wanted.items():
            session = world.ask("status", id).get("session") or {}
            tokens, cost = session.get("tokens") or {}, session.get("cost_usd")
            found = (tokens.get("input"), tokens.get("output"), tokens.get("reasoning"), tokens.get("cache_read"))
            right = found == (800 * steps, 40 * steps, 10 * steps, 200 * steps)
            paid = cost is not None and abs(cost - 0.00092 * steps) < 1e-9
            world.says(f"{layout}, {label}: {40 * steps} output tokens, paid once", f"{found}, {cost}", right and paid)
        world.clear_stores()


# Torn and hostile files


@case("torn")
def torn_opencode(world: World) -> None:
    """opencode's database cut off, overwritten or replaced: a problem, and nothing of it is said to have ended"""
    others = others_of(world)
    live = OpenCode.spawn(world).mid_model()
    killed = OpenCode.spawn(world, cwd=world.folder_at("other")).mid_model()
    killed.kill()
    with closing(sqlite3.connect(live.database)) as database:  # into the file itself, as at a checkpoint
        database.execute("pragma wal_checkpoint(truncate)")
    live.do("stream")
    whole, wal = live.database.read_bytes(), wal_of(live.database).read_bytes()
    for label, make in {
        "cut off in the middle": lambda path: path.write_bytes(whole[: len(whole) // 2]),
        "cut off behind its first page": lambda path: path.write_bytes(whole[:4096]),
        "its second half random": lambda path: path.write_bytes(whole[: len(whole) // 2] + os.urandom(len(whole) // 2)),
        "all of it random": lambda path: path.write_bytes(os.urandom(len(whole))),
        "a directory": lambda path: path.mkdir(),
        "a symlink loop": lambda path: path.symlink_to(path.name),
        "a device": lambda path: path.symlink_to("/dev/zero"),
    }.items():
        live.database.unlink()
        make(live.database)  # type: ignore[no-untyped-call]
        world.look()
        check_soon(world, others)
        world.says(f"{label}: a problem", str(world.listing.problems), bool(world.listing.problems))
        check_not_ended(world, f"its database {label}", live)
        row = world.listing.rows.get(killed.id, {})
        said = str(row.get("status", "no row"))
        world.says(f"{label}: a killed one is not done", said, row.get("turn") not in ("done", "failed"))
        if live.database.is_dir() and not live.database.is_symlink():
            live.database.rmdir()
        else:
            live.database.unlink()
        live.database.write_bytes(whole)
    for label, text in {
        "cut off": wal[: len(wal) // 2],
        "random": os.urandom(len(wal)),
        "of NUL bytes": b"\0" * len(wal),
    }.items():
        wal_of(live.database).write_bytes(text)
        live.database.with_name("opencode.db-shm").unlink(missing_ok=True)
        world.look()
        check_soon(world, others)
        check_not_ended(world, f"its write-ahead log {label}", live)
        wal_of(live.database).write_bytes(wal)
    world.look()  # SQLite makes its index of the log anew
    world.expects_problems = True
    world.sample = 4


@case("hostile")
def hostile_opencode(world: World) -> None:
    """opencode's store: everything that can lie where one of its files should be"""
    claude, demo = others_of(world)
    trial = Trial(world, {claude.id: ("running", claude), demo.id: ("running", demo)})
    agent = OpenCode.spawn(world).finished()
    agent.leave()
    root = world.root(OpenCode)

    def at(*names: str) -> list[Thing]:
        path = root.joinpath(*names)
        return kinds_at("/".join(names), (path for _ in count()))

    trial.try_all([*at("opencode.db"), *at("opencode.db-wal"), *at("log", "opencode.log"), *at("storage")])
    trial.verdict("opencode's files, to the others")
    shutil.rmtree(root)
    ended = OpenCode.spawn(world, layout="json", log="own").finished()
    ended.leave()
    trial = Trial(world, {claude.id: ("running", claude), ended.id: ("done", None)})
    storage = root / "storage"
    sessions = [storage / "session" / "global" / f"{timed_id('ses')}.json" for _ in range(len(CONTENTS) + len(KINDS))]
    messages = []
    for path in sessions:
        other = storage / "message" / path.stem / f"{timed_id('msg')}.json"
        messages.append(other)
    trial.try_all([*kinds_at("a session", sessions), *kinds_at("a message", messages)])
    trial.verdict("opencode's older files")


COLUMNS = (
    "parent_id",
    "directory",
    "title",
    "version",
    "model",
    "time_updated",
    "tokens_input",
    "cost",
    "time_created",
)
TIMES = ("time_updated", "time_created")
FIELDS = {
    "message": ("role", "time", "error", "finish", "tokens", "cost", "model", "modelID"),
    "part": ("type", "tool", "state", "text", "callID", "time"),
}
KEYS = {"session": "id", "message": "session_id", "part": "session_id"}


@case("hostile")
def hostile_rows_of_opencode(world: World) -> None:
    """opencode's database with odd values in every column and every field, beside healthy sessions"""
    live = OpenCode.spawn(world).mid_tool()
    ended = OpenCode.spawn(world).finished()
    ended.leave()
    with closing(sqlite3.connect(live.database)) as database:
        spoiled = list(spoil(database, live.id))
        database.commit()
    world.look("-a", "--since", "all", "--tree", "--agent", "opencode")
    said = str(world.listing.problems)[:300]
    world.says(f"beside {len(spoiled)} odd rows: no problem", said, not world.listing.problems)
    world.check("the live one", live.id, "running", pid=live, link="exact")
    world.check("the ended one", ended.id, "done", process="gone")
    alive = [row["id"] for row in world.listing.rows.values() if row["process"] == "alive"]
    world.says("nobody else is alive", str(alive), alive == [live.id])
    counted = [id for what, id in spoiled if what in ("tokens_input = 1e+300", "cost = b'x\\x00y'", "tokens = []")]
    found = [world.ask("status", id).get("session", {}).get("id") for id in counted]
    world.says(f"{len(counted)} of them are counted, too", str(found), found == counted and len(counted) == 3)
    world.sample = 25


def spoil(database: sqlite3.Connection, source: str) -> Iterator[tuple[str, str]]:
    """Copies of a session and all that is in it, each with one odd value in one place: what it is, and their ids."""
    for table, fields in FIELDS.items():
        for field, odd in product(fields, ODDEST):
            id = copy(database, source)
            rows = database.execute(f"select id, data from {table} where session_id = ?", (id,)).fetchall()
            for row, text in rows:
                changed = json.dumps({**json.loads(text), field: odd})
                database.execute(f"update {table} set data = ? where id = ?", (changed, row))
            yield f"{field} = {odd!r}", id
        for name, content in CONTENTS.items():
            yield name, put(database, table, "data", "cast(? as text)", content, source)
    for column in ("title", "directory", "version", "model"):
        yield "bad UTF-8", put(database, "session", column, "cast(? as text)", b"\xff\xfe", source)
    # The times of messages last: the newest rows are looked at most.
    for table, columns in (("session", COLUMNS), ("part", TIMES), ("message", TIMES)):
        for column, odd in product(columns, ODDEST):
            value = stored(odd, column)
            yield f"{column} = {value!r}", put(database, table, column, "?", value, source)


def put(database: sqlite3.Connection, table: str, column: str, how: str, value: Any, source: str) -> str:
    id = copy(database, source)
    database.execute(f"update {table} set {column} = {how} where {KEYS[table]} = ?", (value, id))
    return id


def stored(odd: Any, column: str) -> Any:
    """As SQLite can hold it; where a column must have a value, another odd one."""
    if odd is None and column != "parent_id":
        return b"\xff\xfe"
    if isinstance(odd, (list, dict)):
        return json.dumps(odd)
    if isinstance(odd, int) and odd >= 2**63:
        return 1e300
    return odd.encode(errors="surrogatepass") if isinstance(odd, str) else odd  # a blob


def copy(database: sqlite3.Connection, source: str) -> str:
    """The session once more, under another id and in a directory that nobody works in."""
    new = timed_id("ses")
    columns = [name for _, name, *_ in database.execute("pragma table_info(session)")]
    values = ", ".join({"id": "?", "directory": "'/nowhere'"}.get(name, name) for name in columns)
    database.execute(f"insert into session select {values} from session where id = ?", (new, source))
    for id, *rest in database.execute("select * from message where session_id = ?", (source,)).fetchall():
        message = timed_id("msg")
        database.execute("insert into message values (?, ?, ?, ?, ?)", (message, new, *rest[1:]))
        for part in database.execute("select * from part where message_id = ? order by id", (id,)).fetchall():
            database.execute("insert into part values (?, ?, ?, ?, ?, ?)", (timed_id("prt"), message, new, *part[3:]))
    return new


@case("normal-end")
def opencode_in_between(world: World) -> None:
    """opencode that ends or begins at the very moment between two readings"""
    for before in (True, False):
        agent = OpenCode.spawn(world).mid_model()

        def end(agent: OpenCode = agent) -> None:
            agent.do("answer")
            agent.leave()

        ask_in_between(world, before=before, happens=end)
        words = ("done",) if before else ("done", "idle", "running", "unknown")
        when = "just before" if before else "just after"
        world.check(f"opencode ended {when} the table was read", agent.id, words)
    begun: list[str] = []
    ask_in_between(world, before=False, happens=lambda: begun.append(OpenCode.spawn(world).mid_model().id))
    world.check("opencode begun just after the table was read", begun[0], ("running", "unknown"))
