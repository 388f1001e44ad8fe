"""OpenCode, whose files name no process: which of its processes is on which session, and what is never guessed."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.agents.opencode.standin_files import timed_id
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_alive import is_orphan, open_files
from tests.torture.handles import Handle, WorldError, place_at, state_of, wait_until
from tests.torture.registry import case
from tests.torture.world import Contains

if TYPE_CHECKING:
    from tests.torture.world import World

TICKS = 0.03  # the kernel counts the starts of processes in hundredths of a second
WRAPPER = ["node", "/usr/lib/node_modules/.bin/opencode", "run", "--format", "json", "please do it"]


@case("unflushed")
def unflushed_opencode(world: World) -> None:
    """opencode: alive, and nothing or little of it in its database yet"""
    starting = OpenCode.spawn(world, opened=False)
    screen = OpenCode.spawn(world, "screen", cwd=world.folder_at("screen"))
    empty = OpenCode.spawn(world, cwd=world.folder_at("empty"))
    empty.do("begin")  # its prompt is stored seconds later
    prompted = OpenCode.spawn(world, cwd=world.folder_at("prompted"))
    prompted.do("prompt")
    late = OpenCode.spawn(world, "screen", log="late", cwd=world.folder_at("late")).mid_model()
    world.look()
    world.check_unattached("opencode run, its database not open yet", starting, ())
    world.check_unattached("a screen, never prompted", screen, ())
    world.check("opencode run, its prompt not stored yet", empty.id, "alive", pid=empty, inferred=True)
    world.check("opencode run, its model not called yet", prompted.id, "running", pid=prompted, link="exact")
    world.check("a screen whose log is late", late.id, "running", pid=late, link="sole", inferred=True)
    late.do("catch_up")
    world.look()
    world.check("its log then", late.id, "running", pid=late, link="exact", inferred=False)


@case("unflushed")
def unflushed_opencode_resumed(world: World) -> None:
    """opencode run -s, still starting: its arguments name the session, and nothing of it has ended"""
    killed = OpenCode.spawn(world, cwd=world.folder_at("one")).mid_model()
    killed.kill()
    finished = OpenCode.spawn(world, cwd=world.folder_at("two")).finished()
    finished.leave()
    world.look()
    world.check("killed in mid-turn", killed.id, "stopped", process="gone", turn="interrupted")
    world.check("finished", finished.id, "done", process="gone")
    for agent, name in ((killed, "one"), (finished, "two")):
        again = OpenCode.spawn(world, "run", "-s", agent.id, cwd=world.home / name)
        world.look()
        said = Contains("not stored yet")
        world.check(f"{name}: being resumed", agent.id, "alive", pid=again, link="sole", inferred=True, reason=said)


@case("unflushed-two")
def unflushed_two_opencode(world: World) -> None:
    """two opencode runs in one directory, with a log, with one that is late, and with nothing to tell them apart"""
    agents = [OpenCode.spawn(world), OpenCode.spawn(world)]
    for agent in reversed(agents):
        agent.do("prompt")
    world.look()
    for agent in agents:
        world.check("one of two, same prompt, by its log", agent.id, "running", pid=agent, link="exact")
    place = world.folder_at("late")
    told_apart = [
        OpenCode.spawn(world, log="late", cwd=place, argv=["opencode", "run", text])
        for text in ("first job", "second job")
    ]
    for agent, text in zip(reversed(told_apart), ("second job", "first job"), strict=True):
        agent.mid_model(text)
    world.look()
    for agent in told_apart:
        world.check("one of two, by its prompt", agent.id, "running", pid=agent, link="sole", inferred=True)
    place = world.folder_at("alike")
    alike = [OpenCode.spawn(world, log="errors", cwd=place) for _ in range(2)]
    for agent in alike:
        agent.mid_model()
    world.look()
    for agent in alike:
        world.check("one of two that are alike", agent.id, "unknown", process="unknown", pid=None)
        world.check_unattached("its process", agent, [one.id for one in alike])


@case("wrapper-exit")
def wrapper_exit_opencode(world: World) -> None:
    """opencode 1.2: its node wrapper exits, the native child works on"""
    agent = OpenCode.spawn(world, wrapper=WRAPPER, then="exit", program=".opencode", layout="older database").mid_tool()
    assert agent.wrapper is not None
    agent.wrapper.reap()
    wait_until("it has no parent but us", partial(is_orphan, agent.pid))
    world.look()
    world.check("opencode, its wrapper gone", agent.id, "running", pid=agent, link="exact", inferred=False)


@case("wrapper-killed")
def wrapper_killed_opencode(world: World) -> None:
    """opencode 1.2: its node wrapper killed, by -9 or by a signal that it does not hand on"""
    for number in (9, 15):
        agent = OpenCode.spawn(world, wrapper=WRAPPER, program=".opencode", layout="older database").mid_tool()
        assert agent.wrapper is not None
        world.look()
        holders = [(entry["pid"], entry["role"]) for entry in world.listing.rows[agent.id]["processes"]]
        both = [(agent.pid, "agent"), (agent.wrapper.pid, "wrapper")]
        world.says(f"its processes: {both}", str(holders), holders == both)
        agent.wrapper.kill(number)
        world.look()
        world.check(f"its wrapper killed -{number}", agent.id, "running", pid=agent, link="exact")


@case("two-in-one-cwd")
def two_in_one_cwd_opencode(world: World) -> None:
    """two opencode screens in one directory, the elder process on the younger session"""
    elder, younger = OpenCode.spawn(world, "screen"), OpenCode.spawn(world, "screen")
    younger.mid_model()
    elder.finished()
    run = OpenCode.spawn(world).mid_tool()
    world.look()
    world.check("the elder process, at rest", elder.id, "idle", pid=elder, last_turn="done", inferred=True)
    world.check("the younger process", younger.id, "running", pid=younger, link="exact", inferred=False)
    world.check("a run beside them", run.id, "running", pid=run, link="exact", inferred=False)
    elder.mid_model()
    younger.kill()
    world.look()
    world.check("the elder process, at work again", elder.id, "running", pid=elder, link="exact", inferred=False)
    world.check("the younger one, killed", younger.id, "stopped", process="gone", turn="interrupted", pid=None)


@case("two-in-one-cwd")
def two_without_a_log(world: World) -> None:
    """opencode screens of one directory that log errors only: which is on what is not guessed"""
    first, second = (OpenCode.spawn(world, "screen", log="errors") for _ in range(2))
    second.mid_model()
    first.finished()
    world.look()
    world.check("one in mid-turn", second.id, "unknown", process="unknown", pid=None)
    world.check("one at rest keeps its word", first.id, "done", process="gone", inferred=True)
    for agent in (first, second):
        world.check_unattached("its process", agent, [first.id, second.id])
    place = world.folder_at("one session")
    works, waits = (OpenCode.spawn(world, "screen", log="errors", cwd=place) for _ in range(2))
    works.mid_model()
    world.look()
    world.check("one session that either may be on", works.id, "unknown", process="unknown", pid=None)
    for agent in (works, waits):
        world.check_unattached("its process", agent, [works.id])
    alone = OpenCode.spawn(world, "screen", log="errors", cwd=world.folder_at("alone")).mid_model()
    new = timed_id("ses")
    alone.mid_model(id=new)
    world.look()
    world.check_all("two sessions that one may be on", [alone.id, new], "unknown", process="unknown", pid=None)
    world.check_unattached("its process", alone, [alone.id, new])


@case("two-in-one-cwd")
def two_on_one_session_opencode(world: World) -> None:
    """two opencode processes on one session, which nothing forbids"""
    screen = OpenCode.spawn(world, "screen").finished()
    run = OpenCode.spawn(world, "run", "-s", screen.id, id=screen.id)
    run.do("take")
    run.mid_model()
    world.look()
    world.check("the one that works", run.id, "running", pid=run, link="exact")
    run.do("answer")
    run.leave()
    world.look()
    world.check("the other one, when it has ended", screen.id, "idle", pid=screen, last_turn="done", inferred=True)


@case("id-rotates")
def id_rotates_opencode(world: World) -> None:
    """/new gives the same process a new session; the old one is at rest, or works on beside it"""
    finished = OpenCode.spawn(world, "screen", cwd=world.folder_at("one")).finished()
    aborted = OpenCode.spawn(world, "screen", cwd=world.folder_at("two")).mid_model()
    aborted.do("abort")
    working = OpenCode.spawn(world, "screen", cwd=world.folder_at("three")).mid_tool()
    new = {agent.id: timed_id("ses") for agent in (finished, aborted, working)}
    for agent in (finished, aborted, working):
        agent.mid_model(id=new[agent.id])
    world.look()
    for agent in (finished, aborted, working):
        world.check("the new session", new[agent.id], "running", pid=agent, link="exact", inferred=False)
    world.check("the old session, its turn over", finished.id, "done", process="gone", pid=None, inferred=True)
    world.check("the old session, aborted", aborted.id, "stopped", process="gone", pid=None, turn="interrupted")
    world.check("the old session, still at work", working.id, "running", pid=working, link="exact")
    working.do("answer", id=new[working.id])
    world.look()
    world.check("it works on when the new one is at rest", working.id, "running", pid=working, link="exact")


@case("pid-recycled")
def pid_recycled_opencode(world: World) -> None:
    """opencode killed in mid-turn, and its pid is now a stranger's, or that of its like"""
    agent = OpenCode.spawn(world).mid_model()
    agent.kill()
    stranger = world.stranger(agent.pid)
    world.look()
    world.check("its pid is a stranger's", agent.id, "stopped", turn="interrupted", pid=None)
    stranger.stop()
    stranger.close()
    world.forget(stranger)
    again = place_at(agent.pid, lambda: OpenCode.spawn(world, "screen", opened=False))
    world.look()
    world.check("its pid is that of a screen of its directory", agent.id, "stopped", turn="interrupted", pid=None)
    world.check_unattached("that screen", again, ())
    assert hasattr(again, "do")
    again.do("open", log="shared")
    again.do("prompt")
    world.look()
    world.check("the dead one, when that screen is at work", agent.id, "stopped", turn="interrupted", pid=None)


