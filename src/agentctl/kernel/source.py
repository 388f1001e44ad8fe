"""What a reader of the process table can be asked about one process, after the table was read."""

from __future__ import annotations

from agentctl.kernel.programs import UNIDENTIFIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.kernel.held import Held
    from agentctl.kernel.keyboard import Unheard
    from agentctl.kernel.places import Place
    from agentctl.model import Details, Process

    Locks = Mapping[tuple[int, int, int], tuple[int, ...]]  # (major, minor, inode) -> pids of the holders


class Source:
    """Answers questions about a process after the table was read. Each default is the answer of a source that cannot
    look."""

    def details(self, process: Process) -> Details | None:
        """Return argv, directory and environment; None if it ended or was replaced meanwhile."""
        return None

    def program(self, process: Process) -> Details | None:
        """Return only argv and exe, of whatever has its pid now; None if only details() can tell."""
        return None

    def still(self, process: Process) -> bool:
        """Return whether the same process still has its pid."""
        return False

    def absent(self, pid: int) -> bool:
        """Return whether it is proved that no process has this pid."""
        return False

    def own_start(self, process: Process) -> int:
        """Return its start as this process reads it itself, and notes it: its clock may be another one than ours."""
        return process.key.start

    def inner_pids(self, process: Process) -> tuple[int, ...] | None:
        """Return its pids in the PID namespaces below ours, the innermost last; empty if it is in ours, or has ended.
        None if that cannot be read."""
        return None

    def pid_namespace(self, process: Process) -> str | None:
        """Return the PID namespace that it is in; None if that cannot be read."""
        return None

    def mentions(self, pid: int, words: Iterable[bytes]) -> bool:
        """Return whether the environment of this process may have one of these words; False also if that cannot be
        read, or not cheaply."""
        return False

    def place(self, process: Process) -> Place | None:
        """Return its directory; None if it has ended, or nothing can be asked."""
        return None

    def directory(self, process: Process) -> tuple[int, int] | None:
        """Return device and inode of its directory; None if that cannot be read."""
        return None

    def executables(self, pids: Iterable[int]) -> Mapping[int, str | None]:
        """Return the executable of each of these processes; None if we may not know it. One that has none at this
        moment (it is ending, or is a part of the kernel) is left out."""
        return {}

    def owner(self, pid: int) -> int | None:
        """Return the user whose files a process can change; None if that cannot be read."""
        return None

    def is_unexecuted(self, pid: int) -> bool:
        """Return whether a process was forked and has executed no program since; False if that cannot be read."""
        return False

    def why_closed(self, pids: Iterable[int]) -> str | None:
        """Return why we may not look into some of these processes although they are our user's and did not close
        themselves; None if there is none. `pids`: those into which we may not look."""
        return None

    def kind(self, pid: int, exe: str) -> str:
        """Return what its executable is, in the words of programs.py."""
        return UNIDENTIFIED

    def why_unheard(self, process: Process) -> Unheard | None:
        """Return why keys that are typed at its terminal may not reach it, or may reach others; None if only it gets
        them."""
        from agentctl.kernel.keyboard import Unheard

        return Unheard("who reads its terminal cannot be told on this system")

    def is_at(self, process: Process, terminal: str) -> bool | None:
        """Return whether it is at the terminal with this path, and not at one of the same number elsewhere; None if
        this system has no such doubt."""
        return None

    def open_files(self, process: Process) -> list[str]:
        return []

    def held(self, process: Process) -> Held | None:
        """Return what it has open and what it watches; None if that cannot be read."""
        return None

    def written_files(self, process: Process) -> list[tuple[str, str]] | None:
        """Return the files that it has open for writing: the path, and a path that leads us to it whatever mounts the
        process sees. None if that cannot be read."""
        return None

    def positions(self, process: Process, path: str) -> list[int]:
        return []

    def is_frozen(self, process: Process) -> bool:
        return False

    def ports(self, process: Process) -> list[int]:
        return []

    def locks(self) -> Locks | None:
        """Return who holds which lock; None if that cannot be read. `Processes` asks once."""
        return None

    def lock_identity(self, path: str) -> tuple[int, int, int] | None:
        """Return the name that a file has in locks(); None if that is not known."""
        return None

    def holds_lock(self, process: Process, identity: tuple[int, int, int], path: str) -> bool | None:
        """Return whether this very process holds a lock on the file of this identity and name; None if we may not
        look."""
        return None

    def incomplete_for(self, root: str) -> str | None:
        """Return why processes that the table cannot show may be working in this folder; None if there are none."""
        return None
