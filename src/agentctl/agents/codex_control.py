"""How Codex is started, spoken to and stopped (measured: 0.166.0).

Always in a process of its own: `exec`, or a screen with --no-daemon; nothing is handed to the shared daemon. A resumed
thread would take model and sandbox from the configuration of the day: what it had is read from its rollout and said.
"""

from __future__ import annotations

from agentctl.agents.codex import NAME, claims, command_of, roots
from agentctl.agents.codex_rollout import payload_of
from agentctl.agents.controls import (
    REFUSES,
    check_flags,
    check_mode,
    has_flag,
    printed_objects,
    words_for_screen,
)
from agentctl.errors import AgentctlError, Refused, TruthUnavailable, UsageError
from agentctl.model import DAEMON
from agentctl.recipes import BYPASS, DEFAULT, EDITS, PLAN, Delivery, Held, Recipe, Task, Way
from agentctl.stores import lines_backward, real_path, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl.model import Session

SECOND_WRITER = False  # it refuses: the thread has an active writer
MODES: dict[str, tuple[str, ...]] = {
    DEFAULT: (),
    PLAN: ("--sandbox", "read-only"),
    EDITS: ("--sandbox", "workspace-write"),
    BYPASS: ("--dangerously-bypass-approvals-and-sandbox",),
}
FULL_ACCESS = "danger-full-access"
SANDBOXES = ("read-only", "workspace-write", FULL_ACCESS)
# --skip-git-repo-check: codex wants a git repository or a folder that was trusted, because there what it changes can be
# undone. The folder of a launch was named by the person, and a launch in a plain folder must work. Its sandbox and its
# approvals stay what they are.
OWN_FLAGS = ("--json", "--skip-git-repo-check")
OWN_PROCESS = "--no-daemon"
MODE_FLAGS = ("-s", "--sandbox", "--dangerously-bypass-approvals-and-sandbox", "--approve-for-me", "-p", "--profile")
MODEL_FLAGS = ("-m", "--model", "--oss", "-p", "--profile")
PROMPT_LIMIT = 1024 * 1024  # characters; beyond it a thread is begun, and its first turn is refused
ROLLOUT_LIMIT = 64 * 1024 * 1024
CONTROL_SOCKET = "app-server-control/app-server-control.sock"
OURS = {
    "--ephemeral": "it would keep no session",
    **dict.fromkeys(("-C", "--cd"), "use --cwd"),
    **dict.fromkeys(("resume", "--last"), "use `agentctl resume`"),
    **dict.fromkeys(("fork", "review"), "agentctl runs `codex exec`"),
    "--remote": "it runs in a process of its own",
}


def start(task: Task) -> Recipe:
    check_mode(NAME, task.permissions, MODES)
    check_flags(NAME, task.flags, OURS)
    if len(task.prompt) > PROMPT_LIMIT:
        raise UsageError(f"a prompt of {len(task.prompt)} characters; codex takes {PROMPT_LIMIT}: put it into a file")
    session, flags = task.session, task.flags
    mode, model, kept = MODES[task.permissions or DEFAULT], task.model, None
    if session is not None:
        if model is None and not has_flag(flags, *MODEL_FLAGS) and not configures(flags, "model"):
            model = session.model
        if task.permissions is None and not has_flag(flags, *MODE_FLAGS) and not configures(flags, "sandbox_mode"):
            sandbox = sandbox_of(session)
            mode = ("--sandbox", sandbox) if sandbox else ()
            kept = f"it goes on in its sandbox {sandbox}" if sandbox else None
    free = task.permissions == BYPASS or FULL_ACCESS in mode
    said = "; ".join(word for word in (kept, None if free else REFUSES) if word)
    id = session.id if session else None
    options = (*(("--model", model) if model else ()), *mode, *(("resume", id) if id else ()))
    if task.interactive:
        own = () if OWN_PROCESS in flags else (OWN_PROCESS,)
        words = ("codex", *flags, *own, *options, *words_for_screen(NAME, task.prompt))
        return Recipe(words, session_id=id, said=kept)
    argv = (
        "codex",
        "exec",
        *flags,  # first: --image takes all the words up to the next flag
        *(word for word in OWN_FLAGS if word not in flags),
        *options,
        "-",
    )
    return Recipe(argv, task.prompt.encode(errors="surrogateescape"), session_id=id, said=said or None)


