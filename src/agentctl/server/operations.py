"""Which requests there are, and the words of the command that answers each. Pure.

One table makes the routes, the check of what was given, the words of the command, and the OpenAPI document. So an
answer is what a person would get on the command line: the same shape, exit code and text.
"""

from __future__ import annotations

import os

from agentctl.agents.recipes import PERMISSIONS
from agentctl.errors import UsageError
from agentctl.files.bounded import is_session_id
from agentctl.model import STATUS_WORDS, Value
from agentctl.usage.report import BY
from agentctl.wait import UNTIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

TEXT, TEXTS, NUMBER, FLAG, PAIRS = "text", "texts", "number", "flag", "pairs"
ID, IDS, STDIN, AGENT_OPTIONS, PLACE = "id", "ids", "stdin", "agent options", "place"
LARGEST_NUMBER = 100_000
LONGEST_TEXT = 64 * 1024  # characters of an option; what goes through stdin may be longer
MOST = 1000  # members of a list


class Given(Value):
    """Something that a request may give. `option`: what it is on the command line."""

    name: str
    kind: str
    option: str = ""
    about: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()


class Operation(Value):
    """`acts`: it changes something, so it is not cut short when whoever asked leaves. `lines`: the command prints one
    JSON object per line, and the last one is the answer."""

    name: str
    method: str
    path: str
    verb: str
    about: str
    given: tuple[Given, ...] = ()
    answer: tuple[str, ...] = ()  # what is in the JSON
    acts: bool = False
    lines: bool = False
    waits: bool = False


SESSION = Given("id", ID, "", "a session id, a unique beginning of one, or a launch id", True)
SESSIONS = Given("ids", IDS, "", "session ids, unique beginnings of them, or launch ids")
AGENTS = Given("agent", TEXTS, "--agent", "only this agent; may be repeated")
GROUP = Given("group", TEXT, "--group", "only sessions that were launched in this group")

