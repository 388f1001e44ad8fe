"""What Claude Code is known to do when it is controlled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentctl.agents.recipes import BYPASS, DEFAULT, EDITS, PLAN
from tests.lab.control_facts import Facts, Failure, configure, daemon
from tests.lab.errors import LabError

if TYPE_CHECKING:
    from tests.lab.running import Key
    from tests.lab.stage import Run, Stage


def background(stage: Stage, prompt: str) -> Key:
    client = stage.open("--bg", prompt, "--permission-mode", "default")
    if client.wait_end(60):
        raise LabError(f"claude --bg failed:\n{client.shown()}")
    return daemon(lambda argv: argv[1:3] == ("daemon", "run"))


def id_in_use(stage: Stage) -> Run:
    first = stage.launch("[[text:first]]")
    first.wait()
    recipe = stage.control.start(stage.task("[[text:x]]"))
    used = tuple(first.recipe.session_id if word == recipe.session_id else word for word in recipe.argv)
    return stage.run(recipe._replace(argv=used))


FACTS = Facts(
    model="opus",
    first_signal="SIGTERM",
    records_end=False,
    tool_survives=False,
    exits={
        ("SIGINT", "tool"): 0,
        ("SIGINT", "model"): 0,
        ("SIGTERM", "tool"): 143,
        ("SIGTERM", "model"): 143,
        ("SIGHUP", "tool"): 129,
        ("SIGKILL", "tool"): -9,
        ("SIGKILL", "model"): -9,
    },
    modes={DEFAULT: (0, False), PLAN: (0, False), EDITS: (0, True), BYPASS: (1, False)},
    failures=(
        Failure("an error of the API", 1, "[[err:400]]", status="failed"),
        Failure("the limit of turns", 1, "[[bash:true]] [[text:x]]", {"flags": ("--max-turns", "1")}, "failed"),
        Failure(
            "permission refused", 0, "[[ask:touch forbidden]] [[text:x]]", status="done", says="permission_denials"
        ),
        Failure("an id that is in use", 1, says="already in use", made=id_in_use),
        Failure("a flag that it does not have", 1, more={"flags": ("--frobnicate",)}, says="unknown option"),
    ),
    flags=(("--allowedTools", "Read", "Grep"), ("--add-dir", "/tmp", "/var"), ("--verbose", "-p")),
    allow_edits=lambda stage: configure(stage, ".claude/settings.json", permissions={"allow": ["Write", "Edit"]}),
    background=background,
    screen=("--permission-mode", "default"),
    ready=r"(?m)^❯",
    screen_code=143,
    sandbox={"IS_SANDBOX": "1"},
    without={"stranger": "it is not interrupted: its daemon has a command for that"},
)
OLDER = replace(  # 2.1.197
    FACTS,
    tool_survives=True,
    screen_tool_survives=True,
    background_tool_survives=None,
    exits={**FACTS.exits, ("SIGINT", "tool"): 1},
    also={("SIGINT", "tool"): 0},
)
