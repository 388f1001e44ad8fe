"""`agentctl send` and `agentctl stop` at the borders: who reads a terminal, and who else is below or above an agent."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex, CodexDaemon
from tests.agents.demo.torture import Demo
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_daemons import IDLE
from tests.torture.cases_launch import has, keep, launch, launches
from tests.torture.cases_stop import NO_GRACE, check_refused, check_spared, check_stopped, stop, stop_halted
from tests.torture.cases_terminals import Server, by_hand, in_tmux, prompts, wait_for_status
from tests.torture.handles import Handle, arguments, wait_until
from tests.torture.kernel import child_of
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks, timed_id

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.agents import Agent
    from tests.torture.world import World

PROMPT = "PS1=> "  # a shell whose prompt looks like that of the demo agent
SETTLED = 0.7  # seconds after which what was typed would have been read

# send: who reads the terminal


def demo_in(server: Server, pane: str, id: str, line: str) -> Handle:
    """A person types this line into a shell. It starts a demo agent; its process, once it is at its prompt."""
    server("send-keys", "-t", pane, "-l", line)
    server("send-keys", "-t", pane, "Enter")
    world = server.world
    file = world.root(Demo) / "sessions" / id / "process.json"
    wait_until("the demo agent is idle", lambda: file.exists() and json.loads(file.read_text())["status"] == "idle")
    facts = json.loads(file.read_text())
    handle = Handle(facts["pid"], facts["start_ticks"])
    world.keep(handle)
    return handle


def agent_words(id: str) -> str:
    return shlex.join([sys.executable, "-m", "agentctl.demo_agent", "--session-id", id, "--interactive"])


def shell_in(server: Server, name: str) -> str:
    return server("new-session", "-d", "-s", name, "-P", "-F", "#{pane_id}", "env", PROMPT, "sh")


def check_nothing_typed(world: World, label: str, id: str, word: str, text: str, mark: Path) -> None:
    """`send` is refused, says why, and nobody has read the text."""
    done = world.run("send", id, text)
    time.sleep(SETTLED)
    ok = done.returncode == 4 and word in done.stderr and not mark.exists() and not prompts(world, id)
    read = f", {mark.name} is there" if mark.exists() else ""
    world.says(f"{label}: refused (4), ..{word}..", f"exit {done.returncode}: {done.stderr.strip()}{read}", ok)


def write_script(world: World, name: str, text: str) -> Path:
    path = world.folder / name
    path.write_text(text)
    return path


@in_tmux("send")
def into_a_shell(world: World) -> None:
    """the agent is a background job of a shell, whose own prompt looks like that of the agent"""
    server = Server(world)
    server.start()
    pane, id, mark = shell_in(server, "one"), str(uuid.uuid4()), world.folder / "executed"
    demo_in(server, pane, id, f"trap '' TTOU TTIN; {agent_words(id)} &")
    time.sleep(SETTLED)
    check_nothing_typed(world, "a background job", id, "in the background", f"touch {mark}", mark)


@in_tmux("send")
def below_another_program(world: World) -> None:
    """the agent has a pipe for its input, below a program that asks the person something in the same pane"""
    server = Server(world)
    server.start()
    pane, id, mark = shell_in(server, "one"), str(uuid.uuid4()), world.folder / "answered"
    fifo = world.folder / "orders"
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDWR)
    try:
        script = write_script(
            world, "run.sh", f'{agent_words(id)} <{fifo} >/dev/null &\nread a; echo "$a" >{mark}; wait\n'
        )
        server("send-keys", "-t", pane, "-l", "clear")
        server("send-keys", "-t", pane, "Enter")
        agent = demo_in(server, pane, id, f"printf '> '; sh {script}")
        time.sleep(SETTLED)
        check_nothing_typed(world, "its input is a pipe", id, "a pipe or a file", "yes please", mark)
        done = world.run("send", id, "yes please")
        world.says(
            "it is not told to do what can never work", done.stderr.strip(),
            "agentctl resume" in done.stderr and "attach" not in done.stderr,
        )  # fmt: skip
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    finally:
        os.close(held)


@in_tmux("send")
def into_an_editor(world: World) -> None:
    """the agent has given its terminal to a child in its own process group, as for an editor"""
    server = Server(world)
    server.start()
    pane, id, mark = shell_in(server, "one"), str(uuid.uuid4()), world.folder / "edited"
    script = write_script(world, "run.sh", f"sh -c 'read a </dev/tty; echo \"$a\" >{mark}' &\nexec {agent_words(id)}\n")
    demo_in(server, pane, id, f"sh {script}")
    time.sleep(SETTLED)
    check_nothing_typed(world, "a child reads the terminal", id, "reads its terminal", ":wq!", mark)


@in_tmux("send")
def file_names_a_shell(world: World) -> None:
    """the agent was killed, and its file names a shell that has its pane now"""
    server = Server(world)
    server.start()
    id, _ = by_hand(server, "agent")
    wait_for_status(world, id, "idle")
    path = world.root(Demo) / "sessions" / id / "process.json"
    facts = json.loads(path.read_text())
    program = world.folder / "programs" / "myshell"  # in no folder of the system: it may be an agent
    program.parent.mkdir()
    shutil.copy(os.path.realpath("/bin/sh"), program)
    pane = server("new-session", "-d", "-s", "shell", "-P", "-F", "#{pane_id}", "env", PROMPT, str(program))
    pid = int(server("display-message", "-p", "-t", pane, "#{pane_pid}"))
    wait_until("it is the shell", lambda: os.readlink(f"/proc/{pid}/exe") == str(program))
    world.keep(Handle(pid, start_ticks(pid)))
    os.kill(facts["pid"], signal.SIGKILL)
    wait_until("the agent is gone", lambda: not os.path.exists(f"/proc/{facts['pid']}/exe"))
    path.write_text(json.dumps({**facts, "pid": pid, "start_ticks": start_ticks(pid)}))
    mark = world.folder / "executed"
    check_nothing_typed(world, "a shell in place of the agent", id, "is not proved to be", f"touch {mark}", mark)


@in_tmux("send")
def onto_a_draft(world: World) -> None:
    """a person has half-typed something at the agent's prompt"""
    server = Server(world)
    server.start()
    id, pane = by_hand(server, "one")
    wait_for_status(world, id, "idle")
    server("send-keys", "-t", pane, "-l", "delete ")
    wait_until("the draft is shown", lambda: "> delete" in server("capture-pane", "-p", "-t", pane))
    done = world.run("send", id, "the tests pass")
    time.sleep(SETTLED)
    ok = done.returncode == 4 and "draft" in done.stderr and not prompts(world, id)
    world.says("refused (4), the draft stands alone", f"exit {done.returncode}: {done.stderr.strip()}", ok)
    shown = server("capture-pane", "-p", "-t", pane)
    world.says("nothing was typed behind it", repr(shown[-40:]), "pass" not in shown)