@case("zombie")
def zombie_opencode(world: World) -> None:
    """opencode killed in mid-turn and not reaped by its parent"""
    agent = OpenCode.spawn(world).mid_model()
    agent.send_signal(9)
    agent.wait()
    if state_of(agent.pid) != "Z":
        raise WorldError(f"pid {agent.pid} is no zombie")
    world.look()
    world.check("a zombie", agent.id, "stopped", process="gone", turn="interrupted", pid=None)


def five_of_opencode(world: World, *, open_turns: bool) -> list[str]:
    """Five ended sessions of one directory, the latest last."""
    found = []
    for _ in range(5):
        agent = OpenCode.spawn(world).mid_model()
        if open_turns:
            agent.kill()
        else:
            agent.do("answer")
            agent.leave()
        found.append(agent.id)
    time.sleep(TICKS)
    return found


@case("one-process-five-sessions")
def five_sessions_opencode(world: World) -> None:
    """one live opencode, five ended sessions of its directory: at most one of them is alive"""
    for label, open_turns, word in (("finished", False, "done"), ("killed", True, "stopped")):
        ids = five_of_opencode(world, open_turns=open_turns)
        anew = OpenCode.spawn(world, "screen")
        world.look()
        world.check_unattached("a screen, started anew", anew, ())
        world.check_all(label, ids, word, process="gone", pid=None, inferred=True)
        anew.kill()
        silent = OpenCode.spawn(world, "screen", log="errors")
        world.look()
        world.check_unattached("one that logs errors only", silent, ())
        world.check_all(label, ids, word, process="gone", pid=None, inferred=True)
        silent.kill()
        on_one = OpenCode.spawn(world, "screen", "-s", ids[2], id=ids[2])
        world.look()
        world.check(f"the one of the {label} that it was told to open", ids[2], "idle", pid=on_one, link="sole")
        rest = [id for id in ids if id != ids[2]]
        world.check_all(f"{label}, the other ones", rest, word, process="gone", pid=None, inferred=True)
        on_one.do("take")
        on_one.mid_model()
        world.look()
        world.check("the one that it works on", ids[2], "running", pid=on_one, link="exact", inferred=False)
        world.check_all(f"{label}, the other ones", rest, word, process="gone", pid=None, inferred=True)
        on_one.do("answer")
        on_one.kill()
        world.clear_stores()


