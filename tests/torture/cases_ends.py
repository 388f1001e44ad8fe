"""Normal ends, watched all the way through: never taken for a death in mid-turn."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex
from tests.agents.demo.torture import Demo
from tests.agents.opencode import standin_files
from tests.agents.opencode.torture import OpenCode
from tests.torture import handles
from tests.torture.handles import Handle, wait_until
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks, timed_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.world import World

PAUSE = 0.006  # between two steps of a turn
LONG_PAUSE = 0.05  # so that what was written before is not new any more
TOGETHER = 3
ROUNDS = 2
TURNS_PER_ROUND = 32


def claude_turn(world: World, style: str) -> tuple[str, Handle]:
    """A whole headless run of Claude Code, on its own: a model call, a tool, an answer, an orderly end."""
    id = str(uuid.uuid4())
    busy = "busy" if style == "new" else None
    script: list[Any] = [
        ["register", {"status": None}], ["sleep", {"seconds": PAUSE}], ["status", {"status": busy}],
        ["prompt", {"text": "go"}], ["sleep", {"seconds": PAUSE}], ["call", {"command": "true"}],
        ["sleep", {"seconds": PAUSE}], ["result", {}], ["sleep", {"seconds": PAUSE}], ["answer", {}],
        ["sleep", {"seconds": PAUSE}], ["end", {"linger": 0.03}],
    ]  # fmt: skip
    argv = ["claude", "-p", "go", "--session-id", id, "--output-format", "stream-json", "--verbose"]
    config = {"kind": Claude.STANDIN, "style": style, "headless": True, "id": id, "root": str(world.root(Claude))}
    return id, start_script(world, "claude", {**config, "argv": argv, "script": script})


def codex_turn(world: World) -> tuple[str, Handle]:
    id = timed_id()
    script: list[Any] = [
        ["open", {}], ["sleep", {"seconds": PAUSE}], ["prompt", {"text": "go"}], ["sleep", {"seconds": PAUSE}],
        ["call", {"command": "true"}], ["sleep", {"seconds": PAUSE}], ["result", {}],
        ["sleep", {"seconds": PAUSE}], ["complete", {}], ["end", {"linger": 0.01}],
    ]  # fmt: skip
    argv = [CODEX_BINARY, "exec", "--json", "go"]
    config = {"kind": Codex.STANDIN, "source": "exec", "policy": "never", "id": id, "root": str(world.root(Codex))}
    return id, start_script(world, "codex", {**config, "argv": argv, "script": script, "handles": [2]})


def opencode_turn(world: World) -> tuple[str, Handle]:
    id = standin_files.timed_id("ses")
    script: list[Any] = [
        ["open", {}], ["sleep", {"seconds": PAUSE}], ["begin", {}], ["sleep", {"seconds": PAUSE}], ["prompt", {}],
        ["sleep", {"seconds": PAUSE}], ["step", {}], ["sleep", {"seconds": PAUSE}],
        ["call", {"command": "true", "allowed": True}], ["sleep", {"seconds": PAUSE}], ["result", {}],
        ["sleep", {"seconds": PAUSE}], ["step", {}], ["sleep", {"seconds": LONG_PAUSE}], ["answer", {}],
        ["end", {}],
    ]  # fmt: skip
    argv = ["opencode", "run", "--format", "json", "please do it"]
    config = {
        "kind": OpenCode.STANDIN,
        "command": "run",
        "layout": "database",
        "id": id,
        "root": str(world.root(OpenCode)),
    }
    return id, start_script(world, "opencode", {**config, "argv": argv, "script": script, "handles": []})


def start_script(world: World, program: str, config: dict[str, Any]) -> Handle:
    command = handles.arguments(world.config_file(config), config["argv"])
    popen = subprocess.Popen(
        command,
        executable=world.programs.path(program),
        cwd=world.work,
        env={**world.env, **world.programs.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    handle = Handle(popen.pid, start_ticks(popen.pid), popen)
    world.keep(handle)
    return handle


def demo_turn(world: World) -> tuple[str, Handle]:
    id = str(uuid.uuid4())
    popen = subprocess.Popen(
        [sys.executable, "-S", "-m", "agentctl.demo_agent", "--session-id", id, "-p", "[[sleep:0.03]] [[bash:true]]"],
        cwd=world.work,
        env=world.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    handle = Handle(popen.pid, start_ticks(popen.pid), popen)
    world.keep(handle)
    return id, handle


def run_turns(world: World, kind: str, count: int) -> list[str]:
    """Whole runs, a few at the same time, until that many have ended."""
    world.root(Codex).mkdir(exist_ok=True)
    starters = {
        "claude": lambda: claude_turn(world, "new"),
        "older claude": lambda: claude_turn(world, "old"),
        "codex": lambda: codex_turn(world),
        "opencode": lambda: opencode_turn(world),
        "demo agent": lambda: demo_turn(world),
    }
    ids: list[str] = []
    running: list[Handle] = []
    while len(ids) < count or running:
        running = [handle for handle in running if not handle.has_ended()]
        while len(ids) < count and len(running) < TOGETHER:
            id, handle = starters[kind]()
            ids.append(id)
            running.append(handle)
        time.sleep(0.002)
    return ids


PAUSING_COMMAND = """
import os, sys, time
if "agentctl" in sys.orig_argv:
    import agentctl.kernel.processes as table
    take = table.snapshot
    def pause():
        if not os.path.exists({flag!r}):
            open({flag!r}, "x").close()
            deadline = time.monotonic() + 10
            while not os.path.exists({go!r}) and time.monotonic() < deadline:
                time.sleep(0.002)
    def snapshot(*names):
        if {before}:
            pause()
        found = take(*names)
        if not {before}:
            pause()
        return found
    table.snapshot = snapshot
