"""The demo agent's store, one folder per session: $XDG_DATA_HOME/agentctl-demo/sessions/<id>/

events.jsonl: what happened, append-only, one write per line; locked (flock) by the process that is on the session.
process.json: which process that is and what it does; there while it lives, and left behind only if it was killed.
answer: written by others, y or n, while the agent asks.
prompt: written by others while the agent is idle and nobody can type to it (process.json says "mailbox": true).
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from datetime import UTC, datetime

from agentctl.demo_agent import VERSION

MAILBOX = "prompt"  # the next prompt of an agent that nobody can type to


class StoreError(Exception):
    """A session that cannot be made or taken up; the message is for people."""


class Session:
    """One session, held by this process."""

    def __init__(self, id: str, folder: str, events: int) -> None:
        self.id = id
        self._folder = folder
        self._events = events
        self._process = {"pid": os.getpid(), "start_ticks": start_ticks(), "boot_id": boot_id()}
        self._process["pid_namespace"] = pid_namespace()

    def append(self, event: str, **fields: object) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = (json.dumps({"at": now, "event": event, **fields}) + "\n").encode()
        if os.write(self._events, line) != len(line):
            raise OSError(f"only a part of an event could be written to {self._folder}: is the disk full?")

    def append_setting(self, event: str, model: str, **fields: object) -> None:
        """Append an event that says where and with what the session runs: each turn may change it."""
        self.append(event, **fields, cwd=os.getcwd(), version=VERSION, model=model)

    def end_torn_line(self) -> None:
        """End a line that a full disk cut short: the next event must not become a part of it."""
        with open(f"{self._folder}/events.jsonl", "rb") as file:
            file.seek(max(self.size() - 1, 0))
            if file.read(1) not in (b"\n", b""):
                os.write(self._events, b"\n")

    def size(self) -> int:
        return os.fstat(self._events).st_size

    def set_status(self, status: str, waiting_for: str | None = None, *, mailbox: bool = False) -> None:
        """Say whether it is busy, waiting (and for what) or idle. A rename shows readers the old file or the new
        one."""
        content = {**self._process, "status": status}
        if waiting_for is not None:
            content["waiting_for"] = waiting_for
        if mailbox:
            content["mailbox"] = True
        temporary = f"{self._folder}/process.json.new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "w") as file:
            json.dump(content, file)
        os.rename(temporary, f"{self._folder}/process.json")

    def forget_answer(self) -> None:
        """Remove an answer that was there before the question: it is not an answer to it."""
        remove(f"{self._folder}/answer")

    def take_answer(self) -> str | None:
        """Return what somebody wrote as an answer. An empty file is still being written."""
        try:
            with open(f"{self._folder}/answer", errors="replace") as file:
                answer = file.read(100).strip()
        except FileNotFoundError:
            return None
        if answer:
            self.forget_answer()
        return answer or None

    def take_prompt(self) -> str | None:
        """Return the prompt that somebody put into its mailbox, and empty that. It is renamed into place when it is
        whole."""
        try:
            with open(f"{self._folder}/{MAILBOX}", errors="replace") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        self.forget_prompt()
        return text

    def forget_prompt(self) -> None:
        """Remove a prompt that was put there before the agent was at rest: it is not for this turn."""
        remove(f"{self._folder}/{MAILBOX}")

    def release(self) -> None:
        """End in order. The lock goes last: who takes the session up next finds no process file of ours."""
        remove(f"{self._folder}/process.json")
        os.close(self._events)


def new_session(id: str) -> Session:
    sessions = sessions_folder()
    os.makedirs(os.path.dirname(sessions), 0o700, exist_ok=True)
    os.makedirs(sessions, 0o700, exist_ok=True)
    folder = f"{sessions}/{id}"
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        raise StoreError(f"session id {id} is already in use") from None
    return hold(id, folder, os.O_CREAT | os.O_EXCL)


def resume_session(id: str) -> Session:
    folder = f"{sessions_folder()}/{id}"
    try:
        session = hold(id, folder, 0)
    except FileNotFoundError:
        raise StoreError(f"no such session: {id}") from None
    session.end_torn_line()
    return session


def hold(id: str, folder: str, flags: int) -> Session:
    events = os.open(f"{folder}/events.jsonl", os.O_WRONLY | os.O_APPEND | flags, 0o600)
    try:
        fcntl.flock(events, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(events)
        raise StoreError(f"session {id} is held by a live process: end that first") from None
    return Session(id, folder, events)


def sessions_folder() -> str:
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):  # the XDG specification: a relative path is to be ignored
        data = os.path.expanduser("~/.local/share")
    return os.path.join(data, "agentctl-demo", "sessions")


def session_id(text: str) -> str:
    """Return an id that a person gave. It must be a UUID, so it is a safe file name, too. Raises ValueError."""
    id = str(uuid.UUID(text))
    if id != text.lower():
        raise ValueError("not the usual form of a UUID")
    return id


def start_ticks() -> int | None:
    """Return when this process started, in ticks after boot. With the boot and the pid it names the process."""
    try:
        with open("/proc/self/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except FileNotFoundError:  # not Linux
        return None


def boot_id() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def pid_namespace() -> str | None:
    """Return the PID namespace in which our pid counts."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux, or /proc is not mounted
        return None


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