@case("send")
def to_a_headless_run(world: World) -> None:
    """an agent without a terminal that works: nobody is told to wait until it is idle and to send again"""
    claude = Claude.spawn(world, "busy", headless=True).mid_model()
    done = world.run("send", claude.id, "more")
    ok = done.returncode == 4 and "agentctl send" not in done.stderr and f"agentctl resume {claude.id}" in done.stderr
    world.says("refused (4), with what can work", f"exit {done.returncode}: {done.stderr.strip()}", ok)
    controller, terminal = os.openpty()
    try:
        piped = Claude.spawn(world, "busy", headless=True, terminal=terminal).mid_model()  # its orders come by a pipe
        done = world.run("send", piped.id, "more")
        ok = done.returncode == 4 and "agentctl send" not in done.stderr and "agentctl resume" in done.stderr
        world.says("the same of one whose input is a pipe", f"exit {done.returncode}: {done.stderr.strip()}", ok)
        piped.kill()
    finally:
        os.close(terminal)
        os.close(controller)


# stop: who is below an agent


def inner_agent(
    world: World, outer: Claude, kind: type[Agent], program: str, argv: list[str], *, direct: bool = False,
    id: str | None = None
) -> tuple[str, Handle]:  # fmt: skip
    """An agent that another one runs as its tool, under this name. `direct`: as its very child."""
    id = id or kind.new_id()
    more = {"style": "new", "headless": False} if kind is Claude else {"source": "exec", "policy": "never"}
    config = {**more, "id": id, "root": str(world.root(kind)), "handles": kind.HANDLES, "kind": kind.STANDIN}
    begin = [["register", {"status": "busy"}]] if kind is Claude else [["open", {}]]
    script = [*begin, ["prompt", {"text": "go"}], ["sleep", {"seconds": 600}]]
    world.root(kind).mkdir(exist_ok=True, parents=True)
    words = arguments(world.config_file({**config, "argv": argv, "comm": None, "script": script}), argv)
    command = f"exec -a {shlex.quote(argv[0])} {shlex.join([world.programs.path(program), *words[1:]])}"
    tool = outer.tool(command if direct else f"({command}) & wait")

    path = world.programs.path(program)

    def found() -> int | None:
        """By its executable, once its session is in its store."""
        if not any(id in file.read_text() for file in world.root(kind).rglob("*.json*") if file.is_file()):
            return None
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and executable_of(int(name)) == path]
        return next((pid for pid in pids if pid != outer.pid), None)

    pid = wait_until(f"{program} is on its session", found)
    return id, tool if pid == tool.pid else kept(world, pid)


