"""`agentctl worktree clean`: nothing that lives is disturbed, and no work is lost, however it goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.opencode.torture import OpenCode
from tests.support.git_world import Git
from tests.torture.cases_launch import LIMIT, LONG, keep, launch, launches, wait_for_end
from tests.torture.handles import Handle, state_of, wait_until
from tests.torture.kernel import mounted
from tests.torture.registry import case
from tests.torture.world import set_back

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.torture.world import World

HOURS = 3 * 3600
FORCED = ("--force", "--delete-branch")
ONE_SECOND = "2026-01-01T00:00:00Z"
ROUNDS = 8
KILLED_AFTER = (0.05, 0.15, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7)  # seconds: from the first import to after the removal


class Trees:
    """A repository in the world's home, and worktrees beside it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.git = Git(world.home, world.env)
        self.repository = self.git.repository("repo")
        world.env.update(self.git.env)
        world.work = self.repository

    def make(self, name: str) -> Path:
        path = self.world.home / f"repo-{name}"
        self.git(self.repository, "worktree", "add", "-q", "-b", f"try/{name}", str(path))
        return path

    def listed(self, path: Path) -> bool:
        return str(path) in self.git.worktrees(self.repository)

    def whole(self, path: Path) -> bool:
        return self.listed(path) and (path / "a").exists() and (path / "sub" / "b").exists()


def check_kept(world: World, trees: Trees, label: str, path: Path, *living: Handle) -> None:
    """With and without --force: refused, in one line, and all is as it was."""
    for words in ((), FORCED):
        done = world.run("worktree", "clean", str(path), *words)
        harmed = [one.pid for one in living if one.has_ended()]
        branch = f"try/{path.name.removeprefix('repo-')}" in trees.git.branches(trees.repository)
        ok = done.returncode == 4 and not done.stdout and done.stderr.count("\n") == 1
        ok = ok and trees.whole(path) and branch and not harmed
        world.says(f"{label}: kept {' '.join(words)}".strip(), done.stderr.strip() or done.stdout.strip(), ok)


def check_cleaned(world: World, trees: Trees, label: str, path: Path) -> None:
    done = world.run("worktree", "clean", str(path), "--delete-branch")
    gone = not path.exists() and not trees.listed(path)
    world.says(f"{label}: removed", done.stdout.strip() or done.stderr.strip(), done.returncode == 0 and gone)


@case("worktree-lives")
def worktree_lives(world: World) -> None:
    """a session lives in the worktree: at work, at rest, suspended, inferred, or not even known"""
    trees = Trees(world)
    starts: dict[str, Callable[[Path], Handle]] = {
        "at work": lambda path: Claude.spawn(world, "busy", cwd=path).mid_model(),
        "at rest": lambda path: Claude.spawn(world, "idle", cwd=path).finished(),
        "in a folder of it": lambda path: Claude.spawn(world, "busy", cwd=path / "sub").mid_model(),
        "inferred": lambda path: Claude.spawn(world, register=False, style="old", cwd=path).mid_model(),
        "starting, no session yet": lambda path: world.bare("claude", ["claude"], cwd=path),
        "codex exec": lambda path: Codex.spawn(world, cwd=path).mid_model(),
        "codex at its screen": lambda path: Codex.spawn(world, source="cli", cwd=path).finished(),
        "opencode": lambda path: OpenCode.spawn(world, cwd=path).mid_model(),
    }
    for number, (label, start) in enumerate(starts.items()):
        path = trees.make(f"live{number}")
        agent = start(path)
        check_kept(world, trees, label, path, agent)
        if label == "at work":
            agent.send_signal(signal.SIGSTOP)
            wait_until("it is suspended", partial(is_suspended, agent.pid))
            check_kept(world, trees, "suspended", path, agent)
            agent.send_signal(signal.SIGCONT)
        agent.stop()
        wait_until("it is over", agent.has_ended)
    world.clear_stores()
    for number in range(len(starts)):
        check_cleaned(world, trees, "nobody is there any more", world.home / f"repo-live{number}")


def is_suspended(pid: int) -> bool:
    return state_of(pid) == "T"


