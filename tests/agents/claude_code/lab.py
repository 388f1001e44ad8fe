"""Claude Code in the lab."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import TYPE_CHECKING, Any

from tests.agents.claude_code import lab_facts
from tests.lab.control_facts import configure
from tests.lab.errors import LabError
from tests.lab.model.tools import question
from tests.lab.recipe import DAEMON, HEADLESS, INTERACTIVE, STREAM, Need, Recipe, Without
from tests.lab.running import ESCAPE, is_alive, send, until

if TYPE_CHECKING:
    from tests.lab.control_facts import Facts
    from tests.lab.recipe import Place
    from tests.lab.running import Key, Running
    from tests.lab.stage import Stage
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


def shell(command: str) -> dict[str, Any]:
    return {"command": command, "description": "run it"}


def sub_agent(prompt: str) -> dict[str, Any]:
    return {"description": "sub task", "prompt": prompt, "subagent_type": "general-purpose"}


class ClaudeCode(Recipe):
    PACKAGE = "@anthropic-ai/claude-code"
    VERSIONS = {"2.1.197": 235, "2.1.325": 350}  # noqa: RUF012
    MODES = (HEADLESS, INTERACTIVE, DAEMON, STREAM)
    LADDER = {  # noqa: RUF012
        "2.1.89": "2026-04-01",
        "2.1.118": "2026-04-23",
        "2.1.170": "2026-06-09",
        "2.1.228": "2026-08-11",
        "2.1.285": "2026-09-29",
        "2.1.326": "2026-11-16",
    }
    NEEDS = (Need("--bg", (DAEMON,)),)
    NOT_APPLICABLE = (
        Without(("fresh",), "`claude --bg` is given its prompt when it is started", (DAEMON,)),
        Without(
            ("killed-wrapper",),
            "its program is the native binary: there is no wrapper (its daemon's pty hosts: sigkill in daemon mode)",
        ),
        Without(
            ("question", "escape", "id-rotation"),
            "no terminal is attached; `claude attach` is another process that types for a person",
            (DAEMON,),
        ),
        Without(("opened-in-list",), "its pid file says which session its screen shows (resumed)"),
        Without(("picker",), "it has a pid file while the person chooses, or is no client of a daemon"),
        Without(("resumed", "fork"), "the session id of a background session is managed by its daemon", (DAEMON,)),
    )
    PERMISSION = r"Do you want to proceed\?"
    QUESTION = r"Enter to select"
    QUESTION_LINE = "can_use_tool"
    READY = r"(?m)^❯"
    BUSY = r"to interrupt"
    SHELL_MODE = "! for shell mode"
    TOOLS = {  # noqa: RUF012
        "bash": {"Bash": shell},
        "ask": {"Bash": shell},
        "background": {"Bash": lambda command: {**shell(command), "run_in_background": True}},
        "question": {"AskUserQuestion": lambda text: question(text, multiSelect=False)},
        "agent": {"Agent": sub_agent, "Task": sub_agent},
    }
    OTHER_MODEL = "claude-haiku-4-5"
    WRITE = '[[tool:Write:{{"file_path":"{path}","content":"x"}}]] [[text:written]]'
    ALLOWED = ("--allowedTools", "Bash")
    RETRIED = ("err:401",)
    OWN_SCREEN = " attach "
    DAEMON_IS_SENT_TO = False

    def facts(self, version: str) -> Facts:
        return lab_facts.OLDER if version == "2.1.197" else lab_facts.FACTS

    def allow_shell(self, stage: Stage) -> None:
        configure(stage, ".claude/settings.json", permissions={"allow": ["Bash"]})

    def prepare(self, place: Place) -> None:
        folder = place.home.folder / ".claude"
        folder.mkdir()
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY], "rejected": []},
            "projects": {str(place.home.work): trusted},
        }
        (folder / ".claude.json").write_text(json.dumps(state))
        # Its daemon does not hand the address of the model on to its workers; its settings do.
        settings = {"env": {"ANTHROPIC_BASE_URL": place.server.url}}
        (folder / "settings.json").write_text(json.dumps(settings))

    def env(self, place: Place) -> dict[str, str]:
        model = {"ANTHROPIC_BASE_URL": place.server.url, "ANTHROPIC_API_KEY": KEY}
        return {**model, **QUIET, **self.store_env(place)}

    def store_env(self, place: Place) -> dict[str, str]:
        return {"CLAUDE_CONFIG_DIR": str(place.home.folder / ".claude")}

    def headless(self, prompt: str) -> list[str]:
        return ["-p", prompt, "--output-format", "stream-json", "--verbose", *ASKING]  # 2.1.285 decides itself without

    def resume(self, mode: str, id: str, prompt: str | None) -> list[str]:
        if mode == HEADLESS:
            return [*self.headless(prompt or "hello"), "--resume", id]
        if mode == STREAM:
            return [*STREAMING, "--resume", id, *ASKING]
        return ["--resume", id, *ASKING]

    def fork(self, mode: str, id: str, prompt: str | None) -> list[str]:
        return [*self.resume(mode, id, prompt), "--fork-session"]

    def open(self, world: World) -> Running:
        return self.reopen(world, [*(STREAMING if world.mode == STREAM else ()), *ASKING])

    def reopen(self, world: World, words: list[str]) -> Running:
        if world.mode == STREAM:
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
        return says_status(world)

    def tells_taken_back(self, world: World) -> bool:
        return says_status(world)

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


def says_status(world: World, seconds: float = 3.0) -> bool:
    """Return whether the file of its process says what it does. That of a newer version does after a moment."""
    deadline = time.monotonic() + seconds
    while True:
        files = (world.home.folder / ".claude" / "sessions").glob("*.json")
        if any('"status":' in file.read_text() for file in files):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)


def user_line(text: str) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}})


RECIPE = ClaudeCode()
