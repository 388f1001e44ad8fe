"""How Codex is started, spoken to and stopped (measured: 0.166.0).

Always in a process of its own: `exec`, or a screen with --no-daemon; nothing is handed to the shared daemon. A resumed
thread would take model and sandbox from the configuration of the day: what it had is read from its rollout and said.
"""

from __future__ import annotations

from agentctl.agents.codex.adapter import ADAPTER, NAME, command_of
from agentctl.agents.codex.rollout import payload_of
from agentctl.agents.control_base import (
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
    on_stdin,
    printed_objects,
    value_of,
    words_for_screen,
)
from agentctl.agents.recipes import BYPASS, DEFAULT, EDITS, PLAN, Delivery, Held, Recipe, Task, Way
from agentctl.errors import AgentctlError, Refused, TruthUnavailable, UsageError
from agentctl.files.bounded import lines_backward, real_path, text_or_none
from agentctl.model import DAEMON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentctl.agents.screen import Input, Screen
    from agentctl.model import Session

MODES: dict[str, tuple[str, ...]] = {
    DEFAULT: (),
    PLAN: ("--sandbox", "read-only"),
    EDITS: ("--sandbox", "workspace-write"),
    BYPASS: ("--dangerously-bypass-approvals-and-sandbox",),
}
FULL_ACCESS = "danger-full-access"
RANKS = {"read-only": CAREFUL, "workspace-write": EDITS_FILES, FULL_ACCESS: FREE}
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


class CodexControl(Control):
    SECOND_WRITER = False  # it refuses: the thread has an active writer
    STORE_ENV = ("CODEX_HOME",)

    def start(self, task: Task) -> Recipe:
        check_mode(NAME, task.permissions, MODES)
        check_flags(NAME, task.flags, OURS)
        check_length(task.prompt)
        id = task.session.id if task.session else None
        mode, note = mode_for(task)
        options = (*given("--model", model_for(task)), *mode, *given("resume", id))
        if task.interactive:
            own = () if OWN_PROCESS in task.flags else (OWN_PROCESS,)
            words = ("codex", *task.flags, *own, *options, *words_for_screen(NAME, task.prompt))
            return Recipe(words, session_id=id, said=note)
        argv = (
            "codex",
            "exec",
            *task.flags,  # first: --image takes all the words up to the next flag
            *(word for word in OWN_FLAGS if word not in task.flags),
            *options,
            "-",
        )
        is_free = task.permissions == BYPASS or FULL_ACCESS in mode
        said = joined(note, None if is_free else REFUSES)
        return Recipe(argv, on_stdin(task.prompt), session_id=id, said=said)

    def printed_id(self, output: bytes) -> str | None:
        for value in printed_objects(output):
            if value.get("type") == "thread.started":
                return text_or_none(value.get("thread_id"))
        return None

    def naming(self, root: str) -> dict[str, str]:
        return {"CODEX_HOME": root}

    def way_to_stop(self, held: Held) -> Way:
        """`exec` writes that it was interrupted on SIGINT alone; an interface writes nothing on any signal."""
        if ADAPTER.claims(held.process, held.details) == DAEMON:
            said = "it runs in codex's own daemon: its turn is interrupted there, and the daemon goes on"
            return Way(signals=(), interrupt=interrupt_turn(held), said=said)
        one_shot = command_of((held.details.argv or ())[1:])[0] in ("exec", "e", "review")
        return Way(signals=("SIGINT", "SIGTERM") if one_shot else ("SIGTERM",))

    def way_to_send(self, held: Held) -> Delivery | None:
        if ADAPTER.claims(held.process, held.details) != DAEMON:
            return None
        path, id, pid = f"{held.session.store}/{CONTROL_SOCKET}", held.session.id, held.process.pid

        def deliver(text: str, seconds: float) -> None:
            from agentctl.agents.codex import socket

            try:
                socket.start_turn(path, id, pid, text, seconds)
            except (socket.Stranger, socket.Busy) as error:
                raise Refused(f"{error}; nothing was sent") from error
            except socket.Unsure as error:
                raise TruthUnavailable(
                    f"codex's daemon (pid {pid}) has not said whether it took it: {error}"
                ) from error
            except socket.Unanswered as error:
                raise AgentctlError(f"codex's daemon (pid {pid}) did not take it: {error}; nothing was sent") from error

        return Delivery(f"codex's own daemon (pid {pid})", deliver)

    def input_on(self, screen: Screen) -> Input:
        from agentctl.agents.codex import input_line

        return input_line.input_on(screen)

    def own_screen(self, held: Held) -> tuple[str, ...] | None:
        """Another screen on the daemon that has the thread."""
        if ADAPTER.claims(held.process, held.details) != DAEMON:
            return None
        store = held.session.store
        elsewhere = store is not None and store != real_path(ADAPTER.roots(held.env)[0])
        return (*(("env", f"CODEX_HOME={store}") if elsewhere else ()), "codex", "resume", held.session.id)


