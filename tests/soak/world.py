"""The place: folders on file systems of their own, the real command, and the switchboard to the stand-ins.

Pids come back within seconds: the last pid of the namespace is set back whenever it has gone far enough, and to right
before the pid of a dead session where somebody is to get that very one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from tests import agents
from tests.torture.handles import REPOSITORY, Programs, WorldError
from tests.torture.kernel import hanging, mount, without_file_powers
from tests.torture.world import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.soak.lives import Life

PATIENCE = 120.0  # for a command or a stand-in: a bound, not an expectation
STATE_SIZE = "24m"
FIRST_PID, LAST_PID = 300, 900
DIRECTORIES = 8
RETENTION = "20s"
EXIT_CODES = {0, 1, 2, 3, 4, 5, 6, 7, 124}

PROGRAM = """#!/bin/bash
export PYTHONHOME={home} PYTHONPATH={repository} PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH={libraries}
export SOAK_STANDIN={standin} SOAK_SCRIPT={script}
if [ -n "$SOAK_WRAPPED" ]; then exec -a node "$SOAK_PROGRAMS/node" -S -m tests.soak.standin {name} "$@"; fi
name="${{SOAK_NAME:-{name}}}"
unset SOAK_NAME
exec -a "$name" "$SOAK_PROGRAMS/$name" -S -m tests.soak.standin "$@"
"""


class Done(NamedTuple):
    """A command that was run, and when."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    since: float
    until: float
    killed: bool = False  # by us

    @property
    def crashed(self) -> bool:
        return not self.killed and (self.code not in EXIT_CODES or "Traceback" in self.err)


