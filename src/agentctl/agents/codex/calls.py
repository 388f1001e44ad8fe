"""The calls of tools in a rollout: what each would do, and which process runs one that has no output yet.

A command without an output runs, or waits for a person to approve it: on disk both look alike. Newer versions put the
id of the call into the environment of what they run. Older ones put only the thread there. A thread asks for a command
after the outputs of the earlier ones were written, and each of those had begun before its output. So a process of the
thread that Codex itself started since then runs a command that has no output: one of those that are pending.
"""

from __future__ import annotations

from agentctl.files.bounded import decode, text_or_none
from agentctl.model import UNKNOWN, WORKING, Evidence, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from agentctl.kernel.processes import Processes
    from agentctl.model import Link, Process

ASKS = "request_user_input"  # a tool that does nothing but ask the person: unanswered, it waits
CALL, THREAD = "CODEX_TOOL_CALL_ID", "CODEX_THREAD_ID"
TICK = 0.02  # seconds: the kernel counts the start of a process in hundredths


def describe_call(payload: dict[str, Any]) -> str:
    """Return a tool call as a person would say it."""
    name = str(payload.get("name"))
    arguments = payload.get("arguments")
    given = decode(arguments) if isinstance(arguments, str) else None
    command = given.get("cmd") or given.get("command") or question_of(given) if given else None
    if isinstance(command, list):
        command = " ".join(str(word) for word in command)
    return command if isinstance(command, str) else name


def question_of(given: dict[str, Any]) -> str | None:
    """Return the first question of a call that asks the person."""
    questions = given.get("questions")
    first = questions[0] if isinstance(questions, list) and questions else None
    return text_or_none(first.get("question")) if isinstance(first, dict) else None


class Runner(Value):
    """A process that runs a pending command, or may."""

    pid: int
    what: str | None = None  # the command, if the process names its call
    known: bool = True  # False: it began since, and we may not look whose it is


def runner_of(
    calls: Sequence[tuple[str, str, str]], thread: str, since: float | None, agent: Process, processes: Processes
) -> Runner | None:
    """Return what runs one of these calls of a thread; None if no process does. `since`: when what stands before the
    calls was written; None if that is not known."""
    asked = {call: what for call, _, what in calls}
    by_time = unseen = None
    for child in processes.children(agent.pid):
        began_since = since is None or processes.started_at(child.key) >= since - TICK
        of_thread = readable = closed = False
        for process in (child, *processes.descendants(child.pid)):
            details = processes.details(process)
            if details is None:
                continue  # it has ended
            if details.env is None:
                closed = True
                continue
            readable = True
            call = details.env.get(CALL)
            if call in asked:
                return Runner(process.pid, asked[call])
            of_thread = of_thread or (call is None and details.env.get(THREAD) == thread)
        if began_since and of_thread and since is not None:
            by_time = by_time or Runner(child.pid)
        elif began_since and (of_thread or (closed and not readable)):
            unseen = unseen or Runner(child.pid, known=False)
    return by_time or unseen


def with_runner(link: Link, runner: Runner) -> Link:
    """Return a link whose pending command has a process, or may have one."""
    if runner.what is not None:
        fact = Evidence("kernel", f"a process runs the pending call: {runner.what}", pid=runner.pid)
        return link._replace(turn=WORKING, evidence=(*link.evidence, fact))
    if not runner.known:
        why = f"a command is pending: it may be what pid {runner.pid} runs, into which we may not look, or it waits"
        return link._replace(turn=UNKNOWN, reason=why)
    fact = Evidence("kernel", "it was started for this thread after the last output", pid=runner.pid, inferred=True)
    why = f"pid {runner.pid} began after the last output: it runs the pending command"
    return link._replace(turn=WORKING, reason=why, inferred=True, evidence=(*link.evidence, fact))
