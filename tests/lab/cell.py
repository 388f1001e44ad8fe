"""One cell, inside its room: python -m tests.lab.cell AGENT VERSION MODE STATE PROGRAM RESULT. Writes its result as
JSON to the file RESULT; the runner outside reads it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from pathlib import Path

from tests.lab.agents import RECIPES
from tests.lab.errors import LabError, WrongAnswer
from tests.lab.plays import PLAYS
from tests.lab.world import World

FOLDER = Path("/tmp/lab")  # in a /tmp of its own; short, because socket names are


def main(agent: str, version: str, mode: str, state: str, program: str, result: str) -> int:
    FOLDER.mkdir()
    began = time.monotonic()
    report: dict[str, object] = {"passed": False, "text": ""}
    world = World(RECIPES[agent], Path(program), version, mode, FOLDER)
    try:
        with world:
            try:
                PLAYS[state](world)
                ran = True
            except WrongAnswer as error:
                report["text"] = f"agentctl: {error}"
                ran = False
            except (LabError, OSError) as error:
                report["text"] = f"the lab could not bring it there: {error}"
                ran = False
            keep_evidence(world, ran)
            found = world.finish()
            report.update(vars(found) | {"wrong": len(found.wrong)})
            if found.wrong:
                first = "\n".join(found.wrong[:3])
                report["text"] = f"{report['text']}\nthe API, {len(found.wrong)} wrong answers:\n{first}".strip()
            report["passed"] = ran and not found.wrong
    except (LabError, OSError) as error:
        report["text"] = f"{report['text']}\n{error}".strip()
    except Exception:  # noqa: BLE001 -- a defect of the lab itself must be told, too, not end in silence
        report["text"] = f"{report['text']}\nthe lab itself failed:\n{traceback.format_exc()}".strip()
    report["seconds"] = time.monotonic() - began
    Path(result).write_text(json.dumps(report))
    return 0


def keep_evidence(world: World, passed: bool) -> None:
    """With AGENTCTL_LAB_KEEP: the home as it was when the cell failed, before anything is ended."""
    keep = os.environ.get("AGENTCTL_LAB_KEEP")
    if keep and (not passed or os.environ.get("AGENTCTL_LAB_KEEP_ALL")):
        shutil.copytree(
            FOLDER, keep, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("packages", "*.sock")
        )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
