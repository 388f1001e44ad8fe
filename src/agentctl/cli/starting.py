"""What launch and resume have in common: their options, the progress on stderr, the hook, and the answer."""

from __future__ import annotations

import os
import sys

from agentctl.cli import output
from agentctl.errors import LaunchFailed, NoSessionYet, UsageError
from agentctl.model import GONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Action, ArgumentParser, Namespace
    from collections.abc import Callable

    from agentctl.model import Session

FAILED = 1


def add_prompt_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--prompt-file", metavar="FILE", help="the prompt is in this file (- = stdin)")
    parser.add_argument("--file", action="append", default=[], metavar="FILE", help="a file to go with it; repeatable")
    parser.add_argument("--spec", metavar="FILE", help="a specification to go with it")
    parser.add_argument("--max-file-size", metavar="SIZE", default="50k", help="of each of them (default: %(default)s)")
    parser.add_argument("--issue", metavar="N", help="a GitHub issue to go with it, fetched with `gh`")
    parser.add_argument("--repo", metavar="OWNER/NAME", help="its repository (default: that of the directory)")


def add_screen_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--interactive", action="store_true", help="its screen, in a tmux session of its own")


def add_run_arguments(parser: ArgumentParser, model: type[Action] | str = "store") -> None:
    from agentctl.recipes import PERMISSIONS

    modes = "; ".join(f"{name}: {meaning}" for name, meaning in PERMISSIONS.items())
    parser.add_argument("--model", action=model, metavar="NAME", help="the model, as the agent calls it")
    parser.add_argument("--permissions", choices=tuple(PERMISSIONS), help=modes)
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="a variable for it; repeatable")
    parser.add_argument("--timeout", metavar="TIME", help="stop it after this long, like 90s, 30m, 2h")
    parser.add_argument("--id-timeout", metavar="TIME", default="60s", help="for its session id (default: %(default)s)")
    parser.add_argument("--on-create", metavar="COMMAND", help="run this when its session is known")
    parser.add_argument("--on-complete", metavar="COMMAND", help="run this when its session has ended")
    parser.add_argument("--wait", action="store_true", help="and wait for its end, with the exit codes of `wait`")
    parser.add_argument("--force", action="store_true", help="also where another session works or a lock is held")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def prompt_of(args: Namespace, given: str | None, cwd: str) -> str:
    from agentctl import prompts
    from agentctl.durations import size

    if args.repo and not args.issue:
        raise UsageError("--repo says where an --issue is; give both")
    words = prompts.given(given, args.prompt_file)
    if words is None and not (args.issue or args.spec or args.file):
        if args.interactive:
            return ""  # the person will say it there
        raise UsageError("no prompt; give -p TEXT, --prompt-file FILE, or -p - for stdin")
    issue = prompts.fetch_issue(issue_number(args.issue), args.repo, cwd) if args.issue else None
    return prompts.build(words or "", args.spec, args.file, size(args.max_file_size), cwd, issue)


def issue_number(text: str) -> int:
    number = text.removeprefix("#")
    if not (number.isascii() and number.isdigit() and len(number) < 12):
        raise UsageError(f"--issue {text}: the number of an issue, such as 42")
    return int(number)


def span(option: str, text: str) -> float:
    """Of an option that takes a time: some time there must be."""
    from agentctl.durations import seconds

    found = seconds(text)
    if found <= 0:
        raise UsageError(f"{option} {text}: more than nothing, such as 30m")
    return found


def hooks_of(args: Namespace) -> dict[str, str] | None:
    from agentctl.hooks import ON_COMPLETE, ON_CREATE

    named = {ON_CREATE: args.on_create, ON_COMPLETE: args.on_complete}
    return {name: command for name, command in named.items() if command} or None


def environment_of(args: Namespace, agent: str) -> dict[str, str]:
    """The caller's own, what the configuration takes away, and what --env adds."""
    from agentctl import config

    env = dict(os.environ)
    for name in config.unset_for(os.environ, agent):
        env.pop(name, None)
    for word in args.env:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--env {word!r}: it takes NAME=VALUE")
        env[name] = value
    return env


def tell(line: str) -> None:
    """In one piece: several threads may have something to say."""
    sys.stderr.write(f"agentctl: {output.plain(line)}\n")
    sys.stderr.flush()


def answered(start: Callable[[], Session], args: Namespace, what: str) -> int:
    try:
        session = start()
    except NoSessionYet as unnamed:
        return answer_without_session(unnamed, args)
    return answer(session, args, what)


def answer_without_session(unnamed: NoSessionYet, args: Namespace) -> int:
    """The launch id in place of a session id: what waits for a person has none."""
    print_lines(str(unnamed))
    if args.on_create:
        tell("--on-create was not run: there is no session yet")
    if not args.json:
        print(unnamed.launch_id, flush=True)
    elif not args.wait:
        output.print_json({"session": None, "launch_id": unnamed.launch_id})
    return wait_for(unnamed.launch_id, args) if args.wait else 0


def print_lines(text: str) -> None:
    """Of an agent's screen, too: each as one that no terminal obeys."""
    for number, line in enumerate(text.splitlines()):
        print(f"{'' if number else 'agentctl: '}{output.plain(line)}", file=sys.stderr, flush=True)


def wait_for(id: str, args: Namespace) -> int:
    from argparse import Namespace

    from agentctl.cli import wait

    return wait.run(Namespace(id=[id], group=None, until="ended", timeout=None, any=False, json=args.json))


def answer(session: Session, args: Namespace, what: str) -> int:
    """The id on stdout, all else on stderr."""
    if not args.json:
        print(output.plain(session.id), flush=True)
    if args.on_create and session.launch_id:
        create_hook(session.launch_id, session)
    if args.json and not args.wait:
        output.print_json({"session": output.session_json(session)})
    if ended_at_once(session) and not args.wait:
        raise end_at_once(session)
    if args.wait:
        return wait_for(session.id, args)
    if not args.json:
        pid = f", pid {session.pid}" if session.pid is not None else ""
        tell(f"{what} {session.agent} in {output.tilde(session.cwd)}: {session.status}{pid}")
    return 0


def create_hook(launch_id: str, session: Session, tell: Callable[[str], None] = tell) -> None:
    """One that fails is told, and changes nothing."""
    from agentctl import control, hooks, launches
    from agentctl.model import Launch

    launch = launches.read(launch_id, os.environ)
    if not isinstance(launch, Launch):
        tell(f"{hooks.ON_CREATE} was not run: {launch.path}: {launch.problem}")
        return
    result = control.run_hook(hooks.ON_CREATE, launch, session, os.environ)
    if result is not None and result.exit_code != 0:
        how = "took too long" if result.timed_out else f"failed (exit code {result.exit_code})"
        said = f": {result.last_lines[-1]}" if result.last_lines else ""
        tell(f"{hooks.ON_CREATE} {how}{said}; the session goes on")


def end_at_once(session: Session) -> LaunchFailed:
    why = f": {session.error or session.reason}" if session.error or session.reason else ""
    return LaunchFailed(
        f"{session.agent} ended at once with exit code {session.exit_code}; {session.id} is {session.status}{why}",
        session.launch_id or "",
    )


def ended_at_once(session: Session) -> bool:
    return session.process == GONE and session.exit_code not in (0, None)
