"""Sessions in tmux: found where they are, whoever started them; spoken to at their prompt only; nobody waits for a
server that does not answer. A real tmux, on servers of the case's own."""

from __future__ import annotations

import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.agents.demo.torture import Demo
from tests.torture.cases_launch import events, has, keep, launches
from tests.torture.handles import Handle, WorldError, wait_until
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.torture.world import World

LIMIT = 20.0  # for any word of tmux
BOUND = 15.0  # seconds in which every command answers while a server hangs: the limit of one is five
LONG = "[[sleep:300]]"


def in_tmux(name: str) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    """A case that cannot run is a failure, in one line."""

    def register(build: Callable[[World], None]) -> Callable[[World], None]:
        @functools.wraps(build)
        def run(world: World) -> None:
            if shutil.which("tmux") is None:
                world.says("it can be tried", "tmux is not installed", False)
            else:
                build(world)

        return case(name)(run)

    return register


class Server:
    """A tmux server of this case's own. Its socket is in a folder of the world, its process a handle."""

    def __init__(self, world: World, name: str = "default") -> None:
        self.world = world
        folder = world.folder / "tmux" / f"tmux-{os.getuid()}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.socket = str(folder / name)
        world.env["TMUX_TMPDIR"] = str(world.folder / "tmux")

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-S", self.socket, *words],
            env={**self.world.env, "TERM": "xterm"},
            cwd=self.world.work,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        if done.returncode != 0:
            raise WorldError(f"tmux {' '.join(words)}: {done.stderr}")
        return done.stdout.strip()

    def start(self) -> Handle:
        """With a pane that stays, so that the server does."""
        self("new-session", "-d", "-s", "rest", "sleep", "300")
        return self.handle()

    def handle(self) -> Handle:
        pid = int(self("display-message", "-p", "#{pid}"))
        handle = Handle(pid, start_ticks(pid))
        self.world.keep(handle)
        return handle

    def shell(self, name: str, *words: str) -> str:
        """A pane with a shell, in which a person then types a command; its id."""
        pane = self("new-session", "-d", "-s", name, "-P", "-F", "#{pane_id}", "sh")
        self("send-keys", "-t", pane, "-l", shlex.join(words))
        self("send-keys", "-t", pane, "Enter")
        return pane

    def terminal(self, pane: str) -> str:
        return self("display-message", "-p", "-t", pane, "#{pane_tty}")


def by_hand(server: Server, name: str, *words: str, **env: str) -> tuple[str, str]:
    """A demo agent that a person has started in a pane: its session and its pane."""
    world, id = server.world, str(uuid.uuid4())
    command = [sys.executable, "-m", "agentctl.demo_agent", "--session-id", id, "--interactive", *words]
    pane = server.shell(name, "env", *(f"{key}={value}" for key, value in env.items()), *command)
    file = world.root(Demo) / "sessions" / id / "process.json"
    facts = json.loads(wait_until("the demo agent in its pane", lambda: file.exists() and file.read_text()))
    world.keep(Handle(facts["pid"], facts["start_ticks"]))
    return id, pane


def wait_for_status(world: World, id: str, status: str) -> None:
    path = world.root(Demo) / "sessions" / id / "process.json"
    wait_until(f"its status {status}", lambda: path.exists() and json.loads(path.read_text())["status"] == status)


def goes_to(world: World, id: str) -> str:
    """The pane in what attach would run."""
    done = world.run("attach", id, "--print")
    words = shlex.split(done.stdout)
    return next((word for word in words if word.startswith("%")), f"exit {done.returncode}: {done.stderr.strip()}")


def prompts(world: World, id: str) -> list[str]:
    return [one["text"] for one in events(world, id) if one["event"] == "prompt"]


@in_tmux("in-tmux")
def foreign_in_tmux(world: World) -> None:
    """started by hand in panes of two servers, three of them in one directory"""
    server, other = Server(world), Server(world, "other")
    server.start()
    other.start()
    agents = [by_hand(server, "a"), by_hand(server, "b"), by_hand(other, "c")]
    for id, pane in agents:
        wait_for_status(world, id, "idle")
        found = goes_to(world, id)
        world.says(f"attach goes to its own pane {pane}", found, found == pane)
    id, pane = agents[2]
    shown = world.ask("status", id)["session"]["terminal"]
    truth = {"tty": other.terminal(pane), "tmux": pane, "tmux_session": "c", "tmux_socket": other.socket}
    world.says("status says which pane of which server", str(shown), shown == truth)
    world.look()
    for one, _ in agents:
        world.check("listed", one, "idle", link="exact", inferred=False)
    split = server("split-window", "-t", agents[0][1], "-P", "-F", "#{pane_id}", "sleep", "300")
    found = goes_to(world, agents[0][0])
    world.says(f"not to the new pane {split} of its window", found, found == agents[0][1])


