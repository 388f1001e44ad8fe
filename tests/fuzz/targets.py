"""The table of what is fuzzed. A new reader is one more line here: a home that has its files, and their patterns."""

from __future__ import annotations

import copy
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from unittest import mock

from agentctl.agents import claude_files, codex_socket
from agentctl.model import Details
from tests.fuzz import mutations, parsers, peers, proc, seeds
from tests.fuzz.asking import Asked, Asker, table_of
from tests.fuzz.trees import Tree, is_plain
from tests.worlds import FIXTURES, FixtureWorld, rebuild, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from random import Random

    from agentctl.processes import Processes

    Make = Callable[[Path], FixtureWorld]


class Target(Protocol):
    def run(self, folder: Path, rng: Random) -> Result: ...


class Result(NamedTuple):
    what: list[str]  # what was done, for people
    asked: Asked


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

    def __init__(self, makes: Sequence[Make], *patterns: str, our_files: bool = False, peer: Any = None) -> None:
        self._makes = makes
        self._patterns = patterns
        self._our_files = our_files
        self._peer = peer  # what else is not as it was: what the other end of a socket says, where a writer stands
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
                stack.enter_context(self._surroundings(home.world, table))
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

    def _surroundings(self, world: FixtureWorld, table: Processes) -> AbstractContextManager[None]:
        return surroundings(world, table, real_socket=self._peer is peers.codex_daemon)


@contextmanager
def surroundings(world: FixtureWorld, table: Processes, *, real_socket: bool = False) -> Iterator[None]:
    answers = mock.patch.object(codex_socket, "ask", lambda path, ids: (world.daemon, world.answers or {}))
    with (
        table_of(table),
        mock.patch.object(claude_files, "pid_domain", lambda: world.pid_domain),
        nullcontext() if real_socket else answers,
    ):
        yield


class Lines:
    """One line, by the function that takes it apart."""

    def __init__(self) -> None:
        self._parsers = parsers.Lines()

    def run(self, folder: Path, rng: Random) -> Result:
        what, failures = self._parsers.case(rng)
        return Result([what], Asked(0, failures))


class Reader:
    """Bytes that are read by one function, which may say no in its own words only."""

    def __init__(self, texts: Sequence[bytes], read: Callable[[bytes], Sequence[str]]) -> None:
        self._texts = texts
        self._read = read

    def run(self, folder: Path, rng: Random) -> Result:
        data = mutations.mutate(rng.choice(self._texts), rng, self._texts)
        return Result([f"{data[:200]!r}"], Asked(0, list(self._read(data))))


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    cached = ("/cache", "/cache/agentctl", "/cache/agentctl/roots.json")
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
            table.by_pid[pid] = row._replace(comm=rng.choice(("\x1b[31m", "", "node", "claude", "codex", "python3")))
        if rng.random() < 0.1:
            table.by_pid[pid] = row._replace(state="Z", dead=True)
    return table


def as_the_kernel(text: str) -> str:
    """What a word of another process can be: any bytes but a NUL."""
    return text.replace("\0", "").encode(errors="replace").replace(b"?", b"\xff").decode(errors="surrogateescape")


_others: list[bytes] = []


def others() -> list[bytes]:
    """Lines of every agent, to get among those of another."""
    if not _others:
        for pattern in ("claude/*/.claude/projects/*/*.jsonl", "codex/*/codex_home/sessions/**/*.jsonl", "outputs/*"):
            _others.extend(path.read_bytes()[-20_000:] for path in sorted(FIXTURES.glob(pattern))[:6])
    return _others


def fixtures(*agents: str, having: str = "") -> list[Make]:
    def make(agent: str, state: str) -> Make:
        return lambda folder: rebuild(agent, state, folder)

    return [
        make(agent, state)
        for agent, state in states()
        if agent in agents and (not having or any((FIXTURES / agent / state).rglob(having)))
    ]


def demo(folder: Path) -> FixtureWorld:
    return seeds.demo_home(folder / "home")


CLAUDE, CODEX = fixtures("claude", "claude-2.1.325"), fixtures("codex")
LOGGED = fixtures("opencode", having="proc.json")

# name: (weight, target). The weights are shares of all cases.
TARGETS: dict[str, tuple[int, Target]] = {
    "claude files": (8, Files(CLAUDE, "sessions/*.json", "daemon.lock", "roster.json", "jobs/*/state.json")),
    "claude transcript": (12, Files(CLAUDE, "projects/*/*.jsonl", "subagents/*.jsonl")),
    "codex rollout": (10, Files(CODEX, "rollout-*.jsonl", "session_index.jsonl")),
    "codex files": (3, Files(CODEX, "thread-writer-locks/*.lock", "daemon.pid")),
    "codex socket": (6, Files(fixtures("codex", having="api.txt"), peer=peers.codex_daemon)),
    "opencode database": (12, Files(fixtures("opencode", having="opencode.db"), "opencode.db", "opencode.db-wal")),
    "opencode json": (6, Files(fixtures("opencode", having="storage"), "storage/session/*/*", "storage/*/*/*")),
    "opencode log": (4, Files(LOGGED, "opencode.log", peer=peers.opencode_log)),
    "opencode http": (6, Files(LOGGED, peer=peers.opencode_server)),
    "demo": (6, Files([demo], "data/agentctl-demo/sessions/*/*", our_files=True)),
    "launch record": (6, Files([demo], "launches/*/launch.json", our_files=True)),
    "exits": (3, Files([demo], "launches/*/exits.jsonl", our_files=True)),
    "output": (3, Files([demo], "launches/*/output.log", our_files=True)),
    "hooks": (2, Files([demo], "launches/*/hooks.jsonl", our_files=True)),
    "locks": (3, Files([demo], "state/locks/*", our_files=True)),
    "config": (4, Files([demo], "config.toml", our_files=True)),
    "cache": (3, Files([demo], "cache/agentctl/*", our_files=True)),
    "packages": (1, Files([demo], "package/package.json", our_files=True)),
    "process table": (8, proc.Kernel()),
    "lines": (50, Lines()),
    "git": (2, Reader(peers.GIT, peers.read_git)),
    "github": (1, Reader(peers.GITHUB, peers.read_github)),
}
