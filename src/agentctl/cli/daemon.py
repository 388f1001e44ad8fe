"""agentctl daemon: start, stop and look at the process that records events and serves them."""

from __future__ import annotations

import os
import sys

from agentctl.cli import output
from agentctl.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from agentctl.server.control import Found

EPILOG = """\
The daemon records what `agentctl events -f` tells, so that `agentctl events
--since` can show it later, and serves the JSON of agentctl's commands on a
Unix socket (docs/api.md). No other command needs it, and no answer depends on
it: list, status, why, wait and stop never ask it anything. You can kill it at
any time.

  run        run it here, until Ctrl-C or SIGTERM; --to-log: what it has to
             say goes to its log
  start      start it in the background; exit code 0 if it runs already
  stop       end it
  restart    end it if it runs, and start it: after an upgrade, too
  status     say whether it runs, and how it is; exit code 3 if it does not
  logs       show the last lines of its own log
  install    write a systemd user unit (macOS: a LaunchAgent) that runs it at
             login, and print what to run next
  uninstall  remove that unit, and print what to run next

There is one daemon for each state folder. agentctl signals it only if boot,
pid and start time prove that it is the one that wrote its identity file.

It needs the extra `daemon`: pip install 'agentctl[daemon]'.

examples:
  agentctl daemon start
  agentctl daemon status --json
      {"schema": 1, "daemon": {"state": "running", "pid": ..., ...}}
  agentctl events --since 2h -f
  socket=$(agentctl daemon status --json | jq -r .daemon.socket)
  curl --unix-socket "$socket" http://agentctl/v1/sessions
"""
WHAT = ("run", "start", "stop", "restart", "status", "logs", "install", "uninstall")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", choices=WHAT, metavar="COMMAND", help=", ".join(WHAT))
    parser.add_argument("-n", type=int, default=50, metavar="N", help="logs: how many lines (default: 50)")
    parser.add_argument("--to-log", action="store_true", help="run: write to its own log, not to stderr")
    parser.add_argument("--json", action="store_true", help="status: print JSON")


def run(args: Namespace) -> int:
    if args.json and args.what != "status":
        raise UsageError(f"--json is for `agentctl daemon status`, not for {args.what}")
    if args.to_log and args.what != "run":
        raise UsageError(f"--to-log is for `agentctl daemon run`, not for {args.what}")
    does: dict[str, Callable[[Namespace], int]] = {
        "run": serve,
        "start": start,
        "stop": stop,
        "restart": restart,
        "status": status,
        "logs": logs,
        "install": install,
        "uninstall": uninstall,
    }
    return does[args.what](args)


def serve(args: Namespace) -> int:
    from agentctl.server import extra, own_log, place

    env = dict(os.environ)
    place.make_folder(env)
    tell = own_log.OwnLog(place.path(env, place.OWN_LOG), taking_over=True) if args.to_log else say
    extra.require()
    from agentctl.cli.events import checkpoint_json, event_json
    from agentctl.live.log import Shapes
    from agentctl.server import serve

    serve.run(env, Shapes(event_json, checkpoint_json), tell)
    return 0


def say(line: str) -> None:
    sys.stderr.write(f"agentctl: {output.plain(line)}\n")
    sys.stderr.flush()


def start(args: Namespace) -> int:
    from agentctl.server import control

    found, started = control.start(os.environ)
    say(f"the daemon {'runs' if started else 'ran already'}: {facts(found)}")
    return 0


def stop(args: Namespace) -> int:
    from agentctl.server import control

    ended = control.stop(os.environ)
    if ended.key is None:
        say("the daemon was not running")
    else:
        say(f"the daemon has ended: pid {ended.key.pid}, by {ended.how}")
    return 0


def restart(args: Namespace) -> int:
    from agentctl.server import extra

    extra.require()  # before the one that runs is ended
    stop(args)
    return start(args)


def facts(found: Found) -> str:
    pid = f"pid {found.key.pid}" if found.key is not None else "pid not known"
    where = f", {output.tilde(found.identity.socket)}" if found.identity is not None else ""
    return f"{pid}{where}"


# Status


def status(args: Namespace) -> int:
    from agentctl.server import control

    found = control.find(os.environ)
    if args.json:
        output.print_json({"daemon": status_json(found)})
    else:
        for line in status_lines(found):
            print(line)
    return 0 if word_of(found) == "running" else 3


def word_of(found: Found) -> str:
    if found.health is not None:
        return "running"
    return {"running": "not answering", "gone": "not running"}.get(found.state, found.state)


def status_json(found: Found) -> dict[str, object]:
    identity, health = found.identity, found.health or {}
    runs = word_of(found) != "not running"
    return {
        "state": word_of(found),
        "pid": found.key.pid if found.key is not None else None,
        "key": str(found.key) if found.key is not None else None,
        "version": identity.version if identity is not None and runs else None,
        "other_version": found.other_version is not None and runs,
        "socket": identity.socket if identity is not None and runs else None,
        "started_at": identity.started_at if identity is not None and runs else None,
        "events": health.get("events"),
        "engine": health.get("engine"),
        "why": found.why,
    }


def status_lines(found: Found) -> list[str]:
    word = word_of(found)
    if word == "not running":
        return ["not running; `agentctl daemon start` starts it"]
    lines = [f"{word}: {facts(found)}" + (f": {output.plain(found.why)}" if found.why else "")]
    if found.other_version:
        version = output.plain(found.other_version)
        lines.append(f"its version is {version}, not this one; `agentctl daemon restart` replaces it")
    events = (found.health or {}).get("events")
    if isinstance(events, dict):
        lines.append(f"events: {events.get('seq')} in log {events.get('log')}, {events.get('listeners')} listeners")
        if events.get("problem"):
            lines.append(f"the log cannot be written: {output.plain(str(events['problem']))}")
    engine = (found.health or {}).get("engine")
    if isinstance(engine, dict) and engine.get("problem"):
        lines.append(f"the engine failed: {output.plain(str(engine['problem']))}")
    return lines


# The rest


def logs(args: Namespace) -> int:
    from agentctl.server import own_log, place

    if args.n < 0:
        raise UsageError(f"-n {args.n}: give a number of lines")
    path = place.path(os.environ, place.OWN_LOG)
    lines = own_log.last_lines(path, args.n)
    for line in lines:
        print(output.plain(line))
    if not lines:
        print(f"agentctl: {output.tilde(path)} has no lines", file=sys.stderr)
    return 0


def install(args: Namespace) -> int:
    from agentctl.server import control, extra, units

    extra.require()
    unit = units.install(os.environ, control.COMMAND)
    print(f"wrote {output.tilde(unit.path)}; to start the daemon now and at each login, run:")
    return tell_next(unit.after_install)


def uninstall(args: Namespace) -> int:
    from agentctl.server import units

    unit = units.uninstall(os.environ)
    print(f"removed {output.tilde(unit.path)}; if it was started by that, run:")
    return tell_next(unit.before_uninstall)


def tell_next(commands: tuple[str, ...]) -> int:
    for command in commands:
        print(f"  {command}")
    return 0
