"""OpenCode (measured: 1.18.33; the older stores: 1.2.27 and 1.0.185).

Who is on what: no file of it names a process. The kernel says how far each process has written in the log that all of
them share, which proves which lines are whose, and those name the sessions it works on (opencode_log). Where there is
no such log: the one session of its directory that is newer than the process, inferred. What the turn is: its database,
or the JSON files of older versions; and its own HTTP interface where it has one.

Never done here: reading auth.json or the tables of credentials, asking a server about a directory that it has not
open (it would open it, and write into the repository there), believing `locks/` (of its package installer, and left
behind).
"""

from __future__ import annotations

import os

from agentctl.agents import Candidates, home
from agentctl.agents.opencode_args import SERVERS, Arguments, read_arguments
from agentctl.model import (
    AGENT,
    CLIENT,
    DAEMON,
    HELPER,
    IDLE,
    UNKNOWN,
    WAITING,
    WORKING,
    WRAPPER,
    Details,
    Evidence,
    Link,
    Page,
    Problem,
    Process,
    ProcessKey,
    Record,
    Supervisor,
)
from agentctl.stores import real_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentctl.agents.opencode_api import Answer
    from agentctl.agents.opencode_log import Tail, Trail
    from agentctl.agents.opencode_sessions import Sessions
    from agentctl.agents.opencode_turn import Row, Tool, Turn
    from agentctl.derived import Derived
    from agentctl.processes import Processes

NAME = "opencode"
ALIASES: tuple[str, ...] = ()
BINARIES = ("opencode",)
ENV = ("HOME", "XDG_DATA_HOME", "OPENCODE_DB", "BUN_BE_BUN")
CERTIFIED = ("1.18.33",)
RUNS_MANY = True

DATABASE = "opencode.db"
PROGRAMS = ("opencode", ".opencode", "opencode.exe", "opencode-cli")
MOST_SILENT = 1  # more of them would cost more time than a store is given
# Tools that log before all else whether they may run or have to ask.
ASKING_TOOLS = frozenset("bash edit write patch apply_patch multiedit webfetch websearch question".split())
LATEST = 8  # of a directory: `--continue` means one of them


def looks_like(comm: str) -> bool:
    return comm.startswith(("opencode", ".opencode")) or comm in ("node", "MainThread")


def claims(process: Process, details: Details) -> str | None:
    argv = details.argv or ()
    program = os.path.basename(argv[0]) if argv else ""
    if program in ("node", "nodejs"):
        script = argv[1] if len(argv) > 1 else ""
        return WRAPPER if os.path.basename(script) == "opencode" or "/opencode-ai/" in script else None
    if program not in PROGRAMS and os.path.basename(details.exe or "") not in PROGRAMS:
        return None
    if (details.env or {}).get("BUN_BE_BUN"):
        return HELPER  # the binary carries the package manager that it installs its plugins with
    given = read_arguments(argv)
    if any(word in ("--version", "-v", "--help", "-h") for word in argv):
        return CLIENT
    if given.command in SERVERS:
        return DAEMON
    runs = given.command is None or given.command == "run" or (given.command, given.words[:1]) == ("github", ("run",))
    return AGENT if runs and not given.attached else CLIENT


def roots(env: Mapping[str, str]) -> tuple[str, ...]:
    """The folder of its data, or the database that OPENCODE_DB names."""
    data = env.get("XDG_DATA_HOME", "")
    folder = os.path.join(data if os.path.isabs(data) else os.path.join(home(env), ".local/share"), "opencode")
    path = os.path.normpath(os.path.join(folder, env.get("OPENCODE_DB") or DATABASE))
    return (os.path.dirname(path) if os.path.basename(path) == DATABASE else path,)


def open_store(root: str) -> Store:
    return Store(root)