@in_tmux("forged-tmux")
def forged(world: World) -> None:
    """variables that name another pane, another server, or a file: nobody is misled"""
    server = Server(world)
    server.start()
    _, wrong = by_hand(server, "wrong")
    false = {"TMUX": f"{world.work}/nothing,1,0", "TMUX_PANE": wrong}
    id, pane = by_hand(server, "right", **false)
    found = goes_to(world, id)
    world.says(f"attach goes to its own pane {pane}, not to {wrong}", found, found == pane)
    world.env |= {"TMUX_PANE": wrong, "TMUX": f"{server.socket},1,0"}  # of us: we sit in that server
    demo = Demo.spawn(world, LONG)
    del world.env["TMUX"], world.env["TMUX_PANE"]
    done = world.run("attach", demo.id, "--print")
    ok = done.returncode == 4 and "has no terminal" in done.stderr
    world.says("one that has but the variables sits nowhere", done.stderr.strip(), ok)
    shown = world.ask("status", demo.id)["session"]["terminal"]
    world.says("and no pane is said to be its", str(shown), shown is None)


@in_tmux("send")
def send(world: World) -> None:
    """refused while it works or asks, whatever else is true; at its prompt it arrives exactly once"""
    server = Server(world)
    server.start()
    working, _ = by_hand(server, "working", LONG)
    asking, _ = by_hand(server, "asking", "[[ask:touch done]]")
    wait_for_status(world, working, "busy")
    wait_for_status(world, asking, "waiting")
    for what, id in (("works", working), ("asks", asking)):
        done = world.run("send", id, "y")
        ok = done.returncode == 4 and not done.stdout
        world.says(f"one that {what}: refused (4)", f"exit {done.returncode}: {done.stderr.strip()}", ok)
    time.sleep(0.5)  # what was typed all the same would have been read by now
    world.says("the question stands", "it does", not has("answer", world, asking))
    idle, pane = by_hand(server, "idle")
    wait_for_status(world, idle, "idle")
    text = "--first; $HOME `ls` #{pane_id}\n\n  Enter C-c\n[[text:ok]] 🦊"
    done = world.run("send", idle, "--", text)
    world.says("to an idle one: exit 0", f"exit {done.returncode} {done.stderr.strip()}", done.returncode == 0)
    wait_for_status(world, idle, "idle")
    world.says("it arrived exactly once, as it is", repr(prompts(world, idle)), prompts(world, idle) == [text])
    server("copy-mode", "-t", pane)
    done = world.run("send", idle, "hidden")
    ok = done.returncode == 4 and prompts(world, idle) == [text]
    world.says("into a pane that is scrolled back: refused (4)", done.stderr.strip(), ok)
    server("send-keys", "-t", pane, "-X", "cancel")
    texts = [f"[[text:number {number}]]" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda one: world.run("send", idle, one).returncode, texts))
    wait_for_status(world, idle, "idle")
    sent = [one for one, code in zip(texts, codes, strict=True) if code == 0]
    arrived = prompts(world, idle)[1:]
    ok = sorted(sent) == sorted(arrived) and bool(sent) and set(codes) <= {0, 4}
    world.says("four at one moment: each whole or refused", f"{codes}, {arrived}", ok)


