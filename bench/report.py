"""Writes docs/performance.md and its picture, from what was measured."""

from __future__ import annotations

import math
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.scale import BARE_NAME, CROWD, CROWD_TARGET, cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.profiles import Row
    from bench.scale import Profile, Size

DOCS = Path(__file__).parent.parent / "docs"
TEXT = DOCS / "performance.md"
PICTURE = DOCS / "images" / "performance.svg"
PLOTTED = ("list", "status ID", "list -a", "list -a --since all, no cache", "list -a --since all")
LONG_LISTS = {"list -a --since all, no cache", "list -a --since all"}
COLOURS = ("#3fb950", "#58a6ff", "#d29922", "#f85149", "#bc8cff")
# Ratios at 10 000 before anything was done about it: least of 2 rounds (crowd: 5), load 8 to 9.
BEFORE = {
    "list": 9.3, "status ID": 14.7, "why ID": 13.6, "peek ID": 14.8, "list -a": 82, "list -a, no cache": 82,
    "list -a --since all, no cache": 1260, "list -a --since all": 1120, "crowd": 28.6,
}  # fmt: skip

HEAD = """\
# What it costs

Written by `make bench`, from a real run. People keep years of transcripts: cost follows what is alive and what is
shown, not what is stored. CPU (user and system, of the whole command) is given as a ratio to `python -I -c pass` in the
same run, interleaved, the least of {rounds} rounds; the memory is the most of them. The machine is shared ({cores}
cores, load {loads}): ratios wander by a tenth or more from run to run, and wall times say little.

{when}, Python {python}, Linux. The home: Claude Code 80 %, Codex 15 %, OpenCode 5 %, of log-normal sizes up to
tens of MB; {launches} kept launches; the torture suite's stand-in agents among other processes.

![cost against stored sessions](images/performance.svg)
"""

TARGETS = """\
## Targets

| what | CPU, of bare python | at most | before |
|---|---|---|---|
{rows}

{remarks}

"Before" is one run of the same home at the outset, in 2 rounds (in the crowd 5) at load 8 to 9. This run had other
rounds and another load, so the two columns show the order of a change and not its size.

What the figures say of the targets themselves:

- Too soft by now, and what to hold instead: `--version` 1.2, `--help` 3, `status`, `why` and `peek` 6.5, `list -a` 15
  when its transcripts are known; 30 MB of memory for all but the longest lists. `list` 6, and 15 in the crowd, are held
  with a tenth to spare, which is what runs differ by.
- `list -a --since all`, no cache, 120: that would be 0.16 ms for each session, with 0.07 of them for its row. To open a
  transcript, read 32 KB of its end and close it, with nothing looked at, is 0.012. What is left is Python: to decode
  the last step of a turn, judge it, find its title and make a record of it takes 0.07 ms where all of it stands in the
  last lines (59 of 100 sessions of Claude Code here), 0.12 where there is no title, 0.17 where the turn was not ended,
  0.3 for Codex, which says its model only at the beginning of a turn. (Reckoned from instructions.) It is paid once
  for each transcript. 180 is what
  this code holds; nothing that was tried comes near 120.
"""

WHERE = """\
## Where the time goes

`list`, at {stored} stored sessions and {live} live ones. Imports, ms with what they import (`-X importtime`, which adds
its own):

{imports}

System calls (`strace -f -c`): {calls}.

Functions, ms of wall time with what they call, under a profiler and on this busy machine, stores one after the other:
only the shares mean something.

{functions}

`list -a --since all`, when all transcripts are known:

{everything}
"""

