"""Single operators on one thread of a CPU: CPU seconds of burn over those of PyTorch's own kernels.

    python benchmarks/cpu_ops.py                      # every case, the worst ratio first
    python benchmarks/cpu_ops.py topk "pad"           # those whose names contain a word
    python benchmarks/cpu_ops.py --above 1.2          # fewer rows

A model's benchmark hides an operator that takes a hundredth of its time, and a user's model may consist of it. Operands are
large enough that the cost of a call is small. Engines alternate in one process. Figures are CPU seconds of the fastest call, not
wall-clock time, so the machine may be shared. Results are compared with PyTorch's in the same precision.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from zoo.pages import markdown, mean

import burn

SECONDS = 0.15
"""The time for the calls of one engine in a round."""

ROUNDS = 3

DIFFERENT = 1e-4
"""A larger difference, over the largest number, is a column of the row."""

Function = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Case:
    name: str
    function: Function
    operands: Sequence[torch.Tensor]


class Module(torch.nn.Module):
    """A function as a module, which `burn.compile` exports."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: torch.Tensor) -> torch.Tensor:
        return self.function(*operands)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def uniform(*shape: int) -> torch.Tensor:
    """In [0.05, 0.95)."""
    return torch.rand(*shape) * 0.9 + 0.05


def below(bound: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, bound, shape)


def scans(matrix: torch.Tensor) -> dict[str, tuple[Any, ...]]:
    return {
        "cumsum along rows": (lambda x: x.cumsum(1), matrix),
        "cumsum down columns": (lambda x: x.cumsum(0), matrix),
        "cumprod along rows": (lambda x: x.cumprod(1), matrix * 0.1 + 1),
        "cummax along rows": (lambda x: x.cummax(1)[0], matrix),
        "logcumsumexp along rows": (lambda x: x.logcumsumexp(1), normal(256, 1024)),
    }


def selections(matrix: torch.Tensor) -> dict[str, tuple[Any, ...]]:
    return {
        "sort along rows": (lambda x: x.sort(1)[0], matrix),
        "sort of 10^6": (lambda x: x.sort()[0], normal(1_000_000)),
        "sort down columns": (lambda x: x.sort(0)[0], normal(512, 512)),
        "topk of 10": (lambda x: x.topk(10, 1)[0], matrix),
        "kthvalue": (lambda x: x.kthvalue(7, 1)[0], normal(128, 4096)),
        "median": (lambda x: x.median(1)[0], normal(128, 4096)),
        "topk of 1000": (lambda x: x.topk(1000, 1)[0], normal(128, 4096)),
        "topk down columns": (lambda x: x.topk(10, 0)[0], normal(512, 512)),
        "topk of int64": (lambda x: x.topk(10, 1)[0], below(1000, 128, 4096)),
        "topk of two experts": (lambda x: x.topk(2, 1)[0], normal(4096, 16)),
        "topk of 10^6": (lambda x: x.topk(50)[0], normal(1_000_000)),
        "nanmedian": (lambda x: x.nanmedian(1)[0], normal(128, 4096)),
        "quantile": (lambda x: x.quantile(0.25, 1), normal(64, 4096)),
        "mode": (lambda x: x.mode(1)[0], below(1000, 64, 4096)),
        "argmax along rows": (lambda x: x.argmax(1), matrix),
        "argmax down columns": (lambda x: x.argmax(0), matrix),
        "searchsorted": (torch.searchsorted, normal(10_000).sort()[0], normal(100_000)),
        "bucketize": (torch.bucketize, normal(512, 1024), torch.linspace(-2, 2, 33)),
        "isin": (torch.isin, below(10_000, 100_000), below(10_000, 100)),
        "histc": (lambda x: torch.histc(x, 100, -3, 3), normal(1_000_000)),
        "bincount": (lambda i: torch.bincount(i, minlength=1000), below(1000, 500_000)),
    }


def indexing(matrix: torch.Tensor) -> dict[str, tuple[Any, ...]]:
    return {
        "index_select": (lambda x, i: x.index_select(0, i), matrix, below(512, 2048)),
        "gather along rows": (lambda x, i: x.gather(1, i), matrix, below(4096, 512, 1024)),
        "gather of one a row": (lambda x, i: x.gather(1, i), matrix, below(4096, 512, 1)),
        "index_add": (lambda x, i, u: x.index_add(0, i, u), normal(1000, 64), below(1000, 20_000), normal(20_000, 64)),
        "scatter_add": (lambda x, i, u: x.scatter_add(1, i, u), normal(512, 1000), below(1000, 512, 4096), matrix),
        "embedding": (lambda w, i: F.embedding(i, w), normal(30_000, 256), below(30_000, 64, 128)),
        "embedding_bag": (lambda w, i: F.embedding_bag(i, w), normal(30_000, 64), below(30_000, 1024, 20)),
        "one_hot": (lambda i: F.one_hot(i, 1000).float(), below(1000, 2000)),
        "diagonal": (lambda x: x.diagonal(dim1=1, dim2=2) * 1, normal(64, 256, 256)),
    }


