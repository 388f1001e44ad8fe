"""Follows docs/adding-an-agent.md word for word: the agent that it adds is listed, launched and stopped."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.demo_home import SOURCES, TIMEOUT
from tests.support.launch_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-agent.md"
BLOCK = re.compile(r"^```python (\S+)\n(.*?)^```$", re.M | re.S)
LINE = re.compile(r"^```table\n(.*?)^```$", re.M | re.S)
TABLE = "TABLE = {\n"
# What the page says the toy agent does, and nothing more. A shell script would run under the shell's name.
PROGRAM = """\
#!{python}
import json, os, signal, sys, time
with open("/proc/self/comm", "w") as comm:
    comm.write("toy-agent")
folder, id = os.path.join(os.environ["HOME"], ".toy"), sys.argv[1]
os.makedirs(folder, exist_ok=True)
with open("/proc/self/stat") as stat:
    start = int(stat.read().rpartition(")")[2].split()[19])
prompt = sys.stdin.read()
def say(**event):
    with open(f"{{folder}}/{{id}}.jsonl", "a") as file:
        file.write(json.dumps({{**event, "at": time.time()}}) + "\\n")
with open(f"{{folder}}/{{id}}.new", "w") as file:
    json.dump({{"pid": os.getpid(), "start": start}}, file)
say(event="prompt", text=prompt)
os.rename(f"{{folder}}/{{id}}.new", f"{{folder}}/{{id}}.json")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
while prompt == "forever":
    time.sleep(0.05)
say(event="answer", text="done")
os.unlink(f"{{folder}}/{{id}}.json")
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the sources with what the page adds."""
    root = tmp_path / "sources"
    shutil.copytree(SOURCES, root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    assert sorted(Path(name).name for name in blocks) == ["__init__.py", "adapter.py", "control.py", "store.py"]
    for name, code in blocks.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(code)
    (line,) = LINE.findall(PAGE.read_text())
    table = root / "src" / "agentctl" / "agents" / "__init__.py"
    text = table.read_text()
    assert text.count(TABLE) == 1
    table.write_text(text.replace(TABLE, TABLE + line))
    return root / "src"


@pytest.fixture
def toy(tmp_path: Path, sources: Path) -> Iterator[Home]:
    (tmp_path / "home").mkdir()
    home = Home(tmp_path / "home")
    bin = tmp_path / "bin"
    bin.mkdir()
    program = bin / "toy-agent"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    home.env.update(PATH=f"{bin}{os.pathsep}{home.env['PATH']}", PYTHONPATH=str(sources))
    try:
        yield home
    finally:
        home.end_all()


def rows(home: Home, *words: str) -> list[dict[str, object]]:
    done = home.agentctl("list", "--json", *words)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["problems"] == []
    found: list[dict[str, object]] = answer["sessions"]
    return found


def test_it_is_launched_listed_and_stopped(toy: Home) -> None:
    launched = toy.agentctl("launch", "toy", "-p", "forever", "--json")
    assert launched.returncode == 0, launched.stderr
    id = json.loads(launched.stdout)["session"]["id"]
    (row,) = rows(toy)
    assert (row["agent"], row["id"], row["status"], row["link"]) == ("toy", id, "running", "exact")
    assert "its last event is prompt" in toy.agentctl("why", id).stdout
    stopped = toy.agentctl("stop", id)
    assert stopped.returncode == 0, stopped.stderr
    (row,) = rows(toy, "-a")
    assert (row["id"], row["status"], row["process"]) == (id, "stopped", "gone")


def test_it_is_waited_for(toy: Home) -> None:
    done = toy.agentctl("launch", "toy", "-p", "be quick", "--wait")
    assert done.returncode == 0, done.stderr
    (row,) = rows(toy, "-a")
    assert (row["status"], row["exit_code"]) == ("done", 0)


def test_what_it_does_not_count_is_told(toy: Home) -> None:
    (Path(toy.env["HOME"]) / ".toy").mkdir()
    done = toy.agentctl("usage", "--agent", "toy", "--json")
    assert done.returncode == 0, done.stderr
    assert [one["problem"] for one in json.loads(done.stdout)["problems"]] == [
        "agentctl does not count what this agent spends"
    ]


def test_without_controls_it_cannot_be_started(toy: Home, sources: Path) -> None:
    (sources / "agentctl" / "agents" / "toy" / "control.py").unlink()
    done = toy.agentctl("launch", "toy", "-p", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "agentctl cannot start toy" in done.stderr


def test_its_code_is_held_to_the_base_classes(sources: Path) -> None:
    """As `make lint` would: the page's code has no fault that mypy sees, and one that leaves out what must be written
    has."""
    package = sources / "agentctl" / "agents" / "toy"

    def checked() -> subprocess.CompletedProcess[str]:
        words = [
            "--strict",
            "--python-version",
            "3.11",
            "--cache-dir",
            str(sources / "cache"),
            "-p",
            "agentctl.agents.toy",
        ]
        return subprocess.run(
            [sys.executable, "-m", "mypy", *words],
            env={**os.environ, "MYPYPATH": str(sources)},
            cwd=sources,
            capture_output=True,
            text=True,
            timeout=TIMEOUT * 4,
            check=False,
        )

    assert checked().returncode == 0, checked().stdout
    store = (package / "store.py").read_text()
    (package / "store.py").write_text(store.replace("def record(", "def recorded("))
    assert 'abstract attribute "record"' in checked().stdout
