"""The cache of what launches are of: it changes no answer, whatever happens to the launches or to itself."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.kernel import processes, recorded
from agentctl.launches import index as launch_index
from agentctl.launches import records
from agentctl.launches.index import Index
from agentctl.model import AGENT, Details, Process, ProcessKey
from agentctl.query import attribution, sessions
from agentctl.query.candidates import Claimed
from agentctl.query.sessions import Scope, query, settled_look
from tests.launches.test_records import facts
from tests.support.caches import changed
from tests.support.children import until
from tests.support.demo_home import Home as Person

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl.kernel.processes import Processes
    from agentctl.query.world import Launched

BOOT = "12809862-6756-4bea-9194-571d7e301a05"
COUNT = 60
LATER = 1000.0  # seconds: by then all files have settled


class Home:
    """With launches of every kind: chosen ids, printed ones, noted ones, and what is no launch."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.cache = folder / "cache" / "agentctl"
        self.env = {
            "HOME": str(folder),
            "AGENTCTL_HOME": str(folder / "state"),
            **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "CACHE", "CONFIG")},
        }
        for _ in range(COUNT):
            self.add()

    def add(self) -> None:
        reserved, chance = records.reserve(self.env), self.chance
        kind = chance.choice(("chosen", "printed", "silent", "screen", "noted", "both", "torn", "other", "none"))
        more: dict[str, object] = {
            "agent": chance.choice(("demo", "codex", "unheard-of")),
            "child": f"{chance.choice((BOOT, BOOT, 'an-earlier-boot'))}:{chance.randint(2, 40)}:{chance.randint(1, 3)}",
            "session_id": f"s-{chance.randint(1, 9)}" if kind == "chosen" else None,
            "headless": kind not in ("screen", "noted", "both"),
            "one_shot": kind not in ("screen", "noted", "other"),
        }
        text = json.dumps(facts(reserved.id if chance.random() < 0.95 else "another", **more))
        folder = Path(reserved.folder)
        if kind != "none":
            (folder / records.LAUNCH).write_text(text[: len(text) // 2] if kind == "torn" else text)
            if "an-earlier-boot" in text:
                os.utime(folder / records.LAUNCH, (1e9, 1e9))
        if kind in ("printed", "both"):
            (folder / records.OUTPUT).write_text(self.printed())
        elif kind != "silent":
            (folder / records.OUTPUT).write_text("no id\n")
        if kind == "noted":
            records.note_session(reserved.folder, f"n-{chance.randint(1, 9)}")

    def printed(self) -> str:
        return f'{{"type":"thread.started","thread_id":"p-{self.chance.randint(1, 9)}"}}\n'

    def folders(self) -> list[Path]:
        return sorted(path for path in (self.folder / "state/launches").iterdir() if path.is_dir())

    @property
    def file(self) -> Path:
        return self.cache / launch_index.FILE

    def read(self, table: Processes, located: list[Claimed], *, cached: bool) -> attribution.Launches:
        return attribution.read(self.env, located, table, str(self.cache) if cached else None)


def table_of(chance: random.Random) -> tuple[Processes, list[Claimed]]:
    """Some of the processes that the launches name, other ones of their numbers, and their children."""
    from agentctl.agents import load

    rows = [
        Process(ProcessKey(BOOT, pid, chance.randint(1, 3)), chance.choice((1, max(1, pid - 1))), "demo", "S")
        for pid in chance.sample(range(2, 42), 20)
    ]
    roles = (AGENT, AGENT, "wrapper", "helper")
    located = [
        Claimed(load(chance.choice(("demo", "codex"))), row, Details(), chance.choice(roles))
        for row in rows
        if chance.random() < 0.7
    ]
    return processes.Processes(BOOT, rows), located


def plain(found: list[Launched]) -> list[tuple[Any, ...]]:
    return [(one.launch, one.session_id, one.agents, one.exits) for one in found]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are old enough to be known."""

    class Clock:
        time = staticmethod(lambda: time.time() + LATER)

    monkeypatch.setattr(launch_index, "time", Clock)


def let_a_tick_pass(folder: Path) -> None:
    """The clock of files has ticks: what is written within one has the same time."""
    probe = folder / "probe"
    probe.touch()
    before = probe.stat().st_ctime_ns

    def passed() -> bool:
        os.utime(probe)
        return probe.stat().st_ctime_ns != before

    until(passed)
    probe.unlink()


# What happens to launches


def keeping_time(path: Path, data: bytes) -> None:
    before = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def other_session(folder: Path, home: Home) -> None:
    """In place, of the same size, and with the old time put back."""
    path = folder / records.LAUNCH
    if path.is_file():
        keeping_time(path, path.read_bytes().replace(b'"s-', b'"t-'))


def other_child(folder: Path, home: Home) -> None:
    path = folder / records.LAUNCH
    if path.is_file():
        path.write_bytes(path.read_bytes().replace(b":1", b":2"))


def torn(folder: Path, home: Home) -> None:
    path = folder / records.LAUNCH
    if path.is_file():
        keeping_time(path, b"x" * path.stat().st_size)


def prints(folder: Path, home: Home) -> None:
    with open(folder / records.OUTPUT, "a") as file:
        file.write(home.printed())


def prints_another(folder: Path, home: Home) -> None:
    path = folder / records.OUTPUT
    if path.is_file():
        keeping_time(path, path.read_bytes().replace(b'"p-', b'"q-'))


def falls_silent(folder: Path, home: Home) -> None:
    (folder / records.OUTPUT).unlink(missing_ok=True)


def is_noted(folder: Path, home: Home) -> None:
    records.note_session(str(folder), f"m-{home.chance.randint(1, 9)}")


def is_not_noted(folder: Path, home: Home) -> None:
    (folder / records.SESSION).unlink(missing_ok=True)


def is_removed(folder: Path, home: Home) -> None:
    shutil.rmtree(folder)


def is_a_link(folder: Path, home: Home) -> None:
    shutil.move(folder, home.folder / folder.name)
    folder.symlink_to(home.folder / folder.name)


def is_new(folder: Path, home: Home) -> None:
    home.add()


CHANGES: tuple[Callable[[Path, Home], None], ...] = (
    *(other_session, other_child, torn, prints, prints_another, falls_silent),
    *(is_noted, is_not_noted, is_removed, is_a_link, is_new),
)


@pytest.fixture(autouse=True)
def boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The boot of these records is ours."""
    monkeypatch.setattr(recorded, "own_boot", lambda: BOOT)
    monkeypatch.setattr(launch_index, "own_boot", lambda: BOOT)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_to_launches_is_seen(tmp_path: Path, seed: int) -> None:
    home = Home(tmp_path, seed)
    chance = home.chance
    for round in range(6):
        let_a_tick_pass(tmp_path)
        for folder in chance.sample(home.folders(), 5) if round else ():
            if folder.is_dir() and not folder.is_symlink():
                chance.choice(CHANGES)(folder, home)
        table, located = table_of(chance)
        whole, known = (home.read(table, located, cached=cached) for cached in (False, True))
        assert known.rows == whole.rows
        assert list(known.rows) == list(whole.rows)
        living = [one for one in whole.in_order() if one.agents]
        assert plain([one for one in known.in_order() if one.agents]) == plain(living)
        names = {(chance.choice(("demo", "codex")), f"{chance.choice('snpqt')}-{chance.randint(1, 9)}") for _ in "abcd"}
        # Those of nothing that lives and nothing that is judged are known, and not read.
        whole, known = (attribution.with_ends(each, names, located, table) for each in (whole, known))
        wanted = [one for one in whole.in_order() if one.agents or (one.record.agent, one.session_id) in names]
        found = [one for one in known.in_order() if one.agents or (one.record.agent, one.session_id) in names]
        assert plain(found) == plain(wanted)
        assert known.problems == whole.problems
    assert home.file.exists()


def test_what_is_known_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path, 1)
    table = processes.Processes(BOOT, [])
    first = home.read(table, [], cached=True)
    read: list[str] = []
    real = records.read_record

    def counting(id: str, folder: str, *, is_link: bool) -> Any:
        read.append(id)
        return real(id, folder, is_link=is_link)

    monkeypatch.setattr(records, "read_record", counting)
    again = home.read(table, [], cached=True)
    assert again.rows == first.rows
    known = set(json.loads(home.file.read_bytes())["columns"]["name"])
    assert len(known) > COUNT / 4
    assert set(read) == {folder.name for folder in home.folders()} - known


def test_what_an_unknown_agent_printed_is_read_once_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade to a version that has an adapter for it."""
    home, table = Home(tmp_path, 1), processes.Processes(BOOT, [])
    with monkeypatch.context() as patch:
        patch.setattr(attribution, "TABLE", {"demo": "demo"})
        before = home.read(table, [], cached=True).rows
    after = home.read(table, [], cached=True).rows
    assert home.file.exists()
    assert after == home.read(table, [], cached=False).rows != before


def test_few_launches_have_no_index(tmp_path: Path) -> None:
    home = Home(tmp_path, 2)
    for folder in home.folders()[launch_index.WORTH_IT - 1 :]:
        shutil.rmtree(folder)
    home.read(processes.Processes(BOOT, []), [], cached=True)
    assert not home.cache.exists()


def test_a_file_that_was_just_written_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path, 3)
    monkeypatch.setattr(launch_index, "time", time)
    for path in home.folder.glob(f"state/launches/*/{records.LAUNCH}"):
        os.utime(path, (0, 0))  # the time of its last change cannot be set
    home.read(processes.Processes(BOOT, []), [], cached=True)
    assert not home.file.exists()


def test_a_file_that_changes_while_it_is_read_is_not_known(tmp_path: Path) -> None:
    folder = tmp_path / "launches"
    (folder / "one").mkdir(parents=True)
    for name in (records.LAUNCH, records.OUTPUT):
        (folder / "one" / name).write_text("x")
    at = os.open(folder, os.O_RDONLY)
    try:
        for told_by, changed in ((records.LAUNCH, records.LAUNCH), (records.OUTPUT, records.OUTPUT)):
            index = Index(str(tmp_path / "cache"), str(folder), at)
            before = index.stamps("one")
            with open(folder / "one" / changed, "a") as file:
                file.write("y")
            index.keep("one", ("demo", ProcessKey(BOOT, 2, 3), "s", None), told_by, before)
            index.save()
            assert not (tmp_path / "cache").exists()
        index.keep("one", ("demo", ProcessKey(BOOT, 2, 3), "s", None), records.OUTPUT, index.stamps("one"))
        index.save()
        known = Index(str(tmp_path / "cache"), str(folder), at).find("one")
        assert known == ("demo", ProcessKey(BOOT, 2, 3), "s", None)
        assert Index(str(tmp_path / "cache"), "/elsewhere", at).find("one") is None
    finally:
        os.close(at)


# What happens to the index


def setting(name: str, value: object) -> Callable[[bytes], bytes]:
    return changed(lambda content: content["columns"][name].__setitem__(0, value))


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "torn": lambda data: data[: len(data) // 2],
    "zeros": lambda data: b"\0" * len(data),
    "not text": lambda data: b"\xff\xfe" + data,
    "nested": lambda data: b'{"a":' * 100_000,
    "a list": lambda data: b"[]",
    "no columns": changed(lambda content: content.pop("columns")),
    "columns of lists": changed(lambda content: content.update(columns=[])),
    "one column less": changed(lambda content: content["columns"].pop("agent")),
    "one column more": changed(lambda content: content["columns"].update(status=[])),
    "a short column": changed(lambda content: content["columns"]["agent"].pop()),
    "a short column of stamps": changed(lambda content: content["columns"]["inode"].pop()),
    "of other code": changed(lambda content: content.update(code="1 2")),
    "of another folder": changed(lambda content: content.update(about="/elsewhere")),
    "nothing beside": changed(lambda content: content.pop("beside")),
    "stamps that are none": changed(lambda content: content.update(beside={"a": 1})),
    "a session that is a number": setting("session", 7),
    "an agent that is none": setting("agent", None),
    "a pid that is true": setting("pid", True),
    "a size that is a word": setting("size", "1"),
    "a file of its own": setting("told_by", "../../secret"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_not_as_we_write_it_is_ignored_and_replaced(tmp_path: Path, name: str) -> None:
    home, table = Home(tmp_path, 4), processes.Processes(BOOT, [])
    rows = home.read(table, [], cached=True).rows
    good = home.file.read_bytes()
    home.file.write_bytes(HOSTILE[name](good))
    assert home.file.read_bytes() != good
    assert home.read(table, [], cached=True).rows == rows
    assert home.file.read_bytes() == good


@pytest.mark.parametrize("kind", ["open to others", "link", "fifo", "folder"])
def test_what_others_could_have_written_is_not_read(tmp_path: Path, kind: str) -> None:
    home, table = Home(tmp_path, 5), processes.Processes(BOOT, [])
    rows = home.read(table, [], cached=True).rows
    lie = changed(lambda content: content["columns"].update(agent=["lie"] * len(content["columns"]["agent"])))
    data = lie(home.file.read_bytes())
    home.file.unlink()
    if kind == "open to others":
        home.file.write_bytes(data)
        home.file.chmod(0o622)
    elif kind == "link":
        (tmp_path / "lie").write_bytes(data)
        home.file.symlink_to(tmp_path / "lie")
    elif kind == "fifo":
        os.mkfifo(home.file)
    else:
        home.file.mkdir()
    assert home.read(table, [], cached=True).rows == rows


def test_only_we_can_read_it(tmp_path: Path) -> None:
    home = Home(tmp_path, 6)
    home.read(processes.Processes(BOOT, []), [], cached=True)
    assert home.cache.stat().st_mode & 0o777 == 0o700
    assert home.file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_never_finished_is_removed_after_a_while(tmp_path: Path) -> None:
    home = Home(tmp_path, 9)
    home.cache.mkdir(parents=True, mode=0o700)
    old, new, other = (home.cache / name for name in ("launches.json.1", "launches.json.2", "usage.db.1"))
    for path in (old, new, other):
        path.write_text("")
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    home.read(processes.Processes(BOOT, []), [], cached=True)
    assert {path.name for path in home.cache.iterdir()} == {launch_index.FILE, new.name, other.name}


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    home, table = Home(tmp_path, 7), processes.Processes(BOOT, [])
    (tmp_path / "cache").write_text("not a folder")
    assert home.read(table, [], cached=True).rows == home.read(table, [], cached=False).rows


# Through the one query


def test_a_list_is_the_same_with_every_launch_read(tmp_path: Path) -> None:
    """Of sessions that have ended and of one that lives: with what their launches say of them."""
    person = Person(tmp_path)
    try:
        ended, (alive, _) = str(uuid.uuid4()), person.start("-p", "[[sleep:300]]")
        assert person.run("--session-id", ended, "-p", "an end").returncode == 0
        person.wait_for_event(alive, "prompt")
        state = Home(tmp_path / "other", 8)
        env = {**person.env, "AGENTCTL_HOME": state.env["AGENTCTL_HOME"]}
        ids = [ended, alive]
        for folder, id in zip(state.folders(), ids, strict=False):
            made = facts(folder.name, session_id=id, group="night", prompt="a prompt")
            (folder / records.LAUNCH).write_text(json.dumps(made))
        scope = Scope(agents=("demo",), since=0.0)
        for _ in range(2):  # cold and warm
            whole, known = settled_look(scope, env).answer, query(scope, env)
            assert (known.sessions, known.problems) == (whole.sessions, whole.problems)
        assert {(session.id, session.group) for session in known.sessions} == {(id, "night") for id in ids}
        for id in ids:
            assert sessions.query_session(id, env).sessions == sessions.examine(id, env, tokens=True).answer.sessions
        assert Path(env["XDG_CACHE_HOME"], "agentctl", launch_index.FILE).exists()
    finally:
        person.end_all()


def test_another_namespace_reads_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is of one home, and commands of several PID namespaces share it: a key counts where it is read."""
    folder = tmp_path / "launches"
    (folder / "one").mkdir(parents=True)
    (folder / "one" / records.LAUNCH).write_text("x")
    monkeypatch.setattr(launch_index, "SETTLED", -1e9)
    at = os.open(folder, os.O_RDONLY)
    try:
        for here, other in (("pid:[1]", "pid:[2]"), ("pid:[2]", "pid:[1]")):
            for module in (recorded, launch_index):
                monkeypatch.setattr(module, "own_pid_namespace", lambda here=here: here)
            plain = ProcessKey(BOOT, 2, 3)
            for namespace, key in ((None, plain), (here, plain), (other, plain.recorded_in(other))):
                cache = str(tmp_path / f"cache {here} {namespace}")
                index = Index(cache, str(folder), at)
                index.keep("one", ("demo", key, "s", namespace), records.LAUNCH, index.stamps("one"))
                index.save()
                assert Index(cache, str(folder), at).find("one") == ("demo", key, "s", namespace)
                for module in (recorded, launch_index):
                    monkeypatch.setattr(module, "own_pid_namespace", lambda: "pid:[3]")
                seen = plain if namespace is None else plain.recorded_in(namespace)
                assert Index(cache, str(folder), at).find("one") == ("demo", seen, "s", namespace)
                for module in (recorded, launch_index):
                    monkeypatch.setattr(module, "own_pid_namespace", lambda here=here: here)
    finally:
        os.close(at)
