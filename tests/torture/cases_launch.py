"""Launch and resume: the real id at once, one winner per directory, nothing lost whoever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.agents.demo.torture import Demo
from tests.torture.handles import TIMEOUT, Handle, WorldError, wait_until
from tests.torture.kernel import mounted, read_only
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.torture.world import World

PARALLEL = 20
LONG = "[[sleep:300]]"
KILLED_AFTER = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)  # seconds: from before the reservation to after the id
LIMIT = 60.0
# A program that is an agent by its name and its arguments, and writes nothing.
SILENT = """#!/bin/bash
exec -a claude {program} -c 'sleep 300; :' claude "$@"
"""


def launches(world: World) -> dict[str, dict[str, Any]]:
    folder = world.folder / "agentctl" / "launches"
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/launch.json"))}


def keep(world: World, launch: dict[str, Any]) -> dict[str, Handle]:
    """The processes of a launch that live, ours to end with the case: first the runner, so that we inherit the rest."""
    found = {}
    for who in ("runner", "child"):
        _, pid, start = launch[who].rsplit(":", 2)
        try:
            found[who] = Handle(int(pid), int(start))
        except (OSError, WorldError):
            continue
        world.keep(found[who])
    return found


def launch(world: World, *words: str, cwd: Path | None = None) -> tuple[str, dict[str, Handle]]:
    """A session of the demo agent, by the real command."""
    done = world.run("launch", "demo", "--cwd", str(cwd or world.work), *words)
    if done.returncode != 0:
        raise WorldError(f"launch: exit {done.returncode}: {done.stderr}")
    id = done.stdout.strip()
    (one,) = [one for one in launches(world).values() if one["session_id"] == id]
    return id, keep(world, one)


def has(event: str, world: World, id: str) -> bool:
    return any(one["event"] == event for one in events(world, id))


def wait_for_end(handles: dict[str, Handle]) -> None:
    """Of the agent, and of its runner: then all that is written about it is written. If a runner's question fails, it
    asks again for 15 s."""
    for handle in handles.values():
        handle.wait(4 * TIMEOUT)


def events(world: World, id: str) -> list[dict[str, Any]]:
    path = world.root(Demo) / "sessions" / id / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def program(world: World, name: str, text: str) -> None:
    """What the person's shell would find under this name."""
    folder = world.folder_at("bin")
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    world.env["PATH"] = f"{folder}:{world.env['PATH']}"


@case("real-id")
def real_id(world: World) -> None:
    """the id that launch prints is the agent's own, and it is listed at once"""
    id, handles = launch(world, "-p", LONG, "--group", "g")
    native = sorted(path.name for path in (world.root(Demo) / "sessions").iterdir())
    world.says("the id printed is the one in the agent's store", id, native == [id])
    world.look()
    world.check("listed", id, "running", pid=handles["child"], link="exact", group="g", inferred=False)


@case("died-at-launch")
def died_at_launch(world: World) -> None:
    """an agent that is missing, or dies at once: an error with its words, no row, no lock"""
    program(world, "codex", "#!/bin/sh\necho 'not logged in: run codex login' >&2\nexit 3\n")
    refused_by_agent = world.run("launch", "codex", "-p", "x")
    said = refused_by_agent.stderr
    ok = refused_by_agent.returncode == 1 and "exit code 3" in said and "not logged in" in said
    world.says("exit 1, with the agent's exit code and last lines", said.strip(), ok and not refused_by_agent.stdout)
    missing = world.run("launch", "opencode", "-p", "x")
    world.says(
        "a missing program is named", missing.stderr.strip(), missing.returncode == 1 and "PATH" in missing.stderr
    )
    odd = world.run("launch", "demo", "-p", "x", "--", "--no-such-flag")
    world.says("a flag that it does not know", odd.stderr.strip(), odd.returncode == 1 and "no-such-flag" in odd.stderr)
    world.look()
    world.says("no row", f"{len(world.listing.rows)} rows", not world.listing.rows and not world.listing.unattached)
    id, handles = launch(world, "-p", "hello")
    wait_for_end(handles)
    world.says("and the directory is free", id, True)


