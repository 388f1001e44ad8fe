"""A process is excluded by facts, not by its name: agents under other names, odd pid files, copies of stores."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_alive import outer_pid
from tests.torture.cases_identity import configure_stores
from tests.torture.cases_machine import make_fifo
from tests.torture.handles import Handle, Puppet, Tool, WorldError, arguments, read_answer, wait_until
from tests.torture.kernel import another_user, as_nobody
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks
from tests.torture.world import Contains

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.agents import Agent
    from tests.torture.world import World

LOADER = next(
    (path for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(path)), ""
)
PID_1 = ["env", "unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
HOUR = 3600


def link_to(world: World, program: str, name: str) -> str:
    """A symbolic link to the program of an agent, by which it can be started."""
    target = Path(world.programs.path(program))
    path = target.parent / name
    if not path.exists():
        path.symlink_to(target)
    return name


def through_loader(command: list[str]) -> list[str]:
    if not LOADER:
        raise WorldError("no dynamic loader is known for this machine")
    return [LOADER, *command]


@case("another-name")
def another_name_opencode(world: World) -> None:
    """OpenCode through a link, with a renamed main thread, through the loader: it is found by its executable"""
    linked = OpenCode.spawn(world, program=link_to(world, "opencode", "oc-link"), argv=["oc-link", "run", "do it"])
    renamed = OpenCode.spawn(world, cwd=world.folder_at("renamed"))
    renamed.do("rename", comm="worker-0")
    binary = world.programs.path("opencode")
    loaded = OpenCode.spawn(
        world, cwd=world.folder_at("loaded"), argv=[LOADER, binary, "run", "do it"], around=through_loader
    )
    everybody = {"through a link": linked, "renamed": renamed, "through ld-linux": loaded}
    for agent in everybody.values():
        agent.mid_model()
    world.look()
    for label, agent in everybody.items():
        world.check(f"OpenCode {label}", agent.id, "running", pid=agent, link="exact")
    for agent in everybody.values():
        agent.kill()
    world.look()
    for label, agent in everybody.items():
        world.check(f"OpenCode {label}, killed", agent.id, "stopped", process="gone", inferred=False)


@case("another-name")
def another_name_unrecognised(world: World) -> None:
    """agents that nothing gives away but what they have open, or where they work"""
    bun = OpenCode.spawn(world, program="bun", argv=["bun", "run", "./src/index.ts"])
    copied = OpenCode.spawn(world, program="oc", argv=["oc", "run", "do it"], cwd=world.folder_at("oc"))
    codex = Codex.spawn(world, lock=False, program="cx", argv=["cx", "exec", "go"], cwd=world.folder_at("cx"))
    claude = Claude.spawn(world, register=False, program="cc", argv=["cc"], cwd=world.folder_at("cc"))
    script = Claude.spawn(
        world, register=False, program="node", argv=["node", "/opt/x/cli.js"], cwd=world.folder_at("js")
    )
    loaded = Claude.spawn(
        world, register=False, program="cc", argv=[LOADER, "cc"], cwd=world.folder_at("ld"), around=through_loader
    )
    everybody: dict[str, Agent] = {
        "OpenCode from its sources, in bun": bun,
        "OpenCode, its binary copied to `oc`": copied,
        "older codex, its binary copied to `cx`": codex,
        "claude, not registered, its binary copied to `cc`": claude,
        "claude, not registered, a script of no package": script,
        "claude, not registered, through ld-linux": loaded,
    }
    for agent in everybody.values():
        agent.mid_model()
    world.look()
    for label, agent in everybody.items():
        world.check(label, agent.id, "unknown", process="unknown", reason=Contains(str(agent.pid)))
    shown = str(world.ask("why", claude.id).get("rejected", []))
    world.says("why names the process and the reason", shown, f"pid {claude.pid}" in shown and "unidentified" in shown)
    for agent in everybody.values():
        agent.kill()
    world.look()
    for label, agent in everybody.items():
        world.check(f"{label}: killed", agent.id, "stopped", process="gone", inferred=False)


@case("another-name")
def another_name_codex_and_claude(world: World) -> None:
    """older Codex and unregistered Claude through links: they are found by their executable"""
    codex = Codex.spawn(world, lock=False, program=link_to(world, "codex", "cx-link"), argv=["cx-link", "exec", "go"])
    claude = Claude.spawn(
        world, register=False, program=link_to(world, "claude", "cc-link"), argv=["cc-link"], cwd=world.folder_at("x")
    )
    for agent in (codex, claude):
        agent.mid_model()
    world.look()
    world.check("older codex through a link", codex.id, "running", pid=codex, link="exact")
    world.check("unregistered claude through a link", claude.id, ("running", "unknown"))
    world.expects_unattached.add(claude.pid)


@case("another-name")
def another_name_but_innocent(world: World) -> None:
    """programs of the agents' kind that cannot be on the session: it has firmly ended"""
    (world.work / "package.json").write_text(json.dumps({"name": "my-app"}))
    claude = Claude.spawn(world, register=False)
    opencode = OpenCode.spawn(world)
    crowd = [
        world.bare("node", ["node", "./server/index.js"]),  # its script is of a package with another name
        world.bare("sometool", ["sometool"], cwd=world.folder_at("work/server")),  # it works in another directory
        world.bare("mytool", ["./mytool"], env={"CLAUDE_CODE_SESSION_ID": claude.id}),  # a tool of the session
        world.bare("python3", ["python3", "-m", "http.server"]),  # it runs no JavaScript, and only reads
    ]
    crowd[-1].do("keep_open", path=str(opencode.database))
    crowd[-1].do("read_database", path=str(opencode.database))
    codex = Codex.spawn(world, source="cli").finished()  # another agent: it is no stranger, whoever is asked for
    for agent in (claude, opencode):
        agent.mid_model()
        agent.kill()
    time.sleep(0.05)  # more than a tick of the clock that starts are counted in
    crowd.append(world.bare("latetool", ["latetool"]))  # it started after the last record
    world.look()
    world.check("claude killed: nobody can be on it", claude.id, "stopped", process="gone", inferred=False)
    world.check("OpenCode killed: nobody has its store open", opencode.id, "stopped", process="gone", inferred=False)
    world.check("codex meanwhile", codex.id, "idle", pid=codex)
    world.look("-a", "--agent", "claude")
    world.check("claude killed, only claude is asked for", claude.id, "stopped", process="gone", inferred=False)
    if any(process.has_ended() for process in crowd):
        raise WorldError("a process of the crowd ended")


