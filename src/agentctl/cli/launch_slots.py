"""The slots of `agentctl launch`: from its arguments and its --matrix file to the orders for its agents.

A single launch has one slot. It has a name, a group and a worktree only with --worktree.
"""

from __future__ import annotations

import os
from argparse import Action

from agentctl.cli import launch_options, output
from agentctl.errors import UsageError
from agentctl.launch.slots import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from agentctl.launch.spawn import Order
    from agentctl.launch.start import Request
    from agentctl.workspace.worktree import Repository


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
            parser.error(f"two models for --agent {agent}; a slot has one model: repeat --agent for the other")
        namespace.slots = [*others, (agent, str(values))]


def add_arguments(parser: ArgumentParser) -> None:
    several = parser.add_argument_group("several at once, and worktrees")
    several.add_argument(
        *("--agent",), action=AddSlot, dest="slots", metavar="A", help="add a slot for this agent (repeat for more)"
    )
    several.add_argument("--matrix", metavar="FILE", help="read the slots from this YAML file (see below)")
    several.add_argument("--worktree", action="store_true", help="work in a new git worktree (slots always do)")
    several.add_argument("--branch", metavar="NAME", help="the branch for --worktree (default: try/GROUP/SLOT)")
    several.add_argument("--base-branch", metavar="NAME", help="where new branches begin (default: the current commit)")


def check_options(args: Namespace) -> None:
    """Raise UsageError if the options contradict each other."""
    if args.slots and args.matrix:
        raise UsageError("--agent and --matrix both list the slots; use one of them")
    if are_several(args):
        check_options_of_several(args)
    elif not args.worktree and (args.branch or args.base_branch):
        option = "--branch" if args.branch else "--base-branch"
        raise UsageError(f"{option} needs a worktree; add --worktree")


def check_options_of_several(args: Namespace) -> None:
    if args.agent is not None:
        how = "--agent" if args.slots else "--matrix"
        raise UsageError(f"{args.agent} and {how}: AGENT is for a single launch; give it as --agent {args.agent}")
    if args.interactive:
        raise UsageError("--interactive starts a single agent; leave out --agent and --matrix (--worktree is allowed)")
    if args.branch:
        raise UsageError(
            "--branch is for a single --worktree; leave it out: slots have their own branches, try/GROUP/SLOT"
        )


def are_several(args: Namespace) -> bool:
    """Are there slots with names of their own, even if it is only one?"""
    return bool(args.slots or args.matrix)


# From arguments to orders


def orders_of(args: Namespace, env: dict[str, str]) -> list[Order]:
    """Return one order per slot. Everything is checked, and nothing is made. Raises AgentctlError."""
    from agentctl import config
    from agentctl.launch import group as groups
    from agentctl.launch import matrix, slots

    check_options(args)
    if args.group is not None:
        slots.check_group(args.group)
    file = matrix.read(args.matrix) if args.matrix else matrix.Matrix(from_arguments(args, env))
    cwd = directory(args.cwd or file.cwd or config.launch_cwd(env) or os.getcwd())
    slots.check_number(len(file.wanted))
    prompts = prompts_of(args, file.prompt, file.wanted, cwd)
    requests = [request_for(args, one, text, cwd, env) for one, text in zip(file.wanted, prompts, strict=True)]
    if are_several(args) or args.worktree:
        return orders_in_worktrees(args, file.wanted, requests, cwd, env)
    return groups.prepare_all(requests, env)


def orders_in_worktrees(
    args: Namespace, wanted: Sequence[Wanted], requests: Sequence[Request], cwd: str, env: dict[str, str]
) -> list[Order]:
    """Return the orders for slots with names, a group and worktrees of the repository at `cwd`. Raises UsageError if
    there is none."""
    from agentctl.launch import group as groups
    from agentctl.launch import slots
    from agentctl.workspace import worktree

    names = slots.names_of(wanted, {one.agent: short_name(one.agent) for one in wanted})
    repository = worktree.repository_at(cwd, env)
    group = args.group or groups.choose_group(names, repository, env)
    orders = groups.prepare_all(
        [in_slot(*each, group) for each in zip(requests, wanted, names, strict=True)],
        env,
        repository,
        base_branches=[one.base_branch or args.base_branch for one in wanted],
        labels=[one.where or (name if are_several(args) else "") for one, name in zip(wanted, names, strict=True)],
        branch=args.branch,
    )
    warn(repository, cwd, len(orders))
    if args.group and (count := groups.earlier(group, repository, env)):
        launch_options.tell(
            f"group {group} has {count} earlier launch{'es' if count > 1 else ''}; these are added to it"
        )
    return orders


