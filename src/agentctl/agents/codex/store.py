"""The store of Codex: who holds the lock of a thread, what its daemon says, and what the rollouts say."""

from __future__ import annotations

import os

from agentctl.agents import base
from agentctl.agents.activity import Moments
from agentctl.agents.base import FINISHING, Candidates, new_record
from agentctl.agents.codex.adapter import ADAPTER, NAME, command_of, is_empty, lock_of, may_be_client
from agentctl.agents.codex.calls import ASKS, runner_of, with_runner
from agentctl.agents.codex.parts import goes_before, is_newer_part, newest_part
from agentctl.agents.codex.rollout import (
    Tail,
    begun_at,
    days_in,
    days_of,
    ended_at,
    ids_of_days,
    is_in_its_place,
    may_be_child,
    parent_in,
    read_head,
    read_tail,
    thread_of,
)
from agentctl.agents.directories import is_in
from agentctl.files.bounded import (
    Opened,
    Torn,
    decode,
    lines_backward,
    read_json,
    text_or_none,
    whole_number,
)
from agentctl.files.reader import TRANSCRIPTS, reason_of
from agentctl.model import (
    AGENT,
    CLIENT,
    CLOSED_TURNS,
    DAEMON,
    DETAIL,
    HOLDERS,
    IDLE,
    RECORD,
    UNKNOWN,
    WAITING,
    WORKING,
    Details,
    Evidence,
    Link,
    Message,
    Problem,
    Process,
    ProcessKey,
    Record,
    Tokens,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from agentctl.agents.codex.open_screens import Screens
    from agentctl.agents.codex.socket import Told
    from agentctl.kernel.processes import Processes
    from agentctl.model import Question


SOCKET = "app-server-control/app-server-control.sock"
TIMED = "7"  # the version of an id that begins with its time
NAME_LIMIT = 4 * 1024 * 1024
CLOSED = "and we may not look whether it holds the lock"
STARTING = "it is starting, at its picker, or at a question before its first thread"


class Store(base.Store):
    def __init__(self, root: str) -> None:
        super().__init__(root, NAME)
        self._tails: dict[str, Tail] = {}
        self._answers: dict[str, Told] = {}  # thread -> what the daemon says that holds it
        self._daemon: tuple[int, int] | None = None
        self._names: dict[str, str] | None = None
        self._paths: dict[str, str] = {}
        self._threads: list[tuple[str, str]] | None = None  # every rollout: whose it is, and where
        self._parents: dict[str, str | None] = {}  # path -> the thread that it is a sub-agent of
        self._locks: frozenset[str] = frozenset()
        self._lock_files: set[str] = set()  # the threads that have a lock file
        self._has_locks = False
        self._no_locks = "no thread was locked here yet: it is starting, or its version locks none"
        self._found: dict[str, os.stat_result] = {}  # the rollouts that were listed, as they were then
        self._archive = f"{root}/archived_sessions"
        self._owners: dict[str, ProcessKey] = {}  # thread -> the process that has its lock
        self._unproved: dict[ProcessKey, list[str]] = {}  # process -> the threads whose locks it may hold
        self._closed: set[ProcessKey] = set()  # those into which we may not look: it may hold a thread without a lock
        self._clients: set[ProcessKey] = set()  # the processes that leave their threads to the daemon
        self._screens: Screens | None = None  # which of them show which thread

    # Who is here

    def survey(self) -> None:
        os.listdir(self.root)
        path = f"{self.root}/app-server-daemon/daemon.pid"
        try:
            file = read_json(path)
        except FileNotFoundError:
            return
        except (OSError, Torn) as error:
            if not is_empty(path):  # else it is starting: the file is made first and filled later
                self.reader.note(path, error, DETAIL)  # the kernel says who holds a thread
            return
        identity = file.get("processIdentity")
        start = whole_number(identity.get("startTicks")) if isinstance(identity, dict) else None
        pid = whole_number(file.get("pid"))
        self._daemon = (pid, start) if pid is not None and start is not None else None

    def session_folders(self) -> Sequence[str]:
        return (f"{self.root}/sessions", self._archive)

    def links(self, processes: Processes) -> list[Link]:
        folder = f"{self.root}/thread-writer-locks"
        if os.path.isdir(folder):
            self._has_locks = processes.knows_locks(folder)
            self._no_locks = "the kernel's list of locks does not tell which thread it is on"
        found: list[Link] = []
        self._lock_files = {id for name in self.reader.names(folder, HOLDERS) if (id := lock_of(name))}
        for id in sorted(self._lock_files):
            found += self._links_by_lock(id, f"{folder}/{id}.lock", processes)
        self._locks = frozenset(link.id for link in found)
        self._owners = {link.id: link.key for link in found}
        found += self._links_by_open_rollout(processes, {link.key.pid for link in found})
        daemon = self._live_daemon(processes)
        if daemon is None:
            return found
        held = [link for link in found if link.key == daemon.key]
        return [*(link for link in found if link.key != daemon.key), *self._of_daemon(daemon, held, processes)]

    def _of_daemon(self, daemon: Process, links: list[Link], processes: Processes) -> list[Link]:
        """Return the links of the daemon with what it says of their threads, and the screens that show them."""
        if not links:
            return links
        from agentctl.agents.codex.open_screens import clients, screens_of, with_screens

        self._ask_daemon(daemon, [link.id for link in links], screens=bool(clients(self.root, processes)))
        ids = [link.id for link in links]
        self._screens = screens_of(self.root, ids, self._answers, self._rollout, processes)
        return with_screens(links, self._screens, self._answers, processes)

    def _links_by_lock(self, id: str, path: str, processes: Processes) -> Iterator[Link]:
        """Yield the links of the processes that are proved to hold the lock of a thread. The kernel's list names who
        took it. If we may not look into that process, a stranger may have got its pid: nobody knows who is on it."""
        owners = processes.lock_owners(path)
        for owner in owners:
            yield self._link(id, owner, "holds the thread's writer lock, by the kernel's lock list", path)
        if owners:
            return
        self.reader.stat(path, HOLDERS, id)  # the kernel's list names files by their inode
        for process in processes.unproved_owners(path):
            self._unproved.setdefault(process.key, []).append(id)
            self.reader.note(path, f"the kernel's lock list names pid {process.pid}, {CLOSED}", HOLDERS, id)

    def _link(self, id: str, owner: Process, how: str, path: str) -> Link:
        fact = Evidence("kernel", f"pid {owner.pid} {how}", path, owner.pid)
        began = begun_at(id) if id[14:15] == TIMED else None
        return Link(NAME, id, self.root, owner.key, how=how, path=path, evidence=(fact,), began=began)

    def _links_by_open_rollout(self, processes: Processes, linked: set[int]) -> list[Link]:
        """Return links to the rollouts that processes have open for writing: versions without writer locks keep theirs
        open. Who only reads one is not on it."""
        found = []
        prefix = os.path.realpath(f"{self.root}/sessions") + "/"
        for process in processes.running(lambda name: name.startswith("codex")):
            if process.pid in linked:
                continue
            details = processes.details(process)
            if details is None or ADAPTER.claims(process, details) not in (AGENT, DAEMON, CLIENT):
                continue
            written = processes.written_files(process)  # None: not known on this system
            for path in sorted({*processes.open_files(process)} if written is None else {path for path, _ in written}):
                is_here = path.startswith(prefix) and os.path.isdir(os.path.dirname(path))  # nothing is mounted over it
                if is_here and (id := thread_of(os.path.basename(path))):
                    found.append(self._link(id, process, "has the thread's rollout open", path))
        return found

    def _ask_daemon(self, daemon: Process, ids: list[str], *, screens: bool) -> None:
        socket_path = f"{self.root}/{SOCKET}"
        if not os.path.exists(socket_path):
            return
        from agentctl.agents.codex import socket

        try:
            peer, answers = socket.ask(socket_path, ids, screens=screens)
        except socket.Unanswered as error:
            self.problems.append(Problem(NAME, f"its daemon (pid {daemon.pid}) did not answer: {error}", socket_path))
            return
        if peer in (None, daemon.pid):
            self._answers = answers

    def _live_daemon(self, processes: Processes) -> Process | None:
        return processes.find(*self._daemon) if self._daemon else None

    def role(self, process: Process, details: Details, role: str, processes: Processes) -> str:
        """Return CLIENT for a screen that shows a thread of a live daemon: the daemon is on that session. A screen that
        shows none is an agent without a session, unless its arguments keep its threads in its own process."""
        if processes.held(process) is None:
            self._closed.add(process.key)
        if role != AGENT or not may_be_client(details.argv or ()) or self._live_daemon(processes) is None:
            return role
        self._clients.add(process.key)
        return CLIENT if self._screens is not None and process.key in self._screens.busy else AGENT

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        if process.key in self._clients:
            why = f"no thread of its daemon was opened by it: {STARTING}"
            return Candidates((), sole=False, why=why)
        if process.key in self._unproved:
            why = f"the kernel's lock list names it for this thread, {CLOSED}"
            return Candidates(tuple(self._unproved[process.key]), sole=False, why=why)
        if self._has_locks and process.key in self._closed:
            return self.candidates_of_a_stranger(process, details, started_at)
        if self._has_locks:
            why = "holds no thread (starting, ending, or it keeps no session: --ephemeral)"
            return Candidates((), sole=False, why=why)
        why = self._no_locks
        named = [word for word in details.argv or () if len(word) == 36 and word.count("-") == 4]
        if named:
            return Candidates((named[0],), sole=True, why=why)
        if details.cwd is None:
            return Candidates(None, sole=False, why=why)
        command, rest = command_of((details.argv or ())[1:])
        resumes = command in ("resume", "fork") or rest[:1] == ["resume"]
        ids = [id for id in self.recent(0.0 if resumes else started_at) if self._works_in(id, details)]
        return Candidates(tuple(sorted(set(ids))), sole=not resumes, why=why)

    def candidates_of_a_stranger(self, process: Process, details: Details, started_at: float) -> Candidates:
        """Return what a closed process can be on: the kernel's list names it, or its thread has no lock file."""
        ids = self._unproved.get(process.key) or [id for id in self.recent(started_at) if id not in self._lock_files]
        return Candidates(tuple(ids), sole=False, why=self._no_locks)

    def candidates_by_files(
        self, paths: Sequence[str], process: Process, details: Details, started_at: float
    ) -> Candidates:
        """Return the threads whose rollouts or locks these are. Other files of the store are shared by all threads."""
        named = [os.path.basename(path) for path in paths]
        ids = {id for name in named if (id := thread_of(name) or lock_of(name))}
        return Candidates(tuple(sorted(ids)), sole=False, why="a file of its thread is open in it")

    def _works_in(self, id: str, details: Details) -> bool:
        record = self.record(id)
        return record is not None and (record.cwd is None or is_in(details, record.cwd))

    # What the store says of a session

    def _rollouts(self) -> Iterator[tuple[str, str]]:
        """Yield the folder and file name of every rollout, archived ones last."""
        for folder in (*days_in(self.reader), self._archive):
            for name in self.reader.names(folder):
                yield folder, name

    def _all_rollouts(self) -> dict[str, str]:
        """Return the path of each thread; of two, the one in the folder of its day, else the one that is not archived.
        Each day is listed once."""
        self._paths = {}
        for folder, name in self._rollouts():
            if id := thread_of(name):
                if id not in self._paths or goes_before(folder, name, self._paths[id]):
                    self._paths[id] = f"{folder}/{name}"
            else:
                self.reader.note_stray(f"{folder}/{name}")
        return self._paths

    def recent(self, since: float) -> Iterable[str]:
        for folder in (*days_in(self.reader), self._archive):
            for name, found in self.reader.written_since(folder, TRANSCRIPTS, since):
                if (id := thread_of(name)) is None:
                    self.reader.note_stray(f"{folder}/{name}")
                else:
                    if found is not None:
                        self._found[f"{folder}/{name}"] = found
                    if is_newer_part(name, self._paths.get(id, "")):
                        self._paths[id] = f"{folder}/{name}"
                    elif id not in self._paths:
                        other = None if is_in_its_place(folder, name) else self._of_its_day(id)
                        self._paths[id] = other or f"{folder}/{name}"
                    yield id
        yield from self._locks

    def find(self, prefix: str) -> Iterable[str]:
        return {id for id in {*self._all_rollouts(), *self._locks} if id.startswith(prefix)}

    def alike(self, heads: Sequence[str]) -> Iterable[str]:
        ids = ids_of_days(self.reader, heads, self._archive)
        return super().alike(heads) if ids is None else {id for id in {*ids, *self._locks} if id.startswith((*heads,))}

    def has(self, id: str) -> bool:
        if id in self._locks or self._of_its_day(id) is not None:
            return True
        return any(thread_of(name) == id for name in self.reader.names(self._archive))

    def _of_its_day(self, id: str) -> str | None:
        """Return the rollout in the folder of its day, which its id begins with; folders go by local time. A copy in
        the folder of another day counts only if there is no other."""
        copy = None
        for day in days_of(id):
            folder = f"{self.root}/sessions/{day}"
            for name in self.reader.names(folder):
                if name.endswith(f"-{id}.jsonl"):
                    if is_in_its_place(folder, name):
                        return f"{folder}/{name}"
                    copy = copy or f"{folder}/{name}"
        return copy

    def _rollout(self, id: str) -> str | None:
        """Return the rollout of a thread: it looks in the folder of its day first, then everywhere."""
        if (path := self._paths.get(id)) and (path in self._found or os.path.lexists(path)):
            return path
        if (path := self._of_its_day(id)) is not None:
            self._paths[id] = newest_part(self.reader, id, path)
            return self._paths[id]
        return self._all_rollouts().get(id)

    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        path = self._rollout(id)
        if path is None:
            return None
        if self.derived is None or tokens:
            record = self._read_record(id, path, tokens=tokens)
        else:
            record = self.derived.through(
                id, path, self._found.get(path), lambda: self._read_record(id, path, tokens=False)
            )
        return record._replace(title=self._name_of(id))

    def _read_record(self, id: str, path: str, *, tokens: bool) -> Record:
        try:
            with Opened(path) as file:
                tail, head = read_tail(file), read_head(file)
                if tail.turn == UNKNOWN and file.size:
                    self.reader.note(path, tail.reason, RECORD)
            spent = self._tokens(id, path) if tokens else None
        except OSError as error:
            self.reader.note(path, error, RECORD)
            return Record(NAME, id, self.root, UNKNOWN, reason_of(error), path=path)
        self._tails[id] = tail
        self.moments[id] = Moments(tail.begun_at, tail.ended_at, tail.asked_at)
        pending = tail.pending[-1] if tail.pending else None
        return new_record(
            NAME,  # agent
            id,  # id
            self.root,  # store
            tail.turn,  # turn
            tail.reason,  # reason
            tail.error,  # error
            pending[2] if pending else None,  # pending
            pending[1] if pending else None,  # pending_tool
            pending[0] if pending else None,  # pending_id
            None,  # ending
            tail.inferred,  # inferred
            path,  # path
            head.cwd,  # cwd
            head.branch,  # branch
            tail.model or head.model,  # model
            None,  # title
            head.prompt,  # prompt
            head.version,  # version
            head.started_at,  # started_at
            tail.updated_at,  # updated_at
            spent,  # tokens
            None,  # cost_usd
            head.parent,  # parent
            head.forked_from,  # forked_from
            tail.policy,  # policy
            None,  # written_at
            False,  # fresh
            None,  # stamp
            (Evidence("store", tail.reason, path),),  # evidence
        )

    def _tokens(self, id: str, path: str) -> Tokens | None:
        from agentctl.agents.usage_base import spent_in

        return spent_in(NAME, path, id, self.problems)[0].tokens

    def _name_of(self, id: str) -> str | None:
        """Return the name that a person gave a thread; the newest line of the index wins."""
        if self._names is None:
            self._names = {}
            try:
                for line in lines_backward(f"{self.root}/session_index.jsonl", NAME_LIMIT):
                    entry = decode(line) or {}
                    name = text_or_none(entry.get("thread_name"))
                    if name:
                        self._names.setdefault(str(entry.get("id")), name)
            except FileNotFoundError:
                pass
            except OSError as error:
                self.reader.note(f"{self.root}/session_index.jsonl", error, DETAIL)
        return self._names.get(id)

    def children(self, id: str) -> Sequence[str]:
        """Return the threads that name this one as their parent: each began in the life of this one."""
        if self._threads is None:
            named = ((thread_of(name), f"{folder}/{name}") for folder, name in self._rollouts())
            self._threads = sorted((thread, path) for thread, path in named if thread)
        end = ended_at(dict(self._threads).get(id), self._tails[id].updated_at if id in self._tails else None)
        found = (thread for thread, path in self._threads if may_be_child(thread, id, end) and self._parent(path) == id)
        return list(dict.fromkeys(found))

    def _parent(self, path: str) -> str | None:
        if path not in self._parents:
            self._parents[path] = None
            try:
                self._parents[path] = parent_in(path)
            except FileNotFoundError:
                pass  # removed this moment
            except OSError as error:
                self.reader.note(path, error, RECORD)
        return self._parents[path]

    def watched(self, id: str) -> Sequence[str]:
        """Return its lock and its rollout. Neither has what its daemon waits for: then the daemon's socket, too."""
        found = [f"{self.root}/thread-writer-locks/{id}.lock"]
        path = self._rollout(id)
        found += [path] if path else [f"{self.root}/sessions/{day}" for day in days_of(id)[:1]]
        return [*found, f"{self.root}/{SOCKET}"] if id in self._answers else found

    def transcript(self, id: str) -> str | None:
        return self._rollout(id)

    def messages_in(self, line: bytes) -> Sequence[Message]:
        from agentctl.agents.codex.messages import messages_of

        return messages_of(line)

    # What a live process does

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        process = processes.alive(link.key)
        if process is None:
            return link
        if link.id in self._answers:
            return self._observe_answer(link, record, self._answers[link.id].status)
        details = processes.details(process) or Details()
        one_shot = command_of((details.argv or ())[1:])[0] in ("exec", "e", "review")
        if record is None:
            if one_shot:
                return link._replace(turn=UNKNOWN, reason="starting: it has its thread, and no rollout yet")
            return link._replace(turn=IDLE, reason="it was never prompted: no rollout yet")
        if record.turn in CLOSED_TURNS or record.turn == IDLE:
            inferred = link.inferred or record.inferred
            return link._replace(turn=IDLE, reason=FINISHING if one_shot else None, inferred=inferred)
        if record.turn != WORKING:
            return link
        return self._observe_open_turn(link, record, process, processes)

    def _observe_answer(self, link: Link, record: Record | None, status: dict[str, Any]) -> Link:
        kind, listed = status.get("type"), status.get("activeFlags")
        flags = [str(flag) for flag in listed] if isinstance(listed, list) else []
        said = Evidence("api", f"its daemon says {kind} {' '.join(flags)}".strip(), pid=link.key.pid)
        link = link._replace(evidence=(*link.evidence, said))
        asks = f": {record.pending}" if record and record.pending else ""
        if kind == "active" and "waitingOnApproval" in flags:
            return link._replace(turn=WAITING, waiting_for=f"approval{asks}")
        if kind == "active" and "waitingOnUserInput" in flags:
            return link._replace(turn=WAITING, waiting_for=f"input{asks}")
        if kind == "active":
            return link._replace(turn=WORKING)
        if kind in ("idle", "systemError"):
            return link._replace(turn=IDLE, reason="its last turn failed" if kind == "systemError" else None)
        return link

    def _observe_open_turn(self, link: Link, record: Record, process: Process, processes: Processes) -> Link:
        """Tell an approval from a running command: they look alike on disk, but a command has a process."""
        tail = self._tails.get(record.id, Tail())
        calls = tail.pending
        if calls and calls[-1][1] == ASKS:
            return link._replace(turn=WAITING, waiting_for=f"input: {calls[-1][2]}")
        if not calls or record.policy == "never":
            return link._replace(turn=WORKING)
        if (runner := runner_of(calls, record.id, tail.before_calls, process, processes)) is not None:
            return with_runner(link, runner)
        if all(tool != "exec_command" for _, tool, _ in calls):
            why = f"{calls[-1][1]} is pending: running inside it, or an approval that disk does not show"
            return link._replace(turn=WORKING, reason=why, inferred=True)
        return link._replace(
            turn=WAITING,
            waiting_for=f"approval: {calls[-1][2]}",
            reason="a command is pending, approvals are on, and no process runs it",
            inferred=True,
            doubt=calls[-1][0],
        )

    def questions(self, link: Link, record: Record | None) -> tuple[Question, ...]:
        from agentctl.agents.codex.asking import questions

        pending = self._tails[link.id].pending if link.id in self._tails else ()
        return questions(link, pending, record.path if record else None, self.reader)
