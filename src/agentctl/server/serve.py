"""`agentctl daemon run`: one process per user that records and serves until it is told to end."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import time

import uvicorn

from agentctl import __version__
from agentctl.durations import utc
from agentctl.errors import Refused
from agentctl.kernel.flock import Flock
from agentctl.live.log import Log
from agentctl.server import control, place
from agentctl.server.app import make_app
from agentctl.server.hub import Hub
from agentctl.server.peer import protocol_for
from agentctl.server.place import Identity
from agentctl.server.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentctl.live.log import Shapes

BACKLOG = 2048
OPEN_FILES = 8192  # descriptors: a thousand listeners, and what the engine watches
GRACE = 3  # seconds for answers that are under way when the daemon ends


def run(env: Mapping[str, str], shapes: Shapes, tell: Callable[[str], None]) -> None:
    """Run the daemon. Returns when it was told to end. Raises Refused if another one runs."""
    place.make_folder(env)
    allow_many_files()
    lock = Flock(place.path(env, place.LOCK), 0.0, "the daemon")
    try:
        lock.__enter__()
    except Refused as error:
        found = control.find(env)
        if found.key is None:
            raise
        raise Refused(f"{control.named(found)} runs already; `agentctl daemon status` shows it") from error
    try:
        Daemon(env, shapes, tell, lock).run()
    finally:
        lock.__exit__(None, None, None)


def allow_many_files() -> None:
    """Raise our own limit of open files, as far as we may."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Daemon:
    def __init__(self, env: Mapping[str, str], shapes: Shapes, tell: Callable[[str], None], lock: Flock) -> None:
        self._env, self._tell, self._lock = env, tell, lock
        self._log = Log(place.events_folder(env), shapes)
        self._hub = Hub()
        self.identity = Identity(place.own_key(), __version__, place.socket_path(env), utc(time.time()))
        self._server: uvicorn.Server | None = None

    def run(self) -> None:
        listening = bound(self.identity.socket)
        try:
            with self._log:
                recorder = Recorder(self._env, self._log, self._hub, self._tell, self._still_ours)
                recorder.start()
                try:
                    self._serve(listening, recorder)
                finally:
                    recorder.end()
        finally:
            listening.close()
            place.remove_own(self._env, self.identity.key, self.identity.socket)
            self._tell("ended")

    def _serve(self, listening: socket.socket, recorder: Recorder) -> None:
        app = make_app(self._env, self.identity, self._log, self._hub, recorder, self._tell)
        config = uvicorn.Config(
            app,
            http=protocol_for(os.geteuid(), self._tell),
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        self._server = Server(config, self._hub, lambda: self._announce(recorder))
        try:
            self._server.run(sockets=[listening])
        except KeyboardInterrupt:
            pass  # uvicorn raises again what ended it

    def _announce(self, recorder: Recorder) -> None:
        place.write_identity(self._env, self.identity)
        self._tell(f"agentctl {__version__} runs: pid {self.identity.key.pid}, {self.identity.socket}")

    def _still_ours(self) -> None:
        """If somebody removed our lock, another daemon may start: then this one ends."""
        if self._server is not None and not self._lock.is_there():
            self._tell("the lock of the daemon was removed, so another one may start: this one ends")
            self._server.should_exit = True


class Server(uvicorn.Server):
    """Says when it serves, and lets streams end first when it ends."""

    def __init__(self, config: uvicorn.Config, hub: Hub, serving: Callable[[], None]) -> None:
        super().__init__(config)
        self._hub, self._serving = hub, serving

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.serve_in(asyncio.get_running_loop())
        await super().startup(sockets)
        self._serving()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.end()
        await super().shutdown(sockets)


def bound(path: str) -> socket.socket:
    """Return a socket of this path, for this user alone. A stale one is replaced: we hold the lock. Raises Refused."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        kind = None
    if kind is not None and not stat.S_ISSOCK(kind):
        raise Refused(f"{path}: this is no socket, and the daemon needs this name; remove it")
    if kind is not None:
        os.unlink(path)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        found.bind(path)
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise Refused(
            f"{path}: cannot be a socket: {error.strerror or error}; set AGENTCTL_HOME to another folder"
        ) from error
    finally:
        os.umask(before)
    return found
