"""Cases on processes whose GPUs are simulated and whose NCCL is a stand-in: `python -m tests.distributed.simulated_gpus CASE
...`, started by `burn.distributed.launch` with the environment of `prepared`. Kernels run in Triton's interpreter. Rank 0
writes JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.distributed import processes
from burn.errors import DistributedError

CASES: dict[str, Callable[[], dict[str, Any]]] = {}


def case(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    CASES[function.__name__] = function
    return function


def prepared(folder: Path) -> dict[str, str]:
    """The environment of the processes: a driver, and an NCCL built in this folder."""
    from tests.runtime.simulation import another_driver

    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = folder / "libnccl.so.2"
    flags = ["-std=gnu11", "-O1", "-Wall", "-fvisibility=hidden", "-shared", "-fPIC"]
    source = Path(__file__).parents[1] / "runtime" / "fake_nccl.c"
    subprocess.run([compiler, *flags, str(source), "-o", str(library), "-ldl"], check=True)
    log = folder / "calls"
    return {
        "BURN_CUDA_DRIVER": another_driver(folder), "BURN_NCCL": str(library), "BURN_FAKE_NCCL_LOG": str(log),
        "BURN_CACHE_SIZE": "0",
    }  # fmt: skip


def mesh(**options: Any) -> burn.Mesh:
    return burn.Mesh({"data": processes.count()}, device="cuda", **options)


def simulate() -> Any:
    """This process's simulated driver, and its kernels."""
    from burn.codegen.triton import printer, tuning, workers
    from tests.codegen.gpu.simulated_gpu import SimulatedGPU
    from tests.runtime.simulation import Simulation

    driver = Simulation(os.environ["BURN_CUDA_DRIVER"])
    made = SimulatedGPU(driver.reach)
    printer.compile_all = made.compile_all
    tuning.compile_each = made.compile_each
    workers.start = lambda count: None
    driver.on_launch(made.launch)
    return driver


def _collective(kind: str, shapes: list[tuple[int, ...]]) -> Program:
    """A collective of several tensors, awaited at the end."""
    count = processes.count()
    program = Program.create([(f"x{i}", TensorType("float32", shape)) for i, shape in enumerate(shapes)])
    with program.building():
        made = getattr(ops, kind)(program.inputs, groups=tuple(range(count)), size=count)
        pairs = zip(made, program.inputs, strict=True)
        awaited = [ops.collective_wait(y, [x]) for y, x in pairs]
    program.finish([(f"y{i}", value) for i, value in enumerate(awaited)])
    return program


@case
def collectives() -> dict[str, Any]:
    """Each with two tensors in a bucket: run, recorded and replayed."""
    from burn.compiler import executable
    from burn.distributed.spmd import communicators
    from burn.options import Options
    from burn.runtime.device import device as as_device
    from burn.runtime.device_array import to_device

    device = as_device(f"cuda:{processes.local_rank()}")
    count, own = processes.count(), processes.rank()
    communicator = communicators.of(device)
    assert communicator is not None
    communicator.connect([(tuple(range(count)), count)])
    shapes: list[tuple[int, ...]] = [(count * 3, 5), (count, 2, 7)]
    drawn = [np.random.default_rng(seed) for seed in range(count)]
    theirs = [[rng.standard_normal(shape).astype("f4") for shape in shapes] for rng in drawn]
    total = [np.add.reduce([each[i] for each in theirs]) for i in range(2)]
    want = {
        "all_reduce": total,
        "all_gather": [np.concatenate([each[i] for each in theirs]) for i in range(2)],
        "reduce_scatter": [np.split(x, count)[own] for x in total],
        "collective_broadcast": theirs[0],
    }
    given = [to_device(x, device) for x in theirs[own]]
    for kind, arrays in want.items():
        compiled = executable(_collective(kind, shapes), Options(device=device))
        for _ in range(6):
            for found, array in zip([y.numpy() for y in compiled(*given)], arrays, strict=True):
                np.testing.assert_array_equal(found, array)
    processes.current().gather("all are done", None)  # type: ignore[union-attr]
    sizes = Path(os.environ["BURN_FAKE_NCCL_LOG"]).read_text().split()
    assert set(sizes) == {"2"}  # both tensors in one group of calls
    return {"groups": len(sizes)}


@case
def trains() -> dict[str, Any]:
    """A model with batch statistics on two GPUs, its parameters on the mesh between steps."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 6)).astype("f4"), rng.integers(0, 3, 8)
    values = []
    for where in (None, mesh(), mesh(sharded_state="data"), mesh(fully_sharded="data")):
        burn.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        cross = lambda m, x, y: nn.CrossEntropyLoss()(m(x), y)  # noqa: E731
        step = burn.train.step(model, cross, optim.SGD(model, lr=0.1, momentum=0.9), mesh=where)
        values.append([float(step(x, y)) for _ in range(4)])
    for found in values[1:]:
        np.testing.assert_allclose(found, values[0], rtol=0, atol=2e-6)
    return {"apart": float(np.abs(np.subtract(values[1:], values[0])).max())}


@case
def lost() -> dict[str, Any]:
    """A process that ends in the middle: the error of the others names it."""
    step = _small_step()
    x = np.ones((8, 6), np.float32)
    step(x)
    if processes.rank() == processes.count() - 1:
        os._exit(9)
    try:
        for _ in range(3):
            step(x)
        raise AssertionError("a lost process is no error")
    except DistributedError as error:
        print(json.dumps({"case": "lost", "text": str(error)}), flush=True)
        os._exit(0)


@case
def failed() -> dict[str, Any]:
    """A check of data that fails on one GPU: the errors of the others name it, and later steps are refused on all."""
    burn.manual_seed(3)
    model = nn.Embedding(5, 3)
    step = burn.train.step(model, lambda m, x: (m(x) ** 2).mean(), optim.SGD(model, lr=0.1), mesh=mesh())
    rows, last = np.arange(8) % 5, processes.count() - 1
    step(rows)
    wrong = np.where(np.arange(8) == 7, 99, rows)  # a row of the last process
    for x in (wrong, rows):
        try:
            for _ in range(4):  # NCCL's collectives end behind the step that submits them
                step(x)
            raise AssertionError("that is no error")
        except burn.BurnError as error:
            text = str(error)
        assert "99" in text, text
        if x is rows or processes.rank() != last:
            assert f"rank {last} of {last + 1} has failed" in text, text
    print(json.dumps({"case": "failed", "text": text}), flush=True)
    os._exit(0)


def _small_step() -> Any:
    burn.manual_seed(3)
    model = nn.Linear(6, 3)
    return burn.train.step(model, lambda m, x: (m(x) ** 2).mean(), optim.SGD(model, lr=0.1), mesh=mesh())


if __name__ == "__main__":
    driver = simulate()
    processes.initialize(engine="burn")
    for name in sys.argv[1:]:
        made = CASES[name]()
        driver.check()
        if processes.rank() == 0:
            print(json.dumps({"case": name, **made}), flush=True)
