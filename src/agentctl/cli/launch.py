"""agentctl launch [AGENT] -p PROMPT: start one agent or several, and print their session ids."""

from __future__ import annotations

import os

from agentctl.cli import launch_options, launch_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from agentctl.model import Session

TAKES_FLAGS = True  # of the agent's own, after --
TEXTS = ("-p", "--prompt")  # their value may begin with a dash; the last one is the long name
STRAY_WORDS = "the prompt goes after -p"
EPILOG = """\
The agent runs without a terminal and outlives this command. `launch` prints
the agent's own session id as soon as the agent has one. Without --permissions
the agent's own rules decide what it may do without asking; without a terminal,
most agents refuse whatever they would have to ask for. agentctl keeps the
agent's output; `agentctl peek ID -f` follows the conversation.

A directory in which a session works is busy: `launch` refuses to start a
second agent there, and names the session. With --worktree the agent works in a
new git worktree beside the repository, <repository>-GROUP-SLOT, on a new branch
try/GROUP/SLOT that begins at the current commit (or on --branch). The worktree
does not have your uncommitted changes. Nothing is fetched.

Several agents at once: each --agent is a slot, with its own worktree and
branch. A --model after an --agent is for that slot; a --model before the first
--agent is for all slots that have none. All other options are for every slot.
You can also list the slots in a file:

  prompt: Fix the failing test.   # for slots without a prompt; -p overrides it
  cwd: ../app                     # relative to this file; --cwd overrides it
  matrix:
    - agent: claude
      model: [opus, sonnet]       # a list in any field makes one slot for each
      permissions: edits          # combination (at most 64 slots in all)
    - agent: codex
      prompt: Fix it without a new dependency.   # overrides all other prompts
      base_branch: main
      env: {LOG: debug}           # added to the environment
      flags: [--search]           # options of the agent, added to those after
                                  # --; a list of lists makes one slot for each

agentctl checks everything before it makes anything. If a slot fails, agentctl
removes what it made for that slot, unless there is work in the worktree, and
the other slots go on. The exit code is then 1, or 124 if a session id did not
come in time. stdout has one line per session, slot<TAB>id; with --wait the
lines of `wait` follow. With --json:
  {"schema": 1, "group", "slots": [{"slot", "session", "error", ...}]}

Ctrl-C never stops an agent that has started: it goes on, and `agentctl list`
shows it. agentctl names what goes on and how to stop it, and removes what it
made for slots that have not begun. With --wait, Ctrl-C then ends only the wait.

Hooks get the variables AGENTCTL_SESSION_ID, AGENTCTL_AGENT, AGENTCTL_MODEL,
AGENTCTL_CWD, AGENTCTL_STATUS, AGENTCTL_EXIT_CODE and AGENTCTL_LAUNCH; hooks of
slots also get AGENTCTL_GROUP, AGENTCTL_SLOT, AGENTCTL_WORKTREE and
AGENTCTL_BRANCH. If something is not known, its variable is not set, so
${AGENTCTL_WORKTREE:?} ends a hook that needs it.

With --interactive the agent gets a terminal: its screen runs in a detached
tmux session, agentctl-<launch id>, on the server that your own `tmux` uses.
`agentctl attach ID` shows it. The agent asks for permissions there. You can
leave out -p.

Some agents begin no session before a person has typed something (a first
prompt, an answer to a trust dialog, a login). Then `launch --interactive`
leaves the agent running, exits with 0, prints the launch id in place of a
session id (--json: session is null, and there is a launch_id), and shows the
last lines of the screen on stderr. attach, wait and stop take either id.

The demo agent needs no model and no key. Its prompt says what it does:
'[[sleep:5]] [[text:Done.]]'. `agentctl-demo --help` lists what it understands.

examples:
  agentctl launch demo -p 'Say hello.'
  agentctl launch claude -p 'Fix the failing test.' --permissions edits
  agentctl launch codex --prompt-file task.md --cwd ~/code/app --timeout 2h
  agentctl launch -p 'Review this.' --file src/app.py --file README.md
  agentctl launch claude --issue 42 -p 'Do what this issue asks for.'
  agentctl launch claude -p 'Go.' -- --max-turns 3    options of the agent
  agentctl launch --agent claude --model opus --agent claude --model sonnet \\
      --agent codex -p 'Fix the failing test.'
  agentctl launch --matrix night.yaml --group night --wait
  agentctl launch codex --worktree --branch fix/42 --issue 42
  id=$(agentctl launch demo -p '[[sleep:5]]') && agentctl wait $id
  id=$(agentctl launch --interactive claude) && agentctl attach $id
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="the agent (default: `agent` in the configuration)")
    parser.add_argument("-p", "--prompt", metavar="TEXT", help="the prompt (- = read stdin)")
    launch_options.add_prompt_arguments(parser)
    launch_options.add_screen_argument(parser)
    parser.add_argument("--cwd", metavar="DIR", help="where it works (default: here)")
    parser.add_argument("--group", metavar="NAME", help="the group that this launch belongs to")
    launch_options.add_run_arguments(parser, launch_slots.SetModel)
    launch_slots.add_arguments(parser)


def run(args: Namespace) -> int:
    from agentctl.launch import group as groups

    env = dict(os.environ)
    orders = launch_slots.orders_of(args, env)
    if launch_slots.are_several(args):
        from agentctl.cli import launch_report

        return launch_report.launch_slots(orders, env, args)
    (order,) = orders

    def launch(known: Callable[[Session], None]) -> Session:
        return groups.launch_one(order, env, launch_options.tell, known)

    also = f"group {order.group}, branch {order.worktree.branch}" if order.worktree is not None else ""
    return launch_options.answered(launch, args, "launched", also, order.cwd)
