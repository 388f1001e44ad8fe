"""agentctl's own daemon: a convenience that may be dead, suspended, old or without a disk, and changes no answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.torture.cases_events import HOURS, MOVING_CLOCK
from tests.torture.handles import Handle, wait_until
from tests.torture.kernel import another_user, as_nobody, mounted
from tests.torture.own_daemon import PATIENCE, OwnDaemon, daemons, fill, folded, out_of_order
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from tests.torture.world import World

ASK = "[[ask:make tea]] [[idle]]"
NO_WATCHES = """
import sys
if "agentctl" in sys.orig_argv:
    from agentctl.kernel import watch
    def add(self, path, mask):
        self.full = True
    watch.Inotify.add = add
"""
CONNECT = """
import socket, sys
with socket.socket(socket.AF_UNIX) as one:
    one.connect(sys.argv[1])
    try:
        one.sendall(b"GET /v1/health HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")
        print(one.recv(100))
    except OSError:
        print(b"")
"""
SHORT_LIVES = """
import os, sys
from agentctl.demo_agent.__main__ import main
for _ in range(int(sys.argv[1])):
    if not os.fork():
        sys.argv = ["agentctl-demo", "-p", f"[[sleep:{os.getpid() % 7 / 5}]]"]
        os._exit(main() or 0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


def shown(world: World) -> str:
    """What `list` says, to the letter."""
    return world.run("list", "-a", "--since", "all", "--tree", "--json").stdout


@case("list-vs-status")
def with_and_without_the_daemon(world: World) -> None:
    """the same answer without the daemon, with it, and with one that is suspended"""
    Claude.spawn(world, "busy").mid_model()
    Codex.spawn(world).mid_model()
    Demo.spawn(world, ASK, status="waiting")
    without = shown(world)
    daemon = OwnDaemon(world)
    daemon.start()
    with_it = shown(world)
    world.says("list with the daemon is list without it", f"{len(with_it)} bytes each", with_it == without, with_it)
    assert daemon.handle is not None
    daemon.handle.send_signal(signal.SIGSTOP)
    suspended = shown(world)
    world.says("and with one that does not answer", f"{len(suspended)} bytes", suspended == without, suspended)
    word = daemon.status()["state"]
    world.says("its status says that it does not answer", word, word == "not answering")
    daemon.handle.send_signal(signal.SIGCONT)
    daemon.handle.kill()
    killed = shown(world)
    world.says("and after it was killed", f"{len(killed)} bytes", killed == without, killed)


@case("concurrent")
def first_starts(world: World) -> None:
    """20 `daemon start` and 10 lists at once, on a machine where agentctl never ran"""
    demo = Demo.spawn(world, "[[sleep:300]]")
    daemon = OwnDaemon(world)
    words = [["daemon", "start"]] * 20 + [["list", "--json"]] * 10
    commands = [
        subprocess.Popen(
            [*world.command, *one], env=world.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for one in words
    ]
    answers = [command.communicate(timeout=PATIENCE) for command in commands]
    daemon.keep()
    codes = [command.returncode for command in commands]
    world.says("all of them succeed", str(sorted({*codes})), {*codes} == {0}, "\n".join(said for _, said in answers))
    running = daemons()
    world.says("one daemon runs", f"{len(running)} run", len(running) == 1)
    seen = [[(one["id"], one["status"]) for one in json.loads(out)["sessions"]] for out, _ in answers[20:]]
    world.says("each list has the one session", str(len(seen)), seen == [[(demo.id, "running")]] * 10, str(seen))


@case("stale-daemon-files")
def stranger_with_its_pid(world: World) -> None:
    """a daemon is killed with SIGKILL, and a stranger gets its pid"""
    Demo.spawn(world, "[[sleep:300]]")
    daemon = OwnDaemon(world)
    daemon.start()
    assert daemon.handle is not None
    pid = daemon.handle.pid
    daemon.handle.kill()
    stranger = world.stranger(pid)
    left = sorted(os.listdir(daemon.folder))
    word = daemon.status()["state"]
    world.says("the files of a dead daemon: not running", f"{word} ({', '.join(left)})", word == "not running")
    done = daemon.command("stop")
    alive = not stranger.has_ended(0.5)
    world.says("stop signals nobody", done.stderr.strip(), done.returncode == 0 and alive)
    done = daemon.start()
    fresh = daemon.identity()["pid"]
    world.says("start replaces the files", done.stderr.strip(), done.returncode == 0 and fresh != pid)
    done = daemon.command("restart")
    daemon.keep()
    world.says("restart, too", done.stderr.strip(), done.returncode == 0 and not stranger.has_ended(0.2))
    (daemon.folder / "daemon.json").write_text(json.dumps({**daemon.identity(), "pid": pid, "key": f"x:{pid}:1"}))
    done = daemon.command("stop")
    world.says(
        "a file that names the stranger: the one that holds the lock is ended, not the stranger",
        done.stderr.strip(), "has ended: pid" in done.stderr and not stranger.has_ended(0.2),
    )  # fmt: skip


@case("stale-daemon-files")
def another_version(world: World) -> None:
    """a daemon of another version runs"""
    daemon = OwnDaemon(world)
    daemon.start()
    (daemon.folder / "daemon.json").write_text(json.dumps({**daemon.identity(), "version": "0.0.1"}))
    done = daemon.command("start")
    named = "another version (0.0.1" in done.stderr and "daemon restart" in done.stderr
    world.says("start names it and refuses", done.stderr.strip(), done.returncode == 4 and named)
    done = daemon.command("restart")
    daemon.keep()
    world.says("restart replaces it", done.stderr.strip(), daemon.status()["other_version"] is False)


@case("two-users")
def two_daemons(world: World) -> None:
    """root and another user have a daemon each; root's socket is open to all by mistake"""
    Demo.spawn(world, "[[sleep:300]]")
    mine = OwnDaemon(world)
    mine.start()
    user = another_user()
    theirs = world.folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, user, user)
    for folder in (world.folder, world.folder / "agentctl", mine.folder):
        folder.chmod(0o755)
    (mine.folder / "socket").chmod(0o666)
    names = ("HOME", "AGENTCTL_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    env = {**world.env, **{name: str(theirs / name) for name in names}}

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        command = as_nobody([*world.command, *words])
        return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=PATIENCE, check=False)

    done = ask("daemon", "start")
    found = json.loads(ask("daemon", "status", "--json").stdout)["daemon"]
    world.keep(Handle(found["pid"], start_ticks(found["pid"])))
    both = found["state"] == mine.status()["state"] == "running"
    world.says("each has a daemon", f"{found['state']}; {mine.status()['state']}", both, done.stderr)
    done = subprocess.run(
        as_nobody([sys.executable, "-c", CONNECT, str(mine.folder / "socket")]),
        env=env, cwd="/", capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    world.says("the other one's daemon does not answer", done.stdout.strip(), done.stdout.strip() == "b''", done.stderr)
    said = mine.command("logs").stdout
    told = f"a connection of another user was refused: uid {user}"
    world.says("it says whom it refused", told if told in said else said, told in said, done.stderr)
    ask("daemon", "stop")
    world.says("one stops, the other goes on", mine.status()["state"], mine.status()["state"] == "running")


@case("clock-step")
def clock_set_under_the_daemon(world: World) -> None:
    """the clock is set hours forward and back under the daemon, and it is killed in between"""
    clock = world.folder / "clock"
    clock.write_text("0")
    daemon = OwnDaemon(world, MOVING_CLOCK.format(path=str(clock)))
    daemon.start()
    demo = Demo.spawn(world, ASK, status="waiting")
    daemon.reaches(demo.id, "waiting")
    clock.write_text(str(HOURS))
    (demo.folder / "answer").write_text("n")
    daemon.reaches(demo.id, "idle")
    assert daemon.handle is not None
    daemon.handle.kill()
    clock.write_text(str(-HOURS))
    demo.kill()
    daemon.start()
    daemon.reaches(demo.id, "done")
    told = daemon.told()
    wrong = out_of_order(told)
    world.says("each change once, in order, with the next number", "; ".join(wrong) or f"{len(told)} events", not wrong)
    words = [f"{entry['from']} -> {entry['to']}" for entry in daemon.of(demo.id)][-2:]
    world.says("what ended while no daemon ran is told late", str(words), daemon.of(demo.id)[-1]["late"] is True)
    world.look()
    listed = {id: row["status"] for id, row in world.listing.rows.items()}
    world.says("the events, folded, are what list shows", json.dumps(listed), folded(told) == listed)


@case("daemon-trouble")
def full_disk(world: World) -> None:
    """the disk under the log of events is full for a while"""
    daemon = OwnDaemon(world)
    daemon.log.mkdir(parents=True, mode=0o700)
    daemon.log.parent.chmod(0o700)
    world.until_the_end(mounted("tmpfs", daemon.log, "size=256k,mode=700"))
    daemon.start()
    first = Demo.spawn(world, ASK, status="waiting")
    daemon.reaches(first.id, "waiting")
    before = daemon.told()
    filler = daemon.log / "filler"
    fill(filler)
    (first.folder / "answer").write_text("n")
    wait_until("an event that cannot be written", lambda: daemon.status()["events"]["lost"], PATIENCE)
    problem = daemon.status()["events"]["problem"]
    world.says("status says that the log cannot be written", str(problem), "No space left" in str(problem))
    first.kill()
    filler.unlink()
    wait_until("the log to be written again", lambda: not daemon.status()["events"]["lost"], PATIENCE)
    wait_until("its end in the log", lambda: folded(daemon.told()).get(first.id) == "done", PATIENCE)
    told = daemon.told(f"{before[-1]['log']}.{before[-1]['seq']}")
    types = [entry["type"] for entry in told]
    said = next((entry["reason"] for entry in told if entry["type"] == "gap"), "no gap")
    world.says("whoever goes on is told of the gap", said, types[:2] == ["gap", "checkpoint"], json.dumps(types))
    both = folded([*before, *told])
    world.says("from there on the events are whole", str(both), both == {first.id: "done"} and not out_of_order(told))


@case("daemon-trouble")
def suspended(world: World) -> None:
    """the daemon is suspended while sessions begin, ask and end"""
    daemon = OwnDaemon(world)
    daemon.start()
    asking, busy = Demo.spawn(world, ASK, status="waiting"), Demo.spawn(world, "[[sleep:300]]")
    daemon.reaches(asking.id, "waiting")
    daemon.reaches(busy.id, "running")
    assert daemon.handle is not None
    daemon.handle.send_signal(signal.SIGSTOP)
    (asking.folder / "answer").write_text("n")
    asking.wait_for_status("idle")
    busy.kill()
    new = Demo.spawn(world, "[[sleep:300]]")
    daemon.handle.send_signal(signal.SIGCONT)
    for agent, status in ((asking, "idle"), (busy, "stopped"), (new, "running")):
        daemon.reaches(agent.id, status)
    wrong = out_of_order(daemon.told())
    world.says("each change is told once, afterwards", "; ".join(wrong) or "in order", not wrong)
    world.look()
    listed = {id: row["status"] for id, row in world.listing.rows.items()}
    world.says("the events, folded, are what list shows", json.dumps(listed), folded(daemon.told()) == listed)


@case("daemon-trouble")
def no_room_for_watches(world: World) -> None:
    """the kernel has no room for inotify watches"""
    daemon = OwnDaemon(world, NO_WATCHES)
    daemon.start()
    demo = Demo.spawn(world, ASK, status="waiting")
    daemon.reaches(demo.id, "waiting")
    (demo.folder / "answer").write_text("n")
    daemon.reaches(demo.id, "idle")
    world.says("it looks all the same", "waiting, then idle", True)
    problems = [entry["reason"] for entry in daemon.told() if entry["type"] == "agent.problem"]
    world.says(
        "and says so in the stream", str(problems), len(problems) == 1 and "no room for more inotify" in problems[0]
    )
    demo.kill()


@case("daemon-trouble")
def two_hundred_short_sessions(world: World) -> None:
    """200 sessions begin and end within seconds, some between two looks"""
    daemon = OwnDaemon(world)
    daemon.start()
    crowd = subprocess.Popen(
        [sys.executable, "-c", SHORT_LIVES, "200"],
        env=world.env, cwd=world.work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    world.keep(Handle(crowd.pid, start_ticks(crowd.pid), crowd))
    crowd.wait(PATIENCE)
    last = Demo.spawn(world, "[[sleep:300]]")
    daemon.reaches(last.id, "running")
    world.look()
    listed = {id: row["status"] for id, row in world.listing.rows.items()}
    told = folded(daemon.told())
    wrong = {id: status for id, status in told.items() if listed.get(id) != status}
    world.says("what is told of them is true", f"{len(told)} of {len(listed)} were seen", not wrong, json.dumps(wrong))
    order = out_of_order(daemon.told())
    world.says("and told once, in order", "; ".join(order) or "in order", not order)
    world.says("all of them are in the list", str(len(listed)), len(listed) == 201)
    last.kill()
    world.sample = 3
