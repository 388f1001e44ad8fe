"""`agentctl` and `python -m agentctl`: the version is answered here, before anything else is imported."""

from __future__ import annotations

import os
import sys


def main() -> int:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from agentctl import __version__

        print(f"agentctl {__version__}")
        return 0
    from agentctl import cli

    if "_ARGCOMPLETE" in os.environ:
        cli.complete()
    code = cli.run(sys.argv[1:])
    cli.end_at_once(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
