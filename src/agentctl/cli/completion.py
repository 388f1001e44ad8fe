"""agentctl completion SHELL: print the lines for a shell's start-up file. argcomplete does the work."""

from __future__ import annotations

from agentctl.errors import AgentctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

EPILOG = """\
Completes commands, options, agents, statuses, session ids, groups and
worktrees.

examples:
  agentctl completion bash >> ~/.bashrc
  agentctl completion zsh >> ~/.zshrc
  agentctl completion fish > ~/.config/fish/completions/agentctl.fish
"""
OF_LIVE_SESSIONS = ("stop", "attach", "send")
MISSING = "completion needs the package argcomplete; install it where agentctl is installed: `pip install argcomplete`"


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


def add_completers(parser: ArgumentParser, verb: str = "") -> None:
    """Give each argument of a command its completer, by its name, also in commands below this one."""
    completers: dict[str, Callable[..., list[str]]] = {
        "id": live_ids if verb in OF_LIVE_SESSIONS else session_ids,
        "agent": agent_names,
        "group": groups,
        "target": worktree_targets,
        "diff": slots,
        "stat": slots,
        "slot": slots,
    }
    for action in parser._actions:
        name = "agent" if "--agent" in action.option_strings else action.dest
        if name in completers:
            action.completer = completers[name]  # type: ignore[attr-defined]
        for inner in action.choices.values() if isinstance(action.choices, dict) else ():
            add_completers(inner, verb)


def session_ids(prefix: str = "", **_: object) -> list[str]:
    """Return the session ids that begin with the prefix; without one, those alive or of the last days."""
    from agentctl.query.sessions import RECENT, Scope, query

    if prefix:
        return [session.id for session in query(Scope(prefix=prefix)).sessions]
    import time

    return [session.id for session in query(Scope(since=time.time() - RECENT)).sessions]


def live_ids(prefix: str = "", **_: object) -> list[str]:
    """Return the ids of the sessions that have not ended, and of the live launches that have no session yet, that begin
    with the prefix."""
    from agentctl.cli.list import with_launches
    from agentctl.model import GONE
    from agentctl.query.sessions import Scope, settled_look

    answer = with_launches(settled_look(Scope(related_launches_only=True)), None)
    ids = [session.id for session in answer.sessions if session.process != GONE]
    ids += [process.launch_id for process in answer.unattached if process.launch_id is not None]
    return [id for id in ids if id.startswith(prefix)]


def agent_names(**_: object) -> list[str]:
    from agentctl.agents import load_all

    return [name for agent in load_all() for name in (agent.NAME, *agent.ALIASES)]


def groups(**_: object) -> list[str]:
    import os

    from agentctl.launches import groups, records

    return groups.names(records.read_all(os.environ)[0])


def slots(parsed_args: object = None, **_: object) -> list[str]:
    """Return the slots of the group that was typed before."""
    import os

    from agentctl.launches import records

    group = getattr(parsed_args, "group", None)
    launches = records.read_all(os.environ)[0]
    return sorted({launch.slot for launch in launches if launch.slot and launch.group == group})


def worktree_targets(**_: object) -> list[str]:
    """Return the groups, and the branches that have a worktree in this repository. The shell completes paths itself."""
    import os

    from agentctl.errors import AgentctlError
    from agentctl.workspace import worktree

    try:
        linked = worktree.listing(os.getcwd(), os.environ)[1:]
    except AgentctlError:
        linked = []
    return [*groups(), *(tree.branch for tree in linked if tree.branch)]
