"""Sessions inside an agent's own daemon: judged by lock, roster and API, never by the client's pid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex, CodexDaemon
from tests.torture.registry import case
from tests.torture.standins.files import milliseconds, random_id, timed_id
from tests.torture.world import Contains

if TYPE_CHECKING:
    from tests.torture.handles import Handle
    from tests.torture.world import World

ACTIVE, IDLE = {"type": "active", "activeFlags": []}, {"type": "idle"}


@case("native-daemon")
def codex_daemon(world: World) -> None:
    """codex's app-server holds three threads, and terminals are only its clients"""
    daemon = CodexDaemon.spawn(world)
    clients = [world.bare("codex", [CODEX_BINARY, "do it"]) for _ in range(3)]
    working, resting, fresh = timed_id(), timed_id(), timed_id()
    helper = world.bare("codex", [CODEX_BINARY, "app-server", "daemon", "pid-update-loop"])
    for id, status in ((working, ACTIVE), (resting, IDLE), (fresh, IDLE)):
        daemon.holds(id, status)
    daemon.mid_tool(id=working)
    daemon.finished(id=resting)
    alone = Codex.spawn(world).mid_model()  # of which the daemon says: not loaded, interrupted
    world.look()
    world.check("a thread in mid-turn", working, "running", pid=daemon, link="exact", inferred=False)
    world.check("a thread at rest", resting, "idle", pid=daemon, link="exact", last_turn="done")
    world.check("a thread never prompted", fresh, "idle", pid=daemon, link="exact")
    world.check("codex exec beside the daemon", alone.id, "running", pid=alone, link="exact")
    world.check_not_shown("clients, the daemon, its helper", pids=[one.pid for one in (*clients, helper)])
    clients[0].kill()
    daemon.do("release", id=resting)  # idle for long, and no client shows it: the daemon lets go of it
    daemon.do("forget", id=resting)
    world.look()
    world.check("the thread at rest, let go of", resting, "done", process="gone", pid=None)
    world.check("the thread in mid-turn then", working, "running", pid=daemon)


def opens(world: World, daemon: CodexDaemon, id: str) -> str:
    """A screen opens a thread of the daemon, and notes that."""
    note = world.root(CodexDaemon) / "tui-thread-reference-capabilities" / id
    note.parent.mkdir(exist_ok=True)
    note.write_text("")
    return id


@case("native-daemon")
def codex_screens_without_a_thread(world: World) -> None:
    """codex screens beside a daemon that show no thread: starting, at the picker, at a question"""
    daemon = CodexDaemon.spawn(world)
    picker = world.bare("codex", [CODEX_BINARY, "resume"])
    screen = world.bare("codex", [CODEX_BINARY])
    world.look()
    world.check_unattached("at its picker", picker, ())
    world.check_unattached("starting", screen, ())
    first = timed_id()
    daemon.holds(first, IDLE)
    world.look()
    world.check("the thread that the screen began", first, "idle", pid=daemon, link="exact")
    world.check_not_shown("the screen, its note not written yet", pids=[screen.pid])
    world.check_unattached("at its picker still", picker, ())
    opens(world, daemon, first)
    daemon.finished(id=first)
    helper = timed_id()  # a thread that a program began, later than both screens
    daemon.holds(helper, IDLE)
    daemon.do("origin", source="exec")
    daemon.finished(id=helper)
    named = world.bare("codex", [CODEX_BINARY, "resume", first])
    world.look()
    world.check_not_shown("the screen, and one that was told which thread", pids=[screen.pid, named.pid])
    world.check_unattached("at its picker beside a thread of no screen", picker, ())
    opens(world, daemon, helper)  # the person picks it
    world.look()
    world.check("the thread that was picked", helper, "idle", pid=daemon, link="exact")
    world.check_not_shown("the picker has its thread", pids=[picker.pid, screen.pid, named.pid])


@case("native-daemon")
def codex_daemon_without_words(world: World) -> None:
    """a daemon that does not answer, or answers nonsense: its locks still tell"""
    daemon = CodexDaemon.spawn(world)
    daemon.holds(daemon.id, ACTIVE)
    daemon.mid_model()
    for manner in ("silent", "odd list", "odd status"):
        daemon.do("behave", manner=manner)
        world.look()
        world.check(f"its daemon is {manner}", daemon.id, ("running", "alive"), pid=daemon, link="exact")
    daemon.do("behave", manner="honest")


@case("daemon-gone")
def codex_daemon_gone(world: World) -> None:
    """codex's daemon killed -9, its terminal sits at `Reconnecting`"""
    daemon = CodexDaemon.spawn(world)
    working, resting = timed_id(), timed_id()
    client = world.bare("codex", [CODEX_BINARY, "do it"])
    daemon.holds(working, ACTIVE)
    daemon.holds(resting, IDLE)
    daemon.mid_model(id=working)
    daemon.finished(id=resting)
    daemon.kill()
    world.look()
    world.check("the thread in mid-turn", working, "stopped", process="gone", turn="interrupted", pid=None)
    world.check("the thread at rest", resting, "done", process="gone", pid=None)
    world.check_unattached("the terminal", client, ())
    world.stranger(daemon.pid)
    world.look()
    world.check("its pid is a stranger's", working, "stopped", process="gone", pid=None)


