"""What the kernel proves, and what it only names: locks, other users, boots, namespaces, first threads that ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex
from tests.agents.demo.torture import Demo
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_launch import LONG
from tests.torture.cases_namespaces import record_of
from tests.torture.handles import Handle, state_of, wait_until
from tests.torture.kernel import another_user, as_nobody, child_of
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.torture.world import World

    Around = Callable[[list[str]], list[str]]

REFUSED = 4
# It takes a lock, as an agent does, and starts a tool that inherits it.
LOCKER = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
fcntl.flock(fd, fcntl.LOCK_EX)
os.set_inheritable(fd, True)
if os.fork() == 0:
    os.execv("/usr/bin/sleep", ["sleep", "300"])
time.sleep(300)
"""


def may_live(world: World, label: str, id: str) -> None:
    """It lives: whatever is said, it is no firm end, and it is there."""
    row = world.listing.rows.get(id)
    if row is None:
        world.says(f"{label}: no firm end", "it is not listed", False)
        return
    said = f"{row['status']}{'?' if row['inferred'] else ''}, {row['process']}: {row['reason']}"
    world.says(f"{label}: no firm end", said, row["process"] != "gone" or row["inferred"])


def strictly(world: World, label: str) -> None:
    done = world.run("list", "-a", "--strict")
    world.says(f"{label}: --strict is not 0", f"exit {done.returncode}", done.returncode != 0)


# Locks


def lock_of_a_tool(world: World, path: Path) -> Handle:
    """The tool of a dead process, which took this lock. Its list of locks still names the dead one outside of here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    popen = subprocess.Popen([sys.executable, "-c", LOCKER, str(path)])
    tool_pid = wait_until("the tool runs", lambda: child_of(popen.pid))
    wait_until("it is a tool", lambda: b"sleep" in open(f"/proc/{tool_pid}/cmdline", "rb").read())
    tool = Handle(tool_pid, start_ticks(tool_pid))
    world.keep(tool)
    popen.kill()
    popen.wait()
    return tool


def with_locks_of(world: World, path: Path, pid: int) -> Around:
    """As if the kernel's list of locks named this process as the one that took the lock."""
    found = path.stat()
    line = subprocess.run(["findmnt", "-no", "MAJ:MIN", "-T", str(path)], capture_output=True, text=True, check=True)
    major, minor = map(int, line.stdout.strip().split(":"))
    names = world.folder / f"locks-{pid}"
    names.write_text(f"1: FLOCK  ADVISORY  WRITE {pid} {major:02x}:{minor:02x}:{found.st_ino} 0 EOF\n")
    script = f'mount --bind "{names}" /proc/locks && exec "$@"'
    return lambda command: ["unshare", "--mount", "sh", "-c", script, "sh", *command]


@case("pid-recycled")
def lock_names_a_stranger(world: World) -> None:
    """codex is dead, a tool inherited its lock, and a stranger or another codex has the pid that took it"""
    for program in ("rust-analyzer", "codex"):
        codex = Codex.spawn(world, lock=False, cwd=world.folder_at(program)).mid_model()
        codex.kill()
        tool = lock_of_a_tool(world, codex.lock)
        stranger = world.bare(program, [program, "exec", "go"], cwd=world.folder_at(f"{program}-2"))
        world.expects_unattached.add(stranger.pid)
        world.around = with_locks_of(world, codex.lock, stranger.pid)
        world.look()
        row = world.listing.rows[codex.id]
        world.says(f"{program}: no process is on it", f"{row['process']} {row['reason']}", row["process"] != "alive")
        for words in (("stop", codex.id), ("stop", codex.id, "--force")):
            done = world.run(*words)
            said = f"{done.returncode} {done.stderr}"
            world.says(f"{program}: {' '.join(words[0::2])} leaves it", said, not stranger.has_ended())
        world.says(f"{program}: the tool lives", str(tool.pid), not tool.has_ended())
        world.around = list


@case("pid-recycled")
def lock_of_a_closed_process(world: World) -> None:
    """the kernel's list names a codex for the lock of a thread, and we may not look into it"""
    codex = Codex.spawn(world).mid_model()
    subprocess.run(["chmod", "-R", "a+rwX", str(world.folder)], check=True)
    world.around = as_nobody
    world.look()
    world.check("codex of another user", codex.id, "unknown", process="unknown", pid=None)
    world.check_problem("its lock", codex.lock)
    strictly(world, "codex of another user")


# A first thread that has ended


