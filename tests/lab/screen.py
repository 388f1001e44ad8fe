"""What a terminal would show: a small screen that understands what the agents' interfaces write, and answers what
they ask a terminal. Not a complete terminal: colours, character sets and the mouse are read over."""

from __future__ import annotations

import re
import unicodedata

SEQUENCE = re.compile(
    r"\x1b\[(?P<private>[?>=<!]?)(?P<numbers>[\d;:]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b[\]PX^_](?P<string>.*?)(?:\x07|\x1b\\)"
    r"|\x1b[()*+#%](?P<charset>.)"
    r"|\x1b(?P<escape>[0-9=>A-Za-z])",
    re.DOTALL,
)
LONGEST_SEQUENCE = 65536


class Screen:
    def __init__(self, columns: int = 120, rows: int = 40) -> None:
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.top, self.bottom = 0, rows - 1
        self.saved = (0, 0)
        self.answers: list[str] = []  # what a terminal would send back
        self.scrolled: list[str] = []  # lines that left at the top
        self._rest = ""

    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def feed(self, data: str) -> None:
        data = self._rest + data
        self._rest = ""
        index = 0
        while index < len(data):
            char = data[index]
            if char != "\x1b":
                self._put(char)
                index += 1
                continue
            found = SEQUENCE.match(data, index)
            if found is not None:
                self._obey(found)
                index = found.end()
            elif len(data) - index < LONGEST_SEQUENCE:
                self._rest = data[index:]  # the rest of it is still to come
                return
            else:
                index += 1

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char in "\n\x0b\x0c":
            self._line_feed()
        elif char == "\b":
            self.column = max(0, self.column - 1)
        elif char == "\t":
            self.column = min(self.columns - 1, (self.column // 8 + 1) * 8)
        elif char >= " " and not unicodedata.combining(char):
            wide = unicodedata.east_asian_width(char) in ("W", "F")
            if self.column + wide >= self.columns + (not wide):
                self.column = 0
                self._line_feed()
            self.cells[self.row][min(self.column, self.columns - 1)] = char
            if wide and self.column + 1 < self.columns:
                self.cells[self.row][self.column + 1] = ""
            self.column += 2 if wide else 1

    def _line_feed(self) -> None:
        if self.row == self.bottom:
            self._scroll_up(1)
        else:
            self.row = min(self.rows - 1, self.row + 1)

    def _scroll_up(self, count: int) -> None:
        for _ in range(min(count, self.rows)):
            gone = self.cells.pop(self.top)
            if self.top == 0:
                self.scrolled.append("".join(gone).rstrip())
            self.cells.insert(self.bottom, [" "] * self.columns)

    def _scroll_down(self, count: int) -> None:
        for _ in range(min(count, self.rows)):
            self.cells.pop(self.bottom)
            self.cells.insert(self.top, [" "] * self.columns)

    def _obey(self, found: re.Match[str]) -> None:
        if (string := found["string"]) is not None:
            if re.match(r"1[01];\?", string):
                self.answers.append(f"\x1b]{string[:2]};rgb:0000/0000/0000\x1b\\")
        elif (escape := found["escape"]) is not None:
            self._obey_escape(escape)
        elif found["final"] is not None:
            numbers = [int(part.split(":")[0] or 0) for part in found["numbers"].split(";")]
            self._obey_control(found["private"], numbers, found["between"], found["final"])

    def _obey_escape(self, escape: str) -> None:
        if escape == "7":
            self.saved = (self.row, self.column)
        elif escape == "8":
            self.row, self.column = self.saved
        elif escape in "DE":
            self.column = 0 if escape == "E" else self.column
            self._line_feed()
        elif escape == "M":
            if self.row == self.top:
                self._scroll_down(1)
            else:
                self.row = max(0, self.row - 1)
        elif escape == "c":
            self.__init__(self.columns, self.rows)  # type: ignore[misc]

    def _obey_control(self, private: str, numbers: list[int], between: str, final: str) -> None:
        first = numbers[0]
        count = max(1, first)
        if private or between:
            self._obey_private(private, numbers, between, final)
        elif final in "ABCDEF":
            self._move(final, count)
        elif final in "Ga`":
            self.column = min(self.columns - 1, count - 1)
        elif final == "d":
            self.row = min(self.rows - 1, count - 1)
        elif final in "Hf":
            self.row = min(self.rows - 1, count - 1)
            self.column = min(self.columns - 1, max(1, numbers[1] if len(numbers) > 1 else 1) - 1)
        elif final in "JK":
            self._erase(final, first)
        elif final in "LM":
            self._insert_or_delete_lines(final, count)
        elif final in "PX@":
            self._change_line(final, count)
        elif final == "S":
            self._scroll_up(count)
        elif final == "T":
            self._scroll_down(count)
        elif final == "r":
            last = numbers[1] if len(numbers) > 1 and numbers[1] else self.rows
            self.top, self.bottom = count - 1, min(self.rows, last) - 1
            self.row = self.column = 0
        elif final == "s":
            self.saved = (self.row, self.column)
        elif final == "u":
            self.row, self.column = self.saved
        elif final == "n" and first == 6:
            self.answers.append(f"\x1b[{self.row + 1};{min(self.column, self.columns - 1) + 1}R")
        elif final == "n" and first == 5:
            self.answers.append("\x1b[0n")
        elif final == "c":
            self.answers.append("\x1b[?62;22c")

    def _obey_private(self, private: str, numbers: list[int], between: str, final: str) -> None:
        if private == "?" and between == "$" and final == "p":
            self.answers.append(f"\x1b[?{numbers[0]};0$y")  # a mode we do not know
        elif private == ">" and final == "c":
            self.answers.append("\x1b[>0;276;0c")
        elif private == "?" and final in "hl" and {1049, 47, 1047} & set(numbers):
            self._erase("J", 2)
            self.row = self.column = 0

    def _move(self, final: str, count: int) -> None:
        if final in "AF":
            self.row = max(0, self.row - count)
        elif final in "BE":
            self.row = min(self.rows - 1, self.row + count)
        elif final == "C":
            self.column = min(self.columns - 1, self.column + count)
        else:
            self.column = max(0, self.column - count)
        if final in "EF":
            self.column = 0

    def _erase(self, final: str, which: int) -> None:
        line = self.cells[self.row]
        column = min(self.column, self.columns - 1)
        start, end = {0: (column, self.columns), 1: (0, column + 1)}.get(which, (0, self.columns))
        line[start:end] = [" "] * (end - start)
        if final == "J":
            below, above = range(self.row + 1, self.rows), range(self.row)
            for row in {0: below, 1: above}.get(which, range(self.rows)):
                self.cells[row] = [" "] * self.columns

    def _insert_or_delete_lines(self, final: str, count: int) -> None:
        if not self.top <= self.row <= self.bottom:
            return
        for _ in range(min(count, self.rows)):
            taken, put = (self.bottom, self.row) if final == "L" else (self.row, self.bottom)
            self.cells.pop(taken)
            self.cells.insert(put, [" "] * self.columns)

    def _change_line(self, final: str, count: int) -> None:
        line, column = self.cells[self.row], min(self.column, self.columns - 1)
        if final == "P":
            self.cells[self.row] = (line[:column] + line[column + count :] + [" "] * self.columns)[: self.columns]
        elif final == "@":
            self.cells[self.row] = (line[:column] + [" "] * count + line[column:])[: self.columns]
        else:
            end = min(self.columns, column + count)
            line[column:end] = [" "] * (end - column)