def executable_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def kept(world: World, pid: int) -> Handle:
    handle = Handle(pid, start_ticks(pid))
    world.keep(handle)
    return handle


RELEASE = "codex-x86_64-unknown-linux-musl"
SAME = ["claude", "--model", "opus"]


@case("nested")
def nested_under_other_names(world: World) -> None:
    """agents that an agent runs under names that no adapter knows, or with the very arguments of the outer one"""
    kinds: tuple[tuple[str, type[Agent], str, list[str], bool], ...] = (
        ("claude called cc", Claude, "cc", ["cc"], False),
        ("codex as its releases call it", Codex, RELEASE, [RELEASE, "exec", "go"], False),
        ("codex called cx", Codex, "cx", ["cx", "exec", "go"], False),
        ("a child with the same arguments", Claude, "claude", SAME, True),
    )
    for label, kind, program, argv, direct in kinds:
        outer = Claude.spawn(world, "busy", style="old", argv=SAME, cwd=world.folder_at(program))
        outer.do("prompt", text="go")
        outer.do("call", command="agents")
        own = outer.tool("sleep 300")
        id, inner = inner_agent(world, outer, kind, program, argv, direct=direct)
        found = stop(world, outer.id)
        check_stopped(world, f"{label}: the outer one and its tool", found, outer, own)
        check_spared(world, f"{label}: the inner one", inner)
        named = [entry["id"] for entry in found.one["left"]]
        above = [] if direct else [None]  # the shell that holds it
        world.says(f"{label}: it is named", str(named), named == [id, *above], json.dumps(found.outcomes, indent=1))


@case("nested")
def nested_copy(world: World) -> None:
    """a child that looks like the agent and is on no session yet: it may be an agent, so it is named and left"""
    outer = Claude.spawn(world, "busy", style="old", argv=SAME)
    outer.do("prompt", text="go")
    facts = outer.do("fork")
    copy = kept(world, facts["pid"])
    found = stop(world, outer.id)
    world.says("the outer one has ended", str(found.hows), outer.has_ended())
    check_spared(world, "its copy", copy)
    world.says("it is named", str(found.left), found.left == [copy.pid])
    world.expects_unattached.add(copy.pid)


@case("nested")
def nested_since(world: World) -> None:
    """an agent under another name that the outer one starts while it is being stopped"""
    outer = Claude.spawn(world, "busy", style="old", argv=SAME)
    outer.do("prompt", text="go")
    outer.do("call", command="agents")
    outer.do("ignore", signals=[15, 2, 1])
    started: list[Handle] = []
    found = stop_halted(
        world, "signal_agents", lambda: started.append(inner_agent(world, outer, Claude, "cc", ["cc"])[1]),
        outer.id, *NO_GRACE,
    )  # fmt: skip
    check_stopped(world, "the outer one", found, outer, how="SIGKILL")
    check_spared(world, "the inner one", *started)


# stop: who is above an agent

INNER = """\
until [ -e {folder}/targets ]; do sleep 0.05; done
while read target; do
    {agentctl} stop $target </dev/null >>{folder}/said 2>&1
    echo "$target $?" >>{folder}/codes
    {agentctl} stop $target --force --tree </dev/null >>{folder}/said 2>&1
    echo "$target $?" >>{folder}/codes
done <{folder}/targets
touch {folder}/over
"""


