"""A cache is believed if its number is that of the code. So the number is raised whenever the code changes that makes
what the cache holds: `python -m tests.files.schema --write` does it, and tests/files/schema.py says what counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agentctl.agents import TABLE
from agentctl.files import private
from agentctl.usage import db
from tests.files.schema import (
    CACHES,
    PACKAGE,
    SHARED,
    Cache,
    Sources,
    changed,
    fingerprints,
    noted,
    number,
    reached,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


def label(cache: Cache) -> str:
    return cache.name


@pytest.mark.parametrize("cache", CACHES, ids=label)
def test_the_number_is_that_of_the_code(cache: Cache) -> None:
    (last, before), now, current = noted(cache), fingerprints(cache, Sources()), number(cache)
    advice = "`python -m tests.files.schema --write` does it"
    assert changed(before, now) == [], (
        f"{cache.what} changed ({', '.join(changed(before, now))}): raise {cache.constant} in {cache.file} to "
        f"{last + 1 if current == last else current} and write its fingerprint into tests/files/cache_schema.json: "
        f"{advice} (with --same it raises nothing: only if what is read is the same, and a name is another)"
    )
    assert current == last, (
        f"{cache.constant} in {cache.file} is {current}: note that it is the number of this code: {advice}"
    )
    assert before == now, f"an agent came or went: note the fingerprint of its code: {advice}"


def test_where_the_numbers_are() -> None:
    assert [number(cache) for cache in CACHES] == [private.CACHE_SCHEMA, db.VERSION]


@pytest.mark.parametrize("cache", CACHES, ids=label)
def test_the_readers_of_every_agent_count(cache: Cache) -> None:
    sources = Sources()
    agents = {SHARED, *TABLE.values()} & {SHARED, *(path.parent.name for path in sources.matching(cache.roots))}
    assert {*fingerprints(cache, sources)} == agents
    for agent in agents - {SHARED}:
        counted = {path.relative_to(PACKAGE).as_posix() for path in reached(cache, agent, sources)}
        assert "files/bounded.py" in counted
        assert len([name for name in counted if name.startswith(f"agents/{agent}/")]) >= 1


# What a fingerprint is of, in a package of a few lines

MADE_UP = Cache("MADE_UP", "files/numbers.py", "NUMBER", "the code", {"agents/*/store.py": ("*.record",)})
STORE = """\
from agentctl.agents import base
from agentctl.errors import Refused
from agentctl.files import bounded
from agentctl.files.bounded import text
from agentctl.kernel import processes

LIMIT = 5


class Store(base.Store):
    def record(self, id):
        from agentctl.files.numbers import NUMBER

        if bounded.size(self._path(id)) > LIMIT:
            raise Refused(processes.name(NUMBER))
        return self.title + text(id)

    def _path(self, id):
        return self.root + id

    def links(self):
        return "a sentence"
"""
BASE = """\
class Store:
    def __init__(self, root):
        self.root = root

    @property
    def title(self):
        return "a title"

    def recent(self):
        return []
"""
BOUNDED = """\
import os

SIZES = {}
SIZES.update(a=1)


def size(path):
    return SIZES.get(path)


def text(path):
    return os.fsdecode(path)
