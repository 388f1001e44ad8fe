"""The one way in which a store lists and reads its files: it returns what is there, and notes what it could not read.

A store that reads through this cannot take "could not look" for "nothing there". Only a path that is truly absent is
nothing; a file or a link that leads nowhere in the place of a folder, and every other failure, is a gap.
"""

from __future__ import annotations

import os
from errno import EACCES

from agentctl.files import bounded
from agentctl.model import HOLDERS, RECORD, SESSIONS, Gap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NOT_ENTERED = "it can be listed, and not entered"
TRANSCRIPTS = (".jsonl", ".jsonl.gz", ".jsonl.zst")  # how the name of a transcript may end
STRAY = "not where a session belongs, or not named as one: not read; rename or move it, or accept it with stores.ignore"
NOT_JSON = "not valid JSON, also on a second look"


class Reader:
    """Lists and reads the files of one store."""

    def __init__(self, agent: str, root: str, ignored: tuple[str, ...] = ()) -> None:
        self.agent = agent
        self.root = root
        self.ignored = ignored  # paths below which a person accepts every gap
        self.failures = 0  # how often something could not be read; it also counts what was noted before
        self._gaps: list[Gap] = []
        self._noted: set[tuple[str, str]] = set()
        self._folders: set[str] = set()  # those that are gaps: what cannot be read below them is told with them

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Return what could not be read up to now."""
        return tuple(self._gaps)

    def can_hide(self, what: str) -> bool:
        """Return whether a gap can hide this: HOLDERS, SESSIONS or RECORD."""
        return any(gap.hides == what for gap in self._gaps)

    def note(self, path: str, why: Exception | str, hides: str, session: str | None = None) -> None:
        """Note that something could not be read, once for each path. `session`: the only one that it concerns."""
        if isinstance(why, bounded.LeadsNowhere):
            path = why.filename or path
        self.failures += 1
        if is_below(path, self.ignored) or (path, hides) in self._noted or self._is_told(path):
            return
        self._noted.add((path, hides))
        if hides in (SESSIONS, HOLDERS):
            self._folders.add(path)
        said = why if isinstance(why, str) else reason_of(why)
        self._gaps.append(Gap(self.agent, said, path, hides, session))

    def _is_told(self, path: str) -> bool:
        """Return whether a folder above this path is a gap."""
        if self._folders:
            while len(path) > len(self.root):
                path = os.path.dirname(path)
                if path in self._folders:
                    return True
        return False

    def note_file(self, folder: str, name: str, why: OSError, hides: str) -> None:
        """Note that a file of a folder could not be looked at. If no file of that folder can, it is one gap."""
        if why.errno == EACCES:
            self.note(folder, NOT_ENTERED, hides)
        self.note(f"{folder}/{name}", why, RECORD)

    def note_stray(self, path: str) -> None:
        """Note a file that is in no place, or has no name, that sessions have, if it may be a transcript."""
        if path.endswith(TRANSCRIPTS):
            self.note(path, STRAY, SESSIONS)

    def check(self, folder: str, hides: str = SESSIONS) -> None:
        """Note a gap if there is something else in the place of a folder. It lists nothing."""
        try:
            if not os.path.isdir(folder):
                os.listdir(folder)  # says what is wrong
        except FileNotFoundError:
            self._note_unless_absent(folder, hides)
        except OSError as error:
            self.note(folder, error, hides)

    def names(self, folder: str, hides: str = SESSIONS) -> list[str]:
        """Return the names in a folder: none if it is absent, or if it cannot be listed, which is a gap."""
        try:
            return bounded.names(folder)
        except OSError as error:
            self.note(folder, error, hides)
            return []

    def written_since(
        self, folder: str, suffix: str | tuple[str, ...], since: float, hides: str = SESSIONS
    ) -> Iterator[tuple[str, os.stat_result | None]]:
        """Yield name and stat of the files in a folder that were written at or after `since`, and of those whose stat
        cannot be read: they may be new. A folder that cannot be listed is a gap."""
        failed: list[bounded.Failed] = []
        try:
            yield from bounded.modified_since(folder, suffix, since, failed)
        except OSError as error:
            self.note(folder, error, hides)
        for name, why in failed:
            self.note_file(folder, name, why, hides)

    def exists(self, path: str, hides: str = SESSIONS) -> bool:
        """Return whether there is something of this name, if only a link. If that cannot be told, it is a gap."""
        try:
            os.lstat(path)
        except FileNotFoundError:
            self._note_unless_absent(path, hides)
            return False
        except ValueError:
            return False  # no file can have this name
        except OSError as error:
            self.note(path, error, hides)
            return False
        return True

    def stat(self, path: str, hides: str, session: str | None = None) -> os.stat_result | None:
        """Return the stat of a file: None if there is no such file, or if it cannot be looked at, which is a gap."""
        try:
            return os.stat(path)
        except FileNotFoundError:
            self._note_unless_absent(path, hides, session)
        except OSError as error:
            self.note(path, error, hides, session)
        return None

    def bytes(self, path: str, hides: str) -> bytes | None:
        """Return what is in a file: None if there is no such file, or if it cannot be read, which is a gap."""
        try:
            return bounded.read_bytes(path)
        except FileNotFoundError:
            self._note_unless_absent(path, hides)
        except OSError as error:
            self.note(path, error, hides)
        return None

    def json(self, path: str, hides: str, session: str | None = None) -> dict[str, Any] | None:
        """Return the object in a file: None if there is no such file, or if it cannot be read, which is a gap."""
        try:
            return bounded.read_json(path)
        except FileNotFoundError:
            return None
        except (OSError, bounded.Torn) as error:
            self.note(path, error, hides, session)
            return None

    def _note_unless_absent(self, path: str, hides: str, session: str | None = None) -> None:
        try:
            bounded.check_absent(path)
        except OSError as error:
            self.note(path, error, hides, session)


def reason_of(error: Exception) -> str:
    """Return why something could not be read, for people."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return NOT_JSON if isinstance(error, bounded.Torn) else str(error)


def is_below(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path is one of these, or below one of them."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
