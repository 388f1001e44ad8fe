"""What an agent's package offers, with defaults: an adapter writes only what is special about its agent.

`adapter.py` holds an `Agent`: how its processes look and where its stores are. `store.py` holds a `Store`: which
process is on which session, and what its files say about a session. Neither says whether a process lives: the judge
does, from the kernel. What must be written is abstract; everything else has a default that claims nothing.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from agentctl.agents.activity import Moments, with_activity
from agentctl.files.reader import Reader
from agentctl.model import Page, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.files.record_cache import Derived
    from agentctl.kernel.processes import Processes
    from agentctl.model import Details, Link, Message, Problem, Process, Question, Supervisor


# Makes a Record of positional values, for stores that make thousands of them.
new_record = Record._in_order(
    "agent id store turn reason error pending pending_tool pending_id ending inferred path cwd branch model title "
    "prompt version started_at updated_at tokens cost_usd parent forked_from policy written_at fresh stamp evidence"
)
NO_MOMENTS = Moments()
FEW_DIGITS = 4  # different ones among eight: random digits have so few in one of 140 cases
OWN_HOME: list[str] = []  # by the list of users, once it is known
STARTED_IN = "PWD"  # the variable by which a shell tells a program its directory, which may be renamed later
FINISHING = "its turn is over, and its process is about to end"  # of a live process that was started for one turn


class Agent(ABC):
    """How an agent's processes look, and where its stores are."""

    NAME: str
    ALIASES: tuple[str, ...] = ()
    BINARIES: tuple[str, ...] = ()  # what a person types, for `agents`
    ENV: tuple[str, ...] = ("HOME",)  # the only environment variables of its processes that are read
    CERTIFIED: tuple[str, ...] = ()  # the versions whose behaviour was measured
    RUNS_MANY: bool = False  # a process that is on one session may be on another, too
    # May a process of any name be on a session by its directory, arguments and start? Not if its processes keep a file
    # of the store open, or a lock that the kernel lists: then that tells.
    BY_DIRECTORY: bool = False
    TOOL_ENV: str | None = None  # the variable that names the session, in the environment of its tools; one of ENV
    PACKAGES: tuple[str, ...] = ()  # its npm packages: a script of another package is not the agent
    # What tells which store a process works in, besides its environment, which is only a hint:
    KEEPS_OPEN: bool = False  # it keeps files of its store open: see store_with()
    WATCHES: bool = False  # it watches the folder of its store: the kernel says which folders a process watches

    @abstractmethod
    def looks_like(self, comm: str) -> bool:
        """Return whether a process of this name could be the agent's. Cheap: it decides whether its argv is read."""

    @abstractmethod
    def claims(self, process: Process, details: Details) -> str | None:
        """Return the role of this process, or None if it is not the agent's. Its name, argv and exe decide, whatever
        else the details hold."""

    def executes(self, details: Details) -> bool:
        """Return whether what a process executes is proved to be the agent: by its executable, or by the script that
        its interpreter runs. Its name and the first word of its argv prove nothing: every process can choose them.
        Default: its executable has the name of one of BINARIES."""
        return os.path.basename(details.exe or "") in self.BINARIES

    def is_named_in(self, argv: Sequence[str]) -> bool:
        """Return whether the arguments of a process name the agent's program or script. That proves nothing, but such a
        process may run the agent, whatever its executable is called. Default: a word has a name of BINARIES."""
        return any(os.path.basename(word) in self.BINARIES for word in argv)

    @abstractmethod
    def roots(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return where an agent with this environment keeps its store; first the place that its processes use. A path
        is as the agent itself makes it: a relative one is meant from the directory of the process, and `..` is left
        to the kernel, unless the agent removes it itself."""

    def store_with(self, path: str, env: Mapping[str, str]) -> str | None:
        """Return the store that a file of this path is in, which a process with this environment has open; None if that
        is no file of a store, by its name. Default: no file tells."""
        return None

    def is_store(self, root: str) -> bool:
        """Return whether a folder looks like a store. Asked of folders that a process watches, and nothing names."""
        return False

    @abstractmethod
    def open_store(self, root: str) -> Store:
        """Return the store at this root. Its module is imported here, so that an agent that was never used costs
        nothing."""


class Store(ABC):
    """One root of one agent, read for one query.

    The query calls in this order: survey, (the process snapshot), links, supervisors, candidates, record, observe (of
    the links above, then of those that the judge infers from the candidates). So every `record` is read after the
    snapshot: how a session ended is judged from bytes that are newer than its death.
    """

    def __init__(self, root: str, agent: str = "") -> None:
        self.root = root
        self.reader = Reader(agent, root)  # lists and reads its files, and notes what could not be read
        self.problems: list[Problem] = []  # what was read and makes no sense
        self.elsewhere: tuple[str, ...] = ()  # what its files name as the store of its processes instead
        self.moments: dict[str, Moments] = {}  # by session: what its records say of its last turn
        self.derived: Derived | None = None  # given when many records are asked for: what unchanged files said before

    def told(self) -> tuple[Problem, ...]:
        """Return all that could not be read up to now, or makes no sense."""
        return (*(gap.problem for gap in self.reader.gaps), *self.problems)

    # Who is here

    def survey(self) -> None:
        """Read the small files that name processes, before the snapshot. Raises OSError if the store cannot be read."""
        os.listdir(self.root)  # an unreadable store is an error, not an empty one

    def names(self, process: Process) -> bool:
        """Return whether a file that the survey has read names this very process. Default: none does."""
        return False

    def session_folders(self) -> Sequence[str]:
        """Return the top folders of its sessions. If there is something else in the place of one, that is a gap. The
        query looks after `links`: a folder on a dead disk must not hide who is alive. Default: none."""
        return ()

    def links(self, processes: Processes) -> list[Link]:
        """Return which process is on which session, each with its proof. Default: the agent proves none."""
        return []

    def supervisors(self, processes: Processes) -> list[Supervisor]:
        """Return the agent's own daemons that would bring a dead session back. Default: it has none."""
        return []

    def role(self, process: Process, details: Details, role: str, processes: Processes) -> str:
        """Return the role of a claimed process, with what only the store knows. Default: what `claims` said."""
        return role

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        """Return the sessions that a live process without a link can be on. Default: it may be on any."""
        return Candidates(None, sole=False, why="its agent does not say which session it is on")

    def possible(self, process: Process, started_at: float) -> Iterable[str]:
        """Return the sessions in mid-turn that facts alone allow a live process without a link to be on; asked if
        `candidates` narrows them down by hints, such as its directory or its arguments. Default: none but those."""
        return ()

    def candidates_by_files(
        self, paths: Sequence[str], process: Process, details: Details, started_at: float
    ) -> Candidates:
        """Return the sessions that a process can be on that no name gives away, or that its words make a client, and
        that has these files of the store open for writing. Default: any."""
        return Candidates(None, sole=False, why="a file of the store is open in it")

    def candidates_of_a_stranger(self, process: Process, details: Details, started_at: float) -> Candidates:
        """Return the sessions that a process can be on that no name gives away, by its directory, arguments and start;
        asked if BY_DIRECTORY, and of agents of other users, into which we may not look. Default: those that a process
        of the agent in its place could be on."""
        return self.candidates(process, details, started_at)

    def screen(self, process: Process, details: Details) -> Iterable[str]:
        """Return the sessions that a person may have opened on the screen of this process, if that leaves no trace.
        Default: none, because a process that opens a session is linked with it, or has it among its candidates."""
        return ()

    def observe_ended(self, link: Link, record: Record | None) -> Link:
        """Return the link of a process that has ended, and was at work by its own word, with the reason why the end of
        the last turn in its record is not the end of that work, if there is one."""
        return link

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        """Return the link with what this live process does, if only process and record together tell. Default: the
        record alone tells."""
        return link

    def activity(self, link: Link, record: Record | None) -> Link:
        """Return an observed link with what its process does, and since when. Default: by its record and `moments`,
        which the store notes when it reads a record."""
        return with_activity(link, record, self.moments.get(link.id, NO_MOMENTS))

    def questions(self, link: Link, record: Record | None) -> tuple[Question, ...]:
        """Return what the process of a link, which waits for a person, asks. It may read more than a record has: few
        sessions wait. Default: only its words are known."""
        from agentctl.agents.asking import vague

        return vague(link, None)

    # What the store says of a session

    @abstractmethod
    def recent(self, since: float) -> Iterable[str]:
        """Yield the ids of the stored sessions that were written at or after this moment."""

    @abstractmethod
    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        """Return what the files say of a session; None if the store does not have it."""

    def find(self, prefix: str) -> Iterable[str]:
        """Return the ids, sub-agents included, that begin like this. Default: looks through all of them."""
        return {id for id in self.recent(0.0) if id.startswith(prefix)}

    def alike(self, heads: Sequence[str]) -> Iterable[str]:
        """Return the ids, sub-agents included, that begin with one of these. An agent whose ids begin with their time
        answers without listing all of them. Default: looks through all of them."""
        return {id for head in heads for id in self.find(head)}

    def has(self, id: str) -> bool:
        """Return whether a session of this very id is where such a one belongs. An agent with many sessions answers
        without listing all of them: find() looks for the rest. Default: looks through all of them."""
        return id in self.find(id)

    def children(self, id: str) -> Sequence[str]:
        """Return the ids of a session's sub-agents. Default: it has none."""
        return ()

    def watched(self, id: str) -> Sequence[str]:
        """Return the paths whose change may mean that this session changed: files, folders, the socket of a daemon that
        knows more. They only cause another look. Default: the store's folder."""
        return (self.root,)

    def directories(self, id: str) -> Sequence[str]:
        """Return the directories that a session was in lately, by its records, the newest first: it may work in each.
        Default: those that the end of its transcript names."""
        from agentctl.agents import jsonl

        path = self.transcript(id)
        return jsonl.directories(path) if path else ()

    # Its messages, for a transcript of one JSON object per line

    def transcript(self, id: str) -> str | None:
        """Return the path of a session's transcript. Default: there is none that can be shown."""
        return None

    def messages_in(self, line: bytes) -> Sequence[Message]:
        """Return the messages in one line of a transcript. Default: none."""
        return ()

    def messages(self, id: str, count: int) -> Page:
        """Return the newest messages of a session. Default: from the end of its transcript, however long it is."""
        from agentctl.agents import jsonl

        path = self.transcript(id)
        return jsonl.newest(path, count, self.messages_in) if path else Page(())

    def messages_after(self, id: str, cursor: object) -> Page:
        """Return the messages that were added since this cursor. Default: from its transcript."""
        from agentctl.agents import jsonl

        path = self.transcript(id)
        return jsonl.after(path, cursor, self.messages_in) if path else Page((), cursor)


class Candidates:
    """The sessions that a live process without a link can be on."""

    __slots__ = ("ids", "sole", "why")

    def __init__(self, ids: tuple[str, ...] | None, *, sole: bool, why: str) -> None:
        self.ids = ids  # None: they cannot be narrowed down
        self.sole = sole  # may a single candidate be taken for its session?
        self.why = why


def is_random(id: str) -> bool:
    """Return whether this is a UUID of random digits (version 4), as far as one can see: a person who chooses one
    repeats digits."""
    return len(id) == 36 and id[14] == "4" and id[19] in "89ab" and len({*id[:8]}) >= FEW_DIGITS


def refused_calls(count: int) -> str:
    """Return how a reason says that this many tool calls were refused."""
    return f"{count} tool calls were refused" if count > 1 else "1 tool call was refused"


def home(env: Mapping[str, str]) -> str:
    """Return HOME as a program sees it: the variable, or the passwd entry if it is unset."""
    return env.get("HOME") or home_of_user()


def home_of_user() -> str:
    """Return our home in the list of users. It is read once: every process without HOME has this one."""
    if not OWN_HOME:
        import pwd

        try:
            OWN_HOME.append(pwd.getpwuid(os.getuid()).pw_dir.rstrip("/") or "/")
        except KeyError:
            return "~"
    return OWN_HOME[0]


def script_of(argv: Sequence[str], interpreters: tuple[str, ...] = ("node", "nodejs")) -> str | None:
    """Return the script that an interpreter runs, perhaps an empty one; None if this is another program."""
    if not argv or os.path.basename(argv[0]) not in interpreters:
        return None
    return argv[1] if len(argv) > 1 else ""


def before_text(words: Sequence[str]) -> Sequence[str]:
    """Return the words that can be options or commands: what follows `--` is text."""
    return words[: words.index("--")] if "--" in words else words


def option(argv: Sequence[str] | None, *flags: str) -> str | None:
    """Return the value of an option in an agent's argv: `--flag value` or `--flag=value`."""
    for index, word in enumerate(before_text(argv or ())):
        if word in flags:
            return argv[index + 1] if argv and index + 1 < len(argv) else None
        name, equals, value = word.partition("=")
        if equals and name in flags:
            return value
    return None
