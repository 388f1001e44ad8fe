"""What Codex is known to do when it is controlled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentctl.agents.recipes import BYPASS, DEFAULT, EDITS, PLAN
from tests.lab.control_facts import Facts, Failure, daemon, without_flag

if TYPE_CHECKING:
    from tests.lab.running import Key
    from tests.lab.stage import Stage


def background(stage: Stage, prompt: str) -> Key:
    screen = next((one for one in stage.running if one.alive()), None)
    if screen is None:
        screen = stage.open(tty=True)
        screen.wait_shown("fake-model default", 60)
    screen.type(prompt)
    return daemon(lambda argv: "app-server" in argv and "--listen" in argv)


FACTS = Facts(
    model="fake-model",
    first_signal="SIGINT",
    records_end=True,
    tool_survives=False,
    exits={
        ("SIGINT", "tool"): 1,
        ("SIGINT", "model"): 1,
        ("SIGTERM", "tool"): -15,
        ("SIGTERM", "model"): -15,
        ("SIGHUP", "tool"): -1,
        ("SIGKILL", "tool"): -9,
        ("SIGKILL", "model"): -9,
    },
    modes={DEFAULT: (0, True), PLAN: (0, False), EDITS: (0, True), BYPASS: (0, True)},
    failures=(
        Failure("an error of the API", 1, "[[err:400]]", status="failed"),
        Failure("permission refused", 0, "[[ask:touch forbidden]] [[text:x]]", status="done"),
        Failure(
            "not a git repository",
            1,
            says="--skip-git-repo-check",
            made=lambda stage: without_flag(stage, "--skip-git-repo-check"),
        ),
        Failure("a flag that it does not have", 2, more={"flags": ("--frobnicate",)}, says="unexpected argument"),
    ),
    flags=(("--image", "/none.png", "/none2.png"), ("--json", "--skip-git-repo-check"), ("-c", "model_verbosity=low")),
    allow_edits=lambda stage: None,  # its configuration here has sandbox_mode = "workspace-write"
    background=background,
    screen=("--no-daemon",),
    ready="fake-model default",
    screen_code=143,
)
