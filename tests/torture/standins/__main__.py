"""`<agent's name> -S -m tests.torture.standins CONFIG [padding]`"""

from __future__ import annotations

import json
import sys

from tests.torture.standins import puppet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def build(config: dict[str, Any]) -> puppet.Puppet:
    if config["kind"] == "claude":
        from tests.torture.standins.claude import Claude

        return Claude(config)
    if config["kind"] == "codex":
        from tests.torture.standins.codex import Codex

        return Codex(config)
    if config["kind"] == "codex-daemon":
        from tests.torture.standins.codex_daemon import CodexDaemon

        return CodexDaemon(config)
    if config["kind"] == "opencode":
        from tests.torture.standins.opencode import OpenCode

        return OpenCode(config)
    if config["kind"] == "opencode-server":
        from tests.torture.standins.opencode_server import OpenCodeServer

        return OpenCodeServer(config)
    if config["kind"] == "wrapper":
        from tests.torture.standins.wrapper import Wrapper

        return Wrapper(config)
    return puppet.Puppet(config)


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        given = json.load(file)
    puppet.disguise(given["argv"], given.get("comm"))
    sys.exit(puppet.run(build(given)))
