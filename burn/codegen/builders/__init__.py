"""From fused groups to kernels: `kernels(group)` describes the loops, index maps and bodies that compute a `burn.group`.

Each kind of group has one builder in `BUILDERS` and a file of its own. No back end is known here.
"""

from __future__ import annotations

from collections.abc import Callable

from burn.codegen.builders.builder import Call
from burn.codegen.builders.contract import contract
from burn.codegen.builders.cumulative import cumulative
from burn.codegen.builders.loop import loop
from burn.codegen.builders.reduce import reduce
from burn.codegen.builders.scatter import scatter
from burn.codegen.builders.window import window
from burn.dialect.control import Group

BUILDERS: dict[str, Callable[[Group], list[Call]]] = {
    "loop": loop,
    "reduce": reduce,
    "window": window,
    "contract": contract,
    "cumulative": cumulative,
    "scatter": scatter,
}


def kernels(group: Group) -> list[Call]:
    """The kernels of a group, in the order they run."""
    return BUILDERS[group.kind](group)
