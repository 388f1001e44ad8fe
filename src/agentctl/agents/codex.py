"""Codex (measured: 0.166.0).

Who is on what: the kernel's list of flock owners of `thread-writer-locks/<thread>.lock`, held by the one process that
owns a thread from its creation to its end; a client (the default TUI) holds none. What the turn is: the daemon's own
answer where it holds the thread, else the rollout.

Never done here: trying the lock (even a shared try makes a real `codex exec resume` fail), opening its databases,
believing a daemon about threads it has not loaded.
"""

from __future__ import annotations

import os

from agentctl.agents import Candidates, home, jsonl
from agentctl.agents.codex_rollout import Tail, days_of, messages_of, parent_in, read_head, read_tail, thread_of
from agentctl.model import (
    AGENT,
    CLIENT,
    CLOSED_TURNS,
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
    Record,
    Supervisor,
    Tokens,
)
from agentctl.stores import (
    Opened,
    Torn,
    decode,
    lines_backward,
    modified_since,
    names,
    read_json,
    real_path,
    text_or_none,
    whole_number,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from agentctl.derived import Derived
    from agentctl.processes import Processes

NAME = "codex"
ALIASES: tuple[str, ...] = ()
BINARIES = ("codex",)
ENV = ("HOME", "CODEX_HOME", "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID")
CERTIFIED = ("0.166.0",)
RUNS_MANY = False  # its daemon does, and says which by their locks

# Words that take a value, so that the value is not taken for a command or a prompt.
VALUE_FLAGS = frozenset(
    "-c --config -m --model -p --profile -s --sandbox -a --ask-for-approval -C --cd -i --image --enable --disable "
    "--add-dir --oss-provider --local-provider --remote".split()
)
SESSION_COMMANDS = frozenset("exec e resume fork review".split())
OTHER_COMMANDS = frozenset(
    "login logout mcp mcp-server plugin completion update doctor sandbox debug execpolicy apply archive unarchive "
    "delete cloud features agents help queue remote-control".split()
)
SOCKET = "app-server-control/app-server-control.sock"
ASKS = "request_user_input"  # a tool that does nothing but ask the person: unanswered, it waits
NAME_LIMIT = 4 * 1024 * 1024


def looks_like(comm: str) -> bool:
    return comm.startswith("codex") or comm in ("node", "MainThread")


def claims(process: Process, details: Details) -> str | None:
    argv = details.argv or ()
    program = os.path.basename(argv[0]) if argv else ""
    if program in ("node", "nodejs"):
        script = argv[1] if len(argv) > 1 else ""
        ours = os.path.basename(script) == "codex" or "/@openai/codex/" in script
        return WRAPPER if ours else None
    if program != "codex":
        is_helper = program.startswith("codex-") or process.comm.startswith("codex-")
        return HELPER if is_helper and os.path.basename(details.exe or "").startswith("codex") else None
    command, rest = command_of(argv[1:])
    if command == "app-server":
        if rest[:1] == ["daemon"]:
            return HELPER if rest[1:2] == ["pid-update-loop"] else CLIENT
        return CLIENT if rest[:1] == ["proxy"] else DAEMON
    return CLIENT if command in OTHER_COMMANDS or argv[1:2] in (("--version",), ("-V",), ("--help",)) else AGENT


def command_of(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The subcommand among the words after `codex`, and what follows it. A prompt is not a subcommand."""
    index = 0
    while index < len(words):
        word = words[index]
        if word in VALUE_FLAGS:
            index += 2
        elif word.startswith("-") and word != "-":
            index += 1
        else:
            known = word in SESSION_COMMANDS or word in OTHER_COMMANDS or word == "app-server"
            return (word if known else None), list(words[index + 1 :])
    return None, []


def roots(env: Mapping[str, str]) -> tuple[str, ...]:
    return (env.get("CODEX_HOME") or os.path.join(home(env), ".codex"),)


def open_store(root: str) -> Store:
    return Store(root)


class Store:
    def __init__(self, root: str) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self._tails: dict[str, Tail] = {}
        self._answers: dict[str, dict[str, Any]] = {}  # thread -> status, from the daemon that holds it
        self._daemon: tuple[int, int] | None = None
        self._names: dict[str, str] | None = None
        self._paths: dict[str, str] = {}
        self._threads: list[tuple[str, str]] | None = None  # every rollout: whose it is, and where
        self._parents: dict[str, str | None] = {}  # path -> the thread that it is a sub-agent of
        self._locks: frozenset[str] = frozenset()
        self._has_locks = False
        self._found: dict[str, os.stat_result] = {}  # the rollouts that were listed, as they were then
        self._archive = f"{root}/archived_sessions"
        self.derived: Derived | None = None
        self._blind = False  # a folder could not be listed: a rollout that was not found may be there

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
                self.problems.append(Problem(NAME, str(error), path))
            return
        identity = file.get("processIdentity")
        start = whole_number(identity.get("startTicks")) if isinstance(identity, dict) else None
        pid = whole_number(file.get("pid"))
        self._daemon = (pid, start) if pid is not None and start is not None else None

    def links(self, processes: Processes) -> list[Link]:
        folder = f"{self.root}/thread-writer-locks"
        self._has_locks = os.path.isdir(folder) and processes.knows_locks
        found = []
        for name in names(folder):
            if name.endswith(".lock") and not name.startswith("."):
                for owner in processes.lock_owners(f"{folder}/{name}"):
                    how = "holds the thread's writer lock, by the kernel's lock list"
                    found.append(self._link(name.removesuffix(".lock"), owner, how, f"{folder}/{name}"))
        self._locks = frozenset(link.id for link in found)
        found += self._links_by_open_rollout(processes, {link.key.pid for link in found})
        self._ask_daemon(processes, found)
        return found

    def _link(self, id: str, owner: Process, how: str, path: str) -> Link:
        fact = Evidence("kernel", f"pid {owner.pid} {how}", path, owner.pid)
        return Link(NAME, id, self.root, owner.key, how=how, path=path, evidence=(fact,))

    def _links_by_open_rollout(self, processes: Processes, linked: set[int]) -> list[Link]:
        """Versions without writer locks keep their rollout open for as long as they live."""
        found = []
        prefix = os.path.realpath(f"{self.root}/sessions") + "/"
        for process in processes.named(lambda name: name.startswith("codex")):
            if process.pid in linked:
                continue
            details = processes.details(process)
            if details is None or claims(process, details) not in (AGENT, DAEMON):
                continue
            for path in sorted(set(processes.open_files(process))):
                if path.startswith(prefix) and (id := thread_of(os.path.basename(path))):
                    found.append(self._link(id, process, "has the thread's rollout open", path))
        return found

    def _ask_daemon(self, processes: Processes, links: list[Link]) -> None:
        owner = self._live_daemon(processes)
        ids = [link.id for link in links if owner is not None and link.key == owner.key]
        socket_path = f"{self.root}/{SOCKET}"
        if owner is None or not ids or not os.path.exists(socket_path):
            return
        from agentctl.agents import codex_socket

        try:
            peer, answers = codex_socket.ask(socket_path, ids)
        except codex_socket.Unanswered as error:
            self.problems.append(Problem(NAME, f"its daemon (pid {owner.pid}) did not answer: {error}", socket_path))
            return
        if peer in (None, owner.pid):
            self._answers = answers

    def _live_daemon(self, processes: Processes) -> Process | None:
        return processes.find(*self._daemon) if self._daemon else None

    def supervisors(self, processes: Processes) -> list[Supervisor]:
        return []  # its daemon does not bring a dead thread back

    def role(self, process: Process, details: Details, role: str, processes: Processes) -> str:
        """A TUI without a thread of its own is the daemon's client, unless its arguments keep it embedded."""
        argv = details.argv or ()
        if role != AGENT or command_of(argv[1:])[0] in ("exec", "e", "review") or self._live_daemon(processes) is None:
            return role
        embedded = any(word in ("--no-daemon", "-c", "--config") or word.startswith("--config=") for word in argv)
        return AGENT if embedded else CLIENT

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        if self._has_locks:
            why = "holds no thread (starting, ending, or it keeps no session: --ephemeral)"
            return Candidates((), sole=False, why=why)
        why = "its version does not lock its thread"
        named = [word for word in details.argv or () if len(word) == 36 and word.count("-") == 4]
        if named:
            return Candidates((named[0],), sole=True, why=why)
        if details.cwd is None:
            return Candidates(None, sole=False, why=why)
        command, rest = command_of((details.argv or ())[1:])
        resumes = command in ("resume", "fork") or rest[:1] == ["resume"]
        cwd = os.path.realpath(details.cwd)
        ids = [id for id in self.recent(0.0 if resumes else started_at) if self._works_in(id, cwd)]
        return Candidates(tuple(sorted(set(ids))), sole=not resumes, why=why)

    def _works_in(self, id: str, cwd: str) -> bool:
        record = self.record(id)
        return record is not None and (record.cwd is None or real_path(record.cwd) == cwd)

    # What the store says of a session

    def _names_in(self, folder: str) -> list[str]:
        """The names in a folder; one that cannot be read is a problem, and the others are still read."""
        try:
            return names(folder)
        except OSError as error:
            self._unreadable(folder, error)
            return []

    def _unreadable(self, folder: str, error: OSError) -> None:
        self._blind = True
        self.problems.append(Problem(NAME, error.strerror or str(error), folder))

    def _days(self) -> Iterator[str]:
        base = f"{self.root}/sessions"
        for year in self._names_in(base):
            for month in self._names_in(f"{base}/{year}"):
                for day in self._names_in(f"{base}/{year}/{month}"):
                    yield f"{base}/{year}/{month}/{day}"

    def _rollouts(self) -> Iterator[tuple[str, str]]:
        """(folder, file name) of all rollouts, archived ones last."""
        for folder in (*self._days(), self._archive):
            for name in self._names_in(folder):
                yield folder, name

    def _all_rollouts(self) -> dict[str, str]:
        """Thread -> path. Where many are asked for, each day is listed once; of two, the one that is not archived."""
        self._paths = {}
        for folder, name in self._rollouts():
            if id := thread_of(name):
                self._paths.setdefault(id, f"{folder}/{name}")
        return self._paths

    def recent(self, since: float) -> Iterable[str]:
        for folder in (*self._days(), self._archive):
            try:
                for name, found in modified_since(folder, ".jsonl", since):
                    if id := thread_of(name):
                        self._found[f"{folder}/{name}"] = found
                        if id not in self._paths:
                            other = self._of_its_day(id) if folder == self._archive else None
                            self._paths[id] = other or f"{folder}/{name}"
                        yield id
            except OSError as error:
                self._unreadable(folder, error)
        yield from self._locks

    def find(self, prefix: str) -> Iterable[str]:
        return {id for id in {*self._all_rollouts(), *self._locks} if id.startswith(prefix)}

    def has(self, id: str) -> bool:
        if id in self._locks or self._of_its_day(id) is not None:
            return True
        return any(thread_of(name) == id for name in self._names_in(self._archive))

    def _of_its_day(self, id: str) -> str | None:
        """The rollout in the folder of the day that its id begins with; folders go by local time."""
        for day in days_of(id):
            folder = f"{self.root}/sessions/{day}"
            for name in self._names_in(folder):
                if name.endswith(f"-{id}.jsonl"):
                    return f"{folder}/{name}"
        return None

    def _rollout(self, id: str) -> str | None:
        """Of its day first, then everywhere."""
        if (path := self._paths.get(id)) and (path in self._found or os.path.lexists(path)):
            return path
        if (path := self._of_its_day(id)) is not None:
            return path
        ending = f"-{id}.jsonl"
        return next((f"{folder}/{name}" for folder, name in self._rollouts() if name.endswith(ending)), None)

    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        path = self._rollout(id)
        if path is None and self._blind and id in self._locks:
            return Record(NAME, id, self.root, UNKNOWN, "a folder of its rollouts could not be read")
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
            spent = spent_in(path, id) if tokens else None
        except OSError as error:
            why = error.strerror or str(error)
            self.problems.append(Problem(NAME, why, path))
            return Record(NAME, id, self.root, UNKNOWN, why, path=path)
        self._tails[id] = tail
        pending = tail.pending[-1] if tail.pending else None
        return Record(  # all fields in their order: thousands are made at once
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

    def _name_of(self, id: str) -> str | None:
        """The name a person gave it; the newest line of the index wins."""
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
                self.problems.append(Problem(NAME, error.strerror or str(error), f"{self.root}/session_index.jsonl"))
        return self._names.get(id)

    def children(self, id: str) -> Sequence[str]:
        """Sub-agents are threads of their own that name their parent, begun after it."""
        if self._threads is None:
            named = ((thread_of(name), f"{folder}/{name}") for folder, name in self._rollouts())
            self._threads = sorted((thread, path) for thread, path in named if thread)
        return [thread for thread, path in self._threads if thread > id and self._parent(path) == id]

    def _parent(self, path: str) -> str | None:
        if path not in self._parents:
            self._parents[path] = parent_in(path)
        return self._parents[path]

    def watched(self, id: str) -> Sequence[str]:
        """Its lock and its rollout. What its daemon waits for is in neither: there it is the daemon's socket, too."""
        found = [f"{self.root}/thread-writer-locks/{id}.lock"]
        path = self._rollout(id)
        found += [path] if path else [f"{self.root}/sessions/{day}" for day in days_of(id)[:1]]
        return [*found, f"{self.root}/{SOCKET}"] if id in self._answers else found

    def messages(self, id: str, count: int) -> Page:
        path = self._rollout(id)
        return jsonl.newest(path, count, messages_of) if path else Page(())

    def messages_after(self, id: str, cursor: object) -> Page:
        path = self._rollout(id)
        return jsonl.after(path, cursor, messages_of) if path else Page((), cursor)

    # What a live process does

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        process = processes.alive(link.key)
        if process is None:
            return link
        if link.id in self._answers:
            return self._observe_answer(link, record, self._answers[link.id])
        details = processes.details(process) or Details()
        one_shot = command_of((details.argv or ())[1:])[0] in ("exec", "e", "review")
        if record is None:
            if one_shot:
                return link._replace(turn=UNKNOWN, reason="starting: it has its thread, and no rollout yet")
            return link._replace(turn=IDLE, reason="it was never prompted: no rollout yet")
        if record.turn in CLOSED_TURNS or record.turn == IDLE:
            return link._replace(turn=IDLE, reason="finishing: its one turn is over" if one_shot else None)
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
        """On disk an approval looks like a running command; a command that runs has a process that says so."""
        calls = self._tails[record.id].pending if record.id in self._tails else ()
        if calls and calls[-1][1] == ASKS:
            return link._replace(turn=WAITING, waiting_for=f"input: {calls[-1][2]}")
        if not calls or record.policy == "never":
            return link._replace(turn=WORKING)
        running = {
            call: child
            for child in processes.descendants(process.pid)
            if (details := processes.details(child)) and details.env and (call := details.env.get("CODEX_TOOL_CALL_ID"))
        }
        for call, _, what in calls:
            if call in running:
                fact = Evidence("kernel", f"a process runs the pending call: {what}", pid=running[call].pid)
                return link._replace(turn=WORKING, evidence=(*link.evidence, fact))
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


def is_empty(path: str) -> bool:
    try:
        return os.stat(path).st_size == 0
    except OSError:
        return False


def spent_in(path: str, id: str) -> Tokens | None:
    from agentctl.agents import codex_usage
    from agentctl.agents.counting import total_in

    return total_in(path, id, codex_usage.count)[0].tokens
