"""A random program (`draw.py`) on the simulated devices of a mesh (`devices.py`), after the passes that the engine runs. Checked:

- all devices run the same collectives, in the same order, of tensors of the same types;
- no result of a collective is read before it is awaited;
- outputs are the blocks of those that numpy computes for the whole program.
"""

from __future__ import annotations

from math import prod

import numpy as np

from burn.distributed.spmd.programs import BEFORE
from burn.passes import pipeline
from burn.passes.partition import shardings_text
from burn.passes.sharding.grid import Axes, Grid
from tests.fuzz.runner import Outcome
from tests.fuzz.sharding.devices import Differ, run
from tests.fuzz.sharding.draw import drawn
from tests.importers.reference import Array, evaluate


def case(seed: int) -> Outcome:
    """The program of a seed."""
    own = drawn(seed)
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal([d for d in t.shape if isinstance(d, int)]) for t in own.program.input_types]
    if seed % 4 == 0:
        for array in arrays:
            array[rng.random(array.shape) < 0.1] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
    wanted = list(evaluate(own.program, dict(zip(own.program.input_names, arrays, strict=True))).values())
    pipeline.run(pipeline.parse(BEFORE), own.program)
    grids = [Grid(own.sizes, rank) for rank in range(prod(own.sizes.values()))]
    mesh = ",".join(f"{name}:{size}" for name, size in own.sizes.items())
    options = f"mesh={mesh} batch={own.batch} bucket={own.bucket} wait"
    options += f" inputs={shardings_text(own.inputs)} outputs={shardings_text(own.outputs)}"
    programs = []
    for grid in grids:
        programs.append(own.program.copy())
        pipeline.run(pipeline.parse(f"partition{{{options} rank={grid.rank}}},simplify"), programs[-1])
    given = [[block(x, axes, grid) for x, axes in zip(arrays, own.inputs, strict=True)] for grid in grids]
    try:
        found = run(programs, given)
    except Differ as error:
        return Outcome("collectives differ", f"{options}\n{error}")
    for grid, outputs in zip(grids, found, strict=True):
        for number, (got, whole, axes) in enumerate(zip(outputs, wanted, own.outputs, strict=True)):
            want = block(whole, axes, grid)
            scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))
            if want.shape != got.shape or not np.allclose(got, want, rtol=1e-8, atol=1e-8 * scale, equal_nan=True):
                return Outcome("numbers differ", f"{options}\noutput {number} of rank {grid.rank}")
    return Outcome("ok")


def block(x: Array, axes: Axes, grid: Grid) -> Array:
    """One device's block of an array."""
    for axis, names in enumerate(axes):
        if names:
            each = x.shape[axis] // grid.count(names)
            x = np.take(x, range(grid.position(names) * each, (grid.position(names) + 1) * each), axis)
    return x
