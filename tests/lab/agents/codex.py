"""Codex in the lab."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.lab.errors import LabError
from tests.lab.running import ESCAPE, row_of, send, until

if TYPE_CHECKING:
    from signal import Signals

    from tests.lab.running import Key, Row, Running
    from tests.lab.world import Truth, World

CONFIG = """\
model = "fake-model"
model_provider = "fake"
check_for_update_on_startup = false
approval_policy = "on-request"
sandbox_mode = "workspace-write"

[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 4
stream_max_retries = 2

[features]
plugins = false

[analytics]
enabled = false

[feedback]
enabled = false

[projects."{work}"]
trust_level = "trusted"
"""
HERE = "--no-daemon"


class Codex:
    NAME = "codex"
    MODES: tuple[str, ...] = ("headless", "interactive", "daemon")
    PERMISSION = r"Would you like to run the following command"
    QUESTION = r"(?i)enter to submit"
    READY = r"fake-model default"
    BUSY = r"to interrupt"
    QUIT = "/quit"
    CLEAR = "/clear"
    LEAVES_FIRST = True  # it gives up its lock, and ends a moment later
    KEEPS_CLEARED = True  # it keeps the writer lock of the old thread
    NAMES_LATE = False
    REFUSAL_ENDS = False
    MISSES_KILLED_TOOL = False
    DAEMON_LETS_GO = False

    def prepare(self, world: World) -> None:
        folder = world.home.folder / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(CONFIG.format(url=world.server.url, work=world.home.work))

    def env(self, world: World) -> dict[str, str]:
        return {"FAKE_KEY": "test-key", **self.store_env(world)}

    def store_env(self, world: World) -> dict[str, str]:
        return {"CODEX_HOME": str(world.home.folder / ".codex")}

    def headless(self, prompt: str) -> list[str]:
        return ["exec", "--json", "--skip-git-repo-check", prompt]

    def resume(self, mode: str, id: str, prompt: str | None) -> list[str]:
        if mode == "headless":
            return ["exec", "--json", "--skip-git-repo-check", "resume", id, prompt or "hello"]
        return ["resume", id, *([HERE] if mode == "interactive" else [])]

    def fork(self, mode: str, id: str, prompt: str | None) -> list[str]:
        if mode == "headless":
            return ["exec", "--json", "--skip-git-repo-check", "fork", id, prompt or "hello"]
        return ["fork", id, *([HERE] if mode == "interactive" else [])]

    def open(self, world: World) -> Running:
        return self.reopen(world, [HERE] if world.mode == "interactive" else [])

    def reopen(self, world: World, words: list[str]) -> Running:
        running = world.run(*words, tty=True)
        running.wait_shown(self.READY)
        return running

    def interrupt(self, running: Running) -> None:
        running.press(ESCAPE)

    def allow(self, running: Running) -> None:
        running.press("\r")

    def turns_over(self, running: Running) -> int | None:
        return None

    def tells_fresh(self, world: World) -> bool:
        return True

    def allow_questions(self, running: Running) -> None:
        running.type("/plan")
        running.wait_shown("Plan mode")

    def holder(self, running: Running) -> Key:
        found: list[Row] = []

        def seen() -> bool:
            found[:] = [row for row in running.descendants() if row.comm == "codex" and "app-server" not in row.argv]
            return bool(found)

        if row_is_native(running):
            return running.key
        until(seen, 40, "the native codex below its wrapper")
        return found[0].key

    def background(self, world: World, prompt: str) -> Running:
        running = self.open(world)
        running.type(prompt)
        return running

    def daemon(self, world: World) -> Key:
        return world.process(lambda row: "app-server" in row.argv and "--listen" in row.argv, "its daemon").key

    def signal_in_daemon(self, world: World, running: Running, truth: Truth, number: Signals) -> None:
        """A person reaches the interface; the turn goes on in the daemon, with or without it."""
        send(self.holder(running), number)
        time.sleep(1)
        world.expect(truth, "running")

    def finish_in_daemon(self, world: World, running: Running, truth: Truth) -> None:
        """Its interface goes; the daemon keeps the thread loaded for a minute."""
        running.type(self.QUIT)
        running.wait_end()
        world.expect(truth, "idle", last_turn="done")


def row_is_native(running: Running) -> bool:
    """Newer Node replaces itself by the native program."""
    row = row_of(running.key.pid)
    if row is None:
        raise LabError(f"it has ended already:\n{running.shown()}")
    return row.comm == "codex"


RECIPE = Codex()
