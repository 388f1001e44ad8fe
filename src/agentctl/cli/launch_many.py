"""agentctl launch --agent A --agent B, --matrix FILE, --worktree: agents side by side, each in a worktree of its own.

stdout has a line for each session, `slot<TAB>id`, in the order of the slots; all else is on stderr.
"""

from __future__ import annotations

import os
import threading
from argparse import Action

from agentctl.cli import output, starting
from agentctl.errors import AgentctlError, TimedOut, UsageError
from agentctl.slots import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping, Sequence

    from agentctl.control import Prepared, Request
    from agentctl.groups import Outcome
    from agentctl.matrix import Matrix
    from agentctl.model import Session
    from agentctl.worktrees import Repository

FAILED, TIMED_OUT, INTERRUPTED = 1, 124, 130


# Arguments


class AddSlot(Action):
    """Each --agent is a slot."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: object, option: str | None = None) -> None:
        namespace.slots = [*(namespace.slots or ()), (str(values), None)]


class SetModel(Action):
    """Of the --agent before it; before the first one, of all that have none."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: object, option: str | None = None) -> None:
        if not namespace.slots:
            namespace.model = str(values)
            return
        *others, (agent, model) = namespace.slots
        if model is not None:
            parser.error(f"two models for --agent {agent}; a slot has one: repeat --agent")
        namespace.slots = [*others, (agent, str(values))]


def add_arguments(parser: ArgumentParser) -> None:
    several = parser.add_argument_group("several at once, and worktrees")
    several.add_argument(
        *("--agent",), action=AddSlot, dest="slots", metavar="A", help="a slot for this agent; repeat for more"
    )
    several.add_argument("--matrix", metavar="FILE", help="the slots are in this file (YAML; see below)")
    several.add_argument("--worktree", action="store_true", help="in a git worktree of its own; slots always are")
    several.add_argument("--branch", metavar="NAME", help="the branch of --worktree (default: try/GROUP/SLOT)")
    several.add_argument("--base-branch", metavar="NAME", help="where the branches begin (default: the commit here)")


def asked(args: Namespace) -> bool:
    """Raises UsageError where the options contradict each other."""
    several = bool(args.slots or args.matrix)
    if args.slots and args.matrix:
        raise UsageError("--agent and --matrix: the slots come from one of them")
    if several and args.agent is not None:
        how = "--agent" if args.slots else "--matrix"
        raise UsageError(f"{args.agent} and {how}: AGENT is for a single launch; give it as --agent {args.agent}")
    if several and args.interactive:
        raise UsageError(
            "--interactive is for a single launch: its screen is one to be looked at; --worktree goes with it"
        )
    if several and args.branch:
        raise UsageError("--branch is for a single --worktree; each slot has a branch of its own: try/GROUP/SLOT")
    if not several and not args.worktree and (args.branch or args.base_branch):
        option = "--branch" if args.branch else "--base-branch"
        raise UsageError(f"{option} is the branch of a worktree; add --worktree")
    return several or args.worktree


# From arguments to launches


def run(args: Namespace) -> int:
    from agentctl import config, groups, matrix, slots, worktrees
    from agentctl.cli import launch

    env = dict(os.environ)
    several = bool(args.slots or args.matrix)
    if args.group is not None:
        slots.check_group(args.group)
    file = matrix.read(args.matrix) if args.matrix else None
    cwd = launch.directory(args.cwd or (file and file.cwd) or config.launch_cwd(env) or os.getcwd())
    wanted = file.wanted if file else from_arguments(args, env)
    slots.check_number(len(wanted))
    names = slots.names_of(wanted, {one.agent: short_name(one.agent) for one in wanted})
    texts = prompts_of(args, file, wanted, cwd)
    repository = worktrees.repository_at(cwd, env)
    group = args.group or groups.choose_group(names, repository, env)
    prepared = groups.prepare_all(
        [request_for(args, *one, group, cwd, env) for one in zip(wanted, names, texts, strict=True)],
        groups.Place(repository, cwd, group),
        env,
        base_branches=[one.base_branch or args.base_branch for one in wanted],
        labels=[one.where or (name if several else "") for one, name in zip(wanted, names, strict=True)],
        branch=args.branch,
    )
    warn(repository, cwd, len(wanted))
    if args.group and (count := groups.earlier(group, env)):
        starting.tell(f"group {group} has {count} earlier launch{'es' if count > 1 else ''}; these are added to it")
    return together(prepared, group, args) if several else alone(prepared, args)


