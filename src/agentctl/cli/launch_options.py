"""What launch and resume share: their options, the progress on stderr, the hook, and the answer."""

from __future__ import annotations

import os
import sys

from agentctl.cli import output
from agentctl.errors import AgentctlError, Interrupted, LaunchFailed, NoSessionYet, UsageError
from agentctl.model import GONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Action, ArgumentParser, Namespace
    from collections.abc import Callable, Sequence
    from typing import Any

    from agentctl.launch.issue import Issue
    from agentctl.model import Session


def add_prompt_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--prompt-file", metavar="FILE", help="read the prompt from this file (- = stdin)")
    parser.add_argument(
        "--file", action="append", default=[], metavar="FILE", help="add this file to the prompt; repeatable"
    )
    parser.add_argument("--spec", metavar="FILE", help="add this specification to the prompt")
    parser.add_argument(
        "--max-file-size", metavar="SIZE", default="50k", help="refuse larger files (default: %(default)s)"
    )
    parser.add_argument("--issue", metavar="N", help="add this GitHub issue to the prompt; needs `gh`")
    parser.add_argument("--repo", metavar="OWNER/NAME", help="where the issue is (default: the repository here)")


def add_screen_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--interactive", action="store_true", help="run its screen in a new tmux session")


def add_run_arguments(parser: ArgumentParser, model: type[Action] | str = "store") -> None:
    from agentctl.agents.recipes import PERMISSIONS

    modes = "; ".join(f"{name}: {meaning}" for name, meaning in PERMISSIONS.items())
    parser.add_argument("--model", action=model, metavar="NAME", help="the model, by the agent's own name for it")
    parser.add_argument("--permissions", choices=tuple(PERMISSIONS), help=modes)
    parser.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="set this variable for it; repeatable"
    )
    parser.add_argument("--timeout", metavar="TIME", help="stop it after this time: 90s, 30m, 2h")
    parser.add_argument(
        "--id-timeout",
        metavar="TIME",
        default="60s",
        help="give up on its session id after this (default: %(default)s)",
    )
    parser.add_argument("--on-create", metavar="COMMAND", help="run this shell command when its session is known")
    parser.add_argument("--on-complete", metavar="COMMAND", help="run this shell command when its session has ended")
    parser.add_argument(
        "--wait", action="store_true", help="wait until it has ended, and print its answer; exit codes as in `wait`"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="with --wait: do not print its answer")
    parser.add_argument(
        "--force", action="store_true", help="start even if another session works there, or it is locked"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def prompt_of(args: Namespace, given: str | None, cwd: str) -> str:
    from agentctl.durations import size
    from agentctl.launch import prompt

    words = prompt.given(given, args.prompt_file)
    issue = issue_of(args, cwd)
    if words is None and not (issue or args.spec or args.file):
        if args.interactive:
            return ""  # the person will type it
        raise UsageError("no prompt; give one on the command line, with --prompt-file FILE, or - to read stdin")
    return prompt.build(words or "", args.spec, args.file, size(args.max_file_size), cwd, issue)


def issue_of(args: Namespace, cwd: str) -> Issue | None:
    """Return the issue of --issue. Raises UsageError."""
    from agentctl.launch import prompt

    if args.issue:
        return prompt.fetch_issue(issue_number(args.issue), args.repo, cwd)
    if args.repo:
        raise UsageError("--repo says where the issue is; add --issue N")
    return None


def issue_number(text: str) -> int:
    number = text.removeprefix("#")
    if not (number.isascii() and number.isdigit() and len(number) < 12):
        raise UsageError(f"--issue {text}: give the number of the issue, such as 42")
    return int(number)


def run_options(args: Namespace) -> dict[str, Any]:
    """Return the fields of a request that launch and resume take from the same options."""
    return {
        "spec": os.path.abspath(args.spec) if args.spec else None,
        "hooks": hooks_of(args),
        "time_limit": span("--timeout", args.timeout) if args.timeout else None,
        "id_patience": span("--id-timeout", args.id_timeout),
        "force": args.force,
        "interactive": args.interactive,
    }


def span(option: str, text: str) -> float:
    """Return the seconds of an option that takes a time above zero. Raises UsageError."""
    from agentctl.durations import seconds

    found = seconds(text)
    if found <= 0:
        raise UsageError(f"{option} {text}: give a time above zero, such as 30m")
    return found


def hooks_of(args: Namespace) -> dict[str, str] | None:
    from agentctl.launches.hooks import ON_COMPLETE, ON_CREATE

    named = {ON_CREATE: args.on_create, ON_COMPLETE: args.on_complete}
    return {name: command for name, command in named.items() if command} or None


def environment_of(args: Namespace, agent: str) -> dict[str, str]:
    """Return the caller's own environment, without what the configuration takes away, with what --env adds."""
    from agentctl import config

    env = dict(os.environ)
    for name in config.unset_for(os.environ, agent):
        env.pop(name, None)
    for word in args.env:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--env {word!r}: give it as NAME=VALUE")
        env[name] = value
    return env


def tell(line: str) -> None:
    """Write a line to stderr in one piece: several threads may have something to say."""
    sys.stderr.write(f"agentctl: {output.plain(line)}\n")
    sys.stderr.flush()


def answered(
    launch: Callable[[Callable[[Session], None]], Session],
    args: Namespace,
    what: str,
    also: str = "",
    where: str | None = None,
) -> int:
    """Launch one agent, print what came of it, and return the exit code. `launch` gets what to call as soon as the
    session is known. `also`: what was made for it; `where`: the directory that it was launched in."""

    codes = [0]

    def print_id(session: Session) -> None:
        if not args.json:
            codes.append(put(output.plain(session.id), f"{what} {session.agent}: {session.id}") or 0)

    try:
        session = launch(print_id)
    except NoSessionYet as unnamed:
        return answer_without_session(unnamed, args)
    return answer(session._replace(cwd=where or session.cwd), args, what, also) or max(codes)


def put(text: str, what: str) -> int | None:
    """Print the id of what runs now, at once. If stdout takes nothing (its disk is full), the agent runs all the same:
    say `what` runs on stderr, and return the exit code. None: it was printed."""
    try:
        print(text, flush=True)
    except OSError as error:
        from agentctl.cli import give_up_output

        give_up_output()
        tell(f"{what}; stdout could not be written: {error.strerror}")
        return 0 if isinstance(error, BrokenPipeError) else AgentctlError.exit_code  # the reader may go away
    return None


def answer_without_session(unnamed: NoSessionYet, args: Namespace) -> int:
    """Print the launch id in place of a session id: an agent that waits for a person has none."""
    print_lines(str(unnamed))
    if args.on_create:
        tell("--on-create was not run: there is no session yet")
    code = 0
    if not args.json:
        code = put(unnamed.launch_id, f"launched: {unnamed.launch_id}") or 0
    elif not args.wait:
        facts = {"session": None, "launch_id": unnamed.launch_id}
        code = put(output.json_text(facts), f"launched: {unnamed.launch_id}") or 0
    return (wait_for([unnamed.launch_id], args) if args.wait else 0) or code


def print_lines(text: str) -> None:
    """Print lines, perhaps of an agent's screen, so that no terminal obeys them."""
    for number, line in enumerate(text.splitlines()):
        print(f"{'' if number else 'agentctl: '}{output.plain(line)}", file=sys.stderr, flush=True)


def wait_for(ids: Sequence[str], args: Namespace) -> int:
    """Run `agentctl wait` for these, and return its exit code."""
    from argparse import Namespace

    from agentctl.cli import wait

    return wait.run(Namespace(id=list(ids), group=None, until="ended", timeout=None, any=False, json=args.json))


def print_answers(ids: Sequence[tuple[str | None, str]], args: Namespace) -> None:
    """Print the last answer of each session (with the name of its slot), unless that is not wanted."""
    if args.quiet or args.json:
        return
    from agentctl.cli.answer import print_answer

    for slot, id in ids:
        print_answer(id, slot)


def answer(session: Session, args: Namespace, what: str, also: str = "") -> int:
    """Run the hook, print all but the id, which is on stdout already, and return the exit code."""
    if args.on_create and session.launch_id:
        try:
            create_hook(session.launch_id, session)
        except KeyboardInterrupt:
            from agentctl.launch.group import goes_on

            raise Interrupted(goes_on(session)) from None
    code = 0
    if args.json and not args.wait:
        facts = {"session": output.session_json(session)}
        code = put(output.json_text(facts), f"{what} {session.agent}: {session.id}") or 0
    if ended_at_once(session) and not args.wait:
        raise end_at_once(session)
    if args.wait:
        code = wait_for([session.id], args)
        print_answers([(None, session.id)], args)
        if also and not args.json:
            tell(also)
        return code
    if not args.json:
        screen = f"; screen: agentctl attach {session.launch_id or session.id}" if args.interactive else ""
        made = f" ({also})" if also else ""
        tell(f"{what} {session.agent} in {output.tilde(session.cwd)}{made}: {session.status}{screen}")
    return code


def create_hook(launch_id: str, session: Session, tell: Callable[[str], None] = tell) -> None:
    """Run --on-create. If it fails, say so; that changes nothing."""
    from agentctl.launch import start
    from agentctl.launches import hooks, records
    from agentctl.model import Launch

    launch = records.read(launch_id, os.environ)
    if not isinstance(launch, Launch):
        tell(f"{hooks.ON_CREATE} was not run: {launch.path}: {launch.problem}")
        return
    result = start.run_hook(hooks.ON_CREATE, launch, session, os.environ)
    if result is not None and result.exit_code != 0:
        how = "took too long" if result.timed_out else f"failed (exit code {result.exit_code})"
        said = f": {result.last_lines[-1]}" if result.last_lines else ""
        tell(f"{hooks.ON_CREATE} {how}{said}; the session is not affected")


def end_at_once(session: Session) -> LaunchFailed:
    why = f": {session.error or session.reason}" if session.error or session.reason else ""
    return LaunchFailed(
        f"{session.agent} ended at once with exit code {session.exit_code}; {session.id} is {session.status}{why}",
        session.launch_id or "",
    )


def ended_at_once(session: Session) -> bool:
    return session.process == GONE and session.exit_code not in (0, None)
