"""Where a process of Claude Code went on by /clear, if its own file does not say so.

Older versions (measured: 2.1.89 and 2.1.118) renew sessions/<pid>.json at /resume and /branch, and not at /clear. Then
three things are left. The new transcript begins with the command. The old session and the same moment stand in
history.jsonl if it was typed at a screen, and in the old transcript if it came through stdin. And the new transcript is
one that no file names, written since the file of the process was. So a step is taken only if both ends of it are told;
a screen that may have gone on in a way that nothing tells may be on any of the new sessions.
"""

from __future__ import annotations

import os

from agentctl.agents.claude_code.files import SCREEN, may_be_behind, written_at
from agentctl.agents.claude_code.records import LOCAL_COMMAND_MARKS, is_tool_result, plain_text
from agentctl.agents.claude_code.transcript import read_tail
from agentctl.files.bounded import Opened, decode, grain_of, lines_backward, lines_forward, moment, text_or_none
from agentctl.model import DETAIL, SOLE, Evidence, Link, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from agentctl.agents.claude_code.projects import Projects
    from agentctl.files.reader import Reader

SUFFIX = ".jsonl"
COMMAND = "<command-name>/clear</command-name>"
BEGINNING = 64 * 1024  # of a transcript: the command is its first record that is no bookkeeping
TYPED = 256 * 1024  # from the end of what was typed
TOGETHER = 1.0  # seconds between what was typed and what it began: measured 3 ms

Typed = list[tuple[str, float]]  # the session that a command was typed in, and when


class Beginning(Value):
    """How a session began."""

    path: str
    cleared: float | None = None  # when the /clear was given that began it; None: it began otherwise
    version: str | None = None
    entrypoint: str | None = None


class Way(Value):
    """Where a process is that its file names another session for."""

    path: tuple[str, ...]  # from the session that its file names to the last one that is told
    others: tuple[str, ...] = ()  # it may have gone on to one of these, and nothing tells
    source: str | None = None  # the file that tells


def ways(
    files: Mapping[str, dict[str, Any]], named: Collection[str], projects: Projects, reader: Reader
) -> dict[str, Way]:
    """Return where the processes of these files (by name) are, for those that may have gone on. `named`: the sessions
    that any file names."""
    new: dict[str, dict[str, Beginning]] = {}
    typed: Typed = []
    for name, file in files.items():
        id, cwd = text_or_none(file.get("sessionId")), text_or_none(file.get("cwd"))
        if id is None or cwd is None or not may_be_behind(file):
            continue
        folders = projects.folders_of(cwd)
        if file.get("entrypoint") != SCREEN:
            told = list(typed_through_stdin(id, folders, reader))
            typed += told
            if not told:
                continue
        found = new_ones(file, f"{reader.root}/sessions/{name}", folders, named, reader)
        if found:
            new[name] = found
    if not new:
        return {}
    history = f"{reader.root}/history.jsonl"
    typed += typed_at_screens(history, reader)
    paths = {name: path_from(str(files[name]["sessionId"]), found, typed) for name, found in new.items()}
    paths = {name: undisputed(name, paths) for name in paths}
    taken = {id for path in paths.values() for id in path}
    return {
        name: Way(
            path,
            others_of(path, new[name], taken) if files[name].get("entrypoint") == SCREEN else (),
            history if files[name].get("entrypoint") == SCREEN else None,
        )
        for name, path in paths.items()
    }


def new_ones(
    file: dict[str, Any], path: str, folders: Iterable[str], named: Collection[str], reader: Reader
) -> dict[str, Beginning]:
    """Return the sessions that a process can have begun since its file was written: no file names them, nothing ended
    them in order, and they were written after its own session was."""
    found = {}
    id, version, entrypoint = file.get("sessionId"), file.get("version"), file.get("entrypoint")
    for folder in folders:
        own = f"{folder}/{id}{SUFFIX}"
        registered = written_at(path)
        since = max(registered, written_at(own) if os.path.exists(own) else 0.0)
        for name, status in reader.written_since(folder, SUFFIX, since):
            other, written = name.removesuffix(SUFFIX), status.st_mtime if status is not None else since
            if other in named or (registered == written and not grain_of(written)):
                continue  # the file was renewed right after it: at /resume and /branch
            begun = beginning_of(f"{folder}/{name}")
            if begun.version not in (None, version or begun.version) or begun.entrypoint not in (None, entrypoint):
                continue
            if not has_ended_orderly(begun.path):
                found[other] = begun
    return found


