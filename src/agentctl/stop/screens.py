"""The screens that show a session which a daemon holds."""

from __future__ import annotations

from agentctl.model import CLIENT, EXACT, terminal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentctl.model import Process, ProcessKey, Session
    from agentctl.query.world import World


def screens_of(session: Session, keys: Iterable[ProcessKey], world: World) -> list[Process]:
    """Return the screens that are proved to show a session of a daemon: by its store, or they are taken to show it and
    their arguments name it, or there is one screen of that store and the daemon holds this session alone. `keys`: of
    the daemon."""
    of_daemon = [link for link in world.links if link.key in keys]
    showing = [screen for link in of_daemon if link.id == session.id for screen in link.screens]
    clients = [one for one in world.claims if (one.agent, one.role) == (session.agent, CLIENT)]
    screens = {one.key for one in clients if one.store == session.store}
    alone = len(screens) == 1 and {link.id for link in of_daemon} == {session.id}
    found = []
    for screen in showing:
        process = world.processes.alive(screen.key)
        details = world.processes.details(process) if process is not None else None
        if process is None or details is None or process.tty == 0:
            continue
        if screen.strength == EXACT or alone or session.id in (details.argv or ()):
            found.append(process)
    return found


def said_of_screens(screens: Iterable[Process]) -> str:
    """Return where a session that stays open is shown, for people; empty if that is not proved."""
    shown = [f"pid {one.pid} ({(terminal_of(one.tty) or {}).get('tty') or 'a terminal'})" for one in screens]
    return f"it is open on the screen of {', '.join(shown)}" if shown else ""
