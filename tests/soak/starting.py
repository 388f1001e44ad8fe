"""How sessions begin: by the real command, by hand in a terminal, or anew. Each returns when what is true is known."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import subprocess
import termios
import time
import uuid
from typing import TYPE_CHECKING

from tests.soak.kinds import Scripted, Standin
from tests.soak.lives import ANY_END, Life, key_of, ticks_of
from tests.soak.oracle import DONE, FAILED, GONE, IDLE, NOT_THERE, WAITING, WORKING, Truth
from tests.soak.world import PATIENCE, Command, Done, Line, Lost, ended, patiently
from tests.torture.handles import WorldError

if TYPE_CHECKING:
    from tests.soak.stage import Stage

TICKS = os.sysconf("SC_CLK_TCK")


def launch(
    stage: Stage, life: Life, kind: str, *more: str, kill_after: float | None = None, env: dict[str, str] | None = None
) -> Done:
    """`agentctl launch`. Who calls holds the lock of the life, and its store."""
    life.launched = True
    prompt = life.words(kind) if isinstance(life, Scripted) else f"{life.mark} go"
    words = ("launch", life.agent, "-p", prompt, "--cwd", str(life.directory), *more)
    return begin(stage, life, kind, words, kill_after, env or {}, before=(NOT_THERE,))


def resume(stage: Stage, life: Life, kind: str, *more: str) -> Done:
    """`agentctl resume` of a session that has ended."""
    now = time.monotonic()
    before = tuple(life.timeline.possible(now, now))
    life.mark = f"soak-{stage.world.number()}-"
    life.launched = True
    prompt = life.words(kind) if isinstance(life, Scripted) else f"{life.mark} go"
    return begin(stage, life, kind, ("resume", life.id or "", prompt, *more), None, {}, before=before)


def begin(
    stage: Stage,
    life: Life,
    kind: str,
    words: tuple[str, ...],
    kill_after: float | None,
    env: dict[str, str],
    before: tuple[Truth, ...],
) -> Done:
    old = life.turn, life.last
    life.launch_id = None
    life.runner_killed = False
    life.in_pane = "--interactive" in words
    life.born = time.monotonic()
    life.begins()
    stage.world.note(f"agentctl {' '.join(words)}")
    command = stage.world.begin(*words, env={"SOAK_MARK": life.mark, **env})
    if kill_after is not None:
        command.has_ended(kill_after)
        command.kill()
    try:
        if isinstance(life, Standin):
            line = hello(stage, life, command)
            if line is None or not life.greet(line, stage.watcher):
                nothing(stage, life, before)
            else:
                stage.know(life)
                with_companions(stage, life)
                life.open()
                if not life.headless:
                    life.prompt()  # a screen that was given one
                life.expected = life.ends()
                life.is_settled()
        else:
            assert isinstance(life, Scripted)
            command.wait_only()
            follow(stage, life, kind, before)
    except Lost:
        life.await_end()
        if isinstance(life, Standin):
            life.learn_end(old)
    done = command.wait()
    stage.world.note(f"agentctl {words[0]} for {life.mark}: exit {done.code}")
    if done.crashed:
        stage.crash(done)
    return done


def nothing(stage: Stage, life: Life, before: tuple[Truth, ...]) -> None:
    """It came to nothing: what was true before is true."""
    now = time.monotonic()
    life.timeline.is_now(now, *before)
    life.timeline.change_ends(now)
    if before == (NOT_THERE,):
        stage.retire(life)


def hello(stage: Stage, life: Life, command: Command) -> Line | None:
    """Until it speaks, or nobody is on the way any more."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (line := stage.world.switchboard.take(life.mark, 0.05)) is not None:
            return line
        if command.has_ended() and not on_the_way(stage, life):
            return stage.world.switchboard.take(life.mark, 0.2)
    return None


def on_the_way(stage: Stage, life: Life) -> bool:
    """After the command has ended: does its launch go on?"""
    one = stage.world.launch_of(life.mark)
    if one is None:
        return bool(unnamed_runners(stage, life))
    pid, start = key_of(one["child"])
    return ticks_of(pid) == start


def unnamed_runners(stage: Stage, life: Life) -> list[int]:
    """Runners that have not written yet whom they started. One that is older than this life has lost its record."""
    named = {one.get("id") for one in stage.world.launches()}
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if name.isdigit() and any(word.endswith("/runner.py") for word in words) and not named & set(words):
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - (ticks_of(int(name)) or 0) / TICKS
            found += [int(name)] if age <= time.monotonic() - life.born + 1.0 else []
    return found


def with_companions(stage: Stage, life: Life) -> None:
    """Its runner, by the launch record; its wrapper, by its own parent."""
    one = stage.world.launch_of(life.mark) if life.launched else None
    if one is not None:
        life.launch_id = one["id"]
        life.has_companion("runner", *key_of(one["runner"]), stage.watcher)
        life.pids.add(key_of(one["runner"])[0])
    if isinstance(life, Standin) and life.line is not None:
        parent = life.line.hello["parent"]
        start = ticks_of(parent)
        if start is not None and name_of(parent) == "node":
            life.has_companion("wrapper", parent, start, stage.watcher)
            life.pids.add(parent)


