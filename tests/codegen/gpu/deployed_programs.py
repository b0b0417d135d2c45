"""Programs of each kind on a simulated GPU whose launches do nothing: `python -m tests.codegen.gpu.deployed_programs [CASE ...]`.

Each kernel is compiled to the same image. Each case prints a line of JSON: the numbers of programs and kernels that it has
compiled, and the modules of compilers that the process has imported so far."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import burn
from burn.loading import compile_count
from tests.runtime.simulation import Simulation

DRIVER = Simulation(os.environ["BURN_CUDA_DRIVER"])
COMPILERS = ("burn.compiler", "torch_mlir", "triton", "torch")

kernels = 0


def model_file() -> None:
    burn.load(os.environ["MODEL"], device="cuda")(np.ones((3, 4), np.float32))


def compiled_function() -> None:
    burn.compile(lambda x: burn.ops.exp(x), ("float32[n, 64]",), device="cuda")(np.ones((16, 64), np.float32))


def jitted_function() -> None:
    x, y = (burn.tensor(np.ones((8, 8), np.float32)).to("cuda") for _ in range(2))
    burn.jit(lambda x, y: burn.ops.tanh(x) @ y)(x, y)


def lazy_tensors() -> None:
    x = burn.tensor(np.ones((4, 8), np.float32)).to("cuda")
    (x * 2 + 1).sum().numpy()


def training_step() -> None:
    from burn import nn, optim

    burn.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3)).to("cuda")
    optimizer = optim.AdamW(model, lr=0.1)
    step = burn.train.step(model, lambda m, x, y: nn.CrossEntropyLoss()(m(x), y), optimizer)
    for _ in range(2):
        step(np.ones((8, 6), np.float32), np.zeros(8, np.int64))


def _torch_model(training: bool) -> tuple[Any, Any]:
    import pytest
    import torch

    from tests.codegen.gpu.torch_on_gpu import FakeCUDA

    torch.manual_seed(0)
    FakeCUDA(DRIVER, pytest.MonkeyPatch())
    layers = torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 3)
    return torch, torch.nn.Sequential(*layers).train(training)


def torch_inference() -> None:
    torch, model = _torch_model(False)
    for options in ({}, {"freeze": True}):
        run = torch.compile(model, backend="burn", options=options)
        with torch.no_grad():
            for rows in (5, 7):  # the second one makes the size dynamic
                run(torch.ones(rows, 6))


def torch_training() -> None:
    torch, model = _torch_model(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    update = torch.compile(optimizer.step, backend="burn")
    run = torch.compile(model, backend="burn")
    for _ in range(2):
        run(torch.ones(5, 6)).sum().backward()
        update()


CASES: Sequence[Callable[[], None]] = (
    model_file,
    compiled_function,
    jitted_function,
    lazy_tensors,
    training_step,
    torch_inference,
    torch_training,
)
"""Those that import more come later."""


def _counted(sources: Iterable[Any], machine: Any) -> list[tuple[str, bytes, int, int]]:
    global kernels
    made = [(source.name, b"image", 0, machine.warp * source.warps) for source in sources]
    kernels += len(made)
    return made


def main(names: Sequence[str]) -> None:
    from burn.codegen.triton import workers

    workers.compiled = _counted  # type: ignore[assignment]
    workers.start = lambda count: None
    DRIVER.on_launch(lambda *launch: None)
    for case in CASES:
        if not names or case.__name__ in names:
            before = compile_count(), kernels
            case()
            counts = {"programs": compile_count() - before[0], "kernels": kernels - before[1]}
            imported = [name for name in COMPILERS if name in sys.modules]
            print(json.dumps({"case": case.__name__, **counts, "imported": imported}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
