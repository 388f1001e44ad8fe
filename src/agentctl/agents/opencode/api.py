"""Asks an OpenCode process that serves HTTP what it does: three GET requests, for one directory at a time. `abort` is
for those who stop a session, `prompt` for those who speak to it.

Each directory is a world of its own to it, so `{}` says nothing of sessions of other directories. A directory that it
has not opened yet it opens on being asked, so it is only asked about those it has open. A process is right about the
sessions it runs, and knows nothing of what other processes do.
"""

from __future__ import annotations

import json
import socket
import time

from agentctl.fast.url import quote
from agentctl.files.bounded import text_or_none
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANSWER_LIMIT = 4 * 1024 * 1024
PROBE = 0.1  # seconds between two looks at whether a turn has ended
STATES = ("idle", "busy", "retry")
SECONDS = 0.5  # for all requests to one process


class Unanswered(Exception):
    """The process did not answer, wants a password, or answers something that we do not understand."""


class Busy(Exception):
    """The session is not at rest."""


class Unsure(Exception):
    """The request was sent, and no answer came."""


class Request(Value):
    """What a process asks a person, as it says so itself."""

    session: str
    words: str
    given: dict[str, Any]


class Answer(Value):
    active: dict[str, str | None]  # the sessions it is busy with; a text = it retries a model call after this error
    waiting: dict[str, str]  # session -> what it asks a person
    requests: tuple[Request, ...] = ()  # all that it asks


def ask(port: int, directory: str, seconds: float = SECONDS, login: str | None = None) -> Answer:
    """Return what a process says of the sessions in a directory. `login`: user:password, if the person set one."""
    deadline = time.monotonic() + seconds
    try:
        status = exchange("GET", port, "session/status", directory, deadline, login)
        questions = exchange("GET", port, "question", directory, deadline, login)
        permissions = exchange("GET", port, "permission", directory, deadline, login)
    except (OSError, ValueError, RecursionError) as error:
        raise Unanswered(str(error) or type(error).__name__) from error
    if not (isinstance(status, dict) and isinstance(questions, list) and isinstance(permissions, list)):
        raise Unanswered("an answer of another shape")
    active: dict[str, str | None] = {}
    asked = [
        Request(understood(request, "sessionID"), what(request), request)
        for what, requests in ((question_text, questions), (permission_text, permissions))
        for request in requests
    ]
    for id, state in status.items():
        kind = understood(state, "type")
        if kind not in STATES:
            raise Unanswered(f"a state that is not known: {kind}")
        if kind != "idle":
            active[id] = (text_or_none(state.get("message")) or "an error") if kind == "retry" else None
    return Answer(active, {request.session: request.words for request in asked}, tuple(asked))


def understood(value: object, name: str) -> str:
    """Return a text of an answer. Raises Unanswered if it is not there: an odd answer must not be taken for rest."""
    text = text_or_none(value.get(name)) if isinstance(value, dict) else None
    if text is None:
        raise Unanswered(f"an answer without {name}")
    return text


def abort(port: int, id: str, directory: str, deadline: float, login: str | None = None) -> None:
    """End the turn of a session and its tools, and see that it is over.

    While a tool runs, the request ends the turn and is never answered. If no turn is seen to end, only its answer
    tells.
    """
    try:
        active = id in ask(port, directory, left(deadline), login).active
        with opened("POST", port, f"session/{escaped(id)}/abort", directory, deadline, login) as connection:
            if not active:
                received(connection, deadline)
            while id in ask(port, directory, left(deadline), login).active:
                time.sleep(min(PROBE, left(deadline)))
    except (OSError, ValueError, RecursionError) as error:
        raise Unanswered(str(error) or type(error).__name__) from error


