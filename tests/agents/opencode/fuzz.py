"""What of OpenCode is fuzzed: its database, the JSON files of older versions, its log, and what its servers say."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from agentctl.agents.opencode import api, db, log_line, messages
from agentctl.agents.opencode.turn import Message, Part, read_turn
from agentctl.fast.timestamps import timestamp
from agentctl.files import bounded
from tests.fuzz import mutations
from tests.fuzz.agent import Big, Fuzz, InProc, Parser, lines_of, shown, texts
from tests.fuzz.files import Files, fixtures
from tests.fuzz.peers import Far
from tests.fuzz.trees import is_plain
from tests.support.worlds import FIXTURES, Swap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from tests.support.worlds import FixtureWorld

LOGGED = fixtures("opencode", having="proc.json")


def read(data: bytes) -> Iterable[str]:
    value = bounded.decode(data)
    if value is None:
        return
    inner = value.get("data")
    text = bounded.decode(inner) if isinstance(inner, str) else inner if isinstance(inner, dict) else value
    part = Part(1.0, 2.0, text or {})
    for role in ("user", "assistant"):
        for others in ({}, {"role": role}, {"role": role, "time": {"completed": 1}, "finish": "stop"}):
            turn = read_turn([Message("msg_1", 1.0, 2.0, {**part.data, **others})], lambda _: [part, part])
            yield from texts(turn)
        yield from shown(message for _, message in messages.of_part({"role": role}, part.data, 1.0))


# Its HTTP interface


ANSWERS = {
    "session/status": {"ses_1": {"type": "busy"}, "ses_2": {"type": "retry", "attempt": 1, "message": "500"}},
    "question": [{"id": "que_1", "sessionID": "ses_1", "questions": [{"question": "why?", "options": []}]}],
    "permission": [
        {
            "id": "per_1",
            "sessionID": "ses_1",
            "permission": "bash",
            "patterns": ["sleep 12"],
            "metadata": {"command": "sleep 12"},
        }
    ],
}


@contextmanager
def server(world: FixtureWorld, rng: Random) -> Iterator[str]:
    """Each of its processes listens, and is asked about every directory that it has open."""
    own = sorted(world.processes.by_pid)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    which = rng.choice(list(ANSWERS))
    made: list[bytes] = []
    ids = world.env["HOME"] and [*real_ids(world), "ses_1"]

    def answer(path: str) -> bytes:
        text = json.dumps(ANSWERS[path]).replace("ses_1", rng.choice(ids)).encode()
        if path != which:
            return head + text
        if rng.random() < 0.2:
            return mutations.mutate(head + text, rng, ())
        return head + mutations.mutate(text, rng, ())

    def opened(method: str, port: int, path: str, *_: object) -> Far:
        made.append(answer(path))
        return Far(made[-1], rng)

    with (
        mock.patch.object(api, "opened", opened),
        mock.patch.object(world.processes._source, "ports", lambda process: [4096] if process.pid in own else []),
    ):
        yield f"{which} is answered with something else"


def real_ids(world: FixtureWorld) -> list[str]:
    import sqlite3
    from contextlib import closing

    path = f"{world.env['XDG_DATA_HOME']}/opencode/opencode.db"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return [id for (id,) in connection.execute("select id from session order by id")]
    except sqlite3.Error:
        return []


@contextmanager
def log(world: FixtureWorld, rng: Random) -> Iterator[str]:
    """Each process stands at the end of a line of the log, however that was damaged; or anywhere."""

    def positions(process: object, path: str) -> list[int]:
        if not is_plain(Path(path)):
            return []
        data = Path(path).read_bytes()
        ends = [data.rfind(b"\n", 0, rng.randrange(len(data) + 1)) + 1, data.rfind(b"\n") + 1, len(data), 10**15]
        return [rng.choice((ends[1], ends[1], ends[1], *ends))] * rng.choice((1, 1, 2))

    with mock.patch.object(world.processes._source, "positions", positions):
        yield "at the end of a line"


def refused(*_: object) -> None:
    """Nobody is asked: the ports of a made-up process are those of somebody else."""
    raise ConnectionRefusedError("nobody listens there")


def in_proc(home: Path) -> InProc:
    shutil.copytree(FIXTURES / "opencode" / "running_mid_tool" / "xdg_data", home / "data")
    root = home / "data" / "opencode"
    processes = (("opencode", "S", ("opencode", "run", "do it")),)
    open_files = (root / "log" / "opencode.log", root / "opencode.db")
    return InProc(processes, {"XDG_DATA_HOME": str(home / "data")}, open_files)


def prepare(home: Path) -> None:
    folder = home / "data" / "opencode" / "storage" / "session" / "p"
    folder.mkdir(parents=True)
    (folder / "ses_1.json").write_text("{}")


# Faults to be found


def plain_json(path: str) -> Any:
    """As if what is in a file were always JSON."""
    return json.loads(Path(path).read_bytes())


def first_question(request: dict[str, Any]) -> str:
    return str(request["questions"][0]["question"])


FUZZ = Fuzz(
    targets={
        "opencode database": (
            12,
            Files(fixtures("opencode", having="opencode.db"), "opencode.db", "opencode.db-wal"),
        ),
        "opencode json": (6, Files(fixtures("opencode", having="storage"), "storage/session/*/*", "storage/*/*/*")),
        "opencode log": (4, Files(LOGGED, "opencode.log", peer=log)),
        "opencode http": (6, Files(LOGGED, peer=server)),
    },
    faults={
        "opencode database": Swap(db, "broken", lambda: (KeyError,)),
        "opencode json": Swap(bounded, "read_json", plain_json),
        "opencode log": Swap(log_line, "moment", timestamp),
        "opencode http": Swap(api, "question_text", first_question),
    },
    parsers=(Parser(lines_of("opencode/*/dump.jsonl"), read),),
    big_files={
        "opencode database": Big("home/data/opencode/opencode.db", {}),
        "opencode session": Big("home/data/opencode/storage/session/p/ses_1.json", {}, "ses_1"),
        "opencode message": Big("home/data/opencode/storage/message/ses_1/msg_1.json", {}),
    },
    prepare=prepare,
    in_proc=in_proc,
    unreachable=(Swap(api, "opened", refused),),
)
