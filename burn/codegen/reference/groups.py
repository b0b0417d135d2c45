"""Groups: the kernels of one, described as for any device, run by the interpreter of kernels."""

from __future__ import annotations

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.reference.machine import Machine, empty
from burn.codegen.reference.operators import runs
from burn.dialect.control import Group
from burn.kernels import interpret
from burn.kernels.builders.builder import shared_buffers
from burn.runtime.abi import Status


@runs("group")
def _group(machine: Machine, group: Group) -> None:
    for inner in group.ops:
        machine.check_sizes(inner)
    calls = machine.code.kernels(group)
    results = [machine.empty(result) for result in group.operation.results]
    memory: dict[str, list[np.ndarray]] = {
        "in": [machine.read(v).reshape(-1) for v in group.operation.operands],
        "out": [result.reshape(-1) for result in results],
        "shared": [empty((machine.dim(b.elements),), b.dtype) for b in shared_buffers(calls)],
    }
    try:
        with np.errstate(all="ignore"):
            for call in calls:
                buffers = [None if b is None else memory[b[0]][b[1]] for b in call.bindings]
                interpret.run(call.kernel, buffers, machine.sizes, machine.watch)
    except interpret.IndexOutOfRange as error:
        failed(Status.INDEX_OUT_OF_RANGE, error.site, error.index)
    machine.give(group, *results)
