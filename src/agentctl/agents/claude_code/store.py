"""The store of Claude Code: who is registered, and what the transcripts say."""

from __future__ import annotations

import os
import time

from agentctl.agents import base
from agentctl.agents.activity import Moments
from agentctl.agents.base import Candidates, new_record
from agentctl.agents.claude_code import files
from agentctl.agents.claude_code.adapter import ADAPTER, NAME
from agentctl.agents.claude_code.arguments import opens
from agentctl.agents.claude_code.daemon import has_daemon
from agentctl.agents.claude_code.files import (
    ending_words,
    is_in_ticks,
    refusal_words,
    status_of,
    ticks_in,
    written_at,
)
from agentctl.agents.claude_code.projects import Projects
from agentctl.agents.claude_code.records import messages_of
from agentctl.agents.claude_code.transcript import read_head, read_tail
from agentctl.files.bounded import Opened, Torn, moment, read_json, text_or_none, whole_number
from agentctl.files.reader import reason_of
from agentctl.kernel.programs import LOADER, SCRIPTS, UNIDENTIFIED
from agentctl.model import (
    AGENT,
    DETAIL,
    DONE,
    EXACT,
    HOLDERS,
    RECORD,
    SOLE,
    SPARE,
    UNKNOWN,
    WORKING,
    Details,
    Evidence,
    Gap,
    Link,
    Message,
    Problem,
    Process,
    ProcessKey,
    Record,
    Supervisor,
    Tokens,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from agentctl.kernel.processes import Processes
    from agentctl.model import Question


def last_record(path: str) -> tuple[float, int, float]:
    """Return when the last record of a transcript was written, by what it says, then by its file: a copy may be made at
    any time. One that cannot be read may be the newest: then it is the one to read, and that is told."""
    written = written_at(path)
    try:
        with Opened(path) as file:
            said = read_tail(file).updated_at if file.size else 0.0
            return said if said is not None else written, file.size, written
    except OSError:
        return float("inf"), 0, written


class Store(base.Store):
    def __init__(self, root: str) -> None:
        super().__init__(root, NAME)
        self._registered: dict[str, dict[str, Any]] = {}  # file name -> sessions/<pid>.json
        self._named: set[str] = set()  # the sessions that any file names, of whatever process
        self._held: frozenset[str] = frozenset()  # the sessions that the file of a live process names
        self._behind: dict[ProcessKey, tuple[str, ...]] = {}  # those that may have left their file's session
        self._unread: set[int] = set()  # the pids whose sessions/<pid>.json is there and could not be read
        self._unmatched: dict[int, tuple[str, str, bool]] = {}  # pid -> session, file, is its start sure
        self._domain: str | None = None
        self._daemon: dict[str, Any] | None = None
        self._unread_of_the_daemon: list[Gap] = []
        self._roster: dict[str, dict[str, Any]] = {}
        self._projects = Projects(self.reader)
        self._found: dict[str, os.stat_result] = {}  # the transcripts that were listed, as they were then
        self._recent: dict[str, list[str]] = {}  # session id -> those of them that are its own

    # Who is here

    def survey(self) -> None:
        os.listdir(self.root)  # an unreadable store is an error, not an empty one
        for name in self._registered_names():
            try:
                self._registered[name] = read_json(f"{self.root}/sessions/{name}")
            except (OSError, Torn):
                continue  # links() reads it again, and tells
        self.elsewhere = files.store_in_settings(self.root, self.reader)
        self._daemon = self._of_the_daemon("daemon.lock")
        roster = self._of_the_daemon("daemon/roster.json") or {}
        workers = roster.get("workers")
        if isinstance(workers, dict):
            self._roster = {short: worker for short, worker in workers.items() if isinstance(worker, dict)}

    def names(self, process: Process) -> bool:
        file = self._registered.get(f"{process.pid}.json")
        return file is not None and ticks_in(file.get("procStart")) == process.key.start

    def session_folders(self) -> Sequence[str]:
        return (self._projects.root,)

    def _of_the_daemon(self, name: str) -> dict[str, Any] | None:
        """Return a file of its daemon. What it hides if it cannot be read, links() says."""
        path, failures = f"{self.root}/{name}", self.reader.failures
        file = self.reader.json(path, DETAIL)
        if self.reader.failures > failures:
            self._unread_of_the_daemon += self.reader.gaps[-1:]
        return file

    def _registered_names(self) -> list[str]:
        parts = [(name, name.partition(".")) for name in self.reader.names(f"{self.root}/sessions", HOLDERS)]
        # <pid>.<hex>.key beside it is a secret
        return [name for name, (stem, _, suffix) in parts if suffix == "json" and stem.isdigit()]

    def _registration(self, name: str, processes: Processes) -> dict[str, Any] | None:
        """Return the file of a process. If it cannot be read, it hides what its process is on; if no process that may
        be an agent has its pid, it hides nothing."""
        path, failures = f"{self.root}/sessions/{name}", self.reader.failures
        pid = whole_number(name.partition(".")[0])
        lives = pid is None or self._writer(pid, path, processes) is not None
        file = self.reader.json(path, HOLDERS if lives else DETAIL)
        if self.reader.failures > failures and pid is not None:
            self._unread.add(pid)
        return file

    def links(self, processes: Processes) -> list[Link]:
        # Those that registered after the survey. They count only if the snapshot has their process: one that started
        # later is not gone, it was not looked at.
        for name in self._registered_names():
            if name not in self._registered and (file := self._registration(name, processes)):
                self._named.add(str(file.get("sessionId")))
                pid, start = whole_number(file.get("pid")), whole_number(file.get("procStart"))
                if pid is None or start is None:
                    continue
                if processes.alive(self._key_here(file, pid, start, processes)[0]) is not None:
                    self._registered[name] = file
        if self._unread_of_the_daemon and has_daemon(processes):
            for gap in self._unread_of_the_daemon:  # it may bring sessions back that are named there
                self.reader.note(gap.path, gap.why, HOLDERS)
        links = {name: self._link(name, file, processes) for name, file in self._registered.items()}
        followed = self._followed({name: link for name, link in links.items() if link is not None}, processes)
        self._held = frozenset(link.id for link in followed if link.left is None and processes.alive(link.key))
        return followed

    def _followed(self, links: dict[str, Link], processes: Processes) -> list[Link]:
        """Return the links of these files, each with the session that its process is on now."""
        behind = {name: self._registered[name] for name in links if files.may_be_behind(self._registered[name])}
        if not behind:
            return [*links.values()]
        from agentctl.agents.claude_code import cleared

        named = self._named | {str(file.get("sessionId")) for file in self._registered.values()}
        found = []
        for name, way in cleared.ways(behind, named, self._projects, self.reader).items():
            link = links.pop(name)
            lives = processes.alive(link.key) is not None
            why = "its person went on to another session by /clear" if lives else None
            found += [link._replace(id=id, left=why) for id in way.path[:-1]]
            if lives and way.others:
                self._behind[link.key] = (way.path[-1], *way.others)
            elif len(way.path) > 1:
                found.append(cleared.on_its_way(link, way))
            else:
                found.append(link)
        return [*links.values(), *found]

    def _link(self, name: str, file: dict[str, Any], processes: Processes) -> Link | None:
        path = f"{self.root}/sessions/{name}"
        pid, start = whole_number(file.get("pid")), ticks_in(file.get("procStart"))
        id = self._session_of(file)
        if id is None or pid is None or pid < 1 or str(pid) != name.partition(".")[0]:
            self._unread.add(whole_number(name.partition(".")[0]) or 0)
            self.problems.append(Problem(NAME, "does not name a session and a process", path))
            return None
        key, here = self._key_here(file, pid, start, processes)
        process = processes.alive(key) if start is not None else None
        sure = is_in_ticks(file.get("procStart"))  # then a process with another start is another process
        writer = None if process is not None or here is False or sure else self._writer(pid, path, processes)
        if process is None and writer is None:
            self._unmatched[pid] = (id, path, sure)
        if writer is not None:
            key = writer.key
        elif start is None and here is not False:
            self.problems.append(Problem(NAME, "does not give the start of its process in clock ticks", path))
            return None
        turn, waiting_for, reason = status_of(file)
        facts = [Evidence("store", f"names pid {pid}, start {file.get('procStart')}, session {id}", path, pid)]
        if writer is not None:
            fact = f"pid {pid} may be an agent, and started before this file was written"
            facts.append(Evidence("kernel", fact, path, pid, inferred=True))
        if file.get("status"):
            facts.append(Evidence("store", f"says status {file['status']!r}", path, pid))
        return Link(
            NAME,
            id,
            self.root,
            key,
            how=f"its own sessions/<pid>.json, {'with' if writer is None else 'without'} start ticks",
            strength=EXACT if writer is None else SOLE,
            path=path,
            here=here,
            turn=turn,
            waiting_for=waiting_for,
            reason=reason,
            inferred=writer is not None,
            evidence=tuple(facts),
            noted=True,
            since=moment(file.get("statusUpdatedAt")),
            doing=files.BACKGROUND if file.get("status") == "shell" else None,
            lived_at=moment(file.get("startedAt")),
        )

    def _key_here(
        self, file: dict[str, Any], pid: int, start: int | None, processes: Processes
    ) -> tuple[ProcessKey, bool | None]:
        """Return the key of a registered process as our table has it, and `Link.here`. A pid that was written in
        another PID namespace is only looked for there; in ours it may be a stranger's."""
        domain, key = text_or_none(file.get("pidDomain")), ProcessKey(processes.boot, pid, start or 0)
        if domain is None:
            process = processes.find(pid, start) if start is not None else None
            return process.key if process else key, None
        ours = self._pid_domain()
        if domain != ours:
            key = key.recorded_in(files.namespace_in(domain))
        own = processes.own(key)
        gone = start is not None and files.is_same_machine(domain, ours) and processes.gone(key)
        return own, None if own.namespace is None or gone else False

    def _writer(self, pid: int, path: str, processes: Processes) -> Process | None:
        """Return the process that has this pid, if it can have written a file that does not give its start in clock
        ticks: it runs what may be an agent, and it started before the file was written."""
        process = processes.get(pid)
        details = processes.details(process) if process is not None else None
        if process is None or details is None or written_at(path) < processes.started_at(process.key):
            return None
        is_agent = ADAPTER.claims(process, details) in (AGENT, SPARE)
        return process if is_agent or processes.kind(process.pid) in (SCRIPTS, LOADER, UNIDENTIFIED) else None

    def _pid_domain(self) -> str:
        """Return our own PID domain, read once for all files."""
        if self._domain is None:
            self._domain = files.pid_domain()
        return self._domain

    def _session_of(self, file: dict[str, Any]) -> str | None:
        """Return the session of a registration. A respawned background worker registers under a random id for half a
        second; its job id is right at once."""
        id, job = text_or_none(file.get("sessionId")), text_or_none(file.get("jobId"))
        if file.get("kind") == "bg" and job and id and not id.startswith(job):
            worker = self._roster.get(job, {})
            return text_or_none(worker.get("sessionId")) or next(iter(self.find(job)), id)
        return id

    def supervisors(self, processes: Processes) -> list[Supervisor]:
        """Return the daemon, or the host of a worker, that will bring an unfinished background session back."""
        found = []
        for short, worker in self._roster.items():
            id = text_or_none(worker.get("sessionId"))
            job_path = f"{self.root}/jobs/{short}/state.json"
            state = (self.reader.json(job_path, RECORD) or {}).get("state")  # unread: it counts as unfinished
            if id is None or state in ("done", "stopped", "failed"):
                continue
            for what, named in (("daemon", files.key_in(self._daemon)), ("worker's host", files.key_in(worker))):
                if named is not None:
                    process = processes.find(*named)  # it may be in an inner PID namespace
                    key = process.key if process is not None else ProcessKey(processes.boot, *named)
                    why = f"its {what} (pid {key.pid}) lives and has the job as {state or 'unfinished'}"
                    found.append(Supervisor(NAME, id, key, why, job_path))
        return found

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        """Return what a process can be on that is not registered: it starts, shows the trust dialog, ends; or is
        old."""
        argv = details.argv or ()
        if (behind := self._behind.get(process.key)) is not None:
            return Candidates(behind, sole=False, why="its version does not renew its own file at /clear")
        if not self._unread.isdisjoint((process.pid, *details.pids)):
            return Candidates(None, sole=False, why="its own file, which says which session it is on, cannot be read")
        if id := self._named_by_pid(process, details, started_at):
            return Candidates((id,), sole=False, why="a file names its pid, and does not give its start in clock ticks")
        told = opens(argv)
        if told.id is not None:
            return Candidates((told.id,), sole=False, why="starting or ending; its arguments name a session")
        registers = os.path.isdir(f"{self.root}/sessions")
        resumes = told.resumes
        unregistered = files.why_unregistered(started_at, time.time())
        why = unregistered if registers else "its version does not say which session it is on"
        if details.cwd is None:
            return Candidates(None, sole=False, why=why)
        since = 0.0 if resumes else started_at
        # The file of a dead process holds nothing: another one may have gone on with its session.
        ids = {*self._written_since(self._projects.folders_of_process(details), since)} - self._held
        return Candidates(tuple(sorted(ids)), sole=not registers and not resumes, why=why)

    def possible(self, process: Process, started_at: float) -> Iterable[str]:
        """Return the turns without an end that were written since this process started, and that no live process holds:
        the directory that it is in now and its arguments do not say where it works."""
        if process.key in self._behind:
            return
        for id in {*self._written_since(self._projects.folders(), started_at)}:
            record = self.record(id) if id not in self._held else None
            if record is not None and record.turn in (WORKING, UNKNOWN):
                yield id

    def _written_since(self, folders: Iterable[str], since: float) -> Iterator[str]:
        for folder in folders:
            for name, _ in self.reader.written_since(folder, ".jsonl", since):
                yield name.removesuffix(".jsonl")

    def _named_by_pid(self, process: Process, details: Details, started_at: float) -> str | None:
        """Return the session of a file that names this process by a pid of it, in our PID namespace or in an inner one,
        if it can have written that file."""
        for pid in (process.pid, *details.pids):
            id, path, sure = self._unmatched.get(pid, (None, "", False))
            if id is not None and not (sure and pid == process.pid) and files.written_since(path, started_at):
                return id
        return None

    def candidates_of_a_stranger(self, process: Process, details: Details, started_at: float) -> Candidates:
        """Return what a process of another name can be on. A tool is not on the session that started it."""
        can = self.candidates(process, details, started_at)
        above = (details.env or {}).get("CLAUDE_CODE_SESSION_ID")
        if above is None or can.ids is None:
            return can
        return Candidates(tuple(id for id in can.ids if id != above), sole=False, why=can.why)

    # What the store says of a session

    def recent(self, since: float) -> Iterable[str]:
        self._projects.expect_many()
        for folder in self._projects.folders():
            for name, found in self.reader.written_since(folder, ".jsonl", since):
                named = name.removesuffix(".jsonl")
                if found is not None:
                    self._found[f"{folder}/{name}"] = found
                self._recent.setdefault(named, []).append(f"{folder}/{name}")
                yield named
        for file in self._registered.values():
            if id := self._session_of(file):
                yield id

    def find(self, prefix: str) -> Iterable[str]:
        found = set(self._projects.transcripts())
        found |= {id for file in self._registered.values() if (id := text_or_none(file.get("sessionId")))}
        found = {id for id in found if id.startswith(prefix)}
        return found or {child for child in self._projects.children() if child.startswith(prefix)}

    def has(self, id: str) -> bool:
        registered = any(file.get("sessionId") == id for file in self._registered.values())
        return registered or bool(self._projects.transcripts_of(id))

    def children(self, id: str) -> Sequence[str]:
        path = self._transcript(id)
        return (
            sorted({id for id, _ in self._projects.below(f"{path.removesuffix('.jsonl')}/subagents")}) if path else ()
        )

    def _transcript(self, id: str) -> str | None:
        """Return the path of a transcript. Any folder may have it, and a copy: the one whose last record is the newest
        counts, wherever it is and whenever it was copied."""
        paths = self._projects.transcripts_of(id) or self._recent.get(id, [])  # it may be moved while we look
        return paths[0] if len(paths) == 1 else max(paths, key=last_record, default=None)

    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        parent = None
        path = self._transcript(id)
        if path is None:
            child = self._projects.child(id)
            if child is None:
                return self._record_of_registration(id)
            path, parent = child
        if self.derived is None or tokens:
            return self._read_record(id, path, parent, tokens=tokens)
        brief = self.derived.brief
        return self.derived.through(
            id, path, self._found.get(path), lambda: self._read_record(id, path, parent, brief=brief)
        )

    def _read_record(
        self, id: str, path: str, parent: str | None, *, tokens: bool = False, brief: bool = False
    ) -> Record:
        from agentctl.agents.claude_code.row import read_row

        try:
            with Opened(path) as file:
                row = read_row(file) if brief and parent is None else None
                tail, head = row or (read_tail(file, sidechain=parent is not None), read_head(file))
                updated_at = tail.updated_at or moment(os.fstat(file.fd).st_mtime)
                self.moments[id] = Moments(tail.prompted_at, updated_at, updated_at, tail.last_prompt)
                if tail.turn == UNKNOWN and file.size:
                    self.reader.note(path, tail.reason, RECORD)
            spent, cost = self._spent(id, path, tail.cost_usd) if tokens else (None, tail.cost_usd)
        except OSError as error:
            self.reader.note(path, error, RECORD)
            return Record(NAME, id, self.root, UNKNOWN, reason_of(error), path=path, parent=parent)
        return new_record(
            NAME,  # agent
            id,  # id
            self.root,  # store
            tail.turn,  # turn
            tail.reason + refusal_words(tail),  # reason
            tail.error,  # error
            tail.pending,  # pending
            tail.pending_tool,  # pending_tool
            tail.pending_id,  # pending_id
            ending_words(tail),  # ending
            tail.inferred,  # inferred
            path,  # path
            tail.cwd or head.cwd,  # cwd
            tail.branch,  # branch
            tail.model,  # model
            tail.custom_title or tail.ai_title or head.ai_title,  # title
            head.prompt,  # prompt
            tail.version,  # version
            head.started_at,  # started_at
            updated_at,  # updated_at
            spent,  # tokens
            cost,  # cost_usd
            parent,  # parent
            None,  # forked_from
            None,  # policy
            None,  # written_at
            False,  # fresh
            None,  # stamp
            (Evidence("store", tail.reason, path),),  # evidence
        )

    def _spent(self, id: str, path: str, recorded: float | None) -> tuple[Tokens | None, float | None]:
        """Return its tokens, and what it has cost: the running total that a fork goes on with is not its own."""
        from agentctl.agents.usage_base import spent_in

        total, forked = spent_in(NAME, path, id, self.problems)
        return total.tokens, total.cost_usd if forked else recorded

    def watched(self, id: str) -> Sequence[str]:
        """Return the folder in which every process keeps its file, the transcript, and the files of a background
        job."""
        found = [f"{self.root}/sessions"]
        path = self.transcript(id)
        cwds = [file.get("cwd") for file in self._registered.values() if self._session_of(file) == id]
        folders = [folder for cwd in cwds if isinstance(cwd, str) for folder in self._projects.folders_of(cwd)]
        found += [path] if path else [f"{folder}/{id}.jsonl" for folder in folders] or [f"{self.root}/projects"]
        jobs = [short for short, worker in self._roster.items() if worker.get("sessionId") == id]
        found += [path for short in jobs for path in (f"{self.root}/jobs/{short}", f"{self.root}/daemon/roster.json")]
        return found

    def messages_in(self, line: bytes) -> Sequence[Message]:
        return messages_of(line)

    def transcript(self, id: str) -> str | None:
        """Return the transcript of a session or of a sub-agent."""
        return self._transcript(id) or (child[0] if (child := self._projects.child(id)) else None)

    def _record_of_registration(self, id: str) -> Record | None:
        """Return a record of a session that has (or had) a process but no transcript: new, or run without
        persistence."""
        for name, file in self._registered.items():
            if self._session_of(file) == id:
                from agentctl.agents.claude_code.unwritten import record_of

                return record_of(id, file, self.root, f"{self.root}/sessions/{name}")
        return None

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        """Return the link with what its transcript, arguments and children say, if its own file does not."""
        from agentctl.agents.claude_code.observing import observed

        file = self._registered.get(os.path.basename(link.path or ""), {})
        return observed(link, record, processes, text_or_none(file.get("entrypoint")))

    def questions(self, link: Link, record: Record | None) -> tuple[Question, ...]:
        from agentctl.agents.claude_code.asking import questions

        paths = {id: path for id in (link.id, *self.children(link.id)) if (path := self.transcript(id))}
        return questions(link, paths, self.reader, record.pending_id if record else None)

    def observe_ended(self, link: Link, record: Record | None) -> Link:
        from agentctl.agents.claude_code.observing import cut_off_behind

        children = [self.record(id) for id in self.children(link.id)] if record and record.turn == DONE else ()
        return cut_off_behind(link, [child for child in children if child is not None])