OPERATIONS = (
    Operation(
        "list_sessions",
        "GET",
        "/v1/sessions",
        "list",
        "sessions that are alive or unknown; `all` and `since` add ended ones",
        (
            AGENTS,
            Given("status", TEXTS, "--status", "only this status; may be repeated", choices=STATUS_WORDS),
            Given("cwd", PLACE, "--cwd", "only sessions in this directory or below it"),
            GROUP,
            Given("all", FLAG, "--all", "also sessions that ended in the last 7 days"),
            Given("since", TEXT, "--since", "also sessions that ended since: 30m, 12h, 7d, 4w or all"),
            Given("n", NUMBER, "-n", "at most so many"),
            Given("tree", FLAG, "--tree", "also sub-agents"),
        ),
        ("sessions", "unattached", "problems", "not_shown", "tools_left"),
    ),
    Operation(
        "get_session",
        "GET",
        "/v1/sessions/{id}",
        "status",
        "everything that is known about one session",
        (SESSION,),
        ("session", "problems", "tools_left"),
    ),
    Operation(
        "why",
        "GET",
        "/v1/sessions/{id}/why",
        "why",
        "how agentctl knows a status",
        (SESSION,),
        ("session", "rule", "rejected", "sources", "problems"),
    ),
    Operation(
        "messages",
        "GET",
        "/v1/sessions/{id}/messages",
        "peek",
        "the last messages of a session",
        (SESSION, Given("n", NUMBER, "-n", "how many (default: 20)")),
        ("session", "messages", "printed"),
    ),
    Operation(
        "locks",
        "GET",
        "/v1/locks",
        "locks",
        "locked directories, and those in which agents work",
        (),
        ("locks", "problems"),
    ),
    Operation(
        "usage",
        "GET",
        "/v1/usage",
        "usage",
        "tokens and cost",
        (
            Given("by", TEXT, "--by", "what each row stands for", choices=BY),
            Given("since", TEXT, "--since", "an age, a date, or all (default: 30 days)"),
            Given("until", TEXT, "--until", "an age or a date (default: now)"),
            AGENTS,
        ),
        ("by", "rows", "total", "problems"),
    ),
    Operation(
        "wait",
        "POST",
        "/v1/wait",
        "wait",
        "wait until sessions no longer run, or are idle, waiting or ended; whoever leaves ends the wait",
        (
            SESSIONS,
            Given("group", TEXT, "--group", "all sessions that this group has now"),
            Given("until", TEXT, "--until", "what to wait for", choices=UNTIL),
            Given("timeout", TEXT, "--timeout", "give up after this time: 90s, 30m, 2h"),
            Given("any", FLAG, "--any", "wait for the first of them"),
        ),
        ("sessions", "launches", "exit_code"),
        lines=True,
        waits=True,
    ),
    Operation(
        "launch",
        "POST",
        "/v1/launch",
        "launch",
        "start an agent; it gets the environment of the daemon, and `env`",
        (
            Given("agent", ID, "", "the agent (default: that of the configuration)"),
            Given("prompt", STDIN, "--prompt-file=-", "the prompt", True),
            Given("cwd", PLACE, "--cwd", "where it works", True),
            Given("model", TEXT, "--model", "the model, by the agent's own name for it"),
            Given("permissions", TEXT, "--permissions", "what it may do", choices=tuple(PERMISSIONS)),
            Given("env", PAIRS, "--env", "variables to set for it"),
            Given("group", TEXT, "--group", "the group that this launch belongs to"),
            Given("timeout", TEXT, "--timeout", "stop it after this time: 90s, 30m, 2h"),
            Given("id_timeout", TEXT, "--id-timeout", "give up on its session id after this"),
            Given("worktree", FLAG, "--worktree", "work in a new git worktree"),
            Given("branch", TEXT, "--branch", "the branch of the worktree"),
            Given("base_branch", TEXT, "--base-branch", "where a new branch begins"),
            Given("on_create", TEXT, "--on-create", "a shell command to run when its session is known"),
            Given("on_complete", TEXT, "--on-complete", "a shell command to run when its session has ended"),
            Given("interactive", FLAG, "--interactive", "run its screen in a new tmux session"),
            Given("force", FLAG, "--force", "start even if another session works there, or it is locked"),
            Given("flags", AGENT_OPTIONS, "--", "options of the agent itself"),
        ),
        ("session",),
        acts=True,
    ),
    Operation(
        "send",
        "POST",
        "/v1/send",
        "send",
        "give an idle session its next prompt",
        (
            SESSION,
            Given("text", STDIN, "-", "its next prompt", True),
            Given("raw", FLAG, "--raw", "send it even if the screen may take it for a command"),
            Given("timeout", TEXT, "--timeout", "how long to wait for the proof that it arrived"),
        ),
        ("sent", "session"),
        acts=True,
    ),
    Operation(
        "stop",
        "POST",
        "/v1/stop",
        "stop",
        "end sessions in their agent's own orderly way",
        (
            SESSIONS,
            Given("group", TEXT, "--group", "every live session of this group"),
            Given("grace", TEXT, "--grace", "how long it may take to end by itself"),
            Given("force", FLAG, "--force", "stop it even if its process was only inferred"),
            Given("tree", FLAG, "--tree", "also sessions below it, and what its launch left behind"),
            Given("screen", FLAG, "--screen", "end the screen of a session that a daemon keeps open"),
        ),
        ("stopped",),
        acts=True,
    ),
)


class Command(Value):
    """What to run: the words after `agentctl`, and what goes to its stdin."""

    words: tuple[str, ...]
    stdin: str | None = None


