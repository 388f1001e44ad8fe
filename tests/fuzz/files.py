"""Homes whose files are damaged, and what the real commands say of them then."""

from __future__ import annotations

import copy
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from agentctl.model import Details
from tests import agents
from tests.fuzz import agent, mutations, seeds
from tests.fuzz.agent import Result
from tests.fuzz.asking import Asker, table_of
from tests.fuzz.trees import Tree, is_plain
from tests.support.worlds import FIXTURES, FixtureWorld, rebuild, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from random import Random

    from agentctl.kernel.processes import Processes

    Make = Callable[[Path], FixtureWorld]


class Home:
    """A home on disk, its process table, and the tree that it is damaged in."""

    def __init__(self, folder: Path, make: Make) -> None:
        folder.mkdir(parents=True)
        world = make(folder)
        home = seeds.environment(folder / "home")
        self.world = world._replace(env={**home, **world.env, "AGENTCTL_HOME": home["AGENTCTL_HOME"]})
        self.tree = Tree(folder / "home")


class Files:
    """Files of a home, read by the real commands."""

    def __init__(
        self,
        makes: Sequence[Make],
        *patterns: str,
        our_files: bool = False,
        peer: Any = None,
        swapped: bool = True,
    ) -> None:
        self._makes = makes
        self._patterns = patterns
        self._our_files = our_files
        self._peer = peer  # what else is not as it was: what the other end of a socket says, where a writer stands
        self._swapped = swapped  # False: the peer plays what the swaps of the fixture stand for
        self._homes: dict[tuple[Path, int], Home] = {}

    def _home(self, folder: Path, rng: Random) -> Home:
        at = rng.randrange(len(self._makes))
        if (folder, at) not in self._homes:
            self._homes[folder, at] = Home(folder / f"{id(self):x}-{at}", self._makes[at])
        return self._homes[folder, at]

    def run(self, folder: Path, rng: Random) -> Result:
        home = self._home(folder, rng)
        tree = home.tree
        what: list[str] = []
        try:
            with ExitStack() as stack:
                table = home.world.processes
                if rng.random() < 0.1:
                    table = odd_table(table, rng)
                    what.append("another process table")
                changing = False
                if self._peer is not None:
                    what.append(stack.enter_context(self._peer(home.world, rng)))
                for path in self._chosen(tree, rng):
                    if rng.random() < 0.12 and is_plain(path):
                        what.append(stack.enter_context(tree.changing(path, rng)))
                        changing = True
                    elif is_plain(path):
                        what.append(tree.damage(path, rng, others()))
                stack.enter_context(surroundings(home.world, table, swapped=self._swapped))
                before = tree.state()
                asked = Asker(home.world.env, lambda: table, rng).ask(our_files=self._our_files)
                if not changing and not self._our_files and (touched := changes(before, tree.state())):
                    asked.failures.append(f"files that changed: {touched}")
        finally:
            tree.restore()
        return Result(what, asked)

    def _chosen(self, tree: Tree, rng: Random) -> list[Path]:
        found = tree.matching(*self._patterns)
        return rng.sample(found, min(len(found), rng.choice((1, 1, 1, 2, 3)))) if found else []


@contextmanager
def surroundings(world: FixtureWorld, table: Processes, *, swapped: bool = True) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(table_of(table))
        for swap in world.swaps if swapped else ():
            stack.enter_context(mock.patch.object(*swap))
        yield


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    cached = ("/cache", "/cache/agentctl", "/cache/agentctl/roots.json", "/cache/agentctl/folders.json")
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return sorted(name for name in names if not name.endswith(cached))


def odd_table(processes: Processes, rng: Random) -> Processes:
    """The same processes, with arguments, names and folders that nobody expects."""
    table = copy.copy(processes)
    table.by_pid = dict(processes.by_pid)
    table._details = {}
    for pid, row in processes.by_pid.items():
        found = processes.details(row) or Details()
        words = list(found.argv or ())
        for _ in range(rng.randrange(3)):
            words.insert(rng.randrange(len(words) + 1), as_the_kernel(rng.choice(mutations.TEXTS)))
        fields: dict[str, Any] = {
            "argv": rng.choice((found.argv, found.argv, tuple(words), (), None)),
            "cwd": rng.choice((found.cwd, found.cwd, as_the_kernel(rng.choice(mutations.TEXTS)), None)),
            "env": rng.choice((found.env, found.env, {}, None)),
            "exe": rng.choice((found.exe, None, "")),
            "uid": rng.choice((found.uid, found.uid, None, 12345)),
        }
        table._details[pid] = rng.choice((found._replace(**fields), found._replace(**fields), None))
        if rng.random() < 0.2:
            table.by_pid[pid] = row._replace(comm=rng.choice(odd_names()))
        if rng.random() < 0.1:
            table.by_pid[pid] = row._replace(state="Z", dead=True)
    return table


def odd_names() -> list[str]:
    return ["\x1b[31m", "", "node", "python3", *(one.PROGRAM for one in agents.every())]


def as_the_kernel(text: str) -> str:
    """What a word of another process can be: any bytes but a NUL."""
    return text.replace("\0", "").encode(errors="replace").replace(b"?", b"\xff").decode(errors="surrogateescape")


_others: list[bytes] = []


def others() -> list[bytes]:
    """Lines of every agent, to get among those of another."""
    if not _others:
        patterns = [pattern for one in agent.every() for pattern in one.lines]
        for pattern in (*patterns, "outputs/*"):
            _others.extend(path.read_bytes()[-20_000:] for path in sorted(FIXTURES.glob(pattern))[:6])
    return _others


def fixtures(*folders: str, having: str = "") -> list[Make]:
    """Return what makes the homes of these fixtures; `having`: only those with a file of this name."""

    def make(fixture: str, state: str) -> Make:
        return lambda folder: rebuild(fixture, state, folder)

    return [
        make(fixture, state)
        for fixture, state in states()
        if fixture in folders and (not having or any((FIXTURES / fixture / state).rglob(having)))
    ]