"""


def ask_in_between(world: World, *, before: bool, happens: Callable[[], None]) -> None:
    """Hold the real command once, before or after it reads the process table, while something happens."""
    name = uuid.uuid4().hex
    flag, go, folder = world.folder / f"{name}.held", world.folder / f"{name}.go", world.folder / name
    folder.mkdir()
    text = PAUSING_COMMAND.format(flag=str(flag), go=str(go), before=before)
    (folder / "sitecustomize.py").write_text(text)
    env = {**world.env, "PYTHONPATH": f"{folder}:{world.env['PYTHONPATH']}"}
    words = [*world.command, "list", "-a", "--since", "all", "--json"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as command:
        wait_until("the command is held", flag.exists)
        happens()
        go.touch()
        world.listing = world.listing_in(command.communicate(timeout=20)[0])


@case("normal-end")
def end_in_between(world: World) -> None:
    """agents that end normally at the very moment between two readings"""
    for before in (True, False):
        when = "just before" if before else "just after"
        claude = Claude.spawn(world, "busy", headless=True).mid_model()
        older = Claude.spawn(world, None, style="old", headless=True).mid_model()
        codex = Codex.spawn(world).mid_model()
        demo = Demo.spawn(world, "[[ask:true]]", status="waiting")

        def end_all(claude: Claude = claude, older: Claude = older, codex: Codex = codex, demo: Demo = demo) -> None:
            for agent in (claude, older):
                agent.do("answer")
                agent.leave()
            codex.do("complete")
            codex.leave()
            (demo.folder / "answer").write_text("y")
            demo.reap()

        ask_in_between(world, before=before, happens=end_all)
        words = ("done",) if before else ("done", "idle", "running", "waiting", "unknown")
        for label, id in {"claude": claude.id, "older claude": older.id, "codex": codex.id, "demo": demo.id}.items():
            world.check(f"{label} ended {when} the table was read", id, words)


@case("normal-end")
def begin_in_between(world: World) -> None:
    """agents that begin just after the process table was read: not in it, and not dead"""
    begun: dict[str, str] = {}
    Claude.spawn(world, "idle")
    Codex.spawn(world, source="cli")
    Demo.spawn(world, None, status="idle")

    def begin_all() -> None:
        begun["claude"] = Claude.spawn(world, "busy").mid_model().id
        begun["older claude"] = Claude.spawn(world, None, style="old", headless=True).mid_model().id
        begun["codex"] = Codex.spawn(world).mid_model().id
        demo = Demo.spawn(world, "[[sleep:300]]")
        demo.wait_for_event("prompt")
        begun["demo agent"] = demo.id

    ask_in_between(world, before=False, happens=begin_all)
    for label, id in begun.items():
        world.check(f"{label} begun just after the table was read", id, ("running", "unknown"))


@case("normal-end")
def begin_before_the_table(world: World) -> None:
    """agents that begin after their store was looked through, and before the process table is read"""
    begun: dict[str, Handle] = {}
    ids: dict[str, str] = {}
    Claude.spawn(world, "idle")
    Demo.spawn(world, None, status="idle")

    def begin_all() -> None:
        claude = Claude.spawn(world, "busy").mid_model()
        demo = Demo.spawn(world, "[[sleep:300]]")
        demo.wait_for_event("prompt")
        begun.update({"claude": claude, "demo agent": demo})
        ids.update({"claude": claude.id, "demo agent": demo.id})
        time.sleep(LONG_PAUSE)

    ask_in_between(world, before=True, happens=begin_all)
    for label, agent in begun.items():
        truth = f"{label} begun just before the table was read"
        world.check(truth, ids[label], "running", pid=agent, link="exact", inferred=False)


@case("normal-end")
def ending(world: World) -> None:
    """claude in its last moments: its file is gone, its process is still there"""
    done = Claude.spawn(world, "busy", headless=True, cwd=world.folder_at("one")).mid_model()
    done.do("answer")
    terminated = Claude.spawn(world, "busy", cwd=world.folder_at("two")).mid_model()
    for agent in (done, terminated):
        agent.file.unlink()
    world.look()
    world.check("its turn is over", done.id, "done", process="gone", inferred=True)
    world.check_unattached("its process", done, [done.id, terminated.id])  # its directory is only a hint
    world.check("its turn is not over", terminated.id, "unknown", process="unknown")
    world.check_unattached("its process", terminated, [terminated.id])


def unexplained(seen: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Rows that were missing, but for those of a store that did not answer in time, which is a problem of that poll."""
    late = {(began, ended) for text, began, ended in seen["problems"] if "did not answer" in text}
    return [one for one in seen["missing"] if (one[1], one[2]) not in late]


