"""Curves as text: braille dots, eight to a character, with axes. The line of validation has marks: colours may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from burn.train.report import spelled

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of a character
_MARK = "◆"
_APART = 4  # characters from one mark to the next, so that the line between is seen
_AXIS = "dim"


@dataclass(frozen=True)
class Line:
    """Points by x, in the order of x."""

    points: Sequence[tuple[float, float]]
    style: str
    marked: bool = False


def plot(lines: Sequence[Line], width: int, height: int) -> Text:
    """Lines in a box of so many characters; nothing where there is no room."""
    every = [point for line in lines for point in line.points]
    if not every:
        return Text("nothing yet"[: width * min(height, 1)], _AXIS)
    xs, ys = _range([x for x, _ in every]), _range([y for _, y in every], 0.04)
    labels = max(len(spelled(y)) for y in ys) + 2
    columns, rows = width - labels, height - 2
    if columns < 4 or rows < 1:
        return Text("")
    canvas = _Canvas(columns, rows, xs, ys)
    for line in lines:
        canvas.draw(line)
    return canvas.text(labels)


def _range(values: Sequence[float], margin: float = 0.0) -> tuple[float, float]:
    low, high = min(values), max(values)
    if low == high:
        low, high = low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)
    return low - margin * (high - low), high + margin * (high - low)


class _Canvas:
    def __init__(self, columns: int, rows: int, xs: tuple[float, float], ys: tuple[float, float]) -> None:
        self.columns, self.rows, self.xs, self.ys = columns, rows, xs, ys
        self._dots = [[0] * columns for _ in range(rows)]
        self._marks: dict[tuple[int, int], str] = {}
        self._styles: dict[tuple[int, int], str] = {}

    def draw(self, line: Line) -> None:
        """Draws the means of the points in each column of dots, connected by straight lines."""
        sums: dict[int, tuple[float, int]] = {}
        for x, y in line.points:
            at = self._scaled(x, self.xs, self.columns * 2)
            total, count = sums.get(at, (0.0, 0))
            sums[at] = total + y, count + 1
        means = [(x, self._scaled(total / count, self.ys, self.rows * 4)) for x, (total, count) in sorted(sums.items())]
        for (x0, y0), (x1, y1) in zip(means, means[1:] or means, strict=False):
            steps = max(x1 - x0, abs(y1 - y0), 1)
            for i in range(steps + 1):
                self._dot(x0 + round((x1 - x0) * i / steps), y0 + round((y1 - y0) * i / steps), line.style)
        last = -_APART
        for x, y in means if line.marked else ():
            cell = self.rows - 1 - y // 4, x // 2
            if cell[1] - last >= _APART:
                self._marks[cell], self._styles[cell], last = _MARK, line.style, cell[1]

    def _scaled(self, value: float, ends: tuple[float, float], count: int) -> int:
        return min(count - 1, max(0, int((value - ends[0]) / (ends[1] - ends[0]) * (count - 1) + 0.5)))

    def _dot(self, x: int, y: int, style: str) -> None:
        row, column = self.rows - 1 - y // 4, x // 2
        self._dots[row][column] |= _DOTS[3 - y % 4][x % 2]
        self._styles[row, column] = style

    def text(self, labels: int) -> Text:
        text = Text(no_wrap=True)
        named = {0: self.ys[1], self.rows - 1: self.ys[0]}
        if self.rows >= 7:
            named[self.rows // 2] = self.ys[1] - (self.ys[1] - self.ys[0]) * (self.rows // 2) / (self.rows - 1)
        for row in range(self.rows):
            label = spelled(named[row]) if row in named else ""
            text.append(f"{label[: labels - 2]:>{labels - 2}} {'┤' if row in named else '│'}", _AXIS)
            for column in range(self.columns):
                dots = self._dots[row][column]
                character = self._marks.get((row, column)) or (chr(0x2800 + dots) if dots else " ")
                text.append(character, self._styles.get((row, column), ""))
            text.append("\n")
        text.append(f"{'':{labels - 1}}└{'─' * self.columns}\n", _AXIS)
        first, last = (f"{round(x):,}" for x in self.xs)
        text.append(f"{'':{labels}}{first}{last:>{max(0, self.columns - len(first))}}", _AXIS)
        return text