def stops_from_inside(world: World, label: str, *targets: tuple[str, Handle]) -> None:
    """A launched agent tries to stop these, and is refused each time."""
    folder = world.folder
    (folder / "targets.new").write_text("".join(f"{target}\n" for target, _ in targets))
    (folder / "targets.new").rename(folder / "targets")
    wait_until("the agent has tried it", (folder / "over").exists, 60)
    if (folder / "inner-id").exists():
        inner = (folder / "inner-id").read_text().strip()
        wait_until("its tool has ended", lambda: has("tool_result", world, inner))
    codes = [line.split() for line in (folder / "codes").read_text().splitlines()]
    said = (folder / "said").read_text()
    wanted = [[target, "4"] for target, _ in targets for _ in range(2)]
    world.says(f"{label}: refused (4), also with --force", str([code for _, code in codes]), codes == wanted, said)
    check_spared(world, label, *(handle for _, handle in targets))


def agentctl_in(world: World) -> str:
    """The words by which a tool calls the agentctl that is tested."""
    return shlex.join(["env", f"PYTHONPATH={world.env['PYTHONPATH']}", sys.executable, "-m", "agentctl"])


def launching(world: World) -> str:
    """The command by which an agent launches another one, which tries to stop it."""
    write_script(world, "inner.sh", INNER.format(folder=world.folder, agentctl=agentctl_in(world)))
    prompt = f"[[bash:sh {world.folder}/inner.sh]] [[sleep:300]]"
    elsewhere = world.folder_at("elsewhere")
    words = f"launch demo --cwd {elsewhere} -p {shlex.quote(prompt)}"
    return f"{agentctl_in(world)} {words} >{world.folder}/inner-id 2>/dev/null"


def inner_launch(world: World, *others: str) -> tuple[str, dict[str, Any], dict[str, Handle]]:
    """The launch that an agent made, its record, and its processes."""

    def found() -> dict[str, dict[str, Any]]:
        return {id: one for id, one in launches(world).items() if id not in others}

    ((id, record),) = wait_until("the inner launch", found).items()
    wait_until("its session", lambda: (world.folder / "inner-id").read_text().strip())
    return id, record, keep(world, record)


@case("above")
def stops_its_launcher(world: World) -> None:
    """a launched agent has launched another one, which tries to stop it, by session and by launch, and itself"""
    (world.folder / "outer.sh").write_text(launching(world))
    outer_id, outer = launch(world, "-p", f"[[bash:sh {world.folder}/outer.sh]] [[sleep:300]]")
    # By its session: its tool may have launched the other one already.
    outer_launch = next(name for name, facts in launches(world).items() if facts["session_id"] == outer_id)
    id, record, inner = inner_launch(world, outer_launch)
    by = record["launcher"]
    truth = {"agent": "demo", "session": outer_id, "launch": outer_launch, "depth": 1}
    world.says("its record names its launcher", str(by), {name: by[name] for name in truth} == truth)
    child, own = outer["child"], inner["child"]
    world.says("and the process of that", by["process"], by["process"].endswith(f":{child.pid}:{child.start}"))
    own_id = (world.folder / "inner-id").read_text().strip()
    targets = ((outer_id, child), (outer_launch, child), (own_id, own), (id, own))
    stops_from_inside(world, "its launcher, and itself", *targets)
    check_stopped(world, "from outside", stop(world, outer_id), child)


@case("above")
def stops_a_launcher_by_hand(world: World) -> None:
    """an agent that a person started has launched another one, which tries to stop it"""
    claude = Claude.spawn(world, "busy").mid_model()
    claude.do("call", command="launch")
    claude.tool(launching(world))
    _, record, _ = inner_launch(world)
    by = record["launcher"]
    truth = {"agent": "claude-code", "session": claude.id, "launch": None, "depth": 1}
    world.says("its record names its launcher", str(by), {name: by[name] for name in truth} == truth)
    stops_from_inside(world, "its launcher", (claude.id, claude))


