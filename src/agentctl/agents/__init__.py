"""The agents: one module each, and the module is the adapter.

An agent module says how its processes look (`looks_like`, `claims`), where its stores are (`roots`) and opens one
(`open_store`). The store says which process is on which session (`links`) and what its files say about a session
(`record`). It never says whether a process lives: that is the judge's, from the kernel.

How it is started and stopped is in a second module beside it, `<module>_control` (`Control`): only those who act import
it. What its sessions have spent is in a third, `<module>_usage` (`Usage`): only those who count import it.

A new agent is these modules, one line in TABLE, fixtures, and a row in the contract test (docs/adding-an-agent.md).
"""

from __future__ import annotations

import os

from agentctl.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from agentctl.agents.counting import Counted, Folder, Source
    from agentctl.derived import Derived
    from agentctl.model import Details, Link, Page, Problem, Process, Record, Supervisor
    from agentctl.processes import Processes
    from agentctl.recipes import Delivery, Held, Recipe, Task, Way

    class Agent(Protocol):
        """What an agent module offers."""

        NAME: str
        ALIASES: tuple[str, ...]
        BINARIES: tuple[str, ...]  # what a person types, for `agents`
        ENV: tuple[str, ...]  # the environment variables it needs to see of its processes
        CERTIFIED: tuple[str, ...]  # the versions whose behaviour was measured
        RUNS_MANY: bool  # one process, or its daemon, may run several sessions: being on one, it may be on another, too

        def looks_like(self, comm: str) -> bool:
            """Could a process of this name be one of ours? Cheap: decides whether its argv is read at all."""

        def claims(self, process: Process, details: Details) -> str | None:
            """The role of this process, or None if it is not ours: which its name, argv and exe tell, whatever else of
            the details is there."""

        def roots(self, env: Mapping[str, str]) -> tuple[str, ...]:
            """Where an agent with this environment keeps its store."""

        def open_store(self, root: str) -> Store: ...

    class Store(Protocol):
        """One root of one agent, read for one query.

        Called in this order: survey, (the process snapshot), links, supervisors, candidates, record, observe (of the
        links above, then of those that the judge infers from the candidates).
        So every `record` is read after the snapshot: how a session ended is judged from bytes newer than its death.
        """

        root: str
        problems: list[Problem]
        derived: (
            Derived | None
        )  # given where many records are asked for: what was read before, of files that are the same

        def survey(self) -> None:
            """Read the small files that name processes. Before the snapshot."""

        def links(self, processes: Processes) -> list[Link]: ...

        def supervisors(self, processes: Processes) -> list[Supervisor]: ...

        def role(self, process: Process, details: Details, role: str, processes: Processes) -> str:
            """The role of a claimed process, with what only the store knows."""

        def candidates(self, process: Process, details: Details, started_at: float) -> Candidates: ...

        def recent(self, since: float) -> Iterable[str]:
            """Ids of the stored sessions written at or after this moment."""

        def find(self, prefix: str) -> Iterable[str]:
            """Ids of the stored sessions, sub-agents included, that begin like this. May have to list all of them."""

        def has(self, id: str) -> bool:
            """Is there a session of this very id, where such a one belongs? Without listing all of them: one that is
            not there may be elsewhere, and find() tells."""

        def record(self, id: str, *, tokens: bool = False) -> Record | None: ...

        def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
            """What this live process does on this session, where only both together tell."""

        def children(self, id: str) -> Sequence[str]:
            """Ids of the sub-agents of a session."""

        def watched(self, id: str) -> Sequence[str]:
            """Paths whose change may mean that this session changed: files and folders, there or not yet, and the
            socket of whoever knows more than they show. Nothing that follows from it is believed."""

        def messages(self, id: str, count: int) -> Page:
            """The newest messages of a session, read from the end: no transcript is too long."""

        def messages_after(self, id: str, cursor: object) -> Page:
            """What was added since."""

    class Control(Protocol):
        """What an agent's control module offers: <its module>_control.py, imported by those who act."""

        SECOND_WRITER: bool  # does it allow a second process on a session that is held?

        def start(self, task: Task) -> Recipe:
            """Raises UsageError for a mode that it does not have. Nothing is run or written here."""

        def printed_id(self, output: bytes) -> str | None:
            """The session in the first bytes that a one-shot run printed; None: not yet, or it prints none."""

        def way_to_stop(self, held: Held) -> Way: ...

        def way_to_send(self, held: Held) -> Delivery | None:
            """How a live session is given a text; None: only by its terminal. Raises Refused where its screen is known
            not to be at its prompt, whatever its turn is."""

        def own_screen(self, held: Held) -> tuple[str, ...] | None:
            """The agent's own command that shows a session which its daemon holds; None: there is none."""

    class Usage(Protocol):
        """What an agent's usage module offers: <its module>_usage.py, imported by those who count."""

        def folders(self, root: str, problems: list[Problem]) -> Iterator[Folder]:
            """Everything with spending in it, by listing folders alone, each path once. What cannot be listed is a
            problem."""

        def count(self, source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None) -> Counted:
            """What a source has, or has more than when it was left with this state. `tick`: it is still reading."""