def beginning_of(path: str) -> Beginning:
    """Return how a session began. What cannot be read excludes nothing."""
    begun = Beginning(path)
    try:
        for line in lines_forward(path, BEGINNING):
            record = decode(line) or {}
            if record.get("version") is None:
                continue
            begun = begun._replace(
                version=text_or_none(record.get("version")), entrypoint=text_or_none(record.get("entrypoint"))
            )
            if COMMAND in (text := plain_text(record)):
                return begun._replace(cleared=moment(record.get("timestamp")))
            if record.get("type") in ("user", "assistant") and not (
                record.get("isMeta") or text.startswith(LOCAL_COMMAND_MARKS) or is_tool_result(record)
            ):
                return begun
    except OSError:
        return begun
    return begun


def has_ended_orderly(path: str) -> bool:
    try:
        with Opened(path) as file:
            return read_tail(file).orderly is True
    except OSError:
        return False


def typed_at_screens(path: str, reader: Reader) -> Iterator[tuple[str, float]]:
    """Yield which commands were typed at screens of late: the session, and when."""
    try:
        for line in lines_backward(path, TYPED):
            record = (decode(line) or {}) if b'"display":"/' in line else {}
            id, at = text_or_none(record.get("sessionId")), moment(record.get("timestamp"))
            if id is not None and at is not None:
                yield id, at
    except FileNotFoundError:
        return  # it can be told to keep none
    except OSError as error:
        reader.note(path, error, DETAIL)


def typed_through_stdin(id: str, folders: Iterable[str], reader: Reader) -> Iterator[tuple[str, float]]:
    """Yield which commands came through stdin: its own transcript has them."""
    for folder in folders:
        try:
            for line in lines_backward(f"{folder}/{id}{SUFFIX}", TYPED):
                record = (decode(line) or {}) if b'"enqueue"' in line and b'"content":"/' in line else {}
                at = moment(record.get("timestamp")) if record.get("type") == "queue-operation" else None
                if at is not None:
                    yield id, at
        except OSError:
            continue  # its record is read later, and says so


def path_from(id: str, new: Mapping[str, Beginning], typed: Typed) -> tuple[str, ...]:
    """Return the sessions that a process was on, from this one to the last that is told."""
    path = [id]
    while True:
        moments = [at for session, at in typed if session == path[-1]]
        after = [
            other
            for other, begun in new.items()
            if begun.cleared is not None and any(abs(begun.cleared - at) <= TOGETHER for at in moments)
        ]
        if len(after) != 1 or after[0] in path:
            return tuple(path)
        path.append(after[0])


def undisputed(name: str, paths: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the path of a process, up to a session that another process may have begun as well."""
    elsewhere = {id for other, path in paths.items() if other != name for id in path[1:]}
    path = paths[name]
    return next((path[:place] for place, id in enumerate(path) if place and id in elsewhere), path)


def others_of(path: tuple[str, ...], new: Mapping[str, Beginning], taken: Collection[str]) -> tuple[str, ...]:
    """Return the new sessions that were begun in a way that nothing tells, and written after the last that is told."""
    since = written_at(new[path[-1]].path) if len(path) > 1 else 0.0
    return tuple(id for id, begun in new.items() if id not in taken and written_at(begun.path) >= since)


def on_its_way(link: Link, way: Way) -> Link:
    """Return the link of a process with the session that it went on to."""
    before = way.path[-2]
    fact = f"a command was given in session {before} at the moment at which /clear began this one"
    return link._replace(
        id=way.path[-1],
        how="its own sessions/<pid>.json names the session before, and /clear was given there when this one began",
        strength=SOLE,
        inferred=True,
        evidence=(*link.evidence, Evidence("store", fact, way.source, link.key.pid, inferred=True)),
    )
