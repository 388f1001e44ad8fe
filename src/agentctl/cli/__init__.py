"""The command line: one module per verb, imported when it is used, and one error handler at the outer edge."""

from __future__ import annotations

import gc
import os
import sys

from agentctl.cli import plainly
from agentctl.errors import AgentctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, HelpFormatter, Namespace
    from typing import Any, NoReturn, Protocol

    class Verb(Protocol):
        EPILOG: str

        def add_arguments(self, parser: ArgumentParser) -> None: ...

        def run(self, args: Namespace) -> int: ...


VERBS = {
    "list": ("list", "the sessions that are alive or unknown; -a adds ended ones"),
    "status": ("status", "one session, everything that is known"),
    "why": ("why", "one session, and how that is known: every fact, rule and candidate"),
    "launch": ("launch", "start an agent, and print its session id"),
    "resume": ("resume", "go on with a session that has ended"),
    "peek": ("peek", "the last messages of a session; -f follows it"),
    "attach": ("attach", "take over a session that sits in tmux"),
    "send": ("send", "give a live session its next prompt"),
    "stop": ("stop", "end sessions, in their agents' own orderly way"),
    "wait": ("wait", "until sessions no longer run, or are idle, waiting or ended"),
    "compare": ("compare", "the launches of a group side by side: status, time, tokens, commits, diff"),
    "worktree": ("worktree", "the worktrees of a repository, and removing those that are done with"),
    "usage": ("usage", "tokens and cost, by day, agent, model, directory, group or session"),
    "lock": ("lock", "keep agents out of a directory"),
    "unlock": ("unlock", "take such a lock away"),
    "locks": ("locks", "the directories that are locked, and those in which agents work"),
    "prune": ("prune", "remove now what agentctl keeps of launches that are over"),
    "agents": ("agents", "the agents, their stores, and whether they can be read"),
    "completion": ("completion", "completion for bash, zsh or fish"),
}
SWEEPING = ("list", "launch", "resume", "stop", "wait", "locks")
# Over before their rubbish matters, or without any: to look for it is a fifth of judging 10 000, and 4 % of counting.
BRIEF = ("list", "status", "why", "usage")
QUESTIONS = (*BRIEF, "peek")
UNFREED: list[object] = []
FOR_RUNNERS = {"_over": ("over", "is the session of a launch over?")}
ALIASES = {"ls": "list", "ps": "list", "logs": "peek"}

EXAMPLES = """\
examples:
  agentctl list                     what is alive now, on the whole machine
  agentctl list -a --since 2d       also what ended in the last two days
  agentctl list --status waiting    who needs me?
  agentctl status 3f2a              one session, by any unique beginning of its id
  agentctl why 3f2a                 the evidence
  agentctl peek 3f2a -f             its last messages, and what comes
  agentctl attach 3f2a              its screen, if it sits in tmux; agentctl send 3f2a TEXT speaks to it
  agentctl stop 3f2a                end it; says what is true afterwards
  agentctl wait 3f2a --timeout 30m  until it no longer runs
  agentctl compare night            a group side by side; worktree clean night removes its worktrees
  agentctl usage --by model         what was spent in the last 30 days
  agentctl lock . --ttl 2h          no agent here for two hours; agentctl locks shows who is where
  agentctl list --json | jq '.sessions[] | select(.status == "waiting")'

exit codes: 0 ok, 1 failed, 2 usage, 3 no such session or ambiguous, 4 refused, 5 truth not available (--strict, wait),
6 and 7 (wait: failed, stopped), 124 timed out. Data goes to stdout, everything else to stderr. AGENTCTL_DEBUG=1 shows
tracebacks.
"""


def run(argv: list[str]) -> int:
    """Run one command and return its exit code. People never see a traceback."""
    try:
        code = dispatch(argv)
        sys.stdout.flush()
        if argv and ALIASES.get(argv[0], argv[0]) in SWEEPING:
            sweep()
        return code
    except AgentctlError as error:
        if os.environ.get("AGENTCTL_DEBUG"):
            raise
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away (| head): nothing more to say, and nothing to complain about at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # the one edge handler
        if os.environ.get("AGENTCTL_DEBUG"):
            raise
        path = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
        what = f"{type(error).__name__}: {error}{path}"
        complain(f"{what}; run again with AGENTCTL_DEBUG=1 and report what it shows")
        return 1


def keep_to_the_end(*values: object) -> None:
    """What is large and was printed: this process ends with it. To free ten thousand sessions one by one before that
    takes a tenth of the command that lists them."""
    UNFREED[:] = values


