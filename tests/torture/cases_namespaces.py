"""PID namespaces: a pid means something only in its own. What cannot be looked at from here is unknown, is never
signalled, keeps its directory and its folder."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.torture.answers import Contains
from tests.torture.cases_launch import LONG, launch, launches
from tests.torture.cases_terminals import Server, in_tmux
from tests.torture.cases_worktrees import Trees
from tests.torture.handles import Handle, WorldError, wait_until
from tests.torture.kernel import child_of, in_time_namespace
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.world import World

    Around = Callable[[list[str]], list[str]]

REFUSED, CANNOT_KNOW = 4, 5
PID = ["unshare", "--pid", "--fork", "--kill-child"]


def under(*command: str) -> Around:
    return lambda words: [*command, *words]


def with_proc(options: str, *namespaces: str) -> Around:
    """In these namespaces, with this /proc."""
    return under("unshare", "--mount", *namespaces, "sh", "-ec", f'mount {options} /proc; exec "$@"', "sh")


SIBLING = under(*PID, "--mount-proc")
SIBLINGS = {
    "a sandbox": SIBLING,
    "without privileges": under("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"),
    "hidepid=ptraceable": with_proc("-t proc -o hidepid=ptraceable proc", "--pid", "--fork"),
}
WITHOUT = {"no /proc": with_proc("-t tmpfs none"), "subset=pid": with_proc("-t proc -o subset=pid proc")}


def refused(world: World, label: str, *words: str, code: int = REFUSED, about: str = "namespace") -> None:
    """One line that says why, and this exit code."""
    done = world.run(*words)
    said = done.stderr.strip()
    ok = done.returncode == code and about in said + done.stdout and len(said.splitlines()) <= 1
    world.says(f"{label}: exit {code}, with the reason", f"exit {done.returncode}: {said or done.stdout}", ok)


def lives(world: World, label: str, handle: Handle) -> None:
    world.says(f"{label}: it still lives", str(not handle.has_ended()), not handle.has_ended())


def record_of(world: World, id: str) -> tuple[str, dict[str, Any]]:
    ((name, found),) = [(name, one) for name, one in launches(world).items() if one["session_id"] == id]
    return name, found


def rewrite(world: World, name: str, **changes: str) -> None:
    path = world.folder / "agentctl" / "launches" / name / "launch.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


class Room:
    """A PID namespace that stays, in which commands can be run: its first process is a shell that reads them."""

    def __init__(self, world: World) -> None:
        self.shell = subprocess.Popen(
            [*PID, "--mount-proc", "sh"], stdin=subprocess.PIPE, env=world.env, cwd=world.work
        )
        outer = Handle(self.shell.pid, start_ticks(self.shell.pid), self.shell)
        world.keep(outer)
        wait_until("the shell of the namespace runs", lambda: child_of(self.shell.pid) is not None)
        self.first = child_of(self.shell.pid) or 0

    def around(self, words: list[str]) -> list[str]:
        """In this namespace, with its /proc."""
        return ["nsenter", "--target", str(self.first), "--pid", "--mount", *words]

    def around_without_its_proc(self, words: list[str]) -> list[str]:
        return ["nsenter", "--target", str(self.first), "--pid", *words]


def mid_turn(world: World) -> dict[str, Any]:
    """Live agents that do not say in which PID namespace they are, and one that does."""
    everybody: dict[str, Any] = {
        "claude, without pidDomain": Claude.spawn(world, "busy", style="old").mid_model(),
        "claude, with pidDomain": Claude.spawn(world, "busy").mid_model(),
        "claude, not registered": Claude.spawn(world, register=False).mid_model(),
        "codex": Codex.spawn(world).mid_model(),
        "demo agent": Demo.spawn(world, LONG),
    }
    everybody["demo agent"].wait_for_event("prompt")
    world.expects_unattached.add(everybody["claude, not registered"].pid)
    return everybody


@case("sibling-namespace")
def sibling_agents(world: World) -> None:
    """seen from a sandbox with the same files, live agents are unknown, and keep their directory"""
    everybody = mid_turn(world)
    killed = Codex.spawn(world).mid_model()
    killed.kill()
    world.look()
    for label, agent in everybody.items():
        status = "unknown" if label == "claude, not registered" else "running"
        world.check(f"{label}, from its own namespace", agent.id, status)
    for where, around in SIBLINGS.items():
        world.around = around
        world.look()
        for label, agent in everybody.items():
            world.check(f"{label}, from {where}", agent.id, "unknown", process="unknown", pid=None)
        world.check(f"codex, killed, from {where}", killed.id, "unknown", reason=Contains("PID namespace"))
    world.around = SIBLING
    refused(world, "a second agent", "launch", "demo", "-p", "x", "--cwd", str(world.work))
    for label, agent in everybody.items():
        refused(world, f"stop --force, {label}", "stop", agent.id, "--force")
        lives(world, label, agent)


@case("sibling-namespace")
def sibling_launch(world: World) -> None:
    """seen from a sandbox, our own live launch is unknown: nothing ends it, enters its directory or removes it"""
    id, handles = launch(world, "-p", LONG, "--group", "g")
    name, _ = record_of(world, id)
    child = handles["child"]
    (world.root(Demo) / "sessions" / id / "process.json").unlink()  # only the launch says who is on it
    world.look()
    world.check("from its own namespace", id, "running", pid=child)
    config = world.folder / "config" / "agentctl"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text('retention = "1s"\n')
    world.around = SIBLING
    world.look()
    world.check("its session", id, "unknown", process="unknown", launch_id=name, reason=Contains("PID namespace"))
    listed = {one["launch_id"]: one["why"] for one in world.ask("list", "--group", "g")["unattached"]}
    world.says("no process is made up in its group", str(listed), not listed)
    refused(world, "a second agent", "launch", "demo", "-p", "x", "--cwd", str(world.work))
    refused(world, "resume", "resume", id, "x")
    refused(world, "stop SESSION", "stop", id, "--force")
    refused(world, "stop LAUNCH", "stop", name, "--tree")
    refused(world, "stop --group", "stop", "--group", "g")
    refused(world, "attach", "attach", "--print", id)
    refused(world, "send", "send", id, "x")
    refused(world, "wait SESSION", "wait", id, code=CANNOT_KNOW)
    refused(world, "wait LAUNCH", "wait", name, code=CANNOT_KNOW)
    over = world.run("_over", name)
    world.says("it is not over for a hook", f"exit {over.returncode}", over.returncode == 75)
    wait_until("the launch is older than what is kept", lambda: keeps(world, name) is not None)
    why = keeps(world, name) or ""
    world.says("prune keeps its folder, and says why", why, "namespace" in why)
    lives(world, "after all this", child)
    world.around = list
    world.look()
    world.check("and from its own namespace", id, "running", pid=child)


def keeps(world: World, name: str) -> str | None:
    """Return why prune keeps a launch; None if it does not."""
    return {one["launch_id"]: one["why"] for one in world.ask("prune")["kept"]}.get(name)


@case("sibling-namespace")
def sibling_without_session(world: World) -> None:
    """a launch of another namespace that has no session yet: its directory is taken, and nothing of it is signalled"""
    id, handles = launch(world, "-p", LONG, "--group", "g")
    name, _ = record_of(world, id)
    for path in (world.root(Demo) / "sessions" / id).iterdir():
        path.unlink()
    world.around = SIBLING
    refused(world, "a second agent", "launch", "demo", "-p", "x", "--cwd", str(world.work))
    refused(world, "stop LAUNCH", "stop", name, "--tree", "--force")
    refused(world, "stop --group", "stop", "--group", "g")
    refused(world, "attach", "attach", "--print", name)
    refused(world, "wait", "wait", name, code=CANNOT_KNOW)
    listed = {one["launch_id"]: one["why"] for one in world.ask("list", "--group", "g")["unattached"]}
    world.says("its group shows it, and why", str(listed), "namespace" in listed.get(name, ""))
    lives(world, "after all this", handles["child"])


@case("sibling-namespace")
def sibling_worktree(world: World) -> None:
    """a launch of another namespace works in a worktree: it is kept, unless a person says --force"""
    trees = Trees(world)
    path = trees.make("a")
    id, handles = launch(world, "-p", LONG, cwd=path)
    (world.root(Demo) / "sessions" / id / "process.json").unlink()
    world.around = SIBLING
    refused(world, "with its session", "worktree", "clean", str(path))
    for file in (world.root(Demo) / "sessions" / id).iterdir():
        file.unlink()
    refused(world, "without a session", "worktree", "clean", str(path))
    world.says("nothing is lost", str(path), trees.whole(path))
    lives(world, "after all this", handles["child"])


@in_tmux("sibling-namespace")
def sibling_screen(world: World) -> None:
    """a launch from a sandbox into a tmux server outside of it: who that server is cannot be proved from inside"""
    Server(world).start()
    world.around = SIBLING
    refused_or_failed = world.run("launch", "--interactive", "demo", "-p", LONG)
    said = refused_or_failed.stderr.strip()
    world.says("it names the server, and says why", said, refused_or_failed.returncode in (1, 4) and "tmux" in said)
    world.says("nothing was started", str(launches(world)), not launches(world))


@case("sibling-namespace")
def strangers_key(world: World) -> None:
    """a record of another namespace has the pid and the start of a stranger in ours: the stranger is not it"""
    id, handles = launch(world, "-p", LONG)
    name, _ = record_of(world, id)
    handles["child"].stop()
    wait_until("the runner has ended", handles["runner"].has_ended)
    stranger = world.bare("claude", ["claude"])
    world.expects_unattached.add(stranger.pid)
    boot = launches(world)[name]["child"].rsplit(":", 2)[0]
    rewrite(world, name, child=f"{boot}:{stranger.pid}:{start_ticks(stranger.pid)}", pid_namespace="pid:[4026539999]")
    world.look()
    world.check("its session", id, "unknown", pid=None, reason=Contains("PID namespace"))
    refused(world, "stop LAUNCH", "stop", name, "--tree", "--force")
    refused(world, "stop SESSION", "stop", id, "--force")
    lives(world, "the stranger", stranger)
    rewrite(world, name, child=f"another-boot:{stranger.pid}:{start_ticks(stranger.pid)}")
    world.look()
    world.check("a container with a boot of its own", id, "unknown", pid=None, reason=Contains("PID namespace"))
    os.utime(world.folder / "agentctl" / "launches" / name / "launch.json", (1e9, 1e9))
    world.look()
    world.check("recorded before the machine was started anew", id, "stopped", process="gone", pid=None)


@case("sibling-namespace")
def strangers_file(world: World) -> None:
    """a pid file of another namespace has the pid and the start of a process in ours: that is not it"""
    agent = Claude.spawn(world, "busy").mid_model()
    world.look()
    world.check("of our own namespace", agent.id, "running", pid=agent, link="exact")
    agent.file.write_text(agent.file.read_text().replace("pid:[", "pid:[9"))
    world.look()
    world.check("of another namespace", agent.id, "unknown", process="unknown", pid=None)
    world.check_unattached("the process here", agent)
    refused(world, "stop --force", "stop", agent.id, "--force")
    lives(world, "the process here", agent)


@case("inner-namespace")
def inner_launch(world: World) -> None:
    """a launch of a namespace below ours, which we see: alive, gone, and stopped by its launch"""
    room = Room(world)
    world.around = room.around
    (first, second) = (inside(world, "one"), inside(world, "two"))
    world.around = list
    for id, _, _ in (first, second):
        (world.root(Demo) / "sessions" / id / "process.json").unlink()  # only the launch says who is on it
    world.look()
    for label, (id, name, seen) in (("one", first), ("two", second)):
        world.check(f"{label}, from outside", id, "running", pid=seen, launch_id=name)
    refused(world, "a second agent", "launch", "demo", "-p", "x", "--cwd", str(world.work / "one"), about="running")
    stopped = world.run("stop", first[1])
    world.says("stop LAUNCH ends it", stopped.stdout.strip(), stopped.returncode == 0 and first[2].has_ended())
    second[2].send_signal(9)
    second[2].wait()
    world.look()
    world.check("stopped", first[0], "stopped", process="gone")
    world.check("killed, and its namespace is still seen", second[0], "stopped", process="gone")
    world.around = SIBLING
    world.look()
    world.check("killed, from a sandbox", second[0], "unknown", process="unknown")


def inside(world: World, folder: str) -> tuple[str, str, Handle]:
    """Launch in the namespace that the world's commands run in. Return session, launch, and process as we see it."""
    (world.work / folder).mkdir()
    done = world.run("launch", "demo", "--cwd", str(world.work / folder), "-p", LONG)
    if done.returncode != 0:
        raise WorldError(f"launch: exit {done.returncode}: {done.stderr}")
    id = done.stdout.strip()
    name, record = record_of(world, id)
    handles = {}
    for who in ("runner", "child"):
        _, pid, start = record[who].rsplit(":", 2)
        seen = outer_pid(int(pid), int(start), record["pid_namespace"])
        handles[who] = Handle(seen, start_ticks(seen))
        world.keep(handles[who])
    return id, name, handles["child"]