@case("normal-end")
def normal_end(world: World) -> None:
    """polled all through hundreds of normal ends"""
    for kind in ("claude", "older claude", "codex", "opencode", "demo agent"):
        seen_alive = ended = polls = looks = problems = 0
        wrong: list[str] = []
        for _ in range(ROUNDS):
            poller = world.poller()
            stop = world.folder / f"stop-{uuid.uuid4()}"
            poller.watch(stop)
            ids = run_turns(world, kind, TURNS_PER_ROUND)
            time.sleep(0.3)
            stop.touch()
            seen = poller.seen()
            polls += seen["polls"]
            looks += sum(seen["counts"].values())
            ended += len(ids)
            seen_alive += sum(bool({"running", "alive", "idle"} & set(seen["states"].get(id, []))) for id in ids)
            wrong += [f"{one['id']}: {one}" for one in seen["stopped"]]
            wrong += [f"{id}: {states}" for id, states in seen["states"].items() if "failed" in states]
            after = poller.once()  # however slow the last poll was
            ends = {id: after.get(id, {}).get("status") for id in ids}
            wrong += [f"{id}: ended as {status}" for id, status in ends.items() if status != "done"]
            wrong += [f"{id} vanished" for id, _, _ in unexplained(seen)]
            problems += len(seen["problems"])
            world.end_processes()
            world.clear_stores()
        # A file that is being created while it is read is a problem for that moment, and no more than that.
        said = f"{len(wrong)} wrong in {ended} ends, {polls} polls, {looks} rows; {problems} problems"
        world.says(f"{kind}: never stopped, done in the end, never missing", said, not wrong, "\n".join(wrong[:6]))
        world.says(f"{kind}: the polls saw some of them alive", f"{seen_alive} of {ended}", seen_alive > 0)


@case("normal-end")
def normal_end_by_command(world: World) -> None:
    """the same through the real command"""
    wrong, looks, polls = [], 0, 0
    for kind in ("claude", "codex", "opencode", "demo agent"):
        starters = {
            "claude": lambda: claude_turn(world, "new"),
            "codex": lambda: codex_turn(world),
            "opencode": lambda: opencode_turn(world),
            "demo agent": lambda: demo_turn(world),
        }
        world.root(Codex).mkdir(exist_ok=True)
        for _ in range(6):
            _, handle = starters[kind]()
            while True:
                over = handle.has_ended()
                listing = world.look()
                polls += 1
                looks += len(listing.rows)
                wrong += [f"{kind}: {row}" for row in listing.rows.values() if row["status"] in ("stopped", "failed")]
                if over:
                    break
    said = f"24 ends, {polls} polls, {looks} rows, {len(wrong)} wrong"
    world.says("never stopped, whatever moment the command is run at", said, not wrong, "\n".join(wrong[:6]))
    world.look()
    ids = list(world.listing.rows)
    world.check_all("in the end", ids, "done", process="gone")
    world.sample = 12