@case("zombie")
def zombie_leader_of_another_name(world: World) -> None:
    """an OpenCode under another name, whose first thread has ended"""
    agent = OpenCode.spawn(world, program="oc", argv=["oc"]).mid_model()
    agent.send("leave_leader")
    wait_until("its first thread has ended", lambda: state_of(agent.pid) == "Z")
    world.look()
    may_live(world, "oc", agent.id)


# Other users, and processes into which we may not look


def of_every_kind(world: World) -> dict[str, Any]:
    """An agent of each kind, in mid-turn; some prove nothing about themselves."""
    return {
        "claude": Claude.spawn(world, "busy").mid_model(),
        "older claude": Claude.spawn(world, "busy", style="old").mid_model(),
        "claude, not registered": Claude.spawn(world, register=False).mid_model(),
        "codex": Codex.spawn(world).mid_model(),
        "older codex": Codex.spawn(world, lock=False).mid_model(),
        "OpenCode": OpenCode.spawn(world).mid_model(),
    }


def give_away(world: World) -> None:
    """All folders are another user's, who then runs the agents."""
    user = another_user()
    for folder in (world.folder, world.home, world.work, world.data, world.root(Codex)):
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, user, user)


@case("other-user")
def agents_of_root(world: World) -> None:
    """agents of root work in the store of a user, who asks and launches"""
    everybody = of_every_kind(world)
    subprocess.run(["chmod", "-R", "a+rwX", str(world.folder)], check=True)
    world.around = as_nobody
    world.look()
    for label, agent in everybody.items():
        may_live(world, f"{label} of root", agent.id)
    world.check_problem("the lock of codex", everybody["codex"].lock)
    strictly(world, "agents of root")
    done = world.run("launch", "demo", "-p", "[[text:hi]]")
    said = f"exit {done.returncode}: {done.stderr}"
    world.says("launch warns or refuses", said, done.returncode == REFUSED or "may" in done.stderr)


@case("other-user")
def asked_by_root(world: World) -> None:
    """root asks with the home of a user about that user's agents, which run under other names"""
    give_away(world)
    everybody: dict[str, Any] = {
        "OpenCode": OpenCode.spawn(world, program="oc", argv=["oc"], around=as_nobody).mid_model(),
        "older codex": Codex.spawn(world, program="cx", argv=["cx"], lock=False, around=as_nobody).mid_model(),
        "claude": Claude.spawn(world, register=False, program="cc", argv=["cc"], around=as_nobody).mid_model(),
    }
    world.look()
    for label, agent in everybody.items():
        may_live(world, label, agent.id)


@case("other-user")
def another_real_user(world: World) -> None:
    """agents under other names that run as us, with the real uid of another user"""
    around: Around = lambda command: ["setpriv", f"--ruid={another_user()}", *command]  # noqa: E731
    everybody: dict[str, Any] = {
        "OpenCode": OpenCode.spawn(world, program="oc", argv=["oc"], around=around).mid_model(),
        "claude": Claude.spawn(world, register=False, program="cc", argv=["cc"], around=around).mid_model(),
    }
    world.look()
    for label, agent in everybody.items():
        may_live(world, label, agent.id)


@case("other-user")
def others_who_cannot(world: World) -> None:
    """agents of another user who cannot change our store, and root's daemons, say nothing about a killed agent"""
    os.chmod(world.folder, 0o755)
    theirs = world.folder_at("theirs")
    user = another_user()
    os.chown(theirs, user, user)
    for program, argv in (
        ("claude", ["claude"]),
        ("opencode", ["opencode"]),
        ("codex", [CODEX_BINARY]),
        ("node", ["node", "server.js"]),
    ):
        world.bare(program, argv, cwd=theirs, env={"HOME": str(theirs)}, around=as_nobody)
    agents: dict[str, Any] = {
        "claude, not registered": Claude.spawn(world, register=False).mid_model(),
        "codex": Codex.spawn(world).mid_model(),
        "older codex": Codex.spawn(world, lock=False).mid_model(),
        "OpenCode": OpenCode.spawn(world).mid_model(),
    }
    for agent in agents.values():
        agent.kill()
    world.around = without_powers
    world.look()
    for label, agent in agents.items():
        world.check(f"{label}, killed", agent.id, "stopped", process="gone", inferred=False, pid=None)


def without_powers(command: list[str]) -> list[str]:
    """As a user who may not look into the processes of others, and owns the store all the same."""
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", *command]


