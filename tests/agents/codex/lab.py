"""Codex in the lab."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from tests.agents.codex import lab_facts
from tests.lab.errors import LabError
from tests.lab.model.tools import question
from tests.lab.recipe import DAEMON, HEADLESS, INTERACTIVE, Need, Recipe, Without
from tests.lab.running import row_of, send, until

if TYPE_CHECKING:
    from signal import Signals

    from tests.lab.control_facts import Facts
    from tests.lab.recipe import Place
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
LONG = 30_000  # milliseconds that it waits for a command before it leaves it running
SHORT = 250


def shell(command: str) -> dict[str, Any]:
    return {"cmd": command, "yield_time_ms": LONG}


class Codex(Recipe):
    PACKAGE = "@openai/codex"
    VERSIONS = {"0.166.0": 436}  # noqa: RUF012
    MODES = (HEADLESS, INTERACTIVE, DAEMON)
    LADDER = {  # noqa: RUF012
        "0.130.0": "2026-05-15",
        "0.140.0": "2026-06-16",
        "0.146.0": "2026-08-22",
        "0.150.1": "2026-08-28",
        "0.157.0": "2026-09-25",
        "0.164.0": "2026-10-23",
        "0.169.0": "2026-11-13",
    }
    NEEDS = (Need(HERE, (DAEMON,)),)  # without it a screen always runs its threads itself
    NOT_APPLICABLE = (
        Without(("opened-in-list",), "a process has the lock of the thread that its screen shows (resumed)"),
        Without(("picker",), "a process of its own has no daemon that could be taken for it", (INTERACTIVE,)),
    )
    MORE_CORE = {INTERACTIVE: ("tool-running",)}  # noqa: RUF012  it looks like a question on disk
    PERMISSION = r"Would you like to run the following command"
    QUESTION = r"(?i)enter to submit"
    READY = r"fake-model default"
    BUSY = r"to interrupt"
    SHELL_MODE = "Shell mode"
    PICKER = ("resume",)
    PICKING = "Resume a previous session"
    QUIT = "/quit"
    LEAVES_FIRST = True  # it gives up its lock, and ends a moment later
    KEEPS_CLEARED = True  # it keeps the writer lock of the old thread
    TOOLS = {  # noqa: RUF012
        "bash": {"exec_command": shell, "shell_command": lambda command: {"command": command}},
        "ask": {
            "exec_command": lambda command: {
                **shell(command),
                "sandbox_permissions": "require_escalated",
                "justification": "the lab wants to be asked",
            }
        },
        "background": {"exec_command": lambda command: {**shell(command), "yield_time_ms": SHORT}},
        "question": {"request_user_input": lambda text: question(text, id="choice")},
        "agent": {"spawn_agent": lambda prompt: {"task_name": "sub_task", "message": prompt}},
    }
    OTHER_MODEL = "other-model"
    WRITE = "[[bash:touch {path}]] [[text:written]]"
    OWN_SCREEN = "codex resume "
    DAEMON_HAS_SCREENS = True

    def facts(self, version: str) -> Facts:
        return lab_facts.FACTS

    def prepare(self, place: Place) -> None:
        folder = place.home.folder / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(CONFIG.format(url=place.server.url, work=place.home.work))

    def env(self, place: Place) -> dict[str, str]:
        return {"FAKE_KEY": "test-key", **self.store_env(place)}

    def store_env(self, place: Place) -> dict[str, str]:
        return {"CODEX_HOME": str(place.home.folder / ".codex")}

    def headless(self, prompt: str) -> list[str]:
        return ["exec", "--json", "--skip-git-repo-check", prompt]

    def resume(self, mode: str, id: str, prompt: str | None) -> list[str]:
        if mode == HEADLESS:
            return ["exec", "--json", "--skip-git-repo-check", "resume", id, prompt or "hello"]
        return ["resume", id, *([HERE] if mode == INTERACTIVE else [])]

    def fork(self, mode: str, id: str, prompt: str | None) -> list[str]:
        if mode == HEADLESS:
            return ["exec", "--json", "--skip-git-repo-check", "fork", id, prompt or "hello"]
        return ["fork", id, *([HERE] if mode == INTERACTIVE else [])]

    def open(self, world: World) -> Running:
        return self.reopen(world, [HERE] if world.mode == INTERACTIVE else [])

    def reopen(self, world: World, words: list[str]) -> Running:
        return super().reopen(world, [word for word in words if word != HERE or world.has(HERE)])

    def names_late(self, world: World) -> bool:
        """Versions without writer locks have nothing of a thread before its first prompt."""
        return not (world.home.folder / ".codex" / "thread-writer-locks").exists()

    def keeps_errors(self, world: World) -> bool:
        """Some versions close the turn, and do not write why: then no rollout has the words of the model's error."""
        rollouts = (world.home.folder / ".codex" / "sessions").rglob("rollout-*.jsonl")
        return any("fake error" in path.read_text() for path in rollouts)

    def allow_questions(self, running: Running) -> None:
        running.type("/plan")
        running.wait_shown("Plan mode")

    def holder(self, running: Running) -> Key:
        found: list[Row] = []

        def seen() -> bool:
            started = row_of(running.key.pid)
            if started is None:
                raise LabError(f"it has ended already:\n{running.shown()}")
            found[:] = [row for row in (started, *running.descendants()) if is_native(row)]
            return bool(found)

        until(seen, 40, "the native codex, itself or below its wrapper")
        return found[0].key

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


def is_native(row: Row) -> bool:
    """Return whether this is the agent's own program, and none of its daemon. Its name says nothing: the wrapper is a
    script named codex, so the kernel names it codex until env has become node."""
    try:
        program = os.readlink(f"/proc/{row.key.pid}/exe")
    except OSError:
        return False  # it has ended, or is about to
    return os.path.basename(program) == "codex" and "app-server" not in row.argv


RECIPE = Codex()