DONE = """\
## What was done about it

Each with its own figure, taken when it was done, at other loads than that of this page: they show an order. M: million
instructions of the processor, which no load changes.

- **Nothing stored is opened by `list`.** It reads what is alive or may be; `tests/query/test_files_opened.py` counts
  the files.
- **Imports** ([decision 014](decisions/014-start-up.md)): the commonest commands import no argparse, json, re,
  threading and hashlib; `src/agentctl/fast/` has what stands for them. `list` 313 to 256 M, with lighter reading of
  launches; bare python is 37 M.
- **Launches** are taken apart only where a session or a process of theirs is asked for (256 to 240 M), looked up by
  session and process, and known by a cache of what unchanged ones are of (`launches/index.py`): 300 of them 15.4 to 3.0
  ms, a `list` 219 to 179 M. Whoever acts reads all of them.
- **The process table**: all numbers of a row are looked at together (380 rows: 18 to 13 M); a row is made a process
  only if it is asked for, and each name is looked at once (in the crowd 526 to 451 M, with the launches); of a program
  that is nobody's agent only argv and exe are read (24 300 to 20 400 system calls). The kernel's list of locks, for
  which one waits 15 ms doing nothing, is asked for meanwhile.
- **Nothing is taken apart at the end**: a question that has said all leaves at once (177 to 165 M), and frees no rows
  (10 000: 774 to 691 ms).
- **One session**: a whole id is asked for where it belongs, and only if no store has it everything is listed: with the
  imports `status` 168 to 116 ms, `why` 169 to 121, `peek` 165 to 116. `peek` reads from the store that was just looked
  through: 124 to 93.
- **Stores are read one after the other** as long as each works and does not wait: threads that take the interpreter
  from each other with every system call cost more (538 against 472 ms of a first long list of 1 000). One that hangs
  delays the others by 0.05 s.
- **Transcripts**: lines are looked at in the block that was read; once the last turn is known, its calls and results
  are not decoded, only looked at for what could change the answer. 900 to 330 us for each of Claude Code, 900 to 390
  for Codex.
- **Rows of a table** need even less (`Scope.brief`, [decision 013](decisions/013-derived-cache.md)): where the last
  lines of a transcript hold the end of its turn and its title, the turn is not walked through. Property tests hold
  both against the whole walk. With what was saved in decoding and in making records: 1515 to 336 thousand instructions
  for one with a title.
- **A cache** (`~/.cache/agentctl/records-*.json`, `src/agentctl/files/record_cache.py`) for 50 sessions or more: what a
  transcript says, for as long as device, inode, size and both times of its file are the same. Never of what may be
  alive, never a source of process status, deletable at any time.
- **Values** are tuples of their fields ([decision 002](decisions/002-values.md)): 10 000 rows 829 to 687 ms. What
  nearly no stored session has is not looked through for each of them (judging them: 760 to 637 M), and the table is
  made column by column (125 to 56 ms).
- **OpenCode**: a message is decoded where it is looked at (500 records: 548 to 412 M).
- **`list -a` asks for the time of every transcript** (a few us each): appending to a file does not change its folder,
  so no folder can be left out. It looks for none again that it has just seen: 244 to 189 ms, and lists each day of
  Codex once.
- **Sub-agents** (`--tree`) of many sessions are looked up in one list: minutes to seconds.
- **usage**: a line with tokens is decoded without what `json.loads` does around it (14.5 to 9.8 us), the parts
  of a time are remembered (2.8 to 0.5 us); a folder in which nothing changed is known by one mark of all its names and
  stamps (31 to 1.4 ms for 10 000 files); which mention of a call counts is decided in the order of the file (7.0 to
  5.7 s, 1296 to 325 MB read), and without sorting the first time. It imports next to nothing, and days, agents and
  models are answered from sums of whole quarters of an hour, of which only those that changed are made anew: 525 to
  288 M where nothing is new.
- Not done: reading OpenCode's sessions in bulk (164 against 154 M for single queries); listing folders by descriptor
  (under 1 %); taking only the usage out of a line (whether it is whole needs every character of it); a daemon.
"""

AGAINST = """\
## Against another revision

`make bench-against REV=main` measures each command in REV and in the working tree, in turn, in the same home, each with
its own caches and with modules compiled beforehand. It exits 1 if a command of the working tree needs more than 1.05
times what that of REV needs (`python -m bench.against REV --limit 1.05`).

- It judges the median over the rounds of HEAD / REV, because the two runs of a pair have the same load around them. It
  prints the ratio of the minima, too, but does not judge it: one lucky run decides that.
- Load still moves single commands by 5 %. So it measures a command above the limit again, up to three times, unless it
  was above it in each round, and judges all rounds. 76 rounds of two equal versions at load 2 to 5, drawn anew many
  times: 20 rounds alone put one of 13 commands above 1.05 in 32 of 100 runs; with those repeats 1 of 100 did. A command
  that is 10 % slower was found in 96 of 100 (`launch`: 83), one that is 7 % slower in 71.
- `make bench-against REV=main INSTRUCTIONS=1` counts the instructions of each command under valgrind instead. Use this
  on a busy machine: equal versions differed by at most 0.3 % at load 1 to 9. It judges the minima, because only
  waiting adds to a count: a `stop` that has to look once more needs 561 M instead of 445 M, as three of four did at
  load 12. So it measures again, up to three times, where runs or versions disagree.
- Instructions are not time: an empty loop that took 8 % of the CPU of `list` was 30 % of its instructions. And valgrind
  counts neither the work of the kernel nor other programs that a command starts. The ratio of the system calls is
  printed beside it and is not judged.

"""