@case("closed-process")
def closed_by_our_namespace(world: World) -> None:
    """agentctl is in a user namespace and may look into no process; agents run under other names"""
    everybody: dict[str, Any] = {
        "OpenCode": OpenCode.spawn(world, program="oc", argv=["oc"]).mid_model(),
        "older codex": Codex.spawn(world, program="cx", argv=["cx"], lock=False).mid_model(),
        "claude": Claude.spawn(world, register=False, program="cc", argv=["cc"]).mid_model(),
    }
    world.around = lambda command: ["unshare", "--user", "--map-root-user", *command]
    world.look()
    for label, agent in everybody.items():
        may_live(world, label, agent.id)
    strictly(world, "in a user namespace")


# Boots and clocks of containers

CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def with_its_own_boot(world: World) -> Around:
    """As in a container of LXC or Incus, which has a boot id of its own."""
    path = world.folder / "boot_id"
    path.write_text("11111111-2222-4333-8444-555555555555\n")
    script = f'mount --bind "{path}" /proc/sys/kernel/random/boot_id && "$@"; true'
    return lambda command: [*CONTAINER, "sh", "-c", script, "sh", *command]


def demo_in(world: World, around: Around, cwd: Path) -> tuple[str, Handle]:
    """A demo agent in mid-turn, in a container that ends with the handle."""
    known = set(world.root(Demo).glob("sessions/*"))
    command = around([sys.executable, "-m", "agentctl.demo_agent", "-p", LONG])
    popen = subprocess.Popen(command, cwd=cwd, env=world.env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    handle = Handle(popen.pid, start_ticks(popen.pid), popen)
    world.keep(handle)

    def busy() -> str | None:
        files = (path / "process.json" for path in set(world.root(Demo).glob("sessions/*")) - known)
        return next((path.parent.name for path in files if path.exists() and '"busy"' in path.read_text()), None)

    return wait_until("it works", busy), handle


@case("inner-namespace")
def boots_and_clocks_of_containers(world: World) -> None:
    """demo agents in containers with a boot id of their own, and in a PID and a time namespace"""
    shifted: Around = lambda command: ["unshare", "--time", "--boottime", "7200", *CONTAINER[1:], *command]  # noqa: E731
    for label, around in (("its own boot", with_its_own_boot(world)), ("another clock", shifted)):
        id, container = demo_in(world, around, world.folder_at(label.replace(" ", "-")))
        path = world.root(Demo) / "sessions" / id / "process.json"
        facts = json.loads(path.read_text())
        world.look()
        world.check(f"{label}, lives", id, "running", process="alive", link="exact", inferred=False)
        path.write_text(json.dumps({name: fact for name, fact in facts.items() if name != "pid_namespace"}))
        world.look()
        world.check(f"{label}, written by an older version", id, "running", process="alive")
        path.write_text(json.dumps({**facts, "pid_namespace": "pid:[4026539999]"}))
        world.look()
        may_live(world, f"{label}, in a namespace that we do not see", id)
        path.write_text(json.dumps(facts))
        container.stop()
        os.utime(path, (1e9, 1e9))
        world.look()
        row = world.listing.rows[id]
        said = f"{row['process']}: {row['reason']}"
        ended = row["process"] == "gone" if label == "its own boot" else row["process"] != "alive"
        world.says(f"{label}, its container has ended, and the machine was booted since", said, ended)


@case("inner-namespace")
def a_launch_with_its_own_boot(world: World) -> None:
    """a launch in a container with a boot id of its own: it lives, keeps its directory and its folder"""
    popen = subprocess.Popen(
        with_its_own_boot(world)(["sh", "-c", '"$@"; sleep 300', "sh", *world.command, "launch", "demo", "-p", LONG]),
        env=world.env, cwd=world.work, stdout=subprocess.PIPE,
    )  # fmt: skip
    world.keep(Handle(popen.pid, start_ticks(popen.pid), popen))
    assert popen.stdout
    id = popen.stdout.readline().decode().strip()
    name, _ = record_of(world, id)
    world.look()
    world.check("the launch", id, "running", process="alive", launch_id=name)
    done = world.run("launch", "demo", "-p", "x")
    world.says("a second agent is refused", f"exit {done.returncode}: {done.stderr}", done.returncode == REFUSED)


@case("closed-process")
def only_its_environment_names_its_store(world: World) -> None:
    """an agent into which we may not look works in a store that only its environment names"""
    other = world.home / "other"
    claude = Claude.spawn(world, root=other, env={"CLAUDE_CONFIG_DIR": str(other)}).mid_tool()
    world.expects_unattached.add(claude.pid)
    world.around = without_powers
    world.look()
    strictly(world, "its store is not known")
    world.check_problem("its environment", f"/proc/{claude.pid}/environ")
    done = world.run("status", claude.id)
    world.says("status knows that it cannot know", f"exit {done.returncode}: {done.stderr}", done.returncode == 5)
