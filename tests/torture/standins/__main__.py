"""`<agent's name> -S -m tests.torture.standins CONFIG [padding]`"""

from __future__ import annotations

import importlib
import json
import sys

from tests.torture.standins import puppet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def build(config: dict[str, Any]) -> puppet.Puppet:
    """`kind` names the module and the class of what is to run here."""
    module, _, name = config["kind"].partition(":")
    found: puppet.Puppet = getattr(importlib.import_module(module), name)(config)
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        given = json.load(file)
    puppet.disguise(given["argv"], given.get("comm"))
    sys.exit(puppet.run(build(given)))