def complain(message: str) -> None:
    print(f"agentctl: {shown(message)}", file=sys.stderr)


def shown(error: object) -> str:
    """What failed may quote what an agent, a file or the caller wrote: no terminal obeys it, and no key is in it. Of
    several lines, perhaps."""
    from agentctl.cli.output import plain
    from agentctl.redaction import redact_text

    return "\n".join(plain(line) for line in redact_text(str(error)).split("\n"))


def sweep() -> None:
    """What has outlived its time among our own files goes, a little with each command."""
    from agentctl import launches

    if not os.path.isdir(launches.launches_folder(os.environ)):
        return  # nothing was ever launched: nothing more is imported
    import time

    from agentctl import config, retention

    env, now = os.environ, time.time()
    if retention.is_due(env, now, config.retention(env) or retention.RETENTION):
        from agentctl import processes

        retention.sweep_as_configured(env, processes.snapshot({launches.MARKER}), now)
        retention.note_sweep(env)


def is_question(argv: list[str]) -> bool:
    """One that starts nothing and keeps nothing."""
    return bool(argv) and ALIASES.get(argv[0], argv[0]) in QUESTIONS


def dispatch(argv: list[str]) -> int:
    name = ALIASES.get(argv[0], argv[0]) if argv else ""
    if name in BRIEF:
        gc.disable()
    if name in VERBS or name in FOR_RUNNERS:
        verb = load(name)
        words, flags = argv[1:], None
        if getattr(verb, "TAKES_FLAGS", False):  # what follows -- is the agent's own
            cut = words.index("--") if "--" in words else len(words)
            words, flags = words[:cut], words[cut + 1 :]
        return verb.run(plainly.parse(verb.add_arguments, words, flags=flags) or parsed(name, verb, words, flags))
    return overview(argv)


def parsed(name: str, verb: Verb, words: list[str], flags: list[str] | None) -> Namespace:
    from argparse import Namespace

    parser = new_parser(prog=f"agentctl {name}", description={**VERBS, **FOR_RUNNERS}[name][1], epilog=verb.EPILOG)
    verb.add_arguments(parser)
    return parser.parse_args(words, Namespace(flags=flags))


def new_parser(**more: Any) -> ArgumentParser:
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            from agentctl.cli.output import plain

            super().error(plain(message))  # it quotes what was typed, or pasted

    return Parser(formatter_class=help_format, allow_abbrev=False, **more)


def overview(argv: list[str]) -> int:
    """Without a command: what there is."""
    from argparse import SUPPRESS

    commands = "\n".join(f"  {verb:<11} {help}" for verb, (_, help) in VERBS.items())
    parser = new_parser(
        prog="agentctl",
        usage="agentctl [-h] [--version] COMMAND ...",
        description=f"Supervise every coding agent on this machine: a list you can believe.\n\ncommands:\n{commands}",
        epilog=EXAMPLES + "\n`agentctl COMMAND --help` has the options and more examples.",
    )
    parser.add_argument("--version", "-V", action="store_true", help="print the version and exit")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=SUPPRESS)
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"] if argv[1:2] else ["--help"]
        if argv[0] in VERBS:
            return dispatch(argv)
    args = parser.parse_args(argv[:1])
    if args.command is not None:
        parser.error(f"unknown command {args.command!r}; known: {', '.join(VERBS)}")
    parser.print_help()
    return 0


def complete() -> None:
    """Answer a shell that asks for completions: the one moment at which all verbs are loaded."""
    import argparse

    from agentctl.cli import completion

    parser = argparse.ArgumentParser(prog="agentctl")
    verbs = parser.add_subparsers(dest="verb")
    for name, (_, help) in VERBS.items():
        one = verbs.add_parser(name, help=help, aliases=[alias for alias, verb in ALIASES.items() if verb == name])
        load(name).add_arguments(one)
        completion.add_completers(one)
    completion.complete(parser)


def help_format(prog: str) -> HelpFormatter:
    """argparse finds the width of the terminal with shutil, for every option that is added: 4 ms of every command."""
    from argparse import RawDescriptionHelpFormatter

    from agentctl.cli.output import width

    return RawDescriptionHelpFormatter(prog, width=min(width(), 120) - 2)


def load(name: str) -> Verb:
    from importlib import import_module

    verb: Verb = import_module(f"agentctl.cli.{({**VERBS, **FOR_RUNNERS})[name][0]}")
    return verb