@case("one-process-five-sessions")
def continued_opencode(world: World) -> None:
    """opencode --continue: it is on the latest one of its directory, until it says otherwise"""
    ids = five_of_opencode(world, open_turns=True)
    live = OpenCode.spawn(world, "screen", "--continue", id=ids[4])
    world.look()
    world.check("the latest one", ids[4], "idle", pid=live, link="sole", inferred=True, last_turn="interrupted")
    world.check_all("the other ones", ids[:4], "stopped", process="gone", pid=None, inferred=True)


@case("one-process-five-sessions")
def a_fork_of_opencode(world: World) -> None:
    """an opencode that has forked: for this moment its child has all its files, and its place in the log"""
    agent = OpenCode.spawn(world).mid_model()
    facts = agent.do("fork")
    world.keep(Handle(facts["pid"], facts["start"]))
    world.look()
    world.check("one session, one process", agent.id, "running", pid=agent, link="exact")
    held = [entry["pid"] for entry in world.listing.rows[agent.id]["processes"]]
    world.says(f"held by {[agent.pid]}", str(held), held == [agent.pid])
    world.says("no process is unexplained", str(world.listing.unattached), not world.listing.unattached)


@case("open-on-a-screen")
def opened_in_a_list(world: World) -> None:
    """opencode: sessions that a live screen can show without a trace of it"""
    done, killed, below, beside = (
        OpenCode.spawn(world, cwd=place)
        for place in (world.work, world.work, world.folder_at("work/below"), world.folder_at("beside"))
    )
    for agent in (done, below, beside):
        agent.finished().leave()
    killed.mid_model().kill()
    world.look()
    for agent, word in ((done, "done"), (killed, "stopped"), (below, "done"), (beside, "done")):
        world.check("before there is a screen", agent.id, word, process="gone", inferred=False)
    screen = OpenCode.spawn(world, "screen").finished()
    world.look()
    shown = Contains(f"pid {screen.pid} may have it open")
    last = Contains("it can show")
    world.check("the one that it worked on", screen.id, "idle", pid=screen, link="sole", inferred=True, reason=last)
    world.check("one of its directory", done.id, "done", process="gone", inferred=True, reason=shown)
    world.check("one that was killed in mid-turn", killed.id, "stopped", process="gone", inferred=True, reason=shown)
    world.check("one of a directory below", below.id, "done", process="gone", inferred=True, reason=shown)
    world.check("one of another directory", beside.id, "done", process="gone", inferred=False)
    for words in ((), ("--force",)):
        refused = world.run("resume", done.id, "go on", *words)
        named = f"pid {screen.pid}" in refused.stderr and "--even-if-open" in refused.stderr
        world.says(f"resume {' '.join(words)}: refused", refused.stderr.strip(), refused.returncode == 4 and named)
    stopped = world.run("stop", done.id)
    told = stopped.returncode == 0 and f"pid {screen.pid} may have it open" in stopped.stdout
    world.says("stop says who may show it, and touches nothing", stopped.stdout.strip(), told)
    state = state_of(screen.pid) or "gone"
    world.says("the screen: unharmed", state, state not in ("Z", "X", "gone"))
    screen.kill()
    world.look()
    for agent, word in ((done, "done"), (killed, "stopped"), (below, "done")):
        world.check("once the screen is gone", agent.id, word, process="gone", inferred=False)


