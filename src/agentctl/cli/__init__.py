"""The command line: one module per verb, imported when it is used, and one error handler around all of them."""

from __future__ import annotations

import errno
import gc
import os
import sys

from agentctl.errors import AgentctlError, UsageError, show_traceback
from agentctl.fast import args as fast_args
from agentctl.fast.imports import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, HelpFormatter, Namespace
    from collections.abc import Sequence
    from typing import Any, NoReturn, Protocol

    class Verb(Protocol):
        EPILOG: str

        def add_arguments(self, parser: ArgumentParser) -> None: ...

        def run(self, args: Namespace) -> int: ...


VERBS = {
    "list": ("list", "show sessions that are alive or unknown; -a adds ended ones"),
    "status": ("status", "show everything that is known about one session"),
    "why": ("why", "show how agentctl knows a status: every fact, rule and candidate"),
    "launch": ("launch", "start an agent and print its session id"),
    "resume": ("resume", "continue a session that has ended"),
    "peek": ("peek", "show the last messages of a session; -f follows it"),
    "attach": ("attach", "open the screen of a session that runs in tmux"),
    "send": ("send", "give an idle session its next prompt"),
    "stop": ("stop", "end sessions in their agent's own orderly way"),
    "events": ("events", "print what is so now; -f goes on with each change"),
    "wait": ("wait", "wait until sessions no longer run, or are idle, waiting or ended"),
    "compare": ("compare", "show a group side by side: status, time, tokens, commits, diff"),
    "accept": ("accept", "merge the work of one slot of a group into your branch"),
    "worktree": ("worktree", "list the worktrees of a repository, or remove finished ones"),
    "usage": ("usage", "count tokens and cost, by day, agent, model, directory, group, ..."),
    "lock": ("lock", "keep agents out of a directory"),
    "unlock": ("unlock", "remove a lock that `agentctl lock` set"),
    "locks": ("locks", "list locked directories, and those in which agents work"),
    "prune": ("prune", "remove expired records and output of launches now"),
    "daemon": ("daemon", "run, start, stop or install the process that records events"),
    "agents": ("agents", "list the agents, their stores, and whether they can be read"),
    "completion": ("completion", "print the completion script for bash, zsh or fish"),
}
# What other tools call our commands.
ELSEWHERE = {"kill": "stop", "rm": "stop", "show": "status", "inspect": "status", "run": "launch", "start": "launch"}
SWEEPING = ("list", "launch", "resume", "stop", "wait", "locks")
# Short-lived, so garbage collection is off: it would take a fifth of judging 10 000 sessions, and 4 % of counting.
BRIEF = ("list", "status", "why", "usage")
QUESTIONS = (*BRIEF, "peek", "events")
HELP = ("-h", "--help")
UNFREED: list[object] = []
TYPED: list[str] = []  # the words of this command: the beginning of an id there has led to one session
# What a broken configuration does not stop: these change nothing. The others must not go on without what a person set.
SHOWING = ("list", "status", "why", "usage", "agents", "locks", "compare", "events")  # with `problems` in their answer
LOOKING = (*SHOWING, "peek", "attach", "wait", "completion", "daemon")
FOR_RUNNERS = {  # none of them needs the configuration: what a person types there must not break a promise
    "_over": ("launch_over", "is the session of a launch over?"),
    "_stop": ("stop", "stop a launch at its time limit"),
}
ALIASES = {"ls": "list", "ps": "list", "logs": "peek"}
ID_HELP = "a session id, a unique prefix of one, or a launch id"
AGENT_OPTIONS = "[-- AGENT OPTIONS]"  # what a verb with TAKES_FLAGS hands on
NARROW = 80  # columns

