"""python -m tests.torture [--list] [--times] [NAME...]

Runs in a PID namespace of its own, as process 1: pids can be had again there, and nobody else's agents are seen.
A check that cannot run is a failure: without namespaces there is one line that says why, and exit code 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NAMESPACE = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
AS_USER = (["--user", "--map-root-user", "--map-auto"], ["--user", "--map-root-user"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--list", action="store_true", help="the names of the cases")
    parser.add_argument("--times", action="store_true", help="how long each world took")
    parser.add_argument("--inside", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these cases")
    options = parser.parse_args()
    if options.list:
        return show()
    if options.inside:
        return inside(Path(options.inside), options.names, options.times)
    return outside([*(["--times"] if options.times else []), *options.names])


def show() -> int:
    from tests.torture.registry import CASES
    from tests.torture.runner import ALWAYS

    for case in CASES:
        print(f"{case.name:<28} {case.about}")
    for name in ALWAYS:
        print(f"{name:<28} after every case")
    return 0


def outside(words: list[str]) -> int:
    """Enter the namespaces. The folder is covered by a file system of their own, which goes with them."""
    command, why = namespace()
    if command is None:
        print(f"the torture suite needs a PID namespace, and none can be had here: {why}")
        print("torture: 0 passed, 1 failed")
        return 1
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        again = [sys.executable, "-m", "tests.torture", "--inside", folder, *words]
        return subprocess.run([*command, *again], check=False).returncode


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


def inside(folder: Path, names: list[str], times: bool) -> int:
    if os.getpid() != 1:
        raise SystemExit("--inside is for the suite itself")
    from tests.torture.kernel import mount
    from tests.torture.runner import Runner, select

    cases = select(names)
    mount("tmpfs", folder, "mode=755,size=75%")
    return Runner(folder, times=times).run(cases)


if __name__ == "__main__":
    sys.exit(main())
