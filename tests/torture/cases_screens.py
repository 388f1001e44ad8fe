"""Sessions in an agent's own daemon, and the screens that show them, by what the kernel and the daemon say of them. A
real tmux."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from typing import TYPE_CHECKING

from tests.agents.codex.torture import CODEX_BINARY, CodexDaemon
from tests.torture import handles
from tests.torture.cases_daemons import IDLE, opens
from tests.torture.cases_terminals import Server, goes_to, in_tmux
from tests.torture.handles import Puppet, read_answer
from tests.torture.standins.files import boot_id, timed_id
from tests.torture.world import Contains

if TYPE_CHECKING:
    from typing import Any

    from tests.torture.world import World

LATER = 2.2  # seconds: an opening so long after the loading of a thread is another one


class Screen:
    """A codex in a pane, which leaves its threads to the daemon. It listens as a real one does."""

    def __init__(self, server: Server, name: str, *words: str) -> None:
        world, argv = server.world, [CODEX_BINARY, *words]
        config = world.config_file({"kind": handles.BARE, "argv": argv})
        command = [world.programs.path("codex"), *handles.arguments(config, argv)[1:]]
        orders, answers = world.folder / f"{name}.orders", world.folder / f"{name}.answers"
        for pipe in (orders, answers):
            os.mkfifo(pipe)
        given = open(orders, "r+b", buffering=0)  # both ends: nothing blocks until the other side is there
        said = open(answers, "r+b", buffering=0)
        environment = [f"{key}={value}" for key, value in {**world.env, **world.programs.env}.items() if value]
        line = f"exec env {shlex.join([*environment, *command])} <{orders} >{answers}"
        self.pane = server("new-session", "-d", "-s", name, "-P", "-F", "#{pane_id}", "sh", "-c", line)
        self.tty = server.terminal(self.pane)
        ready = read_answer(said)
        self.puppet = Puppet(ready["ready"], ready["start"], None, given, said)
        world.keep(self.puppet)
        self.pid = self.puppet.pid
        self.port = self.puppet.do("listen")["port"]

    def loads(self, world: World, daemon: CodexDaemon, id: str | None = None) -> str:
        id = id or timed_id()
        daemon.holds(id, IDLE)
        daemon.do("loaded_by", id=id, port=self.port, directory=str(world.work))
        return opens(world, daemon, id)

    def entry(self, link: str) -> dict[str, Any]:
        """What a session says of it."""
        key = f"{boot_id()}:{self.pid}:{self.puppet.start}"
        return {"pid": self.pid, "key": key, "link": link, "tty": self.tty}


@in_tmux("daemon-screens")
def codex_screens_and_their_threads(world: World) -> None:
    """codex screens in tmux on threads of a daemon: each session names the one that shows it"""
    server = Server(world)
    server.start()
    daemon = CodexDaemon.spawn(world)
    first, second = Screen(server, "first"), Screen(server, "second")
    one, two = first.loads(world, daemon), second.loads(world, daemon)
    world.look()
    told: dict[str, Any] = {"pid": daemon, "link": "exact", "cwd": str(world.work)}
    world.check("never prompted", one, "idle", screens=[first.entry("exact")], started_at=Contains("T"), **told)
    world.check("the other one", two, "idle", screens=[second.entry("exact")], started_at=Contains("T"), **told)
    world.check_not_shown("the screens", pids=[first.pid, second.pid])
    world.says("attach goes to its pane", at := goes_to(world, one), at == first.pane)
    world.says("attach goes to the other pane", at := goes_to(world, two), at == second.pane)
    why = world.run("why", one).stdout
    fact = f"pid {first.pid} ({first.tty}) shows it: it listens on the port"
    world.says("why has the evidence", "it has" if fact in why else why, fact in why)

    new = first.loads(world, daemon)  # /new: the daemon keeps the old thread for a minute
    world.look()
    world.check("begun with /new", new, "idle", screens=[first.entry("exact")])
    world.check("the thread that it left", one, "idle", screens=[], terminal=None)
    shown = world.run("attach", one, "--print").stdout
    world.says("attach opens a screen for what none shows", shown.strip(), f"resume {one}" in shown)

    time.sleep(LATER)
    third = Screen(server, "third", "resume", two)
    opens(world, daemon, two)
    world.look()
    both = [second.entry("exact"), third.entry("sole")]
    world.check("two screens on one thread", two, "idle", screens=both)
    status = world.run("status", two).stdout
    named = f"pid {second.pid} on {second.tty}" in status and f"pid {third.pid} on {third.tty}" in status
    world.says("status names both", "it does" if named else status, named)
    listed = world.run("list").stdout
    mark = f"pid {second.pid} and pid {third.pid} show it"
    world.says("list names both", "it does" if mark in listed else listed, mark in listed)

    daemon.do("loaded_by", id=two, port=1, directory=str(world.work))  # nobody listens there
    second.puppet.send_signal(signal.SIGKILL)
    second.puppet.wait()  # when tmux reaps it is tmux's business
    world.look()
    world.check("its first screen killed", two, "idle", screens=[third.entry("sole")])
    world.says("attach goes to the one that is left", at := goes_to(world, two), at == third.pane)
    found = json.loads(world.run("status", two, "--json").stdout)["session"]["terminal"] or {}
    ok = (found.get("tmux"), found.get("tty")) == (third.pane, third.tty)
    world.says("its pane in JSON", json.dumps(found), ok)
