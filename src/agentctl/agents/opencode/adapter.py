"""OpenCode (measured: 1.18.33; the older stores: 1.2.27 and 1.0.185).

Who is on what: no file of it names a process. The kernel says how far each process has written in the log that all of
them share, which proves which lines are whose, and those name the sessions it works on (opencode_log). Where there is
no such log: what a server says itself of the directories that its own log has (older_log), or the one session of its
directory that is newer than the process, inferred. What the turn is: its database,
or the JSON files of older versions; and its own HTTP interface where it has one.

Never done here: reading auth.json or the tables of credentials, asking a server about a directory that it has not
open (it would open it, and write into the repository there), believing `locks/` (of its package installer, and left
behind).
"""

from __future__ import annotations

import os

from agentctl.agents.base import STARTED_IN, Agent, before_text, home, script_of
from agentctl.agents.opencode.arguments import read_arguments
from agentctl.model import (
    AGENT,
    CLIENT,
    DAEMON,
    HELPER,
    WRAPPER,
    Details,
    Process,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.agents.base import Store

NAME = "opencode"

DATABASE = "opencode.db"
FOLDER = "opencode"  # in the folder for the data of all programs
PROGRAMS = ("opencode", ".opencode", "opencode.exe", "opencode-cli")


class OpenCode(Agent):
    NAME = NAME
    BINARIES = ("opencode",)
    ENV = ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "OPENCODE_DB", "BUN_BE_BUN", STARTED_IN)
    CERTIFIED = ("1.14.41", "1.15.3", "1.18.3", "1.18.14", "1.18.33")
    RUNS_MANY = True
    KEEPS_OPEN = True

    def looks_like(self, comm: str) -> bool:
        return comm.startswith(("opencode", ".opencode")) or comm in ("node", "MainThread")

    def claims(self, process: Process, details: Details) -> str | None:
        argv = details.argv or ()
        if (script := script_of(argv)) is not None:
            return WRAPPER if os.path.basename(script) == "opencode" or "/opencode-ai/" in script else None
        program = os.path.basename(argv[0]) if argv else ""
        if program not in PROGRAMS and os.path.basename(details.exe or "") not in PROGRAMS:
            return None
        if (details.env or {}).get("BUN_BE_BUN") == "1":  # with any other value it is OpenCode
            return HELPER  # the binary carries the package manager that it installs its plugins with
        given = read_arguments(argv)
        if any(word in ("--version", "-v", "--help", "-h") for word in before_text(argv)):
            return CLIENT
        if given.serves:
            return DAEMON
        return AGENT if given.runs_turns and not given.attached else CLIENT

    def executes(self, details: Details) -> bool:
        return os.path.basename(details.exe or "") in PROGRAMS

    def roots(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """The folder of its data, or the database that OPENCODE_DB names. It takes a relative XDG_DATA_HOME from its
        directory, and removes `..` from the text of a path."""
        folder = os.path.join(env.get("XDG_DATA_HOME") or os.path.join(home(env), ".local/share"), FOLDER)
        path = os.path.normpath(os.path.join(folder, env.get("OPENCODE_DB") or DATABASE))
        return (os.path.dirname(path) if os.path.basename(path) == DATABASE else path,)

    def store_with(self, path: str, env: Mapping[str, str]) -> str | None:
        """By its database. One of another name is the store itself."""
        folder, _, name = path.rpartition("/")
        if name == DATABASE:
            return folder or "/"
        return path if name and name == os.path.basename(env.get("OPENCODE_DB") or "") else None

    def open_store(self, root: str) -> Store:
        from agentctl.agents.opencode import store

        return store.Store(root)


ADAPTER = OpenCode()