@in_tmux("screen-launch")
def screen_launch(world: World) -> None:
    """launch --interactive: the real id, the caller's environment and not the server's; its pane goes with it"""
    server = Server(world)
    world.env["OF_WHOM"] = "the server"
    server.start()
    world.env["OF_WHOM"] = "the caller"
    done = world.run("launch", "--interactive", "demo", "-p", "[[bash:printenv OF_WHOM AGENTCTL_LAUNCH TMUX_PANE]]")
    id = done.stdout.strip()
    native = sorted(path.name for path in (world.root(Demo) / "sessions").iterdir())
    world.says("the id printed is the one in the agent's store", f"{id} {done.stderr.strip()}", native == [id])
    ((launch_id, launch),) = launches(world).items()
    handles = keep(world, launch)
    wait_for_status(world, id, "idle")
    (result,) = [one["output"].split("\n") for one in events(world, id) if one["event"] == "tool_result"]
    pane = server("list-panes", "-t", f"=agentctl-{launch_id}:", "-F", "#{pane_id}")
    world.says("whose environment it has", str(result), result[:3] == ["the caller", launch_id, pane])
    world.look()
    world.check("listed", id, "idle", pid=handles["child"], link="exact", launch_id=launch_id, inferred=False)
    found = goes_to(world, launch_id)
    world.says("attach finds it by its launch, too", found, found == pane)
    server("kill-pane", "-t", pane)
    handles["child"].wait()
    world.look()
    world.check("its pane was closed: gone at once", id, "done", process="gone")
    panes = server("list-panes", "-a", "-F", "#{session_name}").split()
    world.says("nothing of it is left in tmux", str(panes), panes == ["rest"])


@in_tmux("screen-launch")
def screen_ends(world: World) -> None:
    """its runner killed, its agent killed, its agent failing at once"""
    server = Server(world)
    server.start()
    done = world.run("launch", "--interactive", "demo", "-p", LONG)
    killed = done.stdout.strip()
    ((_, launch),) = launches(world).items()
    handles = keep(world, launch)
    wait_until("its turn", lambda: has("prompt", world, killed))
    handles["child"].send_signal(signal.SIGKILL)
    handles["runner"].wait()
    world.look()
    world.check("its agent was killed", killed, "stopped", process="gone", signal="SIGKILL")
    failed = world.run("launch", "--interactive", "demo", "-p", "x", "--", "--no-such-flag")
    ok = failed.returncode == 1 and "no-such-flag" in failed.stderr and not failed.stdout
    world.says("one that fails at once: exit 1, with what it showed", failed.stderr.strip(), ok)
    panes = server("list-panes", "-a", "-F", "#{session_name}").split()
    world.says("nothing of them is left in tmux", str(panes), panes == ["rest"])
    world.env["PATH"] = str(without(world, "tmux"))
    none = world.run("launch", "--interactive", "demo", "-p", "x")
    ok = none.returncode == 1 and none.stderr.count("\n") == 1 and "install" in none.stderr
    world.says("without tmux: one line that says what to do", none.stderr.strip(), ok)


def without(world: World, name: str) -> Path:
    """A folder with all that is in PATH but this."""
    folder = world.folder_at("path")
    for place in reversed(world.env["PATH"].split(":")):
        for program in os.listdir(place) if os.path.isdir(place) else ():
            if program != name:
                (folder / program).unlink(missing_ok=True)
                (folder / program).symlink_to(os.path.join(place, program))
    return folder


@in_tmux("tmux-hangs")
def tmux_hangs(world: World) -> None:
    """a tmux server that is stopped: nobody waits for it beyond the bound, and the others are found"""
    server, hung = Server(world), Server(world, "hung")
    server.start()
    handle = hung.start()
    id, pane = by_hand(server, "here")
    there, _ = by_hand(hung, "there")
    for one in (id, there):
        wait_for_status(world, one, "idle")
    handle.send_signal(signal.SIGSTOP)
    took = {}
    for words in (("list",), ("status", there), ("why", there), ("attach", there, "--print"), ("send", there, "x")):
        done = world.run(*words)
        took[words[0]] = (round(world.own_seconds, 1), done.returncode)
    ok = all(seconds < BOUND for seconds, _ in took.values())
    codes = [code for _, code in took.values()]
    world.says(f"each answers within {BOUND:g} s", str(took), ok and codes == [0, 0, 0, 4, 4])
    done = world.run("status", there)
    world.says("the server is told as a problem", done.stderr.strip(), hung.socket in done.stderr)
    found = goes_to(world, id)
    world.says("one in the other server is found", found, found == pane)
    handle.send_signal(signal.SIGCONT)
    wait_until("the server answers", lambda: hung("display-message", "-p", "#{pid}"))
    world.says("nothing was typed there meanwhile", str(prompts(world, there)), prompts(world, there) == [])
