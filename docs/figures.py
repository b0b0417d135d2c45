"""Writes the pictures of the site as SVG into docs/_static: the pipeline, and one program before and after fusion.

    python docs/figures.py             # after a change of the stages or of what fusion joins

tests/docs/test_figures.py fails if a picture and the code differ. A picture has its own background, light or dark as
the system is, so that it can be read on any page.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / "_static"

STYLE = """
  .back { fill: #fbfaf8; } .box { fill: #ffffff; stroke: #b9b2a9; } .text { fill: #26221e; } .dim { fill: #6b645c; }
  .line { stroke: #8a837b; fill: none; } .head { fill: #8a837b; }
  .a { fill: #fbe3d2; stroke: #c8702f; } .b { fill: #dcebf9; stroke: #3d7fb8; } .c { fill: #e0f1df; stroke: #4c9150; }
  .d { fill: #ece4f6; stroke: #7f5fb0; }
  @media (prefers-color-scheme: dark) {
    .back { fill: #191b1f; } .box { fill: #24272d; stroke: #555c66; } .text { fill: #e8e6e3; } .dim { fill: #a9a49d; }
    .line { stroke: #8d959f; } .head { fill: #8d959f; }
    .a { fill: #4a2d18; stroke: #e0935a; } .b { fill: #173650; stroke: #6fb0e6; } .c { fill: #1d3d20; stroke: #7cc081; }
    .d { fill: #33264a; stroke: #b297de; }
  }
  text { font: 13px system-ui, sans-serif; } .small { font-size: 11px; } .title { font-size: 13.5px; font-weight: 600; }
  .code { font: 12px ui-monospace, monospace; }
"""


@dataclass
class Picture:
    """SVG elements in the order in which they are drawn."""

    width: int
    height: int
    label: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        self.parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>')

    def text(self, x: float, y: float, text: str, kind: str = "text", anchor: str = "start") -> None:
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, *points: tuple[float, float]) -> None:
        path = " L".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<path class="line" marker-end="url(#head)" d="M{path}"/>')

    def svg(self) -> str:
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path class="head" d="M0,0 L8,4 L0,8 z"/></marker>'
        )
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.label)}">',
            f"<style>{STYLE}</style>",
            f"<defs>{head}</defs>",
            f'<rect class="back" width="{self.width}" height="{self.height}" rx="10"/>',
            *self.parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


# ---- the pipeline --------------------------------------------------------------------------------------------------------

SOURCES = (
    ("ONNX files", "importers/onnx"),
    ("PyTorch modules, .pt2", "importers/torch"),
    ("JAX functions, StableHLO", "importers/lax"),
    ("functions, burn.nn", "tracing"),
    ("lazy tensors", "lazy"),
)
STAGES = (
    ("Program", "one MLIR function of burn ops; weights by key", "dialect"),
    ("Passes", "simplify, recognise, decompose, pack, fuse", "passes"),
    ("Kernels", "a group of ops becomes loops and index maps", "kernels"),
    ("Code", "CPU: MLIR, LLVM. GPU: Triton. Entry function", "codegen"),
)
RESULTS = (
    ("Executable", "runs in this process", "runtime"),
    ("Command, library, package", "runs without Python", "deploy"),
    ("Python source, ONNX file", "of the program", "exporters"),
)


def pipeline() -> Picture:
    """From the sources of a program to what runs it, with the folder of each stage."""
    width, row = 860, 62
    middle, wide = 280, 280
    picture = Picture(width, 30 + 5 * row, "The stages of burn, from models to code")
    tall = 46

    def at(index: int, count: int) -> float:
        return 15 + (5 - count) * row / 2 + index * row + (row - tall) / 2

    first = at(0, len(STAGES))
    for i, (title, folder) in enumerate(SOURCES):
        y = at(i, len(SOURCES))
        picture.box(15, y, 215, tall, "a")
        picture.text(27, y + 19, title, "text title")
        picture.text(27, y + 36, f"burn/{folder}", "dim code")
        picture.arrow((230, y + tall / 2), (252, y + tall / 2), (252, first + tall / 2), (middle - 3, first + tall / 2))
    for i, (title, note, _) in enumerate(STAGES):
        y = at(i, len(STAGES))
        picture.box(middle, y, wide, tall, "b")
        picture.text(middle + 12, y + 19, title, "text title")
        picture.text(middle + 12, y + 36, note, "dim small")
        if i:
            picture.arrow((middle + wide / 2, at(i - 1, len(STAGES)) + tall), (middle + wide / 2, y - 2))
    right = 620
    for i, (title, note, folder) in enumerate(RESULTS):
        y = at(i, len(RESULTS))
        picture.box(right, y, 225, tall, "c")
        picture.text(right + 12, y + 19, title, "text title")
        picture.text(right + 12, y + 36, f"{note} (burn/{folder})" if len(note) < 14 else note, "dim small")
        stage = 0 if folder == "exporters" else len(STAGES) - 1
        start = at(stage, len(STAGES)) + tall / 2
        lane = 602 if stage else 584
        picture.arrow((middle + wide, start), (lane, start), (lane, y + tall / 2), (right - 3, y + tall / 2))
    return picture


# ---- fusion --------------------------------------------------------------------------------------------------------------

PASSES = "simplify,recognise,decompose,simplify,fold"
COLOURS = "abcd"
GAP = 14


def feed_forward():
    """x + gelu(layer_norm(x) W1 + b1) W2 + b2, the half of a transformer block that most of its arithmetic is in."""
    from burn import nn

    class FeedForward(nn.Module):
        def __init__(self) -> None:
            self.norm = nn.LayerNorm(64)
            self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

        def forward(self, x):
            from burn import ops

            return x + self.down(ops.gelu(self.up(self.norm(x))))

    return FeedForward()


def groups() -> list[list[str]]:
    """The names of the ops of the example's program, by the kernel that fusion gives them."""
    from burn.dialect.control import Group
    from burn.dialect.mlir import context
    from burn.passes import pipeline as passes
    from burn.tracing.trace import trace

    program = trace(feed_forward(), {"x": "float32[batch, 64]"})
    passes.run(passes.parse(f"{PASSES},fuse"), program)
    found: list[list[str]] = []
    with context():
        for operation in program.block.operations:
            op = operation.opview
            if isinstance(op, Group):
                inner = [o.operation.name.removeprefix("burn.") for o in op.operation.regions[0].blocks[0].operations]
                found.append([name for name in inner if name not in ("yield", "full", "constant", "reshape")])
    return found


def fusion(kernels: list[list[str]]) -> Picture:
    """The ops are on the left: alone, each would write its result to memory. The kernels are on the right."""
    row, width, left, right = 22, 860, 40, 470
    count = sum(map(len, kernels))
    top = 78
    picture = Picture(
        width, top + count * row + (len(kernels) - 1) * GAP + 52, f"{count} ops become {len(kernels)} kernels"
    )
    picture.text(left, 30, f"Before fusion: {count} ops", "text title")
    picture.text(left, 50, "without it, each writes its result to memory", "dim small")
    picture.text(right, 30, f"After fusion: {len(kernels)} kernels", "text title")
    picture.text(right, 50, "only these results are written", "dim small")
    y = top
    for number, names in enumerate(kernels):
        kind, tall = COLOURS[number % len(COLOURS)], len(names) * row
        for i, name in enumerate(names):
            picture.box(left, y + i * row + 2, 190, row - 4, kind)
            picture.text(left + 10, y + i * row + 15, name, "text code")
            picture.text(left + 205, y + i * row + 15, "writes", "dim small")
        picture.arrow((left + 260, y + tall / 2), (right - 8, y + tall / 2))
        picture.box(right, y + 2, 250, tall - 4, kind)
        for i, name in enumerate(names):
            picture.text(right + 12, y + i * row + 15, name, "text code")
        picture.text(right + 262, y + tall / 2 + 4, f"kernel {number + 1}: writes", "dim small")
        if number + 1 < len(kernels):
            picture.arrow((right + 125, y + tall - 2), (right + 125, y + tall + GAP + 1))
        y += tall + GAP
    note = "x + gelu(layer_norm(x) W1 + b1) W2 + b2 for any batch size; constants and reshapes are not shown"
    picture.text(left, y - GAP + 34, note, "dim small")
    return picture


def pictures() -> Mapping[str, str]:
    """The text of each file in docs/_static."""
    return {"pipeline.svg": pipeline().svg(), "fusion.svg": fusion(groups()).svg()}


def main() -> None:
    for name, text in pictures().items():
        (FOLDER / name).write_text(text)
        print(FOLDER / name)


if __name__ == "__main__":
    sys.exit(main())
