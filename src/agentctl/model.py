"""The values that flow through agentctl. Frozen and plain: nothing here reads or decides.

A session is never stored: these values live for one query and are thrown away.
"""

from __future__ import annotations

from agentctl.values import Value as Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

# The words of the two axes and the word for people. Plain strings, so that JSON and Python agree.
ALIVE, GONE, UNKNOWN = "alive", "gone", "unknown"
WORKING, WAITING, IDLE = "working", "waiting", "idle"
DONE, FAILED, INTERRUPTED = "done", "failed", "interrupted"
CLOSED_TURNS = (DONE, FAILED, INTERRUPTED)

PROCESS_WORDS = (ALIVE, GONE, UNKNOWN)
TURN_WORDS = (WORKING, WAITING, IDLE, DONE, FAILED, INTERRUPTED, UNKNOWN)
ALIVE_WORDS = {WORKING: "running", WAITING: "waiting", IDLE: "idle"}
GONE_WORDS = {DONE: "done", FAILED: "failed", INTERRUPTED: "stopped"}
STATUS_WORDS = ("waiting", "running", "idle", "alive", "unknown", "failed", "stopped", "done")

# What a process is to its agent. Only an agent, or a spare that its daemon's roster names, can be on a session.
AGENT, WRAPPER, CLIENT, DAEMON, SPARE, HELPER = "agent", "wrapper", "client", "daemon", "spare", "helper"

EXACT, SOLE = "exact", "sole"


class ProcessKey(tuple[str, int, int]):
    """Which process, and not only which pid: pids are reused, start times of one boot are not.

    `start` is field 22 of /proc/<pid>/stat on Linux (clock ticks after boot), microseconds elsewhere.
    Not guaranteed: two processes that were given the same pid within one tick (10 ms).
    """

    __slots__ = ()

    def __new__(cls, boot: str, pid: int, start: int) -> Self:
        return super().__new__(cls, (boot, pid, start))

    @property
    def boot(self) -> str:
        return self[0]

    @property
    def pid(self) -> int:
        return self[1]

    @property
    def start(self) -> int:
        return self[2]

    def __str__(self) -> str:
        return f"{self.boot}:{self.pid}:{self.start}"

    @classmethod
    def parse(cls, text: object) -> Self | None:
        """The key that str() wrote; None for anything else."""
        words = text.split(":") if isinstance(text, str) else ()
        if len(words) != 3:
            return None
        boot, pid, start = words
        digits = pid + start
        numbers = pid and start and digits.isascii() and digits.isdigit() and len(pid) < 20 and len(start) < 20
        return cls(boot, int(pid), int(start)) if boot and numbers and int(pid) > 0 else None


class Process(Value):
    """One row of the kernel's process table."""

    key: ProcessKey
    parent: int
    comm: str
    state: str
    dead: bool = False  # a zombie, or being buried: the key is still in the table, the process is not
    tty: int = 0

    @property
    def pid(self) -> int:
        return self.key.pid

    @property
    def suspended(self) -> bool:
        return self.state == "T"


class Details(Value):
    """What is read only of candidates. None = could not be read, which is never the same as empty."""

    argv: tuple[str, ...] | None = None
    exe: str | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None  # only the names that were asked for: environments hold secrets
    uid: int | None = None
    pids: tuple[int, ...] = ()  # its pid in every PID namespace it is in, outermost first


class Evidence(Value):
    """One fact, where it comes from, and whether it was seen or inferred."""

    source: str  # kernel | store | launch | api | rule
    fact: str
    path: str | None = None
    pid: int | None = None
    inferred: bool = False


class Problem(Value):
    """Something that could not be read. Never an absence, never an end."""

    agent: str
    problem: str
    path: str | None = None


class Tokens(Value):
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


class Message(Value):
    """One entry of a conversation, as a person would read it."""

    role: str  # user | assistant | tool | result | note
    text: str
    at: float | None = None
    tool: str | None = None
    failed: bool = False


