"""Loads and fetched indices of a loop kernel that are the same for all lanes: a printer hoists them out of the vectorised loop.

LLVM does not. It has to assume that the loop's stores change them, and a fetched index calls the runtime if it is out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from burn.dialect.dims import atoms
from burn.kernels.body import Fetched, Load, LoopKernel, Scalar, Where, children, own_dims


def uniform(kernel: LoopKernel, varies: Callable[[Scalar], bool]) -> Iterator[Load | Fetched]:
    """The loads and indices, each once. varies: true for a scalar that depends on the lane.

    Buffers that the kernel writes are left out, and what a condition guards. A kernel with other loops or reductions, or whose
    stages run in order, has none.
    """
    stages = kernel.stages
    if any(stage.loops or stage.reductions or stage.order != "parallel" for stage in stages):
        return
    written = {write.buffer for stage in stages for write in stage.writes}
    found: set[int | Fetched] = set()
    todo = [scalar for stage in reversed(stages) for scalar in reversed(list(stage.scalars))]
    while todo:
        node = todo.pop()
        if id(node) in found or isinstance(node, Where):
            continue
        found.add(id(node))
        if isinstance(node, Load) and not varies(node):
            if node.buffer not in written:
                yield node
            continue
        for atom in (a for d in own_dims(node) for a in atoms(d)):
            if isinstance(atom, Fetched) and atom not in found and not varies(atom.source):
                found.add(atom)
                yield atom
        todo += reversed(children(node))
