"""What `agentctl launch` of several slots prints: for each session a line `slot<TAB>id` on stdout, in the order of the
slots, and all else on stderr.
"""

from __future__ import annotations

import os
import threading

from agentctl.cli import launch_options, output
from agentctl.errors import AgentctlError, LaunchFailed, TimedOut, shown_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from agentctl.launch.group import Outcome
    from agentctl.launch.spawn import Order
    from agentctl.model import Session

FAILED, TIMED_OUT, INTERRUPTED = 1, 124, 130


def launch_slots(orders: Sequence[Order], env: Mapping[str, str], args: Namespace) -> int:
    """Launch them, print what comes of each, and return the exit code."""
    from agentctl.launch import group as groups

    report = Report(args)
    launching = groups.Launching(orders, env, launch_options.tell)
    outcomes = launching.run(report.known)
    report.finish(outcomes)
    interrupted = launching.interrupted or not report.hooks_ended()
    group = orders[0].group or ""
    if args.json:
        report.code = show_json(outcomes, group, one_line=args.wait)
    launch_options.tell(summary(outcomes, group))
    if interrupted:
        return INTERRUPTED
    code = code_of(outcomes, waits=args.wait) or report.code
    ids = [outcome.session.id for outcome in outcomes if outcome.session is not None]
    if args.wait and ids:
        waited = launch_options.wait_for(ids, args)
        named = [(outcome.slot, outcome.session.id) for outcome in outcomes if outcome.session is not None]
        launch_options.print_answers(named, args)
        return TIMED_OUT if TIMED_OUT in (code, waited) else code or waited
    return code


def summary(outcomes: Sequence[Outcome], group: str) -> str:
    well = sum(why_failed(outcome) is None for outcome in outcomes)
    unnamed = sum(outcome.session is None and may_run(outcome) for outcome in outcomes)
    also = f", {unnamed} more may run without a known session" if unnamed else ""
    steps = ", ".join(f"`{shown_command('agentctl', *words, group)}`" for words in (("wait", "--group"), ("compare",)))
    runs = any(outcome.launch_id for outcome in outcomes)
    return f"group {group}: {well} of {len(outcomes)} slots were launched{also}" + (f"; next: {steps}" if runs else "")


def may_run(outcome: Outcome) -> bool:
    """Return whether an agent was started that is not known to have ended."""
    error = outcome.error
    return outcome.launch_id is not None and (not isinstance(error, LaunchFailed) or error.perhaps)


class Report:
    """Prints the lines on stdout: in the order of the slots, each as soon as those before it are known."""

    def __init__(self, args: Namespace) -> None:
        self._args = args
        self._known: dict[int, Outcome] = {}
        self._next = 0
        self._hooks: list[threading.Thread] = []
        self.code = 0  # 1: stdout could not be written
        self._stdout_is_lost = False

    def known(self, number: int, outcome: Outcome) -> None:
        session = outcome.session
        if session is None:
            return
        self._known[number] = outcome
        while self._next in self._known:
            self._print(self._known[self._next])
            self._next += 1
        if self._args.on_create and session.launch_id:
            self._run_hook(outcome.slot, session.launch_id, session)

    def finish(self, outcomes: Sequence[Outcome]) -> None:
        """Print why slots failed, and the lines of those that came after one that failed."""
        for outcome in outcomes:
            if (why := why_failed(outcome)) is not None:
                launch_options.tell(f"{outcome.slot}: {why}")
        for outcome in outcomes[self._next :]:
            self._print(outcome)

    def _print(self, outcome: Outcome) -> None:
        if outcome.session is not None and not self._args.json:
            runs = f"{outcome.slot}: {outcome.session.id} runs"
            if self._stdout_is_lost:
                launch_options.tell(runs)
            elif (code := launch_options.put(f"{outcome.slot}\t{outcome.session.id}", runs)) is not None:
                self.code, self._stdout_is_lost = code, True

    def _run_hook(self, slot: str, launch_id: str, session: Session) -> None:
        """Run the hook in a thread: one that takes long keeps nobody from the other slots."""

        def tell(line: str) -> None:
            launch_options.tell(f"{slot}: {line}")

        thread = threading.Thread(target=launch_options.create_hook, args=(launch_id, session, tell), daemon=True)
        thread.start()
        self._hooks.append(thread)

    def hooks_ended(self) -> bool:
        """Wait for the hooks. False: somebody pressed Ctrl-C; they go on without us."""
        try:
            for thread in self._hooks:
                thread.join()
        except KeyboardInterrupt:
            return False
        return True


def why_failed(outcome: Outcome) -> str | None:
    """Return why a slot counts as failed; None if it was launched well."""
    error = outcome.error
    if outcome.session is None:
        return str(error) if isinstance(error, AgentctlError) else f"{type(error).__name__}: {error}"
    return str(launch_options.end_at_once(outcome.session)) if launch_options.ended_at_once(outcome.session) else None


def code_of(outcomes: Sequence[Outcome], *, waits: bool = False) -> int:
    """Return the exit code. How an agent with a session ended is a matter of the wait, if there is one."""
    if any(isinstance(outcome.error, TimedOut) for outcome in outcomes):
        return TIMED_OUT
    failed = [outcome for outcome in outcomes if why_failed(outcome) is not None]
    return FAILED if any(outcome.session is None or not waits for outcome in failed) else 0


def show_json(outcomes: Sequence[Outcome], group: str, *, one_line: bool) -> int:
    """Print one object; on one line if the lines of `wait` follow. Return the exit code."""
    facts = {"group": group, "slots": [slot_json(outcome) for outcome in outcomes]}
    return launch_options.put(output.json_text(facts, one_line=one_line), f"launched group {group}") or 0


def slot_json(outcome: Outcome) -> dict[str, object]:
    return {
        "slot": outcome.slot,
        "agent": outcome.order.agent,
        "model": outcome.order.model,
        **made_for(outcome.order),
        "session": output.session_json(outcome.session) if outcome.session else None,
        "launch_id": outcome.launch_id,
        "error": why_failed(outcome),
    }


def made_for(order: Order) -> Mapping[str, str | None]:
    """Return what is there now: of a slot that was taken back, nothing."""
    plan = order.worktree
    if plan is None or not os.path.isdir(plan.path):
        return {"worktree": None, "branch": None, "base": None}
    return {"worktree": plan.path, "branch": plan.branch, "base": plan.base}
