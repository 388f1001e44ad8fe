"""What agentctl itself writes about the agents it launches, one folder per launch: launches/<id>/

launch.json   what only the launcher knew, written once by the runner, before the agent is executed
output.log    the agent's stdout and stderr
exits.jsonl   one line per process that the runner reaped
hooks.log     the words of the commands that the runner ran
hooks.jsonl   how the person's hooks ended; completed: the mark that on-complete was begun
session       of an agent in a terminal, that names its session itself: the one that `launch` has printed
agent         of a launch whose program is a wrapper: that a process of the agent was seen below it

A folder without launch.json is no launch: it is on its way to be one, or what was left of one that never was.
No status is in any of them.
"""

from __future__ import annotations

import os
import time
from itertools import islice

from agentctl.errors import NotFound, Refused, remedy
from agentctl.files import bounded
from agentctl.files.bounded import amount, moment, text_or_none, whole_number
from agentctl.files.private import make_private, not_ours
from agentctl.kernel.recorded import key_here, written_at
from agentctl.launches.written import Written
from agentctl.model import Exit, Launch, Launcher, Problem, ProcessKey, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MARKER = "AGENTCTL_LAUNCH"
LAUNCH, OUTPUT, EXITS, COMMANDS, SESSION = "launch.json", "output.log", "exits.jsonl", "hooks.log", "session"
AGENT = "agent"
STORES = "stores"  # the folder of the list of stores that live agents named
EVENTS, DAEMON = "events", "daemon"  # the folders of the log of events, and of the daemon's own files
STATE = ("launches", "locks", "gates", STORES, EVENTS, DAEMON)  # what the state folder holds
LONGEST_ID = 256
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
RANDOM_DIGITS = 4
ID_LENGTHS = range(10, 15)
ID_TRIES = 100
EXITS_LIMIT = 4 * 1024 * 1024  # from the end of the file; a line is about 250 bytes
MOST_EXITS = 20_000
OWNER = "agentctl"  # in place of an agent's name where our own files cannot be read


class Reserved(Value):
    """A launch id, and its folder, which is empty."""

    id: str
    folder: str


# The state folder


def state_folder(env: Mapping[str, str]) -> str:
    if env.get("AGENTCTL_HOME"):
        return os.path.abspath(env["AGENTCTL_HOME"])  # __main__.py refuses a relative one
    base = env.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: a relative path is to be ignored
        base = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".local/state")
    return os.path.join(base, "agentctl")


def make_state_folder(env: Mapping[str, str]) -> None:
    """Make the state folder. Raises Refused and OSError."""
    make_private(state_folder(env), STATE)


def launches_folder(env: Mapping[str, str]) -> str:
    return os.path.join(state_folder(env), "launches")


def reserve(env: Mapping[str, str]) -> Reserved:
    """Make a new launch id and its folder. The folder makes the id unique."""
    launches = launches_folder(env)
    try:
        make_state_folder(env)
        make_private(launches)
        for _ in range(ID_TRIES):
            id = new_id()
            try:
                os.mkdir(os.path.join(launches, id), 0o700)
            except FileExistsError:
                continue
            return Reserved(id, os.path.join(launches, id))
    except OSError as error:
        raise Refused(
            f"{error.filename or launches}: {error.strerror}; launches are noted there: {remedy(error)}, or set "
            "AGENTCTL_HOME"
        ) from error
    raise Refused(f"{launches}: no new id in {ID_TRIES} tries; is its clock or its random source broken?")


def new_id() -> str:
    """Return an id of the milliseconds since 1970, so that ids sort by time (to 2059), and of random digits for
    launches of the same moment."""
    number, random = time.time_ns() // 1_000_000, os.urandom(RANDOM_DIGITS)
    text = "".join(DIGITS[byte % len(DIGITS)] for byte in random)
    while number:
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
    return text


def made_at(id: str) -> float:
    """Return when an id was made, in seconds since 1970: good enough to see that a folder is too young to remove."""
    return int(id[:-RANDOM_DIGITS], len(DIGITS)) / 1000


def is_id(name: str) -> bool:
    """Return whether a text consists of DIGITS alone: small letters and digits of ASCII."""
    return len(name) in ID_LENGTHS and name.isascii() and name.isalnum() and name == name.lower()


# Reading. Nothing is made or changed, and nothing that stands there is believed further than its form.