@case("above")
def stops_itself_detached(world: World) -> None:
    """a tool that has left the process tree of its agent tries to stop that agent, by session and by launch"""
    script = write_script(world, "inner.sh", INNER.format(folder=world.folder, agentctl=agentctl_in(world)))
    id, handles = launch(world, "-p", f"[[bash:setsid -f sh {script}]] [[sleep:300]]")
    (launch_id,) = launches(world)
    stops_from_inside(world, "its own agent", (id, handles["child"]), (launch_id, handles["child"]))


# stop: screens


@case("native-daemon")
def codex_daemon_screen(world: World) -> None:
    """stop of a thread in codex's daemon that is open on a screen: it stays open, and its own screen can be ended"""
    daemon, id, other = CodexDaemon.spawn(world), timed_id(), timed_id()
    for one in (id, other):
        daemon.holds(one, IDLE)
        daemon.finished(id=one)
    controller, terminal = os.openpty()
    try:
        helped = ["/bin/sh", "-c", 'setsid sleep 300 & exec "$0" "$@"']  # as the helpers of a daemon
        screen = world.bare(
            "codex", [CODEX_BINARY, "resume", id], terminal=terminal, around=lambda words: [*helped, *words]
        )  # fmt: skip
        below = kept(world, wait_until("what it has started", lambda: child_of(screen.pid)))
        picker = world.bare("codex", [CODEX_BINARY, "resume"])
        found = stop(world, id)
        said = str(found.one["said"])
        ok = (found.code, found.one["outcome"]) == (1, "open") and f"pid {screen.pid}" in said and "--screen" in said
        world.says("it stays open, and says where", f"exit {found.code}, {found.one['outcome']}: {said}", ok)
        check_spared(world, "its screen", screen)
        found = stop(world, other, "--screen")
        ok = (found.code, found.one["outcome"]) == (1, "open") and "no screen is proved" in str(found.one["said"])
        world.says("no screen is proved to show the other one", str(found.one["said"]), ok)
        check_spared(world, "all screens", screen, picker)
        found = stop(world, id, "--screen")
        ok = (found.code, found.one["outcome"]) == (0, "open") and screen.has_ended()
        world.says("with --screen, its screen ends", f"exit {found.code}, {found.hows}, {found.one['said']}", ok)
        check_spared(world, "the daemon, the other screen, and what the screen started", daemon, picker, below)
        world.expects_unattached.add(picker.pid)
    finally:
        os.close(terminal)
        os.close(controller)


@case("open-on-a-screen")
def ends_a_screen_of_others(world: World) -> None:
    """stop of a session whose screen may show another one: that is said before the screen ends"""
    done = OpenCode.spawn(world).finished()
    done.leave()
    screen = OpenCode.spawn(world, "screen").mid_model()
    said = world.run("stop", screen.id)
    ok = said.returncode == 0 and screen.has_ended() and f"pid {screen.pid}" in said.stderr and done.id in said.stderr
    world.says("the screen and what it may show are named", f"exit {said.returncode}: {said.stderr.strip()}", ok)
    screen = OpenCode.spawn(world, "screen").finished()
    found = stop(world, screen.id)
    check_refused(world, "only inferred: what it may show is named", found, done.id, screen)
    check_stopped(world, "with --force", stop(world, screen.id, "--force"), screen)


@case("nested")
def nested_shared(world: World) -> None:
    """stop --tree of a session whose tool asks another session something, which a person has open"""
    person = Claude.spawn(world, "idle", cwd=world.folder_at("b")).finished()
    outer = Claude.spawn(world, "busy", style="new", argv=["claude", "--model", "opus"], cwd=world.folder_at("a"))
    outer.do("prompt", text="go")
    outer.do("call", command="agents")
    words = ["claude", "-p", "--resume", person.id]
    inner_agent(world, outer, Claude, "claude", words, id=person.id)
    found = stop(world, outer.id, "--tree", *NO_GRACE)
    check_spared(world, "the person's screen", person)
    said = [entry["said"] or "" for entry in found.outcomes[1:]]
    # What asked may have ended with the tools of the session, before it was looked at: then there is nothing to say.
    ok = outer.has_ended() and (not said or any(f"goes on in pid {person.pid}" in one for one in said))
    world.says("the person's screen is named", f"{said}", ok, json.dumps(found.outcomes, indent=1))
