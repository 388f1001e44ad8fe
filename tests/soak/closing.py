"""The end: everything is stopped through agentctl, and then nothing may be left of it."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from tests.agents import OWN
from tests.soak import starting
from tests.soak.actor import new_life
from tests.soak.actors import end_tools, stop
from tests.soak.kinds import Standin
from tests.soak.lives import key_of, ticks_of
from tests.soak.oracle import DONE, SESSIONLESS
from tests.soak.worktrees import clean, worktrees
from tests.soak.world import RETENTION, ended, patiently
from tests.torture.handles import WorldError, state_of

if TYPE_CHECKING:
    from tests.soak.lives import Life
    from tests.soak.recording import Recording
    from tests.soak.stage import Stage

ORPHANS, STUCK, LEAKED = "orphans", "stuck locks", "leaked files"
EXITS, HOOKS = "exits without a line", "hooks not run once"
LEFT_BEHIND = (".new-", ".removing-", ".order", ".report", ".launch.json")


def close(stage: Stage, recording: Recording) -> None:
    for life in stage.living():
        if life.suspended:
            life.suspend(False)
        if isinstance(life, Standin) and life.log_is_held:
            life.hold_log(False)  # it is never late for long
    stop_everything(stage)
    recording.finish()
    check_strangers(stage)
    wait_for_runners(stage)
    check_exits_and_hooks(stage)
    check_orphans(stage)
    check_directories(stage)
    check_files(stage)
    stage.settle_ghosts()


def stop_everything(stage: Stage) -> None:
    for life in stage.living():
        with life.lock:
            if life.truth == SESSIONLESS:
                life.leave()  # nothing of it can be named to agentctl
            elif life.id is not None:
                stop(stage, life, grace="5s")
            if life.alive and life.is_guessed:
                stop_in_doubt(stage, life)
            if life.alive and life.has_other_name:
                life.kill()  # it is shown, and nothing proves which session it is on
                life.await_end()
            if life.alive:
                stage.fail(ORPHANS, f"{life.agent} {life.id} could not be stopped", life)
    for life in [*stage.lives, *stage.by_id.values()]:
        end_tools(life)  # what those left behind that were not ended by agentctl
        if not life.alive:
            life.reap()


def stop_in_doubt(stage: Stage, life: Life) -> None:
    """A screen at rest, and a turn of its directory that no log has, because its process was killed before: agentctl
    cannot tell which of the two this screen is on, and says so. A person names the launch, or leaves the screen."""
    stage.notices["stopped at the end by its launch, or left: which session it was on could not be told"] += 1
    if life.launched and life.launch_id is not None and not life.runner_killed:
        stop(stage, life, grace="5s", name=life.launch_id)
    else:
        life.leave()


def check_strangers(stage: Stage) -> None:
    for stranger in list(stage.strangers):
        stage.end_stranger(stranger)


def wait_for_runners(stage: Stage) -> None:
    """They go by themselves, when the last of theirs has gone and its hook has run."""
    for life in known(stage):
        runner = life.processes.get("runner")
        if runner is not None:
            try:
                patiently(f"the end of the runner of {life.id}", lambda fd=runner.pidfd: ended(fd))
            except WorldError:
                stage.fail(ORPHANS, f"the runner (pid {runner.pid}) of {life.id} lives on", life)


def known(stage: Stage) -> list[Life]:
    return list({id(life): life for life in [*stage.lives, *stage.by_id.values()]}.values())


def check_exits_and_hooks(stage: Stage) -> None:
    """Once, where the runner lived and had room for the mark and the line."""
    for life in known(stage):
        if life.hook is None:
            continue
        ran = life.hook.read_text().count("ran") if life.hook.exists() else 0
        started = life.launch_id is not None
        full = stage.world.was_full(life.born, time.monotonic())
        if ran > 1:
            stage.fail(HOOKS, f"ran {ran} times", life)
        elif ran == 0 and started and not life.runner_killed and not full:
            stage.fail(HOOKS, "never ran", life)
    for one in stage.world.launches():
        folder = stage.world.state / "launches" / one["id"]
        whose = next((life for life in known(stage) if life.launch_id == one["id"]), None)
        exits = folder / "exits.jsonl"
        lines = exits.read_text().splitlines() if exits.exists() else []
        if whose is None or whose.runner_killed or stage.world.was_full(whose.born, time.monotonic()):
            continue
        if not any('"direct": true' in line for line in lines):
            stage.fail(EXITS, f"launch {one['id']}: {lines}", whose)


def check_orphans(stage: Stage) -> None:
    """Who lives, and is not of the soak itself."""
    deadline = time.monotonic() + 5.0
    while (left := others(stage)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid, words in left:
        stage.fail(ORPHANS, f"pid {pid}: {words}")


def others(stage: Stage) -> list[tuple[int, str]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()) and state_of(int(name)) not in (None, "X", "Z"):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    found.append((int(name), file.read().replace(b"\0", b" ").decode(errors="replace")))
            except OSError:
                continue
    return found


def check_directories(stage: Stage) -> None:
    """Each of them can be launched into again."""
    for path in stage.world.directories:
        stage.world.run("unlock", "--force", str(path))
        life = new_life(stage, OWN, path)
        done = starting.launch(stage, life, DONE)
        life.lock.release()
        if done.code != 0:
            stage.fail(STUCK, f"{path}: exit {done.code}: {done.err}")
    for path in worktrees(stage.world):
        if clean(stage, path, [], force=False) != 0:
            stage.fail(STUCK, f"the worktree {path} cannot be removed")
    for folder in ("gates", "locks"):
        for path in sorted((stage.world.state / folder).glob("*")):
            if not path.name.startswith(".mutex"):
                stage.fail(STUCK, f"{path} is left")


def check_files(stage: Stage) -> None:
    """With all processes gone, nothing of any launch outlives its retention."""
    for life in known(stage):
        runner = life.processes.get("runner")
        if runner is not None and not ended(runner.pidfd):
            patiently("the last runner", lambda fd=runner.pidfd: ended(fd))
    launches = stage.world.state / "launches"
    patiently("the last runners", lambda: not any(is_running(one["runner"]) for one in stage.world.launches()))
    time.sleep(float(RETENTION.rstrip("s")) + 1.0)
    done = stage.world.run("prune", "--json")
    kept = {one["launch_id"]: one["why"] for one in json.loads(done.out or "{}").get("kept", [])}
    for path in sorted(launches.glob("*")) if launches.exists() else []:
        young = "never became a launch" in kept.get(path.name, "")  # those are kept for an hour
        if path.name != ".swept" and not young:
            stage.fail(LEAKED, f"{path}: {kept.get(path.name)}")
    for folder, _, names in os.walk(stage.world.state):
        for name in names:
            if name.startswith(LEFT_BEHIND) and "launches/" not in folder:
                stage.fail(LEAKED, os.path.join(folder, name))


def is_running(key: str) -> bool:
    pid, start = key_of(key)
    return ticks_of(pid) == start
