"""What came of it, for people: a line now and then, and the table at the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.soak import oracle
from tests.soak.worktrees import NOT_IN_ONE, NOT_REMOVED, UNDER_A_SESSION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.soak.stage import Stage

# Why an answer may be `unknown`, by the beginning of its reason.
EXPLAINED = (
    ("it was written while we looked", "it was written after the process table was read; the next question tells"),
    ("in mid-turn, and pid N may be on it", "a live process of its agent has not said yet which session it is on"),
    ("no turn was begun, and pid N", "a live process of its agent has not said yet which session it is on"),
    (oracle.UNREAD, "the soak had closed its store while the command ran; a problem says so"),
    (oracle.SLOW, "the machine was too slow; a problem says so"),
    (oracle.UNATTACHED, "its process lives, and its store could not say of which session"),
    ("alive, its turn", "its process lives, and its store does not say what it does"),
    ("gone, its turn", "its process is gone, and its record could not be read"),
    ("Permission denied", "the soak had closed its record"),
)
ZERO = (oracle.FALSE_ENDED, oracle.FALSE_ALIVE, oracle.WRONG_PID, oracle.GHOST, oracle.DOUBLE)
FIRM = (oracle.WRONG_TURN, oracle.WRONG_END, oracle.MISSING, oracle.DISAGREE)
TOLD = (
    oracle.WRONG_TURN + oracle.MARKED,
    oracle.WRONG_END + oracle.MARKED,
    oracle.HEDGED,
    oracle.AT_REST,
)  # no reason to fail
RUNS = "runs.jsonl"  # one line for each soak of this checkout, beside the evidence
CHECKED = ("orphans", "stuck locks", "leaked files", "exits without a line", "hooks not run once",
           "strangers signalled", "agentctl crashes", "let in where another works", "let in where a lock is held",
           "lost events", "doubled events", "false events",
           "said stopped, and it lives", UNDER_A_SESSION, NOT_REMOVED, NOT_IN_ONE)  # fmt: skip


def progress(stage: Stage, seconds: float, what: str) -> None:
    wrong = {kind: count for kind, count in stage.verdicts.items() if kind not in (oracle.RIGHT, oracle.UNKNOWN)}
    found = ", ".join(f"{count} {kind}" for kind, count in {**wrong, **stage.failures}.items()) or "nothing wrong"
    sessions = f"{len(stage.living())} alive of {len(stage.by_id)}"
    asked = f"{stage.answers} answers, {sessions}, pids reused {stage.reused}"
    print(f"{seconds:5.0f} s  {what}, {asked}: {found}", flush=True)


def table(stage: Stage, seed: str, seconds: float, broken: list[str]) -> int:
    checked = sum(stage.verdicts.values())
    unknown = stage.verdicts[oracle.UNKNOWN]
    print(f"\nsoak: seed {seed}, {seconds:.0f} s")
    line("answers", stage.answers)
    line("  of them by the Python API, in one process", stage.by_api)
    line("judgements (of a session in an answer)", checked)
    line("list, status and why compared", stage.compared)
    line("events of the daemon judged", stage.recorded)
    line("sessions compared with its stream", stage.streamed)
    for kind in (*ZERO, *FIRM, *TOLD):
        line(kind, stage.verdicts[kind])
    line("unknown", share(unknown, checked))
    for text, value in unknown_lines(stage):
        line(f"  {text}", value)
    for kind in CHECKED:
        line(kind, stage.failures[kind])
    for kind, count in stage.failures.items():
        if kind not in CHECKED:
            line(kind, count)
    line("pids reused", stage.reused)
    for text, count in stage.notices.most_common():
        line(f"  told: {text[:90]}", count)
    print("actions")
    for kind, count in sorted(stage.actions.items()):
        line(f"  {kind}", count)
    for text in broken:
        print(f"the soak itself failed: {text}")
    why = reasons_to_fail(stage, broken)
    runs = add_run(stage.evidence.parent / RUNS, {
        "at": round(time.time()), "seed": seed, "seconds": round(seconds), "answers": stage.answers,
        "judgements": checked, "false_ended": stage.verdicts[oracle.FALSE_ENDED],
        "false_alive": stage.verdicts[oracle.FALSE_ALIVE], "unknown": unknown, "failed": why,
    })  # fmt: skip
    line("judgements in all soaks of this checkout", f"{sum(one['judgements'] for one in runs)} in {len(runs)} runs")
    if why:
        print(f"evidence: build/soak/{seed}/")
    print(f"soak: {'failed: ' + ', '.join(why) if why else 'passed'}", flush=True)
    return 1 if why else 0


def reasons_to_fail(stage: Stage, broken: list[str]) -> list[str]:
    found = [kind for kind in (*ZERO, *FIRM) if stage.verdicts[kind]]
    found += list(stage.failures)
    if not stage.reused:
        found.append("not a soak: no pid was used again")
    if not stage.answers:
        found.append("not a soak: nothing was asked")
    return [*found, *(["the soak itself"] if broken else [])]


def unknown_lines(stage: Stage) -> list[tuple[str, str]]:
    """Return which answers were unknown: by agent, by rule, and by agent, rule and reason, with why that is so."""
    checked = sum(stage.judged.values())
    agents: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    for one, count in stage.unknown.items():
        agents[one.agent] += count
        rules[one.rule] += count
    found = [(f"of {agent}", share(agents[agent], stage.judged[agent])) for agent in sorted(stage.judged)]
    found += [(f"by the rule `{rule}`", share(count, checked)) for rule, count in rules.most_common()]
    for one, count in stage.unknown.most_common():
        found.append((f"{one.agent}, {one.rule}: {one.reason}"[:72], f"{count}: {explained(one.reason)}"))
    return found


def share(count: int, of: int) -> str:
    return f"{count} of {of} ({100 * count / max(of, 1):.2f} %)"


def explained(reason: str) -> str:
    return next((why for beginning, why in EXPLAINED if reason.startswith(beginning)), "not explained")


def add_run(path: Path, run: dict[str, object]) -> list[dict[str, int]]:
    """Note this run, and return all that were noted: judgements add up over runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(run) + "\n")
    return [json.loads(text) for text in path.read_text().splitlines()]


def line(name: str, value: object) -> None:
    print(f"{name:<76} {value}")
