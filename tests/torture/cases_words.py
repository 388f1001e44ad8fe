"""A name, a word or a role is no fact: what a process has open, and what its store says of it, outranks them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_stores import check_doubt
from tests.torture.kernel import another_user, as_nobody
from tests.torture.registry import case

BEGINS = 4  # seconds after its start in which an OpenCode writes its first line
CONTAINER = """mkdir -p /tmp/inner; mount -t tmpfs none /tmp/inner; cd /tmp/inner
for d in /*; do n=${d#/}; case $n in proc|tmp) ;; *)
if [ -L $d ]; then cp -a $d $n; elif [ -d $d ]; then mkdir -p $n; mount --rbind $d $n; fi;; esac; done
mkdir -p tmp proc; mount --rbind /tmp tmp; mount -t proc proc proc; exec chroot /tmp/inner "$@" """

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.torture.agents import Agent
    from tests.torture.world import World


@case("another-name")
def clients_by_their_words(world: World) -> None:
    """agents whose words look like a client's: mcp-server of an older Codex, commands of OpenCode and Claude Code"""
    words = {
        "OpenCode, a title that looks like an option": ["opencode", "run", "--title", "-v", "x"],
        "OpenCode, a command that was never measured to work on a turn": ["opencode", "debug", "agent", "build"],
    }
    linked: dict[str, Agent] = {
        "older Codex, mcp-server": Codex.spawn(
            world, lock=False, argv=["codex", "mcp-server"], cwd=world.folder_at("m")
        ),
        "older Codex, remote-control": Codex.spawn(
            world, lock=False, argv=["codex", "remote-control"], cwd=world.folder_at("r")
        ),
        **{label: OpenCode.spawn(world, argv=argv, cwd=world.folder_at(label)) for label, argv in words.items()},
    }
    doubted: dict[str, Agent] = {
        "OpenCode without a log": OpenCode.spawn(
            world, argv=["opencode", "export", "x"], log="errors", cwd=world.folder_at("e")
        ),
        "older Claude Code": Claude.spawn(
            world, register=False, argv=["claude", "logs", "x"], cwd=world.folder_at("c")
        ),
    }
    client = OpenCode.spawn(world, argv=["opencode", "run", "--attach", "http://127.0.0.1:1", "x"])
    killed = OpenCode.spawn(world).mid_model()
    for agent in (*linked.values(), *doubted.values()):
        agent.mid_model()
    killed.kill()
    world.look()
    for label, agent in linked.items():
        world.check(label, agent.id, "running", pid=agent)
    for label, agent in doubted.items():
        world.check(label, agent.id, "unknown", process="unknown")
    doubted["OpenCode without a log"].kill()
    world.look()
    world.check("killed, beside a client whose log names no session", killed.id, "stopped", inferred=False)
    for agent in (*linked.values(), doubted["older Claude Code"], client):
        agent.kill()
    world.look()
    for label, agent in {**linked, **doubted}.items():
        world.check(f"{label}: killed", agent.id, "stopped", process="gone", inferred=False)


@case("wrong-one")
def reads_a_rollout(world: World) -> None:
    """a killed Codex, whose rollout another one reads: that one is not on the thread, and stop leaves it alone"""
    killed = Codex.spawn(world, cwd=world.folder_at("killed")).mid_model()
    killed.kill()
    words = ["codex", "exec", "--ephemeral", "what went wrong here?"]
    reader = Codex.spawn(world, opened=False, argv=words, cwd=world.folder_at("reader"))
    reader.do("keep_open", path=str(killed.rollout_of()))
    world.look()
    world.check("killed, and another Codex reads its rollout", killed.id, "stopped", process="gone", pid=None)
    world.check_unattached("the other one", reader)
    done = world.run("stop", killed.id)
    world.says("stop leaves the reader alone", done.stdout.strip() + done.stderr.strip(), not reader.has_ended())


@case("wrong-one")
def log_emptied(world: World) -> None:
    """OpenCode's log is emptied under a live process, and another one writes as much: no line there is proved"""
    first = OpenCode.spawn(world, cwd=world.folder_at("aa")).mid_model()
    time.sleep(BEGINS)
    os.truncate(first.root / "log" / "opencode.log", 0)
    second = OpenCode.spawn(world, cwd=world.folder_at("bb")).mid_model()
    twin = OpenCode.spawn(world, cwd=world.folder_at("cc")).mid_model()
    world.look()
    for label, agent in {"the older one": first, "the newer one": second, "another": twin}.items():
        world.check(f"both live: {label}", agent.id, ("running", "unknown"), pid=(agent.pid, None))
    second.kill()
    world.look()
    world.check("killed: the lines of its run end where the older one has written", second.id, ("stopped", "unknown"))
    world.check("the older one", first.id, ("running", "unknown"), pid=(first.pid, None))
    done = world.run("stop", second.id)
    world.says("stop leaves the older one alone", done.stdout.strip() + done.stderr.strip(), not first.has_ended())


@case("scan-incomplete")
def container_with_a_volume(world: World) -> None:
    """from a container with a root and a /proc of its own, whose store is on a tmpfs that agents outside use, too"""
    agents: dict[str, Agent] = {
        "codex": Codex.spawn(world),
        "older claude": Claude.spawn(world, style="old", cwd=world.folder_at("claude")),
        "opencode": OpenCode.spawn(world, cwd=world.folder_at("opencode")),
    }
    for agent in agents.values():
        agent.mid_model()
    inner = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", CONTAINER, "sh"]
    world.around = lambda command: [*inner, *command]
    world.look()
    for label, agent in agents.items():
        world.check(label, agent.id, "unknown", process="unknown")
    world.around = list


@case("another-name")
def path_too_long(world: World) -> None:
    """an OpenCode under another name whose path has more than 4096 bytes: the kernel does not say what it executes"""
    folder = world.folder / "deep"
    folder.mkdir()
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(22):
        os.mkdir("x" * 200, dir_fd=fd)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    shutil.copy2(os.path.realpath(world.programs.path("oc")), f"/proc/self/fd/{fd}/oc")
    way = f"/proc/{os.getpid()}/fd/{fd}/oc"
    agent = OpenCode.spawn(
        world, program="oc", argv=["oc", "run", "x"], around=lambda command: ["env", way, *command[1:]]
    ).mid_model()
    world.look()
    world.check("it lives", agent.id, "unknown", process="unknown")
    agent.kill()
    os.close(fd)
    subprocess.run(["rm", "-rf", str(folder)], check=True)  # Python's own way ends at paths of this length
    world.look()
    world.check("killed", agent.id, "stopped", process="gone", inferred=False)


@case("wrong-one")
def log_quoted(world: World) -> None:
    """an entry of OpenCode's log quotes lines of a run that has ended: they are not those of the one that quotes"""
    for kind in ("run", "screen"):
        ended = OpenCode.spawn(world, kind, cwd=world.folder_at(f"ended-{kind}")).mid_model()
        lines = (ended.root / "log" / "opencode.log").read_text()
        ended.kill()
        quoting = OpenCode.spawn(world, kind, cwd=world.folder_at(f"quoting-{kind}")).mid_model()
        quoting.do("log", text=f'"stream error" error="400: invalid request: {{content: \n{lines}')
        world.look()
        world.check(f"{kind}: the one whose lines are quoted", ended.id, ("stopped", "unknown"), pid=None)
        world.check(f"{kind}: the one that quotes", quoting.id, ("running", "unknown"), pid=(quoting.pid, None))
        done = world.run("stop", ended.id)
        said = done.stdout.strip() + done.stderr.strip()
        world.says(f"{kind}: stop leaves the one that quotes alone", said, not quoting.has_ended())


@case("copied-store")
def copied_session(world: World) -> None:
    """the folder of a live session was copied within its store, with the file that names its process"""
    live = Demo.spawn(world, "[[sleep:300]]")
    live.wait_for_event("prompt")
    copy = str(uuid.uuid4())
    shutil.copytree(live.folder, live.folder.with_name(copy))
    world.look()
    world.check("the session that its process works on", live.id, "running", pid=live, link="exact")
    world.check("the copy", copy, "stopped", process="gone", pid=None)
    done = world.run("stop", copy)
    world.says("stop of the copy touches nobody", done.stdout.strip() + done.stderr.strip(), not live.has_ended())


@contextmanager
def more_commands(folder: Path, names: Iterable[str], program: str) -> Iterator[None]:
    """Programs of these names in /usr/bin, as long as this holds."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    for layer in ("upper", "work"):
        (folder / layer).mkdir()
    for name in names:
        shutil.copy2(os.path.realpath(program), folder / "upper" / name)
    layers = f"lowerdir=/usr/bin,upperdir={folder}/upper,workdir={folder}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, "/usr/bin"], check=True)
    try:
        yield
    finally:
        for point in ("/usr/bin", folder):
            subprocess.run(["umount", "-l", point], check=True)


@case("executes-another")
def runtime_of_any_name(world: World) -> None:
    """a registered claude runs in a small program of the system that is called like no runtime: it is running"""
    names = ("node-v22", "nodejs-lts", "bun-profile", "jsrun", "claude-2.1")
    script = "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"
    world.until_the_end(more_commands(world.folder / "commands", names, world.programs.path("node")))
    agents = {
        name: Claude.spawn(
            world, "busy", argv=[name, script], cwd=world.folder_at(name),
            around=lambda command, name=name: [f"/usr/bin/{name}", *command[1:]],
        ).mid_model()
        for name in names
    }  # fmt: skip
    world.look()
    for name, agent in agents.items():
        world.check(name, agent.id, "running", pid=agent)
    for agent in agents.values():
        agent.kill()
    world.look()
    for name, agent in agents.items():
        world.check(f"{name}, killed", agent.id, "stopped", process="gone", inferred=False)


@case("damaged-store")
def removed_under_its_agent(world: World) -> None:
    """the write-ahead log of OpenCode's database is removed under a live process, which goes on writing to it"""
    agent = OpenCode.spawn(world).mid_model()
    for end in ("-wal", "-shm"):
        os.unlink(f"{agent.database}{end}")
    world.look()
    world.check_problem("what nobody can read", f"{agent.database}-wal")
    check_doubt(world, "the removed log", "list")
    agent.kill()
    world.look()
    world.expects_problems = False
    told = world.run("list", "-a", "--since", "all", "--strict")
    world.says("once it has ended, nothing tells", f"exit {told.returncode}", told.returncode == 0)


@case("closed-process")
def closed_older_codex(world: World) -> None:
    """not as root: an older Codex, which locks nothing, closed itself, in a store that newer ones have locks in"""
    user = another_user()
    root = world.root(Codex)
    root.mkdir(parents=True)
    for folder in (world.home, world.work, world.folder, root):
        os.chown(folder, user, user)
    world.around = as_nobody
    newer = Codex.spawn(world, around=as_nobody).mid_model()
    older = Codex.spawn(world, lock=False, around=as_nobody, cwd=world.folder_at("older")).mid_model()
    older.do("close_doors")
    world.look()
    world.check("a newer one", newer.id, "running", pid=newer)
    world.check("an older one, closed", older.id, "unknown", process="unknown")
    world.expects_unattached.add(older.pid)
    newer.kill()
    world.look()
    world.check("the newer one, killed: its lock is free", newer.id, "stopped", process="gone")
    older.kill()
    world.look()
    world.check("the older one, killed", older.id, "stopped", process="gone", inferred=False)
    world.expects_problems = True


@case("store-missing")
def not_mounted(world: World) -> None:
    """the disk with a store that was shown before is not mounted now: the folder below it is empty, or not there"""
    plain, below = world.root(Claude), world.root(OpenCode)
    for folder in (plain, below.parent):
        folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    agents = {Claude: Claude.spawn(world).finished(), OpenCode: OpenCode.spawn(world).finished()}
    for agent in agents.values():
        agent.leave()
    world.look()
    for agent in agents.values():
        world.check("while it is mounted", agent.id, "done", process="gone")
    written = [os.stat(path).st_mtime_ns for path in world.folder.rglob("folders.json")]
    world.look()
    again = [os.stat(path).st_mtime_ns for path in world.folder.rglob("folders.json")]
    world.says("what is known is not written again", f"{len(again)} lists", written == again and len(again) == 1)
    for folder in (plain, below.parent):
        subprocess.run(["umount", "-l", folder], check=True)
    world.look()
    world.check_problem("an empty folder in its place", plain)
    world.check_problem("no folder in its place", below)
    check_doubt(world, "both", "list")
    for root in (plain, below):
        world.run("agents", "forget", str(root))
    world.look()
    told = world.run("list", "-a", "--since", "all", "--strict")
    world.says("once they are forgotten, nothing is missing", f"exit {told.returncode}", told.returncode == 0)
    world.expects_problems = False


@case("store-missing")
def renamed_for_a_while(world: World) -> None:
    """a store is renamed under a live agent, seen so, and gets its name back: it is not gone"""
    agent = Codex.spawn(world).mid_model()
    aside = world.root(Codex).with_name("aside")
    world.root(Codex).rename(aside)
    world.look()
    world.check("while it has another name", agent.id, "running", pid=agent)
    aside.rename(world.root(Codex))
    world.look()
    world.check("with its own name again", agent.id, "running", pid=agent)
    told = world.run("list", "-a", "--since", "all", "--strict")
    world.says("no store is gone", f"exit {told.returncode}", told.returncode == 0, told.stderr)
    shutil.rmtree(world.root(Codex))
    agent.kill()
    world.look()
    world.check_problem("once its folder is gone under both names", aside)