"""
FILES = {
    "agents/one/store.py": STORE,
    "agents/base.py": BASE,
    "files/bounded.py": BOUNDED,
    "files/numbers.py": "NUMBER = 1\n",
    "kernel/processes.py": "def name(number):\n    return number\n",
    "errors.py": "class Refused(Exception):\n    pass\n",
}


def made(package: Path, changes: dict[str, str]) -> dict[str, str]:
    for name, content in {**FILES, **changes}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(content)
    return fingerprints(MADE_UP, Sources(package))


def store(*changes: tuple[str, str]) -> dict[str, str]:
    return {"agents/one/store.py": replaced(STORE, *changes)}


def base(*changes: tuple[str, str]) -> dict[str, str]:
    return {"agents/base.py": replaced(BASE, *changes)}


def bounded(*changes: tuple[str, str]) -> dict[str, str]:
    return {"files/bounded.py": replaced(BOUNDED, *changes)}


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """Each once, where it is first."""
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    return text


MOVED = "\n\ndef text(path):\n    return os.fsdecode(path)\n"
SAME = {
    "a comment": store(("LIMIT = 5", "LIMIT = 5  # bytes")),
    "a docstring": store(("def record(self, id):", 'def record(self, id):\n        """Read it."""')),
    "types": store(("def record(self, id):", "def record(self, id: str) -> str:")),
    "the type of a constant": bounded(("SIZES = {}", "SIZES: dict[str, int] = {}")),
    "imports for types": store(("LIMIT", "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import typing\nLIMIT")),
    "another name for a module": store(("bounded\n", "bounded as files\n"), ("bounded.size", "files.size")),
    "another way to import": store(("import text\n", "import size, text\n"), ("bounded.size", "size")),
    "a definition in another module": {
        **bounded((MOVED, "")),
        **store(("files.bounded import text", "files.paths import text")),
        "files/paths.py": f"import os\n{MOVED}",
    },
    "another method": store(("a sentence", "another sentence")),
    "another method of the base": base(("return []", "return [7]")),
    "an attribute that it does not ask for": base(("self.root = root", "self.root = root\n        self.more = 1")),
    "the name of the class": store(("class Store(", "class Sessions(")),
    "the number itself": {"files/numbers.py": "NUMBER = 2\n"},
    "a room that is not followed": {"kernel/processes.py": "def name(number):\n    return 7\n"},
    "another module": {"files/more.py": "LIMIT = 7\n"},
}
OTHER = {
    "a constant": store(("LIMIT = 5", "LIMIT = 6")),
    "a condition": store(("> LIMIT", ">= LIMIT")),
    "a default": store(("def record(self, id):", "def record(self, id='x'):")),
    "a method that it calls": store(("self.root + id", "self.root + id.lower()")),
    "a method of the base that it calls": base(("a title", "another title")),
    "how the base begins": base(("self.root = root", "self.root = root + '/'")),
    "an attribute of its own": store(
        (
            "def record",
            "def __init__(self, root):\n        self.title = 7\n        super().__init__(root)\n\n    def record",
        )
    ),
    "a function in another module": bounded(("os.fsdecode(path)", "os.fsdecode(path).strip()")),
    "what is run at import": bounded(("SIZES.update(a=1)", "SIZES.update(a=2)")),
}
ANOTHER_AGENT = {"agents/two/store.py": "class Store:\n    def record(self, id):\n        return id\n"}


@pytest.mark.parametrize("name", SAME)
def test_what_does_not_count(tmp_path: Path, name: str) -> None:
    before = made(tmp_path, {})
    assert made(tmp_path, SAME[name]) == before


@pytest.mark.parametrize("name", OTHER)
def test_what_counts(tmp_path: Path, name: str) -> None:
    before = made(tmp_path, {})
    assert changed(before, made(tmp_path, OTHER[name])) == ["one"]


def test_another_agent_changes_nothing_of_the_others(tmp_path: Path) -> None:
    before = made(tmp_path, {})
    now = made(tmp_path, ANOTHER_AGENT)
    assert ({*now}, now["one"], changed(before, now)) == ({"one", "two"}, before["one"], [])


def test_a_root_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"has no \*.record any more"):
        made(tmp_path, store(("def record", "def read")))
    with pytest.raises(LookupError, match="is no module any more"):
        fingerprints(MADE_UP, Sources(tmp_path / "elsewhere"))


@pytest.mark.parametrize("same", [False, True])
def test_it_is_noted_with_the_number_raised(tmp_path: Path, same: bool) -> None:
    package, notes = tmp_path / "package", tmp_path / "notes.json"
    before = made(package, {})
    notes.write_text(json.dumps({"MADE_UP": {"number": 1, "code": before}}))

    def run() -> tuple[int, dict[str, str]]:
        (line,) = write([MADE_UP], same=same, package=package, path=notes)
        assert "NUMBER in files/numbers.py is " in line
        assert number(MADE_UP, package) == noted(MADE_UP, notes)[0]
        return noted(MADE_UP, notes)

    assert run() == (1, before)
    two = made(package, ANOTHER_AGENT)
    assert run() == (1, two)
    after = made(package, OTHER["a constant"])
    assert run() == (1 if same else 2, after)
    assert run() == (1 if same else 2, after)  # once
    by_hand = made(package, {**OTHER["a condition"], "files/numbers.py": "NUMBER = 7\n"})
    assert run() == (7, by_hand)


@pytest.mark.parametrize("cache", CACHES, ids=lambda cache: cache.name)
def test_how_times_and_json_are_read_counts(cache: Cache) -> None:
    """A mended fast/timestamps.py would leave the wrong times in the caches, which have the same number."""
    counted = {path.relative_to(PACKAGE).as_posix() for path in reached(cache, "claude_code", Sources())}
    assert {"fast/timestamps.py", "fast/json.py"} <= counted
