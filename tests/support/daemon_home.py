"""A home with a daemon of its own. Its path is short: a socket is in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentctl.kernel import handles
from agentctl.server import client, place
from tests.support.demo_home import TIMEOUT, Home, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentctl.model import ProcessKey


class DaemonHome(Home):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder_of_daemon = Path(place.folder(self.env))

    def ctl(self, *arguments: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "agentctl", *arguments],
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def start_daemon(self) -> int:
        """Start the daemon; return its pid once it has looked."""
        self.ctl("daemon", "start")
        wait_until(lambda: self.health()["engine"]["looked"], "its first look")
        return int(self.health()["pid"])

    @property
    def socket(self) -> str:
        identity = place.read_identity(self.env)
        assert identity is not None
        return identity.socket

    def health(self) -> dict[str, Any]:
        return client.get(self.socket, "/v1/health")

    def get(self, target: str) -> dict[str, Any]:
        return client.get(self.socket, target, TIMEOUT)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ctl("daemon", "status", "--json", code=None).stdout)["daemon"]
        return found

    def key(self) -> ProcessKey | None:
        identity = place.read_identity(self.env)
        return identity.key if identity is not None else None

    def signal_daemon(self, number: signal.Signals) -> None:
        """Signal the daemon, whose identity is proved."""
        key = self.key()
        handle = handles.Handle.open(key) if key is not None else None
        assert handle is not None, "no daemon runs"
        handle.send(number)
        if number == signal.SIGKILL:
            assert handles.wait_for([handle], TIMEOUT) == []
        handle.close()

    def replayed(self, since: str = "0", *more: str) -> list[dict[str, Any]]:
        lines = self.ctl("events", "--since", since, *more).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def tells(self, id: str, to: str) -> dict[str, Any]:
        """Wait until the last recorded event of a session leads to this status."""

        def found() -> dict[str, Any] | None:
            of_it = [entry for entry in self.replayed() if entry.get("id") == id]
            return of_it[-1] if of_it and of_it[-1]["to"] == to else None

        event: dict[str, Any] = wait_until(found, f"a recorded event to {to}")
        return event

    def end_all(self) -> None:
        key = self.key()
        with contextlib.suppress(OSError):
            if key is not None and (handle := handles.Handle.open(key)) is not None:
                handle.send(signal.SIGKILL)
                handles.wait_for([handle], TIMEOUT)
                handle.close()
        super().end_all()


@contextlib.contextmanager
def daemon_home() -> Iterator[DaemonHome]:
    folder = tempfile.mkdtemp(prefix="d", dir=os.environ.get("TMPDIR", "/tmp"))
    home = DaemonHome(Path(folder))
    try:
        yield home
    finally:
        home.end_all()
        shutil.rmtree(folder, ignore_errors=True)