EXAMPLES = """\
examples:
  agentctl list                     what is alive now
  agentctl list -a --since 2d       also what ended in the last two days
  agentctl list --status waiting    which sessions need me?
  agentctl agents                   which agents agentctl knows
  agentctl launch AGENT -p TEXT     start one, and print its session id
  agentctl status 3f2a              one session, by the beginning of its id
  agentctl why 3f2a                 the evidence
  agentctl peek 3f2a -f             its last messages, then new ones
  agentctl attach 3f2a              its screen, if it runs in tmux
  agentctl send 3f2a TEXT           give it its next prompt
  agentctl wait 3f2a --timeout 30m  wait until it no longer runs
  agentctl events -f                what changes, as it changes
  agentctl stop 3f2a                end it, and say what is true afterwards
  agentctl compare night            the slots of a group side by side
  agentctl worktree clean night     remove the worktrees of a group
  agentctl usage --by model         what was spent in the last 30 days
  agentctl lock . --ttl 2h          keep agents out of here for two hours
  agentctl locks                    who is at work where
  agentctl list --json | jq '.sessions[] | select(.status == "waiting")'

exit codes:
  0    ok
  1    failed
  2    wrong usage
  3    not found (a session, a group, ...), or ambiguous
  4    refused
  5    agentctl cannot know (--strict, wait, send; not found, and not
       everything could be read)
  6    wait: the last turn failed
  7    wait: stopped
  124  timed out
  130  Ctrl-C (SIGTERM: 143, SIGHUP: 129)

Data goes to stdout, everything else to stderr. AGENTCTL_DEBUG=1 shows
tracebacks.
"""


def run(argv: list[str]) -> int:
    """Run one command and return its exit code. People never see a traceback."""
    TYPED[:] = argv
    try:
        if not is_question(argv):
            heed_ends_of_children()
            heed_ends()
        code = dispatch(argv)
        sys.stdout.flush()
        if argv and ALIASES.get(argv[0], argv[0]) in SWEEPING:
            sweep()
        return code
    except AgentctlError as error:
        show_traceback(error)
        complain(str(error))
        is_written()
        return error.exit_code
    except SystemExit:  # argparse has shown the help, or what is wrong with the words
        try:
            sys.stdout.flush()
        except OSError as error:
            return could_not_write(error)
        raise
    except KeyboardInterrupt as error:
        return getattr(error, "exit_code", 130)
    except BrokenPipeError as error:
        return could_not_write(error)
    except Exception as error:  # noqa: BLE001 -- a bug of ours: the only place that catches everything
        show_traceback(error)
        if isinstance(error, FileNotFoundError) and is_nowhere():
            complain("the directory that you are in was deleted; cd to another one")
            return 2
        if isinstance(error, OSError) and is_of_stdout(error):
            return could_not_write(error)
        complain(f"{words_of(error)}; {what_to_do(error)}")
        is_written()
        return 1


def count(text: str) -> int:
    """Return how many are asked for, for an option."""
    value = int(text)
    if value < 0:
        raise ValueError("negative")
    return value


