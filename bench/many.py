"""What `list -a` costs and says with very many recent transcripts: the first call, which reads them, and later ones.

    python -m bench.many [20000 200000]

Run it with scripts/contained. The transcripts are tiny: what counts is how many there are. They lie in a store as
Claude Code makes it, spread over folders of projects. Judges nothing.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.many_transcripts import many_transcripts

if TYPE_CHECKING:
    from collections.abc import Mapping

AGENTCTL = os.path.join(os.path.dirname(sys.executable), "agentctl")
SIZES = (20_000, 200_000)
CALLS = 3


def main(sizes: list[int]) -> None:
    for size in sizes or SIZES:
        folder = Path(tempfile.mkdtemp(prefix="agentctl-many-"))
        try:
            measure(size, folder)
        finally:
            shutil.rmtree(folder)


def measure(size: int, folder: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name.startswith(("PATH", "LANG"))}
    env |= {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), "AGENTCTL_HOME": str(folder / "state")}
    many_transcripts(folder / ".claude", size)
    for call in range(1, CALLS + 1):
        report(size, call, env)
    cached = sum(path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file())
    print(f"{size} transcripts: {cached / 1e6:.1f} MB of cache", flush=True)


def report(size: int, call: int, env: Mapping[str, str]) -> None:
    begun = time.monotonic()
    ran = subprocess.run([AGENTCTL, "list", "-a"], env=env, capture_output=True, text=True, check=False)
    rows = max(0, len(ran.stdout.splitlines()) - 1)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(
        f"{size} transcripts, call {call}: {time.monotonic() - begun:.1f} s, {rows} rows, exit {ran.returncode}, "
        f"peak {peak / 1e6:.0f} MB so far: {ran.stderr.strip() or '-'}",
        flush=True,
    )


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