def configures(flags: tuple[str, ...], key: str) -> bool:
    """Is this key among the `-c key=value`?"""
    values = [flags[at + 1] for at, word in enumerate(flags[:-1]) if word in ("-c", "--config")]
    values += [word.partition("=")[2] for word in flags if word.startswith("--config=")]
    return any(value.partition("=")[0].strip() == key for value in values)


def sandbox_of(session: Session) -> str | None:
    """The sandbox of its last turn."""
    try:
        for line in lines_backward(session.path, ROLLOUT_LIMIT) if session.path else ():
            found = payload_of(line) if b'"turn_context"' in line else None
            if found is not None and found[0] == "turn_context":
                policy = found[1].get("sandbox_policy")
                sandbox = policy.get("type") if isinstance(policy, dict) else None
                return sandbox if sandbox in SANDBOXES else None
    except OSError:
        pass  # the agent will say it better
    return None


def printed_id(output: bytes) -> str | None:
    for value in printed_objects(output):
        if value.get("type") == "thread.started":
            return text_or_none(value.get("thread_id"))
    return None


def way_to_stop(held: Held) -> Way:
    """`exec` writes that it was interrupted on SIGINT alone; an interface writes nothing on any signal."""
    if claims(held.process, held.details) == DAEMON:
        said = "it runs in codex's own daemon: its turn is interrupted there, and the daemon goes on"
        return Way(signals=(), interrupt=interruption(held), said=said)
    one_shot = command_of((held.details.argv or ())[1:])[0] in ("exec", "e", "review")
    return Way(signals=("SIGINT", "SIGTERM") if one_shot else ("SIGTERM",))


def way_to_send(held: Held) -> Delivery | None:
    if claims(held.process, held.details) != DAEMON:
        return None
    path, id, pid = f"{held.session.store}/{CONTROL_SOCKET}", held.session.id, held.process.pid

    def deliver(text: str, seconds: float) -> None:
        from agentctl.agents import codex_socket

        try:
            codex_socket.start_turn(path, id, pid, text, seconds)
        except (codex_socket.Stranger, codex_socket.Busy) as error:
            raise Refused(f"{error}; nothing was sent") from error
        except codex_socket.Unsure as error:
            raise TruthUnavailable(f"codex's daemon (pid {pid}) has not said whether it took it: {error}") from error
        except codex_socket.Unanswered as error:
            raise AgentctlError(f"codex's daemon (pid {pid}) did not take it: {error}; nothing was sent") from error

    return Delivery(f"codex's own daemon (pid {pid})", deliver)


def own_screen(held: Held) -> tuple[str, ...] | None:
    """Another screen on the daemon that has the thread."""
    if claims(held.process, held.details) != DAEMON:
        return None
    store = held.session.store
    elsewhere = store is not None and store != real_path(roots(held.env)[0])
    return (*(("env", f"CODEX_HOME={store}") if elsewhere else ()), "codex", "resume", held.session.id)


def interruption(held: Held) -> Callable[[float], None]:
    path, id, pid = f"{held.session.store}/{CONTROL_SOCKET}", held.session.id, held.process.pid

    def interrupt(seconds: float) -> None:
        from agentctl.agents import codex_socket

        try:
            codex_socket.interrupt(path, id, pid, seconds)
        except codex_socket.Stranger as error:
            raise Refused(f"{error}; end the turn of {id} where it is shown") from error
        except codex_socket.Unanswered as error:
            raise AgentctlError(
                f"codex's daemon (pid {pid}) did not interrupt {id}: {error}; end the turn where it is shown"
            ) from error

    return interrupt