USAGE = """\
## Token totals

`agentctl usage`, CPU of the whole command, from the same `make bench`:

```
{lines}
```

- 250 MB in a second: counting comes to it where a third of the lines has usage (1 GB). In the 3.9 GB every fourth
  kilobyte is a line with usage: at 250 MB/s each could take 16 us, and to decode one and make a call of it takes 20.
- 100 ms after one line was added: to start, import and ask for the stamp of 10 000 files takes 75 of them; then the
  stamps are compared, and what changed is counted, written and summed up. 100 to 105 is what this code holds, and 130
  with the folders of three agents, most of which have one file.
"""


LIVE = """\
## Following

`agentctl events -f`, from the same `make bench`: how late events are, and what it costs to wait for them. A look is the
one query with everything that it reads, so it is the measure for the rest.

```
{lines}
```

What is to be reached on a quiet machine:

- the end of a process: one look and 20 ms, and 150 ms more if a second look is due
- a question: one look and 50 ms
- while nothing happens: 1.5 looks in 15 s at most, and a check of the pids each second
- while all sessions are written all the time: twice a second, and under 5 % of a core
"""


def add_live(lines: Sequence[str]) -> None:
    """Its part is the one before the last: `add_usage` writes that anew."""
    first = LIVE.partition("\n")[0]
    text, _, rest = TEXT.read_text(encoding="utf-8").partition(USAGE.partition("\n")[0])
    text = text.partition(first)[0].rstrip()
    last = USAGE.partition("\n")[0] + rest if rest else ""
    TEXT.write_text(f"{text}\n\n{LIVE.format(lines=chr(10).join(lines))}\n{last}", encoding="utf-8")


def add_usage(lines: Sequence[str]) -> None:
    """Its part is the last one."""
    text = TEXT.read_text(encoding="utf-8").partition(USAGE.partition("\n")[0])[0].rstrip()
    TEXT.write_text(f"{text}\n\n{USAGE.format(lines=chr(10).join(lines))}", encoding="utf-8")