def views(matrix: torch.Tensor, images: torch.Tensor) -> dict[str, tuple[Any, ...]]:
    return {
        "transpose": (lambda x: x.t().contiguous() + 0, matrix),
        "channels last": (lambda x: x.permute(0, 2, 3, 1).contiguous(), images),
        "axes reversed": (lambda x: x.permute(3, 2, 1, 0).contiguous(), images),
        "concat of channels": (lambda a, b: torch.cat([a, b], 1), images, images.clone()),
        "stack as last axis": (lambda a, b: torch.stack([a, b], -1), matrix, matrix.clone()),
        "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), normal(512, 1024)),
        "pad reflect": (lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), images),
        "pad circular": (lambda x: F.pad(x, (3, 3, 3, 3), mode="circular"), images),
        "roll": (lambda x: x.roll((3, 3), (2, 3)), images),
        "flip": (lambda x: x.flip(3), images),
        "rot90": (lambda x: x.rot90(1, (2, 3)), images),
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), images),
        "unfold": (lambda x: F.unfold(x, 3, padding=1), normal(4, 32, 56, 56)),
        "fold": (lambda x: F.fold(x, (56, 56), 3, padding=1), normal(4, 288, 3136)),
    }


def sampling(images: torch.Tensor) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {
        f"interpolate {mode}": (lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode), normal(4, 32, 56, 56))
        for mode in ("nearest", "bilinear", "bicubic")
    }
    return found | {
        "grid_sample": (
            lambda x, g: F.grid_sample(x, g, align_corners=False), normal(4, 32, 56, 56), torch.rand(4, 56, 56, 2) * 2 - 1
        ),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), images),
        "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), images),
        "max_pool2d of 2": (lambda x: F.max_pool2d(x, 2), images),
        "max_pool1d of 4": (lambda x: F.max_pool1d(x, 4), normal(16, 64, 4096)),
        "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 5), images),
        "conv1d": (lambda x, w: F.conv1d(x, w, padding=2), normal(8, 64, 1000), normal(64, 64, 5)),
        "conv3d": (lambda x, w: F.conv3d(x, w, padding=1), normal(1, 16, 16, 32, 32), normal(32, 16, 3, 3, 3)),
        "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, stride=4), normal(4, 64, 500), normal(64, 32, 8)),
    }  # fmt: skip


def matmuls() -> dict[str, tuple[Any, ...]]:
    return {
        "matrix by vector": (lambda a, b: a @ b, normal(2000, 2000), normal(2000)),
        "vector by matrix": (lambda a, b: b @ a, normal(2000, 2000), normal(2000)),
        "one row by transposed": (lambda a, b: b @ a.t(), normal(2000, 2000), normal(1, 2000)),
        "eight rows by matrix": (lambda a, b: b @ a, normal(2000, 2000), normal(8, 2000)),
        "dot": (lambda a, b: a @ b, normal(1_000_000), normal(1_000_000)),
        "batch of 4x4": (lambda a, b: a @ b, normal(10_000, 4, 4), normal(10_000, 4, 4)),
        "square of 1000": (lambda a, b: a @ b, normal(1000, 1000), normal(1000, 1000)),
        "transposed by tall": (lambda a, b: a.t() @ b, normal(10_000, 32), normal(10_000, 48)),
        "float64": (lambda a, b: a @ b, normal(400, 400).double(), normal(400, 400).double()),
        "cdist": (torch.cdist, normal(500, 64), normal(600, 64)),
    }


def reductions(matrix: torch.Tensor, images: torch.Tensor) -> dict[str, tuple[Any, ...]]:
    return {
        "mean square": (lambda a, b: ((a - b) ** 2).mean(), matrix, matrix.flip(0).contiguous()),
        "sum of pairs": (lambda c: (c[:, None] - c[None]).abs().sum(), normal(1000, 16)),
        "logsumexp": (lambda x: x.logsumexp(1), matrix),
        "softmax down columns": (lambda x: x.softmax(0), matrix),
        "group_norm": (lambda x: F.group_norm(x, 8), images),
        "batch_norm, training": (lambda x: F.batch_norm(x, None, None, None, None, True), images),
        "normalize": (lambda x: F.normalize(x, dim=1), matrix),
        "cross_entropy": (F.cross_entropy, normal(2048, 1000), below(1000, 2048)),
        "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, matrix, torch.rand(512, 4096)),
        "fft": (lambda x: torch.fft.fft(x).abs(), normal(64, 4096)),
        "rfft2": (lambda x: torch.fft.rfft2(x).abs(), normal(16, 128, 128)),
    }


