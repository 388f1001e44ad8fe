"""The stream of events on real processes: each state is held until its event is there, and the events are these."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.agents.opencode.torture import OpenCode
from tests.torture.handles import Handle, wait_until
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from tests.torture.agents import Agent
    from tests.torture.world import World

HOURS = 5 * 3600
PATIENCE = 60.0  # seconds for an event that always comes, on a busy machine too
ASK_THEN_RUN = "[[ask:while [ ! -e go ]; do sleep 0.02; done]] [[idle]]"

# For the command that follows: the clock on the wall is what the file says, at each moment anew.
MOVING_CLOCK = """
import time
real = time.time
def shifted():
    with open({path!r}) as file:
        return real() + float(file.read() or 0)
time.time = shifted
"""


def heed_ctrl_c() -> None:
    """A shell that starts the suite in the background has it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Stream:
    """`agentctl events -f`, and what it has printed so far."""

    def __init__(self, world: World) -> None:
        self._path = world.folder / "events.ndjson"
        self._clock = world.folder / "clock"
        self.set_clock(0)
        moved = world.folder / "moving-clock"
        moved.mkdir()
        (moved / "sitecustomize.py").write_text(MOVING_CLOCK.format(path=str(self._clock)))
        env = {**world.env, "PYTHONPATH": f"{moved}:{world.env['PYTHONPATH']}"}
        with self._path.open("w") as file:
            self.popen = subprocess.Popen(
                [*world.command, "events", "-f"],
                env=env,
                cwd=world.work,
                stdin=subprocess.DEVNULL,
                stdout=file,
                preexec_fn=heed_ctrl_c,
            )
        world.keep(Handle(self.popen.pid, start_ticks(self.popen.pid), self.popen))
        wait_until("the checkpoint", lambda: self.lines())

    def set_clock(self, shift: float) -> None:
        """Set the clock that the stream reads. A rename: it never reads half a number."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(shift))
        new.rename(self._clock)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def of(self, id: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line.get("id") == id]

    def reaches(self, agent: Agent | Demo, status: str) -> None:
        def reached() -> bool:
            return [event["to"] for event in self.of(agent.id)][-1:] == [status]

        wait_until(f"an event to {status}", reached, PATIENCE)

    def words(self, agent: Agent | Demo) -> list[str]:
        return [f"{event['type']} {event['from']} -> {event['to']}" for event in self.of(agent.id)]


@case("clock-step")
def clock_set_under_a_stream_of_events(world: World) -> None:
    """`events -f` follows two agents from start to kill -9 while the clock is set hours forward, and back"""
    stream = Stream(world)
    asking, busy = Demo.spawn(world, ASK_THEN_RUN, status="waiting"), Demo.spawn(world, "[[sleep:300]]")
    stream.reaches(asking, "waiting")
    stream.reaches(busy, "running")
    begun = {agent.id: len(stream.of(agent.id)) for agent in (asking, busy)}
    stream.set_clock(HOURS)
    (asking.folder / "answer").write_text("y")
    stream.reaches(asking, "running")
    stream.set_clock(-HOURS)
    (world.work / "go").touch()
    stream.reaches(asking, "idle")
    stream.set_clock(0)
    for agent, end in ((asking, "done"), (busy, "stopped")):
        agent.kill()
        stream.reaches(agent, end)
    expected = {
        asking: ["session.running waiting -> running", "session.idle running -> idle", "session.done idle -> done"],
        busy: ["session.stopped running -> stopped"],
    }
    for agent, told in expected.items():
        words = stream.words(agent)
        started, later = words[: begun[agent.id]], words[begun[agent.id] :]
        world.says(f"{told[-1]}: these events and no others", "; ".join(later), later == told, "\n".join(words))
        # How much of a beginning is seen is chance. It is told once, and first.
        once = [word.startswith("session.started None -> ") for word in started]
        world.says("session.started comes first, and once", started[0], once == [True, *[False] * (len(once) - 1)])
    world.look()
    folded = {line["id"]: line["to"] for line in stream.lines() if line.get("id")}
    listed = {id: row["status"] for id, row in world.listing.rows.items()}
    world.says("the events, folded, are what list shows", json.dumps(sorted(folded.values())), folded == listed)
    stream.popen.send_signal(signal.SIGINT)
    code = stream.popen.wait(world.limit)
    world.says("Ctrl-C ends it with 130", str(code), code == 130)


@case("normal-end")
def events_of_every_agent(world: World) -> None:
    """`events -f` follows an agent of each kind: in mid-turn, killed; and at its prompt, killed"""
    stream = Stream(world)
    everybody: dict[str, tuple[Agent, Agent]] = {
        "claude": (
            Claude.spawn(world, "busy", cwd=world.folder_at("a")).mid_model(),
            Claude.spawn(world, "busy", cwd=world.folder_at("b")).finished(),
        ),
        "codex": (
            Codex.spawn(world, cwd=world.folder_at("c")).mid_model(),
            Codex.spawn(world, source="cli", cwd=world.folder_at("d")).finished(),
        ),
        "opencode": (
            OpenCode.spawn(world, cwd=world.folder_at("e")).mid_model(),
            OpenCode.spawn(world, "screen", cwd=world.folder_at("f")).finished(),
        ),
    }
    for busy, resting in everybody.values():
        stream.reaches(busy, "running")
        stream.reaches(resting, "idle")
    for busy, resting in everybody.values():
        begun = {agent.id: len(stream.of(agent.id)) for agent in (busy, resting)}
        for agent, end in ((busy, "stopped"), (resting, "done")):
            agent.kill()
            stream.reaches(agent, end)
        everybody_told = {agent.id: stream.words(agent)[begun[agent.id] :] for agent in (busy, resting)}
        expected = {
            busy.id: ["session.stopped running -> stopped"],
            resting.id: ["session.done idle -> done"],
        }
        label = f"{busy.AGENT}: killed in mid-turn, and at its prompt: one event each"
        world.says(label, json.dumps([*everybody_told.values()]), everybody_told == expected)
    world.look()
    folded = {line["id"]: line["to"] for line in stream.lines() if line.get("id")}
    listed = {id: row["status"] for id, row in world.listing.rows.items()}
    world.says("the events, folded, are what list shows", json.dumps(sorted(folded.values())), folded == listed)
    problems = [line for line in stream.lines() if line["type"].startswith("agent.")]
    world.says("nothing could not be read", json.dumps(problems), not problems)