@case("open-on-a-screen")
def the_whole_project(world: World) -> None:
    """opencode: a person turned off that a screen lists only its own directory"""
    beside = OpenCode.spawn(world, cwd=world.folder_at("beside")).finished()
    beside.leave()
    screen = OpenCode.spawn(world, "screen")
    note = world.folder / "state" / "opencode" / "kv.json"
    note.parent.mkdir(parents=True)
    for text, inferred in (('{"theme": "x"}', False), ('{"session_directory_filter_enabled": true}', True), ("", True)):
        note.write_text(text)
        world.look()
        world.check_unattached("the screen, never prompted", screen, ())
        label = f"one of another directory, the notes of the screen: {text or 'torn'}"
        world.check(label, beside.id, "done", process="gone", inferred=inferred)


@case("open-on-a-screen")
def clients_of_a_server(world: World) -> None:
    """opencode attach: a screen of a server shows what the server's directory has; a server has what it worked on"""
    done, beside = (OpenCode.spawn(world, cwd=place) for place in (world.work, world.folder_at("beside")))
    for agent in (done, beside):
        agent.finished().leave()
    server = OpenCode.spawn(world, "serve")
    world.look()
    world.check("no screen yet", done.id, "done", process="gone", inferred=False)
    server.finished()
    world.look()
    world.check("one that the server worked on", server.id, "done", process="gone", inferred=True)
    screen = world.bare("opencode", ["opencode", "attach", "http://127.0.0.1:1"], cwd=world.home / "beside")
    world.look()
    shown = Contains(f"pid {screen.pid} may have it open")
    world.check("one of the server's directory", done.id, "done", process="gone", inferred=True, reason=shown)
    world.check("one of another directory", beside.id, "done", process="gone", inferred=False)
    words = ["opencode", "attach", "http://127.0.0.1:1", "--dir", str(world.home / "beside")]
    world.bare("opencode", words)
    world.look()
    world.check("one of the directory that a screen names", beside.id, "done", process="gone", inferred=True)


