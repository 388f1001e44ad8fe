"""Which screens of Codex show a thread of the daemon, and which one each shows.

The default screen is a client: its daemon holds the threads. Measured with 0.166.0:
- Each screen serves tools on a port of 127.0.0.1. The daemon notes that address with each thread that a screen loads
  (begins, or resumes while nobody holds it), and tells it. So the kernel names the screen that loaded a thread.
- A screen that opens a thread (begins it, resumes it, picks it) writes `tui-thread-reference-capabilities/<thread>`,
  0.25 s after that. So the time of that file is the moment of the last opening. An opening at the moment at which the
  thread was loaded is that of the screen that loaded it. Any other opening is of a screen that nothing names.
- The daemon keeps a thread as long as a screen shows it, and a minute longer.

So a screen shows the thread that it loaded last (exact), unless a thread was opened later that it did not load: then it
may have gone there (inferred). A screen that loaded none shows the thread that its arguments name, or that it alone can
have opened (inferred). One that no opening is left for shows none: it is starting, at its picker, or at a question.

What this misses: a clock that was set back hides openings. Pure: no I/O.
"""

from __future__ import annotations

from agentctl.agents.codex.rollout import begun_at
from agentctl.model import EXACT, SOLE, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.model import ProcessKey

GRAIN = 0.05  # seconds: the kernel counts starts in hundredths, and file times come from a coarse clock
SAME = 2.0  # seconds within which loading a thread and writing its file are one opening (measured: 0.25)


class Held(Value):
    """A thread that the daemon holds."""

    id: str
    opened: float | None  # when a screen opened it last; None: no screen did, or its file is not there yet
    by_screen: bool  # a screen began it, or may have: it was never prompted
    loaded: float | None = None  # when the daemon took it up; None: not known
    port: int | None = None  # of the screen that loaded it; None: the daemon names none


class Screen(Value):
    """A live screen that leaves its threads to the daemon."""

    key: ProcessKey
    started: float
    ports: frozenset[int] = frozenset()  # that it listens on
    names: frozenset[str] = frozenset()  # the words of its arguments


class Seen(Value):
    """The thread that a screen shows."""

    id: str
    moment: float  # when it opened it
    strength: str
    why: str


class Opening(Value):
    """A screen opened a thread that it did not load, or nobody knows which screen loaded it."""

    moment: float
    id: str


LOADED = "it listens on the port that the daemon names for the screen which loaded this thread"
NAMED = "its arguments name this thread, and it loaded no other"
ALONE = "a screen opened this thread, and no other screen that lives can have done it"


def openings(threads: Iterable[Held]) -> list[Opening]:
    """Return the openings that no loading explains, the first one first."""
    found = []
    for thread in threads:
        begun = loaded_at(thread) if thread.port is not None or thread.by_screen else None
        together = thread.opened is not None and begun is not None and -GRAIN <= thread.opened - begun <= SAME
        if thread.port is None and begun is not None:
            found.append(Opening(begun, thread.id))
        if thread.opened is not None and not together:
            found.append(Opening(thread.opened, thread.id))
    return sorted(found, key=lambda opening: (opening.moment, opening.id))


def loaded_at(thread: Held) -> float | None:
    """Return when a thread was loaded. If no screen is named for it, that is when a screen began it."""
    return thread.loaded if thread.port is not None and thread.loaded is not None else begun_at(thread.id)


def shown_on(screens: Sequence[Screen], threads: Sequence[Held]) -> tuple[dict[ProcessKey, Seen], set[ProcessKey]]:
    """Return the thread that each screen shows, as far as that is known, and the screens that show any thread."""
    threads = [without_port(thread, screens) for thread in threads]
    left = openings(threads)
    seen = loaded_by(screens, threads)
    foreign = [*left]
    by_name(screens, threads, seen, left)
    busy = {*seen, *(screen.key for screen in screens if any(thread.id in screen.names for thread in threads))}
    for opening in left:
        able = [screen for screen in screens if can_have_made(screen, opening, seen)]
        free = [screen for screen in able if screen.key not in busy]
        if len(free) == 1 or (not free and len(able) == 1):
            found = (free or able)[0]
            seen[found.key] = Seen(opening.id, opening.moment, SOLE, ALONE)
            busy.add(found.key)
        elif free:  # most screens open a thread as soon as they can
            busy.add(max(free, key=lambda screen: (screen.started, screen.key)).key)
    return with_doubt(seen, screens, foreign), busy


def without_port(thread: Held, screens: Iterable[Screen]) -> Held:
    """Return a thread without the port of its screen if that screen may be one whose ports we could not see."""
    if thread.port is None or any(thread.port in screen.ports for screen in screens):
        return thread
    return thread._replace(port=None) if not all(screen.ports for screen in screens) else thread


def loaded_by(screens: Iterable[Screen], threads: Iterable[Held]) -> dict[ProcessKey, Seen]:
    """Return the thread that each screen loaded last. If two listen on one port (in two networks), neither counts."""
    seen: dict[ProcessKey, Seen] = {}
    for thread in threads:
        owners = [screen for screen in screens if thread.port in screen.ports]
        moment = loaded_at(thread)
        if len(owners) != 1 or moment is None:
            continue
        key = owners[0].key
        if key not in seen or seen[key].moment < moment:
            seen[key] = Seen(thread.id, moment, EXACT, LOADED)
    return seen


def by_name(
    screens: Iterable[Screen], threads: Iterable[Held], seen: dict[ProcessKey, Seen], left: list[Opening]
) -> None:
    """Add the screens that loaded none, and whose arguments name a thread that was opened since they started; or no
    opening of it was ever noted."""
    for screen in screens:
        for thread in threads:
            opened = screen.started if thread.opened is None else thread.opened
            if screen.key not in seen and thread.id in screen.names and screen.started <= opened:
                seen[screen.key] = Seen(thread.id, opened, SOLE, NAMED)
                left[:] = [opening for opening in left if opening != Opening(opened, thread.id)]


def can_have_made(screen: Screen, opening: Opening, seen: Mapping[ProcessKey, Seen]) -> bool:
    """Return whether a screen can have made this opening: it lived, and opened nothing else later."""
    shows = seen.get(screen.key)
    if screen.started > opening.moment + GRAIN:
        return False
    # No person opens two threads within the grain of these clocks: it is not taken away from the one that it shows.
    return shows is None or (shows.id != opening.id and shows.moment + GRAIN < opening.moment)


def with_doubt(
    seen: Mapping[ProcessKey, Seen], screens: Iterable[Screen], foreign: Iterable[Opening]
) -> dict[ProcessKey, Seen]:
    """Return what is seen. It is inferred if another thread was opened later, and this screen can have done that."""
    started = {screen.key: screen.started for screen in screens}
    found = {}
    for key, shows in seen.items():
        later = [one for one in foreign if one.id != shows.id and one.moment > max(shows.moment, started[key])]
        found[key] = shows._replace(strength=SOLE) if later else shows
    return found
