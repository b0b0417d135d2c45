"""Drawn convolutions on one thread of a CPU: CPU seconds of burn beside ONNX Runtime and OpenVINO.

    python benchmarks/convolutions.py --count 40 --seed 0                     # a table, the worst ratio first
    python benchmarks/convolutions.py --count 20 --kinds grouped,depthwise
    python benchmarks/convolutions.py --convolution "1x64x56x56 64 g16 k3"    # one of its own; repeatable
    python benchmarks/convolutions.py --convolution ... --peers burn --target avx2

Batch, channels, groups, kernel, stride, dilation and size are drawn. If the output has the shape of the input, four convolutions
with ReLU follow each other, as in a network; engines then keep the layout that they choose. Otherwise the model is one
convolution with ReLU, and conversions of its input and output count.

Engines alternate in rounds in one process bound to one CPU. Figures are CPU seconds, not wall-clock time, so the machine may be
shared; a row has the fastest round. Outputs are compared with each other before they are timed.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from zoo.pages import markdown, mean

CHAIN = 4
"""Convolutions in a model whose shapes allow for more than one."""

ROUNDS = 9

TOLERANCE = 2e-3
"""The largest difference of outputs, over the largest output."""


@dataclass(frozen=True)
class Convolution:
    """One convolution over `size`, padded so that stride 1 keeps the size if the kernel is odd. up: it is transposed."""

    batch: int
    inputs: int
    outputs: int
    groups: int
    size: tuple[int, ...]
    kernel: int
    stride: int = 1
    dilation: int = 1
    up: bool = False

    def __str__(self) -> str:
        shape = "x".join(map(str, (self.batch, self.inputs, *self.size)))
        options = f" s{self.stride}" * (self.stride > 1) + f" d{self.dilation}" * (self.dilation > 1) + " up" * self.up
        return f"{shape} {self.outputs} g{self.groups} k{self.kernel}{options}"

    @staticmethod
    def parse(text: str) -> Convolution:
        """The inverse of `str`. Raises ValueError."""
        found = re.fullmatch(r"([\dx]+) (\d+) g(\d+) k(\d+)(?: s(\d+))?(?: d(\d+))?( up)?", text)
        if found is None:
            raise ValueError(f"'{text}' is not like '1x64x56x56 64 g16 k3 s2 d1 up'")
        batch, inputs, *size = map(int, found[1].split("x"))
        outputs, groups, kernel, stride, dilation = (int(number or 1) for number in found.groups()[1:6])
        return Convolution(batch, inputs, outputs, groups, tuple(size), kernel, stride, dilation, bool(found[7]))

    @property
    def count(self) -> int:
        return CHAIN if self.inputs == self.outputs and self.stride == 1 and self.kernel % 2 else 1

    @property
    def flops(self) -> int:
        """Multiplications and additions of the model, those with padding included."""
        pixels = prod(self.size) if self.up else prod(-(-n // self.stride) for n in self.size)
        return (
            2
            * self.batch
            * pixels
            * self.outputs
            * self.inputs
            // self.groups
            * self.kernel ** len(self.size)
            * self.count
        )

    def attributes(self) -> dict[str, Any]:
        n = len(self.size)
        reach = (self.kernel - 1) * self.dilation
        return {
            "group": self.groups, "kernel_shape": [self.kernel] * n, "strides": [self.stride] * n,
            "dilations": [self.dilation] * n, "pads": [reach // 2] * n + [reach - reach // 2] * n,
        }  # fmt: skip

    def model(self, path: Path, rng: np.random.Generator) -> np.ndarray:
        """Writes the ONNX file, and returns an input."""
        from onnx import TensorProto, helper, numpy_helper, save

        nodes, weights = [], []
        shape = (self.inputs, self.outputs // self.groups) if self.up else (self.outputs, self.inputs // self.groups)
        scale = (prod(shape[1:]) * self.kernel ** len(self.size)) ** -0.5
        for i in range(self.count):
            weight = rng.standard_normal((*shape, *[self.kernel] * len(self.size))) * scale
            bias = rng.standard_normal(self.outputs)
            weights += [
                numpy_helper.from_array(a.astype(np.float32), f"{n}{i}") for n, a in (("w", weight), ("b", bias))
            ]
            name = "ConvTranspose" if self.up else "Conv"
            nodes += [
                helper.make_node(name, [f"x{i}", f"w{i}", f"b{i}"], [f"y{i}"], **self.attributes()),
                helper.make_node("Relu", [f"y{i}"], [f"x{i + 1}"]),
            ]
        x = helper.make_tensor_value_info("x0", TensorProto.FLOAT, [self.batch, self.inputs, *self.size])
        y = helper.make_tensor_value_info(f"x{self.count}", TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "convolution", [x], [y], weights)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        return rng.standard_normal((self.batch, self.inputs, *self.size)).astype(np.float32)


# ---- drawing -------------------------------------------------------------------------------------------------------------
WORK = 10_000_000, 1_500_000_000
"""The least and most flops of a drawn model."""


def drawn(kind: str, rng: random.Random) -> Convolution:
    """A convolution of a kind of `KINDS` with work within `WORK`."""
    while True:
        found = KINDS[kind](rng)
        if WORK[0] <= found.flops <= WORK[1] and min(found.size) > (found.kernel - 1) * found.dilation // 2:
            return found


def _space(rng: random.Random, rank: int) -> tuple[int, ...]:
    sizes = {
        1: (64, 100, 250, 500, 1000, 3000),
        2: (7, 14, 16, 19, 28, 32, 40, 56, 64, 80, 112),
        3: (4, 7, 8, 14, 16, 28),
    }
    first = rng.choice(sizes[rank])
    return tuple(first if rng.random() < 0.7 else rng.choice(sizes[rank]) for _ in range(rank))


def _grouped(
    rng: random.Random, most: int = 48, dilation: Sequence[int] = (1, 1, 1, 2), up: bool = False
) -> Convolution:
    """A few channels in each group: as many outputs as inputs, or a multiple of them, or the converse."""
    rank = rng.choice((1, 2, 2, 2, 2, 3))
    channels = rng.choice([n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48) if n <= most])
    groups = rng.choice((2, 3, 4, 8, 16, 32, 64, 96, 128))
    inputs, outputs = rng.choice(((1, 1), (1, 1), (1, 1), (1, 2), (2, 1), (1, 4)))
    stride = rng.choice((2,) if up else (1, 1, 1, 2))
    return Convolution(
        rng.choice((1, 1, 8)), groups * channels * inputs, groups * channels * outputs, groups, _space(rng, rank),
        rng.choice((1, 3, 3, 5, 7) if rank < 3 else (1, 3)), stride, rng.choice(dilation) if stride == 1 else 1, up,
    )  # fmt: skip


def _depthwise(rng: random.Random) -> Convolution:
    rank, channels = rng.choice((1, 2, 2, 2, 3)), rng.choice((24, 32, 48, 72, 96, 144, 192, 320, 512))
    stride = rng.choice((1, 1, 2))
    kernel = rng.choice((3, 3, 5, 7, 9, 31) if rank == 1 else (3, 5, 7) if rank == 2 else (3, 5))
    return Convolution(rng.choice((1, 1, 8)), channels, channels, channels, _space(rng, rank), kernel, stride)


def _dense(rng: random.Random, dilation: Sequence[int] = (1,), up: bool = False) -> Convolution:
    rank, inputs = rng.choice((1, 2, 2, 2, 3)), rng.choice((1, 3, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256))
    outputs = rng.choice((inputs, inputs, 2 * inputs, 8, 20, 32, 64))
    stride = rng.choice((2, 4) if up else (1, 1, 2)) if dilation == (1,) else 1
    kernel = rng.choice((2, 3, 4, 5) if up else (1, 3, 3, 5, 7) if rank < 3 else (1, 3, 3))
    return Convolution(
        rng.choice((1, 1, 8)), inputs, outputs, 1, _space(rng, rank), kernel, stride, rng.choice(dilation), up
    )


KINDS: dict[str, Callable[[random.Random], Convolution]] = {
    "grouped": _grouped,
    "depthwise": _depthwise,
    "dense": _dense,
    "dilated": lambda rng: _dense(rng, (2, 3, 4, 8, 12)),
    "transposed": lambda rng: _dense(rng, up=True),
    "grouped transposed": lambda rng: _grouped(rng, up=True),
}


# ---- timing --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Row:
    """CPU seconds of a model by engine."""

    convolution: Convolution
    seconds: dict[str, float]

    @property
    def ratio(self) -> float | None:
        """burn's time over the fastest peer's."""
        peers = [seconds for name, seconds in self.seconds.items() if name != "burn"]
        return self.seconds["burn"] / min(peers) if peers and "burn" in self.seconds else None


def timed(convolution: Convolution, peers: Sequence[str], target: str | None, block: float) -> Row:
    """Raises AssertionError if engines differ."""
    import burn
    from burn.bench.peers import PEERS
    from burn.bench.subject import Subject

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        x = convolution.model(path, np.random.default_rng(0))
        feeds = {"x0": x}
        subject = Subject(str(convolution), path, feeds, {})
        engines: dict[str, Callable[[], Any]] = {}
        for name in peers:
            if name == "burn":
                run = burn.load(path, threads=1, target=target).run
            elif missing := PEERS[name].lacks(subject):
                raise SystemExit(f"{name}: {missing}")
            else:
                run = PEERS[name].load(subject, 1, None)
            engines[name] = lambda run=run: run(feeds)
        results = [np.array(next(iter(run().values()))) for run in engines.values()]
        for result in results[1:]:
            differs = np.abs(result - results[0]).max() / np.abs(results[0]).max()
            assert differs <= TOLERANCE, f"{convolution}: outputs differ by {differs:.1e}"
        return Row(convolution, _fastest(engines, block))


def _fastest(engines: dict[str, Callable[[], Any]], block: float) -> dict[str, float]:
    runs: dict[str, int] = {}
    for name, run in engines.items():
        start = time.process_time()
        run()
        runs[name] = max(1, round(block / max(time.process_time() - start, 1e-6)))
    found = dict.fromkeys(engines, float("inf"))
    for _ in range(ROUNDS):
        for name, run in engines.items():
            run()
            start = time.process_time()
            for _ in range(runs[name]):
                run()
            found[name] = min(found[name], (time.process_time() - start) / runs[name])
    return found


def table(rows: Sequence[Row], peers: Sequence[str]) -> Iterator[str]:
    ordered = sorted(rows, key=lambda row: -(row.ratio or 0))
    return markdown(
        ["convolution", *(f"{name} ms" for name in peers), "ratio", "burn's GFLOP/s"],
        (
            [
                str(row.convolution),
                *(f"{1e3 * row.seconds[name]:.3f}" for name in peers),
                f"{row.ratio:.2f}" if row.ratio else "",
                f"{row.convolution.flops / row.seconds['burn'] / 1e9:.0f}" if "burn" in row.seconds else "",
            ]
            for row in ordered
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds to draw")
    parser.add_argument(
        "--convolution", action="append", type=Convolution.parse, help="instead of drawn ones; repeatable"
    )
    parser.add_argument("--peers", default="burn,onnxruntime,openvino")
    parser.add_argument("--target", help="burn's target, such as avx2")
    parser.add_argument("--block", type=float, default=0.03, help="CPU seconds of a round of an engine")
    args = parser.parse_args()
    from burn.bench.interleave import bind

    bind(1)
    peers, kinds = args.peers.split(","), args.kinds.split(",")
    rng = random.Random(args.seed)
    chosen = args.convolution or [drawn(kinds[i % len(kinds)], rng) for i in range(args.count)]
    rows = []
    for convolution in chosen:
        rows.append(timed(convolution, peers, args.target, args.block))
        print(f"{convolution}: {' '.join(f'{1e3 * s:.3f}' for s in rows[-1].seconds.values())}", flush=True)
    print("\n".join(table(rows, peers)))
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if ratios:
        print(f"geometric mean {mean(ratios):.2f}, {sum(ratio > 1 for ratio in ratios)} of {len(ratios)} above 1")


if __name__ == "__main__":
    main()