def read_all(env: Mapping[str, str]) -> tuple[list[Launch], list[Problem]]:
    """Return every launch, oldest first, and what could not be read."""
    found, problems = read_records(env)
    return [one.launch for one in found], problems


def names(env: Mapping[str, str]) -> tuple[list[tuple[str, bool]], list[Problem]]:
    """Return what may be a launch, oldest first, and whether it is a link."""
    folder = launches_folder(env)
    try:
        with os.scandir(folder) as entries:  # says what is a link without a question for each
            kept = sorted((entry.name, entry.is_symlink()) for entry in entries if is_id(entry.name))
        if kept and (why := not_ours(folder) or not_ours(state_folder(env))):
            return [], [Problem(OWNER, f"its launches are not read: {why}", folder)]
    except FileNotFoundError:
        return [], unless_absent(folder)
    except OSError as error:
        return [], [Problem(OWNER, error.strerror or str(error), folder)]
    return kept, []


def unless_absent(path: str) -> list[Problem]:
    """Return the problem with a path that was not found; none if it is truly absent."""
    try:
        bounded.check_absent(path)
    except OSError as error:
        return [Problem(OWNER, error.strerror or str(error), path)]
    return []


def read_records(env: Mapping[str, str]) -> tuple[list[Written], list[Problem]]:
    """Return every launch as it is written, oldest first, and what could not be read."""
    folder = launches_folder(env)
    kept, problems = names(env)
    launches = []
    for name, is_link in kept:
        found = read_record(name, f"{folder}/{name}", is_link=is_link)
        if isinstance(found, Written):
            launches.append(found)
        elif found is not None:
            problems.append(found)
    return launches, problems


def read(id: str, env: Mapping[str, str]) -> Launch | Problem:
    found = read_folder(id, os.path.join(launches_folder(env), id)) if is_id(id) else None
    if found is None:
        raise NotFound(f"no launch {id!r}; `agentctl list` shows what there is")
    return found


def read_folder(id: str, folder: str) -> Launch | Problem | None:
    """Return the launch of a folder; a Problem if it cannot be read; None if it is no launch, or none yet."""
    found = read_record(id, folder, is_link=os.path.islink(folder))
    return found.launch if isinstance(found, Written) else found