def name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def follow(stage: Stage, life: Scripted, kind: str, before: tuple[Truth, ...]) -> None:
    """It is on its own: see what it came to."""
    one = stage.world.launch_of(life.mark)
    while one is None and unnamed_runners(stage, life):
        time.sleep(0.01)
        one = stage.world.launch_of(life.mark)
    if one is None:
        nothing(stage, life, before)
        return
    life.id = one["session_id"]
    stage.know(life)
    old = life.turn, life.last
    life.turn, life.last = (IDLE, DONE) if kind == IDLE else (kind, life.last)
    lives = life.has_process(*key_of(one["child"]), stage.watcher)
    life.expected = (ANY_END, NOT_THERE, *before)  # until it is seen to be where it was to come
    with_companions(stage, life)
    if kind in (DONE, FAILED):
        life.turn, life.last = IDLE, kind
        if lives:
            life.await_end()
        ends_as(life, kind, before)
    elif not lives:
        life.turn, life.last = old
        ends_as(life, None, before)
    else:
        life.await_turn(kind)
        life.expected = life.ends()
        life.is_settled()


def ends_as(life: Scripted, kind: str | None, before: tuple[Truth, ...]) -> None:
    """It is gone. How its turn ended is in what it wrote itself; nobody else writes there."""
    now = time.monotonic()
    ended_well = kind is not None and life.has_written(kind)
    life.timeline.is_now(now, *((Truth(GONE, kind or DONE),) if ended_well else (ANY_END, *before)))
    life.died_at = life.died_at or now


def await_nested(stage: Stage, outer: Scripted, inner: Scripted) -> None:
    """The tool of one launches the other, or is refused."""

    def is_told() -> bool:
        over = outer.died_at is not None or outer.has_tool_result()
        return over or stage.world.launch_of(inner.mark) is not None

    if outer.alive:
        patiently("the tool that launches", is_told)
    follow(stage, inner, WORKING, (NOT_THERE,))


# By hand


def in_a_terminal(stage: Stage, life: Life, argv: list[str], program: str, at_pid: int | None, **env: str) -> int:
    """A process with a terminal of its own; the other end of that."""
    ours, theirs = pty.openpty()
    if at_pid is not None:
        stage.world.set_last_pid(at_pid - 1)
    life.popen = subprocess.Popen(
        argv,
        executable=program,
        cwd=life.directory,
        env={**stage.world.env, "SOAK_MARK": life.mark, "TERM": "xterm", **env},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    stage.world.note(f"by hand: {' '.join(argv)} as pid {life.popen.pid}, {life.mark}")
    return ours


def by_hand(stage: Stage, life: Life, words: list[str], at_pid: int | None, **env: str) -> None:
    life.begins()
    if isinstance(life, Scripted):
        life.id = str(uuid.uuid4())
        stage.know(life)
        argv = life.argv()
        life.terminal = in_a_terminal(stage, life, argv, argv[0], at_pid, **env)
        assert life.popen is not None
        start = ticks_of(life.popen.pid)
        life.has_process(life.popen.pid, start or 0, stage.watcher, life.popen)
        patiently(f"{life.id} at its prompt", lambda: life.is_at_its_prompt() or life.died_at is not None)
        life.turn = IDLE
    else:
        assert isinstance(life, Standin)
        program = str(stage.world.program(life.agent))
        life.terminal = in_a_terminal(stage, life, [program, *words], program, at_pid, **env)
        popen = life.popen
        assert popen is not None
        line = None
        deadline = time.monotonic() + PATIENCE
        while line is None and not has_exited(popen):
            line = stage.world.switchboard.take(life.mark, 0.05)
            if time.monotonic() > deadline:
                raise WorldError(f"{life.agent} was started by hand and has not said who it is")
        with contextlib.suppress(Lost):
            if line is not None and life.greet(line, stage.watcher):
                stage.know(life)
                with_companions(stage, life)
                life.open()
    life.expected = life.ends()
    life.is_settled()


def reopen(stage: Stage, life: Standin, words: list[str]) -> None:
    """The screen of a session that has ended, by hand."""
    now = time.monotonic()
    before = tuple(life.timeline.possible(now, now))
    life.reap()
    life.mark = f"soak-{stage.world.number()}-"
    life.launched, life.in_pane, life.hook = False, False, None
    by_hand(stage, life, words, None)
    if not life.alive and life.died_at is not None and life.died_at <= now:
        nothing(stage, life, before)


def has_exited(popen: subprocess.Popen[bytes]) -> bool:
    """It stays a zombie."""
    fd = os.pidfd_open(popen.pid)
    try:
        return ended(fd)
    finally:
        os.close(fd)


def type_prompt(life: Scripted, kind: str) -> None:
    """To one at its prompt."""
    life.mark = f"soak-{life.world.number()}-"
    last = kind if kind in (DONE, FAILED) else None
    turn = kind if kind in (WORKING, WAITING) else IDLE
    text = life.words(kind)
    with life.becoming(turn, last):
        if kind in (DONE, FAILED):
            life.timeline.may_be(time.monotonic(), Truth("alive", WORKING))
            life.expected = (*life.expected, Truth(GONE, "interrupted"))
        life.type(f"{text}\n")
        life.await_turn(turn)
        if kind in (DONE, FAILED):
            patiently("the end of that turn", lambda: life.died_at is not None or life.turn_is_over())
