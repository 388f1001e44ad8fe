"""The values that flow through agentctl. Frozen and plain: nothing here reads or decides. A session is never stored:
these values live for one query and are thrown away."""

from __future__ import annotations

from agentctl.fast.value import Value as Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self, TypeVar

    Member = TypeVar("Member")

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
STRANGER = "stranger"  # no agent recognises it, and it may be one all the same: it only stands against a firm end

EXACT, SOLE = "exact", "sole"
ELSEWHERE = "@"  # between the boot and the PID namespace of a key that was recorded in another one


class ProcessKey(tuple[str, int, int]):
    """Which process, and not only which pid: pids are reused, start times of one boot are not.

    `start` is field 22 of /proc/<pid>/stat on Linux (clock ticks after boot), microseconds elsewhere.
    Not guaranteed: two processes that were given the same pid within one tick (10 ms).

    A pid means something only in its PID namespace. The boot of a key that was recorded in another namespace also names
    that namespace (`recorded_in`), so no key of our own process table ever equals it.
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

    @property
    def namespace(self) -> str | None:
        """The PID namespace that the key was recorded in, if that is another one than ours."""
        number = self[0].partition(ELSEWHERE)[2]
        return f"pid:[{number}]" if number else None

    def recorded_in(self, namespace: str) -> Self:
        """Return this key as one of another PID namespace: our own process table never judges it."""
        number = namespace.removeprefix("pid:[").removesuffix("]")
        number = number if number.isascii() and number.isdigit() else "0"
        return type(self)(f"{self.boot}{ELSEWHERE}{number}", self.pid, self.start)

    def __str__(self) -> str:
        return f"{self.boot}:{self.pid}:{self.start}"

    @classmethod
    def parse(cls, text: object) -> Self | None:
        """Return the key that str() wrote; None for anything else."""
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
    """What is read of a process that may be an agent's. None = could not be read, which is never the same as empty."""

    argv: tuple[str, ...] | None = None
    exe: str | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None  # only the names that were asked for: environments hold secrets
    uid: int | None = None
    pids: tuple[int, ...] = ()  # its pid in every PID namespace it is in, outermost first
    directory: tuple[int, int] | None = None  # device and inode of its cwd, whatever that is called where it runs


class Evidence(Value):
    """One fact, where it comes from, and whether it was seen or inferred."""

    source: str  # kernel | store | launch | api | rule
    fact: str
    path: str | None = None
    pid: int | None = None
    inferred: bool = False


class Problem(Value):
    """Something that could not be read. It never stands for an absence or an end."""

    agent: str
    problem: str
    path: str | None = None


# What a gap can hide, and so which answers it blocks.
HOLDERS = "holders"  # who is on which session: no missing process proves anything in this store
SESSIONS = "sessions"  # the sessions below a folder: one that was not found may be there
RECORD = "record"  # what one session's own files say
DETAIL = "detail"  # what decides nothing: a title, a file of a process that has ended


class Gap(Value):
    """What a reader could not read. It is a value, never an empty answer: it is told as a problem, and it blocks the
    answers that it can hide. If the whole store cannot be read, `Reading.unread` says so."""

    agent: str
    why: str
    path: str
    hides: str  # HOLDERS, SESSIONS, RECORD or DETAIL
    session: str | None = None  # the one session that it concerns; None: any may be concerned

    @property
    def problem(self) -> Problem:
        return Problem(self.agent, self.why, self.path)


class Tokens(Value):
    """Token counts of a session or a call. None = the agent does not say."""

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
    ending: str | None = None  # what the store says about how it ended; it counts only once its process is gone
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
    # (when it was written in ns, size) of its file, if the store looked that up together with the record.
    stamp: tuple[int, int] | None = None
    evidence: tuple[Evidence, ...] = ()


class Showing(Value):
    """A live process whose screen shows a session that another process holds: the agent's own daemon."""

    key: ProcessKey
    strength: str = EXACT  # SOLE: inferred
    why: str = ""


class Question(Value):
    """What a session asks a person: None = its store does not say. `own`: the agent's id of it; `id`: ours."""

    kind: str | None  # permission | question | plan
    tool: str | None = None
    summary: str | None = None
    detail: Mapping[str, Any] | None = None  # command; path and diff; plan; questions; url; input
    options: tuple[str, ...] | None = None
    asked_at: float | None = None
    by: str | None = None  # "main", or the id of the sub-agent that asks
    answerable: object = None
    own: str | None = None
    id: str = ""


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
    noted: bool = False  # a file says so, which can be copied or outlive what it says; the kernel does not
    left: str | None = None  # why its process, which lives, is not on this session any more
    since: float | None = None  # when it began to do what it does, by its store
    doing: str | None = None  # the tool that runs, or the prompt that it works on, by its store
    screens: tuple[Showing, ...] = ()  # the clients of this process that show the session; the first one is proved best
    cwd: str | None = None  # of the session, by the process itself: its own directory may be another one
    began: float | None = None  # when the session began, if there is no record of it yet
    lived_at: float | None = None  # a moment at which this very process lived, by the clock of then
    asks: tuple[Question, ...] = ()  # if it waits for a person


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
    proof: bool = False  # of a stranger: a file of the store is open in it
    says_so: bool = False  # of a stranger: its arguments say that it is this agent
    lost: bool = False  # it has a store that cannot be found
    shows: frozenset[str] = frozenset()  # sessions that a person may have open on its screen, without a trace of it
    unlikely: frozenset[str] = frozenset()  # in mid-turn: it can be on them, only its directory or words speak against


