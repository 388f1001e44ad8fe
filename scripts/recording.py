"""Three tries at one task, on the demo agent: launch, list, wait, compare, clean, recorded as they really happen.

`make screenshot` draws it anew. Runs in a clean environment of its own: scripts/contained.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.drawing import Shown, draw, watch

REPO = Path(__file__).parent.parent
OUT = REPO / "docs" / "images" / "three-tries.svg"
PAUSE, TYPING = 0.9, 0.6  # seconds: to read what was printed, and to type a command
PATIENCE = 60.0
# The demo agent does what its script says. So that the three tries differ, their tool asks which worktree it is in.
WORK = """\
case $PWD in
*-quick) echo 'cached = {}' >> app.py ;;
*-careful) printf 'from functools import cache\\n\\n' | cat - app.py > new && mv new app.py
    echo 'def test_cache(): assert True' > test_app.py ;;
*-bold) printf 'import redis\\n' > app.py ;;
esac
git add -A && git commit -qm "Cache it"
"""
SCRIPT = "[[sleep:3]] [[bash:sh /TMP/work.sh]] [[text:Answers are cached now.]]\n"
COMMANDS = (
    "agentctl launch --agent demo --model quick --agent demo --model careful --agent demo --model bold \\\n"
    "    --group speed -p 'Make it faster.' -- --script \"$(cat ../script)\"",
    "agentctl list --group speed",
    "agentctl wait --group speed --until ended",
    "agentctl compare speed",
    "agentctl compare speed --diff demo-quick",
    "agentctl worktree clean speed --delete-branch --force",
)


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="agentctl-recording-")).resolve()
    try:
        lines = play(home, prepare(home))
    finally:
        shutil.rmtree(home)
    OUT.write_text(draw(lines), encoding="utf-8")
    print(f"wrote {OUT.relative_to(REPO)}: {len(lines)} lines, {lines[-1].at:.0f} s")


def prepare(home: Path) -> dict[str, str]:
    env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    env.update({f"XDG_{name.upper()}_HOME": str(home / name) for name in ("data", "state", "config", "cache")})
    env |= {
        "HOME": str(home),
        "TMUX_TMPDIR": str(home),
        "AGENTCTL_HOME": str(home / "agentctl"),
        "PYTHONPATH": str(REPO / "src"),
    }
    env |= {"PATH": f"{home / 'bin'}:{env['PATH']}", "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {f"GIT_{who}_{what}": "me@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    (home / "bin").mkdir()
    command = home / "bin" / "agentctl"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m agentctl "$@"\n')
    command.chmod(0o755)
    (home / "work.sh").write_text(WORK)
    (home / "script").write_text(SCRIPT.replace("/TMP", str(home)))
    app = home / "app"
    app.mkdir()
    (app / "app.py").write_text("def answer(question):\n    return ask(question)\n")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "The app")):
        subprocess.run(["git", *words], cwd=app, env=env, check=True, timeout=PATIENCE)
    return env


def play(home: Path, env: dict[str, str]) -> list[Shown]:
    shown: list[Shown] = []
    now = 0.0
    for command in COMMANDS:
        now += TYPING
        shown += [Shown(now if shown else 0.0, line) for line in f"~/app $ {command}".split("\n")]
        lines, code = watch(["sh", "-c", command], env, str(home / "app"))
        if code:
            sys.exit(f"{command}: exit code {code}\n" + "\n".join(line.text for line in lines))
        shown += [Shown(now + line.at, line.text.replace(str(home), "~")) for line in lines]
        now += (lines[-1].at if lines else 0.0) + PAUSE
        shown.append(Shown(now, ""))
    return shown[:-1]


if __name__ == "__main__":
    main()
