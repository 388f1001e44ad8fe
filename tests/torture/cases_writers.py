"""Who is on a session, if several processes are said to be; where it works, if its records name several places."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.torture.cases_stop import check_refused, check_spared, check_stopped, stop
from tests.torture.cases_worktrees import Trees, check_kept
from tests.torture.registry import case

if TYPE_CHECKING:
    from tests.torture.world import World


@case("orphans")
def two_writers(world: World) -> None:
    """two processes on one session, each by its own arguments: ending one of them does not stop it"""
    first = Claude.spawn(world, "busy", headless=True).mid_model()
    second = Claude.spawn(world, "idle", id=first.id, argv=["claude", "--resume", first.id])
    check_stopped(world, "both of them", stop(world, first.id), first, second)


@case("orphans")
def named_by_another(world: World) -> None:
    """a tool writes its own session into the pid file of another Claude Code, and its session is stopped"""
    attacker, person = Claude.spawn(world, "busy").mid_model(), Claude.spawn(world, "idle")
    file = json.loads(person.file.read_text())
    person.file.write_text(json.dumps({**file, "sessionId": attacker.id}))
    found = stop(world, attacker.id)
    check_refused(world, "only files name both", found, "2 processes are said to be on it", attacker, person)
    both = all(str(one.pid) in found.said for one in (attacker, person))
    world.says(
        "both are named, and the ways out", found.said, both and "--pid" in found.said and "--force" in found.said
    )
    stranger = stop(world, attacker.id, "--pid", "1")
    check_refused(world, "a pid that is not on it", stranger, "pid 1 is not on it", attacker, person)
    one = stop(world, attacker.id, "--pid", str(attacker.pid))
    world.says("the named one is ended", json.dumps(one.outcomes), attacker.has_ended() and one.code == 1)
    check_spared(world, "the person's", person)


@case("orphans")
def two_writers_by_force(world: World) -> None:
    """two processes on one session, of which only their files say so: --force ends both"""
    first = Claude.spawn(world, "busy").mid_model()
    second = Claude.spawn(world, "idle", id=first.id, argv=["claude", "--continue"])
    check_refused(world, "without --force", stop(world, first.id), "said to be on it", first, second)
    check_stopped(world, "both of them", stop(world, first.id, "--force"), first, second)


@case("worktree-lives")
def worktree_lives_by_records(world: World) -> None:
    """a live Claude Code in the repository, whose records named a worktree in the middle of its transcript"""
    trees = Trees(world)
    path = trees.make("later")
    agent = Claude.spawn(world, "busy", cwd=trees.repository).mid_model()
    lines = agent.transcript.read_text().splitlines(keepends=True)
    here, there = (json.dumps(os.path.realpath(folder)) for folder in (trees.repository, path))
    last = next(line for line in reversed(lines) if here in line)
    moved = [last.replace(here, there), last]
    agent.transcript.write_text("".join((*lines, *moved)))
    check_kept(world, trees, "its records name it", path, agent)
    done = world.run("launch", "demo", "-p", "hi", "--cwd", str(path))
    world.says("launch into it: refused", done.stderr.strip(), done.returncode == 4 and agent.id in done.stderr)
