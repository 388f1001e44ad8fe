"""How OpenCode is started, spoken to and stopped (measured: 1.18.33).

A resumed session takes its model up again by itself, but not the agent (build, plan, ...) that it was in. It has to be
resumed in its own directory: elsewhere `run` does its turn and never ends.
"""

from __future__ import annotations

import os
import re

from agentctl.agents.control_base import (
    ASKS,
    CAREFUL,
    REFUSES,
    Control,
    check_flags,
    check_mode,
    check_rights,
    check_word,
    given,
    has_flag,
    joined,
    on_stdin,
    printed_objects,
    value_of,
    whole_lines,
)
from agentctl.agents.opencode.adapter import ADAPTER, DATABASE, FOLDER, NAME
from agentctl.agents.recipes import BYPASS, DEFAULT, EDITS, PLAN, Delivery, Held, Recipe, Task, Way
from agentctl.errors import AgentctlError, Refused, TruthUnavailable, UsageError
from agentctl.files.bounded import real_path, text_or_none
from agentctl.kernel import confinement
from agentctl.model import DAEMON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentctl.model import Session

MODES: dict[str, tuple[str, ...]] = {DEFAULT: (), PLAN: ("--agent", "plan"), EDITS: (), BYPASS: ("--auto",)}
# Its agent `plan` is told not to change files; that it cannot is a rule that a person's own rules would replace.
RULES = {PLAN: {"edit": "deny"}, EDITS: {"edit": "allow"}}
PERMISSION = "OPENCODE_PERMISSION"
OURS = {
    **dict.fromkeys(("-s", "--session", "-c", "--continue"), "use `agentctl resume`"),
    "--fork": "`agentctl resume` goes on with the session itself",
    "--format": "agentctl reads its output",
    "--attach": "the turn would run in another process",
    "--dir": "use --cwd",
    **dict.fromkeys(("-i", "--interactive"), "use `agentctl launch --interactive`"),
}
OF_A_SCREEN = {**OURS, "--prompt": "give it to agentctl, with -p"}
BEGINS_LATE = "opencode begins a session with its first prompt"
CREATED = re.compile(rb"timestamp=\S+ level=\w+ run=\w+ message=created id=(ses_\w+) .* parentID=undefined ")
LAST = 64  # messages that are looked through for the last prompt: every step of a model is one


class OpenCodeControl(Control):
    SECOND_WRITER = True  # nothing is locked: the turns of two processes interleave
    STORE_ENV = ("XDG_DATA_HOME", "OPENCODE_DB")

    def start(self, task: Task) -> Recipe:
        check_mode(NAME, task.permissions, MODES)
        check_flags(NAME, task.flags, OF_A_SCREEN if task.interactive else OURS)
        check_directory(task)
        id = task.session.id if task.session else None
        mode, note = mode_for(task)
        options = (*given("--session", id), *given("--model", task.model), *mode)
        env = rules(PLAN if mode == MODES[PLAN] else task.permissions, task.env)
        if task.interactive:
            check_word(NAME, task.prompt)
            words = ("opencode", *task.flags, *options, *((f"--prompt={task.prompt}",) if task.prompt else ()))
            return Recipe(words, session_id=id, env=env, said=note, late=None if task.prompt or id else BEGINS_LATE)
        argv = (
            "opencode",
            "run",
            *task.flags,  # first: --file takes all the words up to the next flag
            *("--format", "json"),
            *(() if has_flag(task.flags, "--print-logs") else ("--print-logs",)),  # there the id is said first
            *(() if has_flag(task.flags, "--log-level") else ("--log-level", "INFO")),
            *options,
        )
        said = joined(note, None if task.permissions == BYPASS else REFUSES)
        return Recipe(argv, on_stdin(task.prompt), session_id=id, env=env, said=said)

    def printed_id(self, output: bytes) -> str | None:
        """Its log names the session before it asks the model; its events come with the model's answer."""
        for line in whole_lines(output):
            if found := CREATED.match(line):
                return found[1].decode()
        for value in printed_objects(output):
            if id := text_or_none(value.get("sessionID")):
                return id
        return None

    def naming(self, root: str) -> dict[str, str]:
        """Its data folder, with its accounts, if the store is one by its name; else its database."""
        folder, name = os.path.split(root)
        if name == FOLDER:
            return {"XDG_DATA_HOME": folder}
        return {"OPENCODE_DB": os.path.join(root, DATABASE) if os.path.isdir(root) else root}

    def way_to_stop(self, held: Held) -> Way:
        """A screen ends its turn and writes so on SIGTERM; `run` writes nothing on any signal, and leaves its tools."""
        if ADAPTER.claims(held.process, held.details) == DAEMON:
            said = "it runs in a server: its turn is aborted there, and the server goes on"
            return Way(signals=(), interrupt=abort_turn(held), said=said)
        return Way()

    def way_to_send(self, held: Held) -> Delivery | None:
        """By its HTTP interface, if it has one: the prompt names the session, whatever the screen shows."""
        from agentctl.kernel.processes import snapshot

        ports = snapshot().ports(held.process)
        if not ports:
            return None
        session, pid = held.session, held.process.pid
        agent = agent_of(session)

        def deliver(text: str, seconds: float) -> None:
            import time

            from agentctl.agents.opencode import api

            deadline = time.monotonic() + seconds
            try:
                login = credentials(held, ports[0], deadline)
                api.prompt(ports[0], session.id, session.cwd or "", text, agent, deadline, login)
            except api.Busy as error:
                raise Refused(f"{session.id}: {error}; nothing was sent") from error
            except api.Unsure as error:
                raise TruthUnavailable(f"opencode (pid {pid}) has not said whether it took it: {error}") from error
            except api.Unanswered as error:
                raise AgentctlError(f"opencode (pid {pid}) did not take it: {error}; nothing was sent") from error

        return Delivery(f"opencode's own interface (pid {pid}, port {ports[0]})", deliver)

    def own_screen(self, held: Held) -> tuple[str, ...] | None:
        """Another screen on the server that runs it."""
        from agentctl.kernel.processes import snapshot

        if ADAPTER.claims(held.process, held.details) != DAEMON:
            return None
        ports = snapshot().ports(held.process)
        where = ("--dir", held.session.cwd) if held.session.cwd else ()
        if not ports:
            return None
        return ("opencode", "attach", f"http://127.0.0.1:{ports[0]}", "--session", held.session.id, *where)


