"""agentctl events --since: what the daemon has recorded, and with -f what it goes on to record.

None is lost and none comes twice: if the daemon is restarted, the stream goes on after the last event that was shown.
"""

from __future__ import annotations

import http.client
import os
import select
import sys
import time

from agentctl.cli import events, output
from agentctl.cli.launch_options import tell
from agentctl.errors import AgentctlError, shown_command
from agentctl.live.difference import CHECKPOINT
from agentctl.live.entries import GAP, event_from, seen_from
from agentctl.live.segments import since_of
from agentctl.server import client, control

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator
    from typing import Any

    from agentctl.live.entries import Entry

AGAIN = 30.0  # seconds for a daemon that is being replaced to answer again
PAUSE = 0.1


def run(args: Namespace, *, text: bool) -> int:
    since_of(args.since, time.time())  # complain before anything is started
    daemon = control.needed(os.environ, tell)
    assert daemon.identity is not None
    target = target_of(args)
    for entry in entries(daemon.identity.socket, target, follow=args.follow):
        if entry is None:
            if nobody_reads():
                return 0
            continue
        (print_text if text else print_json)(entry)
        sys.stdout.flush()
    return 0


def target_of(args: Namespace) -> str:
    from urllib.parse import urlencode

    given = [("since", args.since), ("follow", "true" if args.follow else "false")]
    given += [("type", type) for type in args.type or ()] + [("agent", agent) for agent in args.agent or ()]
    given += [("group", args.group)] if args.group is not None else []
    return f"/v1/events?{urlencode(given)}"


def entries(socket: str, target: str, *, follow: bool) -> Iterator[Entry | None]:
    """Yield what the daemon tells; None now and then, while it tells nothing. Raises AgentctlError once it has gone."""
    last: str | None = None
    while True:
        stream = connected(lambda last=last: client.Stream(socket, target, last), last)  # type: ignore[misc]
        try:
            for id, entry in stream:
                last = id or last
                if entry is None or not is_cut_off(entry):
                    yield entry
        except (OSError, http.client.HTTPException) as error:
            if not follow:
                raise AgentctlError(f"the daemon stopped answering: {error}; try again") from error
        finally:
            stream.close()
        if not follow:
            return


def is_cut_off(entry: dict[str, Any]) -> bool:
    """We were too slow: the log has what we missed, and the next stream begins with it."""
    return entry["type"] == GAP and entry["seq"] is None


def connected(connect: Callable[[], client.Stream], last: str | None) -> client.Stream:
    """Connect, again and again for a while: the daemon may be about to be replaced."""
    deadline = time.monotonic() + AGAIN
    while True:
        try:
            return connect()
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() >= deadline:
                again = shown_command("agentctl", "events", "--since", last or "", "-f")
                then = f"`agentctl daemon start`, then `{again}` goes on" if last else ""
                why = f"the daemon does not answer any more: {error}"
                raise AgentctlError(f"{why}; {then or control.NOT_RUNNING}") from error
            time.sleep(PAUSE)


def nobody_reads() -> bool:
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


def print_json(entry: Entry) -> None:
    print(output.json_text(entry, one_line=True))


def print_text(entry: Entry) -> None:
    if entry["type"] == GAP:
        print(f"-- events are missing here: {output.plain(str(entry['reason']))}")
    elif entry["type"] == CHECKPOINT:
        events.print_text(seen_from(entry))
    else:
        late = "  (told late: it changed while no daemon ran)" if entry.get("late") else ""
        print(events.line_of(event_from(entry)) + late)
