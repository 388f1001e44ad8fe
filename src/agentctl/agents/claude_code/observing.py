"""What a live process of Claude Code does: by its own file if that says so, else by its transcript, its arguments and
its children.

Without a status (headless runs, screens of older versions) a call that waits for a person looks on disk like one that
runs, and a prompt that Esc took back looks like one that is being answered.
"""

from __future__ import annotations

from agentctl.agents.base import FINISHING, option
from agentctl.agents.claude_code import files
from agentctl.agents.claude_code.records import PERHAPS_ASKED, UNANSWERED
from agentctl.model import CLOSED_TURNS, IDLE, UNKNOWN, WAITING, WORKING, Details, Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentctl.kernel.processes import Processes
    from agentctl.model import Link, Process, Record

ON_SCREEN, ON_STDIN = "on its screen", "on its stdin"  # where a person is asked
BEHIND = "its file says that it asks, and its transcript has not come so far"
YOUNG = "it began to ask a moment ago: its file runs up to 0.1 s ahead of its transcript"
OLDER = 1.0  # seconds: a record that much older than a question is not what is asked
CATCHES_UP = 2.0  # seconds within which a transcript has what is asked, on a busy machine, too
LATE = 2.0  # seconds by which the clock of a record and the start of a process may be apart


def observed(link: Link, record: Record | None, processes: Processes, entrypoint: str | None) -> Link:
    """Return the link with what its process does. `entrypoint`: by its own file."""
    process = processes.alive(link.key)
    if process is None:
        return link
    if link.turn == WAITING:
        return observed_waiting(link, record, processes.taken_at)
    if link.turn == IDLE and record is not None and record.turn == WORKING and record.path is not None:
        return link._replace(doubt="its file runs up to 0.1 s ahead of its transcript")
    if link.turn is not None:
        return link
    if record is None or record.path is None:
        return link._replace(turn=UNKNOWN, reason="no transcript yet, and its own file gives no status")
    if record.turn == UNKNOWN:
        return link._replace(turn=UNKNOWN, reason=record.reason)
    return observed_without_status(link, record, process, processes, entrypoint)


def observed_without_status(
    link: Link, record: Record, process: Process, processes: Processes, entrypoint: str | None
) -> Link:
    """Judge a process whose file has no status by its record, and by what it can be: a screen, or a run."""
    argv = (processes.details(process) or Details()).argv or ()
    # 2.1.89 writes its name over its arguments. A run without a screen has some: if none is seen, it may have any.
    is_hidden = entrypoint not in (None, files.SCREEN) and len(argv) == 1
    if record.turn == WORKING:
        asks = ON_SCREEN if entrypoint == files.SCREEN else None
        if option(argv, "--permission-prompt-tool") is not None or is_hidden:
            asks = ON_STDIN
        link = link._replace(inferred=link.inferred or record.reason == PERHAPS_ASKED)
        return observed_open_turn(link, record, process, processes, asks)
    stays = entrypoint == files.SCREEN or is_hidden or option(argv, "--input-format") == "stream-json"
    return link._replace(turn=IDLE, reason=FINISHING if record.turn in CLOSED_TURNS and not stays else None)


def observed_waiting(link: Link, record: Record | None, now: float) -> Link:
    """Say what a process waits for, by its own file; a dialog that the person opened is none. Its transcript comes up
    to 0.1 s later, and shows the call before until then: nobody must be asked to allow that one."""
    if link.waiting_for == "dialog open" and (record is None or record.turn in (*CLOSED_TURNS, IDLE)):
        return link._replace(turn=IDLE, waiting_for=None, reason="a dialog that the person opened")
    since = link.since if link.since is not None else float("-inf")
    if record is not None and (record.updated_at or 0.0) < since - OLDER and now < since + CATCHES_UP:
        return link._replace(doubt=BEHIND)
    asks = record.pending if record and record.turn == WORKING else None
    words = f"{link.waiting_for}: {asks}" if asks else link.waiting_for
    return link._replace(waiting_for=words, doubt=YOUNG if since <= now < since + CATCHES_UP / 4 else link.doubt)


def observed_open_turn(link: Link, record: Record, process: Process, processes: Processes, asks: str | None) -> Link:
    """Judge a process whose file has no status. `asks`: where it asks a person; None if it cannot."""
    if asks is None or (record.pending is None and (asks != ON_SCREEN or record.reason != UNANSWERED)):
        return link._replace(turn=WORKING)
    if record.pending is None:
        why = "a prompt without an answer: if Esc took it back, nothing of that is written"
        return link._replace(turn=WORKING, reason=why, inferred=True)
    shell = shell_of(record, process, processes)
    if shell is not None:
        fact = Evidence("kernel", f"its tool runs: {shell.comm}, pid {shell.pid}", pid=shell.pid)
        return link._replace(turn=WORKING, evidence=(*link.evidence, fact))
    if record.pending_tool not in (files.ASKING_TOOL, "Bash"):
        why = f"{record.pending}: running inside it, or a question {asks}; disk cannot tell"
        return link._replace(turn=UNKNOWN, reason=why)
    what, why = "permission", f"a command is pending, no tool process runs, and permission is asked {asks}"
    if record.pending_tool == files.ASKING_TOOL:
        what, why = "question", f"a question is pending, and it is asked {asks}"
    return link._replace(
        turn=WAITING,
        waiting_for=f"{what} (inferred): {record.pending}",
        reason=why,
        inferred=True,
        doubt=record.pending,
    )


def shell_of(record: Record, process: Process, processes: Processes) -> Process | None:
    """Return the process of a pending call: a shell that is not older than the call. An older one is a command that an
    earlier turn left running."""
    called = (record.updated_at or 0.0) - LATE
    shells = [child for child in processes.children(process.pid) if child.comm in files.SHELLS]
    return next((child for child in shells if processes.started_at(child.key) >= called), None)


def cut_off_behind(link: Link, children: Iterable[Record]) -> Link:
    """Return the link of a process that died at work, and the turn of whose session is over: with the sub-agent that
    worked on behind that end."""
    for child in children:
        if child.turn == WORKING and (child.updated_at or 0.0) >= (link.since or 0.0):
            return link._replace(reason=f"its sub-agent {child.id} was in mid-turn, behind the end of the turn")
    return link
