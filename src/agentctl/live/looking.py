"""What looks in a row have in common: the files that are worth watching, and the stores that do not answer."""

from __future__ import annotations

from agentctl.kernel.stall_guard import gather
from agentctl.query.store_reader import watched_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from agentctl.query.reading import Reading
    from agentctl.query.sessions import Look

    Name = tuple[str, str]  # agent, root

FORGET_STALLED = 60.0  # seconds after which a store that did not answer is tried again


def paths_in_stores(stores: Iterable[tuple[Reading, Sequence[str]]]) -> tuple[set[str], bool]:
    """Return the paths that change when these sessions of these stores do, and whether those are all. Of a store that
    could not be read, or is not there, it is its root."""
    asked, unread = [], set()
    for reading, ids in stores:
        if reading.usable:
            asked.append((reading, ids))
        else:
            unread.add(reading.store.root)
    outcomes = gather([watched_paths(reading, ids) for reading, ids in asked])
    paths = unread | {path for found, _ in outcomes for path in found}
    complete = not any(reading.incomplete for reading, _ in asked) and not any(failure for _, failure in outcomes)
    return paths, complete


class Stalled:
    """The stores that did not answer. Each try leaves a thread behind, so they are not tried at each look."""

    def __init__(self) -> None:
        self._stores: dict[Name, str] = {}
        self._since = 0.0

    def known(self, now: float) -> dict[Name, str]:
        if now - self._since >= FORGET_STALLED:
            self._stores = {}
        return dict(self._stores)

    def note(self, look: Look, now: float, needed: Container[Name] = ()) -> None:
        """`needed`: stores that are tried at each look all the same."""
        found = {name: why for name, why in look.stalled.items() if name not in needed}
        if found and not self._stores:
            self._since = now
        self._stores.update(found)
