"""Whether the program of a launch is the agent itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.launch.program import wrapper_in

if TYPE_CHECKING:
    from pathlib import Path

NODE, SHELL, ELF = "#!/usr/bin/env node\n", "#!/bin/sh\nexec ssh vm claude\n", "\x7fELF"


@pytest.mark.parametrize(
    ("agent", "path", "text", "own"),
    [
        ("claude-code", "bin/claude", ELF, True),
        ("claude-code", "share/claude/versions/2.1.325", ELF, True),
        ("claude-code", "lib/node_modules/@anthropic-ai/claude-code/cli.js", NODE, True),
        ("claude-code", "bin/claude", SHELL, False),
        ("claude-code", "bin/claude", "#!/usr/bin/env -S python3 -I\n", False),
        ("claude-code", "bin/volta-shim", ELF, False),
        ("codex", "bin/codex", NODE, True),
        ("codex", "bin/codex", "#!/usr/local/bin/bun\n", True),
        ("codex", "bin/codex-x86_64-unknown-linux-musl", ELF, True),
        ("codex", "bin/codex", SHELL, False),
        ("opencode", "bin/opencode", ELF, True),
        ("opencode", "bin/opencode", SHELL, False),
        ("codex", "bin/other", "#!/usr/bin/env\n", False),
        ("codex", "bin/other", "#!\n", False),
    ],
)
def test_the_program_of_a_launch(tmp_path: Path, agent: str, path: str, text: str, own: bool) -> None:
    program = tmp_path / path
    program.parent.mkdir(parents=True)
    program.write_text(text)
    assert wrapper_in(agent, str(program), (program.name, "-p", "x")) == (None if own else str(program))


def test_what_a_link_leads_to(tmp_path: Path) -> None:
    shim = tmp_path / "shim"
    shim.write_text(ELF)
    (tmp_path / "claude").symlink_to(shim)
    assert wrapper_in("claude-code", str(tmp_path / "claude"), ("claude",)) == str(tmp_path / "claude")
    assert wrapper_in("claude-code", str(tmp_path / "missing"), ("claude",)) == str(tmp_path / "missing")


def test_the_demo_agent() -> None:
    assert wrapper_in("demo", sys.executable, (sys.executable, "-m", "agentctl.demo_agent")) is None
    assert wrapper_in("of another version", sys.executable, ("x",)) is None
