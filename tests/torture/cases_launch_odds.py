"""Launches whose record outlives what it is about, is forged, or is asked about by many at once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

from tests import agents
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.torture.agents import Agent
from tests.torture.cases_launch import LIMIT, LONG, events, keep, launch, launches, program, wait_for_end
from tests.torture.handles import Handle, wait_until
from tests.torture.registry import case
from tests.torture.standins.files import random_id, start_ticks
from tests.torture.world import Contains

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.torture.world import World

ASKED_AT_ONCE = 12
MEGABYTE = 1024 * 1024
# An agent that does not read its prompt before it is told to, and then says how much of it there was.
LATE_READER = """#!/bin/sh
echo $$ > {folder}/started
while [ ! -e {folder}/go ]; do sleep 0.02; done
wc -c > {folder}/counting && mv {folder}/counting {folder}/read
"""


def launch_file(world: World, id: str) -> Path:
    return world.folder / "agentctl" / "launches" / id / "launch.json"


def only_launch(world: World) -> tuple[str, dict[str, Any]]:
    ((id, one),) = launches(world).items()
    return id, one


def check_free(world: World, label: str) -> None:
    """Another agent is let into the directory."""
    done = world.run("launch", "demo", "-p", LONG)
    for one in launches(world).values():
        keep(world, one)
    world.says(f"{label}: the directory is free", done.stderr.strip() or "launched", done.returncode == 0)


def check_over(world: World, launch_id: str, *spared: Handle) -> None:
    """A stop by the launch finds nobody, and touches nobody."""
    for words in ((), ("--force", "--tree")):
        done = world.run("stop", launch_id, *words)
        world.says("stop by its launch: it has ended", done.stdout.strip(), done.returncode == 0, done.stderr)
    dead = [one.pid for one in spared if one.has_ended()]
    world.says("the stranger: unharmed", f"{len(dead)} of {len(spared)} harmed", not dead)


@case("lock-of-dead")
def lock_of_a_recycled_pid(world: World) -> None:
    """the holder of a directory is killed -9 with its runner, and a stranger has its pid"""
    id, handles = launch(world, "-p", LONG)
    launch_id, _ = only_launch(world)
    for who in ("runner", "child"):
        handles[who].kill()
    stranger = world.stranger(handles["child"].pid)
    world.look()
    world.check("its pid is a stranger's", id, "stopped", process="gone", pid=None)
    check_over(world, launch_id, stranger)
    check_free(world, "its pid is a stranger's")


@case("reboot")
def reboot_launch(world: World) -> None:
    """the record of a launch of another boot, and somebody has its pid and its start now"""
    id, handles = launch(world, "-p", LONG)
    launch_id, one = only_launch(world)
    for who in ("runner", "child"):
        handles[who].kill()
    stranger = world.stranger(handles["child"].pid)
    shutil.rmtree(world.root(Demo) / "sessions" / id)  # nothing but the launch tells of it
    key = f"{random_id()}:{stranger.pid}:{stranger.start}"
    launch_file(world, launch_id).write_text(json.dumps({**one, "child": key, "runner": key}))
    world.look()
    world.check_not_shown("a launch of another boot", ids=[id], pids=[stranger.pid])
    check_over(world, launch_id, stranger)
    check_free(world, "a launch of another boot")


@case("crash-anywhere")
def runner_killed(world: World) -> None:
    """the runner is killed -9 while its agent works: the agent is found, held and stopped as before"""
    id, handles = launch(world, "-p", LONG, "--on-complete", f"touch {world.folder}/completed")
    launch_id, _ = only_launch(world)
    handles["runner"].kill()
    world.look()
    world.check("its runner killed", id, "running", pid=handles["child"], link="exact", inferred=False)
    again = world.run("launch", "demo", "-p", "x")
    world.says("its directory is busy", again.stderr.strip(), again.returncode == 4 and id[:8] in again.stderr)
    done = world.run("stop", launch_id)
    ended = handles["child"].has_ended(1.0)
    world.says("stop by its launch", done.stdout.strip(), done.returncode == 0 and ended, done.stderr)
    world.look()
    world.check("afterwards: nobody saw how", id, "stopped", process="gone", exit_code=None, signal=None)


@case("crash-anywhere")
def half_a_prompt(world: World) -> None:
    """the command is killed -9 after it has started the agent, which has not read its prompt yet"""
    folder = world.folder_at("late")
    program(world, "claude", LATE_READER.format(folder=folder))
    prompt = world.home / "prompt"
    prompt.write_text("x" * MEGABYTE)
    child = subprocess.Popen(
        [*world.command, "launch", "claude", "--prompt-file", str(prompt)],
        cwd=world.work, env=world.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until("the agent runs", (folder / "started").exists)
    handles = keep(world, only_launch(world)[1])
    child.kill()
    child.wait()
    (folder / "go").touch()
    wait_until("it has read all there is", (folder / "read").exists)
    size = int((folder / "read").read_text())
    world.says(f"{MEGABYTE} bytes of prompt", f"{size} bytes", size == MEGABYTE)
    wait_for_end(handles)


@case("on-complete-once")
def on_complete_once(world: World) -> None:
    """an agent is killed, and its runner and twelve others ask at once whether it is over"""
    note = world.folder / "note"
    command = f"echo $AGENTCTL_STATUS $AGENTCTL_EXIT_CODE >> {note}"
    id, handles = launch(world, "-p", LONG, "--on-complete", command)
    launch_id, _ = only_launch(world)
    handles["child"].send_signal(signal.SIGKILL)
    handles["child"].wait()
    words = [*world.command, "_over", launch_id]
    asking = [
        subprocess.Popen(words, env=world.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(ASKED_AT_ONCE)
    ]
    said = [one.communicate(timeout=LIMIT)[1] for one in asking]
    wait_for_end(handles)
    codes = {one.returncode for one in asking}
    lines = note.read_text().splitlines() if note.exists() else []
    world.says("all are told that it is over", f"exit {sorted(codes)}", codes == {0}, "\n".join(said))
    world.says("the hook ran once, and knew how it ended", str(lines), lines == ["stopped"])
    world.look()
    world.check("the session", id, "stopped", process="gone", signal="SIGKILL")


@case("private-state")
def private_state(world: World) -> None:
    """a state folder that others can write to: what lies in it is not believed, and nothing is started there"""
    id, handles = launch(world, "-p", LONG)
    launch_id, one = only_launch(world)
    folder = world.folder / "agentctl" / "launches"
    forged = f"{launch_id[:-4]}zzzz"
    stranger = world.bare("sleepy", ["sleepy"])
    key = f"{one['child'].partition(':')[0]}:{stranger.pid}:{stranger.start}"
    (folder / forged).mkdir()
    facts = {**one, "id": forged, "child": key, "session_id": str(uuid.uuid4()), "group": "forged"}
    (folder / forged / "launch.json").write_text(json.dumps(facts))
    for path in (folder, folder.parent):
        path.chmod(0o777)
        world.look()
        world.check_problem(f"{path.name} of mode 777", folder)
        world.check("the session of a launch that is not read", id, "running", pid=handles["child"], launch_id=None)
        refused = world.run("launch", "demo", "-p", "x", "--cwd", str(world.folder_at("elsewhere")))
        ok = refused.returncode == 4 and str(path) in refused.stderr and not refused.stdout
        world.says(f"{path.name} of mode 777: launch refuses, and names it", refused.stderr.strip(), ok)
        stopped = world.run("stop", "--group", "forged")
        world.says("stop of the forged group: refused", stopped.stderr.strip(), stopped.returncode == 5)
        path.chmod(0o700)
    world.says("the stranger: unharmed", "alive", not stranger.has_ended())
    shutil.rmtree(folder / forged)
    world.expects_problems = False
    world.look()
    world.check("private again", id, "running", pid=handles["child"], launch_id=launch_id)


# A stand-in that is started by the real command: it takes the id that it is given, or prints its own.
AGENT = """#!{python}
import json, os, sys, time
words, config = sys.argv[1:], json.loads({config!r})
if "--session-id" in words:
    config["id"] = words[words.index("--session-id") + 1]