class Line:
    """To one stand-in."""

    def __init__(self, connection: socket.socket, hello: dict[str, Any]) -> None:
        self.hello = hello
        self._connection = connection
        self._stream = connection.makefile("rwb")

    def do(self, name: str, **arguments: Any) -> dict[str, Any]:
        self.send(name, **arguments)
        answer = self._stream.readline()
        if not answer:
            raise Lost(f"it ended instead of doing {name}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def send(self, name: str, **arguments: Any) -> None:
        """An order that it may never answer."""
        try:
            self._stream.write(json.dumps({"do": name, **arguments}).encode() + b"\n")
            self._stream.flush()
        except OSError as error:
            raise Lost(str(error)) from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        self._connection.close()


class Lost(Exception):
    """A stand-in that is no longer there."""


class Switchboard:
    """Where the stand-ins announce themselves, by the mark in their environment."""

    def __init__(self, path: Path) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(64)
        self._lines: dict[str, Line] = {}
        self._news = threading.Condition()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            connection.settimeout(PATIENCE)
            try:
                hello = json.loads(connection.makefile("rb", buffering=0).readline())
            except (OSError, ValueError):
                connection.close()  # killed before it said a word
                continue
            with self._news:
                self._lines[hello["mark"]] = Line(connection, hello)
                self._news.notify_all()

    def take(self, mark: str, seconds: float) -> Line | None:
        with self._news:
            self._news.wait_for(lambda: mark in self._lines, seconds)
            return self._lines.pop(mark, None)


class Stores:
    """When each agent's store was closed to readers. Who lets an agent write holds its store open meanwhile."""

    def __init__(self, names: Iterable[str]) -> None:
        self._locks = {agent: threading.RLock() for agent in names}
        self._closed: list[tuple[str, float, float | None]] = []

    @contextlib.contextmanager
    def held(self, agent: str, *, wait: bool = True) -> Iterator[bool]:
        """False: it is closed, or somebody is at it."""
        got = self._locks[agent].acquire(blocking=wait)
        try:
            yield got
        finally:
            if got:
                self._locks[agent].release()

    @contextlib.contextmanager
    def closed(self, agent: str) -> Iterator[None]:
        self._closed.append((agent, time.monotonic(), None))
        at = len(self._closed) - 1
        try:
            yield
        finally:
            self._closed[at] = (agent, self._closed[at][1], time.monotonic())

    def was_closed(self, agent: str, since: float, until: float) -> bool:
        return any(
            who == agent and begin <= until and (end is None or end >= since) for who, begin, end in list(self._closed)
        )


class World:
    def __init__(self, folder: Path, lives: dict[str, type[Life]]) -> None:
        self.folder = folder
        self.lives = lives  # whom it leads
        self.home, self.state, self.data = folder / "home", folder / "state", folder / "data"
        self.roots = {name: agents.load(name).root(self.home, self.data) for name in lives}
        for path in (*self.roots.values(), self.state, folder / "config" / "agentctl", folder / "gates"):
            path.mkdir(parents=True)
        for path in (folder / "hooks", folder / "words"):
            path.mkdir()
        for name, life in lives.items():
            life.prepare(self.roots[name])
        mount("tmpfs", self.state, f"size={STATE_SIZE},mode=700")
        (folder / "config" / "agentctl" / "config.toml").write_text(f'retention = "{RETENTION}"\n')
        self.directories = [self.home / "work" / str(number) for number in range(DIRECTORIES)]
        for path in self.directories:
            path.mkdir(parents=True)
        self.programs = Programs(folder / "programs")
        self._make_programs(folder / "bin")
        self.env = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": SOURCES,
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.home),
            "AGENTCTL_HOME": str(self.state),
            "XDG_DATA_HOME": str(self.data),
            "XDG_STATE_HOME": str(folder / "xdg-state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TMUX_TMPDIR": str(folder),  # no server of a person is asked
            "SOAK_SOCKET": str(folder / "socket"),
            "SOAK_PROGRAMS": str(folder / "programs" / "bin"),
        }
        self.command = [sys.executable, "-m", "agentctl"]
        self.switchboard = Switchboard(folder / "socket")
        self.stores = Stores(lives)
        self.full: list[tuple[float, float | None]] = []  # when the disk of the state folder was full
        self.journal: deque[tuple[float, str]] = deque(maxlen=400)
        self._count = 0
        self._guard = threading.Lock()
        self.lock = threading.Lock()  # of what is made once, when it is first asked for

    def note(self, text: str) -> None:
        self.journal.append((time.monotonic(), text))

    def _make_programs(self, folder: Path) -> None:
        from tests.soak import kinds  # which need a world

        folder.mkdir()
        values = {"home": sys.base_prefix, "repository": REPOSITORY}
        values["libraries"] = self.programs.env.get("LD_LIBRARY_PATH", "")
        self.programs.path("node")
        for agent, life in self.lives.items():
            if issubclass(life, kinds.Standin):
                path = self.program(agent)
                self.programs.path(path.name)
                mine = {"name": path.name, "standin": life.STANDIN, "script": life.WRAPPER or ""}
                path.write_text(PROGRAM.format(**mine, **values))
                path.chmod(0o755)

    def program(self, agent: str) -> Path:
        """What a person runs who types the name of an agent."""
        return self.folder / "bin" / agents.load(agent).PROGRAM

    def link_program(self, agent: str, name: str) -> None:
        """Let SOAK_NAME start this agent by a link with that name, which is what the kernel then shows as its name."""
        link, target = self.folder / "programs" / "bin" / name, self.program(agent).name
        with self.lock:
            if not link.is_symlink() or os.readlink(link) != target:
                link.unlink(missing_ok=True)
                link.symlink_to(target)

    def number(self) -> int:
        with self._guard:
            self._count += 1
            return self._count

    # The real command

    def begin(self, *words: str, env: dict[str, str] | None = None, around: bool = False) -> Command:
        return Command(self, words, env or {}, around=around)

    def run(self, *words: str, env: dict[str, str] | None = None, around: bool = False) -> Done:
        return self.begin(*words, env=env, around=around).wait()

    def ask(self, *words: str) -> tuple[Done, dict[str, Any]]:
        """As a person whom the modes of files bind, root or not."""
        done = self.run(*words, "--json", around=True)
        try:
            found: dict[str, Any] = json.loads(done.out)
        except ValueError:
            found = {}
        return done, found

    # What agentctl noted of a launch. Only who was started: never whether it lives.

    def launch_of(self, mark: str) -> dict[str, Any] | None:
        return next((one for one in self.launches() if (one.get("prompt") or "").startswith(f"{mark} ")), None)

    def launches(self) -> Iterator[dict[str, Any]]:
        for path in sorted((self.state / "launches").glob("*/launch.json"), reverse=True):
            try:
                yield json.loads(path.read_bytes())
            except (OSError, ValueError):
                continue  # it was taken away

    # Mischief

    @contextlib.contextmanager
    def unreadable(self, path: Path) -> Iterator[None]:
        """For whoever is bound by modes."""
        mode = path.stat().st_mode
        path.chmod(0)
        try:
            yield
        finally:
            path.chmod(mode & 0o7777)

    def hanging(self, path: Path) -> contextlib.AbstractContextManager[None]:
        return hanging(path)

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        self.full.append((time.monotonic(), None))
        filler = self.state / "filler"
        try:
            with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(b"x" * 65536):
                    pass
            with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(b"x" * 512):
                    pass
            yield
        finally:
            filler.unlink()
            self.full[-1] = (self.full[-1][0], time.monotonic())

    def was_full(self, since: float, until: float) -> bool:
        return any(begin <= until and (end is None or end >= since) for begin, end in self.full)

    def set_last_pid(self, number: int) -> None:
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(number))

    def come_round(self) -> None:
        """Begin with the small pids again."""
        with open("/proc/sys/kernel/ns_last_pid") as file:
            if not FIRST_PID <= int(file.read()) < LAST_PID:
                self.set_last_pid(FIRST_PID)


class Command:
    """agentctl, on its way."""

    def __init__(self, world: World, words: tuple[str, ...], env: dict[str, str], *, around: bool) -> None:
        self.words = words
        self.killed = False
        self._folder = world.folder / "words" / str(world.number())
        self._folder.mkdir()
        command = [*world.command, *words]
        world.come_round()
        with open(self._folder / "out", "wb") as out, open(self._folder / "err", "wb") as err:
            self.since = time.monotonic()
            self.popen = subprocess.Popen(
                without_file_powers(command) if around else command,
                cwd=world.folder,
                env={**world.env, **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def has_ended(self, seconds: float = 0.0) -> bool:
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait_only(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(PATIENCE)

    def kill(self) -> None:
        self.killed = True
        self.popen.kill()

    def wait(self) -> Done:
        code, more = 0, ""
        try:
            code = self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            code, more = -1, f"no answer within {PATIENCE:g} s"
        until = time.monotonic()
        out, err = ((self._folder / name).read_text(errors="replace") for name in ("out", "err"))
        shutil.rmtree(self._folder)
        return Done(self.words, code, out, err + more, self.since, until, self.killed)


def ended(pidfd: int, seconds: float = 0.0) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def patiently(what: str, condition: Any) -> Any:
    """Wait for a fact of the world itself; never for what agentctl says."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise WorldError(f"waited {PATIENCE:g} s in vain for: {what}")
        time.sleep(0.01)
    return found