def outer_pid(pid: int, start: int, namespace: str) -> int:
    """The pid that we see of a process of another namespace."""
    for found in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{found}/status") as file:
                pids = next(line.split()[1:] for line in file if line.startswith("NSpid:"))
            same = int(pids[-1]) == pid and os.readlink(f"/proc/{found}/ns/pid") == namespace
            if same and start_ticks(int(found)) == start:
                return int(found)
        except OSError:
            continue
    raise WorldError(f"pid {pid} of {namespace} is not to be seen")


@case("foreign-proc")
def foreign_proc(world: World) -> None:
    """/proc is of another PID namespace: all are unknown, nobody is signalled, nothing is started"""
    everybody = mid_turn(world)
    id, handles = launch(world, "-p", LONG, cwd=world.folder_at("other"))
    name, _ = record_of(world, id)
    room = Room(world)
    before = launches(world)
    for where, around in {"unshare --pid": under(*PID), "nsenter -p": room.around_without_its_proc}.items():
        world.around = around
        world.look()
        for label, agent in everybody.items():
            world.check(f"{label}, {where}", agent.id, "unknown", process="unknown", pid=None)
        world.check(f"our launch, {where}", id, "unknown", process="unknown", pid=None)
        for agent in everybody.values():
            refused(world, f"stop --force, {where}", "stop", agent.id, "--force", about="/proc")
        refused(world, f"stop LAUNCH, {where}", "stop", name, "--tree", "--force", about="/proc")
        folder = world.folder_at("empty")
        refused(world, f"launch, {where}", "launch", "demo", "-p", "x", "--cwd", str(folder), "--force", about="/proc")
        for label, agent in {**everybody, "our launch": handles["child"]}.items():
            lives(world, f"{label}, {where}", agent)
    world.around = under("unshare", "--pid")  # only what it starts is in the new namespace: first of all, the runner
    done = world.run("launch", "demo", "-p", "x", "--cwd", str(world.folder_at("empty")))
    world.says("a runner with another /proc starts nothing", done.stderr.strip(), done.returncode not in (0, 124))
    world.look()
    world.check("our launch, from a command that can start no thread", id, "running", pid=handles["child"])
    world.says("no launch was recorded", str(len(launches(world))), launches(world) == before)