POINTWISE = "exp log1p tanh sigmoid erf sin tan atan sqrt rsqrt expm1 lgamma digamma erfinv log asinh sinh floor round exp2 sinc"


def pointwise() -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {name: (getattr(torch, name), uniform(500_000)) for name in POINTWISE.split()}
    return found | {
        "pow": (torch.pow, uniform(500_000), normal(500_000)),
        "fmod": (torch.fmod, normal(500_000), uniform(500_000)),
        "remainder": (torch.remainder, normal(500_000), uniform(500_000)),
        "atan2": (torch.atan2, normal(500_000), normal(500_000)),
        "division of int64": (lambda a, b: a // b, below(100_000, 500_000), below(100, 500_000) + 1),
        "gelu": (F.gelu, normal(500_000)),
        "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), normal(500_000)),
        "hypot": (torch.hypot, normal(500_000), normal(500_000)),
        "logaddexp": (torch.logaddexp, normal(500_000), normal(500_000)),
        "xlogy": (torch.xlogy, normal(500_000), uniform(500_000)),
        "nextafter": (torch.nextafter, normal(500_000), normal(500_000)),
        "frexp": (lambda x: torch.frexp(x)[0], normal(500_000)),
        "ndtri": (torch.special.ndtri, uniform(500_000)),
        "i0e": (torch.special.i0e, normal(500_000)),
        "log2": (torch.log2, uniform(500_000)),
        "remainder of int32": (torch.remainder, below(100_000, 500_000).int(), below(100, 500_000).int() + 1),
        "clamp of float16": (lambda x: x.clamp(-0.5, 0.5), normal(500_000).half()),
        "exp of bfloat16": (torch.exp, normal(500_000).bfloat16()),
    }


def cases() -> list[Case]:
    torch.manual_seed(0)
    matrix, images = normal(512, 4096), normal(8, 64, 56, 56)
    tables = (
        scans(matrix), selections(matrix), indexing(matrix), views(matrix, images), sampling(images), matmuls(),
        reductions(matrix, images), pointwise(),
    )  # fmt: skip
    return [Case(name, row[0], row[1:]) for table in tables for name, row in table.items()]


def fastest(call: Callable[[], Any], count: int) -> float:
    times = []
    for _ in range(count):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def measured(case: Case) -> dict[str, Any]:
    """A row of the table, or the reason for a failure."""
    row: dict[str, Any] = {"operator": case.name}
    try:
        compiled = burn.compile(Module(case.function), tuple(case.operands))
        got = torch.as_tensor(compiled(*case.operands)).double()
    except Exception as error:  # a row says so, and the others follow
        return row | {"ratio": float("inf"), "differs": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
    want = case.function(*case.operands).double()
    difference = ((got - want).abs().max() / want.abs().max().clamp_min(1e-9)).item()
    calls = {"burn": lambda: compiled(*case.operands), "PyTorch": lambda: case.function(*case.operands)}
    counts = {name: max(3, min(50, int(SECONDS / max(fastest(call, 2), 1e-6)))) for name, call in calls.items()}
    times = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name] = min(times[name], fastest(call, counts[name]))
    row |= {name: f"{seconds * 1e3:.3f}" for name, seconds in times.items()}
    return row | {
        "ratio": times["burn"] / times["PyTorch"],
        "differs": f"{difference:.0e}" if difference > DIFFERENT else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="of the names of cases")
    parser.add_argument("--above", type=float, default=0.0, help="the least ratio of a row")
    options = parser.parse_args()
    torch.set_num_threads(1)
    burn.set_num_threads(1)
    wanted = [case for case in cases() if not options.words or any(word in case.name for word in options.words)]
    with torch.no_grad():
        rows = sorted((measured(case) for case in wanted), key=lambda row: -row["ratio"])
    ratios = [row["ratio"] for row in rows if row["ratio"] < float("inf")]
    head = ["operator", "burn ms", "PyTorch ms", "ratio", "differs"]
    body = [
        [row["operator"], row.get("burn", ""), row.get("PyTorch", ""), f"{row['ratio']:.2f}", row["differs"]]
        for row in rows
        if row["ratio"] >= options.above
    ]
    print("\n".join(markdown(head, body)))
    if ratios:
        above = sum(ratio > 1 for ratio in ratios)
        print(f"\n{len(ratios)} operators: geometric mean {mean(ratios):.2f}, {above} above 1.")


if __name__ == "__main__":
    main()
