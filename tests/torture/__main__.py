"""python -m tests.torture [--list] [--times] [--write] [--without-rules] [--rows FILE] [NAME...]

NAME is a case (`zombie`) or one world of it (`zombie/zombie_leader`). TORTURE_SOURCES=FOLDER tries the agentctl that is
there instead of this one: `tests.mutants` does that.

Runs in a PID namespace of its own, as process 1: pids can be had again there, and nobody else's agents are seen.
A check that cannot run is a failure: without namespaces there is one line that says why, and exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NAMESPACE = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
AS_USER = (["--user", "--map-root-user", "--map-auto"], ["--user", "--map-root-user"])
SOURCES = "TORTURE_SOURCES"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--list", action="store_true", help="the names of the cases and of their worlds")
    parser.add_argument("--times", action="store_true", help="how long each world took")
    parser.add_argument("--write", action="store_true", help="docs/torture.md, from a whole run that passed")
    parser.add_argument("--without-rules", action="store_true", help="not what must hold after every case")
    parser.add_argument("--rows", metavar="FILE", help="write every row there, as JSON")
    parser.add_argument("--inside", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these cases or worlds")
    options = parser.parse_args()
    if options.write and (options.names or options.without_rules or os.environ.get(SOURCES)):
        parser.error("--write is for a whole run of what is here")
    if options.list:
        return show()
    if options.inside:
        return inside(options)
    return outside(options)


def show() -> int:
    from tests.torture.registry import CASES
    from tests.torture.runner import ALWAYS

    for case in CASES:
        print(f"{case.world:<60} {case.about}")
    for name in ALWAYS:
        print(f"{name:<60} after every case")
    return 0


def outside(options: argparse.Namespace) -> int:
    """Enter the namespaces. The folder is covered by a file system of their own, which goes with them."""
    command, why = namespace()
    if command is None:
        print(f"the torture suite needs a PID namespace, and none can be had here: {why}")
        print("torture: 0 passed, 1 failed")
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="torture-") as folder,
        tempfile.NamedTemporaryFile(prefix="torture-rows-") as noted,
    ):
        path = options.rows or noted.name
        flags = [flag for flag in ("--times", "--without-rules") if getattr(options, flag[2:].replace("-", "_"))]
        again = [sys.executable, "-m", "tests.torture", "--inside", folder, "--rows", path, *flags, *options.names]
        code = subprocess.run([*command, *again], env=environment(), check=False).returncode
        if code == 0 and not options.names and not options.without_rules:
            from tests.torture import runner, told  # noqa: F401  the cases register themselves

            print(told.write(json.loads(Path(path).read_text()), published=options.write))
        return code


def environment() -> dict[str, str]:
    """With the agentctl that is to be tried before any other."""
    env = dict(os.environ)
    if sources := env.get(SOURCES):
        env["PYTHONPATH"] = os.pathsep.join([sources, *filter(None, [env.get("PYTHONPATH")])])
    return env


def namespace() -> tuple[list[str] | None, str]:
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
        raise SystemExit("--inside is for the suite itself")
    from tests.torture import world
    from tests.torture.kernel import mount
    from tests.torture.runner import Runner, select

    if os.environ.get(SOURCES) and not os.path.samefile(os.environ[SOURCES], world.SOURCES):
        raise SystemExit(f"{SOURCES} is {os.environ[SOURCES]}, and agentctl was found in {world.SOURCES}")
    cases = select(options.names)
    mount("tmpfs", Path(options.inside), "mode=755,size=75%")
    runner = Runner(Path(options.inside), times=options.times, rules=not options.without_rules)
    code = runner.run(cases)
    Path(options.rows).write_text(json.dumps([row._asdict() for row in runner.report.rows]))
    return code


if __name__ == "__main__":
    sys.exit(main())
