"""Whether a process is proved to execute an agent: by its executable, never by a name that it can choose."""

from __future__ import annotations

import pytest

from agentctl.agents import load
from agentctl.agents.base import option
from agentctl.model import Details, Process, ProcessKey

SCRIPT = "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"


@pytest.mark.parametrize(
    ("agent", "exe", "argv", "proved"),
    [
        ("claude-code", "/home/u/.local/share/claude/versions/2.1.325", "claude", True),
        ("claude-code", "/usr/bin/claude", "cc", True),
        ("claude-code", "/usr/bin/node", f"node {SCRIPT}", True),
        ("claude-code", "/usr/bin/node-22", f"claude {SCRIPT}", True),
        ("claude-code", "/usr/bin/node", "claude server.js", False),
        ("claude-code", "/usr/bin/bash", f"claude {SCRIPT}", False),
        ("claude-code", "/home/u/bin/zsh", "claude", False),
        ("claude-code", "", "claude", False),
        ("codex", "/opt/codex-x86_64-unknown-linux-musl", "codex", True),
        ("codex", "/usr/bin/bash", "codex", False),
        ("opencode", "/usr/bin/.opencode", "x", True),
        ("opencode", "/usr/bin/bash", "opencode", False),
        ("demo", "/usr/bin/python3.11", "python -m agentctl.demo_agent", True),
        ("demo", "/usr/bin/python3.11", "python /usr/bin/agentctl-demo", True),
        ("demo", "/usr/bin/bash", "python -m agentctl.demo_agent", False),
        ("demo", "/usr/bin/python3.11", "python x.py", False),
    ],
)
def test_an_agent_is_proved_by_what_it_executes(agent: str, exe: str, argv: str, proved: bool) -> None:
    assert load(agent).executes(Details(argv=tuple(argv.split()), exe=exe or None)) is proved


@pytest.mark.parametrize(
    ("exe", "argv", "role"),
    [
        ("codex-x86_64-unknown-linux-musl", "codex-x86_64-unknown-linux-musl exec go", "agent"),
        ("codex-aarch64-apple-darwin", "cx", "agent"),
        ("codex-x86_64-unknown-linux-musl", "codex-linux-sandbox ls", "helper"),
        ("codex", "codex-linux-sandbox ls", "helper"),
        ("codex", "apply_patch", "helper"),
        ("bash", "codex-tools", None),
        ("codex", "codex-latest exec go", "agent"),
        ("codex-beta", "codex-beta", "agent"),
        ("codex", "codex -- exec", "agent"),
        ("codexbar", "codexbar", None),
    ],
)
def test_codex_under_the_names_of_its_releases(exe: str, argv: str, role: str | None) -> None:
    words = tuple(argv.split())
    process = Process(ProcessKey("boot", 7, 70), 1, words[0][:15], "S")
    assert load("codex").claims(process, Details(argv=words, exe=f"/opt/{exe}")) == role


@pytest.mark.parametrize(
    ("agent", "argv", "env", "role"),
    [
        ("opencode", "opencode run what -v", {}, "client"),
        ("opencode", "opencode run -- what does grep -v do", {}, "agent"),
        ("opencode", "opencode run x", {"BUN_BE_BUN": "0"}, "agent"),
        ("opencode", "opencode run x", {"BUN_BE_BUN": "false"}, "agent"),
        ("opencode", "opencode install", {"BUN_BE_BUN": "1"}, "helper"),
        ("claude-code", "claude --bg", {}, "client"),
        ("claude-code", "claude -p -- --bg", {}, "agent"),
    ],
)
def test_what_follows_two_dashes_is_text(agent: str, argv: str, env: dict[str, str], role: str) -> None:
    words = tuple(argv.split())
    process = Process(ProcessKey("boot", 7, 70), 1, words[0], "S")
    assert load(agent).claims(process, Details(argv=words, exe=f"/opt/{words[0]}", env=env)) == role


@pytest.mark.parametrize(("argv", "named"), [("claude --resume x", "x"), ("claude -- --resume x", None)])
def test_no_option_is_read_from_text(argv: str, named: str | None) -> None:
    assert option(argv.split(), "--resume") == named
