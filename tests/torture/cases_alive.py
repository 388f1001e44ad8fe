"""Live agents: found whoever started them and whatever they are called, and each on its own session."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from functools import partial
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex
from tests.agents.demo.torture import Demo
from tests.torture.handles import Handle, Puppet, WorldError, arguments, read_answer, wait_until
from tests.torture.kernel import in_inner_pid_namespace, mounted
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks, stat_fields
from tests.torture.world import set_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.torture.world import World

HOURS = 3 * 3600
NODE_WRAPPER = ["node", "/usr/lib/node_modules/.bin/codex", "exec", "--json", "go"]
CLAUDE_SCRIPT = "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"


@case("unflushed")
def unflushed(world: World) -> None:
    """alive for a long time, and no transcript yet"""
    busy = Claude.spawn(world, "busy")
    idle = Claude.spawn(world, "idle")
    quiet = Claude.spawn(world, None, style="old", headless=True)
    dialog = world.bare("claude", ["claude"], cwd=world.folder_at("untrusted"))
    for agent in (busy, idle, quiet):
        set_back(agent.file, HOURS)
    one, tui = Codex.spawn(world, source="exec"), Codex.spawn(world, source="cli")
    ephemeral = world.bare("codex", [CODEX_BINARY, "exec", "--ephemeral", "go"])
    demo = Demo.spawn(world, None, status="idle")
    world.look()
    world.check("claude busy, no transcript", busy.id, "running", pid=busy, link="exact", inferred=False)
    world.check("claude at its prompt, no transcript", idle.id, "idle", pid=idle, link="exact")
    world.check("claude -p without a status, no transcript", quiet.id, "alive", pid=quiet, link="exact")
    world.check_unattached("claude at the trust dialog", dialog, ())
    world.check("codex exec, thread locked, no rollout", one.id, "alive", pid=one, link="exact")
    world.check("codex TUI, never prompted", tui.id, "idle", pid=tui, link="exact")
    world.check_unattached("codex that keeps no session", ephemeral, ())
    world.check("demo agent, never prompted", demo.id, "idle", pid=demo, link="exact")


@case("unflushed")
def resumed_and_not_registered(world: World) -> None:
    """claude --resume, still starting: its arguments name the session"""
    killed = Claude.spawn(world, "busy", cwd=world.folder_at("one")).mid_model()
    killed.kill()
    finished = Claude.spawn(world, "busy", cwd=world.folder_at("two")).finished()
    finished.leave()
    starting = [
        world.bare("claude", ["claude", "--resume", agent.id], cwd=world.home / name)
        for agent, name in ((killed, "one"), (finished, "two"))
    ]
    world.look()
    world.check("killed in mid-turn, being resumed", killed.id, "unknown", process="unknown", pid=None)
    world.check("finished, being resumed", finished.id, "done", process="gone", inferred=True)
    for process, agent in zip(starting, (killed, finished), strict=True):
        world.check_unattached("the one that is starting", process, [agent.id])


@case("unflushed")
def resumed_in_other_words(world: World) -> None:
    """claude -rID, -pcr=ID, --resume=TITLE, still starting: the session, or each one that is meant, is doubtful"""
    for number, form in enumerate(("-r{id}", "-pr={id}", "--resume=a title", "-ra title")):
        cwd = world.folder_at(f"form{number}")
        finished = Claude.spawn(world, "busy", cwd=cwd).finished()
        finished.leave()
        starting = world.bare("claude", ["claude", form.format(id=finished.id)], cwd=cwd)
        world.look()
        world.check(f"finished, being resumed by {form}", finished.id, "done", process="gone", inferred=True)
        world.check_unattached(f"claude {form}", starting, [finished.id])


@case("unflushed-two")
def unflushed_two(world: World) -> None:
    """two such in one directory"""
    agents = [Claude.spawn(world, "busy"), Claude.spawn(world, "busy"), Codex.spawn(world), Codex.spawn(world)]
    world.look()
    for agent, status in zip(agents, ("running", "running", "alive", "alive"), strict=True):
        world.check("one of two in one directory, no transcript", agent.id, status, pid=agent, link="exact")


@case("wrapper-exit")
def wrapper_exit(world: World) -> None:
    """the launching wrapper exits, the detached child works on"""
    claude = Claude.spawn(world, "busy", wrapper=["node", "/opt/launcher/launch.js"], then="exit").mid_tool()
    codex = Codex.spawn(world, wrapper=NODE_WRAPPER, then="exit").mid_tool()
    for agent in (claude, codex):
        assert agent.wrapper is not None
        agent.wrapper.reap()
        wait_until("it has no parent but us", partial(is_orphan, agent.pid))
    world.look()
    world.check("claude, its launcher gone", claude.id, "running", pid=claude, link="exact")
    world.check("codex, its node wrapper gone", codex.id, "running", pid=codex, link="exact")


def is_orphan(pid: int) -> bool:
    return stat_fields(pid)[1] == "1"


@case("wrapper-killed")
def wrapper_killed(world: World) -> None:
    """node wrapper killed -9, native child lives"""
    agent = Codex.spawn(world, wrapper=NODE_WRAPPER).mid_tool()
    assert agent.wrapper is not None
    world.look()
    world.check("codex under its node wrapper", agent.id, "running", pid=agent, link="exact")
    holders = [(entry["pid"], entry["role"]) for entry in world.listing.rows[agent.id]["processes"]]
    both = [(agent.pid, "agent"), (agent.wrapper.pid, "wrapper")]
    world.says(f"its processes: {both}", str(holders), holders == both)
    agent.wrapper.kill()
    world.look()
    world.check("its wrapper killed -9", agent.id, "running", pid=agent, link="exact")


@case("two-in-one-cwd")
def two_in_one_cwd(world: World) -> None:
    """two live agents in one directory, the elder process on the younger session"""
    elder, younger = Claude.spawn(world, "idle"), Claude.spawn(world, "idle")
    younger.mid_model().status("busy")
    elder.finished()
    first, second = Codex.spawn(world, source="cli"), Codex.spawn(world, source="cli")
    second.mid_model()
    first.finished()
    world.look()
    world.check("claude, the elder process", elder.id, "idle", pid=elder, link="exact", last_turn="done")
    world.check("claude, the younger process", younger.id, "running", pid=younger, link="exact")
    world.check("codex, the elder process", first.id, "idle", pid=first, link="exact", last_turn="done")
    world.check("codex, the younger process", second.id, "running", pid=second, link="exact")


@case("two-in-one-cwd")
def two_on_one_session(world: World) -> None:
    """two live claudes on one and the same session"""
    first = Claude.spawn(world, "busy").finished()
    second = Claude.spawn(world, "busy", id=first.id, argv=["claude", "--resume", first.id]).mid_model()
    world.look()
    held = sorted(entry["pid"] for entry in world.listing.rows[first.id]["processes"])
    world.check("one works, one is at its prompt", first.id, "running", pid=second, link="exact")
    world.says(f"held by {[first.pid, second.pid]}", str(held), held == [first.pid, second.pid])
    first.kill()
    world.look()
    world.check("the one at its prompt killed", first.id, "running", pid=second, link="exact")


@case("id-rotates")
def id_rotates(world: World) -> None:
    """/clear gives the same process a new session; its arguments keep the old id"""
    ids = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(1, 5)]
    finished = Claude.spawn(world, "busy", id=ids[0], argv=["claude", "--session-id", ids[0]]).finished()
    finished.do("clear", id=ids[1])
    dropped = Claude.spawn(world, "busy", id=ids[2], argv=["claude", "--resume", ids[2]]).mid_model()
    dropped.status("idle")  # Esc before any answer: nothing is written
    dropped.do("clear", id=ids[3])
    world.look()
    world.check("the new session, not prompted yet", ids[1], "idle", pid=finished, link="exact")
    world.check("the old session, its turn over", ids[0], "done", pid=None, process="gone")
    world.check("the new session of another", ids[3], "idle", pid=dropped, link="exact")
    world.check("the old session, interrupted and dropped", ids[2], "stopped", pid=None, turn="interrupted")
    finished.id = ids[1]
    finished.mid_model().status("busy")
    world.look()
    world.check("the new session, prompted", ids[1], "running", pid=finished, link="exact")
    world.check("the old session then", ids[0], "done", pid=None)


@case("version-named-binary")
def version_named_binary(world: World) -> None:
    """the process is not named after its agent"""
    versions = world.programs.path("claude/versions/2.1.199")
    agents = {
        "claude as 2.1.199": Claude.spawn(world, "busy", program="claude/versions/2.1.199", argv=[versions]),
        "claude as node": Claude.spawn(world, "busy", program="node", argv=["node", CLAUDE_SCRIPT]),
        "claude as MainThread": Claude.spawn(
            world, "busy", program="node", comm="MainThread", argv=["node", CLAUDE_SCRIPT]
        ),
        "claude as cc-nightly": Claude.spawn(world, "busy", program="cc-nightly", argv=["cc-nightly"]),
        "codex as MainThread": Codex.spawn(world, program="node", comm="MainThread", argv=NODE_WRAPPER),
        "codex as cdx": Codex.spawn(world, program="cdx", argv=["cdx", "exec", "go"]),
    }
    # As the real one does: nothing else tells what a program of this name is.
    agents["claude as cc-nightly"].do("watch", path=str(world.root(Claude)))
    for agent in agents.values():
        agent.do("prompt", text="go")
    bare = world.bare("claude/versions/2.1.199", [versions], cwd=world.folder_at("untrusted"))
    world.look()
    for label, agent in agents.items():
        world.check(label, agent.id, "running", pid=agent, link="exact", inferred=False)
    world.check_unattached("2.1.199 at the trust dialog", bare, ())


@case("quiet-turn")
def quiet_turn(world: World) -> None:
    """hours in one model call, nothing written"""
    claude = Claude.spawn(world, "busy").mid_model()
    older = Claude.spawn(world, None, style="old", headless=True).mid_model()
    codex = Codex.spawn(world).mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    written = [claude.file, claude.transcript, older.file, older.transcript, codex.rollout_of(), codex.lock]
    for path in (*written, *demo.folder.iterdir()):
        set_back(path, HOURS)
    world.look()
    world.check("claude, silent for hours", claude.id, "running", pid=claude, inferred=False)
    world.check("older claude -p, silent for hours", older.id, "running", pid=older, inferred=False)
    world.check("codex exec, silent for hours", codex.id, "running", pid=codex, inferred=False)
    world.check("demo agent, silent for hours", demo.id, "running", pid=demo, inferred=False)


@case("quiet-turn")
def suspended(world: World) -> None:
    """stopped by Ctrl-Z, and told to go on"""
    claude, codex = Claude.spawn(world, "busy").mid_model(), Codex.spawn(world).mid_model()
    for agent in (claude, codex):
        agent.send_signal(signal.SIGSTOP)
        wait_until("it is suspended", partial(is_suspended, agent.pid))
    world.look()
    world.check("claude, suspended", claude.id, "running", pid=claude, suspended=True)
    world.check("codex, suspended", codex.id, "running", pid=codex, suspended=True)


def is_suspended(pid: int) -> bool:
    return stat_fields(pid)[0] == "T"


@case("quiet-turn")
def far_behind(world: World) -> None:
    """megabytes of bookkeeping behind the last step of the turn"""
    working = Claude.spawn(world, None, style="old", headless=True).mid_model()
    finished = Claude.spawn(world, "busy").finished()
    finished.leave()
    for agent in (working, finished):
        with open(agent.transcript, "ab") as file:
            for _ in range(40):
                file.write(b'{"type":"api-request-blob","message":"' + b"x" * 50_000 + b'"}\n')
    world.look()
    world.check("claude at work, 2 MB behind its prompt", working.id, "running", pid=working)
    world.check("claude finished, 2 MB behind its answer", finished.id, "done")


@case("background-shell")
def background_shell(world: World) -> None:
    """turn over, a background command still runs"""
    claude = Claude.spawn(world, "busy").mid_tool()
    claude.do("result")
    claude.do("answer")
    claude.status("shell")
    stream = Claude.spawn(
        world, "busy", headless=True, argv=["claude", "-p", "--input-format", "stream-json"]
    ).mid_tool()
    stream.do("result")
    stream.do("answer")
    stream.status("idle")
    codex = Codex.spawn(world, source="cli").mid_tool()
    codex.do("abort")  # Esc: the tool goes on as a background terminal
    subagent = Claude.spawn(world, "busy").mid_model()
    subagent.do("answer")  # the turn is over, and an asynchronous sub-agent works on
    note = world.folder / "background"
    demo = Demo.spawn(world, f"[[bash:sleep 300 & echo $! > {note}]] [[idle]]", status="idle")
    pid = int(note.read_text())
    world.keep(Handle(pid, start_ticks(pid)))
    world.look()
    world.check("claude at its prompt, a shell runs", claude.id, "idle", pid=claude, last_turn="done")
    world.check("its row says so", claude.id, "idle", doing="background command still runs")
    world.check("claude stream-json, a shell runs", stream.id, "idle", pid=stream, last_turn="done")
    world.check("claude says busy after its answer", subagent.id, "running", pid=subagent)
    world.check("codex at its prompt, a terminal runs", codex.id, "idle", pid=codex, last_turn="interrupted")
    world.check("demo agent, a shell runs", demo.id, "idle", pid=demo, last_turn="done")


@case("foreign")
def foreign(world: World) -> None:
    """started by hand in a terminal, no agentctl near it"""
    controller, terminal = os.openpty()
    world.until_the_end(open_files(controller, terminal))
    claude = Claude.spawn(world, "busy", terminal=terminal).mid_model()
    codex = Codex.spawn(world, source="cli").mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    world.look()
    tty = {"tty": os.ttyname(terminal), "tmux": None}
    world.check("claude in a terminal", claude.id, "running", pid=claude, link="exact", inferred=False)
    world.check("codex by hand", codex.id, "running", pid=codex, link="exact", inferred=False)
    world.check("demo agent by hand", demo.id, "running", pid=demo, link="exact", inferred=False)
    shown = world.listing.rows[claude.id]["terminal"] if claude.id in world.listing.rows else None
    world.says(f"its terminal: {tty['tty']}", str(shown), shown == tty)


@contextlib.contextmanager
def open_files(*descriptors: int) -> Iterator[None]:
    """To be closed in the end; not before, or the terminal hangs up."""
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@case("foreign")
def foreign_of_old_versions(world: World) -> None:
    """older versions that do not say which session they are on"""
    claude = Claude.spawn(world, register=False, style="old").mid_model()
    resting = Claude.spawn(world, register=False, style="old", cwd=world.folder_at("other")).finished(status=None)
    codex = Codex.spawn(world, source="cli", lock=False).mid_model()
    idle = Codex.spawn(world, source="cli", lock=False, cwd=world.folder_at("other")).finished()
    world.look()
    world.check("older claude in mid-turn, alone there", claude.id, "running", pid=claude, link="sole", inferred=True)
    world.check("older claude at rest, alone there", resting.id, "idle", pid=resting, link="sole", inferred=True)
    world.check("older codex in mid-turn, its rollout open", codex.id, "running", pid=codex, link="exact")
    world.check("older codex at rest, its rollout open", idle.id, "idle", pid=idle, link="exact")


@case("foreign")
def foreign_resumed_old_codex(world: World) -> None:
    """an older codex that was asked to resume a session, and has not opened it yet"""
    before = Codex.spawn(world, source="cli", lock=False).finished()
    before.leave()
    resumed = world.bare("codex", [CODEX_BINARY, "resume", before.id])
    world.look()
    world.check("its arguments name the session", before.id, "idle", pid=resumed, link="sole", inferred=True)


@case("foreign")
def foreign_in_a_container(world: World) -> None:
    """an agent in an inner PID namespace, whose own pid is not the one we see"""
    id = str(uuid.uuid4())
    config = {"kind": Claude.STANDIN, "style": "new", "headless": False, "id": id, "root": str(world.root(Claude))}
    words = arguments(world.config_file({**config, "argv": ["claude"]}), ["claude"])
    command = in_inner_pid_namespace([world.programs.path("claude"), *words[1:]])
    popen = world.popen(command, "/usr/bin/env", world.work, None)
    assert popen.stdin and popen.stdout
    ready = read_answer(popen.stdout)
    outer = outer_pid(ready["ready"], ready["start"])
    world.keep(Handle(popen.pid, start_ticks(popen.pid), popen))
    agent = Puppet(outer, ready["start"], None, popen.stdin, popen.stdout)
    world.keep(agent)
    agent.do("register", status="busy")
    world.look()
    world.check(f"claude, pid {ready['ready']} inside, {outer} outside", id, "running", pid=agent, link="exact")


def outer_pid(inner: int, start: int) -> int:
    """The pid that we see of a process that calls itself `inner`."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{name}/status") as file:
            pids = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
        if len(pids) > 1 and int(pids[-1]) == inner and start_ticks(name) == start:
            return int(name)
    raise WorldError(f"nobody calls itself {inner}")


@case("foreign")
def foreign_on_overlay(world: World) -> None:
    """a codex store on an overlay, where stat's device is not the one in the kernel's lock list"""
    for name in ("lower", "upper", "worker"):
        (world.folder / name).mkdir()
    base = world.folder
    world.until_the_end(mounted("ramfs", base / "lower"))  # another file system than the upper one
    layers = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/worker"
    world.until_the_end(mounted("overlay", world.root(Codex), layers))
    agent, fresh = Codex.spawn(world).mid_model(), Codex.spawn(world, source="cli")
    if agent.lock.stat().st_dev == world.root(Codex).stat().st_dev:
        raise WorldError("this overlay has one device number only")
    world.look()
    world.check("codex exec", agent.id, "running", pid=agent, link="exact", inferred=False)
    world.check("codex TUI, of which only the lock tells", fresh.id, "idle", pid=fresh, link="exact")