@case("parallel")
def parallel(world: World) -> None:
    """20 launches at one moment"""
    started = [
        subprocess.Popen(
            [*world.command, "launch", "demo", "-p", f"[[text:number {number}]]{LONG}"],
            cwd=world.folder_at(f"work/{number}"),
            env=world.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PARALLEL)
    ]
    answers = [child.communicate(timeout=LIMIT) for child in started]
    ids = [out.strip() for out, _ in answers]
    for one in launches(world).values():
        keep(world, one)
    wrong = [err for (_, err), child in zip(answers, started, strict=True) if child.returncode]
    world.says("20 different ids", f"{len(set(ids))} ids", len(set(ids)) == PARALLEL and not wrong, "\n".join(wrong))
    prompts = [[one["text"] for one in events(world, id) if one["event"] == "prompt"] for id in ids]
    right = sum(found == [f"[[text:number {number}]]{LONG}"] for number, found in enumerate(prompts))
    world.says("each with its own prompt", f"{right} of {PARALLEL}", right == PARALLEL)
    folder = world.folder / "agentctl" / "launches"
    logs = {(folder / name / "output.log").read_text().splitlines()[0]: name for name in launches(world)}
    world.says("each with its own output", f"{len(logs)} logs", logs.keys() == {f"session: {id}" for id in ids})
    world.look()
    world.check_all("listed", ids, "running", link="exact")


@case("gate")
def gate(world: World) -> None:
    """six launches race for one directory, and it is free when its holder is dead"""
    command = [*world.command, "launch", "demo", "-p", LONG]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    six = [
        subprocess.Popen(command, cwd=world.work, env=world.env, stdin=subprocess.DEVNULL, **options) for _ in range(6)
    ]
    answers = sorted((child.communicate(timeout=LIMIT) for child in six), key=lambda one: not one[0])
    codes = sorted(child.returncode for child in six)
    found = launches(world)
    handles = [keep(world, one) for one in found.values()]
    id, refusals = answers[0][0].strip(), [said for _, said in answers[1:]]
    named = bool(id) and all(id[:8] in said or next(iter(found)) in said for said in refusals)
    right = codes == [0, 4, 4, 4, 4, 4] and named
    world.says("one wins, the others exit with 4 and name it", refusals[0].strip(), right, str(answers))
    forced, _ = launch(world, "-p", LONG, "--force")
    world.says("--force lets another in", forced, forced != id)
    link = world.home / "same"
    link.symlink_to(world.work)
    refused = world.run("launch", "demo", "-p", LONG, "--cwd", str(link))
    world.says("the same directory by another name", refused.stderr.strip(), refused.returncode == 4)
    for one in [*handles, *[keep(world, one) for one in launches(world).values() if one["session_id"] == forced]]:
        one["child"].send_signal(signal.SIGKILL)
        one["child"].wait()
    after, _ = launch(world, "-p", LONG)
    world.look()
    world.check("free at once", after, "running")
    world.check("the holder is dead", id, "stopped", signal="SIGKILL")


@case("lock-of-dead")
def lock_of_dead(world: World) -> None:
    """the holder of a directory is killed -9, with its runner and without"""
    for who in (("child",), ("runner", "child"), ("child", "runner")):
        id, handles = launch(world, "-p", LONG)
        for one in who:
            handles[one].send_signal(signal.SIGKILL)
            handles[one].wait()
        world.look()
        world.check(f"{' and '.join(who)} killed", id, "stopped", process="gone")
    id, _ = launch(world, "-p", LONG)
    world.look()
    world.check("the directory is free", id, "running")