config["argv"] = ["{name}", *words]
with open({path!r}, "w") as file:
    json.dump(config, file)
if {prints!r}:
    print({prints!r}, flush=True)
padding = "-" * sum(len(word) + 1 for word in config["argv"])
os.environ.update({env!r})
if {lock!r} and os.fork():
    while not os.path.exists({lock!r}):
        time.sleep(0.01)
    os._exit(0)
time.sleep({pause})
os.execv({program!r}, ["{name}", "-S", "-m", "tests.torture.standins", {path!r}, padding])
"""


def install(
    world: World, kind: type[Agent], id: str, lock: str = "", orders: Iterable[Any] | None = None, pause: float = 0.0,
    root: Path | None = None, **more: Any,
) -> None:  # fmt: skip
    """Put an agent into the person's PATH. `lock`: it is started by a wrapper that ends when this file is there.
    `pause`: seconds until the wrapper executes the agent. `orders`: what it does, if it does not begin a turn at once;
    `root`: a store that it makes itself; `more`: added to its config."""
    name = kind.PROGRAM
    if root is None:
        root = world.root(kind)
        root.mkdir(parents=True, exist_ok=True)
    script = [*(kind.BEGUN if orders is None else orders), ["sleep", {"seconds": 600}]]
    config = {**kind.HEADLESS, "kind": kind.STANDIN, "id": id, "root": str(root), "script": script, **more}
    text = AGENT.format(
        python=sys.executable, config=json.dumps(config), name=name, path=str(world.folder / f"{name}.json"),
        prints=kind.printed(id), lock=lock, pause=pause, env=world.programs.env, program=world.programs.path(name),
    )  # fmt: skip
    program(world, name, text)


@case("real-id")
def real_id_of_each(world: World) -> None:
    """the id of each agent: chosen by us, printed first, or in its log; told while its first turn runs"""
    for one in agents.every():
        kind = one.torture()
        if kind is None or not issubclass(kind, Agent):
            continue  # it has no stand-in
        name, given = kind.PROGRAM, kind.new_id()
        install(world, kind, given)
        cwd = world.folder_at(f"work/{name}")
        before = set(launches(world))
        done = world.run("launch", name, "-p", "please do it", "--cwd", str(cwd))
        (new,) = (facts for id, facts in launches(world).items() if id not in before)
        handles = keep(world, new)
        id = done.stdout.strip()
        stored = {given} if kind.printed(given) else one.ids(world.root(kind))
        ok = done.returncode == 0 and {id} == stored and not handles["child"].has_ended()
        world.says(f"{name}: the id in its own store, before its turn ends", id, ok, done.stderr)
        world.look()
        world.check(f"{name}, as it was printed", id, "running", pid=handles["child"], link="exact")
    world.sample = 3


# What hands the agent to another machine: what is written there comes with the shared home, and ssh stays here.
HANDED = """#!{python}
import json, os, shutil, subprocess, sys
words, config = sys.argv[1:], json.loads({config!r})
if "--session-id" in words:
    config["id"] = words[words.index("--session-id") + 1]
