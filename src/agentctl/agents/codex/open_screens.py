"""The live screens of Codex, and which thread of the daemon each shows. screens.py decides; this asks."""

from __future__ import annotations

import os

from agentctl.agents.codex.adapter import ADAPTER, may_be_client
from agentctl.agents.codex.rollout import read_head
from agentctl.agents.codex.screens import Held, Screen, shown_on
from agentctl.files.bounded import Opened, real_path
from agentctl.model import AGENT, EXACT, Evidence, Showing, Value, terminal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentctl.agents.codex.screens import Seen
    from agentctl.agents.codex.socket import Told
    from agentctl.kernel.processes import Processes
    from agentctl.model import Details, Link, Process, ProcessKey

    RolloutOf = Callable[[str], str | None]

OPENED = "tui-thread-reference-capabilities"  # a file for each thread, written when a screen opens it
LOCKS = "thread-writer-locks"  # a file for each thread, made when a process takes it up
SCREEN = "codex-tui"  # the originator of a thread that a screen began


class Screens(Value):
    """The screens that leave their threads to a daemon."""

    shows: Mapping[ProcessKey, Seen] = {}  # the thread that a screen shows, as far as that is known
    busy: frozenset[ProcessKey] = frozenset()  # those that show a thread, known or not


def clients(root: str, processes: Processes) -> list[Process]:
    """Return the live processes that leave their threads to the daemon of this store."""
    found = []
    for process in processes.named(lambda name: name.startswith("codex")):
        details = processes.details(process)
        if details is None or ADAPTER.claims(process, details) != AGENT or not is_of_store(details, root):
            continue
        if may_be_client(details.argv or ()):
            found.append(process)
    return found


def screens_of(
    root: str, held: Sequence[str], told: Mapping[str, Told], rollout_of: RolloutOf, processes: Processes
) -> Screens:
    """Return which screens show which thread. `held`: the threads that the daemon holds; `told`: what it says of
    them."""
    screens = [screen_of(process, processes) for process in clients(root, processes)]
    if not screens:
        return Screens()
    threads = [thread_of(root, id, told.get(id), rollout_of(id)) for id in held if not is_sub_agent(told.get(id))]
    shows, busy = shown_on(screens, threads)
    return Screens(shows, frozenset(busy))


def is_sub_agent(told: Told | None) -> bool:
    """Return whether a thread is a sub-agent: it is loaded with the address of its parent's screen."""
    return told is not None and told.parent is not None


def screen_of(process: Process, processes: Processes) -> Screen:
    details = processes.details(process)
    words = frozenset(details.argv or ()) if details is not None else frozenset()
    return Screen(process.key, processes.started_at(process.key), frozenset(processes.ports(process)), words)


def thread_of(root: str, id: str, told: Told | None, rollout: str | None) -> Held:
    opened, loaded = written_at(f"{root}/{OPENED}/{id}"), written_at(f"{root}/{LOCKS}/{id}.lock")
    return Held(id, opened, is_of_a_screen(rollout), loaded, told.port if told is not None else None)


def is_of_store(details: Details, root: str) -> bool:
    own = ADAPTER.roots(details.env or {})[0]
    return details.env is None or real_path(os.path.join(details.cwd or "/", own)) == real_path(root)


def written_at(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def is_of_a_screen(path: str | None) -> bool:
    """Return whether a screen began this thread. One that was never prompted can only be a screen's."""
    if path is None:
        return True
    try:
        with Opened(path) as file:
            head = read_head(file)
            return head.originator == SCREEN and head.parent is None
    except OSError:
        return False


def with_screens(links: Iterable[Link], screens: Screens, told: Mapping[str, Told], processes: Processes) -> list[Link]:
    """Return the links of a daemon with the screens that show their threads, and what the daemon says of each."""
    found = []
    for link in links:
        answer = told.get(link.id)
        showing = [Showing(key, seen.strength, seen.why) for key, seen in screens.shows.items() if seen.id == link.id]
        showing.sort(key=lambda one: (one.strength != EXACT, one.key))
        facts = tuple(fact_of(one, answer, processes) for one in showing)
        link = link._replace(screens=tuple(showing), evidence=(*link.evidence, *facts))
        found.append(link._replace(cwd=answer.cwd) if answer is not None else link)
    return found


def fact_of(showing: Showing, told: Told | None, processes: Processes) -> Evidence:
    pid = showing.key.pid
    row = processes.alive(showing.key)
    tty = (terminal_of(row.tty) or {}).get("tty") if row is not None else None
    where = f" ({tty})" if tty else ""
    inferred = showing.strength != EXACT
    if told is not None and told.port is not None and not inferred:
        return Evidence("kernel", f"pid {pid}{where} shows it: {showing.why} (127.0.0.1:{told.port})", pid=pid)
    return Evidence("store", f"pid {pid}{where} shows it: {showing.why}", pid=pid, inferred=inferred)