def prompt(
    port: int, id: str, directory: str, text: str, agent: str | None, deadline: float, login: str | None = None
) -> None:
    """Send the next prompt of a session that is at rest. `agent`: OpenCode's own agent (build, plan, ...) of its last
    turn."""
    try:
        state = ask(port, directory, left(deadline), login)
    except TimeoutError as error:
        raise Unanswered(str(error)) from error
    if id in state.waiting:
        raise Busy(f"it asks a person: {state.waiting[id]}")
    if id in state.active:
        raise Busy("it is at work")
    words: dict[str, Any] = {"parts": [{"type": "text", "text": text}]}
    if agent is not None:
        words["agent"] = agent
    sent = False
    try:
        body = json.dumps(words).encode()
        with opened(
            "POST", port, f"session/{escaped(id)}/prompt_async", directory, deadline, login, body
        ) as connection:
            sent = True
            received(connection, deadline)
    except Rejected as error:
        raise Unanswered(str(error)) from error
    except (OSError, ValueError, RecursionError) as error:
        raise (Unsure if sent else Unanswered)(str(error) or type(error).__name__) from error


class Rejected(ValueError):
    """The process answered with an error."""


class NeedsLogin(Rejected):
    """The process wants a user and a password."""


def wants_login(port: int, directory: str, deadline: float) -> bool:
    """Return whether a process wants a password. If it does not answer, the next request says so."""
    try:
        exchange("GET", port, "question", directory, deadline, None)
    except NeedsLogin:
        return True
    except (OSError, ValueError, RecursionError):
        pass
    return False


def exchange(method: str, port: int, path: str, directory: str, deadline: float, login: str | None) -> Any:
    """Return the answer to one request. Each has its own connection: the answer ends where the connection ends."""
    with opened(method, port, path, directory, deadline, login) as connection:
        return received(connection, deadline)


def opened(
    method: str, port: int, path: str, directory: str, deadline: float, login: str | None, body: bytes = b""
) -> socket.socket:
    words = f"{method} /{path}?directory={escaped(directory)} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n"
    if method == "POST":
        words += f"Content-Length: {len(body)}\r\n"
    if body:
        words += "Content-Type: application/json\r\n"
    if login is not None:
        import base64

        words += f"Authorization: Basic {base64.b64encode(login.encode(errors='surrogateescape')).decode()}\r\n"
    connection = socket.create_connection(("127.0.0.1", port), left(deadline))
    try:
        connection.sendall(f"{words}Connection: close\r\n\r\n".encode("ascii") + body)
    except OSError:
        connection.close()
        raise
    return connection


def received(connection: socket.socket, deadline: float) -> Any:
    answer = b""
    while True:
        connection.settimeout(left(deadline))
        part = connection.recv(65536)
        if not part:
            break
        answer += part
        if len(answer) > ANSWER_LIMIT:
            raise ValueError("its answer is too long")

    head, _, body = answer.partition(b"\r\n\r\n")
    if head.split()[1:2] == [b"204"]:
        return None
    if head.split()[1:2] != [b"200"]:
        wanted = NeedsLogin if head.split()[1:2] == [b"401"] else Rejected
        raise wanted(f"it answers {head.splitlines()[0].decode(errors='replace') if head else 'nothing'}")
    return json.loads(body)


def left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("no answer in time")
    return seconds


def escaped(path: str) -> str:
    return quote(path, errors="surrogateescape")  # the name of a folder may not be Unicode


def permission_text(request: dict[str, Any]) -> str:
    metadata, patterns = request.get("metadata"), request.get("patterns")
    command = text_or_none(metadata.get("command")) if isinstance(metadata, dict) else None
    listed = " ".join(map(str, patterns)) if isinstance(patterns, list) else ""
    return ": ".join(word for word in ("permission", str(request.get("permission")), command or listed) if word)


def question_text(request: dict[str, Any]) -> str:
    questions = request.get("questions")
    first = questions[0] if isinstance(questions, list) and questions and isinstance(questions[0], dict) else {}
    return f"question: {text_or_none(first.get('question')) or '?'}"