with open({path!r}, "w") as file:
    json.dump(config, file)
if {prints!r}:
    print({prints!r}, flush=True)
os.environ.update({env!r})
remote = [sys.executable, "-S", "-m", "tests.torture.standins", {path!r}, "-" * 80]
subprocess.run(remote, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
shutil.copytree(config["root"], {root!r}, dirs_exist_ok=True)
os.execv("/bin/sleep", ["ssh", "300"])
"""


@case("handed-on")
def handed_to_another_machine(world: World) -> None:
    """a wrapper around ssh lives, then ends, while the agent works on another machine that shares the home"""
    for one in agents.every():
        kind = one.torture()
        if kind is None or not issubclass(kind, Agent):
            continue  # it has no stand-in
        name, given, root = kind.PROGRAM, kind.new_id(), world.root(kind)
        root.mkdir(parents=True, exist_ok=True)
        script = [*kind.BEGUN, ["exit", {}]]
        there = world.folder / "there" / name
        there.mkdir(parents=True)
        config = {**kind.HEADLESS, "kind": kind.STANDIN, "id": given, "root": str(there), "script": script}
        text = HANDED.format(
            python=sys.executable, config=json.dumps({**config, "argv": ["remote"]}), prints=kind.printed(given),
            path=str(world.folder / f"{name}.json"), env=world.programs.env, root=str(root),
        )  # fmt: skip
        program(world, name, text)
        before = set(launches(world))
        cwd = world.folder_at(f"work/{name}")
        done = world.run("launch", name, "-p", "please do it", "--cwd", str(cwd))
        (new,) = (facts for id, facts in launches(world).items() if id not in before)
        handles, id = keep(world, new), done.stdout.strip()
        world.says(f"{name}: its id", id or done.stderr, done.returncode == 0)
        world.look()
        reason = Contains("is not the agent itself")
        world.check(f"{name}, its wrapper lives", id, "unknown", process="unknown", turn="working", reason=reason)
        handles["child"].send_signal(signal.SIGKILL)
        wait_for_end(handles)
        world.look()
        world.check(f"{name}, its wrapper has ended", id, "unknown", process="unknown", turn="working", reason=reason)
        waited = world.run("wait", id)
        world.says(f"{name}: nobody can know", f"exit {waited.returncode}", waited.returncode == 5)
    world.sample = 3


@case("first-run")
def store_made_by_the_run(world: World) -> None:
    """launch of each agent whose store, here or in a place that only its launch names, is made by that very run"""
    for one in agents.every():
        kind = one.torture()
        if kind is None or not issubclass(kind, Agent):
            continue  # it has no stand-in
        variable, below = kind.STORE_VARIABLE
        elsewhere = world.folder / f"elsewhere-{kind.PROGRAM}"
        for where, root in (("its own place", world.root(kind)), ("a place of its launch", elsewhere / below)):
            words = ("--env", f"{variable}={elsewhere}") if root != world.root(kind) else ()
            shutil.rmtree(root, ignore_errors=True)
            given = kind.new_id()
            install(world, kind, given, orders=(*kind.BEGUN, *kind.ENDED), root=root)
            before = set(launches(world))
            cwd = world.folder_at(f"work/{kind.PROGRAM}-{len(words)}")
            done = world.run("launch", kind.PROGRAM, "-p", "please do it", "--cwd", str(cwd), *words)
            (new,) = (facts for id, facts in launches(world).items() if id not in before)
            wait_for_end(keep(world, new))
            id = done.stdout.strip()
            world.says(
                f"{kind.PROGRAM}, a store in {where}: its id", id or done.stderr, done.returncode == 0 and bool(id)
            )
            world.look()
            world.check(f"{kind.PROGRAM}, a store in {where}", id, "done", process="gone", inferred=False)
    world.sample = 3


@case("wrapper-exit")
def wrapper_of_a_launch(world: World) -> None:
    """launch of a wrapper that exits with 0 while the agent it has started works on"""
    thread = Codex.new_id()
    lock = world.root(Codex) / "thread-writer-locks" / f"{thread}.lock"
    install(world, Codex, thread, lock=str(lock))
    done = world.run("launch", "codex", "-p", "please do it")
    world.says("its id", done.stdout.strip(), done.stdout.strip() == thread, done.stderr)
    launch_id, one = only_launch(world)
    wrapper = keep(world, one).get("child")
    if wrapper is not None:
        wrapper.wait()
    exits = launch_file(world, launch_id).with_name("exits.jsonl")
    wait_until("the end of the wrapper is noted", exits.exists)
    world.look()
    pid = world.listing.rows.get(thread, {}).get("pid") or 0
    world.says("the agent's own process, not the wrapper's", f"pid {pid}", str(pid) not in one["child"].split(":"))
    agent = Handle(pid, start_ticks(pid))
    world.keep(agent)
    world.check("it works on", thread, "running", pid=agent, link="exact", exit_code=None, signal=None)
    again = world.run("launch", "codex", "-p", "x")
    world.says("its directory is busy", again.stderr.strip(), again.returncode == 4 and thread[:8] in again.stderr)
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    world.look()
    world.check("killed", thread, "stopped", process="gone", turn="interrupted")


@case("wrapper-exit")
def wrapper_gone_before_the_session(world: World) -> None:
    """launch of a wrapper that ends before the agent it has started takes its session"""
    thread = Codex.new_id()
    config = world.folder / f"{Codex.PROGRAM}.json"  # the wrapper writes it first: it ends at once
    install(world, Codex, thread, lock=str(config), orders=(["sleep", {"seconds": 1}], *Codex.BEGUN))
    done = world.run("launch", "codex", "-p", "please do it")
    world.says("its id", done.stdout.strip(), done.stdout.strip() == thread, done.stderr)
    _, one = only_launch(world)
    keep(world, one)
    world.look()
    pid = world.listing.rows.get(thread, {}).get("pid") or 0
    agent = Handle(pid, start_ticks(pid))
    world.keep(agent)
    world.check("it works", thread, "running", pid=agent, link="exact")


@case("wrapper-exit")
def wrapper_gone_before_the_agent(world: World) -> None:
    """launch, and stop, of a wrapper that ends before what it has forked executes the agent"""
    thread = Codex.new_id()
    config = world.folder / f"{Codex.PROGRAM}.json"  # the wrapper writes it first: it ends at once
    install(world, Codex, thread, lock=str(config), pause=1.5)
    done = world.run("launch", "codex", "-p", "please do it")
    world.says("its id", done.stdout.strip(), done.stdout.strip() == thread, done.stderr)
    _, first = only_launch(world)
    keep(world, first)
    world.look()
    pid = world.listing.rows.get(thread, {}).get("pid") or 0
    agent = Handle(pid, start_ticks(pid))
    world.keep(agent)
    world.check("it works", thread, "running", pid=agent, link="exact")
    other = world.folder_at("other")
    config.unlink()
    install(world, Codex, Codex.new_id(), lock=str(config), pause=1.5)
    done = world.run("launch", "codex", "-p", "please do it", "--id-timeout", "0.5s", "--cwd", str(other))
    (id, second) = next((id, facts) for id, facts in launches(world).items() if facts["cwd"] == str(other))
    keep(world, second)
    world.says("it has no session yet: it is left running", done.stderr.strip(), done.returncode == 124)
    stopped = world.run("stop", id)
    said = stopped.stderr.strip() or stopped.stdout.strip()
    ok = "gone already" not in said and (stopped.returncode == 0 or "which may be its agent" in said)
    world.says("stop ends the agent that comes, or names it if it has no session yet", said, ok)
    everything = world.run("stop", id, "--tree")
    world.says("stop --tree leaves nothing", everything.stderr.strip(), everything.returncode == 0)
    agent.send_signal(signal.SIGKILL)
    agent.wait()


@case("died-at-launch")
def killed_at_launch(world: World) -> None:
    """an agent that is killed before it has written anything, and one that has: the second has a row"""
    program(world, "claude", "#!/bin/sh\nkill -9 $$\n")
    killed = world.run("launch", "claude", "-p", "x")
    ok = killed.returncode == 1 and "SIGKILL" in killed.stderr and not killed.stdout
    world.says("killed at once: exit 1, and by which signal", killed.stderr.strip(), ok)
    world.look()
    world.says("no row", f"{len(world.listing.rows)} rows", not world.listing.rows and not world.listing.unattached)
    done = world.run("launch", "demo", "-p", "[[fail:not logged in]]")
    id = done.stdout.strip()
    for one in launches(world).values():
        if one["session_id"] == id:
            wait_for_end(keep(world, one))
    found = [one["result"] for one in events(world, id) if one["event"] == "turn_end"]
    world.says("its store has it: its id is told", f"{id}: {found}", found == ["failed"], done.stderr)
    world.look()
    world.check("listed as failed", id, "failed", process="gone", exit_code=1)


@case("lock-not-read")
def lock_not_read(world: World) -> None:
    """a lock is torn, of the wrong type or no file; all locks are behind a file, a link to nowhere, a closed folder"""
    other = world.folder_at("other")
    world.run("lock", str(world.work))
    folder = world.folder / "agentctl" / "locks"
    (lock,) = folder.glob("*.json")
    whole = lock.read_bytes()
    for label, content in (("torn", whole[:20]), ("empty", b""), ("of the wrong type", b"[]"), ("NULs", bytes(99))):
        lock.write_bytes(content)
        check_kept_out(world, f"a lock that is {label}", lock, "unlock --force")
    lock.unlink()
    lock.symlink_to("nowhere")
    check_kept_out(world, "a lock that is a link", lock, "unlock --force")
    _, handles = launch(world, "-p", "hello", cwd=other)
    wait_for_end(handles)
    world.says("another directory is free", "launched", True)
    shown = world.run("locks")
    world.says("locks names it", shown.stderr.strip(), shown.returncode == 0 and str(lock) in shown.stderr)
    removed = world.run("unlock", "--force", str(lock))
    world.says(
        "unlock removes it, by its path", removed.stdout.strip(), removed.returncode == 0 and not lock.is_symlink()
    )
    kept = folder.rename(folder.with_name("kept"))
    folder.write_bytes(b"")
    check_kept_out(world, "a file in place of the folder", folder, "make it a folder")
    folder.unlink()
    folder.symlink_to("nowhere")
    check_kept_out(world, "a folder that is a link to nowhere", folder, "make it a folder")
    folder.unlink()
    kept.rename(folder)
    folder.chmod(0o777)
    lock.write_bytes(whole)
    check_kept_out(world, "a folder that others can write to", folder, "make it a folder")
    forced = world.run("launch", "demo", "--force", "-p", "hello")
    for one in launches(world).values():
        wait_for_end(keep(world, one))
    world.says(
        "with --force it is let in", forced.stderr.strip(), forced.returncode == 0 and str(folder) in forced.stderr
    )


def check_kept_out(world: World, label: str, path: Path, next: str) -> None:
    before = set(launches(world))
    refused = world.run("launch", "demo", "-p", LONG)
    new = [keep(world, one) for id, one in launches(world).items() if id not in before]
    said = refused.stderr.strip()
    ok = refused.returncode == 4 and str(path) in said and next in said and not new
    world.says(f"{label}: refused, with the path and the next step", said or "launched", ok)
