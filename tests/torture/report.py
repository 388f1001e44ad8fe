"""The table that a run prints: what is true, what agentctl answered, by which evidence, and whether that is right."""

from __future__ import annotations

from typing import NamedTuple

WIDTHS = (24, 68, 48, 24, 4)
FROM_OUTSIDE = "from outside"  # the suite looked for itself: at a process, a file, an exit code or a command's output


class Row(NamedTuple):
    case: str
    world: str
    truth: str
    answer: str
    evidence: str
    ok: bool
    details: str = ""  # what is wrong


class Report:
    def __init__(self) -> None:
        self.rows: list[Row] = []

    def head(self) -> None:
        self._line("case", "truth", "answer", "evidence", "ok")
        self._line(*("-" * width for width in WIDTHS))

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self._line(row.case, row.truth, row.answer, row.evidence, "ok" if row.ok else "FAIL")
        if not row.ok:
            print(f"    truth:  {row.truth}\n    answer: {row.answer}")
            for line in row.details.splitlines():
                print(f"    | {line}")

    def _line(self, *cells: str) -> None:
        parts = (shorten(text, width).ljust(width) for text, width in zip(cells, WIDTHS, strict=True))
        print(" | ".join(parts).rstrip(), flush=True)

    @property
    def passed(self) -> int:
        return sum(row.ok for row in self.rows)

    @property
    def failed(self) -> int:
        return len(self.rows) - self.passed

    def summary(self, open_rows: int) -> None:
        wrong = list(dict.fromkeys(row.world for row in self.rows if not row.ok))
        cases = len({row.case for row in self.rows})
        print(f"\n{cases} cases, {len(self.rows)} checks: {self.passed} passed, {self.failed} failed, {open_rows} open")
        if wrong:
            print(f"failed: {', '.join(wrong)}")
        print(f"torture: {self.passed} passed, {self.failed} failed")


def shorten(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"