def command_of(operation: Operation, values: Mapping[str, Any]) -> Command:
    """Return the command that answers a request. Raises UsageError if what was given is not what the table says."""
    known = {given.name: given for given in operation.given}
    for name in values:
        if name not in known:
            names = ", ".join(known) or "none"
            raise UsageError(f"{name!r}: unknown parameter of {operation.path}; there are: {names}")
    options: list[str] = []
    places: list[str] = []
    rest: list[str] = []
    stdin: str | None = None
    for name, given in known.items():
        value = values.get(name)
        if value is None:
            if given.required:
                raise UsageError(f"{name} is missing: {given.about}")
        elif given.kind == STDIN:
            stdin = checked_text(given, value)
            (options if given.option.startswith("--") else places).append(given.option)
        elif given.kind in (ID, IDS):
            places += ids_of(given, value)
        elif given.kind == AGENT_OPTIONS:
            rest = ["--", *texts_of(given, value)]
        else:
            options += words_of(given, value)
    return Command((operation.verb, *places, *options, "--json", *rest), stdin)


def words_of(given: Given, value: Any) -> list[str]:
    """Return the words of an option. `--name=value` is one word, so no value is taken for an option."""
    if given.kind == FLAG:
        if not isinstance(value, bool):
            raise UsageError(f"{given.name}: give true or false")
        return [given.option] if value else []
    if given.kind == NUMBER:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_NUMBER:
            raise UsageError(f"{given.name}: give a number from 0 to {LARGEST_NUMBER}")
        return [given.option, str(value)]
    if given.kind == PAIRS:
        return [f"{given.option}={name}={text}" for name, text in pairs_of(given, value)]
    texts = texts_of(given, value) if given.kind == TEXTS else [checked_text(given, value, LONGEST_TEXT)]
    if given.kind == PLACE and not os.path.isabs(texts[0]):
        raise UsageError(f"{given.name}: give a path that begins with /: the daemon is in no directory of yours")
    for text in texts:
        if given.choices and text not in given.choices:
            raise UsageError(f"{given.name} {text!r}: give one of {', '.join(given.choices)}")
    return [f"{given.option}={text}" for text in texts]


def texts_of(given: Given, value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > MOST:
        raise UsageError(f"{given.name}: give a list of at most {MOST}")
    return [checked_text(given, text, LONGEST_TEXT) for text in value]


def pairs_of(given: Given, value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, dict) or len(value) > MOST:
        raise UsageError(f"{given.name}: give an object of names and values")
    for name in value:
        if not name or "=" in name:
            raise UsageError(f"{given.name}: {name!r} is no name of a variable")
    return [(checked_text(given, name), checked_text(given, text, LONGEST_TEXT)) for name, text in value.items()]


def ids_of(given: Given, value: Any) -> list[str]:
    found = value if given.kind == IDS else [value]
    for text in texts_of(given, found):
        if not is_session_id(text):  # it could be taken for an option, or lead somewhere
            raise UsageError(f"{given.name} {text!r}: no id looks like this")
    return [*found]


def checked_text(given: Given, text: Any, longest: int | None = None) -> str:
    """Return a text that can be a word of a command. Raises UsageError."""
    if not isinstance(text, str):
        raise UsageError(f"{given.name}: give a string")
    if longest is not None and len(text) > longest:
        raise UsageError(f"{given.name}: longer than {longest} characters")
    if text == "--" and given.kind not in (STDIN, AGENT_OPTIONS):
        raise UsageError(f"{given.name}: -- alone is no value: commands take it for the end of their options")
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{given.name}: half a character (a lone surrogate)") from None
    if b"\0" in encoded:
        raise UsageError(f"{given.name}: a NUL cannot be in it")
    return text


def values_in(operation: Operation, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return what a query string gives, in the types of the table. Raises UsageError."""
    kinds = {given.name: given.kind for given in operation.given}
    found: dict[str, Any] = {}
    for name, text in pairs:
        kind = kinds.get(name, TEXT)
        if kind == TEXTS:
            found.setdefault(name, []).append(text)
        elif name in found:
            raise UsageError(f"{name}: given twice")
        else:
            found[name] = converted(name, kind, text)
    return found


def converted(name: str, kind: str, text: str) -> Any:
    if kind == FLAG:
        if text not in ("true", "false"):
            raise UsageError(f"{name}={text}: give true or false")
        return text == "true"
    if kind == NUMBER:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise UsageError(f"{name}={text}: give a number")
        return int(text)
    return text
