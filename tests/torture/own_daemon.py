"""agentctl's own daemon in a world: started by the real command, proved by its start ticks, ended with the world."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from tests.torture.handles import Handle, wait_until
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.world import World

PATIENCE = 60.0  # seconds for what always comes, on a busy machine too


class OwnDaemon:
    """`changes`: what Python executes first in the daemon, to change the machine that it sees."""

    def __init__(self, world: World, changes: str = "") -> None:
        self.world = world
        self.folder = world.folder / "agentctl" / "daemon"
        self.log = world.folder / "agentctl" / "events"
        self.env = dict(world.env)
        if changes:
            patched = world.folder / "changes"
            patched.mkdir(exist_ok=True)
            (patched / "sitecustomize.py").write_text(changes)
            self.env["PYTHONPATH"] = f"{patched}:{world.env['PYTHONPATH']}"
        self.handle: Handle | None = None

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.world.command, "daemon", *words],
            env=self.env,
            cwd=self.world.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def start(self) -> subprocess.CompletedProcess[str]:
        done = self.command("start")
        self.keep()
        wait_until("the daemon's first look", lambda: (self.status().get("engine") or {}).get("looked"), PATIENCE)
        return done

    def keep(self) -> None:
        """Note which process it is, so that the world ends it."""
        pid = int(self.identity()["pid"])
        if self.handle is None or self.handle.pid != pid:
            self.handle = Handle(pid, start_ticks(pid))
            self.world.keep(self.handle)

    def identity(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "daemon.json").read_text())
        return found

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.command("status", "--json").stdout)["daemon"]
        return found

    def told(self, since: str = "0") -> list[dict[str, Any]]:
        done = subprocess.run(
            [*self.world.command, "events", "--since", since],
            env=self.env, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        return [json.loads(line) for line in done.stdout.splitlines()]

    def of(self, id: str) -> list[dict[str, Any]]:
        return [entry for entry in self.told() if entry.get("id") == id]

    def reaches(self, id: str, status: str) -> None:
        what = f"a recorded event to {status}"
        wait_until(what, lambda: [entry["to"] for entry in self.of(id)][-1:] == [status], PATIENCE)


def daemons() -> list[int]:
    """Every process that runs agentctl's daemon here."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[-4:-1] == [b"daemon", b"run", b"--to-log"]:
            found.append(int(name))
    return found


def folded(entries: list[dict[str, Any]]) -> dict[str, str]:
    """The statuses after these entries, as a program that knows nothing of agentctl would fold them."""
    statuses: dict[str, str] = {}
    for entry in entries:
        if entry["type"] == "checkpoint":
            statuses = {session["id"]: session["status"] for session in entry["sessions"]}
        elif entry["type"].startswith("session."):
            statuses.pop(entry["id"], None)
            if entry["to"] is not None:
                statuses[entry["id"]] = entry["to"]
    return statuses


def out_of_order(entries: list[dict[str, Any]]) -> list[str]:
    """The events that do not begin with what the event before them left, and numbers that are not the next."""
    wrong: list[str] = []
    last: dict[str, str | None] = {}
    number: int | None = None
    for entry in entries:
        whole = entry["type"] not in ("gap", "checkpoint")
        if whole and number is not None and entry["seq"] != number + 1:
            wrong.append(f"number {entry['seq']} after {number}")
        number = entry["seq"]
        if entry["type"] == "checkpoint":
            last = {session["id"]: session["status"] for session in entry["sessions"]}
        if entry["type"].startswith("session."):
            if entry["id"] in last and last[entry["id"]] != entry["from"]:
                wrong.append(f"{entry['id']}: from {entry['from']} after {last[entry['id']]}")
            last[entry["id"]] = entry["to"]
    return wrong


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file:
        size = 65536
        while size:
            try:
                file.write(b"x" * size)
            except OSError:
                size //= 2