class Candidates:
    """The sessions that a live process without a link can be on."""

    __slots__ = ("ids", "sole", "why")

    def __init__(self, ids: tuple[str, ...] | None, *, sole: bool, why: str) -> None:
        self.ids = ids  # None = cannot be narrowed
        self.sole = sole  # may a single candidate be taken for its session?
        self.why = why


TABLE = {
    "claude-code": "claude_code",
    "codex": "codex",
    "demo": "demo",
    "opencode": "opencode",
}


def load(name: str) -> Agent:
    """The module of one agent, imported when first used."""
    from importlib import import_module

    module: Agent = import_module(f"agentctl.agents.{TABLE[name]}")
    return module


def load_all(names: Iterable[str] | None = None) -> list[Agent]:
    return [load(name) for name in (TABLE if names is None else names)]


def load_control(name: str) -> Control:
    from importlib import import_module

    module: Control = import_module(f"agentctl.agents.{TABLE[name]}_control")
    return module


def load_usage(name: str) -> Usage:
    from importlib import import_module

    module: Usage = import_module(f"agentctl.agents.{TABLE[name]}_usage")
    return module


def resolve(name: str) -> str | None:
    """The agent that a person means: its name or one of its aliases."""
    if name in TABLE:
        return name
    return next((agent.NAME for agent in load_all() if name in agent.ALIASES), None)


def chosen(names: Iterable[str] | None) -> tuple[str, ...] | None:
    """The agents that a person means; None: all."""
    if names is None:
        return None
    found = []
    for name in names:
        agent = resolve(name)
        if agent is None:
            raise UsageError(f"unknown agent {name!r}; known: {', '.join(TABLE)}")
        found.append(agent)
    return tuple(dict.fromkeys(found))


def home(env: Mapping[str, str]) -> str:
    """HOME as a program sees it: the variable, or the passwd entry where it is unset."""
    return env.get("HOME") or os.path.expanduser("~" if "HOME" not in os.environ else f"~{_user()}")


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def option(argv: Sequence[str] | None, *flags: str) -> str | None:
    """The value of a long or short option in somebody's argv: `--flag value` or `--flag=value`."""
    for index, word in enumerate(argv or ()):
        if word in flags:
            return argv[index + 1] if argv and index + 1 < len(argv) else None
        name, equals, value = word.partition("=")
        if equals and name in flags:
            return value
    return None


if TYPE_CHECKING:  # mypy holds every module to the protocol
    from agentctl.agents import (
        claude_code,
        claude_code_control,
        claude_code_usage,
        codex,
        codex_control,
        codex_usage,
        demo,
        demo_control,
        demo_usage,
        opencode,
        opencode_control,
        opencode_usage,
    )

    _claude_code: Agent = claude_code
    _codex: Agent = codex
    _demo: Agent = demo
    _opencode: Agent = opencode
    _claude_code_control: Control = claude_code_control
    _codex_control: Control = codex_control
    _demo_control: Control = demo_control
    _opencode_control: Control = opencode_control
    _claude_code_usage: Usage = claude_code_usage
    _codex_usage: Usage = codex_usage
    _demo_usage: Usage = demo_usage
    _opencode_usage: Usage = opencode_usage
