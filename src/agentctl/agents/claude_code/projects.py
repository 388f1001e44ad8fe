"""The folders in which Claude Code keeps its transcripts: one for each directory that it ran in."""

from __future__ import annotations

import os
import stat

from agentctl.agents.claude_code.files import children_in, slug, slug_of
from agentctl.agents.directories import names_of
from agentctl.model import SESSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentctl.files.reader import Reader
    from agentctl.model import Details

SLUG_LIMIT = 200
FEW = 24  # ids: for more of them everything is listed
SUFFIX = ".jsonl"
PLAIN = (SUFFIX, ".json")  # what is called so below a session is a file
DEEPEST = 8  # folders below `subagents`: it holds two in a workflow, and a link may lead back
TOO_DEEP = f"not read: it is more than {DEEPEST} folders deep"
SLASH = "-"  # the name of a project's folder begins so: it is made from an absolute path


class Projects:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.root = f"{reader.root}/projects"
        self._folders: list[str] | None = None
        self._index: dict[str, list[str]] | None = None  # session id -> its transcripts, of all folders
        self._open: list[str] = []
        self._closed: tuple[str, ...] | None = None  # None: that was not asked yet
        self._asked_for = 0  # ids that were looked up without it
        self._children: dict[str, tuple[str, str]] | None = None  # sub-agent -> its transcript, and its parent
        self._children_asked_for = 0

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder. One that cannot be read is a gap, and the others are still read."""
        return self._reader.names(folder)

    def folders(self) -> list[str]:
        """Return the folders of all projects. A file that somebody left among them is none."""
        if self._folders is None:
            folders = [f"{self.root}/{name}" for name in self.names(self.root)]
            self._folders = []
            for folder in folders:
                if is_stray(folder):
                    self._reader.note_stray(folder)
                else:
                    self._folders.append(folder)
        return self._folders

    def folders_of(self, cwd: str) -> list[str]:
        return self._called(slug(cwd))

    def folders_of_process(self, details: Details) -> list[str]:
        """Return the folders of all paths that the directory of a process may have had for Claude."""
        names = dict.fromkeys(map(slug_of, names_of(details)))
        return list(dict.fromkeys(folder for name in names for folder in self._called(name)))

    def _called(self, name: str) -> list[str]:
        if len(name) <= SLUG_LIMIT:
            return [f"{self.root}/{name}"]
        beginning = f"{self.root}/{name[:SLUG_LIMIT]}"  # a long one is cut and ends in a hash
        return [folder for folder in self.folders() if folder.startswith(beginning)]

    def transcripts(self) -> dict[str, list[str]]:
        """Return the transcripts of all sessions, by id."""
        if self._index is None:
            self._index = {}
            for folder in self.folders():
                for name in self.names(folder):
                    if name.endswith(SUFFIX):
                        self._index.setdefault(name.removesuffix(SUFFIX), []).append(f"{folder}/{name}")
        return self._index

    def expect_many(self) -> None:
        """List everything when the first session is asked for."""
        self._asked_for = FEW

    def transcripts_of(self, id: str) -> list[str]:
        """Return the transcripts of one session. For a few sessions each folder is asked for the name: listing takes
        longer."""
        if self._index is None and self._asked_for < FEW:
            self._asked_for += 1
            if (found := self._named(id + SUFFIX)) is not None:
                return found
        return self.transcripts().get(id, [])

    def _named(self, name: str) -> list[str] | None:
        """Return the paths of this name; None if a folder cannot be listed, which has to be reported."""
        found = []
        for folder in self._readable():
            try:
                os.lstat(f"{folder}/{name}")
            except FileNotFoundError:
                continue
            except (OSError, ValueError):
                return None
            if name in self.names(folder):  # where capital letters make no difference it may be another one's name
                found.append(f"{folder}/{name}")
        return found if self._closed == () else None

    def _readable(self) -> list[str]:
        """Return the folders in which a name that is not found is not there. `_closed` has those that cannot be
        listed. A file in the place of a folder is a gap."""
        if self._closed is None:
            self._open = [folder for folder in self.folders() if not is_file(folder)]
            self._closed = tuple(folder for folder in self._open if not os.access(folder, os.R_OK | os.X_OK))
            for folder in set(self.folders()).difference(self._open):
                self.names(folder)
        return self._open

    def children(self) -> dict[str, tuple[str, str]]:
        """Return the transcript of each sub-agent, and the session that began it."""
        if self._children is None:
            self._children = {}
            for folder, name in self._sessions():
                for child, path in self.below(f"{folder}/{name}/subagents"):
                    self._children.setdefault(child, (path, name))
        return self._children

    def below(self, folder: str, depth: int = 0) -> Iterator[tuple[str, str]]:
        """Yield the sub-agents that a folder holds, each with its transcript, to its bottom: those of a workflow are
        in a folder of their own."""
        names = self.names(folder)
        for child in children_in(names):
            yield child, f"{folder}/agent-{child}{SUFFIX}"
        for name in names:
            if not name.endswith(PLAIN) and os.path.isdir(inner := f"{folder}/{name}"):
                if depth < DEEPEST:
                    yield from self.below(inner, depth + 1)
                else:
                    self._reader.note(inner, TOO_DEEP, SESSIONS)

    def child(self, id: str) -> tuple[str, str] | None:
        """Return the transcript of a sub-agent and its session. For a few of them each session is asked for the name,
        before all folders are listed."""
        if self._children is None and self._children_asked_for < FEW:
            self._children_asked_for += 1
            for folder, name in self._sessions():
                path = f"{folder}/{name}/subagents/agent-{id}{SUFFIX}"
                if self._reader.exists(path):
                    return path, name
            if id.count("-") == 4:
                return None  # a session's own, which has no transcript
        return self.children().get(id)

    def _sessions(self) -> Iterator[tuple[str, str]]:
        """Yield the folder and name of what sessions keep beside their transcripts."""
        for folder in self.folders():
            names = self.names(folder)
            transcripts = {name for name in names if name.endswith(SUFFIX)}
            for name in names:
                if name not in transcripts and (name + SUFFIX in transcripts or not is_file(f"{folder}/{name}")):
                    yield folder, name


def is_stray(folder: str) -> bool:
    """Return whether this is a file that is not in the place of a project's folder."""
    return not os.path.basename(folder).startswith(SLASH) and is_file(folder)


def is_file(path: str) -> bool:
    """Return whether this is a file, and no link to one: a link may lead somewhere else tomorrow."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False  # then reading it says why
