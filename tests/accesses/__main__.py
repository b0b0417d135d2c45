"""Lists GPU kernels that read or write memory with a stride, in training steps of layers; needs no GPU.

    python -m tests.accesses                 # all layers
    python -m tests.accesses "U-Net" mixer   # some of them

Exits with 1 if there is such a kernel. Gathers, matmuls, windows and norms' gradients have layouts of their own, which are not
checked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import burn
from burn import optim, train
from burn.codegen.triton import workers
from burn.codegen.triton.printer import GPUPrinter
from tests.accesses.layers import Layer, layers
from tests.accesses.strided import Strided, recorded
from tests.runtime.simulation import simulation

LEAST = 1 << 20
"""Bytes of accesses that are worth a line."""


class _Printed(Exception):
    """Ends a compilation when all kernels are printed."""


def strided_kernels(layer: Layer) -> list[Strided]:
    """The kernels of a training step in bfloat16 for a GPU of the simulated driver."""
    module, inputs = layer
    twin = burn.compile(module.train(), inputs, train=True)
    step = train.step(
        twin, lambda m, *x: (m(*x) ** 2).mean(), optim.SGD(twin, lr=1e-3), precision="bfloat16", device="cuda"
    )
    build = GPUPrinter.build

    def printed(self: GPUPrinter, *args: object) -> None:
        build(self, *args)  # type: ignore[arg-type]
        raise _Printed

    with recorded(LEAST) as found:
        GPUPrinter.build = printed  # type: ignore[method-assign,assignment]
        try:
            step(*(burn.tensor(x.numpy()) for x in inputs))
        except _Printed:
            pass
        finally:
            GPUPrinter.build = build  # type: ignore[method-assign]
    return found


def main(names: Sequence[str]) -> int:
    os.environ["BURN_CUDA_DRIVER"] = simulation().path
    workers.start = lambda count: None  # nothing is compiled
    count = 0
    for name, layer in layers().items():
        if names and name not in names:
            continue
        found = strided_kernels(layer)
        print(f"{name}: {len(found) or 'none'}")
        for each in found:
            print(f"    {each}")
        count += len(found)
    return int(count > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