@case("foreign")
def foreign_opencode(world: World) -> None:
    """opencode started by hand in a terminal, of each version and with its store elsewhere"""
    controller, terminal = os.openpty()
    world.until_the_end(open_files(controller, terminal))
    screen = OpenCode.spawn(world, "screen", terminal=terminal).mid_model()
    older = OpenCode.spawn(world, "screen", layout="json", log="own", cwd=world.folder_at("older")).mid_model()
    resting = OpenCode.spawn(world, "screen", layout="json", log="own", cwd=world.folder_at("resting")).finished()
    data = world.folder_at("elsewhere")
    moved = OpenCode.spawn(world, root=data / "opencode", env={"XDG_DATA_HOME": str(data)}).mid_model()
    world.look()
    world.check("a screen in a terminal", screen.id, "running", pid=screen, link="exact", inferred=False)
    tty = {"tty": os.ttyname(terminal), "tmux": None}
    shown = world.listing.rows[screen.id]["terminal"] if screen.id in world.listing.rows else None
    world.says(f"its terminal: {tty['tty']}", str(shown), shown == tty)
    world.check("1.0, in mid-turn, alone there", older.id, "running", pid=older, link="sole", inferred=True)
    world.check("1.0, at rest, alone there", resting.id, "idle", pid=resting, link="sole", inferred=True)
    world.check("with XDG_DATA_HOME", moved.id, "running", pid=moved, link="exact", inferred=False)
    moved.kill()
    older.kill()
    world.look()
    world.check("killed, its store remembered", moved.id, "stopped", turn="interrupted", pid=None)
    world.check("1.0, killed", older.id, "stopped", turn="interrupted", pid=None)


@case("other-home")
def other_home_opencode(world: World) -> None:
    """opencode of another home: not read, not shown"""
    elsewhere = world.folder / "elsewhere"
    elsewhere.mkdir()
    env = {"HOME": str(elsewhere), "XDG_DATA_HOME": str(elsewhere / "data")}
    ours: OpenCode = OpenCode.spawn(world).mid_model()
    theirs = OpenCode.spawn(world, root=elsewhere / "data" / "opencode", env=env).mid_model()
    dialog = OpenCode.spawn(world, "screen", opened=False, env=env)
    world.look()
    world.check("ours", ours.id, "running", pid=ours)
    world.check_not_shown("of another home", ids=[theirs.id], pids=[theirs.pid, dialog.pid])