@case("no-proc")
def no_proc(world: World) -> None:
    """no /proc, or a part of it: what is stored is shown as unknown, and what acts refuses in one line"""
    everybody = mid_turn(world)
    done = Claude.spawn(world, "busy").finished()
    done.leave()
    id, handles = launch(world, "-p", LONG, cwd=world.folder_at("other"))
    name, _ = record_of(world, id)
    target = everybody["demo agent"]
    for where, around in WITHOUT.items():
        world.around = around
        world.look()
        for label, agent in everybody.items():
            why = Contains("/proc")
            world.check(f"{label}, {where}", agent.id, "unknown", process="unknown", pid=None, reason=why)
        world.check(f"finished, {where}: keeps its word", done.id, "done", inferred=True)
        world.check(f"our launch, {where}", id, "unknown", process="unknown", pid=None)
        folder = world.folder_at("empty")
        refused(world, f"launch, {where}", "launch", "demo", "-p", "x", "--cwd", str(folder), about="/proc")
        refused(world, f"resume, {where}", "resume", target.id, "x", about="/proc")
        refused(world, f"stop, {where}", "stop", target.id, about="/proc")
        refused(world, f"stop LAUNCH, {where}", "stop", name, about="/proc")
        refused(world, f"send, {where}", "send", target.id, "x", about="/proc")
        refused(world, f"attach, {where}", "attach", "--print", target.id, about="/proc")
        refused(world, f"wait, {where}", "wait", target.id, code=CANNOT_KNOW, about="/proc")
        for words in (["status", id], ["why", id], ["peek", id], ["usage"], ["agents"], ["locks"], ["prune"], ["list"]):
            ran = world.run(*words)
            world.says(f"{words[0]}, {where}: exit 0", f"exit {ran.returncode}: {ran.stderr}", ran.returncode == 0)
        kept = keeps(world, name)
        world.says(f"prune, {where}: the launch stays", str(kept), name in launches(world))
    for label, agent in {**everybody, "our launch": handles["child"]}.items():
        lives(world, label, agent)


