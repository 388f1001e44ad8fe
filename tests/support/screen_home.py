"""A home in which agents have screens: in the stand-in for tmux, so that no test needs a real one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.launch_home import Home

if TYPE_CHECKING:
    import subprocess

FAKE = Path(__file__).parent / "fake_tmux.py"
# The two questions that are asked most, without the start of an interpreter: each has its time limit.
QUICK = """\
#!/bin/sh
name=$(readlink "$3" || echo "$3")
name=${{name##*/}}
if [ "$1 $2 $4" = "-u -S capture-pane" ] && [ ! -e "$FAKE_TMUX/hangs-$name" ] && [ ! -e "$FAKE_TMUX/fails" ]; then
    exec tr -d '\\r' < "$FAKE_TMUX/screen"
fi
if [ "$1 $2 $4" = "-u -S list-panes" ] && [ ! -e "$FAKE_TMUX/hangs-$name" ] && [ ! -e "$FAKE_TMUX/fails" ]; then
    [ "$name" = default ] && from=pane || from=more
    [ -e "$FAKE_TMUX/mode" ] && mode=1 || mode=0
    [ -e "$FAKE_TMUX/$from" ] || exit 0
    exec sed "s/MODE/$mode/" "$FAKE_TMUX/$from"
fi
exec {python} {fake} "$@"
"""


class ScreenHome(Home):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.tmux = folder / "tmux"
        self.tmux.mkdir()
        self.bin = folder / "bin"
        self.program("tmux", QUICK.format(python=sys.executable, fake=FAKE))
        self.env |= {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "FAKE_TMUX": str(self.tmux),
            "TMUX_TMPDIR": str(folder / "sockets"),
        }

    def program(self, name: str, text: str) -> None:
        self.bin.mkdir(exist_ok=True)
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def open(self, *words: str) -> str:
        """The id of a demo agent in a screen, once it is at its prompt."""
        found = self.agentctl("launch", "--interactive", "demo", *words)
        assert found.returncode == 0, found.stderr
        id = found.stdout.strip()
        self.until_status(id, "idle")
        return id

    def send(self, id: str, *words: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        """With time enough for a machine that is very busy."""
        return self.agentctl("send", "--timeout", "40s", id, *words, input=input)

    def set(self, name: str, text: str = "") -> None:
        (self.tmux / name).write_text(text)

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.tmux / "calls").read_text().splitlines()]

    def prompts(self, id: str) -> list[str]:
        return [event["text"] for event in self.events(id) if event["event"] == "prompt"]
