"""What OpenCode is known to do when it is controlled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentctl.agents.recipes import BYPASS, DEFAULT, EDITS, PLAN
from tests.lab.control_facts import Facts, Failure, configure

if TYPE_CHECKING:
    from tests.lab.running import Key
    from tests.lab.stage import Stage


PORT = "4111"  # the room has a network of its own
SERVER = f"http://127.0.0.1:{PORT}"


def background(stage: Stage, prompt: str) -> Key:
    """`serve`, and a client that has the turn run there and is gone: the session is the server's."""
    server = next((one for one in stage.running if one.alive()), None)
    if server is None:
        server = stage.open("serve", "--port", PORT)
        server.wait_shown("listening on", 60)
    stage.open("run", "--attach", SERVER, "--dir", str(stage.home.work), prompt)
    return server.key


FACTS = Facts(
    model="fake/fake-model",
    first_signal="SIGTERM",
    records_end=False,
    tool_survives=True,
    exits={
        ("SIGINT", "tool"): -2,
        ("SIGINT", "model"): -2,
        ("SIGTERM", "tool"): -15,
        ("SIGTERM", "model"): -15,
        ("SIGKILL", "tool"): -9,
    },
    modes={DEFAULT: (0, False), PLAN: (0, False), EDITS: (0, True), BYPASS: (0, True)},
    kept={EDITS: (0, False), BYPASS: (0, False)},  # neither is stored
    keeps_bypass=False,
    failures=(
        Failure("an error of the API", 1, "[[err:400]]", status="failed"),
        Failure("a model that it does not have", 1, more={"model": "fake/none"}, status="stopped"),
        Failure("permission refused", 0, "[[ask:touch forbidden]] [[text:x]]", says="auto-rejecting", status="done"),
        Failure("an agent that it does not have", 0, more={"flags": ("--agent", "none")}, status="done"),
    ),
    flags=(("--file", "/etc/hostname", "/etc/hosts"), ("--print-logs", "--title", "a title"), ("--log-level", "ERROR")),
    allow_edits=lambda stage: configure(stage, "config/opencode/opencode.json", permission={"edit": "allow"}),
    background=background,
    screen=(),
    ready="Build · fake-model",
    screen_code=0,
    screen_records_end=True,
)
