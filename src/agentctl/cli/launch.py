"""agentctl launch [AGENT] -p PROMPT: start an agent, and say which session it is."""

from __future__ import annotations

import os

from agentctl.cli import launch_many, starting
from agentctl.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

TAKES_FLAGS = True  # of the agent's own, after --
EPILOG = """\
The agent runs on its own, without a terminal, and outlives this command. Its session id, the agent's own, is printed
once the agent has it. What it prints is kept; `agentctl peek ID -f` follows the conversation. The rules of the agent
for what it may do without asking hold, unless --permissions says otherwise: without a terminal most agents refuse what
they would have to ask for.

A directory in which a session works is busy: a second launch there is refused, and names it. With --worktree it gets a
git worktree beside the repository, <repository>-GROUP-SLOT, on a new branch try/GROUP/SLOT from the commit here, or on
--branch. Uncommitted changes are not in it; nothing is fetched.

Several at once: each --agent is a slot, with a worktree and a branch of its own. A --model after it is that slot's, one
before the first --agent that of all others; everything else holds for all. Or the slots are in a file:

  prompt: Fix the failing test.     # for slots that have none of their own, if there is no -p on the command line
  cwd: ../app                       # from where the file is; --cwd comes before it
  matrix:
    - agent: claude
      model: [opus, sonnet]         # a list in any field: a slot for each combination (at most 64 in all)
      permissions: edits
    - agent: codex
      prompt: Fix it without a new dependency.     # a slot's own comes before all others
      base_branch: main
      env: {LOG: debug}             # added to the environment
      flags: [--search]             # the agent's own, behind those after --; a list of lists is a slot for each

All is checked before anything is made. A slot that fails is taken back, unless there is work in its worktree, and the
others go on: exit code 1, or 124 if a session id did not come in time. stdout has a line for each session, slot<TAB>id;
with --wait the lines of `wait` follow. --json: {"schema": 1, "group", "slots": [{"slot", "session", "error", ...}]}.
Ctrl-C: what has begun goes on and is named, the rest is taken back.

Hooks are told AGENTCTL_SESSION_ID, _AGENT, _MODEL, _CWD, _STATUS, _EXIT_CODE, _LAUNCH, and of slots _GROUP, _SLOT,
_WORKTREE and _BRANCH.

With --interactive it gets a terminal: its screen runs in a detached tmux session, agentctl-<launch id>, on the server
that your own `tmux` uses, and `agentctl attach ID` shows it. It asks there for what it may do. -p may be left out. An
agent that begins no session before a person has typed something (a first prompt, a dialog about trust, a login) is left
at that: exit 0, the launch id on stdout in place of a session id (--json: session null, launch_id), and the last lines
of its screen on stderr. attach, wait and stop take either id.

examples:
  agentctl launch demo -p 'Say hello.'
  agentctl launch claude -p 'Fix the failing test.' --permissions edits
  agentctl launch codex --prompt-file task.md --cwd ~/code/app --timeout 2h
  agentctl launch -p 'Review this.' --file src/app.py --file README.md
  agentctl launch claude --issue 42 -p 'Do what this issue asks for.'
  agentctl launch claude -p 'Go.' -- --max-turns 3        the agent's own options
  agentctl launch --agent claude --model opus --agent claude --model sonnet --agent codex -p 'Fix the failing test.'
  agentctl launch --matrix night.yaml --group night --wait
  agentctl launch codex --worktree --branch fix/42 --issue 42
  id=$(agentctl launch demo -p '[[sleep:5]]') && agentctl wait $id
  agentctl launch --interactive claude -p 'Plan it.' && agentctl attach 3f2a
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="which agent (default: `agent` of the configuration)")
    parser.add_argument("-p", "--prompt", metavar="TEXT", help="what it is to do (- = from stdin)")
    starting.add_prompt_arguments(parser)
    starting.add_screen_argument(parser)
    parser.add_argument("--cwd", metavar="DIR", help="where it is to work (default: here)")
    parser.add_argument("--group", metavar="NAME", help="a name for what belongs together")
    starting.add_run_arguments(parser, launch_many.SetModel)
    launch_many.add_arguments(parser)


def run(args: Namespace) -> int:
    from agentctl import config, control, slots

    if launch_many.asked(args):
        return launch_many.run(args)
    if args.group is not None:
        slots.check_group(args.group)
    env = dict(os.environ)
    agent = agent_of(args.agent, env)
    cwd = directory(args.cwd or config.launch_cwd(env) or os.getcwd())
    request = control.Request(
        agent=agent,
        prompt=starting.prompt_of(args, args.prompt, cwd),
        cwd=cwd,
        env=starting.environment_of(args, agent),
        model=args.model or config.model_for(env, agent),
        permissions=args.permissions or configured_permissions(env, agent),
        flags=tuple(args.flags),
        group=args.group,
        spec=os.path.abspath(args.spec) if args.spec else None,
        hooks=starting.hooks_of(args),
        time_limit=starting.span("--timeout", args.timeout) if args.timeout else None,
        id_patience=starting.span("--id-timeout", args.id_timeout),
        force=args.force,
        interactive=args.interactive,
    )
    return starting.answered(lambda: control.launch(request, env, starting.tell), args, "launched")


def agent_of(name: str | None, env: dict[str, str]) -> str:
    from agentctl import config
    from agentctl.agents import TABLE, resolve

    name = name or config.default_agent(env)
    if name is None:
        raise UsageError(f"which agent? Name one ({', '.join(TABLE)}), or set `agent` in {config.config_path(env)}")
    found = resolve(name)
    if found is None:
        raise UsageError(f"unknown agent {name!r}; known: {', '.join(TABLE)}")
    return found


def configured_permissions(env: dict[str, str], agent: str) -> str | None:
    from agentctl import config
    from agentctl.recipes import PERMISSIONS

    found = config.permissions_for(env, agent)
    if found is not None and found not in PERMISSIONS:
        known = ", ".join(PERMISSIONS)
        raise UsageError(f"{config.config_path(env)}: permissions {found!r} of {agent}: use one of {known}")
    return found


def directory(path: str) -> str:
    found = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(found):
        raise UsageError(f"{path}: not a directory; make it, or give another --cwd")
    return found