@case("worktree-lives")
def worktree_lives_sub_agent(world: World) -> None:
    """a live Claude Code in the repository, whose sub-agent works in a worktree"""
    trees = Trees(world)
    path = trees.make("sub")
    agent = Claude.spawn(world, "busy", cwd=trees.repository).mid_model()
    agent.do("call", command="Task", tool="Task", input={"subagent_type": "x", "isolation": "worktree"})
    agent.do("subagent", id="a1b2c3d4e5f6a7b8c", calls=0)
    (record,) = agent.root.rglob("*a1b2c3d4e5f6a7b8c*.jsonl")
    here, there = (json.dumps(os.path.realpath(folder)) for folder in (trees.repository, path))
    record.write_text(record.read_text().replace(here, there))
    check_kept(world, trees, "a sub-agent works in it", path, agent)
    done = world.run("launch", "demo", "-p", "hi", "--cwd", str(path))
    told = done.returncode == 4 and "a sub-agent of" in done.stderr
    world.says("launch into it: refused", f"exit {done.returncode}: {done.stderr.strip()}", told, done.stderr)


@case("worktree-lives")
def worktree_lives_unknown(world: World) -> None:
    """two sessions of it that were killed in mid-turn, and a claude that may be on either"""
    trees = Trees(world)
    path = trees.make("a")
    ended = [Claude.spawn(world, register=False, style="old", cwd=path).mid_model() for _ in range(2)]
    for agent in ended:
        agent.kill()
        set_back(agent.transcript, HOURS)
    live = world.bare("claude", ["claude", "--continue"], cwd=path)
    world.look()
    world.check_all("they are", [agent.id for agent in ended], "unknown", process="unknown")
    check_kept(world, trees, "unknown, and a live process is in it", path, live)
    world.expects_unattached |= {live.pid}


@case("worktree-lives")
def worktree_lives_launched(world: World) -> None:
    """one of ours, its runner killed or not; a tool of it that works in another worktree"""
    trees = Trees(world)
    path, other = trees.make("a"), trees.make("b")
    id, handles = launch(world, "-p", f"[[bash:cd {other} && touch {world.home}/begun && sleep 300]]", cwd=path)
    wait_until("its tool", (world.home / "begun").exists)
    check_kept(world, trees, "launched", path, handles["child"])
    check_kept(world, trees, "where its tool is", other, handles["child"])
    handles["runner"].send_signal(signal.SIGKILL)
    handles["runner"].wait()
    check_kept(world, trees, "its runner is dead", path, handles["child"])
    stopped = world.run("stop", id)
    world.says("stop", stopped.stdout.strip(), stopped.returncode == 0, stopped.stderr)
    for one in (path, other):
        check_cleaned(world, trees, "it was stopped", one)


