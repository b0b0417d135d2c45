"""From fused groups to kernels: `kernels(group)` describes the loops, index maps and bodies that compute a
`burn.group`.

Each kind of group has one builder in `BUILDERS`, in a file of its own. Builders depend on no back end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from burn.dialect.control import Group
from burn.kernels.builders import (
    attention,
    attention_gradient,
    concat,
    contract,
    cumulative,
    foreach,
    loop,
    reduce,
    scatter,
    segments,
    sort,
    tiles,
    window,
)
from burn.kernels.builders.builder import Call
from burn.kernels.preferences import Preferences
from burn.kernels.structural_key import structural_key

BUILDERS: dict[str, Callable[[Group, Preferences], list[Call]]] = {
    "loop": loop.build,
    "reduce": reduce.build,
    "window": window.build,
    "contract": contract.build,
    "attention": attention.build,
    "attention_gradient": attention_gradient.build,
    "cumulative": cumulative.build,
    "scatter": scatter.build,
    "segments": segments.build,
    "sort": sort.build,
    "split": tiles.split,
    "join": tiles.join,
    "concat": concat.build,
    "foreach": foreach.build,
}


KEPT = 256
"""Groups whose kernels are cached: `donate` and the code generator need the same ones, and layers repeat in programs."""

_known: dict[Hashable, list[Call]] = {}


def kernels(group: Group, preferences: Preferences) -> list[Call]:
    """Returns the kernels of a group in execution order, described by a target's preferences."""
    key = structural_key(group), preferences
    calls = _known.get(key)
    if calls is None:
        calls = BUILDERS[group.kind](group, preferences)
        if all(call.section is None for call in calls):  # a section refers to the ops of its own group
            if len(_known) >= KEPT:
                _known.clear()
            _known[key] = calls
    return list(calls)
