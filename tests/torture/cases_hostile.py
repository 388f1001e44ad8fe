"""Files that are torn, or meant to hurt: a problem at most. Never a crash, never a wrong word about the others."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.torture.registry import case
from tests.torture.standins.files import timed_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.torture.handles import Handle
    from tests.torture.world import World

DEEP = b"[" * 200_000
HUGE_INT = b"9" * 6000
SOON = 5.0

# Whole contents that are no object, or only half of one.
CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "half a line": b'{"type":"user","message":{"role":"us',
    "NUL bytes": b"\0" * 8192,
    "NUL in a string": b'{"type":"user\\u0000","sessionId":"\\u0000"}\n',
    "bad UTF-8": b'{"type":"user","message":{"content":"\xff\xfe\xc3"}}\n\xff\xff\n',
    "an array": b"[1,2,3]\n",
    "null": b"null\n",
    "a number": b"12\n",
    "a huge number": b'{"pid":' + HUGE_INT + b',"timestamp":' + HUGE_INT + b"}\n",
    "numbers that are none": b'{"pid":NaN,"startedAt":Infinity,"updatedAt":-Infinity,"timestamp":1e999}\n',
    "deep nesting": DEEP + b"\n",
    "deep nesting in an object": b'{"type":"user","message":' + DEEP + b"\n",
    "a byte order mark": b'\xef\xbb\xbf{"type":"user"}\n',
    "carriage returns": b'{"type":"user"}\r\n\r\n',
}


def make_directory(path: Path) -> None:
    path.mkdir(parents=True)


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_long_line(path: Path) -> None:
    with open(path, "wb") as file:
        file.write(b'{"type":"user","message":{"role":"user","content":"')
        for _ in range(50):
            file.write(b"x" * 1024 * 1024)
        file.write(b'"}}\n')


KINDS: dict[str, Callable[[Path], None]] = {
    "a directory": make_directory,
    "a symlink loop": make_loop,
    "a device": make_device,
    "a FIFO": os.mkfifo,
    "a 50 MB line": make_long_line,
}

FOLDER_KINDS = ("a directory", "a symlink loop", "a FIFO")

ODD_VALUES: tuple[Any, ...] = (
    -1, 0, 1, 2**31, 2**63, 10**30, 1.5, True, None, "", "12x", "-5", "٣", [], {}, [[]], {"a": {}},
    "x\0y", "\ud800", "../../../../etc/passwd", "/", "x" * 20_000, "\x1b[31mred\x07",
)  # fmt: skip


ODDEST: tuple[Any, ...] = (-1, 2**63, 1.5, True, None, [], {}, "x\0y", "\ud800")


class Thing(NamedTuple):
    """One hostile thing: where it lies, and what it is."""

    label: str
    path: Path
    make: bytes | Callable[[Path], None]

    def put(self) -> Callable[[], None]:
        """Lay it down; what is returned takes it away again."""
        kept = self.path.read_bytes() if self.path.is_file() and not self.path.is_symlink() else None
        remove(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(self.make, bytes):
            self.path.write_bytes(self.make)
        else:
            self.make(self.path)

        def take_away() -> None:
            remove(self.path)
            if kept is not None:
                self.path.write_bytes(kept)

        return take_away


class Trial:
    """Lays hostile things beside healthy sessions and asks. If the answer is wrong, finds out which of them it was."""

    def __init__(self, world: World, healthy: dict[str, tuple[str, Handle | None]]) -> None:
        self.world = world
        self.healthy = healthy
        self.count = 0
        self.wrong: dict[str, str] = {}
        self.slowest = 0.0
        world.expects_problems = True

    def try_all(self, things: list[Thing]) -> None:
        """As many as possible at once: those that lie at the same place come one after the other."""
        self.count += len(things)
        layers: list[dict[Path, Thing]] = []
        for thing in things:
            layer = next((layer for layer in layers if thing.path not in layer), None)
            if layer is None:
                layers.append(layer := {})
            layer[thing.path] = thing
        for layer in layers:
            self.search(list(layer.values()))

    def search(self, things: list[Thing]) -> None:
        wrong = self.ask_with(things)
        if wrong is None:
            return
        if len(things) == 1:
            self.wrong[things[0].label] = wrong
            return
        found = len(self.wrong)
        for half in (things[: len(things) // 2], things[len(things) // 2 :]):
            self.search(half)
        if len(self.wrong) == found:
            self.wrong[f"{len(things)} together, such as {things[0].label}"] = wrong

    def ask_with(self, things: list[Thing]) -> str | None:
        laid = [thing.put() for thing in things]
        try:
            return self.ask("list", "-a", "--since", "all", "--tree", "--json")
        finally:
            for take_away in laid:
                take_away()

    def ask(self, *words: str) -> str | None:
        """What is wrong with the answer; None = nothing."""
        done = self.world.run_quietly(*words)
        self.slowest = max(self.slowest, self.world.own_seconds)
        if done.returncode != 0 or "Traceback" in done.stderr:
            return f"exit {done.returncode}: {telling_line(done.stderr)}"
        listing = self.world.listing_in(done.stdout)
        for id, (status, process) in self.healthy.items():
            row = listing.rows.get(id)
            found = (row["status"], row["pid"]) if row else None
            if found != (status, process.pid if process else None):
                return f"a healthy {status} session is now {found}; problems: {listing.problems[:2]}"
        return None

    def verdict(self, what: str) -> None:
        said = f"{self.count} things tried, {len(self.wrong)} wrong, slowest {self.slowest:.1f} s"
        evidence = "\n".join(f"{label}: {wrong}" for label, wrong in self.wrong.items())
        ok = not self.wrong and self.slowest < SOON
        self.world.says(f"{what}: exit 0, no traceback, the healthy sessions are right", said, ok, evidence)


def telling_line(text: str) -> str:
    """The line of an error output that says most."""
    lines = [line for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "Error" in line and "line" not in line), lines[-1] if lines else "")


def kinds_at(what: str, paths: Iterable[Path]) -> list[Thing]:
    """Every kind of bad content and bad file, each at the next of these places."""
    places = iter(paths)
    found = [Thing(f"{what}: {name}", next(places), content) for name, content in CONTENTS.items()]
    return found + [Thing(f"{what}: {name}", next(places), make) for name, make in KINDS.items()]


def odd_fields(
    what: str, paths: Iterable[Path], value: dict[str, Any], *, after: str = "", values: tuple[Any, ...] = ODD_VALUES
) -> list[Thing]:
    """One field after the other, each with every odd value."""
    places = iter(paths)
    return [
        Thing(
            f"{what}: {field} = {str(odd)[:20]!r}", next(places), (json.dumps({**value, field: odd}) + after).encode()
        )
        for field in value
        for odd in values
    ]


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@case("hostile")
def hostile_claude(world: World) -> None:
    """claude's store"""
    live = Claude.spawn(world, "busy").mid_model()
    ended = Claude.spawn(world, "busy").mid_model()
    ended.kill()
    trial = Trial(world, {live.id: ("running", live), ended.id: ("stopped", None)})
    root, folder = world.root(Claude), live.transcript.parent
    record = json.loads(ended.transcript.read_bytes().splitlines()[3])
    names = ("type", "message", "isSidechain", "timestamp", "cwd", "version", "gitBranch", "isApiErrorMessage")
    fields = {name: record.get(name) for name in names}
    trial.try_all(
        [
            *kinds_at("sessions/<pid>.json", (root / "sessions" / f"{pid}.json" for pid in count(4001))),
            *kinds_at("a transcript", (folder / f"{uuid.uuid4()}.jsonl" for _ in count())),
            *kinds_at("daemon.lock", repeat(root / "daemon.lock")),
            *kinds_at("daemon/roster.json", repeat(root / "daemon" / "roster.json")),
            *(Thing(f"projects: {name}", root / "projects" / f"-{name}", KINDS[name]) for name in FOLDER_KINDS),
            Thing("projects: a file", root / "projects" / "-file", b"file"),
            *odd_fields("a record", (folder / f"{uuid.uuid4()}.jsonl" for _ in count()), fields, after="\n"),
        ]
    )
    trial.verdict("claude's files")


