"""Claude Code (measured: 2.1.197 and 2.1.325; judged by what its files hold, not by version).

Who is on what: `sessions/<pid>.json`, written by every running process before its first prompt, with its start ticks;
it follows /clear. What the turn is: `status` in that file where it has one, else the transcript.
Background sessions (`--bg`) have a daemon that brings dead workers back: `daemon.lock`, `daemon/roster.json`, `jobs/`.

Never done here: `claude agents --json` (it deletes the files of the dead), reading sessions/*.key, messaging sockets.
"""

from __future__ import annotations

import os

from agentctl.agents import Candidates, claude_files, home, jsonl, option
from agentctl.agents.claude_files import (
    children_in,
    ending_words,
    reason_of,
    refusal_words,
    status_of,
    written_at,
)
from agentctl.agents.claude_projects import Projects
from agentctl.agents.claude_records import messages_of
from agentctl.agents.claude_transcript import read_head, read_tail
from agentctl.model import (
    AGENT,
    CLIENT,
    CLOSED_TURNS,
    DAEMON,
    HELPER,
    IDLE,
    SPARE,
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
    Tokens,
)
from agentctl.stores import Opened, Torn, modified_since, moment, names, read_json, text_or_none, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from agentctl.derived import Derived
    from agentctl.processes import Processes

NAME = "claude-code"
ALIASES = ("claude",)
BINARIES = ("claude",)
ENV = ("HOME", "CLAUDE_CONFIG_DIR")
CERTIFIED = ("2.1.197", "2.1.325")
RUNS_MANY = False

SUBCOMMANDS = frozenset(
    "agents attach auth config doctor import install logs mcp plugin purge respawn rm setup-token stop update".split()
)
ASKING_TOOL = "AskUserQuestion"  # does nothing but wait for an answer
SHELLS = ("bash", "zsh", "sh", "dash", "ash", "ksh")


def looks_like(comm: str) -> bool:
    # The native installer names the binary after its version; a Node build runs as node or MainThread.
    return comm.startswith("claude") or comm in ("node", "bun", "MainThread") or (comm[:1].isdigit() and "." in comm)


def claims(process: Process, details: Details) -> str | None:
    argv = details.argv or ()
    if not argv or not is_ours(argv, details.exe or ""):
        return None
    if os.path.basename(argv[0]) == "rg":
        return HELPER  # the binary carries its own ripgrep
    words = argv[0].split()[1:] + list(argv[1:])
    if not is_native(argv[0]) and not argv[0].startswith("claude"):
        words = words[1:]  # node, then the script
    first = words[0] if words else ""
    if first == "daemon":
        return DAEMON if words[1:2] == ["run"] else CLIENT
    if first in ("--bg-pty-host", "bg-pty-host"):
        return WRAPPER
    if first in ("--bg-spare", "bg-spare"):
        return SPARE
    if first in SUBCOMMANDS or "--bg" in words or first in ("--version", "-v", "--help", "-h"):
        return CLIENT
    return HELPER if first == "--ripgrep" else AGENT


def is_ours(argv: Sequence[str], exe: str) -> bool:
    if is_native(argv[0]) or argv[0] == "claude" or argv[0].startswith("claude bg-"):
        return True
    if is_native(exe) or "/claude/versions/" in exe:
        return True
    script = argv[1] if len(argv) > 1 else ""
    return os.path.basename(argv[0]) in ("node", "bun") and (
        "/@anthropic-ai/claude-code" in script or os.path.basename(script) == "claude"
    )


def is_native(path: str) -> bool:
    return os.path.basename(path) in ("claude", "claude.exe") or "/claude/versions/" in path


def roots(env: Mapping[str, str]) -> tuple[str, ...]:
    return (env.get("CLAUDE_CONFIG_DIR") or os.path.join(home(env), ".claude"),)


def open_store(root: str) -> Store:
    return Store(root)


