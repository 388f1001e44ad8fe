"""What agentctl itself writes about the agents it launches, one folder per launch: launches/<id>/

launch.json   what only the launcher knew, written once by the runner, before the agent is executed
output.log    the agent's stdout and stderr
exits.jsonl   one line per process that the runner reaped
hooks.log     the words of the commands that the runner ran
hooks.jsonl   how the person's hooks ended; completed: the mark that on-complete was begun

A folder without launch.json is no launch: it is on its way to be one, or what was left of one that never was.
No status is in any of them.
"""

from __future__ import annotations

import os
import stat
import time
from itertools import islice

from agentctl import stores
from agentctl.errors import NotFound, Refused
from agentctl.model import Exit, Launch, Problem, ProcessKey, Value
from agentctl.stores import amount, moment, text_or_none, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MARKER = "AGENTCTL_LAUNCH"
LAUNCH, OUTPUT, EXITS, COMMANDS = "launch.json", "output.log", "exits.jsonl", "hooks.log"
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
        return os.path.abspath(env["AGENTCTL_HOME"])
    base = env.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: a relative path is to be ignored
        base = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".local/state")
    return os.path.join(base, "agentctl")


def launches_folder(env: Mapping[str, str]) -> str:
    return os.path.join(state_folder(env), "launches")


def make_private(folder: str) -> None:
    """Make a folder that only we can look into, with its parents; what is there already must be ours alone."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    if (why := not_ours(folder)) is not None:
        raise Refused(f"{folder}: {why}; make it yours alone, or set AGENTCTL_HOME to another folder")


def not_ours(folder: str) -> str | None:
    """Why what is written here could come from, or be taken by, somebody else. A link counts as what it leads to, if
    it was us who made it."""
    link, found = os.lstat(folder), os.stat(folder)
    if not stat.S_ISDIR(found.st_mode):
        return "not a folder"
    if found.st_uid != os.geteuid():
        return f"it belongs to another user (uid {found.st_uid})"
    if link.st_uid != os.geteuid():
        return f"it is a link that another user made (uid {link.st_uid})"
    if found.st_mode & 0o022:
        return f"others can write to it (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def sync_folder(folder: str) -> None:
    """What was renamed or linked into it is there after a power cut, too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def reserve(env: Mapping[str, str]) -> Reserved:
    """A new launch id and its folder: the folder is what makes the id unique."""
    state, launches = state_folder(env), launches_folder(env)
    try:
        make_private(state)
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
            f"{error.filename or launches}: {error.strerror}; launches are noted there: make room, or set AGENTCTL_HOME"
        ) from error
    raise Refused(f"{launches}: no new id in {ID_TRIES} tries; is its clock or its random source broken?")


def new_id() -> str:
    """Milliseconds since 1970, so that ids sort by time (to 2059), and chance for launches of the same moment."""
    number, random = time.time_ns() // 1_000_000, os.urandom(RANDOM_DIGITS)
    text = "".join(DIGITS[byte % len(DIGITS)] for byte in random)
    while number:
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
    return text


def made_at(id: str) -> float:
    """When an id was made, in seconds since 1970: good enough to see that a folder is too young to go."""
    return int(id[:-RANDOM_DIGITS], len(DIGITS)) / 1000


def is_id(name: str) -> bool:
    return len(name) in ID_LENGTHS and all(char in DIGITS for char in name)


# Reading. Nothing is made or changed, and nothing that stands there is believed further than its form.


def read_all(env: Mapping[str, str]) -> tuple[list[Launch], list[Problem]]:
    """Every launch, oldest first."""
    folder = launches_folder(env)
    try:
        names = sorted(name for name in stores.names(folder) if is_id(name))
        if names and (why := not_ours(folder) or not_ours(state_folder(env))):
            return [], [Problem(OWNER, f"its launches are not read: {why}", folder)]
    except OSError as error:
        return [], [Problem(OWNER, error.strerror or str(error), folder)]
    launches, problems = [], []
    for name in names:
        found = read_folder(name, os.path.join(folder, name))
        if isinstance(found, Launch):
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
    """None: no launch, or none yet."""
    path = os.path.join(folder, LAUNCH)
    try:
        if os.path.islink(folder):
            raise stores.Torn("a link where a launch should be")
        return parse(id, stores.read_json(path), path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Problem(OWNER, error.strerror or str(error), path)
    except stores.Torn as error:
        return Problem(OWNER, str(error), path)


def parse(id: str, facts: dict[str, Any], path: str) -> Launch:
    runner, child = ProcessKey.parse(facts.get("runner")), ProcessKey.parse(facts.get("child"))
    agent, cwd, created_at = text_or_none(facts.get("agent")), text_or_none(facts.get("cwd")), facts.get("created_at")
    at = moment(created_at)
    if runner is None or child is None or agent is None or cwd is None or at is None:
        raise stores.Torn(f"not the record of a launch: {path}")
    if facts.get("id") != id:
        raise stores.Torn(f"the record of another launch: {path}")
    hooks = facts.get("hooks")
    limit = facts.get("time_limit")
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
        pid_namespace=text_or_none(facts.get("pid_namespace")),
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
        session_id=text_or_none(facts.get("session_id")),
        time_limit=amount(limit) or None,
        path=path,
    )


def words(value: object) -> tuple[str, ...]:
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()


def exits(id: str, env: Mapping[str, str]) -> list[Exit]:
    """How the processes of a launch ended, in that order. None where the disk was full, or the runner killed."""
    return exits_in(os.path.join(launches_folder(env), id)) if is_id(id) else []


def exits_in(folder: str) -> list[Exit]:
    try:
        lines = list(islice(stores.lines_backward(os.path.join(folder, EXITS), EXITS_LIMIT), MOST_EXITS))
    except OSError:
        return []
    return [parse_exit(line) for line in map(stores.decode, reversed(lines)) if line is not None]


def exit_code(value: object) -> int | None:
    """As the kernel has them; what a shell makes of a signal fits in, too."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256 else None


def parse_exit(line: dict[str, Any]) -> Exit:
    usage = line.get("rusage")
    usage = usage if isinstance(usage, dict) else {}
    times = [amount(usage.get("utime")), amount(usage.get("stime"))]
    numbers = [time for time in times if time is not None]
    return Exit(
        key=ProcessKey.parse(line.get("key")),
        comm=text_or_none(line.get("comm")),
        exit_code=exit_code(line.get("exit_code")),
        signal=text_or_none(line.get("signal")),
        at=moment(line.get("at")),
        direct=line.get("direct") is True,
        error=text_or_none(line.get("error")),
        cpu_seconds=sum(numbers) if len(numbers) == len(times) else None,
        max_rss=whole_number(usage.get("maxrss")),
    )