@case("hostile")
def hostile_claude_fields(world: World) -> None:
    """sessions/<pid>.json of live processes, with odd values in every field"""
    live = Claude.spawn(world, "busy").mid_model()
    trial = Trial(world, {live.id: ("running", live)})
    whole = json.loads(live.file.read_text())
    names = ("sessionId", "cwd", "startedAt", "version", "pidDomain", "kind", "status", "updatedAt", "procStart", "pid")
    others = [world.bare("claude", ["claude"]) for _ in ODD_VALUES]
    world.expects_unattached |= {other.pid for other in others}
    for name in (*names, "waitingFor", "jobId", "name", "nameSource"):
        things = []
        for other, odd in zip(others, ODD_VALUES, strict=True):
            mine = {"pid": other.pid, "procStart": str(other.start), "sessionId": str(uuid.uuid4())}
            text = json.dumps({**whole, **mine, "status": "waiting", "kind": "bg", name: odd})
            path = world.root(Claude) / "sessions" / f"{other.pid}.json"
            things.append(Thing(f"{name} = {str(odd)[:20]!r}", path, text.encode()))
        trial.try_all(things)
    trial.verdict("sessions/<pid>.json with odd values")


@case("hostile")
def hostile_books(world: World) -> None:
    """the books of claude's and codex's daemons, with odd values in every field"""
    live = Claude.spawn(world, "busy").mid_model()
    codex = Codex.spawn(world).mid_model()
    trial = Trial(world, {live.id: ("running", live), codex.id: ("running", codex)})
    roster, job = world.root(Claude) / "daemon" / "roster.json", world.root(Claude) / "jobs" / "ab" / "state.json"
    worker = {"pid": live.pid, "procStart": str(live.start), "sessionId": str(uuid.uuid4())}
    workers = {f"ab-{field}-{n}": {**worker, field: odd} for field in worker for n, odd in enumerate(ODD_VALUES)}
    pid_file = world.root(Codex) / "app-server-daemon" / "daemon.pid"
    pid_fields = {"pid": codex.pid, "processIdentity": {"startTicks": codex.start}}
    trial.try_all(
        [
            Thing("roster: workers with odd fields", roster, json.dumps({"workers": workers}).encode()),
            *odd_fields("roster", repeat(roster), {"workers": {"ab": worker}}, values=ODDEST),
            *odd_fields("job", repeat(job), {"state": "working"}, values=ODDEST),
            *odd_fields("daemon.pid", repeat(pid_file), pid_fields, values=ODDEST),
        ]
    )
    trial.verdict("daemons' books with odd values")


