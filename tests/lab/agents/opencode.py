"""OpenCode in the lab. Its daemon is `opencode serve`, and its interface there is `opencode attach`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from tests.lab.running import ESCAPE, send

if TYPE_CHECKING:
    from signal import Signals

    from tests.lab.running import Key, Running
    from tests.lab.world import Truth, World

MODEL = "fake-model"
PORT = "4111"  # the room has a network of its own
ANSWER = "▣"  # stands below each answer
SERVER = f"http://127.0.0.1:{PORT}"
QUIET = dict.fromkeys(
    ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_MODELS_FETCH"), "1"
)


class OpenCode:
    NAME = "opencode"
    MODES: tuple[str, ...] = ("headless", "interactive", "daemon")
    PERMISSION = r"Permission required"
    QUESTION = r"enter submit"
    READY = r"Build · Fake Model"
    BUSY = r"esc (again to )?interrupt"
    QUIT = "/exit"
    CLEAR = "/new"
    LEAVES_FIRST = False
    KEEPS_CLEARED = False
    NAMES_LATE = True
    REFUSAL_ENDS = True
    MISSES_KILLED_TOOL = True
    DAEMON_LETS_GO = True

    def prepare(self, world: World) -> None:
        folder = world.home.folder / "config" / "opencode"
        folder.mkdir(parents=True)
        provider = {
            "npm": "@ai-sdk/openai-compatible",  # comes with it
            "name": "Fake",
            "options": {"baseURL": f"{world.server.url}/v1", "apiKey": "test-key"},
            "models": {MODEL: {"name": "Fake Model", "tool_call": True, "limit": {"context": 200_000, "output": 8000}}},
        }
        config = {
            "model": f"fake/{MODEL}",
            "small_model": f"fake/{MODEL}",
            "autoupdate": False,
            "share": "disabled",
            "provider": {"fake": provider},
            "permission": {"bash": {"*": "allow", "touch *": "ask"}},
        }
        (folder / "opencode.json").write_text(json.dumps(config))

    def env(self, world: World) -> dict[str, str]:
        return {**QUIET, **self.store_env(world)}

    def store_env(self, world: World) -> dict[str, str]:
        return {}  # it is below XDG_DATA_HOME, which every program of the room has

    def headless(self, prompt: str) -> list[str]:
        return ["run", "--format", "json", prompt]

    def resume(self, mode: str, id: str, prompt: str | None) -> list[str]:
        if mode == "headless":
            return [*self.headless(prompt or "hello"), "--session", id]
        return [*(["attach", SERVER] if mode == "daemon" else []), "--session", id]

    def fork(self, mode: str, id: str, prompt: str | None) -> list[str]:
        return [*self.resume(mode, id, prompt), "--fork"]

    def open(self, world: World) -> Running:
        if world.mode == "daemon":
            self._serve(world)
        return self.reopen(world, ["attach", SERVER] if world.mode == "daemon" else [])

    def reopen(self, world: World, words: list[str]) -> Running:
        running = world.run(*words, tty=True)
        # An earlier session is shown some seconds after the empty prompt, in which what was typed is then lost.
        running.wait_shown(ANSWER if "--session" in words else self.READY)
        running.wait_still(1.0)
        return running

    def interrupt(self, running: Running) -> None:
        for _ in range(2):
            running.press(ESCAPE)
            time.sleep(0.5)  # two in one moment are a key with Alt

    def allow(self, running: Running) -> None:
        running.press("\r")

    def turns_over(self, running: Running) -> int | None:
        return None

    def _serve(self, world: World) -> None:
        if not any("serve" in running.argv for running in world.running):
            world.run("serve", "--port", PORT).wait_shown("listening on")

    def tells_fresh(self, world: World) -> bool:
        return True

    def allow_questions(self, running: Running) -> None:
        pass  # it always may

    def holder(self, running: Running) -> Key:
        return running.key

    def background(self, world: World, prompt: str) -> Running:
        running = self.open(world)
        running.type(prompt)
        return running

    def daemon(self, world: World) -> Key:
        return next(running.key for running in world.running if "serve" in running.argv)

    def signal_in_daemon(self, world: World, running: Running, truth: Truth, number: Signals) -> None:
        """A person reaches the interface; the turn goes on in the server."""
        send(running.key, number)
        running.wait_end()
        time.sleep(1)
        world.expect(truth, "running")

    def finish_in_daemon(self, world: World, running: Running, truth: Truth) -> None:
        running.type(self.QUIT)
        running.wait_end()
        world.expect(truth, "done", left=True)


RECIPE = OpenCode()