def without(file: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in file.items() if key != name}


@case("odd-pid-file")
def odd_pid_file(world: World) -> None:
    """a live registered claude whose file lacks its start, or writes it in another form"""
    forms: dict[str, Callable[[Claude, dict[str, Any]], dict[str, Any]]] = {
        "no start": lambda _, file: without(file, "procStart"),
        "null": lambda _, file: {**file, "procStart": None},
        "a number": lambda agent, file: {**file, "procStart": agent.start},
        "a float": lambda agent, file: {**file, "procStart": float(agent.start)},
        "seconds": lambda agent, file: {**file, "procStart": agent.start // 100},
        "milliseconds of 1970": lambda agent, file: {**file, "procStart": file["startedAt"]},
        "a date": lambda agent, file: {**file, "procStart": "2026-01-01T00:00:00Z"},
    }
    agents = {}
    for label, change in forms.items():
        agent = agents[label] = Claude.spawn(world, "busy", cwd=world.folder_at(label)).mid_model()
        agent.file.write_text(json.dumps(change(agent, json.loads(agent.file.read_text()))))
    world.look()
    for label, agent in agents.items():
        world.check(f"start as {label}: alive", agent.id, "running", process="alive", pid=agent)
    for agent in agents.values():
        agent.kill()
    world.expects_problems = True
    world.look()
    for label, agent in agents.items():
        world.check(f"start as {label}: killed", agent.id, "stopped", process="gone")


@case("odd-pid-file")
def torn_pid_file(world: World) -> None:
    """a torn, an empty and a FIFO pid file of a live agent that works in another directory than its session"""
    elsewhere = world.folder_at("elsewhere")
    agents = {label: Claude.spawn(world, "busy").mid_model() for label in ("torn", "empty", "a FIFO")}
    for agent in agents.values():
        agent.do("chdir", path=str(elsewhere))
    for label, spoil in {
        "torn": lambda path: path.write_text('{"pid": 7, "sess'),
        "empty": lambda path: path.write_text(""),
        "a FIFO": make_fifo,
    }.items():
        spoil(agents[label].file)
    world.look()
    for label, agent in agents.items():
        world.check(f"its file is {label}", agent.id, "unknown", process="unknown")
        world.check_unattached(f"the process whose file is {label}", agent, ())
        world.check_problem(f"the file that is {label}", agent.file)
    for agent in agents.values():
        agent.kill()
    world.look()
    for label, agent in agents.items():
        world.check(f"its file is {label}, killed", agent.id, "stopped", process="gone")


@case("first-process")
def first_process(world: World) -> None:
    """an agent that is PID 1 of its container, seen from outside and from inside"""
    id = str(uuid.uuid4())
    config = {"kind": Claude.STANDIN, "style": "new", "headless": False, "id": id, "root": str(world.root(Claude))}
    words = arguments(world.config_file({**config, "argv": ["claude"]}), ["claude"])
    popen = world.popen([*PID_1, world.programs.path("claude"), *words[1:]], "/usr/bin/env", world.work, None)
    assert popen.stdin and popen.stdout
    ready = read_answer(popen.stdout)
    if ready["ready"] != 1:
        raise WorldError(f"it is pid {ready['ready']} inside")
    outer = outer_pid(1, ready["start"])
    world.keep(Handle(popen.pid, start_ticks(popen.pid), popen))
    agent = Puppet(outer, ready["start"], None, popen.stdin, popen.stdout)
    world.keep(agent)
    agent.do("register", status="busy")
    agent.do("prompt", text="go")
    world.look()
    world.check("PID 1, from outside", id, "running", pid=agent, link="exact")
    file = world.root(Claude) / "sessions" / "1.json"
    text = file.read_text()
    file.write_text(json.dumps(without(json.loads(text), "procStart")))
    world.look()
    world.check("PID 1, from outside, its file without a start", id, "unknown", process="unknown")
    world.expects_problems = True
    file.write_text(text)
    world.around = partial(inside_of, outer)
    world.look()
    world.check("PID 1, from inside", id, "running", pid=1, link="exact")
    done = world.run("stop", id)
    said = done.stderr.strip()
    world.says("stop from inside refuses", said, done.returncode == 4 and not agent.has_ended())
    world.around = list


def inside_of(pid: int, command: list[str]) -> list[str]:
    return ["nsenter", "--target", str(pid), "--pid", "--mount", "--", *command]


@case("copied-store")
def copied_store(world: World) -> None:
    """a backup of a store, with the pid file of a process that has gone on to another session"""
    live = Claude.spawn(world, "busy").mid_model()
    renamed = Claude.spawn(world, "busy", program="cc", argv=["cc"], cwd=world.folder_at("cc")).mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    backup = world.folder_at("backup/claude")
    shutil.copytree(world.root(Claude), backup, dirs_exist_ok=True)
    configure_stores(world, backup)
    old = {}
    for agent in (live, renamed):
        agent.do("answer")
        agent.status("idle")
        old[agent.pid], agent.id = agent.id, str(uuid.uuid4())
        agent.do("clear", id=agent.id)
        agent.mid_model()
        agent.status("busy")
    world.look()
    for label, agent in {"claude": live, "claude under another name": renamed}.items():
        world.check(f"{label}: the session it left", old[agent.pid], "done", process="gone", pid=None)
        world.check(f"{label}: the session it is on", agent.id, "running", pid=agent, link="exact")
    done = world.run("stop", live.id)
    world.says("stop ends the real one", done.stdout.strip(), done.returncode == 0 and live.has_ended(1.0))
    world.look()
    world.check("the session that was stopped", live.id, "stopped", process="gone", pid=None)


@case("copied-store")
def copy_that_alone_names_it(world: World) -> None:
    """a backup names a live process, and its own store does not: that cannot be told"""
    live = Claude.spawn(world, "busy").mid_model()
    backup = world.folder_at("backup/claude")
    shutil.copytree(world.root(Claude), backup, dirs_exist_ok=True)
    configure_stores(world, backup)
    live.file.unlink()
    world.look()
    world.check("its session", live.id, "unknown", process="unknown")
    world.expects_unattached.add(live.pid)


@case("executes-another")
def executes_another(world: World) -> None:
    """a registered process that has executed another program: its pid and its start are the same"""
    claude = Claude.spawn(world, "busy").finished()
    busy = Claude.spawn(world, "busy").mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    for agent in (claude, busy):
        agent.send("execute", argv=["/usr/bin/sleep", "300"])
        wait_until("it executes sleep", partial(executes, agent.pid, "sleep"))
    world.look()
    world.check("at rest, and executes sleep now", claude.id, "done", process="gone", pid=None)
    world.check("in mid-turn, and executes sleep now", busy.id, "stopped", process="gone", pid=None)
    world.check("demo agent, in Python", demo.id, "running", pid=demo)
    rejected = str(world.ask("why", busy.id).get("rejected", []))
    world.says("why names what it executes", rejected, "sleep" in rejected and str(busy.pid) in rejected)
    done = world.run("stop", busy.id)
    world.says("stop does not touch it", done.stdout.strip(), not busy.has_ended())


def executes(pid: int, name: str) -> bool:
    return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name


@case("among-others")
def among_others(world: World) -> None:
    """not as root, among 300 ordinary processes: an agent that was killed in mid-turn has firmly ended"""
    user = another_user()
    for folder in (world.home, world.work, world.folder):
        os.chown(folder, user, user)
    world.data.mkdir()
    os.chown(world.data, user, user)
    root = world.root(Codex)
    root.mkdir(parents=True)
    os.chown(root, user, user)
    world.around = as_nobody
    agents: dict[str, Agent] = {
        "claude": Claude.spawn(world, "busy", around=as_nobody),
        "claude whose file was removed": Claude.spawn(world, "busy", around=as_nobody),
        "older claude": Claude.spawn(world, register=False, style="old", around=as_nobody),
        "codex": Codex.spawn(world, around=as_nobody),
        "older codex": Codex.spawn(world, lock=False, around=as_nobody),
        "OpenCode": OpenCode.spawn(world, around=as_nobody),
        "OpenCode's screen": OpenCode.spawn(world, "screen", around=as_nobody),
    }
    crowd(world)  # all of them are older than the last records
    for agent in agents.values():
        agent.mid_tool()
    for agent in agents.values():
        agent.kill()
    removed = agents["claude whose file was removed"]
    assert isinstance(removed, Claude)
    removed.file.unlink()
    world.look()
    for label, agent in agents.items():
        world.check(f"{label}, killed", agent.id, "stopped", process="gone", inferred=False, pid=None)


def crowd(world: World) -> None:
    """300 ordinary processes of the same user, in the directory of the sessions and elsewhere."""
    (world.work / "package.json").write_text(json.dumps({"name": "my-app"}))
    home = world.home
    programs = (
        ("node", ["node", "server.js"], world.work, 80, False),
        ("node", ["node", "--inspect", "server.js"], world.folder_at("site"), 40, False),
        ("bun", ["bun", "run", "dev"], world.work, 40, False),
        ("firefox", ["firefox", "-contentproc"], home, 60, False),
        ("ssh-agent", ["ssh-agent", "-s"], home, 40, True),
        ("gpg-agent", ["gpg-agent", "--daemon"], world.work, 40, True),
    )
    for program, argv, cwd, count, closed in programs:
        first = world.bare(program, argv, cwd=cwd, around=as_nobody)
        world.forget(first)
        world.keep(Tool(first.pid, first.start, first.popen))  # ended with all of its group
        first.do("crowd", count=count, closed=closed)
        if closed:
            first.do("close_doors")


@case("another-name")
def another_name_siblings(world: World) -> None:
    """agents without a name: argv written over, executable deleted, directory deleted, another runtime"""
    titled = Claude.spawn(world, register=False, program="node", argv=["x"], cwd=world.folder_at("titled"))
    upgraded = Claude.spawn(
        world, register=False, program=copy_of(world, "cc-old"), argv=["cc-old"], cwd=world.folder_at("old")
    )
    gone = Claude.spawn(world, register=False, program="cc", argv=["cc"], cwd=world.folder_at("gone"))
    deno = OpenCode.spawn(world, program="deno", argv=["deno", "run", "main.ts"], cwd=world.folder_at("deno"))
    pypy = OpenCode.spawn(world, program="pypy3", argv=["pypy3", "agent.py"], cwd=world.folder_at("pypy"))
    everybody: dict[str, Agent] = {
        "claude, argv written over": titled,
        "claude, executable deleted": upgraded,
        "claude, directory deleted": gone,
        "OpenCode in deno": deno,
        "OpenCode in pypy": pypy,
    }
    for agent in everybody.values():
        agent.mid_model()
    os.unlink(world.programs.path("cc-old"))
    shutil.rmtree(world.home / "gone")
    world.look()
    for label, agent in everybody.items():
        world.check(label, agent.id, "unknown", process="unknown", reason=Contains(str(agent.pid)))
    for agent in everybody.values():
        agent.kill()
    world.look()
    for label, agent in everybody.items():
        world.check(f"{label}: killed", agent.id, "stopped", process="gone", inferred=False)


@case("another-name")
def another_name_and_other_mounts(world: World) -> None:
    """an unrecognised OpenCode that has its store at another path, in a mount namespace of its own"""
    other = world.folder / "other-data"
    inside = OpenCode.spawn(
        world, program="oc", argv=["oc"], root=other / "opencode", env={"XDG_DATA_HOME": str(other)},
        around=partial(with_mount, world.data, other),
    ).mid_model()  # fmt: skip
    world.look()
    world.check("alive", inside.id, "unknown", process="unknown", reason=Contains("open for writing"))
    inside.kill()
    world.look()
    world.check("killed", inside.id, "stopped", process="gone", inferred=False)


def copy_of(world: World, name: str) -> str:
    """The name of an executable that can be deleted without harm to the others."""
    world.programs.path(name)
    return name


def with_mount(folder: Path, other: Path, command: list[str]) -> list[str]:
    """In a mount namespace of its own, in which a folder is to be found at another path, too."""
    other.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    script = f'mount --bind "{folder}" "{other}" && exec "$@"'
    return ["/usr/bin/unshare", "--mount", "sh", "-c", script, "sh", *command]


def in_a_shell(command: list[str]) -> list[str]:
    return as_nobody(["sh", "-c", '"$@"; true', "sh", *command])


@case("closed-process")
def closed_process_of_another_name(world: World) -> None:
    """not as root: a process into which we may not look counts only below a terminal, an agent or a launch"""
    user = another_user()
    for folder in (world.home, world.work, world.folder):
        os.chown(folder, user, user)
    world.around = as_nobody
    controller, terminal = os.openpty()
    killed = Claude.spawn(world, register=False, style="old", around=as_nobody, cwd=world.folder_at("killed"))
    daemon = world.bare("keys", ["keys"], around=in_a_shell, cwd=world.home / "killed")
    live = Claude.spawn(
        world, register=False, style="old", program="keys", argv=["keys"], around=in_a_shell, terminal=terminal
    )
    idle = Claude.spawn(world, "idle", around=as_nobody, cwd=world.folder_at("idle"))
    for process in (daemon, live):
        process.do("close_doors")
    for agent in (killed, live):
        agent.mid_model()
    killed.kill()
    world.look()
    world.check("killed, and a closed daemon lives in its directory", killed.id, "stopped", inferred=False)
    world.check("alive, closed, below a terminal in its directory", live.id, "unknown", process="unknown")
    world.check("another one meanwhile", idle.id, "idle", pid=idle)
    live.kill()
    world.look()
    world.check("the closed one, killed", live.id, "stopped", process="gone", inferred=False)
    os.close(controller)
    os.close(terminal)
