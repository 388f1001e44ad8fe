"""One cell, inside its room: python -m tests.lab.cell AGENT VERSION MODE STATE PROGRAM RESULT. Writes its result as
JSON to the file RESULT; the runner outside reads it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.lab.errors import LabError, WrongAnswer
from tests.lab.plays_places import PLAYS
from tests.lab.recipes import RECIPES
from tests.lab.world import World

LIMIT = 500
FOLDER = Path("/tmp/lab")  # in a /tmp of its own; short, because socket names are


def main(agent: str, version: str, mode: str, state: str, program: str, result: str) -> int:
    signal.alarm(LIMIT)  # the room ends with this process, also when the runner that would end it is gone
    FOLDER.mkdir()
    began = time.monotonic()
    report: dict[str, object] = {"passed": False, "text": ""}
    try:
        with World(RECIPES[agent], Path(program), version, mode, FOLDER) as world:
            told = play(world, state)
            keep_evidence(passed=not told)
            found = world.finish()
            report.update(vars(found) | {"wrong": len(found.wrong), "waited": world.waited})
            if found.wrong:
                keep_evidence(passed=False)
                first = "\n".join(found.wrong[:3])
                told = f"{told}\nthe API, {len(found.wrong)} wrong answers:\n{first}".strip()
            report["text"], report["passed"] = told, not told
    except (LabError, OSError) as error:
        report["text"] = f"{report['text']}\n{error}".strip()
    report["seconds"] = time.monotonic() - began
    Path(result).write_text(json.dumps(report))
    return 0


def play(world: World, state: str) -> str:
    """What went wrong; nothing, if all is well."""
    try:
        PLAYS[state](world)
    except WrongAnswer as error:
        return f"agentctl: {error}"
    except (LabError, OSError) as error:
        return f"the lab could not bring it there: {error}"
    return ""


def keep_evidence(*, passed: bool) -> None:
    """With AGENTCTL_LAB_KEEP: the home as it was when the cell failed, before anything is ended."""
    keep = os.environ.get("AGENTCTL_LAB_KEEP")
    if keep and (not passed or os.environ.get("AGENTCTL_LAB_KEEP_ALL")):
        shutil.copytree(
            FOLDER, keep, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("packages", "*.sock")
        )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