class Supervisor(Value):
    """An agent's own daemon that still has a session as unfinished and may bring it back."""

    agent: str
    id: str
    key: ProcessKey
    why: str
    path: str | None = None


class StoreView(Value):
    """A store as the judge sees it."""

    agent: str
    root: str
    incomplete: str | None = None  # why a missing process proves nothing here
    unread: str | None = None  # why nothing could be read
    unseen: tuple[tuple[str, str], ...] = ()  # sessions for which alone a missing process proves nothing, and why


class Launcher(Value):
    """Who started a launch, as far as that was known then."""

    process: ProcessKey | None = None  # of the agent that did, else of what ran the command
    agent: str | None = None
    session: str | None = None  # of that agent; None: a person, or no session that was known
    launch: str | None = None  # the launch that it descends from itself
    depth: int = 0  # how many launches and agents are above it; 0: a person started it


class Launch(Value):
    """What only the launcher knew, written down before the agent started. It never says whether the agent lives."""

    id: str
    agent: str
    argv: tuple[str, ...]  # without what looks like a secret key
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
    worktree: str | None = None  # the one that we made for it, with this branch
    branch: str | None = None
    base: str | None = None  # the commit that it began with
    repository: str | None = None  # its git folder
    slot: str | None = None  # its name in its group
    session_id: str | None = None  # if we chose it; for a launch in a terminal also the one that it began with
    time_limit: float | None = None
    path: str | None = None
    launcher: Launcher | None = None  # None: the record does not say
    directory: tuple[int, int, int | None] | None = None  # of `cwd`: device, inode, when it was made, as far as noted
    wrapper: str | None = None  # the program that was started, if that is not the agent itself
    store: str | None = None  # where its agent keeps its sessions; None: the record does not say


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
    time_limit: float | None = None  # seconds: the limit of the launch, if it was over before this end


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
    timed_out: bool = False  # the time limit of its launch was over, and its runner stopped it
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
    may_be_open_in: tuple[int, ...] = ()  # pids: no process is proved to be on it, and these may be, or may show it
    doing: str | None = None  # of a live session: the tool that runs, the prompt that it works on, ...
    status_since: float | None = None  # by its store: the turn was begun, a person was asked, the turn ended
    # The clients of a daemon that show it, each with pid, key, link and tty; the first one is proved best.
    screens: tuple[dict[str, Any], ...] = ()
    questions: tuple[Question, ...] = ()


class Unattached(Value):
    """A live process that an agent claims and no session explains. It is shown, never dropped, never made a session."""

    agent: str
    pid: int | None  # None: a launch of another PID namespace, which we cannot see
    cwd: str | None
    why: str
    candidates: tuple[str, ...] = ()
    launch_id: str | None = None
    lost: bool = False  # its store cannot be found: nobody knows what it does


class Elsewhere(Value):
    """A live process of an agent that works for another HOME or another user: its sessions are not looked for."""

    agent: str
    pid: int


class Left(Value):
    """A live process that a tool of a killed session started."""

    pid: int
    comm: str
    agent: str | None = None  # None: of the session that was asked for
    session: str | None = None


class Judgement(Value):
    """What the judge returns: every session, and the live processes that no session explains."""

    sessions: tuple[Session, ...]
    unattached: tuple[Unattached, ...]


class Answer(Value):
    """What a query returns: the sessions, the live processes that no session explains, and what could not be read."""

    sessions: tuple[Session, ...]
    unattached: tuple[Unattached, ...]
    problems: tuple[Problem, ...]
    looked_at: tuple[str, ...] = ()  # every source consulted, for `why`
    not_shown: tuple[Elsewhere, ...] = ()
    tools_left: tuple[Left, ...] = ()  # asked for one session that was killed in mid-turn


def status_word(process: str, turn: str) -> str:
    """Return the one word for people, from the two axes (README.md has the table)."""
    if process == ALIVE:
        return ALIVE_WORDS.get(turn, "alive")
    return GONE_WORDS.get(turn, "unknown") if process == GONE else "unknown"


def terminal_of(tty: int) -> dict[str, str | None] | None:
    """Return the terminal of a process, from the device number in its row."""
    major, minor = (tty >> 8) & 0xFFF, (tty & 0xFF) | ((tty >> 12) & 0xFFF00)
    if 136 <= major <= 143:
        return {"tty": f"/dev/pts/{minor + (major - 136) * 256}", "tmux": None}
    return {"tty": f"/dev/tty{minor}", "tmux": None} if major == 4 and minor < 64 else None


def top_of(member: Member, parents: Mapping[Member, Member]) -> Member:
    """Return who is at the top of the line above a member; in a circle, the first that comes twice."""
    seen: set[Member] = set()
    while member in parents and member not in seen:
        seen.add(member)
        member = parents[member]
    return member
