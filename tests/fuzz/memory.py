"""How much memory each reader takes for a file without end: 1 GB in one line, 1 GB of lines, 1 GB where a few bytes
are expected. Measured by the kernel, in a process of its own: the peak of its resident memory, above what it had."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fuzz import agent, seeds
from tests.fuzz.agent import Big

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MB = 1024 * 1024
GB = 1024 * MB
MOST = 50 * MB
PATIENCE = 3600.0
STATE = f"home/state/launches/{seeds.launch_id(0)}"
FILES = {
    **{name: big for one in agent.every() for name, big in one.big_files.items()},
    "launch record": Big(f"{STATE}/launch.json", {}),
    "exits": Big(f"{STATE}/exits.jsonl", {"exit_code": 0}),
    "output": Big(f"{STATE}/output.log", {"type": "thread.started"}),
    "hooks": Big(f"{STATE}/hooks.jsonl", {"name": "on-create"}),
    "locks": Big(f"home/state/locks/{'0' * 64}.json", {}),
    "config": Big("home/config/agentctl/config.toml", {}),
    "cache": Big("home/cache/agentctl/roots.json", {}),
    "packages": Big("home/package/package.json", {}),
}


def one_line(path: Path, line: bytes, size: int) -> None:
    """Sparse: its zeros are on no disk."""
    os.truncate(path, size)


def one_line_behind_a_whole_one(path: Path, line: bytes, size: int) -> None:
    path.write_bytes(line)
    os.truncate(path, size)


def lines(path: Path, line: bytes, size: int) -> None:
    """Each with another number in it, so that none is taken for one that was there before."""
    block = b"".join(line[:-2] + b', "n": %d}\n' % number for number in range(max(1, MB // len(line))))
    with open(path, "wb") as file:
        for _ in range(size // len(block) + 1):
            file.write(block)


def line_ends(path: Path, line: bytes, size: int) -> None:
    path.write_bytes(b"\n" * (size // 64))  # more take long, and nothing else


SHAPES: dict[str, Callable[[Path, bytes, int], None]] = {
    "one line": one_line,
    "one line behind a whole one": one_line_behind_a_whole_one,
    "lines": lines,
    "line ends": line_ends,
}
SPARSE = ("one line", "one line behind a whole one")
OF_LINES = ("lines", "line ends")  # only for files that have lines: of another only its first bytes are read


def peak() -> int:
    """VmHWM: the largest that this process ever was; one that was forked begins with what it got."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("the kernel does not say")


def ask(id: str | None, *, long: bool = False) -> Iterator[tuple[str, ...]]:
    if long and id is not None:  # each looks at many MB of lines: those that look at the most
        yield from (("status", id), ("peek", id))
        return
    yield from (("list", "-a", "--since", "all", "--json"), ("list",), ("agents",), ("locks",), ("prune", "--dry-run"))
    if id is not None:
        yield from (("status", id), ("why", id), ("peek", id), ("peek", id, "--json"))


def run(words: tuple[str, ...]) -> str:
    from agentctl import cli

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        cli.run(list(words))
    return out.getvalue() + err.getvalue()


def measure(folder: Path, name: str, shape: str, size: int) -> dict[str, Any]:
    """In this process, whose environment has to be that of the folder."""
    from agentctl.kernel import stall_guard

    stall_guard.STALL = 300.0  # it is memory that is measured: all of it is to be read, however slowly
    big = FILES[name]
    path = folder / big.path
    kept = path.read_bytes() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    SHAPES[shape](path, json.dumps(big.line).encode() + b"\n", size)
    started = time.process_time()
    try:
        before = peak()
        said = [run(words) for words in ask(big.id, long=shape in OF_LINES)]
        found = peak() - before
    finally:
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)
    faults = [text for text in said if "AGENTCTL_DEBUG" in text]
    seconds = round(time.process_time() - started, 2)
    return {"name": name, "shape": shape, "bytes": found, "seconds": seconds, "faults": faults}


def main(words: list[str]) -> int:
    """FOLDER SIZE SHAPE...: one line of JSON for each reader and shape."""
    folder, size, *shapes = words
    for command in ask(None):
        run(command)  # what is imported once is no matter of a file
    for name in FILES:
        for shape in shapes:
            if shape in OF_LINES and not FILES[name].line:
                continue
            child = os.fork()  # each begins with the memory that this process has now
            if child == 0:
                try:
                    print(json.dumps(measure(Path(folder), name, shape, int(size))), flush=True)
                    os._exit(0)
                finally:
                    os._exit(1)
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
                return 1
    return 0


def measured(size: int, shapes: tuple[str, ...]) -> list[dict[str, Any]]:
    """All readers, in a process and a home of their own."""
    with tempfile.TemporaryDirectory(prefix="agentctl-fuzz-", dir=place()) as name:
        folder = Path(name)
        seeds.our_home(folder / "home")
        for one in agent.every():
            one.prepare(folder / "home")
        env = {**seeds.environment(folder / "home"), "PYTHONPATH": os.pathsep.join(map(str, sys.path[:2]))}
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.memory", name, str(size), *shapes],
            env=env,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return [json.loads(line) for line in done.stdout.splitlines()]


def place() -> str | None:
    """A file system in memory, where there is one with room for it: what is on it is not memory of who reads it."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return None
    return "/dev/shm" if found.f_bavail * found.f_frsize > 4 * GB and os.access("/dev/shm", os.W_OK) else None


def too_much(found: list[dict[str, Any]]) -> list[str]:
    return [
        f"{one['name']}, {one['shape']}: {one['bytes'] / MB:.0f} MB {' '.join(one['faults'])}"
        for one in found
        if one["bytes"] > MOST or one["faults"]
    ]


def report(size: int = GB, shapes: tuple[str, ...] = tuple(SHAPES)) -> bool:
    found = measured(size, shapes)
    width = max(map(len, FILES))
    print(f"\n{'file of ' + str(size // MB) + ' MB':<{width}}  " + "  ".join(f"{shape:>27}" for shape in shapes))
    for name in FILES:
        mine = {one["shape"]: one for one in found if one["name"] == name}
        cells = [
            f"{mine[shape]['bytes'] / MB:>18.1f} MB {mine[shape]['seconds']:>4.1f} s" if shape in mine else " " * 27
            for shape in shapes
        ]
        print(f"{name:<{width}}  " + "  ".join(cells))
    worse = too_much(found)
    print("\n".join(worse) or f"none took more than {MOST // MB} MB")
    return not worse


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
