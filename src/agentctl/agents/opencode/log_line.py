"""One line of OpenCode's log: who wrote it, when, and the few things that are believed of it.

    timestamp=2026-11-15T20:11:36.104Z level=INFO run=4f1c message=loop session.id=ses_2b step=1

Only the first words count, read from left to right: further on a line quotes commands and titles, in which anything may
stand. It is parsed by hand: importing `re` and compiling patterns would take a seventh of the time of a `list`.
"""

from __future__ import annotations

from agentctl.files.bounded import moment

HEXADECIMAL = b"0123456789abcdef"
WORD = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
PREFIX = b"ses_"
WORKS = (b"loop", b"process", b"cancel", b"stream", b'"exiting loop"', b'"stream error"')
CREATED = b"created id="
ASKS = (b"asking id=per_", b"asking id=que_")
PATTERN, ALLOWED = b" pattern=", b" action.action=allow "
FAILED, ERROR = b'"stream error" ', b' error.error="'
OPENED = b'"creating instance" directory='


class Line:
    __slots__ = ("at", "level", "message", "run")

    def __init__(self, at: float | None, level: bytes, run: bytes, message: bytes) -> None:
        self.at, self.level, self.run, self.message = at, level, run, message


def read_line(line: bytes) -> Line | None:
    stamp, rest = take(line, b"timestamp=")
    level, rest = take(rest, b" level=")
    run, rest = take(rest, b" run=")
    if not (rest.startswith(b" message=") and level.isalpha() and level.isupper()) or run.strip(HEXADECIMAL):
        return None
    # In whole milliseconds: half of one more, so that it is not before what it tells of.
    at = moment(stamp.decode(errors="replace"))
    return Line(None if at is None else at + 0.0005, level, run, rest.removeprefix(b" message="))


def take(text: bytes, name: bytes) -> tuple[bytes, bytes]:
    """Return the word behind this name at the beginning of a text, and what follows it; nothing if it is not there."""
    end = text.find(b" ", len(name))
    end = len(text) if end < 0 else end
    word = text[len(name) : end]
    return (word, text[end:]) if text.startswith(name) and word.split() == [word] else (b"", b"")


def session_behind(text: bytes, name: bytes) -> bytes:
    if not text.startswith(name + PREFIX):
        return b""
    id = text[len(name) :]
    id = id[: len(id) - len(id[len(PREFIX) :].lstrip(WORD))]
    return id if id != PREFIX else b""


def is_session(id: str) -> bool:
    """Return whether a log can hold this id at all."""
    return id.isascii() and session_behind(id.encode(), b"") == id.encode() != b""


def worked_on(message: bytes) -> str | None:
    """Return the session that the writer of this line works on."""
    word = next((word for word in WORKS if message.startswith(word)), None)
    if word is None:
        return None
    rest = message[len(word) :]
    if rest.startswith(b" providerID="):
        rest = take(take(rest, b" providerID=")[1], b" modelID=")[1]
    return session_behind(rest, b" session.id=").decode() or None


def created(message: bytes) -> str | None:
    """Return the session that the writer of this line has begun."""
    id = session_behind(message, CREATED)
    return id.decode() if id and message.startswith(b" ", len(CREATED + id)) else None


def is_allowed(message: bytes) -> bool:
    """evaluated permission=... pattern=... action.permission=... action.action=allow ..."""
    rest = take(message, b"evaluated permission=")[1]
    if not rest.startswith(PATTERN):
        return False
    rest = behind_pattern(rest.removeprefix(PATTERN))
    return take(rest, b" action.permission=")[1].startswith(ALLOWED)


def behind_pattern(text: bytes) -> bytes:
    """Return what follows a word, or a text in quotes with backslash escapes."""
    if not text.startswith(b'"'):
        return text if text.startswith(b" ") else take(text, b"")[1]
    begin = 1
    while (end := text.find(b'"', begin)) >= 0:
        before = text[begin:end]
        if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
            return text[end + 1 :]
        begin = end + 1
    return b""


def stream_error(message: bytes) -> str | None:
    """Return why a model call failed; None if this line does not say that."""
    at = message.rfind(ERROR, len(FAILED)) if message.startswith(FAILED) else -1
    return message[at + len(ERROR) :].partition(b'"')[0].decode(errors="replace") if at >= 0 else None


def opened_folder(message: bytes) -> str | None:
    """Return the directory that the writer of this line has open from now on."""
    path = message.removeprefix(OPENED)
    known = path != message and path[:1].strip()
    return path.decode(errors="surrogateescape").strip('"') if known else None
