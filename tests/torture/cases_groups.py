"""Many launches at once, each in its worktree: what a full disk does to them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING

from tests.torture.cases_launch import LONG, keep, launches
from tests.torture.kernel import mounted
from tests.torture.registry import case

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.world import World

SIZE, TREE = 4 * 1024 * 1024, 600 * 1024  # of the disk; of a checkout: one more fits, three do not
WHO = {f"GIT_{role}_{what}": f"x@{role}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(world: World, folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**world.env, **WHO}, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def repository(world: World) -> Path:
    """A repository with a tree of some size, on a small disk of its own, which is filled up to a little."""
    disk = world.folder_at("disk")
    world.until_the_end(mounted("tmpfs", disk, f"size={SIZE},mode=755"))
    repo = disk / "repo"
    repo.mkdir()
    git(world, repo, "init", "-q", "-b", "main", ".")
    (repo / "data").write_bytes(os.urandom(TREE))
    (repo / "readme").write_text("hello\n")
    git(world, repo, "add", ".")
    git(world, repo, "commit", "-q", "-m", "one")
    return repo


def fill(disk: Path, leave: int) -> Path:
    """All of it but this many bytes."""
    free = os.statvfs(disk)
    filler = disk / "filler"
    filler.write_bytes(b"x" * max(0, free.f_bavail * free.f_bsize - leave))
    return filler


def remains(world: World, repo: Path) -> list[str]:
    """What is there that was not there before: folders, branches, entries of worktrees, locks."""
    found = [name for name in os.listdir(repo.parent) if name not in ("repo", "filler")]
    found += [name for name in git(world, repo, "for-each-ref", "--format=%(refname:short)").split() if name != "main"]
    entries = repo / ".git" / "worktrees"
    found += os.listdir(entries) if entries.exists() else []
    return found + [name for _, _, names in os.walk(repo.parent) for name in names if name.endswith(".lock")]


@case("worktree-disk-full")
def no_room_for_any(world: World) -> None:
    """worktrees on a full disk: nothing is left, nothing is started, the error says why"""
    repo = repository(world)
    filler = fill(repo.parent, TREE // 2)
    done = world.run("launch", "--agent", "demo", "--agent", "demo", "-p", LONG, "--group", "g", "--cwd", str(repo))
    said = re.search("No space left|unable to write", done.stderr) is not None
    world.says("exit 1, and why", done.stderr.strip(), done.returncode == 1 and said and not done.stdout)
    left = remains(world, repo)
    world.says("nothing is left", ", ".join(left) or "nothing", not left)
    world.says("nothing was started", f"{len(launches(world))} launches", not launches(world))
    filler.unlink()
    done = world.run(
        *("launch", "--agent", "demo", "--agent", "demo", "-p", LONG, "--group", "g", "--cwd", str(repo), "--json")
    )
    for one in launches(world).values():
        keep(world, one)
    world.says("with room it works, under the same name", f"exit {done.returncode}", done.returncode == 0, done.stderr)


@case("worktree-disk-full")
def room_for_some(world: World) -> None:
    """worktrees on a disk with room for some: those run, of the others nothing is left"""
    repo = repository(world)
    fill(repo.parent, TREE * 3 // 2)
    words = ("--agent", "demo") * 4
    done = world.run("launch", *words, "-p", LONG, "--group", "g", "--cwd", str(repo), "--json")
    for one in launches(world).values():
        keep(world, one)
    slots = json.loads(done.stdout)["slots"]
    well = [slot for slot in slots if slot["session"] is not None]
    world.says("not all of them", f"{len(well)} of 4, exit {done.returncode}", len(well) < 4 and done.returncode == 1)
    names = {f"repo-g-{slot['slot']}" for slot in well}
    there = {name for name in os.listdir(repo.parent) if name.startswith("repo-")}
    world.says("only their worktrees are there", ", ".join(sorted(there)) or "none", there == names)
    branches = git(world, repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/try/").split()
    world.says("and their branches", ", ".join(branches) or "none", {*branches} == {slot["branch"] for slot in well})
    whole = all((repo.parent / name / "data").stat().st_size == TREE for name in names)
    world.says("which are whole", f"{len(names)}", whole)
    world.look()
    if well:
        world.check_all("and their sessions run", [slot["session"]["id"] for slot in well], "running")