def read_record(id: str, folder: str, *, is_link: bool) -> Written | Problem | None:
    path = f"{folder}/{LAUNCH}"
    try:
        if is_link:
            raise bounded.Torn("a link where a launch should be")
        return parse(id, bounded.read_json(path), folder, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Problem(OWNER, error.strerror or str(error), path)
    except bounded.Torn as error:
        return Problem(OWNER, str(error), path)


def note_session(folder: str, id: str) -> None:
    """Note the session of a launch, once, so that it is known after the process has ended. It links nothing."""
    note_once(os.path.join(folder, SESSION), id)


def note_agent(folder: str, key: ProcessKey) -> None:
    """Note, once, that this process of the agent was seen below the wrapper of a launch: so it is on this machine."""
    note_once(os.path.join(folder, AGENT), str(key))


def note_once(path: str, text: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(text.encode() + b"\n")
    except OSError:
        pass  # then it is known while it lives, and no longer


def has_seen_agent(folder: str) -> bool:
    """Return whether a process of the agent was seen below the wrapper of a launch."""
    return os.path.lexists(os.path.join(folder, AGENT))


def noted_session(folder: str) -> str | None:
    try:
        words = bounded.read_bytes(os.path.join(folder, SESSION), LONGEST_ID).decode().split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return words[0] if len(words) == 2 and words[0] and not words[1] else None


def parse(id: str, facts: dict[str, Any], folder: str, path: str) -> Written:
    """Return the record of this launch. Raises Torn if the file is something else."""
    runner, child = ProcessKey.parse(facts.get("runner")), ProcessKey.parse(facts.get("child"))
    agent, cwd, created_at = text_or_none(facts.get("agent")), text_or_none(facts.get("cwd")), facts.get("created_at")
    at = moment(created_at)
    if runner is None or child is None or agent is None or cwd is None or at is None:
        raise bounded.Torn(f"not the record of a launch: {path}")
    if facts.get("id") != id:
        raise bounded.Torn(f"the record of another launch: {path}")
    namespace = text_or_none(facts.get("pid_namespace"))
    written = written_at(path)
    runner, child = key_here(runner, namespace, written), key_here(child, namespace, written)
    session, told_by = text_or_none(facts.get("session_id")), LAUNCH
    if session is None and facts.get("headless") is not True:
        session, told_by = noted_session(folder), SESSION

    wrapper = text_or_none(facts.get("wrapper"))

    def take_apart() -> Launch:
        hooks = facts.get("hooks")
        return Launch(
            id=id,
            agent=agent,
            argv=words(facts.get("argv")),
            env_names=words(facts.get("env_names")),
            cwd=cwd,
            runner=runner,
            child=child,
            created_at=at,
            headless=facts.get("headless") is True,
            one_shot=facts.get("one_shot") is True,
            pid_namespace=namespace,
            prompt=text_or_none(facts.get("prompt")),
            group=text_or_none(facts.get("group")),
            spec=text_or_none(facts.get("spec")),
            hooks=tuple((name, text) for name, text in hooks.items() if isinstance(text, str))
            if isinstance(hooks, dict)
            else (),
            worktree=text_or_none(facts.get("worktree")),
            branch=text_or_none(facts.get("branch")),
            base=text_or_none(facts.get("base")),
            repository=text_or_none(facts.get("repository")),
            slot=text_or_none(facts.get("slot")),
            session_id=session,
            time_limit=amount(facts.get("time_limit")) or None,
            path=path,
            launcher=launcher_in(facts.get("launcher"), written),
            directory=directory_in(facts.get("directory")),
            wrapper=wrapper,
            store=text_or_none(facts.get("store")),
        )

    one_shot = facts.get("one_shot") is True
    return Written(agent, child, path, session, told_by, one_shot, namespace, wrapper, take_apart)


def launcher_in(facts: object, written: float) -> Launcher | None:
    """Return the launcher in a record; None if that names none: it was written before launches named theirs. `written`:
    when the record was written."""
    if not isinstance(facts, dict):
        return None
    process, namespace = ProcessKey.parse(facts.get("process")), text_or_none(facts.get("pid_namespace"))
    return Launcher(
        process=key_here(process, namespace, written) if process is not None else None,
        agent=text_or_none(facts.get("agent")),
        session=text_or_none(facts.get("session")),
        launch=text_or_none(facts.get("launch")),
        depth=whole_number(facts.get("depth")) or 0,
    )


def directory_in(facts: object) -> tuple[int, int, int | None] | None:
    """Return which directory a launch was in: device, inode, and when it was made."""
    if not isinstance(facts, list) or len(facts) != 3:
        return None
    device, inode, made = map(whole_number, facts)
    return (device, inode, made) if device is not None and inode is not None else None


def words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(value) if set(map(type, value)) == {str} else tuple(word for word in value if isinstance(word, str))


def exits(id: str, env: Mapping[str, str], namespace: str | None = None) -> list[Exit]:
    """Return how the processes of a launch ended, in their order. An entry is missing if the disk was full or the
    runner was killed. `namespace`: the one that the launch names, in which its runner recorded these ends."""
    return exits_in(os.path.join(launches_folder(env), id), namespace) if is_id(id) else []


def exits_in(folder: str, namespace: str | None = None) -> list[Exit]:
    try:
        lines = list(islice(bounded.lines_backward(os.path.join(folder, EXITS), EXITS_LIMIT), MOST_EXITS))
    except OSError:
        return []
    return [parse_exit(line, namespace) for line in map(bounded.decode, reversed(lines)) if line is not None]


def exit_code(value: object) -> int | None:
    """Return an exit code as the kernel or a shell writes it; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256 else None


def parse_exit(line: dict[str, Any], namespace: str | None = None) -> Exit:
    key = ProcessKey.parse(line.get("key"))
    usage = line.get("rusage")
    usage = usage if isinstance(usage, dict) else {}
    times = [amount(usage.get("utime")), amount(usage.get("stime"))]
    numbers = [time for time in times if time is not None]
    return Exit(
        key=key_here(key, namespace, moment(line.get("at")) or 0.0) if key is not None else None,
        comm=text_or_none(line.get("comm")),
        exit_code=exit_code(line.get("exit_code")),
        signal=text_or_none(line.get("signal")),
        at=moment(line.get("at")),
        direct=line.get("direct") is True,
        error=text_or_none(line.get("error")),
        cpu_seconds=sum(numbers) if len(numbers) == len(times) else None,
        max_rss=whole_number(usage.get("maxrss")),
        time_limit=amount(line.get("time_limit")),
    )