@case("crash-anywhere")
def crash_anywhere(world: World) -> None:
    """the command is killed -9 at any moment of a launch: the agent runs and is seen, or never ran"""
    right = 0
    for number, seconds in enumerate(KILLED_AFTER):
        cwd = world.folder_at(f"work/{number}")
        before = set(launches(world))
        child = subprocess.Popen(
            [*world.command, "launch", "demo", "-p", LONG],
            cwd=cwd, env=world.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(seconds)
        child.kill()
        child.wait()
        wait_until("nobody is on the way", partial(is_settled, world, str(cwd), before))
        new = [one for id, one in launches(world).items() if id not in before]
        handles = [keep(world, one) for one in new]
        world.look("-a", "--cwd", str(cwd))
        rows = list(world.listing.rows.values())
        lives = [one["child"].pid for one in handles if "child" in one and not one["child"].has_ended()]
        right += [row["pid"] for row in rows if row["status"] == "running"] == lives
        again = world.run("launch", "demo", "-p", LONG, "--cwd", str(cwd))
        right += again.returncode == (4 if lives else 0)
        for one in launches(world).values():
            keep(world, one)
    world.says(
        f"killed {len(KILLED_AFTER)} times: what runs is listed, and the next launch does as it should",
        f"{right} of {2 * len(KILLED_AFTER)}",
        right == 2 * len(KILLED_AFTER),
    )


def is_settled(world: World, cwd: str, before: set[str]) -> bool:
    """Has the runner of a killed command done what it was going to do? Its agent has registered, or nobody is there."""
    noted = launches(world)
    new = [one for id, one in noted.items() if id not in before]
    if new:
        return bool(events(world, new[0]["session_id"]))
    return not any(is_on_its_way(int(name), cwd, noted) for name in os.listdir("/proc") if name.isdigit())


def is_on_its_way(pid: int, cwd: str, noted: dict[str, dict[str, Any]]) -> bool:
    """A process of a launch that no launch.json names yet."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
        is_runner = any(word.endswith("/runner.py") for word in words) and not set(words) & set(noted)
        return pid != os.getpid() and (is_runner or os.readlink(f"/proc/{pid}/cwd") == cwd)
    except OSError:
        return False


@case("prompt-odd")
def prompt_odd(world: World) -> None:
    """prompts that no command line takes"""
    odd = {
        "a megabyte": "x" * 1024 * 1024,
        "dashes": "--resume -p -- x",
        "lines": "one\n\ttwo\n",
        "emoji": "🚀 naïve \u202e文",
    }
    for name, prompt in odd.items():
        path = world.home / "prompt"
        path.write_text(prompt)
        id, handles = launch(world, "--prompt-file", str(path), cwd=world.folder_at(f"work/{name}"))
        wait_until("the prompt", partial(has, "prompt", world, id))
        (found,) = [one["text"] for one in events(world, id) if one["event"] == "prompt"]
        world.says(f"{name}: arrives as it is", f"{len(found)} characters", found == prompt)
        wait_for_end(handles)
    (world.home / "prompt").write_text("a\0b")
    refused = world.run("launch", "demo", "--prompt-file", str(world.home / "prompt"))
    world.says("a NUL is refused", refused.stderr.strip(), refused.returncode == 2 and "NUL" in refused.stderr)


@case("caller-env")
def caller_env(world: World) -> None:
    """variables of the caller reach the agent"""
    world.env["CALLER_SAYS"] = "hello"
    id, handles = launch(world, "-p", "[[bash:echo $CALLER_SAYS $ADDED]]", "--env", "ADDED=more")
    wait_for_end(handles)
    (said,) = [one["output"].strip() for one in events(world, id) if one["event"] == "tool_result"]
    world.says("the variable, and the one that was added", said, said == "hello more")


@case("resume-live")
def resume_live(world: World) -> None:
    """a second writer is refused, also with --force where the agent allows one only"""
    id, handles = launch(world, "-p", LONG)
    for words in ([], ["--force"]):
        done = world.run("resume", id, "more", *words)
        world.says(f"refused {' '.join(words)}", done.stderr.strip(), done.returncode == 4 and id[:8] in done.stderr)
    world.look()
    world.check("still alone", id, "running", pid=handles["child"])


@case("resume-cwd")
def resume_cwd(world: World) -> None:
    """resume runs in the session's own directory, under its own id"""
    there = world.folder_at("there")
    id, handles = launch(world, "-p", "one", cwd=there)
    wait_for_end(handles)
    done = world.run("resume", id, LONG)
    for one in launches(world).values():
        keep(world, one)
    world.says("the same id", done.stdout.strip(), done.stdout.strip() == id, done.stderr)
    world.look()
    world.check("in its own directory", id, "running", cwd=str(there))


@case("unflushed")
def unflushed_launch(world: World) -> None:
    """a launch of ours that has written nothing: running, inferred; stop works by its launch id"""
    own = world.folder_at("lib") / "claude"
    own.symlink_to("/bin/bash")
    program(world, "claude", SILENT.format(program=own))
    late = world.run("launch", "claude", "-p", "go", "--id-timeout", "1s")
    world.says("no id in time: exit 124, left running", late.stderr.strip(), late.returncode == 124)
    ((launch_id, one),) = launches(world).items()
    handles = keep(world, one)
    tools = [Handle(pid, start_ticks(pid)) for pid in children_of(handles["child"].pid)]
    for tool in tools:
        world.keep(tool)
    world.look()
    world.check(
        "by the id that was chosen for it",
        one["session_id"],
        "running",
        pid=handles["child"],
        inferred=True,
        link="exact",
    )
    again = world.run("launch", "claude", "-p", "go", "--id-timeout", "1s")
    world.says("its directory is busy", again.stderr.strip(), again.returncode == 4)
    stopped = world.run("stop", launch_id, "--grace", "2s")
    gone = all(handle.has_ended(5.0) for handle in (handles["child"], *tools))
    world.says("stop by its launch id", stopped.stdout.strip(), stopped.returncode == 0 and gone, stopped.stderr)


def children_of(pid: int) -> Sequence[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


@case("disk-full")
def disk_full_launch(world: World) -> None:
    """no room for the record of a launch: nothing is started, and it says where"""
    state = world.folder / "agentctl"
    state.mkdir(mode=0o700)
    world.until_the_end(mounted("tmpfs", state, "size=64k,mode=700"))
    (state / "launches").mkdir(mode=0o700)
    filler = state / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass  # full
    done = world.run("launch", "demo", "-p", f"[[text:{uuid.uuid4()}]]")
    ok = done.returncode in (1, 4) and str(state) in done.stderr and not done.stdout
    world.says("a clear error that names the place", done.stderr.strip(), ok)
    sessions = world.root(Demo) / "sessions"
    world.says("nothing was started", "no session", not sessions.exists() or not list(sessions.iterdir()))
    filler.unlink()
    id, handles = launch(world, "-p", "hello")
    wait_for_end(handles)
    world.says("and it works when there is room again", id, True)


@case("disk-full")
def read_only_state(world: World) -> None:
    """a state folder that nothing can be written to: nothing is started, and list works"""
    id, handles = launch(world, "-p", LONG)
    state = world.folder / "agentctl"
    with read_only(state):
        refused = world.run("launch", "demo", "-p", "x", "--cwd", str(world.folder_at("elsewhere")))
        ok = refused.returncode in (1, 4) and str(state) in refused.stderr and not refused.stdout
        world.says("launch names the place and starts nothing", refused.stderr.strip(), ok)
        world.look()
        world.check("what runs is listed", id, "running", pid=handles["child"])
        stopped = world.run("stop", id)
        world.says("and can be stopped", stopped.stdout.strip(), stopped.returncode == 0, stopped.stderr)
        handles["child"].wait()
        # That it left no word is a fact only once it is gone. It asks again for 15 seconds: agentctl fails each time.
        handles["runner"].wait(4 * TIMEOUT)
