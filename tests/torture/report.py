"""The table: what is true, what agentctl answered, and whether that is the same."""

from __future__ import annotations

from typing import NamedTuple

WIDTHS = (24, 72, 52, 4)


class Row(NamedTuple):
    case: str
    truth: str
    answer: str
    ok: bool


class Report:
    def __init__(self) -> None:
        self.rows: list[Row] = []

    def head(self) -> None:
        self._line("case", "truth", "answer", "ok")
        self._line(*("-" * width for width in WIDTHS))

    def add(self, case: str, truth: str, answer: str, ok: bool, evidence: str = "") -> None:
        self.rows.append(Row(case, truth, answer, ok))
        self._line(case, truth, answer, "ok" if ok else "FAIL")
        if not ok:
            print(f"    truth:  {truth}\n    answer: {answer}")
            for line in evidence.splitlines():
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
        wrong = list(dict.fromkeys(row.case for row in self.rows if not row.ok))
        cases = len({row.case for row in self.rows})
        print(f"\n{cases} cases, {len(self.rows)} checks: {self.passed} passed, {self.failed} failed, {open_rows} open")
        if wrong:
            print(f"failed: {', '.join(wrong)}")
        print(f"torture: {self.passed} passed, {self.failed} failed")


def shorten(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"
