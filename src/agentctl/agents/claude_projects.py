"""The folders that Claude Code keeps its transcripts in, one for each directory that it ran in."""

from __future__ import annotations

import os

from agentctl.agents.claude_files import children_in, reason_of, slug
from agentctl.model import Problem
from agentctl.stores import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SLUG_LIMIT = 200
FEW = 8  # ids: for more of them everything is listed
SUFFIX = ".jsonl"


class Projects:
    def __init__(self, agent: str, root: str, problems: list[Problem]) -> None:
        self._agent = agent
        self._root = f"{root}/projects"
        self._problems = problems
        self._folders: list[str] | None = None
        self._index: dict[str, list[str]] | None = None  # session id -> its transcripts, of all folders
        self._asked_for = 0  # ids that were looked up without it
        self._children: dict[str, tuple[str, str]] | None = None  # sub-agent -> its transcript, and its parent
        self._children_asked_for = 0
        self.blind = False  # a folder could not be listed: a transcript that was not found may be there

    def unreadable(self, folder: str, error: OSError) -> None:
        self.blind = True
        self._problems.append(Problem(self._agent, reason_of(error), folder))

    def names(self, folder: str) -> list[str]:
        """The names in a folder; one that cannot be read is a problem, and the others are still read."""
        try:
            return names(folder)
        except OSError as error:
            self.unreadable(folder, error)
            return []

    def folders(self) -> list[str]:
        if self._folders is None:
            self._folders = [f"{self._root}/{name}" for name in self.names(self._root)]
        return self._folders

    def folders_of(self, cwd: str) -> list[str]:
        name = slug(cwd)
        if len(name) <= SLUG_LIMIT:
            return [f"{self._root}/{name}"]
        beginning = f"{self._root}/{name[:SLUG_LIMIT]}"  # a long one is cut and ends in a hash
        return [folder for folder in self.folders() if folder.startswith(beginning)]

    def transcripts(self) -> dict[str, list[str]]:
        """Of all sessions."""
        if self._index is None:
            self._index = {}
            for folder in self.folders():
                for name in self.names(folder):
                    if name.endswith(SUFFIX):
                        self._index.setdefault(name.removesuffix(SUFFIX), []).append(f"{folder}/{name}")
        return self._index

    def transcripts_of(self, id: str) -> list[str]:
        """For a few sessions each folder is asked for the one name: to list thousands takes longer."""
        if self._index is None and self._asked_for < FEW:
            self._asked_for += 1
            if (found := self._named(id + SUFFIX)) is not None:
                return found
        return self.transcripts().get(id, [])

    def _named(self, name: str) -> list[str] | None:
        """The paths of this name. None: not every folder can be listed, and that is to be told."""
        found = []
        for folder in self.folders():
            try:
                os.lstat(f"{folder}/{name}")
            except NotADirectoryError:
                continue
            except FileNotFoundError:
                if not os.access(folder, os.R_OK) and os.path.lexists(folder):
                    return None
                continue
            except (OSError, ValueError):
                return None
            if name in self.names(folder):  # where capital letters make no difference it may be another one's name
                found.append(f"{folder}/{name}")
        return found

    def children(self) -> dict[str, tuple[str, str]]:
        """Of all sub-agents: the transcript of each, and the session that began it."""
        if self._children is None:
            self._children = {}
            for folder, name in self._sessions():
                below = f"{folder}/{name}/subagents"
                for child in children_in(self.names(below)):
                    self._children.setdefault(child, (f"{below}/agent-{child}{SUFFIX}", name))
        return self._children

    def child(self, id: str) -> tuple[str, str] | None:
        """For a few sub-agents each session is asked for the one name."""
        if self._children is None and self._children_asked_for < FEW:
            self._children_asked_for += 1
            for folder, name in self._sessions():
                path = f"{folder}/{name}/subagents/agent-{id}{SUFFIX}"
                if os.path.lexists(path):
                    return path, name
            return None
        return self.children().get(id)

    def _sessions(self) -> Iterator[tuple[str, str]]:
        """(folder, name) of what sessions keep beside their transcripts."""
        for folder in self.folders():
            for name in self.names(folder):
                if not name.endswith(SUFFIX):
                    yield folder, name
