"""How Claude Code is started, spoken to and stopped (measured: 2.1.197 and 2.1.325).

A resumed session takes its model up again by itself, but not its permission mode: that is read from its transcript.
"""

from __future__ import annotations

import os
import re

from agentctl.agents.claude_code.adapter import ADAPTER, CONFIG_DIR, NAME, is_native
from agentctl.agents.control_base import (
    ASKS,
    CAREFUL,
    EDITS_FILES,
    FREE,
    REFUSES,
    Control,
    check_flags,
    check_mode,
    check_rights,
    given,
    has_flag,
    joined,
    new_id,
    on_stdin,
    printed_objects,
    value_of,
    words_for_screen,
)
from agentctl.agents.recipes import BYPASS, DEFAULT, EDITS, PLAN, Held, Recipe, Task, Way
from agentctl.errors import Refused, UsageError
from agentctl.files.bounded import Torn, decode, lines_backward, read_json, real_path, text_or_none, whole_number
from agentctl.kernel import confinement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from agentctl.agents.screen import Input, Screen
    from agentctl.model import Session

MODES = {DEFAULT: None, PLAN: "plan", EDITS: "acceptEdits", BYPASS: "bypassPermissions"}
MODE_FLAGS = ("--permission-mode", "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions")
RANKS = {"plan": CAREFUL, "default": ASKS, "dontAsk": ASKS, "acceptEdits": EDITS_FILES}  # all others: FREE
MODE_LIMIT = 8 * 1024 * 1024  # of a transcript, from its end: each prompt has the mode
OURS = {
    "--session-id": "the id is chosen by agentctl",
    **dict.fromkeys(("--resume", "-r", "--continue", "-c"), "use `agentctl resume`"),
    "--fork-session": "`agentctl resume` goes on with the session itself",
    **dict.fromkeys(("--bg", "--background"), "a launch runs in the background by itself"),
    **dict.fromkeys(("--output-format", "--input-format"), "agentctl reads its output and writes its input"),
}
OF_A_SCREEN = {**OURS, **dict.fromkeys(("-p", "--print"), "a screen has none; leave --interactive out")}
AT_ITS_PROMPT = ("idle", "shell")


class ClaudeCodeControl(Control):
    SECOND_WRITER = True  # several may --resume one session at once: all register, and all append to its transcript
    STORE_ENV = (CONFIG_DIR,)

    def start(self, task: Task) -> Recipe:
        check_mode(NAME, task.permissions, MODES)
        check_flags(NAME, task.flags, OF_A_SCREEN if task.interactive else OURS)
        check_goes_on(task.session)
        id = task.session.id if task.session else new_id()
        mode, note = mode_for(task)
        first = ("claude", *task.flags)  # some flags take all the words up to the next one
        options = (
            *(("--resume", id) if task.session else ("--session-id", id)),
            *given("--model", task.model),
            *given("--permission-mode", mode),
        )
        if task.interactive:
            return Recipe((*first, *options, *words_for_screen(NAME, task.prompt)), session_id=id, said=note)
        argv = (*first, "-p", "--output-format", "stream-json", "--verbose", *options)
        said = joined(note, REFUSES if mode != MODES[BYPASS] else None)
        return Recipe(argv, on_stdin(task.prompt), session_id=id, said=said)

    def printed_id(self, output: bytes) -> str | None:
        """Return the session that Claude says it runs: agentctl chose the id, and this confirms it."""
        for value in printed_objects(output):
            if value.get("type") == "system" and (id := text_or_none(value.get("session_id"))):
                return id
        return None

    def naming(self, root: str) -> dict[str, str]:
        return {CONFIG_DIR: root}

    def way_to_stop(self, held: Held) -> Way:
        job = background_job(held)
        if job is None:
            return Way()
        if (why := why_confined(held)) is not None:
            return Way(said=f"a background session; {why}, so agentctl runs no `claude stop` for it")
        said = f"a background session, which its daemon would bring back: claude stop {job}"
        return Way(signals=(), command=(*surroundings(held), *program(held), "stop", job), said=said)

    def way_to_send(self, held: Held) -> None:
        """Leave it to the terminal. Raises Refused if a dialog is open there: it is no turn, but it takes the keys."""
        file = registration(held)
        status = text_or_none(file.get("status")) if file is not None else None
        if status not in AT_ITS_PROMPT:
            what = text_or_none((file or {}).get("waitingFor")) or status or "it does not say what it does"
            raise Refused(f"its screen is not at its prompt ({what}); look at it: agentctl attach {held.session.id}")

    def input_on(self, screen: Screen) -> Input:
        from agentctl.agents.claude_code import input_line

        return input_line.input_on(screen)

    def own_screen(self, held: Held) -> tuple[str, ...] | None:
        job = background_job(held)
        if job is None or why_confined(held) is not None:
            return None
        return (*surroundings(held), *program(held), "attach", job)


