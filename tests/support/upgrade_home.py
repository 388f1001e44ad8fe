"""Homes in which agentctl is replaced by a newer version while its agents run.

The old one is the last version before the rooms, unpacked from tests/fixtures/upgrade. Agents are started by the old
command; then `upgrade` puts the version at hand into the same place, or beside it.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import agentctl
from agentctl.launches import records
from tests.support.launch_home import SOURCES
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from typing import Any

    from agentctl.model import Launch, ProcessKey
    from tests.support.launch_home import Home

ARCHIVE = FIXTURES / "upgrade" / "before-the-rooms.tar.bz2"
COMMIT = "1af51a4add3a15598e8c6819e82c627d4efe8964"  # git notes it in the archives that it makes
NEW = Path(agentctl.__file__).parent
# In place: as an installer does it; what the old runners run from then on is the new version. Beside: in another
# environment; the old runners still find the old version, and the person's commands are the new one.
IN_PLACE, BESIDE = WAYS = ("in place", "beside")
FOR_PEOPLE = {"reason", "evidence", "why", "said", "sources", "rejected"}


def unpack(folder: Path) -> Path:
    """The package of the old version."""
    with tarfile.open(ARCHIVE) as archive:
        assert archive.pax_headers["comment"] == COMMIT
        archive.extractall(folder, filter="data")
    return folder / "src" / "agentctl"


def install(home: Home, package: Path) -> None:
    """Let a home find this package, in place of the one that it found before. It is a link: it changes at once."""
    folder = home.folder / "installed"
    folder.mkdir(exist_ok=True)
    (folder / "new").symlink_to(package)
    (folder / "new").replace(folder / "agentctl")
    home.env["PYTHONPATH"] = str(folder)


def upgrade(home: Home, way: str) -> None:
    if way == IN_PLACE:
        install(home, NEW)
    else:
        home.env["PYTHONPATH"] = SOURCES


def launched(home: Home, id: str) -> Launch:
    """The launch of a session, with the proof that the old version runs it. `id`: of the session, or of the launch."""
    (found,) = [one for one in home.launches() if id in (one.session_id, one.id)]
    runner, agent = words_of(found.runner), words_of(found.child)
    assert runner[1:4] == ["-I", "-S", str(home.folder / "installed" / "agentctl" / "runner.py")]
    assert agent[1:4] == ["-P", "-m", "agentctl.demo"]
    return found


def words_of(key: ProcessKey) -> list[str]:
    return Path(f"/proc/{key.pid}/cmdline").read_bytes().decode().split("\0")


def exit_codes(home: Home, launch: Launch) -> list[int | str | None]:
    """How the agent of a launch ended, as its runner noted it: an exit code, or the name of a signal."""
    return [one.signal or one.exit_code for one in records.exits(launch.id, home.env) if one.direct]


def agrees(before: Any, after: Any) -> bool:
    """Does an answer say all that an earlier one said? Fields may have been added, and texts for people reworded."""
    if isinstance(before, dict):
        names = before.keys() - FOR_PEOPLE
        return isinstance(after, dict) and all(name in after and agrees(before[name], after[name]) for name in names)
    if isinstance(before, list):
        same = isinstance(after, list) and len(before) == len(after)
        return same and all(agrees(one, other) for one, other in zip(before, after, strict=True))
    return bool(before == after)
