"""Claude Code in the lab."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import TYPE_CHECKING

from tests.lab.errors import LabError
from tests.lab.running import ESCAPE, is_alive, send, until

if TYPE_CHECKING:
    from tests.lab.running import Key, Running
    from tests.lab.world import Truth, World

QUIET = dict.fromkeys(
    (
        "DISABLE_TELEMETRY",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL",
    ),
    "1",
)
KEY = "test-key"
ASKING = ("--permission-mode", "default")
STREAMING = "-p --input-format stream-json --output-format stream-json --verbose --permission-prompt-tool stdio".split()
RESULT = '"type":"result"'
ASKED = re.compile(r'^\{"type":"control_request".*$', re.MULTILINE)


class ClaudeCode:
    NAME = "claude-code"
    MODES: tuple[str, ...] = ("headless", "interactive", "daemon", "stream")
    PERMISSION = r"Do you want to proceed\?"
    QUESTION = r"Enter to select"
    READY = r"(?m)^❯"
    BUSY = r"to interrupt"
    QUIT = "/exit"
    CLEAR = "/clear"
    LEAVES_FIRST = False
    KEEPS_CLEARED = False
    NAMES_LATE = False
    REFUSAL_ENDS = False
    MISSES_KILLED_TOOL = False
    DAEMON_LETS_GO = False

    def prepare(self, world: World) -> None:
        folder = world.home.folder / ".claude"
        folder.mkdir()
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY], "rejected": []},
            "projects": {str(world.home.work): trusted},
        }
        (folder / ".claude.json").write_text(json.dumps(state))
        # Its daemon does not hand the address of the model on to its workers; its settings do.
        settings = {"env": {"ANTHROPIC_BASE_URL": world.server.url}}
        (folder / "settings.json").write_text(json.dumps(settings))

    def env(self, world: World) -> dict[str, str]:
        model = {"ANTHROPIC_BASE_URL": world.server.url, "ANTHROPIC_API_KEY": KEY}
        return {**model, **QUIET, **self.store_env(world)}

    def store_env(self, world: World) -> dict[str, str]:
        return {"CLAUDE_CONFIG_DIR": str(world.home.folder / ".claude")}

    def headless(self, prompt: str) -> list[str]:
        return ["-p", prompt, "--output-format", "stream-json", "--verbose"]

    def resume(self, mode: str, id: str, prompt: str | None) -> list[str]:
        if mode == "headless":
            return [*self.headless(prompt or "hello"), "--resume", id]
        if mode == "stream":
            return [*STREAMING, "--resume", id, *ASKING]
        return ["--resume", id, *ASKING]

    def fork(self, mode: str, id: str, prompt: str | None) -> list[str]:
        return [*self.resume(mode, id, prompt), "--fork-session"]

    def open(self, world: World) -> Running:
        return self.reopen(world, [*(STREAMING if world.mode == "stream" else ()), *ASKING])

    def reopen(self, world: World, words: list[str]) -> Running:
        if world.mode == "stream":
            return world.run(*words, lines=user_line)
        running = world.run(*words, tty=True)
        running.wait_shown(self.READY)
        return running

    def interrupt(self, running: Running) -> None:
        if running.screen is None:
            request = {"type": "control_request", "request_id": "lab", "request": {"subtype": "interrupt"}}
            running.send_line(json.dumps(request))
        else:
            running.press(ESCAPE)

    def allow(self, running: Running) -> None:
        if running.screen is not None:
            running.press("\r")
            return
        request = json.loads(ASKED.findall(running.shown())[-1])
        given = request["request"]["input"]
        answers = {one["question"]: one["options"][0]["label"] for one in given.get("questions", ())}
        answer = {"behavior": "allow", "updatedInput": {**given, **({"answers": answers} if answers else {})}}
        said = {"subtype": "success", "request_id": request["request_id"], "response": answer}
        running.send_line(json.dumps({"type": "control_response", "response": said}))

    def turns_over(self, running: Running) -> int | None:
        return running.shown().count(RESULT) if running.screen is None else None

    def tells_fresh(self, world: World) -> bool:
        return world.mode != "stream" or world.version != "2.1.197"

    def allow_questions(self, running: Running) -> None:
        pass  # it always may

    def holder(self, running: Running) -> Key:
        return running.key

    def background(self, world: World, prompt: str) -> Running:
        client = world.run("--bg", prompt, *ASKING)
        if client.wait_end():
            raise LabError(f"claude --bg failed:\n{client.shown()}")
        return client

    def daemon(self, world: World) -> Key:
        return world.process(lambda row: row.argv[1:3] == ("daemon", "run"), "its daemon").key

    def signal_in_daemon(self, world: World, running: Running, truth: Truth, number: signal.Signals) -> None:
        """The worker ends; its daemon, which lives, brings the session back in another process. An orderly end (by
        SIGINT, exit code 0) it takes for the end of the job."""
        before = len(world.server.entries)
        send(truth.key, number)
        until(lambda: not is_alive(truth.key), 40, "the worker has ended")
        if number == signal.SIGINT:
            world.expect(truth, "stopped", gone=True)
            time.sleep(10)  # by then it has brought back what ended by another signal
            if any(entry.session == truth.id for entry in world.server.entries[before:] if entry.event == "request"):
                raise LabError("its daemon has brought it back")
            world.expect(truth, "stopped", gone=True)
            return
        world.expect(truth, "unknown", gone=True, says="may be brought back")
        until(
            lambda: any(entry.session == truth.id for entry in world.server.entries[before:]), 120, "it is brought back"
        )
        again = next(entry for entry in world.server.entries[before:] if entry.session == truth.id)
        world.expect(world.truth(again), "running")

    def finish_in_daemon(self, world: World, running: Running, truth: Truth) -> None:
        if world.run("stop", truth.id[:8]).wait_end():
            raise LabError("claude stop failed")
        until(lambda: not is_alive(truth.key), 40, "the worker has ended")
        world.expect(truth, "done", gone=True)


def user_line(text: str) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}})


RECIPE = ClaudeCode()