class Page(Value):
    """Messages in order, and where to go on reading. The cursor is the store's own; only it can read it."""

    messages: tuple[Message, ...]
    cursor: object = None
    restarted: bool = False  # the transcript was replaced or cut: these are from its beginning


class Record(Value):
    """What an agent's own store says about one session. It never says whether its process lives.

    `turn` is how the last turn stands on disk: WORKING (begun, no end recorded), DONE, FAILED, INTERRUPTED,
    IDLE (no turn was ever begun) or UNKNOWN (could not be read).
    """

    agent: str
    id: str
    store: str
    turn: str = UNKNOWN
    reason: str | None = None
    error: str | None = None
    pending: str | None = None  # what an unanswered tool call would do: shown when the session waits
    pending_tool: str | None = None
    pending_id: str | None = None
    ending: str | None = None  # what the store tells about how it ended; only of use once its process is gone
    inferred: bool = False
    path: str | None = None
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    title: str | None = None
    prompt: str | None = None
    version: str | None = None
    started_at: float | None = None
    updated_at: float | None = None
    tokens: Tokens | None = None
    cost_usd: float | None = None
    parent: str | None = None
    forked_from: str | None = None
    policy: str | None = None  # the agent's own word for when it asks
    # When it was last written, by its own rows: its file is shared with other sessions. None = its file says.
    written_at: float | None = None
    fresh: bool = False  # written after the process table was read: its writer may be in no table yet
    # (when it was written in ns, size) of its file, where that was looked up with it and not later. None: not yet.
    stamp: tuple[int, int] | None = None
    evidence: tuple[Evidence, ...] = ()


class Link(Value):
    """Which process is (or was) on which session, how that is proved, and what the process itself says it does.

    Whether `key` lives is not part of a link: the judge asks the process table.
    """

    agent: str
    id: str
    store: str
    key: ProcessKey
    how: str
    strength: str = EXACT
    path: str | None = None
    # True: the key is proved to be of this boot and PID namespace; False: of another; None: it does not say.
    # A missing process is a proof of its end only with True, or with None in a complete store.
    here: bool | None = True
    turn: str | None = None  # None = it does not say; the record decides
    waiting_for: str | None = None
    reason: str | None = None
    inferred: bool = False
    doubt: str | None = None  # two states look alike at this moment: look again before answering
    evidence: tuple[Evidence, ...] = ()


class Claim(Value):
    """A live process that an agent recognises as its own."""

    agent: str
    key: ProcessKey
    role: str
    store: str | None  # the store it works in; None = its environment is not readable: it may be any
    candidates: tuple[str, ...] | None = ()  # sessions it can be on; None = cannot be narrowed
    sole: bool = False  # may a single candidate be taken for its session?
    many: bool = False  # it may be on several at once: being on one, or being a daemon, does not rule out another
    shown: bool = True  # of this HOME: an unattached line if nothing explains it
    cwd: str | None = None
    why: str = ""


class Supervisor(Value):
    """An agent's own daemon that still has a session as unfinished and may bring it back."""

    agent: str
    id: str
    key: ProcessKey
    why: str
    path: str | None = None


class StoreView(Value):
    agent: str
    root: str
    incomplete: str | None = None  # why a missing process proves nothing here
    unread: str | None = None  # why nothing could be read


class Launch(Value):
    """What only the launcher knew, as it was written before the agent started. It never says whether that lives."""

    id: str
    agent: str
    argv: tuple[str, ...]  # known patterns of keys are taken out
    env_names: tuple[str, ...]  # never the values
    cwd: str
    runner: ProcessKey
    child: ProcessKey
    created_at: float
    headless: bool
    one_shot: bool
    pid_namespace: str | None = None  # where these pids mean something
    prompt: str | None = None
    group: str | None = None
    spec: str | None = None
    hooks: tuple[tuple[str, str], ...] = ()
    worktree: str | None = None  # that was made for it, with this branch
    branch: str | None = None
    base: str | None = None  # the commit that it began with
    repository: str | None = None  # its git folder
    slot: str | None = None  # its name in its group
    session_id: str | None = None  # where it was chosen by us; of a screen also the one that it began with
    time_limit: float | None = None
    path: str | None = None