@case("hostile")
def hostile_codex(world: World) -> None:
    """codex's store"""
    live = Codex.spawn(world).mid_model()
    ended = Codex.spawn(world, policy="on-request").mid_model()
    ended.do("call", command="true")
    ended.kill()
    trial = Trial(world, {live.id: ("running", live), ended.id: ("stopped", None)})
    root, rollout = world.root(Codex), ended.rollout_of()

    def places() -> Iterator[Path]:
        return (rollout.with_name(f"rollout-2026-01-01T00-00-00-{timed_id()}.jsonl") for _ in count())

    trial.try_all(
        [
            *kinds_at("a rollout", places()),
            *kinds_at("daemon.pid", repeat(root / "app-server-daemon" / "daemon.pid")),
            *kinds_at("session_index.jsonl", repeat(root / "session_index.jsonl")),
            *kinds_at("a lock", (root / "thread-writer-locks" / f"{timed_id()}.lock" for _ in count())),
            *(
                Thing(f"a year: {name}", root / "sessions" / f"20{n}", KINDS[name])
                for n, name in enumerate(FOLDER_KINDS)
            ),
            *(Thing(f"the archive: {name}", root / "archived_sessions", KINDS[name]) for name in FOLDER_KINDS),
            Thing("a socket: a file", root / "app-server-control" / "app-server-control.sock", b"no socket"),
            *odd_payloads(rollout.read_bytes(), places()),
        ]
    )
    trial.verdict("codex's files")


def odd_payloads(rollout: bytes, places: Iterator[Path]) -> list[Thing]:
    """The rollout again and again, each time with one odd value in one field of one record."""
    found = []
    for line in rollout.splitlines():
        record = json.loads(line)
        for field in record["payload"]:
            for odd in ODDEST:
                text = json.dumps({**record, "payload": {**record["payload"], field: odd}})
                label = f"{record['type']}.{field} = {str(odd)[:20]!r}"
                found.append(Thing(label, next(places), rollout.replace(line, text.encode())))
    return found


@case("hostile")
def hostile_demo(world: World) -> None:
    """the demo agent's store"""
    live = Demo.spawn(world, "[[sleep:300]]")
    live.wait_for_event("prompt")
    trial = Trial(world, {live.id: ("running", live)})
    sessions = world.root(Demo) / "sessions"
    events = (live.folder / "events.jsonl").read_bytes()

    def places(name: str) -> Iterator[Path]:
        for _ in count():
            folder = sessions / str(uuid.uuid4())
            folder.mkdir()
            (folder / "events.jsonl").write_bytes(events)
            yield folder / name

    file = {**(live.process_file() or {}), "waiting_for": "x"}
    trial.try_all(
        [
            *kinds_at("process.json", places("process.json")),
            *kinds_at("events.jsonl", places("events.jsonl")),
            *odd_fields("process.json", places("process.json"), file),
            Thing("a session: a file", sessions / "x", b"file"),
        ]
    )
    trial.verdict("the demo agent's files")
    world.sample = 10


