"""OpenCode in the lab. Its daemon is `opencode serve`, and its interface there is `opencode attach`."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

from tests.agents.opencode import lab_facts
from tests.agents.opencode.lab_facts import PORT, SERVER
from tests.lab.model.tools import question
from tests.lab.recipe import DAEMON, HEADLESS, INTERACTIVE, Need, Recipe, Without
from tests.lab.running import ESCAPE, row_of, send

if TYPE_CHECKING:
    from signal import Signals

    from tests.lab.control_facts import Facts
    from tests.lab.recipe import Place
    from tests.lab.running import Key, Running
    from tests.lab.world import Truth, World

MODEL = "fake-model"
ASKING = {"*": "allow", "touch *": "ask"}
ANSWER = "▣"  # stands below each answer
QUIET = dict.fromkeys(
    ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_MODELS_FETCH"), "1"
)


def shell(command: str) -> dict[str, Any]:
    return {"command": command, "description": "run it"}


def configure(place: Place, models: dict[str, str], context: int, permission: dict[str, Any]) -> None:
    folder = place.home.folder / "config" / "opencode"
    folder.mkdir(parents=True)
    limit = {"context": context, "output": 8000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",  # comes with it
        "name": "Fake",
        "options": {"baseURL": f"{place.server.url}/v1", "apiKey": "test-key"},
        "models": {id: {"name": name, "tool_call": True, "limit": limit} for id, name in models.items()},
    }
    config = {
        "model": f"fake/{MODEL}",
        "small_model": f"fake/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"fake": provider},
        "permission": permission,
    }
    (folder / "opencode.json").write_text(json.dumps(config))


class OpenCode(Recipe):
    PACKAGE = "opencode-ai"
    VERSIONS = {"1.18.33": 353}  # noqa: RUF012
    MODES = (HEADLESS, INTERACTIVE, DAEMON)
    LADDER = {  # noqa: RUF012
        "1.14.41": "2026-05-07",
        "1.15.3": "2026-05-16",
        "1.18.3": "2026-07-17",
        "1.18.14": "2026-08-07",
    }
    NEEDS = (Need("attach", (DAEMON,)),)
    NOT_APPLICABLE = (
        Without(("killed-wrapper",), "its program is the native binary: there is no wrapper (1.2.27 had one)"),
        Without(("opened-in-list",), "a screen of a server holds no session (daemon-alive)", (DAEMON,)),
        Without(("picker",), "it has no list of sessions before its prompt"),
    )
    # It takes more time to start than all the others together: what only it does.
    CORE = {  # noqa: RUF012
        HEADLESS: (
            *("model-call", "permission", "finished", "api-error-given-up", "sigkill", "two-in-one-cwd"),
            "first-process",
        ),
        INTERACTIVE: ("fresh", "permission", "sigkill", "opened-in-list"),
        DAEMON: ("permission", "daemon-killed"),
    }
    PERMISSION = r"Permission required"
    QUESTION = r"enter submit"
    READY = r"Build · Fake Model"
    BUSY = r"esc (again to )?interrupt"
    SHELL_MODE = "exit shell mode"
    CLEAR = "/new"
    REFUSAL_ENDS = True
    MISSES_KILLED_TOOL = True
    DAEMON_LETS_GO = True
    TOOLS = {  # noqa: RUF012
        "bash": {"bash": shell},
        "ask": {"bash": shell},
        "background": {"bash": lambda command: shell(f"{command} >/dev/null 2>&1 &")},
        "question": {"question": question},
        "agent": {
            "task": lambda prompt: {"description": "sub task", "prompt": prompt, "subagent_type": "general"},
        },
    }
    OTHER_MODEL = "fake/other-model"
    UNKNOWN_ID = "ses_0000000000000000000000000"
    WRITE = '[[tool:write:{{"filePath":"{path}","content":"x"}}]] [[text:written]]'
    TYPED_TO = False  # which of its sessions its screen shows at rest is in no file of its own
    OWN_SCREEN = "attach-session"
    INTERFACE = ("--port", "4999")

    def facts(self, version: str) -> Facts:
        return lab_facts.FACTS

    def prepare(self, place: Place) -> None:
        configure(place, {MODEL: "Fake Model"}, 200_000, {"bash": ASKING})

    def prepare_controls(self, place: Place) -> None:
        """Its own rules allow nearly everything; here it has to ask for some of it, so that it shows what a mode
        allows."""
        configure(place, {MODEL: MODEL, "other-model": "other-model"}, 2_000_000, {"edit": "ask", "bash": ASKING})

    def env(self, place: Place) -> dict[str, str]:
        return QUIET  # its store is below XDG_DATA_HOME, which every program of the room has

    def headless(self, prompt: str) -> list[str]:
        return ["run", "--format", "json", prompt]

    def resume(self, mode: str, id: str, prompt: str | None) -> list[str]:
        if mode == HEADLESS:
            return [*self.headless(prompt or "hello"), "--session", id]
        return [*(["attach", SERVER] if mode == DAEMON else []), "--session", id]

    def fork(self, mode: str, id: str, prompt: str | None) -> list[str]:
        return [*self.resume(mode, id, prompt), "--fork"]

    def open(self, world: World) -> Running:
        if world.mode == DAEMON:
            self._serve(world)
        return self.reopen(world, ["attach", SERVER] if world.mode == DAEMON else [])

    def reopen(self, world: World, words: list[str]) -> Running:
        running = world.run(*words, tty=True)
        # An earlier session is shown some seconds after the empty prompt, in which what was typed is then lost.
        running.wait_shown(ANSWER if "--session" in words else self.READY)
        running.wait_still(1.0)
        return running

    def names_late(self, world: World) -> bool:
        return True

    def interrupt(self, running: Running) -> None:
        for _ in range(2):
            running.press(ESCAPE)
            time.sleep(0.5)  # two in one moment are a key with Alt

    def holder(self, running: Running) -> Key:
        """Older versions have a wrapper, a script of Node, around the native program."""
        rows = [row for row in (row_of(running.key.pid), *running.descendants()) if row is not None]
        return next((row.key for row in rows if row.comm not in ("node", "MainThread")), running.key)

    def open_in_list(self, running: Running, text: str) -> None:
        running.type("/sessions")
        running.wait_shown("Search")
        running.wait_still(1.0)
        running.press("\x1b[B")
        running.wait_still(0.5)
        running.press("\r")
        running.wait_shown(re.escape(text))
        running.wait_still(1.0)

    def _serve(self, world: World) -> None:
        if not any("serve" in running.argv for running in world.running):
            world.run("serve", "--port", PORT).wait_shown("listening on")

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