def from_arguments(args: Namespace, env: dict[str, str]) -> tuple[Wanted, ...]:
    given: Sequence[tuple[str | None, str | None]] = args.slots or [(args.agent, None)]
    return tuple(Wanted(agent_of(agent, env), model or args.model) for agent, model in given)


def agent_of(name: str | None, env: dict[str, str]) -> str:
    from agentctl import config
    from agentctl.agents import TABLE, canonical_name

    name = name or config.default_agent(env)
    if name is None:
        raise UsageError(f"which agent? Name one of {', '.join(TABLE)}, or set `agent` in {config.config_path(env)}")
    agent = canonical_name(name)
    if agent is None:
        raise UsageError(f"unknown agent {name!r}; known: {', '.join(TABLE)}")
    return agent


def directory(path: str) -> str:
    real = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(real):
        raise UsageError(f"{path}: not a directory; make it, or give another --cwd")
    return real


def short_name(agent: str) -> str:
    from agentctl.agents import load

    return min((agent, *load(agent).ALIASES), key=len)


def prompts_of(args: Namespace, of_file: str | None, wanted: Sequence[Wanted], cwd: str) -> list[str]:
    """Return the prompt of each slot: its own, else that of the command line, else that of the file; with the files,
    the specification and the issue that belong to all."""
    from agentctl.durations import size
    from agentctl.launch import prompt

    common = prompt.given(args.prompt, args.prompt_file)
    common = of_file if common is None else common
    issue = launch_options.issue_of(args, cwd)
    more, limit = issue or args.spec or args.file, size(args.max_file_size)
    built: dict[str | None, str] = {}
    texts = [common if one.prompt is None else one.prompt for one in wanted]
    for one, text in zip(wanted, texts, strict=True):
        if text is None and not more:
            if not args.interactive:
                where = f"{one.where}: " if one.where else ""
                raise UsageError(f"{where}no prompt; give -p TEXT, --prompt-file FILE, or -p - for stdin")
            built[text] = ""  # the person will type it
        if text not in built:
            built[text] = prompt.build(text or "", args.spec, args.file, limit, cwd, issue)
    return [built[text] for text in texts]


def request_for(args: Namespace, one: Wanted, prompt: str, cwd: str, env: dict[str, str]) -> Request:
    """Return what a person wants of one slot: what the slot says, else the command line, else the configuration."""
    from agentctl import config
    from agentctl.launch import start

    return start.Request(
        agent=one.agent,
        prompt=prompt,
        cwd=cwd,
        env={**launch_options.environment_of(args, one.agent), **dict(one.env)},
        model=one.model or args.model or config.model_for(env, one.agent),
        permissions=one.permissions or args.permissions or configured_permissions(env, one.agent),
        flags=(*args.flags, *one.flags),
        group=args.group,
        **launch_options.run_options(args),
    )


def in_slot(request: Request, one: Wanted, name: str, group: str) -> Request:
    """Return a request for a slot that gets a worktree: git must find that, whatever the caller's variables say."""
    from agentctl.workspace import git

    return request._replace(slot=name, group=group, env={**git.of_its_directory(request.env), **dict(one.env)})


def configured_permissions(env: dict[str, str], agent: str) -> str | None:
    from agentctl import config
    from agentctl.agents.recipes import PERMISSIONS

    mode = config.permissions_for(env, agent)
    if mode is not None and mode not in PERMISSIONS:
        known = ", ".join(PERMISSIONS)
        raise UsageError(f"{config.config_path(env)}: permissions {mode!r} of {agent}: use one of {known}")
    return mode


def warn(repository: Repository, cwd: str, count: int) -> None:
    where = "worktrees" if count > 1 else "worktree"
    if repository.changed:
        launch_options.tell(f"the {where} will not have the uncommitted changes of {output.tilde(cwd)}")
    if (modules := repository.submodules) > 0:
        are = "submodules are" if modules > 1 else "submodule is"
        launch_options.tell(f"{modules} {are} not checked out in the {where}; run `git submodule update --init` there")
