"""agentctl completion SHELL: the lines for a shell's start-up file. The work is argcomplete's."""

from __future__ import annotations

from agentctl.errors import AgentctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

EPILOG = """\
Completes commands, options, agents, statuses, session ids, groups and worktrees.

examples:
  agentctl completion bash >> ~/.bashrc
  agentctl completion zsh >> ~/.zshrc
  agentctl completion fish > ~/.config/fish/completions/agentctl.fish
"""
MISSING = "completion needs the package argcomplete: `pip install argcomplete` beside agentctl"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def run(args: Namespace) -> int:
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        raise AgentctlError(MISSING) from error
    print(shellcode(["agentctl"], shell=args.shell))
    return 0


def complete(parser: ArgumentParser) -> None:
    """Answer a shell that asks (_ARGCOMPLETE is set), and exit."""
    import argcomplete

    argcomplete.autocomplete(parser)


def add_completers(parser: ArgumentParser) -> None:
    """By what an argument is called; those of the verbs below a verb, too."""
    completers: dict[str, Callable[..., list[str]]] = {
        "id": session_ids,
        "agent": agent_names,
        "group": groups,
        "target": worktree_targets,
        "diff": slots,
        "stat": slots,
    }
    for action in parser._actions:
        name = "agent" if "--agent" in action.option_strings else action.dest
        if name in completers:
            action.completer = completers[name]  # type: ignore[attr-defined]
        for inner in action.choices.values() if isinstance(action.choices, dict) else ():
            add_completers(inner)


def session_ids(prefix: str = "", **_: object) -> list[str]:
    """The ids that begin like this; of what is alive first, then of the last days."""
    from agentctl.sessions import RECENT, Scope, query

    if prefix:
        return [session.id for session in query(Scope(prefix=prefix)).sessions]
    import time

    return [session.id for session in query(Scope(since=time.time() - RECENT)).sessions]


def agent_names(**_: object) -> list[str]:
    from agentctl.agents import load_all

    return [name for agent in load_all() for name in (agent.NAME, *agent.ALIASES)]


def groups(**_: object) -> list[str]:
    import os

    from agentctl import launches

    return launches.groups(os.environ)


def slots(parsed_args: object = None, **_: object) -> list[str]:
    """Of the group that was named before."""
    import os

    from agentctl import launches

    group = getattr(parsed_args, "group", None)
    return sorted({one.slot for one in launches.read_all(os.environ)[0] if one.slot and one.group == group})


def worktree_targets(**_: object) -> list[str]:
    """The groups, and the branches that are in a linked worktree of this repository; paths a shell knows itself."""
    import os

    from agentctl import worktrees
    from agentctl.errors import AgentctlError

    try:
        linked = worktrees.listing(os.getcwd(), os.environ)[1:]
    except AgentctlError:
        linked = []
    return [*groups(), *(one.branch for one in linked if one.branch)]
