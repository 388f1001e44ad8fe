"""A launch as its record says, parsed only when somebody asks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl.model import Launch, ProcessKey


class Written:
    """A launch whose record is whole. It becomes a `Launch` only if somebody asks: every command reads hundreds of
    records, and most are of no session that matters."""

    def __init__(
        self,
        agent: str,
        child: ProcessKey,
        path: str,
        session_id: str | None,
        session_file: str,
        one_shot: bool,
        pid_namespace: str | None,
        wrapper: str | None,
        parse: Callable[[], Launch],
    ) -> None:
        self.agent = agent
        self.child = child
        self.path = path
        self.session_id = session_id
        self.session_file = session_file  # the file that its session was looked for in last
        self.one_shot = one_shot
        self.pid_namespace = pid_namespace
        self.wrapper = wrapper
        self._parse = parse
        self._launch: Launch | None = None

    @property
    def launch(self) -> Launch:
        if self._launch is None:
            self._launch = self._parse()
        return self._launch