def check_directory(task: Task) -> None:
    where = task.session.cwd if task.session else None
    if where is not None and real_path(where) != real_path(task.cwd):
        raise UsageError(f"opencode goes on with a session in its own directory only: {where}")


def mode_for(task: Task) -> tuple[tuple[str, ...], str | None]:
    """Return the options for the permissions of a turn, and a note if they are those that its session had."""
    if task.session is not None and task.permissions is None and not has_flag(task.flags, "--agent"):
        agent = agent_of(task.session)
        if agent is not None:
            limit = CAREFUL if value_of(task.launched_as, "--agent") == "plan" else None
            rank = CAREFUL if agent == "plan" else ASKS
            check_rights(task.session, f"its agent {agent}", rank, limit, f"`-- --agent {agent}`")
            return ("--agent", agent), None if agent == "build" else f"it goes on as its agent {agent}"
    return MODES[task.permissions or DEFAULT], None


def rules(mode: str | None, env: Mapping[str, str]) -> dict[str, str] | None:
    """Return the environment with the rules of a mode, on top of the person's own; None if the mode has none."""
    wanted = RULES.get(mode or DEFAULT)
    if wanted is None:
        return None
    import json

    try:
        given = json.loads(env.get(PERMISSION) or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise UsageError(f"{PERMISSION} is set and is no JSON object: unset it, or leave --permissions out")
    return {PERMISSION: json.dumps({**given, **wanted})}


def agent_of(session: Session) -> str | None:
    """Return OpenCode's agent (build, plan, or one of the person's own) that the last prompt was for."""
    from agentctl.agents.opencode.sessions import Sessions
    from agentctl.files.reader import Reader

    try:
        reading = Sessions(Reader(session.agent, session.store or ""), []).read(session.id)
        messages = reading.source.messages(reading.row, LAST) if reading else []
    except OSError:
        return None  # the agent will say it better
    for message in messages:
        if message.data and message.data.get("role") == "user":
            agent = text_or_none(message.data.get("agent"))
            return agent if agent and not agent.startswith("-") else None
    return None


def abort_turn(held: Held) -> Callable[[float], None]:
    """Return what aborts the turn of a session in the server that runs it."""

    def abort(seconds: float) -> None:
        import time

        from agentctl.agents.opencode import api
        from agentctl.kernel.processes import snapshot

        session, process = held.session, held.process
        deadline = time.monotonic() + seconds
        what = f"opencode (pid {process.pid}) did not abort {session.id}"
        ports = snapshot().ports(process)
        if not ports:
            raise AgentctlError(f"{what}: it listens on no port that we can reach; end the turn where it is shown")
        try:
            login = credentials(held, ports[0], deadline)
            api.abort(ports[0], session.id, session.cwd or "", deadline, login)
        except api.Unanswered as error:
            raise AgentctlError(f"{what}: {error}; end the turn where it is shown") from error

    return abort


def credentials(held: Held, port: int, deadline: float) -> str | None:
    """Return what `opencode attach` would use: the password that the person has in the environment. Only for a server
    that asks for it, and that is as free as we are: the password may be that of another one. Raises Unanswered."""
    from agentctl.agents.opencode import api

    password = held.env.get("OPENCODE_SERVER_PASSWORD")
    if not password or not api.wants_login(port, held.session.cwd or "", deadline):
        return None
    if confinement.CAN_TELL and (why := confinement.why_confined(held.process.pid)) is not None:
        raise api.Unanswered(f"it wants a password, and {why}, so it is not given yours")
    return f"{held.env.get('OPENCODE_SERVER_USERNAME') or 'opencode'}:{password}"


CONTROL = OpenCodeControl()