class Background:
    """claude --bg: a daemon, a host with a worker, a pre-warmed pair, and the daemon's books."""

    def __init__(self, world: World, *, style: str = "new", claimed_spare: bool = False) -> None:
        self.world = world
        self.id = random_id()
        self.short = self.id[:8]
        binary = "/usr/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe"
        daemon_words = [binary, "daemon", "run", "--origin", "transient"]
        self.daemon = world.bare("claude.exe", daemon_words, cwd=world.home)
        self.host = world.bare("claude.exe", ["claude bg-pty-host", "/tmp/cc/pty.sock", "200", "50", "--"])
        words = ["claude bg-spare", "/tmp/cc/claim.sock"] if claimed_spare else [binary, "--session-id", self.id, "job"]
        self.worker = self.start_worker(words, style)
        self.spare_host = world.bare("claude.exe", ["claude bg-pty-host", "/tmp/cc/pty2.sock", "200", "50", "--"])
        self.spare = world.bare("claude.exe", ["claude bg-spare", "/tmp/cc/claim2.sock"])
        self.write_books("working")

    def start_worker(self, words: list[str], style: str = "new", **registration: str) -> Claude:
        options = {"program": "claude.exe", "id": self.id, "argv": words, "register": False}
        worker = Claude.spawn(self.world, style=style, **options)  # type: ignore[arg-type]
        worker.do("register", status="busy", kind="bg", jobId=self.short, **registration)
        return worker

    def write_books(self, state: str) -> None:
        root = self.world.root(Claude)
        (root / "daemon").mkdir(exist_ok=True)
        lock = {"pid": self.daemon.pid, "procStart": str(self.daemon.start), "version": "2.1.325"}
        (root / "daemon.lock").write_text(json.dumps(lock, indent=2))
        worker = {
            "pid": self.host.pid,
            "procStart": str(self.host.start),
            "sessionId": self.id,
            "attempt": 1,
            "startedAt": milliseconds(),
            "replPid": self.worker.pid,
            "replProcStart": str(self.worker.start),
        }
        roster = {"proto": 1, "supervisorPid": self.daemon.pid, "workers": {self.short: worker}}
        (root / "daemon" / "roster.json").write_text(json.dumps(roster))
        folder = root / "jobs" / self.short
        folder.mkdir(parents=True, exist_ok=True)
        job = {"state": state, "tempo": "active", "sessionId": self.id, "daemonShort": self.short, "backend": "daemon"}
        (folder / "state.json").write_text(json.dumps(job, indent=2))

    def processes_without_a_session(self) -> list[Handle]:
        return [self.daemon, self.host, self.spare_host]


@case("native-daemon")
def claude_background(world: World) -> None:
    """claude --bg: a worker, its host, the daemon, a pre-warmed spare"""
    plain = Background(world)
    plain.worker.mid_tool()
    world.look()
    world.check("the worker's session", plain.id, "running", pid=plain.worker, link="exact", inferred=False)
    world.check_not_shown("daemon and hosts", pids=[one.pid for one in plain.processes_without_a_session()])
    world.check_unattached("the spare", plain.spare, ())
    plain.daemon.kill()
    world.look()
    world.check("its daemon killed -9, the worker lives on", plain.id, "running", pid=plain.worker, link="exact")


@case("native-daemon")
def claude_claimed_spare(world: World) -> None:
    """claude --bg: a session in a claimed spare, whose arguments name no session"""
    background = Background(world, claimed_spare=True)
    background.worker.mid_model()
    world.look()
    world.check("the claimed spare", background.id, "running", pid=background.worker, link="exact")
    world.expects_unattached.add(background.spare.pid)


@case("native-daemon")
def claude_respawned_worker(world: World) -> None:
    """claude --bg: a respawned worker first registers under a random id"""
    background = Background(world)
    background.worker.mid_model()
    background.worker.kill()
    words = ["/usr/bin/claude.exe", "--resume", str(background.worker.transcript)]
    again = background.start_worker(words, sessionId=(random := random_id()))
    world.look()
    world.check("its session, by its job", background.id, "running", pid=again, link="exact")
    world.check_not_shown("the random id", ids=[random])
    world.expects_unattached.add(background.spare.pid)


@case("resurrect")
def resurrect_pending(world: World) -> None:
    """claude --bg: the worker was killed, and its daemon or its host may bring it back"""
    background = Background(world)
    background.worker.mid_tool()
    background.worker.kill()
    world.expects_unattached.add(background.spare.pid)
    world.look()
    may_come = Contains("may be brought back")
    world.check("worker killed, daemon lives", background.id, "unknown", process="unknown", reason=may_come)
    background.daemon.kill()
    world.look()
    world.check("daemon killed too, the host lives", background.id, "unknown", process="unknown", reason=may_come)
    world.stranger(background.daemon.pid)
    background.host.kill()
    world.look()
    world.check("host killed, the daemon's pid a stranger's", background.id, "stopped", process="gone", pid=None)


@case("resurrect")
def settled(world: World) -> None:
    """claude --bg: a job that is done is not brought back"""
    background = Background(world)
    background.worker.do("prompt", text="job")
    background.worker.do("answer")
    background.worker.do("status", status="idle")
    background.write_books("done")
    world.expects_unattached.add(background.spare.pid)
    world.look()
    world.check("done, the worker lives", background.id, "idle", pid=background.worker, last_turn="done")
    background.worker.kill()
    world.look()
    world.check("done, the worker killed", background.id, "done", process="gone", pid=None)


@case("daemon-gone")
def claude_all_gone(world: World) -> None:
    """claude --bg: daemon, host and worker killed -9; its books still say working"""
    background = Background(world)
    background.worker.mid_tool()
    for process in (background.daemon, background.host, background.worker):
        process.kill()
    world.expects_unattached.add(background.spare.pid)
    world.look()
    world.check("everybody killed", background.id, "stopped", process="gone", turn="interrupted", pid=None)
