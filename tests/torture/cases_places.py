"""A directory under another path: renamed, mounted twice, seen from a container. And locks, above and below."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_launch import LONG, keep, launch, launches, wait_for_end
from tests.torture.cases_worktrees import Trees, check_cleaned, check_kept
from tests.torture.kernel import unmount, without_file_powers
from tests.torture.registry import case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.torture.world import World


@contextlib.contextmanager
def bound(folder: Path, point: Path) -> Iterator[None]:
    """The same directory at a second place."""
    point.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", str(folder), str(point)], check=True)
    try:
        yield
    finally:
        unmount(point)


def in_other_mounts(folder: Path, point: Path) -> Callable[[list[str]], list[str]]:
    """In a mount namespace in which a directory is also at another place, as in a container, and with that as the
    directory."""
    point.mkdir(parents=True, exist_ok=True)
    script = f'mount --bind "{folder}" "{point}" && cd "{point}" && exec "$@"'
    return lambda command: ["/usr/bin/unshare", "--mount", "sh", "-c", script, "sh", *command]


def check_kept_out(world: World, label: str, directory: Path, says: str = "") -> None:
    """A launch is refused in one line, and has started nothing."""
    before = len(launches(world))
    done = world.run("launch", "demo", "-p", LONG, "--cwd", str(directory))
    started = len(launches(world)) - before
    for one in launches(world).values():
        keep(world, one)
    said = f"exit {done.returncode}, {started} started: {done.stderr.strip()}"
    world.says(f"{label}: kept out", said, (done.returncode, started) == (4, 0) and says in done.stderr)


def check_let_in(world: World, label: str, directory: Path) -> None:
    _, handles = launch(world, "-p", "hello", cwd=directory)
    wait_for_end(handles)
    world.says(f"{label}: let in", "launched", True)


@case("same-directory")
def renamed_directory(world: World) -> None:
    """the directory of a live agent is renamed, and a new one gets its old name"""
    agents: dict[str, Callable[[Path], object]] = {
        "claude": lambda cwd: Claude.spawn(world, "busy", cwd=cwd).mid_model(),
        "codex": lambda cwd: Codex.spawn(world, cwd=cwd).mid_model(),
        "opencode": lambda cwd: OpenCode.spawn(world, cwd=cwd).mid_model(),
    }
    for kind, spawn in agents.items():
        old, new = world.folder_at(f"{kind}-old"), world.home / f"{kind}-new"
        spawn(old)
        os.rename(old, new)
        check_kept_out(world, f"{kind}, its directory was renamed", new)
        old.mkdir()
        check_kept_out(world, f"{kind}, its directory was renamed and made anew", new)


@case("same-directory")
def directory_mounted_twice(world: World) -> None:
    """a live agent works in a directory that is mounted at a second place"""
    alias, part = world.home / "alias", world.home / "part"
    below = world.folder_at("work/below/deep")
    world.until_the_end(bound(world.work, alias))
    world.until_the_end(bound(below, part))
    Claude.spawn(world, "busy", cwd=alias).mid_model()
    check_kept_out(world, "an agent at the second place", world.work, "which is the same directory")
    other = world.folder_at("other")
    world.run("lock", str(other))
    world.until_the_end(bound(other, world.home / "other-alias"))
    check_kept_out(world, "a lock of the first place", world.home / "other-alias", "locked by")
    world.run("lock", str(world.work / "below"))
    check_kept_out(world, "a lock above what is mounted at the second place", part, "above it")


@case("same-directory")
def directory_of_a_container(world: World) -> None:
    """a live agent sees a directory of ours under another path, and has one of its own under a path of ours"""
    point = world.home / "ws"
    Claude.spawn(world, "busy", around=in_other_mounts(world.work, point)).mid_model()
    check_kept_out(world, "the directory that it works in", world.work)
    check_let_in(world, "our own directory of that path", point)


@case("same-directory")
def link_here_directory_there(world: World) -> None:
    """a Claude Code without a pid file works in a container, under a path that is a link on our side"""
    real, inner, root = world.folder / "disk" / "proj", world.folder / "inner", world.root(Claude)
    for folder in (real, inner / "proj", inner / root.name, root):
        folder.mkdir(parents=True, exist_ok=True)
    link = world.home / "proj"
    link.symlink_to(real)
    script = (
        f'mount --bind "{root}" "{inner}/{root.name}" && mount --rbind "{inner}" "{world.home}" && '
        f'mount --bind "{real}" "{world.home}/proj" && cd "{world.home}/proj" && exec env -u PWD "$@"'
    )
    claude = Claude.spawn(
        world,
        register=False,
        cwd=real,
        around=lambda command: ["/usr/bin/unshare", "--mount", "sh", "-c", script, "sh", *command],
    ).mid_model()
    world.look()
    row = world.listing.rows[claude.id]
    world.says("it is not ended", f"{row['status']}: {row['reason']}", row["process"] != "gone")
    check_kept_out(world, "its directory, by the link", link)


@case("same-directory")
def renamed_without_a_trace(world: World) -> None:
    """the directory of a live agent that says in no file which session it is on is renamed"""
    agents: dict[str, Callable[[Path], Claude | Codex]] = {
        "claude": lambda cwd: Claude.spawn(world, register=False, cwd=cwd, env={"PWD": str(cwd)}).mid_model(),
        "codex": lambda cwd: Codex.spawn(world, lock=False, cwd=cwd, env={"PWD": str(cwd)}).mid_model(),
    }
    living = {}
    for kind, spawn in agents.items():
        old, new = world.folder_at(f"{kind}-old"), world.home / f"{kind}-new"
        living[kind] = spawn(old)
        os.rename(old, new)
        check_kept_out(world, f"{kind}, its directory was renamed", new)
    world.look()
    for kind, agent in living.items():
        row = world.listing.rows[agent.id]
        world.says(f"{kind} is not ended", f"{row['status']}: {row['reason']}", row["process"] != "gone")


@case("same-directory")
def moved_lock(world: World) -> None:
    """a locked directory is renamed, and a new one gets its old name"""
    old, new = world.folder_at("old"), world.home / "new"
    world.run("lock", str(old))
    os.rename(old, new)
    check_kept_out(world, "a locked directory that was renamed", new, "locked by")
    old.mkdir()
    check_kept_out(world, "a new directory of its path", old, "locked by")
    world.run("unlock", str(old))
    check_let_in(world, "once it is unlocked", new)


@case("lock-below")
def lock_below(world: World) -> None:
    """a directory is locked; launches go into it, below it, above it and beside it"""
    locked, below, beside = world.folder_at("a/b"), world.folder_at("a/b/c/d"), world.folder_at("a/b2")
    world.run("lock", str(locked))
    check_kept_out(world, "in the locked directory", locked, "locked by")
    check_kept_out(world, "below it", below, "above it")
    check_let_in(world, "beside it", beside)
    check_let_in(world, "above it", world.home / "a")
    trees = Trees(world)
    path = trees.make("locked")
    for label, directory in {"above": world.home, "itself": path, "below": path / "sub"}.items():
        world.run("lock", str(directory))
        check_kept(world, trees, f"clean, {label} locked", path)
        world.run("unlock", str(directory))
    check_cleaned(world, trees, "nothing is locked", path)


@case("which-of-two")
def which_of_two(world: World) -> None:
    """two live agents in one directory are in mid-turn, and nothing tells which of them is on which session"""
    first, second = (Claude.spawn(world, register=False).mid_tool() for _ in range(2))
    world.look()
    world.check("the first", first.id, "unknown", process="unknown")
    world.check("the second", second.id, "unknown", process="unknown")
    check_kept_out(world, "a third agent", world.work, "may be alive")
    first.kill()
    second.kill()
    check_let_in(world, "once both have ended", world.work)


@case("which-of-two")
def launch_beside_a_stranger(world: World) -> None:
    """a program that agentctl cannot identify stands against a session in mid-turn: launch says so"""
    world.bare("gopls", ["gopls"])
    killed = Claude.spawn(world, "busy").mid_model()
    killed.kill()
    killed.file.unlink()
    world.look()
    world.check("the session", killed.id, "unknown", process="unknown")
    done = world.run("launch", "demo", "-p", "hello")
    for one in launches(world).values():
        wait_for_end(keep(world, one))
    told = killed.id in done.stderr and "may be alive" in done.stderr
    world.says("launch warns", f"exit {done.returncode}: {done.stderr.strip()}", done.returncode == 0 and told)


@case("worktree-lives")
def worktree_under_another_path(world: World) -> None:
    """an agent works in the worktree under another path: in a container, at a second mount, in a mount of a part"""
    trees = Trees(world)
    for label, part in {"container": "", "a part in a container": "sub"}.items():
        path = trees.make(label.replace(" ", "-"))
        around = in_other_mounts(path / part, world.home / f"ws-{path.name}")
        check_kept(world, trees, label, path, Claude.spawn(world, "busy", around=around).mid_model())
    for label, part in {"mounted twice": "", "a part mounted twice": "sub"}.items():
        path = trees.make(label.replace(" ", "-"))
        alias = world.home / f"ws-{path.name}"
        world.until_the_end(bound(path / part, alias))
        check_kept(world, trees, label, path, Codex.spawn(world, cwd=alias).mid_model())


@case("worktree-closed")
def worktree_closed(world: World) -> None:
    """a folder in the worktree may not be written, listed or entered, or the folder around the worktree is closed"""
    trees = Trees(world)
    Claude.spawn(world, "idle").finished()  # beside it, in the repository itself
    world.around = without_file_powers
    for mode in (0o555, 0o000, 0o300):
        path = trees.make(f"m{mode:o}")
        closed = path / "built" / "mod"
        closed.mkdir(parents=True)
        (closed / "x").touch()
        (trees.repository / ".git" / "info" / "exclude").write_text("built/\n")
        closed.chmod(mode)
        check_kept(world, trees, f"a folder of mode {mode:o}", path)
        closed.chmod(0o755)
        check_cleaned(world, trees, f"no longer of mode {mode:o}", path)
    path = trees.make("around")
    world.home.chmod(0o555)
    check_kept(world, trees, "the folder around it is closed", path)
    world.home.chmod(0o755)
    check_cleaned(world, trees, "it is open again", path)
