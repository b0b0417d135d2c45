"""From fused groups to kernels: `kernels(group)` describes the loops, index maps and bodies that compute a `burn.group`.

Each kind of group has one builder in `BUILDERS` and a file of its own. No back end is known here.
"""

from __future__ import annotations

from collections.abc import Callable

from burn.dialect.control import Group
from burn.kernels.builders import (
    attention,
    attention_gradient,
    contract,
    cumulative,
    joined,
    loop,
    reduce,
    scatter,
    tiles,
    window,
)
from burn.kernels.builders.builder import Call
from burn.kernels.wants import Wants

BUILDERS: dict[str, Callable[[Group, Wants], list[Call]]] = {
    "loop": loop.build,
    "reduce": reduce.build,
    "window": window.build,
    "contract": contract.build,
    "attention": attention.build,
    "attention_gradient": attention_gradient.build,
    "cumulative": cumulative.build,
    "scatter": scatter.build,
    "split": tiles.split,
    "join": tiles.join,
    "joined": joined.build,
}


def kernels(group: Group, wants: Wants) -> list[Call]:
    """The kernels of a group, in the order they run, as a device wants them."""
    return BUILDERS[group.kind](group, wants)
