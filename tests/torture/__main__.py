"""python -m tests.torture [--list] [--report] [--times] [--write] [--reword] [--without-rules] [--rows FILE] [NAME...]

NAME is a case (`zombie`) or one of its worlds (`zombie/zombie_leader`). TORTURE_SOURCES=FOLDER tests the agentctl in
that folder instead of this one: `tests.mutants` uses it.

The suite runs in its own PID namespace, as process 1: there it can choose pids, and it sees no other agents. If there
are no namespaces, it prints why and fails: a check that cannot run is a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NAMESPACE = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
AS_USER = (["--user", "--map-root-user", "--map-auto"], ["--user", "--map-root-user"])
SOURCES = "TORTURE_SOURCES"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and their worlds")
    parser.add_argument("--report", action="store_true", help="print every check of the last whole run")
    parser.add_argument("--times", action="store_true", help="print how long each world took")
    parser.add_argument("--write", action="store_true", help="write docs/torture.md if a whole run passes")
    parser.add_argument("--reword", action="store_true", help="write docs/torture.md again; runs nothing")
    parser.add_argument("--without-rules", action="store_true", help="leave out what must hold after every case")
    parser.add_argument("--rows", metavar="FILE", help="write every check to FILE, as JSON")
    parser.add_argument("--inside", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="run only these cases or worlds")
    options = parser.parse_args()
    if options.write and not is_whole(options):
        parser.error("--write needs a whole run of this checkout")
    if options.list:
        return show()
    if options.report:
        return report(options.names)
    if options.reword:
        return reword()
    if options.inside:
        return inside(options)
    return outside(options)


def is_whole(options: argparse.Namespace) -> bool:
    """Return whether this runs every case with every rule, on this checkout."""
    return not (options.names or options.without_rules or os.environ.get(SOURCES))


def show() -> int:
    from tests.torture.registry import CASES
    from tests.torture.runner import ALWAYS

    for case in CASES:
        print(f"{case.world:<60} {case.about}")
    for name in ALWAYS:
        print(f"{name:<60} after every case")
    return 0


def report(names: list[str]) -> int:
    from tests.torture import long_form, runner
    from tests.torture.rows import ROWS

    if unknown := set(names) - {line.name for line in ROWS}:
        raise SystemExit(f"no such case: {', '.join(sorted(unknown))}; --list shows them")
    assert runner.ALWAYS  # the import registered the cases
    rows, run = long_form.stored()
    print(long_form.text_of(rows, run, names))
    return 0


def reword() -> int:
    from tests.torture import summary

    print(summary.reword())
    return 0


def outside(options: argparse.Namespace) -> int:
    """Enter the namespaces and run the cases there. Their folder is a file system that ends with the namespaces."""
    command, why = namespace()
    if command is None:
        print(f"the torture suite needs a PID namespace and cannot make one here: {why}")
        print("torture: 0 passed, 1 failed")
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="torture-") as folder,
        tempfile.NamedTemporaryFile(prefix="torture-rows-") as unnamed,
    ):
        path = Path(options.rows or unnamed.name)
        flags = [flag for flag in ("--times", "--without-rules") if getattr(options, flag[2:].replace("-", "_"))]
        again = [sys.executable, "-m", "tests.torture", "--inside", folder, "--rows", str(path), *flags, *options.names]
        code = subprocess.run([*command, *again], env=environment(), check=False).returncode
        if is_whole(options) and path.exists() and (text := path.read_text()):
            store(json.loads(text), write=options.write and code == 0)
        return code


def store(rows: list[dict[str, Any]], *, write: bool) -> None:
    """Store a whole run for --report, and write the page from it if asked."""
    from tests.torture import long_form, page, summary

    print(long_form.store(rows))
    if write:
        print(page.put("cases", summary.text_of(summary.counts(rows), page.now())))


def environment() -> dict[str, str]:
    """Return our environment, in which Python finds the agentctl to be tested first."""
    env = dict(os.environ)
    if sources := env.get(SOURCES):
        env["PYTHONPATH"] = os.pathsep.join([sources, *filter(None, [env.get("PYTHONPATH")])])
    return env


def namespace() -> tuple[list[str] | None, str]:
    """Return the command that makes the namespaces, or None and the reason."""
    why = "unshare (util-linux) is not installed"
    for options in [[]] if os.geteuid() == 0 else AS_USER:
        command = [*NAMESPACE, *options]
        try:
            tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if tried.returncode == 0:
            return command, ""
        why = " ".join(tried.stderr.split()) or f"unshare ended with {tried.returncode}"
    return None, why


def inside(options: argparse.Namespace) -> int:
    if os.getpid() != 1:
        raise SystemExit("only the suite itself may use --inside")
    from tests.torture import world
    from tests.torture.kernel import mount
    from tests.torture.runner import Runner, select

    if os.environ.get(SOURCES) and not os.path.samefile(os.environ[SOURCES], world.SOURCES):
        raise SystemExit(f"{SOURCES} is {os.environ[SOURCES]}, but Python imports agentctl from {world.SOURCES}")
    cases = select(options.names)
    mount("tmpfs", Path(options.inside), "mode=755,size=75%")
    runner = Runner(Path(options.inside), times=options.times, rules=not options.without_rules)
    code = runner.run(cases)
    Path(options.rows).write_text(json.dumps([row._asdict() for row in runner.report.rows]))
    return code


if __name__ == "__main__":
    sys.exit(main())
