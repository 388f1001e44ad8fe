"""Panes of launches that stayed after their agent: `launch --interactive` was killed before it could let them end.

Until the session of an agent is known, its pane keeps the last screen (remain-on-exit), for the error that shows it.
If the option is still set by us, in a session with the name of a launch that is over, nobody will take it back.
"""

from __future__ import annotations

import os

from agentctl.errors import MissingProgram
from agentctl.launches import records
from agentctl.model import Launch, Value
from agentctl.terminal import tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.kernel.processes import Processes

FORMAT = "#{pane_dead} #{pane_id} #{session_name}"
OPTION = "remain-on-exit"
PATIENCE = 5.0  # seconds after the end of its agent: whoever launched it may still read the last screen
FORGOTTEN = 3600.0  # seconds after which a launch without a record is over


class Dead(Value):
    socket: str
    id: str  # of the pane
    name: str  # of its session
    launch: str


def close_all(env: Mapping[str, str], processes: Processes, now: float, *, dry_run: bool = False) -> list[Dead]:
    """Close the dead panes of launches that are over, and return them. A pane that a person's own setting keeps stays,
    and so does everything else in its session."""
    found = [dead for socket in tmux.sockets(env) for dead in dead_in(socket, env)]
    over = [dead for dead in found if is_over(dead.launch, env, processes, now) and is_kept_by_us(dead, env)]
    return [dead for dead in over if dry_run or is_closed(dead, env)]


def dead_in(socket: str, env: Mapping[str, str]) -> list[Dead]:
    try:
        return parse(tmux.ask(socket, ["list-panes", "-a", "-F", FORMAT], env), socket)
    except (tmux.Failed, MissingProgram):
        return []  # then they stay until it answers


def parse(text: str, socket: str) -> list[Dead]:
    """Return the dead panes in sessions that have the name of a launch."""
    found = []
    for line in text.splitlines():
        dead, _, rest = line.partition(" ")
        id, _, name = rest.partition(" ")
        launch = name.removeprefix(tmux.session_name(""))
        if dead == "1" and id.startswith("%") and launch != name and records.is_id(launch):
            found.append(Dead(socket, id, name, launch))
    return found


def is_over(id: str, env: Mapping[str, str], processes: Processes, now: float) -> bool:
    """Return whether the processes of a launch are proved to have ended, and not just now."""
    folder = os.path.join(records.launches_folder(env), id)
    launch = records.read_folder(id, folder)
    if launch is None:
        return now - records.made_at(id) > FORGOTTEN
    if not isinstance(launch, Launch):
        return False  # it cannot be told
    ends = [exit.at for exit in records.exits_in(folder, launch.pid_namespace) if exit.at is not None]
    gone = processes.gone(launch.runner) and processes.gone(launch.child)
    return gone and now - max(ends, default=launch.created_at) > PATIENCE


def is_kept_by_us(dead: Dead, env: Mapping[str, str]) -> bool:
    """Return whether the option is set for this window itself, as `launch` does."""
    try:
        return tmux.ask(dead.socket, ["show-options", "-w", "-v", "-t", dead.id, OPTION], env).strip() == "on"
    except (tmux.Failed, MissingProgram):
        return False


def is_closed(dead: Dead, env: Mapping[str, str]) -> bool:
    """Close a pane, only if it is still dead: its server looks and closes in one step."""
    words = ["if-shell", "-F", "-t", dead.id, "#{pane_dead}", f"kill-pane -t {dead.id}"]
    try:
        tmux.ask(dead.socket, words, env)
    except (tmux.Failed, MissingProgram):
        return False
    return True