@case("clock-step")
def launch_in_a_time_namespace(world: World) -> None:
    """launched in a time namespace, or asked from one: its keys have other starts, and it is the same launch"""
    world.around = in_time_namespace(7_200)
    done = world.run("launch", "demo", "--cwd", str(world.work), "-p", LONG)
    id = done.stdout.strip()
    name, record = record_of(world, id)
    pids = {who: int(record[who].rsplit(":", 2)[1]) for who in ("runner", "child")}
    handles = {who: Handle(pid, start_ticks(pid)) for who, pid in pids.items()}
    for handle in handles.values():
        world.keep(handle)
    for shift in (0, 7_200, 3_600):
        world.around = in_time_namespace(shift)
        world.look()
        world.check(f"from a clock of {shift} s", id, "running", pid=handles["child"], launch_id=name)
        refused(world, f"a second agent, {shift} s", "launch", "demo", "-p", "x", about="launched by agentctl")
        why = keeps(world, name) or ""
        world.says(f"prune, {shift} s: not proved gone", why, "not proved gone" in why)
    world.around = list
    (world.root(Demo) / "sessions" / id / "process.json").unlink()
    stopped = world.run("stop", name)
    world.says("stop LAUNCH ends it", stopped.stdout.strip(), stopped.returncode == 0 and handles["child"].has_ended())
