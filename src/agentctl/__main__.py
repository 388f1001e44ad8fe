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
    if cli.is_question(sys.argv[1:]):
        leave(code)
    return code


def leave(code: int) -> None:
    """At once: to take all modules and values apart first is a fifteenth of a list. Where not everything could be said,
    Python ends as it always does, and says so."""
    import atexit

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # closed, or full
        return
    atexit._run_exitfuncs()  # temporary folders
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