@case("worktree-lives")
def worktree_race(world: World) -> None:
    """a launch into the worktree, or into a folder of it, and a clean at the same moment: one of them wins, whole"""
    trees = Trees(world)
    right, said = 0, []
    for number in range(ROUNDS):
        path = trees.make(f"r{number}")
        cwd = path / "sub" if number % 2 else path
        start = [*world.command, "launch", "demo", "-p", LONG, "--cwd", str(cwd)]
        remove = [*world.command, "worktree", "clean", str(path), "--force"]
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        children = []
        for command in (start, remove) if number % 4 < 2 else (remove, start):
            children.append(
                subprocess.Popen(command, cwd=world.work, env=world.env, stdin=subprocess.DEVNULL, **options)
            )
            time.sleep(0.04 * (number // 2))
        answers = [child.communicate(timeout=LIMIT) for child in children]
        codes = [child.returncode for child in children]
        launched, cleaned = codes if number % 4 < 2 else codes[::-1]
        found = [keep(world, one) for one in launches(world).values() if one["cwd"] == str(cwd)]
        lives = [one for one in found if "child" in one and not one["child"].has_ended()]
        if cleaned == 0:
            ok = launched != 0 and not path.exists() and not lives
        else:
            ok = launched == 0 and trees.whole(path) and len(lives) == 1
        right += ok
        said += [] if ok else [f"round {number}: launch {launched}, clean {cleaned}, {answers}"]
    world.says("one of them, and it is true", f"{right} of {ROUNDS}", right == ROUNDS, "\n".join(said))


@case("worktree-work")
def worktree_work(world: World) -> None:
    """what an agent left in its worktree: changed, new, staged, committed aside, in a merge: never lost"""
    trees = Trees(world)
    # Two commits that say the same in the same second are one commit, and then the other worktree has it, too. So every
    # commit here is of one second, and each says something else.
    world.env.update(GIT_AUTHOR_DATE=ONE_SECOND, GIT_COMMITTER_DATE=ONE_SECOND)
    works = {
        "changed": "echo work > a",
        "new": "echo work > new",
        "staged": "echo work > a; git add a",
        "deleted": "rm a",
        "committed, detached": "git checkout -q --detach; git commit -q --allow-empty -m aside",
        "a rebase": "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i --root",
        "a repository of its own, ignored": "echo built > .git-ignored; git init -q built; echo built/ > .gitignore; "
        "git add .gitignore; rm .git-ignored; git commit -q -m ignore",
    }
    for number, (label, command) in enumerate(works.items()):
        path = trees.make(f"w{number}")
        id, handles = launch(world, "-p", f"[[bash:{command}]]", cwd=path)
        wait_for_end(handles)
        before = contents(path)
        done = world.run("worktree", "clean", str(path))
        ok = done.returncode == 4 and done.stderr.count("\n") == 1 and contents(path) == before and trees.listed(path)
        world.says(f"{label}: kept", done.stderr.strip(), ok, id)
    path = trees.make("w9")
    _, handles = launch(world, "-p", "[[bash:git commit -q --allow-empty -m work]]", cwd=path)
    wait_for_end(handles)
    head = trees.git.head(path)
    refused = world.run("worktree", "clean", str(path), "--delete-branch")
    world.says("committed: its branch is not deleted", refused.stderr.strip(), refused.returncode == 4)
    done = world.run("worktree", "clean", str(path))
    has = trees.git(trees.repository, "rev-parse", "try/w9") == head
    world.says("without it, the branch has it", done.stdout.strip(), done.returncode == 0 and has)


def contents(path: Path) -> dict[str, bytes]:
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.join(folder, name)] = file.read()
    return found


@case("worktree-work")
def worktree_mounted(world: World) -> None:
    """another file system is mounted in an ignored folder of it: whoever deletes files would go on into that"""
    trees = Trees(world)
    path = trees.make("a")
    (trees.repository / ".git" / "info" / "exclude").write_text("data\n")
    with mounted("tmpfs", path / "data"):
        (path / "data" / "precious").write_text("work\n")
        for words in ((), ("--force",)):
            done = world.run("worktree", "clean", str(path), *words)
            ok = done.returncode == 4 and (path / "data" / "precious").read_text() == "work\n"
            world.says(f"kept {' '.join(words)}".strip(), done.stderr.strip(), ok)
    check_cleaned(world, trees, "unmounted", path)


@case("worktree-work")
def worktree_killed(world: World) -> None:
    """clean is killed -9 at any moment: commits stay, changes stay, and it can be repeated"""
    trees = Trees(world)
    right, said = 0, []
    for number, seconds in enumerate(KILLED_AFTER):
        clean, dirty = trees.make(f"c{number}"), trees.make(f"d{number}")
        trees.git(clean, "commit", "-q", "--allow-empty", "-m", "work")
        head = trees.git.head(clean)
        (dirty / "new").write_text("work\n")
        words = ["worktree", "clean", str(clean), str(dirty), "--json"]
        child = subprocess.Popen(
            [*world.command, *words],
            cwd=world.work, env=world.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(seconds)
        child.kill()
        child.wait()
        wait_until("no git is at it any more", partial(no_git_at, str(trees.repository)))
        ok = trees.git(trees.repository, "rev-parse", f"try/c{number}") == head
        ok = ok and trees.whole(dirty) and (dirty / "new").read_text() == "work\n"
        again = world.run("worktree", "clean", str(dirty))
        ok = ok and again.returncode == 4 and not trees.git.locks()
        if trees.listed(clean):
            ok = ok and world.run("worktree", "clean", str(clean)).returncode == 0
        right += ok
        said += [] if ok else [f"after {seconds} s: {again.stderr}"]
    count = len(KILLED_AFTER)
    world.says(
        "killed: nothing is lost, and repeated it is done", f"{right} of {count}", right == count, "\n".join(said)
    )


def no_git_at(repository: str) -> bool:
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/comm") as file:
                if (
                    name.isdigit()
                    and file.read().strip() == "git"
                    and os.readlink(f"/proc/{name}/cwd").startswith(repository)
                ):
                    return False
        except OSError:
            continue
    return True