def check_length(prompt: str) -> None:
    if len(prompt) > PROMPT_LIMIT:
        raise UsageError(f"a prompt of {len(prompt)} characters; codex takes {PROMPT_LIMIT}: put it into a file")


def mode_for(task: Task) -> tuple[tuple[str, ...], str | None]:
    """Return the options for the sandbox of a turn, and a note if it is the one that its session had."""
    is_chosen = task.permissions is not None or has_flag(task.flags, *MODE_FLAGS)
    if task.session is None or is_chosen or configures(task.flags, "sandbox_mode"):
        return MODES[task.permissions or DEFAULT], None
    sandbox = sandbox_of(task.session)
    if sandbox is not None:
        option = "--permissions bypass" if sandbox == FULL_ACCESS else "--permissions edits"
        check_rights(task.session, sandbox, RANKS[sandbox], launched_rank(task.launched_as), option)
    return given("--sandbox", sandbox), f"it goes on in its sandbox {sandbox}" if sandbox else None


def launched_rank(words: Sequence[str]) -> int | None:
    """Return the rights that a launch of ours has given; None if it gave none by name."""
    if has_flag(words, *MODES[BYPASS]):
        return FREE
    return RANKS.get(value_of(words, "-s", "--sandbox") or "")


def model_for(task: Task) -> str | None:
    """Return the model of a turn: the one that was asked for, else the one that its session had."""
    is_chosen = task.model is not None or has_flag(task.flags, *MODEL_FLAGS) or configures(task.flags, "model")
    return task.model if task.session is None or is_chosen else task.session.model


def configures(flags: tuple[str, ...], key: str) -> bool:
    """Return whether one of these flags is `-c key=value` for this key."""
    values = [flags[at + 1] for at, word in enumerate(flags[:-1]) if word in ("-c", "--config")]
    values += [word.partition("=")[2] for word in flags if word.startswith("--config=")]
    return any(value.partition("=")[0].strip() == key for value in values)


def sandbox_of(session: Session) -> str | None:
    """Return the sandbox of the last turn of a session."""
    try:
        for line in lines_backward(session.path, ROLLOUT_LIMIT) if session.path else ():
            found = payload_of(line) if b'"turn_context"' in line else None
            if found is not None and found[0] == "turn_context":
                policy = found[1].get("sandbox_policy")
                sandbox = policy.get("type") if isinstance(policy, dict) else None
                return sandbox if sandbox in RANKS else None
    except OSError:
        pass  # the agent will say it better
    return None


def interrupt_turn(held: Held) -> Callable[[float], None]:
    """Return what interrupts the turn of a thread in the daemon that has it."""
    path, id, pid = f"{held.session.store}/{CONTROL_SOCKET}", held.session.id, held.process.pid

    def interrupt(seconds: float) -> None:
        from agentctl.agents.codex import socket

        try:
            socket.interrupt(path, id, pid, seconds)
        except socket.Stranger as error:
            raise Refused(f"{error}; end the turn of {id} where it is shown") from error
        except socket.Unanswered as error:
            raise AgentctlError(
                f"codex's daemon (pid {pid}) did not interrupt {id}: {error}; end the turn where it is shown"
            ) from error

    return interrupt


CONTROL = CodexControl()