def from_arguments(args: Namespace, env: dict[str, str]) -> tuple[Wanted, ...]:
    from agentctl.cli import launch

    given: Sequence[tuple[str | None, str | None]] = args.slots or [(args.agent, None)]
    return tuple(Wanted(launch.agent_of(agent, env), model or args.model) for agent, model in given)


def short_name(agent: str) -> str:
    from agentctl.agents import load

    return min((agent, *load(agent).ALIASES), key=len)


def prompts_of(args: Namespace, file: Matrix | None, wanted: Sequence[Wanted], cwd: str) -> list[str]:
    """A slot's own prompt, else that of the command line, else that of the file; with what is to go with each."""
    from agentctl import prompts
    from agentctl.durations import size

    common = prompts.given(args.prompt, args.prompt_file)
    if common is None and file is not None:
        common = file.prompt
    issue = None
    if args.issue:
        issue = prompts.fetch_issue(starting.issue_number(args.issue), args.repo, cwd)
    elif args.repo:
        raise UsageError("--repo says where an --issue is; give both")
    limit, built = size(args.max_file_size), {}
    for one in wanted:
        words = common if one.prompt is None else one.prompt
        if words is None and not (issue or args.spec or args.file or args.interactive):
            where = f"{one.where}: " if one.where else ""
            raise UsageError(f"{where}no prompt; give -p TEXT, --prompt-file FILE, or -p - for stdin")
        if words not in built:
            built[words] = prompts.build(words or "", args.spec, args.file, limit, cwd, issue)
    return [built[common if one.prompt is None else one.prompt] for one in wanted]


def request_for(
    args: Namespace, one: Wanted, name: str, prompt: str, group: str, cwd: str, env: dict[str, str]
) -> Request:
    """Still without its worktree."""
    from agentctl import config, control, git
    from agentctl.cli import launch

    of_agent = git.of_its_directory(starting.environment_of(args, one.agent))
    return control.Request(
        agent=one.agent,
        prompt=prompt,
        cwd=cwd,
        env={**of_agent, **dict(one.env)},
        model=one.model or args.model or config.model_for(env, one.agent),
        permissions=one.permissions or args.permissions or launch.configured_permissions(env, one.agent),
        flags=(*args.flags, *one.flags),
        group=group,
        spec=os.path.abspath(args.spec) if args.spec else None,
        hooks=starting.hooks_of(args),
        time_limit=starting.span("--timeout", args.timeout) if args.timeout else None,
        id_patience=starting.span("--id-timeout", args.id_timeout),
        force=args.force,
        interactive=args.interactive,
        slot=name,
    )


def warn(repository: Repository, cwd: str, count: int) -> None:
    where = "worktrees" if count > 1 else "worktree"
    if repository.changed:
        starting.tell(f"uncommitted changes in {output.tilde(cwd)} are not in the {where}")
    if (modules := repository.submodules) > 0:
        are = "submodules are" if modules > 1 else "submodule is"
        starting.tell(f"{modules} {are} not checked out in the {where}: `git submodule update --init` there does it")


# One


def alone(prepared: Sequence[Prepared], args: Namespace) -> int:
    """A single launch in a worktree: the answers of `launch`, and what was made."""
    from agentctl import control, groups

    request = prepared[0].request
    if args.interactive:
        code = starting.answered(lambda: control.launch(request, os.environ, starting.tell), args, "launched")
    else:
        launching = groups.Launching(prepared, os.environ, starting.tell)
        (outcome,) = launching.run(lambda number, outcome: None)
        if outcome.session is None:
            raise outcome.error or AgentctlError("nothing is known of it")
        code = starting.answer(outcome.session, args, "launched")
    if request.worktree is not None and not args.json:
        starting.tell(f"group {request.group}, branch {request.worktree.branch}")
    return code


# Several


