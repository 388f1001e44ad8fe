"""The store of OpenCode: whose log lines name a session, what its interface says, and what its database holds."""

from __future__ import annotations

import os

from agentctl.agents import base
from agentctl.agents.activity import Moments
from agentctl.agents.base import FINISHING, Candidates
from agentctl.agents.opencode.adapter import ADAPTER, NAME
from agentctl.agents.opencode.arguments import Arguments, read_arguments
from agentctl.agents.opencode.nameless import looks_like, nameless
from agentctl.agents.opencode.observing import retrying, runs_as_process, waiting_for_person, works_in
from agentctl.agents.opencode.sessions import Sessions, check_root
from agentctl.files.bounded import real_path
from agentctl.model import (
    AGENT,
    CLIENT,
    DAEMON,
    DETAIL,
    EXACT,
    HOLDERS,
    IDLE,
    SESSIONS,
    UNKNOWN,
    WAITING,
    WORKING,
    Details,
    Evidence,
    Link,
    Page,
    Process,
    ProcessKey,
    Record,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentctl.agents.opencode.api import Answer
    from agentctl.agents.opencode.log import Tail, Trail
    from agentctl.agents.opencode.older_log import Hints
    from agentctl.agents.opencode.turn import Row, Tool, Turn
    from agentctl.kernel.processes import Processes
    from agentctl.model import Question


SHARED = ("-shm", "-wal")  # SQLite opens these files of a database for writing even if it only reads
MOST_SILENT = 1  # more of them would cost more time than a store is given
# Tools that log before all else whether they may run or have to ask.
ASKING_TOOLS = frozenset("bash edit write patch apply_patch multiedit webfetch websearch question".split())
LATEST = 8  # of a directory: `--continue` means one of them


class Store(base.Store):
    def __init__(self, root: str) -> None:
        super().__init__(root, NAME)
        self._sessions: Sessions
        self._trails: dict[ProcessKey, Trail] = {}
        self._unread: set[ProcessKey] = set()  # those whose log cannot be read
        self._taken_at = float("inf")
        self._logs: dict[str, Tail] = {}
        self._answers: dict[ProcessKey, list[Answer]] = {}
        self._silent = 0  # processes that were asked and did not answer in time
        self._open_files: dict[ProcessKey, list[str]] = {}
        self._at_work: frozenset[ProcessKey] = frozenset()  # the processes that have a database open
        self._held: frozenset[str] = frozenset()  # the sessions whose process is proved
        self._nameless: set[ProcessKey] = set()  # those that write to a database that was removed
        self._served: list[str] = []  # the directories that live servers were started in
        self._shown: dict[ProcessKey, frozenset[str]] = {}  # what the screens of live processes can show

    # Who is here

    def survey(self) -> None:
        check_root(self.root)
        self._sessions = Sessions(self.reader, self.problems)

    def links(self, processes: Processes) -> list[Link]:
        found = []
        self._taken_at = processes.taken_at
        for process, path in nameless(real_path(self.root), processes):
            self._nameless.add(process.key)
            for hidden in (HOLDERS, SESSIONS):
                self.reader.note(path, f"pid {process.pid} writes to a file of this name that was removed", hidden)
        agents = list(self._agents(processes))
        self._at_work = frozenset(process.key for process, _, _ in agents)
        self._read_trails(agents, processes)
        self._open_files = {process.key: files for process, _, files in agents}
        for process, details, _ in agents:
            if details.cwd and read_arguments(details.argv or ()).serves:
                self._served.append(details.cwd)
            trail = self._trails.get(process.key)
            if trail is not None:
                found += self._links_by_log(process, details, trail, processes)
            elif ADAPTER.claims(process, details) == AGENT:
                found += self._links_by_answer(process, [details.cwd], processes)
            else:
                found += self._links_by_answer(process, self._opened_by(process, processes), processes)
        if agents:  # all sessions are looked through for that, so once for the oldest process
            self._sessions.begun_since(min(processes.started_at(process.key) for process, _, _ in agents))
        self._held = frozenset(link.id for link in found)
        return found

    def _agents(self, processes: Processes) -> Iterator[tuple[Process, Details, list[str]]]:
        """Yield the processes that have a database of this store open and can work in it, with their open files. One
        that its words make a client has it open, too: its lines in the log tell whether it is on a session."""
        databases = {os.path.realpath(path) for path in self._sessions.databases}
        for process in processes.running(looks_like):
            if details := processes.details(process):
                if ADAPTER.claims(process, details) not in (AGENT, DAEMON, CLIENT):
                    continue
                files = processes.open_files(process)
                if not databases.isdisjoint(files):
                    yield process, details, files

    def _read_trails(self, agents: list[tuple[Process, Details, list[str]]], processes: Processes) -> None:
        found = {}
        for process, _, files in agents:
            for path in sorted({path for path in files if os.path.basename(path) == "opencode.log"}):
                from agentctl.agents.opencode.log import Tail, read_trail

                self._logs.setdefault(path, Tail(path))
                try:
                    if trail := read_trail(process, path, processes):
                        found[process.pid] = (process, trail)
                except OSError as error:
                    self.reader.note(path, error, DETAIL)  # its process may then be on any session: see candidates()
                    self._unread.add(process.key)
        own: dict[str, list[ProcessKey]] = {}
        for process, trail in found.values():
            above = found.get(process.parent)
            if above is None or above[1].run != trail.run:  # between fork and exec a child still has all files
                self._trails[process.key] = trail
                own.setdefault(trail.run, []).append(process.key)
        for keys in own.values():
            if len(keys) > 1:  # a run is of one process: the log was emptied, and nobody knows which is whose
                self._unread.update(keys)
                for key in keys:
                    del self._trails[key]

    def _links_by_log(self, process: Process, details: Details, trail: Trail, processes: Processes) -> list[Link]:
        """Return the sessions that a process works on now. A run for one prompt keeps its session to its end."""
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
        """Return whether this run has logged the open turn of this session. The first turn is of the run that began
        it."""
        reading = self._sessions.read(id)
        if reading is None or reading.turn.turn != WORKING:
            return False
        return self._has_logged(id, trail) or (id in trail.created and reading.turn.first)

    def _has_logged(self, id: str, trail: Trail) -> bool:
        """Return whether this run says that it works on the newest turn of this session."""
        reading = self._sessions.read(id)
        prompted = reading.turn.prompted if reading else None
        return prompted is not None and trail.sessions.get(id, 0.0) >= prompted

    def _last_of(self, trail: Trail) -> list[str]:
        """Return the session that a process worked on last, sub-agents aside: no screen shows them."""
        return [id for id in trail.sessions if (reading := self._sessions.read(id)) and not reading.row.parent][-1:]

    def _opened_by(self, process: Process, processes: Processes) -> list[str]:
        """Return the directories that a server of an older version has open, of those in which a turn was begun since
        it started."""
        rows = self._sessions.begun_since(processes.started_at(process.key))
        wanted = {row.directory for row in rows if row.directory and self._is_open(row.id)}
        return sorted(wanted & self._hints_of(process).folders) if wanted else []

    def _hints_of(self, process: Process) -> Hints:
        """Return what the log of a process of an older version says."""
        from agentctl.agents.opencode.older_log import NONE, own_logs, read_hints

        logs = own_logs(process.key, self._open_files)
        try:
            return read_hints(logs)
        except OSError as error:
            self.reader.note(logs[0], error, DETAIL)  # its process may be on any session: see candidates()
            return NONE

    def _worked_on_last(self, process: Process, ids: list[str]) -> list[str]:
        """Return which of these sessions the screen of an older version works on, or worked on last, by its log; all of
        them if that does not tell. The others it may show: see screen(). Sub-agents no screen shows."""
        tops = [id for id in ids if (reading := self._sessions.read(id)) and not reading.row.parent]
        named = [id for id in self._hints_of(process).sessions if id in tops] if len(ids) > 1 else []
        working = [id for id in tops if self._is_open(id)]  # a log may be late: one that it does not name stays
        if working:
            return working if len(working) == 1 and working[0] in named else ids
        return named[-1:] or ids

    def _links_by_answer(self, process: Process, directories: Iterable[str | None], processes: Processes) -> list[Link]:
        """Return the sessions of a process with a port and without a run in the log: it names what it runs in these
        directories, which it has open."""
        self._ask(process, directories, processes)
        ids = {id for answer in self._answers.get(process.key, ()) for id in (*answer.active, *answer.waiting)}
        fact = Evidence("api", f"pid {process.pid} says that it runs this session", pid=process.pid)
        return [
            Link(NAME, id, self.root, process.key, "its own HTTP interface lists the session", evidence=(fact,))
            for id in sorted(ids)
            if self._sessions.read(id) is not None
        ]

    def _ask(self, process: Process, directories: Iterable[str | None], processes: Processes) -> None:
        """Ask a process that listens what it does, only about directories that it has open."""
        wanted = [folder for folder in directories if folder]
        ports = processes.ports(process) if wanted and not process.suspended else []
        if not ports or self._silent > MOST_SILENT:
            return
        from agentctl.agents.opencode import api

        try:
            answers = [api.ask(ports[0], folder) for folder in wanted]
        except api.Unanswered as error:
            self._silent += isinstance(error.__cause__, TimeoutError)
            return  # it wants a password, or is too busy: its log and its database still speak
        if ports[0] in processes.ports(process):  # still its own, so it was this process that answered
            self._answers[process.key] = answers

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        given, trail = read_arguments(details.argv or ()), self._trails.get(process.key)
        if details.cwd is None and not given.serves:
            return Candidates(None, sole=False, why="its directory is not readable")
        cwd = real_path(details.cwd or "/")
        newer = self._may_have_begun(given, details, started_at)
        ids = [row.id for row in newer if row.id not in self._held and (not given.serves or self._is_open(row.id))]
        last = self._last_of(trail) if trail else []
        if trail is not None and (last or trail.whole):
            return self._candidates_by_log(ids, last, trail, given, cwd, started_at)
        if given.serves:
            return Candidates(tuple(ids), sole=False, why="it serves sessions of any directory, and says not which")
        ids = list(dict.fromkeys([*self._unlogged(ids), *self._told_to_open(given, cwd, started_at)]))
        if not ids and self._may_write(process):
            return Candidates(self._open_since(started_at), sole=False, why="no log of it says which session it is on")
        ids = self._worked_on_last(process, ids) if given.has_screen else ids
        hidden = process.key in self._unread or self.reader.can_hide(SESSIONS)
        sole = not hidden and self._written_ahead(newer).isdisjoint(ids)
        return Candidates(tuple(ids), sole=sole, why="no log of it says which session it is on")

    def candidates_by_files(
        self, paths: Sequence[str], process: Process, details: Details, started_at: float
    ) -> Candidates:
        """Return the sessions that were written since such a process started, and the latest of its directory: it may
        have been told to go on with one. Its arguments may be those of a runtime, so they say nothing. If its log
        reaches back to its start, it is on no turn that another run has logged."""
        if all(path.endswith((*SHARED, ".log") if self._sessions.databases else SHARED) for path in paths):
            return Candidates((), sole=False, why="it writes to no database: it only reads, or logs as a client does")
        trail = self._trails.get(process.key)
        if trail is not None and trail.whole:
            since = (row.id for row in self._sessions.begun_since(started_at))
            ids = [id for id in since if self._is_unsaid(id, started_at, trail.run)]
            return Candidates(tuple(ids), sole=False, why="its log, which may be a moment late, names no session")
        ids = [row.id for row in self._sessions.begun_since(started_at)]
        if details.cwd is not None:
            ids += [row.id for row in self._sessions.latest_of(real_path(details.cwd), LATEST)]
        return Candidates(tuple(dict.fromkeys(ids)), sole=False, why="a file of the store is open in it")

    def screen(self, process: Process, details: Details) -> Iterable[str]:
        """Return what its list of sessions offers, if it has one, and what it has worked on: a client of a server may
        still show that."""
        given, trail = read_arguments(details.argv or ()), self._trails.get(process.key)
        shown = set(trail.sessions) if trail is not None and not given.one_shot else set()
        if given.has_screen:
            from agentctl.agents.opencode.screen import is_whole_project

            whole = is_whole_project(details.env or {})
            for directory in self._directories_of(details, given):
                shown |= self._sessions.offered(directory, whole=whole)
        self._shown[process.key] = frozenset(shown)
        return self._shown[process.key]

    def _directories_of(self, details: Details, given: Arguments) -> list[str]:
        """Return the directories that a screen may be in: a client of a server is where it says, or where the server
        is."""
        if not given.attached:
            return [real_path(details.cwd)] if details.cwd else []
        if given.directory is None:
            return sorted({real_path(folder) for folder in self._served})
        return [real_path(os.path.join(details.cwd or "/", given.directory))]

    def _may_have_begun(self, given: Arguments, details: Details, started_at: float) -> list[Row]:
        """Return the sessions that were written since this process started, and that it can have written."""
        rows = [row for row in self._sessions.begun_since(started_at) if given.serves or works_in(row, details)]
        if given.one_shot and not given.resumes:
            rows = [row for row in rows if (row.created or 0.0) >= started_at and self._begins_with(row, given)]
        return rows

    def _written_ahead(self, rows: list[Row]) -> set[str]:
        """Return those with a time after our look: by a clock that was wrong any session is newer than any process."""
        return {row.id for row in rows if (row.updated or 0.0) > self._taken_at}

    def _candidates_by_log(
        self, ids: list[str], last: list[str], trail: Trail, given: Arguments, cwd: str, started_at: float
    ) -> Candidates:
        """Narrow `ids` down by the log. It may be a moment late, so a process may have begun what no log has; it is not
        on what another one has. `last`: the session that this one worked on last."""
        if last and given.one_shot:
            return Candidates((), sole=False, why="it has its session")
        ids = [id for id in ids if self._is_unsaid(id, started_at, trail.run)]
        rest = [] if given.serves else last or self._told_to_open(given, cwd, started_at)
        why = "its log, which may be a moment late, names nothing that it works on"
        sole = not given.serves and not any(self._is_of_another(id, trail.run) for id in ids if id not in rest)
        return Candidates(tuple(dict.fromkeys([*ids, *rest])), sole=sole, why=why)

    def _may_write(self, process: Process) -> bool:
        """Return whether a process has a database of this store open. The older layout keeps no file open."""
        return process.key in self._at_work or not self._sessions.databases

    def _open_since(self, moment: float) -> tuple[str, ...]:
        """Return the open turns that were begun since, and that no process is proved to be on. Directory and prompt are
        hints: they may say which session a process is on, and cannot say that it is on none."""
        begun = (row.id for row in self._sessions.begun_since(moment) if row.id not in self._held)
        return tuple(id for id in self._unlogged(begun) if self._is_open(id))

    def _unlogged(self, ids: Iterable[str]) -> list[str]:
        """Return those of which no process that we know by its log says that it works on their newest turn."""
        return [id for id in ids if not any(self._has_logged(id, trail) for trail in self._trails.values())]

    def _is_open(self, id: str) -> bool:
        """Return whether a turn is open: a server is on no session that is at rest."""
        reading = self._sessions.read(id)
        return reading is not None and reading.turn.turn == WORKING

    def _is_unsaid(self, id: str, since: float, own: str) -> bool:
        """Return whether a turn was begun here since then that no other run has logged."""
        reading = self._sessions.read(id)
        if reading is None or reading.turn.turn not in (IDLE, WORKING):
            return False
        begun = reading.turn.begun or reading.row.created or 0.0
        prompted = reading.turn.prompted or begun
        return begun >= since and all(log.runs_since(id, prompted) <= {own} for log in self._logs.values())

    def _is_of_another(self, id: str, own: str) -> bool:
        """Return whether another run worked on it before: that run may have begun the new turn, and ended before it
        logged that."""
        return any(not log.runs_since(id, 0.0) <= {own} for log in self._logs.values())

    def _told_to_open(self, given: Arguments, cwd: str, started_at: float) -> list[str]:
        """Return the sessions that its arguments name: until its first prompt nothing else tells."""
        if not given.resumes or given.forks:
            return []
        if given.session is not None:
            return [given.session] if self._sessions.read(given.session) else []
        rows = self._sessions.latest_of(cwd, LATEST)
        since = [row.id for row in rows if (row.updated or 0.0) >= started_at]
        return [*since, *[row.id for row in rows if row.id not in since][:1]]

    def _begins_with(self, row: Row, given: Arguments) -> bool:
        """Return whether a session began with the prompt of this `run`. One without a prompt may still get it."""
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
        """Return its databases with their write-ahead logs, and its log, which says who asks. Not the folder: whoever
        reads a database creates and removes a file in it."""
        found = [path + end for path in self._sessions.databases for end in ("", "-wal")]
        reading = self._sessions.read(id)
        if reading is not None and reading.row.path and reading.row.path not in found:
            found += [reading.row.path, f"{self.root}/storage/message/{id}"]
        return [*found, *sorted(self._logs)]

    def messages(self, id: str, count: int) -> Page:
        from agentctl.agents.opencode import messages as opencode_messages

        reading = self._sessions.read(id)
        return opencode_messages.newest(reading, count) if reading else Page(())

    def messages_after(self, id: str, cursor: object) -> Page:
        from agentctl.agents.opencode import messages as opencode_messages

        reading = self._sessions.read(id)
        return opencode_messages.after(reading, cursor) if reading else Page((), cursor)

    # What a live process does

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        process, reading = processes.alive(link.key), self._sessions.read(link.id)
        if process is None or reading is None:
            return link
        if link.key in self._nameless:
            return link._replace(turn=UNKNOWN, reason="it writes to a database that was removed")
        turn = reading.turn
        given = read_arguments((processes.details(process) or Details()).argv or ())
        if turn.turn == UNKNOWN:
            return link._replace(turn=UNKNOWN, reason=turn.reason)
        stale = (turn.begun or 0.0) < processes.started_at(link.key)
        if stale and given.one_shot:
            return link._replace(turn=UNKNOWN, reason="starting: its prompt is not stored yet")
        if turn.turn != WORKING:
            return link._replace(turn=IDLE, reason=FINISHING if given.one_shot else self._why_unsure(link))
        if link.key in self._answers:
            return self._observe_answers(link, turn, self._answers[link.key])
        if stale:
            why = "it has this session open; an earlier process left its last turn unfinished"
            return link._replace(turn=IDLE, reason=why, inferred=True)
        return self._observe_open_turn(link, turn, given, processes)

    def activity(self, link: Link, record: Record | None) -> Link:
        """Return the link with what it does. Of its last prompt only that of a live turn without a tool is read."""
        reading = self._sessions.read(link.id)
        if reading is not None:
            turn = reading.turn
            prompt = self._sessions.last_prompt(reading) if turn.turn == WORKING and not turn.tools else None
            asked_at = turn.tools[-1].begun if turn.tools else None
            self.moments[link.id] = Moments(turn.prompted, turn.written, asked_at, prompt)
        return super().activity(link, record)

    def _why_unsure(self, link: Link) -> str | None:
        """Return why a screen at rest may show another session than this one."""
        others = self._shown.get(link.key, frozenset()) - {link.id}
        if not others or link.strength == EXACT:
            return None
        return f"it is taken to show the session that it worked on last; it can show {len(others)} more"

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
            doing = f"retrying: {error}" if error else None
            return link._replace(turn=WORKING, reason=retrying(error), doing=doing, evidence=(*link.evidence, said))
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
            is_of_this_turn = at >= (turn.begun or 0.0)
            return link._replace(reason=retrying(error), doing=f"retrying: {error}") if is_of_this_turn else link
        tool = self._quiet_tool(link.id) if given.asks else None
        if tool is None:
            return link
        asked = trail.was_asked(tool.begun) if trail is not None else None
        if asked is False:
            return link
        if asked is None and trail is not None and tool.name not in ASKING_TOOLS:
            # Its log has neither yet, being late, or will never have.
            return link._replace(reason=f"{tool.name} has reported nothing yet", inferred=True, doubt=tool.call)
        return link if runs_as_process(tool, link.key.pid, processes) else waiting_for_person(link, tool)

    def _quiet_tool(self, id: str) -> Tool | None:
        """Return a call that may wait for a person, of this session or of a sub-agent that it waits for."""
        return next((tool for _, tool in self._sessions.open_tools(id) if tool.quiet), None)

    def questions(self, link: Link, record: Record | None) -> tuple[Question, ...]:
        from agentctl.agents.opencode.asking import questions

        return questions(link, self._sessions.open_tools(link.id), self._answers.get(link.key))