def words_of(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    path = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
    return f"{type(error).__name__}: {error}{path}"


def what_to_do(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "`ulimit -v` shows whether a limit was set"
    return "run again with AGENTCTL_DEBUG=1 and report what it shows"


def is_written() -> bool:
    """Write what stdout still has. Return whether that worked; if not, the rest is discarded: Python would try again
    when it exits, and then exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        give_up_output()
        return False
    return True


def is_of_stdout(error: OSError) -> bool:
    """Return whether this is a failure to write to stdout: it names no file, and was raised by code that prints.
    (Python does not always keep what it could not write, so to try again tells nothing.)"""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return error.filename is None and f"{raised_in}.".startswith(f"{__name__}.")


def could_not_write(error: OSError) -> int:
    """Say that stdout does not take the output, and return the exit code. That the reader went away (| head) is no
    error."""
    give_up_output()
    if isinstance(error, BrokenPipeError):
        return 0
    if error.errno == errno.EBADF:
        complain("nothing could be written to stdout: it is closed")
    else:
        complain(f"not everything could be written to stdout: {error.strerror}")
    return 1


def is_nowhere() -> bool:
    """Return whether the directory that we are in was deleted: then no relative path leads anywhere."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def heed_ends_of_children() -> None:
    """Whoever ignores SIGCHLD hands that on to us, and then the kernel keeps no exit code of what we run."""
    import signal

    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def heed_ends() -> None:
    from agentctl.kernel import interrupts

    interrupts.heed_ends()


def give_up_output() -> None:
    """Discard what could not be written to stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def keep_to_the_end(*values: object) -> None:
    """Keep large values until the process exits: to free ten thousand sessions one by one takes a tenth of the time of
    the command that lists them."""
    UNFREED[:] = values


def complain(message: str) -> None:
    from agentctl.cli.output import for_people

    print(f"agentctl: {for_people(shown(message), sys.stderr)}", file=sys.stderr)


def shown(error: object) -> str:
    """Return an error as it may be shown: without control characters and keys, because it may quote what an agent, a
    file or the caller wrote. It may have several lines."""
    from agentctl.cli.output import plain
    from agentctl.files.redaction import redact_text

    return "\n".join(plain(line) for line in redact_text(str(error)).split("\n"))


def sweep() -> None:
    """Remove launches that have expired, a few with each command."""
    from agentctl.launches import records

    if not os.path.isdir(records.launches_folder(os.environ)):
        return  # nothing was ever launched: import nothing more
    import time

    try:
        from agentctl import config
        from agentctl.launches import retention
    except ImportError:
        return  # another version was installed while we waited; its commands will sweep

    env, now = os.environ, time.time()
    try:
        keep, _ = config.retention(env), config.output_limit(env)
    except UsageError:
        return  # what may go is not known; the command has named this problem, or failed with it
    if retention.is_due(env, now, keep or retention.RETENTION):
        from agentctl.kernel import processes

        retention.sweep_as_configured(env, processes.snapshot({records.MARKER}), now)
        retention.note_sweep(env)


def is_question(argv: list[str]) -> bool:
    """Return whether this command starts nothing and stores nothing but caches."""
    return not argv or argv[0] in HELP or ALIASES.get(argv[0], argv[0]) in QUESTIONS


def dispatch(argv: list[str]) -> int:
    name = ALIASES.get(argv[0], argv[0]) if argv else ""
    if name in BRIEF:
        gc.disable()
    if name in VERBS or name in FOR_RUNNERS:
        verb = load(name)
        words, texts = without_texts(argv[1:], getattr(verb, "TEXTS", ()))
        flags = None
        if getattr(verb, "TAKES_FLAGS", False):  # what follows -- is for the agent
            cut = words.index("--") if "--" in words else len(words)
            words, flags = words[:cut], words[cut + 1 :]
        args = fast_args.parse(verb.add_arguments, words, flags=flags) or parsed(name, verb, words, flags)
        vars(args).update(texts)
        if not (name in SHOWING or name in FOR_RUNNERS or (name == "worktree" and args.what == "list")):
            heed_configuration(may_go_on=name in LOOKING)
        return verb.run(args)
    return overview(argv)


def without_texts(words: list[str], texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words with a plain word in place of each text that looks like an option, and the texts by the name of
    their argument: argparse would obey `-p --help`. `texts`: the options that take a text, the long name last. What
    follows -- is not ours."""
    plain: list[str] = []
    taken: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        plain.append(word)
        if word == "--":
            break
        if word in texts and (text := next(rest, None)) is not None:
            taken.pop(texts[-1][2:], None)
            if text.startswith("-") and text != "-":
                taken[texts[-1][2:]], text = text, "text"
            plain.append(text)
    return [*plain, *rest], taken


def heed_configuration(*, may_go_on: bool) -> None:
    """Print what cannot be used of the configuration. Raise UsageError if none of it can, unless the command may go on
    without it."""
    from agentctl import config
    from agentctl.query import roots

    settings = config.read(os.environ)
    if not may_go_on:
        config.load(os.environ)
    for problem in roots.wrong_in(settings):
        complain(f"{problem.path}: {problem.problem}")


def parsed(name: str, verb: Verb, words: list[str], flags: list[str] | None) -> Namespace:
    from argparse import Namespace

    return parser_of(name, verb).parse_args(words, Namespace(flags=flags))


def parser_of(name: str, verb: Verb) -> ArgumentParser:
    """Return the parser of a command, with its whole help."""
    summary = {**VERBS, **FOR_RUNNERS}[name][1]
    aliases = aliases_of(name)
    also = f"\n\naliases: {', '.join(aliases)}" if aliases else ""
    stray = getattr(verb, "STRAY_WORDS", "")
    parser = new_parser(stray, prog=f"agentctl {name}", description=summary + also, epilog=verb.EPILOG)
    verb.add_arguments(parser)
    if getattr(verb, "TAKES_FLAGS", False):
        parser.usage = usage_with_agent_options(parser.format_usage())
    return parser


def aliases_of(name: str) -> list[str]:
    return [alias for alias, verb in ALIASES.items() if verb == name]


def usage_with_agent_options(usage: str) -> str:
    """Return the usage that argparse made, with AGENT_OPTIONS at its end."""
    *lines, last = usage.removeprefix("usage: ").rstrip().split("\n")
    indent = " " * (len(last) - len(last.lstrip()))
    fits = len(f"{last} {AGENT_OPTIONS}") < NARROW
    more = [f"{last} {AGENT_OPTIONS}"] if fits else [last, indent + AGENT_OPTIONS]
    return "\n".join((*lines, *more)).replace("%", "%%")


def new_parser(stray_words: str = "", **more: Any) -> ArgumentParser:
    """Return an empty parser. `stray_words`: a hint for a person who typed a word too many."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            from agentctl.cli.output import plain

            words = message.removeprefix("unrecognized arguments: ")
            if stray_words and words != message and not words.startswith("-"):
                message = f"{message}; {stray_words}"
            super().error(plain(message))  # it quotes what was typed, or pasted

    return Parser(formatter_class=help_format, allow_abbrev=False, **more)


def overview(argv: list[str]) -> int:
    """Print the help of agentctl itself, its version, or that a command is unknown."""
    from argparse import SUPPRESS

    commands = "\n".join(f"  {verb:<11} {help}" for verb, (_, help) in VERBS.items())
    aliases = ", ".join(f"{alias} = {verb}" for alias, verb in ALIASES.items())
    parser = new_parser(
        prog="agentctl",
        usage="agentctl [-h] [--version] COMMAND ...",
        description=f"Supervise the coding agents of your account: a list you can believe.\n\ncommands:\n{commands}"
        f"\n\naliases: {aliases}",
        epilog=EXAMPLES + "\n`agentctl COMMAND --help` shows the options and more examples.",
    )
    parser.add_argument("--version", "-V", action="store_true", help="print the version and exit")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=SUPPRESS)
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"] if argv[1:2] else ["--help"]
        if argv[0] in VERBS or argv[0] in ALIASES:
            return dispatch(argv)
    args = parser.parse_args(argv[:1])
    if args.command is not None:
        parser.error(f"unknown command {args.command!r}; {meant(args.command)}known: {', '.join(VERBS)}")
    parser.print_help()
    return 0


def meant(word: str) -> str:
    """Return the command that a person may have meant, for an error; nothing if none is close."""
    from difflib import get_close_matches

    known = {**{verb: verb for verb in VERBS}, **ALIASES, **ELSEWHERE}
    close = get_close_matches(word.casefold(), known, 1)
    return f"did you mean `agentctl {known[close[0]]}`? " if close else ""


def complete() -> None:
    """Answer a shell that asks for completions. Only this loads all verbs."""
    import argparse

    from agentctl.cli import completion

    parser = argparse.ArgumentParser(prog="agentctl")
    verbs = parser.add_subparsers(dest="verb")
    for name, (_, help) in VERBS.items():
        command = verbs.add_parser(name, help=help, aliases=aliases_of(name))
        load(name).add_arguments(command)
        completion.add_completers(command, name)
    completion.complete(parser)


def help_format(prog: str) -> HelpFormatter:
    """Set the width here: argparse asks shutil for it again for every option, which takes 4 ms of every command."""
    from argparse import RawDescriptionHelpFormatter

    from agentctl.cli.width import width

    return RawDescriptionHelpFormatter(prog, width=min(width(), 120) - 2)


def load(name: str) -> Verb:
    verb: Verb = import_module(f"agentctl.cli.{({**VERBS, **FOR_RUNNERS})[name][0]}")
    return verb
