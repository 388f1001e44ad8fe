"""`agentctl` and `python -m agentctl`: the version is answered here, before anything else is imported."""

from __future__ import annotations

import io
import os
import sys


def main() -> int:
    open_closed_streams()
    escape_what_stdout_cannot_write()
    if sys.argv[1:] in (["--version"], ["-V"]):
        from agentctl import __version__

        try:
            print(f"agentctl {__version__}", flush=True)
        except OSError as error:
            from agentctl import cli

            return cli.could_not_write(error)
        return 0
    if (why := wrong_home()) is not None:
        print(f"agentctl: {why}", file=sys.stderr)
        return 2
    from agentctl.fast import finder

    finder.install()
    from agentctl import cli

    if "_ARGCOMPLETE" in os.environ:
        cli.complete()
    code = cli.run(sys.argv[1:])
    if cli.is_question(sys.argv[1:]):
        from agentctl.fast.exit import exit

        exit(code)
    return code


def wrong_home() -> str | None:
    """Return why AGENTCTL_HOME cannot be used. A relative path would be another folder in each directory: the locks and
    groups of one would not be there in the next, and the agent and its hooks work in a third."""
    home = os.environ.get("AGENTCTL_HOME")
    if not home or os.path.isabs(home):
        return None
    return f"AGENTCTL_HOME={home!r}: it would be another folder in each directory; set it to a path that begins with /"


def open_closed_streams() -> None:
    """Open /dev/null for each standard stream that the caller closed (`agentctl list >&-`): else the next file that is
    opened takes its number, and gets what is meant for a person. Nothing can be written to stdout then: a list that
    nobody gets is an error."""
    for name, mode, access in (("stdin", "r", os.O_RDWR), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_RDWR)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, access), mode))


def escape_what_stdout_cannot_write() -> None:
    """Let a stdout that is not UTF-8 show other characters as codes: a title with an emoji must not lose the list."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if encoding.lower() not in ("utf-8", "utf8") and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