def check_goes_on(session: Session | None) -> None:
    if session is not None and session.parent is not None:
        raise UsageError(f"{session.id} is a sub-agent, which only its parent can go on with: resume {session.parent}")


def mode_for(task: Task) -> tuple[str | None, str | None]:
    """Return the permission mode of a turn in Claude's own word, and a note if it is the one that its session had."""
    if task.session is None or task.permissions is not None or has_flag(task.flags, *MODE_FLAGS):
        return MODES[task.permissions or DEFAULT], None
    mode = mode_of(task.session)
    if mode is not None:
        option = "--permissions bypass" if mode == MODES[BYPASS] else f"`-- --permission-mode {mode}`"
        check_rights(task.session, mode, RANKS.get(mode, FREE), launched_rank(task.launched_as), option)
    return mode, f"it goes on in its mode {mode}" if mode not in (None, "default") else None


def launched_rank(words: Sequence[str]) -> int | None:
    """Return the rights that a launch of ours has given; None if it gave none by name."""
    if has_flag(words, *MODE_FLAGS[1:]):
        return FREE
    mode = value_of(words, MODE_FLAGS[0])
    return RANKS.get(mode, FREE) if mode is not None else None


def mode_of(session: Session) -> str | None:
    """Return the permission mode of its last prompt, in Claude's own word."""
    try:
        for line in lines_backward(session.path, MODE_LIMIT) if session.path else ():
            record = decode(line) if b'"permissionMode"' in line else None
            mode = text_or_none(record.get("permissionMode")) if record and not record.get("isSidechain") else None
            if mode is not None and mode.isascii() and mode.isalpha():
                return mode
    except OSError:
        pass  # the agent will say it better
    return None


def registration(held: Held) -> dict[str, Any] | None:
    """Return what its process has written about itself."""
    for pid in {held.process.pid, *held.details.pids}:
        try:
            file = read_json(f"{held.session.store}/sessions/{pid}.json")
        except (OSError, Torn):
            continue
        if whole_number(file.get("procStart")) == held.process.key.start:
            return file
    return None


def background_job(held: Held) -> str | None:
    """Return the job that this session is for Claude's own daemon; None if it is not in the background."""
    store, file = held.session.store, registration(held)
    if file is not None:
        return checked_job(text_or_none(file.get("jobId"))) if file.get("kind") == "bg" else None
    try:
        workers = read_json(f"{store}/daemon/roster.json").get("workers")
    except (OSError, Torn):
        return None
    for short, worker in workers.items() if isinstance(workers, dict) else ():
        if isinstance(worker, dict) and worker.get("sessionId") == held.session.id:
            return checked_job(str(short))
    return None


def checked_job(job: str | None) -> str | None:
    """Return the name of a job, if it has the form of one: it becomes a word of a command."""
    return job if job and not job.startswith("-") and re.fullmatch(r"[\w-]+", job) else None


def why_confined(held: Held) -> str | None:
    """Return why no command may be run for this process: in its sandbox it may have written the program that runs, and
    the settings that `claude` would read. None where the system cannot tell: then `program` is the one in PATH."""
    return confinement.why_confined(held.process.pid) if confinement.CAN_TELL else None


def program(held: Held) -> tuple[str, ...]:
    """Return the very program that runs: it knows its daemon, whatever `claude` is in our PATH."""
    if not confinement.CAN_TELL:
        return ("claude",)
    exe, argv = held.details.exe or "", held.details.argv or ()
    if is_native(exe) and os.access(exe, os.X_OK):
        return (exe,)
    script = argv[1] if len(argv) > 1 else ""
    if exe and os.path.basename(argv[0]) in ("node", "bun") and is_script(script) and os.access(exe, os.X_OK):
        return (exe, script)
    return ("claude",)


def is_script(path: str) -> bool:
    return os.path.isabs(path) and os.path.isfile(path)  # a relative one is in its directory, not in ours


def surroundings(held: Held) -> tuple[str, ...]:
    """Return how `env` must change our environment, so that a command reaches the daemon of this session."""
    if held.details.env is None:
        own = real_path(ADAPTER.roots(held.env)[0])
        return () if held.session.store in (None, own) else ("env", f"CLAUDE_CONFIG_DIR={held.session.store}")
    words = []
    for name in ADAPTER.ENV:
        theirs, ours = held.details.env.get(name), held.env.get(name)
        if theirs != ours:
            words += ["-u", name] if theirs is None else [f"{name}={theirs}"]
    words.sort(key=lambda word: "=" in word)  # options of env come first
    return ("env", *words) if words else ()


CONTROL = ClaudeCodeControl()
