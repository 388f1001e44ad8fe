"""What the agents are known to do when they are controlled: exit codes, what a mode allows, what a stop leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentctl.recipes import BYPASS, DEFAULT, EDITS, PLAN
from tests.lab.errors import LabError
from tests.lab.running import Key, table, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.stage import Run, Stage

OPENCODE_PORT = 4111  # the room has a network of its own
Exits = dict[tuple[str, str], int]


@dataclass(frozen=True)
class Failure:
    name: str
    code: int
    prompt: str = "[[text:hello]]"
    more: dict[str, Any] = field(default_factory=dict)
    status: str | None = None  # what agentctl says of the session afterwards; None = there is none
    says: str | None = None
    made: Callable[[Stage], Run] | None = None  # where it is not a recipe of ours


@dataclass(frozen=True)
class Facts:
    model: str  # its usual one, as it is told
    first_signal: str
    records_end: bool  # after an orderly stop its store says that the turn was interrupted
    tool_survives: bool
    exits: Exits
    modes: dict[str, tuple[int, bool]]  # mode -> (exit code, can it write a file)
    failures: tuple[Failure, ...]
    flags: tuple[tuple[str, ...], ...]
    allow_edits: Callable[[Stage], None]  # in the person's own configuration
    background: Callable[[Stage, str], Key]
    screen: tuple[str, ...]  # its interface in a process of its own
    ready: str  # what that shows at its prompt
    screen_code: int
    screen_records_end: bool = False
    screen_tool_survives: bool = False
    daemon_stays: bool = True
    kept: dict[str, tuple[int, bool]] = field(default_factory=dict)  # where a resumed session differs from its mode
    sandbox: dict[str, str] = field(default_factory=dict)  # the environment in which nothing is refused
    keeps_bypass: bool = True
    also: Exits = field(default_factory=dict)  # another exit code that the same signal has at times
    without: dict[str, str] = field(default_factory=dict)  # checks that it cannot have, and why


def without_flag(stage: Stage, flag: str, **more: Any) -> Run:
    recipe = stage.control.start(stage.task("[[text:x]]", **more))
    plain = stage.home.folder / "plain"
    plain.mkdir(exist_ok=True)
    return stage.run(recipe._replace(argv=tuple(word for word in recipe.argv if word != flag)), plain)


def configure(stage: Stage, path: str, **more: Any) -> None:
    file = stage.home.folder / path
    file.write_text(json.dumps(json.loads(file.read_text()) | more))


# Claude Code


def claude_background(stage: Stage, prompt: str) -> Key:
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


CLAUDE = Facts(
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
    background=claude_background,
    screen=("--permission-mode", "default"),
    ready=r"(?m)^❯",
    screen_code=143,
    sandbox={"IS_SANDBOX": "1"},
    without={"stranger": "it is not interrupted: its daemon has a command for that"},
)
CLAUDE_OLDER = replace(
    CLAUDE,
    tool_survives=True,
    screen_tool_survives=True,
    exits={**CLAUDE.exits, ("SIGINT", "tool"): 1},
    also={("SIGINT", "tool"): 0},
)

# Codex


def codex_background(stage: Stage, prompt: str) -> Key:
    screen = next((one for one in stage.running if one.alive()), None)
    if screen is None:
        screen = stage.open(tty=True)
        screen.wait_shown("fake-model default", 60)
    screen.type(prompt)
    return daemon(lambda argv: "app-server" in argv and "--listen" in argv)


CODEX = Facts(
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
    background=codex_background,
    screen=("--no-daemon",),
    ready="fake-model default",
    screen_code=143,
)

# OpenCode


def opencode_background(stage: Stage, prompt: str) -> Key:
    """`serve`, and a client that has the turn run there and is gone: the session is the server's."""
    server = next((one for one in stage.running if one.alive()), None)
    if server is None:
        server = stage.open("serve", "--port", str(OPENCODE_PORT))
        server.wait_shown("listening on", 60)
    stage.open("run", "--attach", f"http://127.0.0.1:{OPENCODE_PORT}", "--dir", str(stage.home.work), prompt)
    return server.key


OPENCODE = Facts(
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
    background=opencode_background,
    screen=(),
    ready="Build · fake-model",
    screen_code=0,
    screen_records_end=True,
)


def daemon(matches: Callable[[tuple[str, ...]], bool]) -> Key:
    found: list[Key] = []

    def seen() -> bool:
        found[:] = [row.key for row in table().values() if not row.dead and matches(row.argv)]
        return bool(found)

    until(seen, 30, "its daemon")
    return found[0]


FACTS = {"claude-code": CLAUDE, "codex": CODEX, "opencode": OPENCODE}
OF_VERSION = {("claude-code", "2.1.197"): CLAUDE_OLDER}


def facts_of(agent: str, version: str) -> Facts:
    return OF_VERSION.get((agent, version), FACTS[agent])