class Written:
    """A launch whose record is whole, and is taken apart only where it matters: every command reads hundreds of them,
    and most are of no session that is asked for."""

    def __init__(
        self,
        agent: str,
        child: ProcessKey,
        path: str,
        session_id: str | None,
        told_by: str,
        one_shot: bool,
        take_apart: Callable[[], Launch],
    ) -> None:
        self.agent = agent
        self.child = child
        self.path = path
        self.session_id = session_id
        self.told_by = told_by  # the file that its session was looked for in last
        self.one_shot = one_shot
        self._take_apart = take_apart
        self._launch: Launch | None = None

    @property
    def launch(self) -> Launch:
        if self._launch is None:
            self._launch = self._take_apart()
        return self._launch


class Exit(Value):
    """How one process of a launch ended, as its runner saw it."""

    key: ProcessKey | None
    comm: str | None
    exit_code: int | None
    signal: str | None
    at: float | None
    direct: bool = False  # the agent's own process, not one that it left behind
    error: str | None = None  # why the agent was never executed
    cpu_seconds: float | None = None
    max_rss: int | None = None  # KiB


class Session(Value):
    """One session as judged at one moment. What is not known is None: never guessed, never 0."""

    id: str
    agent: str
    status: str
    process: str
    turn: str
    agent_version: str | None = None
    last_turn: str | None = None
    reason: str | None = None
    error: str | None = None
    waiting_for: str | None = None
    pid: int | None = None
    process_key: str | None = None
    processes: tuple[dict[str, object], ...] = ()
    suspended: bool = False
    terminal: dict[str, str | None] | None = None
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    title: str | None = None
    prompt: str | None = None
    started_at: float | None = None
    updated_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    tokens: Tokens | None = None
    cost_usd: float | None = None
    parent: str | None = None
    forked_from: str | None = None
    group: str | None = None
    slot: str | None = None  # its name in its group
    launch_id: str | None = None
    host: str | None = None
    inferred: bool = False
    link: str | None = None
    evidence: tuple[Evidence, ...] = ()
    # For `why`: the rule that decided, and what was looked at and set aside.
    rule: str = ""
    rejected: tuple[str, ...] = ()
    store: str | None = None
    path: str | None = None


class Unattached(Value):
    """A live process that an agent claims and no session explains: shown, never dropped, never made a session."""

    agent: str
    pid: int
    cwd: str | None
    why: str
    candidates: tuple[str, ...] = ()
    launch_id: str | None = None


class Judgement(Value):
    sessions: tuple[Session, ...]
    unattached: tuple[Unattached, ...]


class Answer(Value):
    """What a query returns: the sessions, the live processes that no session explains, and what could not be read."""

    sessions: tuple[Session, ...]
    unattached: tuple[Unattached, ...]
    problems: tuple[Problem, ...]
    looked_at: tuple[str, ...] = ()  # every source consulted, for `why`


def status_word(process: str, turn: str) -> str:
    """The one word for people, from the two axes (docs/architecture.md has the table)."""
    if process == ALIVE:
        return ALIVE_WORDS.get(turn, "alive")
    return GONE_WORDS.get(turn, "unknown") if process == GONE else "unknown"


def terminal_of(tty: int) -> dict[str, str | None] | None:
    """The terminal of a process, from the device number in its row."""
    major, minor = (tty >> 8) & 0xFFF, (tty & 0xFF) | ((tty >> 12) & 0xFFF00)
    if 136 <= major <= 143:
        return {"tty": f"/dev/pts/{minor + (major - 136) * 256}", "tmux": None}
    return {"tty": f"/dev/tty{minor}", "tmux": None} if major == 4 and minor < 64 else None