@case("hostile")
def hostile_length(world: World) -> None:
    """a prompt of many megabytes in one line (images) after a finished turn, then killed"""
    killed: dict[str, str] = {}
    for size in (12, 40):
        claude = Claude.spawn(world, "busy").finished()
        claude.mid_model("x" * size * 1_000_000).status("busy")
        claude.kill()
        killed[f"claude, in a turn that began with {size} MB"] = claude.id
        codex = Codex.spawn(world).finished()
        codex.mid_model("x" * size * 1_000_000)
        codex.kill()
        killed[f"codex, in a turn that began with {size} MB"] = codex.id
    world.look()
    world.says(f"an answer within {SOON:g} s", f"{world.seconds:.2f} s", world.own_seconds < SOON)
    for label, id in killed.items():
        world.check(label, id, ("stopped", "unknown"))
    world.expects_problems = True
    world.sample = 2


@case("hostile")
def hostile_words(world: World) -> None:
    """paths that no file system has, asked for in other ways"""
    agent = Claude.spawn(world, "busy").mid_model()
    record = json.loads(agent.transcript.read_bytes().splitlines()[3])
    with open(agent.transcript, "ab") as file:
        file.write(json.dumps({**record, "cwd": "/x\0y", "gitBranch": "\x1b]0;title\x07"}).encode() + b"\n")
    for words in (["list", "--cwd", "."], ["list"], ["status", agent.id], ["why", agent.id], ["list", "--tree"]):
        done = world.run_quietly(*words)
        said = f"exit {done.returncode} {telling_line(done.stderr)}"
        ok = done.returncode == 0 and "\x1b" not in done.stdout and "\x07" not in done.stdout
        world.says(f"a directory with a NUL: {' '.join(words)[:20]}: exit 0, no escapes", said, ok, done.stderr)


@case("torn")
def torn_for_good(world: World) -> None:
    """sessions/<pid>.json with an old tail, or cut off"""
    agent = Claude.spawn(world, "busy").mid_model()
    agent.status("waiting", "permission prompt")
    long = agent.file.read_bytes()
    agent.status("busy")
    short = agent.file.read_bytes()
    agent.file.write_bytes(short + long[len(short) :])
    world.look()
    world.check("the tail of a longer one behind it", agent.id, "running", pid=agent, link="exact")
    agent.file.write_bytes(long[: len(long) // 2])
    world.look()
    world.check("cut off for good, in mid-turn", agent.id, "unknown", process="unknown")
    world.check_problem("the file that is cut off", agent.file)
    world.check_unattached("its process", agent, ())  # it may be any: what says which is torn
    agent.file.write_bytes(short)
    world.look()
    world.check("whole again", agent.id, "running", pid=agent, link="exact")
    world.expects_unattached.clear()
    world.expects_problems = False


@case("torn")
def torn_while_polled(world: World) -> None:
    """sessions/<pid>.json rewritten in a tight loop, in place as the real one does, and in halves"""
    agent = Claude.spawn(world, "busy").mid_model()
    poller = world.poller()
    for halves in (False, True):
        polls, wrong, excused, words, details = 0, 0, 0, set(), ""
        for turn in range(8):  # a loaded machine polls seldom: go on until there were enough
            stop = world.folder / f"stop-{halves}-{turn}"
            poller.watch(stop)
            agent.send("rewrite_loop", until=str(stop), halves=halves)
            time.sleep(2.5)
            stop.touch()
            slow = agent.answer()["slow"]
            seen = poller.seen()
            # Half-written for longer than any reader can wait: only where the writer itself was held up.
            failed = [*seen["missing"], *seen["problems"]]
            held_up = [poll for poll in failed if overlaps(poll, slow)]
            polls += seen["polls"]
            wrong += len(failed) - len(held_up)
            excused += len(held_up)
            words |= set(seen["states"].get(agent.id, ())) - {"running", "waiting"}
            details += json.dumps(seen, indent=1)[:3000]
            if polls > 20:
                break
        said = f"{polls} polls, {wrong} wrong, {excused} excused, other words: {sorted(words)}"
        label = "in halves" if halves else "in place"
        ok = not wrong and (not words or bool(excused)) and polls > 20 and excused * 5 < polls
        world.says(f"rewritten {label}: always there, running or waiting", said, ok, details)


def overlaps(poll: tuple[str, float, float], moments: list[tuple[float, float]]) -> bool:
    return any(begin <= poll[2] and end >= poll[1] for begin, end in moments)