class Store:
    def __init__(self, root: str) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self._sessions: Sessions
        self._trails: dict[ProcessKey, Trail] = {}
        self._unread: set[ProcessKey] = set()  # those whose log cannot be read
        self._taken_at = float("inf")
        self._logs: dict[str, Tail] = {}
        self._answers: dict[ProcessKey, list[Answer]] = {}
        self._silent = 0  # processes that were asked and did not answer in time
        self._held: frozenset[str] = frozenset()  # the sessions whose process is proved
        self.derived: Derived | None = None  # its sessions are in one file

    # Who is here

    def survey(self) -> None:
        os.stat(self.root)  # where it was never used, nothing more is imported
        from agentctl.agents.opencode_sessions import Sessions

        self._sessions = Sessions(NAME, self.root, self.problems)

    def links(self, processes: Processes) -> list[Link]:
        found = []
        self._taken_at = processes.taken_at
        agents = list(self._agents(processes))
        self._read_trails(agents, processes)
        for process, details, _ in agents:
            trail = self._trails.get(process.key)
            if trail is not None:
                found += self._links_by_log(process, details, trail, processes)
            elif claims(process, details) == AGENT:
                found += self._links_by_answer(process, details, processes)
        if agents:  # all sessions are looked through for that, so once for the oldest process
            self._sessions.begun_since(min(processes.started_at(process.key) for process, _, _ in agents))
        self._held = frozenset(link.id for link in found)
        return found

    def _agents(self, processes: Processes) -> Iterator[tuple[Process, Details, list[str]]]:
        """The processes that have a database of this store open and can work in it, and their open files."""
        databases = {os.path.realpath(path) for path in self._sessions.databases}
        for process in processes.named(lambda name: name.startswith(("opencode", ".opencode"))):
            if details := processes.details(process):
                if claims(process, details) not in (AGENT, DAEMON):
                    continue
                files = processes.open_files(process)
                if not databases.isdisjoint(files):
                    yield process, details, files

    def _read_trails(self, agents: list[tuple[Process, Details, list[str]]], processes: Processes) -> None:
        found = {}
        for process, _, files in agents:
            for path in sorted({path for path in files if os.path.basename(path) == "opencode.log"}):
                from agentctl.agents.opencode_log import Tail, read_trail

                self._logs.setdefault(path, Tail(path))
                try:
                    if trail := read_trail(process, path, processes):
                        found[process.pid] = (process, trail)
                except OSError:
                    self._unread.add(process.key)
        for process, trail in found.values():
            above = found.get(process.parent)
            if above is None or above[1].run != trail.run:  # between fork and exec a child still has all files
                self._trails[process.key] = trail

    def _links_by_log(self, process: Process, details: Details, trail: Trail, processes: Processes) -> list[Link]:
        """What it works on now; and of a run for one prompt its session, which it keeps to its end."""
        working = [id for id in trail.sessions if self._works_on(id, trail)]
        mine = working
        if not working and read_arguments(details.argv or ()).one_shot:
            mine = self._last_of(trail)
        if working:
            folders = {reading.row.directory for id in working if (reading := self._sessions.read(id))}
            self._ask(process, folders & trail.directories, processes)
        how = "its own lines in the log name the session, and the kernel says that they are its own"
        fact = f"pid {process.pid} is run {trail.run}, by its place in the log, and that run works on this session"
        seen = (Evidence("kernel", fact, trail.path, process.pid),)
        return [
            Link(
                NAME,
                id,
                self.root,
                process.key,
                how,
                path=trail.path,
                inferred=not self._has_logged(id, trail),
                evidence=seen,
            )
            for id in mine
        ]

    def _works_on(self, id: str, trail: Trail) -> bool:
        """Is the open turn of this session one that this run has logged? Its first turn is of the run that began it."""
        reading = self._sessions.read(id)
        if reading is None or reading.turn.turn != WORKING:
            return False
        return self._has_logged(id, trail) or (id in trail.created and reading.turn.first)

    def _has_logged(self, id: str, trail: Trail) -> bool:
        """Does this run say that it works on the newest turn of this session?"""
        reading = self._sessions.read(id)
        prompted = reading.turn.prompted if reading else None
        return prompted is not None and trail.sessions.get(id, 0.0) >= prompted

    def _last_of(self, trail: Trail) -> list[str]:
        """The session that it worked on last; sub-agents are not looked at by anybody."""
        return [id for id in trail.sessions if (reading := self._sessions.read(id)) and not reading.row.parent][-1:]

    def _links_by_answer(self, process: Process, details: Details, processes: Processes) -> list[Link]:
        """A screen with a port and without a log: it has its own directory open, and names what it runs there."""
        self._ask(process, [details.cwd], processes)
        ids = {id for answer in self._answers.get(process.key, ()) for id in (*answer.active, *answer.waiting)}
        fact = Evidence("api", f"pid {process.pid} says that it runs this session", pid=process.pid)
        return [
            Link(NAME, id, self.root, process.key, "its own HTTP interface lists the session", evidence=(fact,))
            for id in sorted(ids)
            if self._sessions.read(id) is not None
        ]

    def _ask(self, process: Process, directories: Iterable[str | None], processes: Processes) -> None:
        """What it says itself, if it listens: only about directories that it has open."""
        wanted = [folder for folder in directories if folder]
        ports = processes.ports(process) if wanted and not process.suspended else []
        if not ports or self._silent > MOST_SILENT:
            return
        from agentctl.agents import opencode_api

        try:
            answers = [opencode_api.ask(ports[0], folder) for folder in wanted]
        except opencode_api.Unanswered as error:
            self._silent += isinstance(error.__cause__, TimeoutError)
            return  # it wants a password, or is too busy: its log and its database still speak
        if ports[0] in processes.ports(process):  # still its own, so it was this process that answered
            self._answers[process.key] = answers

    def supervisors(self, processes: Processes) -> list[Supervisor]:
        return []  # nothing brings a dead session back

    def role(self, process: Process, details: Details, role: str, processes: Processes) -> str:
        return role

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        given, trail = read_arguments(details.argv or ()), self._trails.get(process.key)
        server = given.command in SERVERS
        if details.cwd is None and not server:
            return Candidates(None, sole=False, why="its directory is not readable")
        cwd = real_path(details.cwd or "/")
        newer = [row for row in self._sessions.begun_since(started_at) if server or works_in(row, cwd)]
        if given.one_shot and not given.resumes:
            newer = [row for row in newer if (row.created or 0.0) >= started_at and self._begins_with(row, given)]
        ids = [row.id for row in newer if row.id not in self._held and (not server or self._is_open(row.id))]
        last = self._last_of(trail) if trail else []
        if trail is not None and (last or trail.whole):
            if last and given.one_shot:
                return Candidates((), sole=False, why="it has its session")
            # Its log may be a moment late, so it may have begun what no log has; it is not on what another one has.
            ids = [id for id in ids if self._is_unsaid(id, started_at, trail.run)]
            rest = [] if server else last or self._told_to_open(given, cwd, started_at)
            why = "its log, which may be a moment late, names nothing that it works on"
            sole = not server and not any(self._is_of_another(id, trail.run) for id in ids if id not in rest)
            return Candidates(tuple(dict.fromkeys([*ids, *rest])), sole=sole, why=why)
        if server:
            return Candidates(tuple(ids), sole=False, why="it serves sessions of any directory, and says not which")
        ids = [id for id in ids if not any(self._has_logged(id, other) for other in self._trails.values())]
        ids += [id for id in self._told_to_open(given, cwd, started_at) if id not in ids]
        # By a clock that was wrong any session is newer than any process.
        ahead = {row.id for row in newer if (row.updated or 0.0) > self._taken_at}
        sole = process.key not in self._unread and ahead.isdisjoint(ids)
        return Candidates(tuple(ids), sole=sole, why="no log of it says which session it is on")

    def _is_open(self, id: str) -> bool:
        """Only what is worked on is a server's: what is at rest in its store is at rest."""
        reading = self._sessions.read(id)
        return reading is not None and reading.turn.turn == WORKING

    def _is_unsaid(self, id: str, since: float, own: str) -> bool:
        """Was something begun here since then that no other run has logged?"""
        reading = self._sessions.read(id)
        if reading is None or reading.turn.turn not in (IDLE, WORKING):
            return False
        begun = reading.turn.begun or reading.row.created or 0.0
        prompted = reading.turn.prompted or begun
        return begun >= since and all(log.runs_since(id, prompted) <= {own} for log in self._logs.values())

    def _is_of_another(self, id: str, own: str) -> bool:
        """Has another run worked on it before? That one may have begun the new turn, and ended before its log came."""
        return any(not log.runs_since(id, 0.0) <= {own} for log in self._logs.values())

    def _told_to_open(self, given: Arguments, cwd: str, started_at: float) -> list[str]:
        """What its arguments mean: until its first prompt nothing else tells."""
        if not given.resumes or given.forks:
            return []
        if given.session is not None:
            return [given.session] if self._sessions.read(given.session) else []
        rows = self._sessions.latest_of(cwd, LATEST)
        since = [row.id for row in rows if (row.updated or 0.0) >= started_at]
        return [*since, *[row.id for row in rows if row.id not in since][:1]]

    def _begins_with(self, row: Row, given: Arguments) -> bool:
        """Was it begun with the prompt that this `run` was given? One that has no prompt yet may become it."""
        reading = self._sessions.read(row.id)
        stored = self._sessions.first_prompt(reading)[1] if reading else None
        return given.prompt is None or stored is None or stored.startswith(given.prompt)

    # What the store says of a session

    def recent(self, since: float) -> Iterable[str]:
        return dict.fromkeys(id for source in self._sessions.sources() for id in source.recent(since))

    def find(self, prefix: str) -> Iterable[str]:
        return dict.fromkeys(id for source in self._sessions.sources() for id in source.find(prefix))

    def has(self, id: str) -> bool:
        return any(source.session(id) is not None for source in self._sessions.sources())

    def children(self, id: str) -> Sequence[str]:
        return list(dict.fromkeys(child for source in self._sessions.sources() for child in source.children(id)))

    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        return self._sessions.record(id, tokens=tokens)

    def watched(self, id: str) -> Sequence[str]:
        """What it stores of all sessions is in one file, with a second one for what came last; who asks is in its
        log. Not the folder: whoever reads a database makes and removes a file beside it."""
        found = [path + end for path in self._sessions.databases for end in ("", "-wal")]
        reading = self._sessions.read(id)
        if reading is not None and reading.row.path and reading.row.path not in found:
            found += [reading.row.path, f"{self.root}/storage/message/{id}"]
        return [*found, *sorted(self._logs)]

    def messages(self, id: str, count: int) -> Page:
        from agentctl.agents import opencode_messages

        reading = self._sessions.read(id)
        return opencode_messages.newest(reading, count) if reading else Page(())

    def messages_after(self, id: str, cursor: object) -> Page:
        from agentctl.agents import opencode_messages

        reading = self._sessions.read(id)
        return opencode_messages.after(reading, cursor) if reading else Page((), cursor)

    # What a live process does

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        process, reading = processes.alive(link.key), self._sessions.read(link.id)
        if process is None or reading is None:
            return link
        turn = reading.turn
        given = read_arguments((processes.details(process) or Details()).argv or ())
        if turn.turn == UNKNOWN:
            return link._replace(turn=UNKNOWN, reason=turn.reason)
        stale = (turn.begun or 0.0) < processes.started_at(link.key)
        if stale and given.one_shot:
            return link._replace(turn=UNKNOWN, reason="starting: its prompt is not stored yet")
        if turn.turn != WORKING:
            return link._replace(turn=IDLE, reason="finishing: its one turn is over" if given.one_shot else None)
        if link.key in self._answers:
            return self._observe_answers(link, turn, self._answers[link.key])
        if stale:
            why = "it has this session open; an earlier process left its last turn unfinished"
            return link._replace(turn=IDLE, reason=why, inferred=True)
        return self._observe_open_turn(link, turn, given, processes)

    def _observe_answers(self, link: Link, turn: Turn, answers: list[Answer]) -> Link:
        waiting = {id: what for answer in answers for id, what in answer.waiting.items()}
        active = {id: error for answer in answers for id, error in answer.active.items()}
        asked = next((waiting[id] for id in self._sessions.family(link.id) if id in waiting), None)
        if asked is not None:
            said = Evidence("api", f"it asks a person: {asked}", pid=link.key.pid)
            return link._replace(turn=WAITING, waiting_for=asked, evidence=(*link.evidence, said))
        if link.id in active:
            error = active[link.id]
            said = Evidence("api", f"it says that it is {'retrying' if error else 'busy'}", pid=link.key.pid)
            return link._replace(turn=WORKING, reason=retrying(error), evidence=(*link.evidence, said))
        said = Evidence("api", "it does not say that it is busy with it", pid=link.key.pid)
        link = link._replace(inferred=True, doubt="not busy", evidence=(*link.evidence, said))
        # It says so a moment after a prompt was stored, and with the first step of the model at the latest.
        if turn.answering:
            return link._replace(turn=IDLE, reason="its last turn was left without an end")
        return link._replace(turn=WORKING, reason="a prompt that it has not begun to answer")

    def _observe_open_turn(self, link: Link, turn: Turn, given: Arguments, processes: Processes) -> Link:
        trail = self._trails.get(link.key)
        why = turn.reason if turn.inferred else None
        link = link._replace(turn=WORKING, reason=why, inferred=link.inferred or turn.inferred)
        if trail is not None and turn.silent and link.id in trail.failed:
            at, error = trail.failed[link.id]
            return link._replace(reason=retrying(error)) if at >= (turn.begun or 0.0) else link
        tool = self._quiet_tool(link.id)
        if tool is None or not given.asks:
            return link
        if trail is not None and not any(asked >= tool.begun for asked in trail.asked):
            if any(allowed >= tool.begun for allowed in trail.allowed):
                return link  # nobody had to be asked
            if tool.name not in ASKING_TOOLS:
                # Its log has neither yet, being late, or will never have.
                return link._replace(reason=f"{tool.name} has reported nothing yet", inferred=True, doubt=tool.call)
        for child in processes.descendants(link.key.pid):
            argv = (processes.details(child) or Details()).argv
            if argv and tool.what and (" ".join(argv) in tool.what or tool.what in " ".join(argv)):
                return link
        kind = "question" if tool.name == "question" else f"permission: {tool.name}"
        why = "a tool call has reported nothing yet: it waits for a person, or works inside the process"
        return link._replace(
            turn=WAITING,
            waiting_for=f"{kind}: {tool.what}" if tool.what else kind,
            reason=why,
            inferred=True,
            doubt=tool.call,
        )

    def _quiet_tool(self, id: str) -> Tool | None:
        """A call that may be waiting for a person, of this session or of a sub-agent that it waits for."""
        for one in self._sessions.family(id):
            reading = self._sessions.read(one)
            if reading is not None and reading.turn.turn == WORKING:
                for tool in reading.turn.tools:
                    if tool.quiet:
                        return tool
        return None


def works_in(row: Row, cwd: str) -> bool:
    """One of which nothing can be read may be anywhere."""
    return row.directory is None or row.directory == cwd or real_path(row.directory) == cwd


def retrying(error: str | None) -> str | None:
    return f"the model call failed and is retried: {error}" if error else None