class Store:
    def __init__(self, root: str) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self._registered: dict[str, dict[str, Any]] = {}  # file name -> sessions/<pid>.json
        self._directories: dict[str, list[str]] = {}  # session id -> where its processes say they work
        self._domain: str | None = None
        self._daemon: dict[str, Any] | None = None
        self._roster: dict[str, dict[str, Any]] = {}
        self._projects = Projects(NAME, root, self.problems)
        self._found: dict[str, os.stat_result] = {}  # the transcripts that were listed, as they were then
        self._recent: dict[str, list[str]] = {}  # session id -> those of them that are its own
        self.derived: Derived | None = None

    # Who is here

    def survey(self) -> None:
        os.listdir(self.root)  # an unreadable store is an error, not an empty one
        for name in names(f"{self.root}/sessions"):
            if file := self._registration(name):
                self._register(name, file)
        self._daemon = self._read(f"{self.root}/daemon.lock")
        roster = self._read(f"{self.root}/daemon/roster.json") or {}
        workers = roster.get("workers")
        if isinstance(workers, dict):
            self._roster = {short: worker for short, worker in workers.items() if isinstance(worker, dict)}

    def _register(self, name: str, file: dict[str, Any]) -> None:
        self._registered[name] = file
        id, cwd = file.get("sessionId"), file.get("cwd")
        if isinstance(id, str) and isinstance(cwd, str):
            self._directories.setdefault(id, []).append(cwd)

    def _registration(self, name: str) -> dict[str, Any] | None:
        stem, _, suffix = name.partition(".")  # <pid>.<hex>.key beside it is a secret
        return self._read(f"{self.root}/sessions/{name}") if suffix == "json" and stem.isdigit() else None

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            return read_json(path)
        except FileNotFoundError:
            return None
        except (OSError, Torn) as error:
            self.problems.append(Problem(NAME, reason_of(error), path))
            return None

    def links(self, processes: Processes) -> list[Link]:
        # Those that registered after the survey. They count only if the snapshot has their process: one that started
        # later is not gone, it was not looked at.
        for name in names(f"{self.root}/sessions"):
            if name not in self._registered and (file := self._registration(name)):
                pid, start = whole_number(file.get("pid")), whole_number(file.get("procStart"))
                if pid is not None and start is not None and processes.find(pid, start):
                    self._register(name, file)
        links = (self._link(name, file, processes) for name, file in self._registered.items())
        return [link for link in links if link is not None]

    def _link(self, name: str, file: dict[str, Any], processes: Processes) -> Link | None:
        path = f"{self.root}/sessions/{name}"
        pid, start = whole_number(file.get("pid")), whole_number(file.get("procStart"))
        id = self._session_of(file)
        if id is None or pid is None or pid <= 1 or start is None or str(pid) != name.partition(".")[0]:
            self.problems.append(Problem(NAME, "does not name a session and a process", path))
            return None
        domain = text_or_none(file.get("pidDomain"))
        here = False if domain is not None and claude_files.is_elsewhere(domain, self._pid_domain()) else None
        process = processes.find(pid, start)
        key = process.key if process else ProcessKey(processes.boot, pid, start)
        turn, waiting_for, reason = status_of(file)
        facts = [Evidence("store", f"names pid {pid}, start {start}, session {id}", path, pid)]
        if file.get("status"):
            facts.append(Evidence("store", f"says status {file['status']!r}", path, pid))
        return Link(
            NAME,
            id,
            self.root,
            key,
            how="its own sessions/<pid>.json, with start ticks",
            path=path,
            here=here,
            turn=turn,
            waiting_for=waiting_for,
            reason=reason,
            evidence=tuple(facts),
        )

    def _pid_domain(self) -> str:
        """Ours: asked once for all files."""
        if self._domain is None:
            self._domain = claude_files.pid_domain()
        return self._domain

    def _session_of(self, file: dict[str, Any]) -> str | None:
        """A respawned background worker registers under a random id for half a second; its job id is right at once."""
        id, job = text_or_none(file.get("sessionId")), text_or_none(file.get("jobId"))
        if file.get("kind") == "bg" and job and id and not id.startswith(job):
            worker = self._roster.get(job, {})
            return text_or_none(worker.get("sessionId")) or next(iter(self.find(job)), id)
        return id

    def supervisors(self, processes: Processes) -> list[Supervisor]:
        """The daemon, or the host of a worker, that will bring an unfinished background session back."""
        found = []
        for short, worker in self._roster.items():
            id = text_or_none(worker.get("sessionId"))
            job_path = f"{self.root}/jobs/{short}/state.json"
            state = (self._read(job_path) or {}).get("state")
            if id is None or state in ("done", "stopped", "failed"):
                continue
            for what, named in (("daemon", self._key(self._daemon)), ("worker's host", self._key(worker))):
                if named is not None:
                    key = ProcessKey(processes.boot, *named)
                    why = f"its {what} (pid {key.pid}) lives and has the job as {state or 'unfinished'}"
                    found.append(Supervisor(NAME, id, key, why, job_path))
        return found

    def _key(self, file: dict[str, Any] | None) -> tuple[int, int] | None:
        pid, start = whole_number((file or {}).get("pid")), whole_number((file or {}).get("procStart"))
        return (pid, start) if pid is not None and pid > 1 and start is not None else None

    def role(self, process: Process, details: Details, role: str, processes: Processes) -> str:
        return role

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        """A process that is not registered: starting, at the trust dialog, ending; or of an old version."""
        argv = details.argv or ()
        named = os.path.basename(option(argv, "--resume", "-r", "--session-id") or "").removesuffix(".jsonl")
        if len(named) == 36 and named.count("-") == 4:
            return Candidates((named,), sole=False, why="starting or ending; its arguments name a session")
        registers = os.path.isdir(f"{self.root}/sessions")
        resumes = any(word in ("--continue", "-c", "--resume", "-r", "--from-pr") for word in argv)
        why = (
            "not registered with a session (starting, at a dialog before its first session, or ending)"
            if registers
            else "its version does not say which session it is on"
        )
        if details.cwd is None:
            return Candidates(None, sole=False, why=why)
        since = 0.0 if resumes else started_at
        owned = {text_or_none(file.get("sessionId")) for file in self._registered.values()}
        ids = {
            id
            for folder in self._projects.folders_of(details.cwd)
            for name, _ in modified_since(folder, ".jsonl", since)
            if (id := name.removesuffix(".jsonl")) not in owned
        }
        return Candidates(tuple(sorted(ids)), sole=not registers and not resumes, why=why)

    # What the store says of a session

    def recent(self, since: float) -> Iterable[str]:
        for folder in self._projects.folders():
            try:
                for name, found in modified_since(folder, ".jsonl", since):
                    named = name.removesuffix(".jsonl")
                    self._found[f"{folder}/{name}"] = found
                    self._recent.setdefault(named, []).append(f"{folder}/{name}")
                    yield named
            except OSError as error:
                self._projects.unreadable(folder, error)
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
        return sorted(children_in(self._projects.names(path.removesuffix(".jsonl") + "/subagents"))) if path else ()

    def _transcript(self, id: str) -> str | None:
        """By the folder of its directory first; the folder name is lossy, so any folder may have it."""
        for cwd in self._directories.get(id, ()):
            for folder in self._projects.folders_of(cwd):
                if os.path.lexists(f"{folder}/{id}.jsonl"):
                    return f"{folder}/{id}.jsonl"
        paths = self._recent.get(id) or self._projects.transcripts_of(id)  # an older copy is not the one
        return paths[0] if len(paths) == 1 else max(paths, key=written_at, default=None)

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
        from agentctl.agents.claude_row import read_row  # nobody else needs it

        try:
            with Opened(path) as file:
                row = read_row(file) if brief and parent is None else None
                tail, head = row or (read_tail(file, sidechain=parent is not None), read_head(file))
                updated_at = tail.updated_at or os.fstat(file.fd).st_mtime
            spent, cost = spent_in(path, id, tail.cost_usd) if tokens else (None, tail.cost_usd)
        except OSError as error:
            self.problems.append(Problem(NAME, reason_of(error), path))
            return Record(NAME, id, self.root, UNKNOWN, reason_of(error), path=path, parent=parent)
        return Record(  # all fields in their order: thousands are made at once
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

    def watched(self, id: str) -> Sequence[str]:
        """Every process keeps its file in one folder; a background job has one more."""
        found = [f"{self.root}/sessions"]
        path = self._any_transcript(id)
        cwds = [file.get("cwd") for file in self._registered.values() if self._session_of(file) == id]
        folders = [folder for cwd in cwds if isinstance(cwd, str) for folder in self._projects.folders_of(cwd)]
        found += [path] if path else [f"{folder}/{id}.jsonl" for folder in folders] or [f"{self.root}/projects"]
        jobs = [short for short, worker in self._roster.items() if worker.get("sessionId") == id]
        found += [path for short in jobs for path in (f"{self.root}/jobs/{short}", f"{self.root}/daemon/roster.json")]
        return found

    def messages(self, id: str, count: int) -> Page:
        path = self._any_transcript(id)
        return jsonl.newest(path, count, messages_of) if path else Page(())

    def messages_after(self, id: str, cursor: object) -> Page:
        path = self._any_transcript(id)
        return jsonl.after(path, cursor, messages_of) if path else Page((), cursor)

    def _any_transcript(self, id: str) -> str | None:
        return self._transcript(id) or (child[0] if (child := self._projects.child(id)) else None)

    def _record_of_registration(self, id: str) -> Record | None:
        """A session that has a process (or had one) but no transcript: fresh, or run without persistence."""
        for name, file in self._registered.items():
            if self._session_of(file) == id:
                named = file.get("name") if file.get("nameSource") != "derived" else None
                return Record(
                    NAME,
                    id,
                    self.root,
                    UNKNOWN if self._projects.blind else IDLE if file.get("status") in ("idle", "shell") else WORKING,
                    reason="a folder could not be read" if self._projects.blind else "no transcript was written",
                    ending="it ended before its first record",
                    cwd=text_or_none(file.get("cwd")),
                    title=text_or_none(named),
                    version=text_or_none(file.get("version")),
                    started_at=moment(file.get("startedAt")),
                    updated_at=moment(file.get("updatedAt")) or moment(file.get("startedAt")),
                    evidence=(Evidence("store", "no transcript of this session", f"{self.root}/sessions/{name}"),),
                )
        return None

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        """A live process: what its file does not say, its transcript, arguments and children may."""
        process = processes.alive(link.key)
        if process is None:
            return link
        if link.turn == WAITING:
            closed = record is None or record.turn in (*CLOSED_TURNS, IDLE)
            if link.waiting_for == "dialog open" and closed:
                return link._replace(turn=IDLE, waiting_for=None, reason="a dialog that the person opened")
            asks = record.pending if record and record.turn == WORKING else None
            return link._replace(waiting_for=f"{link.waiting_for}: {asks}" if asks else link.waiting_for)
        if link.turn == IDLE and record is not None and record.turn == WORKING and record.path is not None:
            return link._replace(doubt="its file runs up to 0.1 s ahead of its transcript")
        if link.turn is not None:
            return link
        if record is None or record.path is None:
            return link._replace(turn=UNKNOWN, reason="no transcript yet, and its own file gives no status")
        if record.turn == UNKNOWN:
            return link._replace(turn=UNKNOWN, reason=record.reason)
        details = processes.details(process) or Details()
        if record.turn == WORKING:
            return self._observe_open_turn(link, record, process, details, processes)
        if record.turn in CLOSED_TURNS and option(details.argv, "--input-format") != "stream-json":
            return link._replace(turn=IDLE, reason="finishing: its one turn is over")
        return link._replace(turn=IDLE)

    def _observe_open_turn(
        self, link: Link, record: Record, process: Process, details: Details, processes: Processes
    ) -> Link:
        """No status in its file (headless, older): a question on its stdin looks like a tool that runs inside it."""
        asks_on_stdin = option(details.argv, "--permission-prompt-tool") is not None
        if record.pending is None or not asks_on_stdin:
            return link._replace(turn=WORKING)
        shell = next((child for child in processes.children(process.pid) if child.comm in SHELLS), None)
        if shell is not None:
            fact = Evidence("kernel", f"its tool runs: {shell.comm}, pid {shell.pid}", pid=shell.pid)
            return link._replace(turn=WORKING, evidence=(*link.evidence, fact))
        if record.pending_tool == ASKING_TOOL:
            return link._replace(
                turn=WAITING,
                waiting_for=f"question (inferred): {record.pending}",
                reason="a question is pending, and it is asked on its stdin",
                inferred=True,
                doubt=record.pending,
            )
        if record.pending_tool != "Bash":
            why = f"{record.pending}: running inside it, or a question on its stdin; disk cannot tell"
            return link._replace(turn=UNKNOWN, reason=why)
        return link._replace(
            turn=WAITING,
            waiting_for=f"permission (inferred): {record.pending}",
            reason="a command is pending, no tool process runs, and permission is asked on its stdin",
            inferred=True,
            doubt=record.pending,
        )


def spent_in(path: str, id: str, recorded: float | None) -> tuple[Tokens | None, float | None]:
    """Its tokens, and what it has cost: the running total that a fork goes on with is not its own."""
    from agentctl.agents import claude_code_usage
    from agentctl.agents.counting import total_in

    total, forked = total_in(path, id, claude_code_usage.count)
    return total.tokens, total.cost_usd if forked else recorded