def write(sizes: Sequence[Size], crowd: Size, profile: Profile, launches: int, rounds: int) -> None:
    PICTURE.write_text(picture(sizes), encoding="utf-8")
    loads = f"{min(one.load for one in sizes):.0f} to {max(one.load for one in sizes):.0f}"
    head = HEAD.format(
        rounds=rounds,
        cores=os.cpu_count(),
        loads=loads,
        when=time.strftime("%Y-%m-%d", time.gmtime()),
        python=platform.python_version(),
        launches=launches,
    )
    where = WHERE.format(
        stored=f"{sizes[-1].stored:,}".replace(",", " "),
        live=sizes[-1].live,
        imports=table(("module", "ms"), ((name, f"{ms:.1f}") for name, ms in profile.imports)),
        calls=", ".join(f"{name} {count}" for name, count in profile.calls) or "no strace here",
        functions=functions(profile.listing),
        everything=functions(profile.everything),
    )
    parts = [head, *(size_table(one) for one in (*sizes, crowd)), targets(sizes, crowd), where, DONE, AGAINST]
    TEXT.write_text("\n".join(parts), encoding="utf-8")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head)]
    lines += [["---"] * len(lines[0]), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def functions(rows: Sequence[Row]) -> str:
    found = ((f"`{row.name}`", str(row.calls), f"{row.own * 1000:.0f}", f"{row.total * 1000:.0f}") for row in rows)
    return table(("function", "calls", "own", "with calls"), found)


def ratio(size: Size, name: str) -> float:
    return size.rows[name]["cpu"] / size.rows[BARE_NAME]["cpu"]


def size_table(size: Size) -> str:
    stored = f"{size.stored:,}".replace(",", " ")
    title = f"## {stored} stored ({size.bytes / 1e6:.0f} MB), {size.live} live, {size.processes} other processes\n\n"
    rows = []
    imports = size.rows.get("imports of list", {}).get("read", 0.0)
    for case in cases("", size.stored):
        if (row := size.rows.get(case.name)) is not None:
            read = row["read"] - imports if case.name.startswith(("list", "status", "why", "peek")) else row["read"]
            rows.append(
                (
                    f"`{case.name}`",
                    f"{ratio(size, case.name):.1f}",
                    f"{row['cpu'] * 1000:.0f}",
                    f"{row['wall'] * 1000:.0f}",
                    f"{row['rss'] / 1e6:.0f}",
                    f"{max(0.0, read) / 1e6:.1f}",
                )
            )
    note = (
        f"\n\nLoad {size.load:.0f}. MB read: above the imports of `list`.\n"
        if imports
        else f"\n\nLoad {size.load:.0f}.\n"
    )
    return title + table(("command", "ratio", "CPU ms", "wall ms", "peak MB", "MB read"), rows) + note


def targets(sizes: Sequence[Size], crowd: Size) -> str:
    large = sizes[-1]
    rows, missed = [], []
    for case in cases("", large.stored):
        if case.target is not None and case.name in large.rows:
            found = ratio(large, case.name)
            before = f"{BEFORE[case.name]:g}" if case.name in BEFORE else ""
            rows.append((f"`{case.name}`", f"{found:.1f}", f"{case.target:g}", before))
            missed += [f"`{case.name}`"] if found > case.target else []
    growth = ratio(large, "list") / ratio(sizes[0], "list")
    rows.append((f"`list`, from {sizes[0].stored} to {large.stored} stored, times", f"{growth:.2f}", "1.3", ""))
    rows.append(
        (
            f"`list`, {CROWD[0]} live, {CROWD[1]} processes",
            f"{ratio(crowd, 'list'):.1f}",
            f"{CROWD_TARGET}",
            f"{BEFORE['crowd']:g}",
        )
    )
    missed += ["`list` in a crowd"] if ratio(crowd, "list") > CROWD_TARGET else []
    read = (large.rows["list"]["read"] - large.rows["imports of list"]["read"]) / 1e6
    rows.append(("`list`, MB read above its imports", f"{read:.1f}", "3", ""))
    for names, most in ((LONG_LISTS, 120), (set(large.rows) - LONG_LISTS, 60)):
        peak = max(large.rows[name]["rss"] for name in names) / 1e6
        rows.append((f"peak MB of {'the longest lists' if most > 60 else 'all others'}", f"{peak:.0f}", f"{most}", ""))
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    remarks = f"Missed: {', '.join(missed)}." if missed else "All are met."
    return TARGETS.format(rows=body, remarks=remarks)


def picture(sizes: Sequence[Size]) -> str:
    """Both axes logarithmic: a line that is level costs nothing per stored session."""
    width, height, left, right, top, bottom = 860, 440, 70, 240, 30, 50
    counts = [size.stored for size in sizes]
    values = [ratio(size, name) for size in sizes for name in PLOTTED]
    low, high = 0.0, max(1, math.ceil(math.log10(max(values))))
    first, last = math.log10(counts[0]), math.log10(max(counts[-1], counts[0] * 10))

    def x(count: float) -> float:
        return left + (math.log10(count) - first) / (last - first) * (width - left - right)

    def y(value: float) -> float:
        return height - bottom - (math.log10(value) - low) / (high - low) * (height - top - bottom)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
        '<g font-family="system-ui, sans-serif" font-size="13" fill="#c9d1d9">',
        f'<text x="{left}" y="20">CPU against bare python, by stored sessions</text>',
    ]
    for power in range(high + 1):
        at = y(10**power)
        parts.append(f'<line x1="{left}" y1="{at:.1f}" x2="{width - right}" y2="{at:.1f}" stroke="#30363d"/>')
        parts.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{10**power}</text>')
    parts += [f'<text x="{x(n):.1f}" y="{height - bottom + 22}" text-anchor="middle">{n}</text>' for n in counts]
    ends = []
    for name, colour in zip(PLOTTED, COLOURS, strict=True):
        points = [(x(size.stored), y(ratio(size, name))) for size in sizes]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in points]
        ends.append((points[-1][1], f"{name}: {ratio(sizes[-1], name):.0f}", colour))
    below = 0.0
    for at, label, colour in sorted(ends):
        below = max(at + 4, below + 16)
        parts.append(f'<text x="{width - right + 12}" y="{below:.1f}" fill="{colour}">{label}</text>')
    return "\n".join([*parts, "</g></svg>", ""])