def together(prepared: Sequence[Prepared], group: str, args: Namespace) -> int:
    from agentctl import groups

    report = Report(len(prepared), args)
    launching = groups.Launching(prepared, os.environ, starting.tell)
    outcomes = launching.run(report.known)
    for outcome in outcomes:
        if (why := why_failed(outcome)) is not None:
            starting.tell(f"{outcome.slot}: {why}")
    report.rest(outcomes)
    interrupted = launching.interrupted or not report.hooks_ended()
    if args.json:
        show_json(outcomes, group, one_line=args.wait)
    sessions = [outcome.session for outcome in outcomes if outcome.session is not None]
    well = sum(why_failed(outcome) is None for outcome in outcomes)
    steps = ", ".join(f"`agentctl {words} {group}`" for words in ("list --group", "wait --group", "compare"))
    runs = any(outcome.launch_id for outcome in outcomes)
    starting.tell(
        f"group {group}: {well} of {len(outcomes)} slots were launched" + (f"; next: {steps}" if runs else "")
    )
    if interrupted:
        return INTERRUPTED
    code = code_of(outcomes, waits=args.wait)
    if args.wait and sessions:
        waited = wait_for(sessions, args)
        return TIMED_OUT if TIMED_OUT in (code, waited) else code or waited
    return code


class Report:
    """The lines on stdout: in the order of the slots, each as soon as those before it are known."""

    def __init__(self, count: int, args: Namespace) -> None:
        self._args = args
        self._known: dict[int, Outcome] = {}
        self._next, self._count = 0, count
        self._hooks: list[threading.Thread] = []

    def known(self, number: int, outcome: Outcome) -> None:
        session = outcome.session
        if session is None:
            return
        self._known[number] = outcome
        while self._next in self._known:
            self._print(self._known[self._next])
            self._next += 1
        starting.tell(f"{outcome.slot}: {session.id} is {session.status}")
        if self._args.on_create and session.launch_id:
            self._run_hook(outcome.slot, session.launch_id, session)

    def rest(self, outcomes: Sequence[Outcome]) -> None:
        """What came after one that failed."""
        for outcome in outcomes[self._next :]:
            self._print(outcome)

    def _print(self, outcome: Outcome) -> None:
        if outcome.session is not None and not self._args.json:
            print(f"{outcome.slot}\t{outcome.session.id}", flush=True)

    def _run_hook(self, slot: str, launch_id: str, session: Session) -> None:
        """In a thread: one that takes long keeps nobody from the other slots."""

        def tell(line: str) -> None:
            starting.tell(f"{slot}: {line}")

        thread = threading.Thread(target=starting.create_hook, args=(launch_id, session, tell), daemon=True)
        thread.start()
        self._hooks.append(thread)

    def hooks_ended(self) -> bool:
        """False: somebody pressed Ctrl-C. They go on without us."""
        try:
            for thread in self._hooks:
                thread.join()
        except KeyboardInterrupt:
            return False
        return True


def why_failed(outcome: Outcome) -> str | None:
    if outcome.session is None:
        return str(outcome.error)
    return str(starting.end_at_once(outcome.session)) if starting.ended_at_once(outcome.session) else None


def code_of(outcomes: Sequence[Outcome], *, waits: bool = False) -> int:
    """How an agent with a session ended is a matter of the wait, if there is one."""
    if any(isinstance(outcome.error, TimedOut) for outcome in outcomes):
        return TIMED_OUT
    failed = [outcome for outcome in outcomes if why_failed(outcome) is not None]
    return FAILED if any(outcome.session is None or not waits for outcome in failed) else 0


def wait_for(sessions: Sequence[Session], args: Namespace) -> int:
    from argparse import Namespace

    from agentctl.cli import wait

    ids = [session.id for session in sessions]
    return wait.run(Namespace(id=ids, group=None, until="ended", timeout=None, any=False, json=args.json))


def show_json(outcomes: Sequence[Outcome], group: str, *, one_line: bool) -> None:
    """With --wait the lines of `wait` follow."""
    from agentctl.cli import wait

    show: Callable[[dict[str, object]], None] = wait.print_line if one_line else output.print_json
    show({"group": group, "slots": [slot_json(outcome) for outcome in outcomes]})


def slot_json(outcome: Outcome) -> dict[str, object]:
    request, made = outcome.request, made_for(outcome.request)
    return {
        "slot": outcome.slot,
        "agent": request.agent,
        "model": request.model,
        **made,
        "session": output.session_json(outcome.session) if outcome.session else None,
        "launch_id": outcome.launch_id,
        "error": why_failed(outcome),
    }


def made_for(request: Request) -> Mapping[str, str | None]:
    """What is there now: of a slot that was taken back, nothing."""
    plan = request.worktree
    if plan is None or not os.path.isdir(plan.path):
        return {"worktree": None, "branch": None, "base": None}
    return {"worktree": plan.path, "branch": plan.branch, "base": plan.base}
