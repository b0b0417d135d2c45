"""Strided transposed convolutions as convolutions that write their results next to each other, which are then interleaved.

The general decomposition adds the dilated results of the phases, so that each result is a sum of as many terms under conditions
as there are phases. Here all phases have equally many results, as channels of one tensor, and one copy interleaves them. It
joins the ops and the transpose that follow.

Its convolutions compute some results that are then cropped. A plan must cost less than the general decomposition.

With few outputs, a convolution for each phase leaves most lanes of a vector empty. Neighbouring phases become one convolution
then. Phases with fewer taps get zeros in their kernel if that costs less than a convolution of their own. The copy writes
zeros for phases without taps behind the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import prod
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.convolution import MOST_PHASES, ConvTranspose
from burn.dialect.dims import Dim, estimate
from burn.dialect.mlir import ir
from burn.dialect.phases import Phases, arranged, by_taps, kernel_of, separate, whole
from burn.dialect.program import Program
from burn.dialect.types import type_of
from burn.kernels.builders.matrix import MIN_GROUP_CHANNELS
from burn.kernels.preferences import PhaseCosts
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.replace import replace_ops

SINGLE = 4
"""The addition of terms takes so many times as long if the outputs of a pixel do not fill a vector."""

Plan = list[tuple[Phases, ...]]
"""The phases of each axis for every convolution, in the order of their results."""


@register
@dataclass(frozen=True)
class InterleavePhases:
    """For targets that prefer it (`Preferences.interleaved_phases`), whose matmuls write into a concat's result. Kernels of open
    sizes stay."""

    name: ClassVar[str] = "interleave_phases"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        costs = env.preferences.interleaved_phases
        if costs is None:
            return {"interleaved": 0}
        return {"interleaved": replace_ops(program, ConvTranspose, lambda op: _rewritten(op, costs))}


def _rewritten(op: ConvTranspose, costs: PhaseCosts) -> ir.Value | None:
    _, outputs, *kernel = type_of(op.weight).shape
    numbers = (outputs, *kernel, *op.low, *op.high)
    if not all(isinstance(d, int) for d in numbers) or 0 in (outputs, *kernel) or set(op.strides) <= {1}:
        return None
    if tuple(kernel) == tuple(op.strides) and op.groups == 1 and not any((*op.low, *op.high, *op.extra)):
        return None  # without overlap, one matmul computes all phases
    plan = _chosen(op, costs)
    if plan is None:
        return None
    with op.operation.location, ir.InsertionPoint(op.operation):
        return _built(op, plan)


def _chosen(op: ConvTranspose, costs: PhaseCosts) -> Plan | None:
    """The cheapest plan, with the fewest convolutions. None if the general decomposition is as cheap."""
    best, least = None, (_general_cost(op, costs), 0)
    for plan in _plans(op):
        zeros = _has_zeros(op, plan)
        if len(plan) > MOST_PHASES or (zeros and costs.zeros is None):
            continue
        cost = _cost(op, plan, costs.lanes, costs.stored) * _excess(op, plan)
        cost, count = cost / (1 - (costs.zeros or 0) if zeros else 1), len(plan)
        if (cost, count) < least:
            best, least = plan, (cost, count)
    return best


def _plans(op: ConvTranspose) -> Iterator[Plan]:
    """Before one axis each phase is by itself, in that axis those with equally many taps are together, and behind it all are
    together. The results of a convolution are neighbours then. With several groups, all phases are separate, or all together:
    the results of a group are neighbours. Those of depthwise convolutions are separate."""
    rows = list(zip(_kernel(op), op.strides, op.dilations, strict=True))
    for pivot in range(-1, len(rows) + 1):
        joined = rows[max(pivot, 0) :]
        if any(s > 1 and t > 1 for _, s, t in joined):
            continue
        axes = [
            separate(k, s, t) if i < pivot or s == 1 else by_taps(k, s) if i == pivot else whole(k, s)
            for i, (k, s, t) in enumerate(rows)
        ]
        plan = list(combinations(*axes))
        separated = all(p.count == 1 for phases in plan for p in phases)
        if op.groups == 1 or separated or (len(plan) == 1 and _inputs(op) >= MIN_GROUP_CHANNELS):
            yield plan


def _inputs(op: ConvTranspose) -> int:
    """The input channels of a group."""
    return estimate(type_of(op.weight).shape[0]) // op.groups


def _kernel(op: ConvTranspose) -> list[int]:
    return [k for k in type_of(op.weight).shape[2:] if isinstance(k, int)]


def _has_zeros(op: ConvTranspose, plan: Plan) -> bool:
    """True if a convolution multiplies by zeros beyond the kernel's end."""
    return any(
        p.taps and p.element + p.count - 1 + (p.taps - 1) * p.step >= k
        for phases in plan
        for k, p in zip(_kernel(op), phases, strict=True)
    )


def _cost(op: ConvTranspose, plan: Plan, lanes: int, stored: int) -> int:
    """Multiplications of vectors for one result of every phase, and the stores of zeros."""
    depth, channels, total = _inputs(op), estimate(type_of(op.weight).shape[1]) * op.groups, 0
    for phases in plan:
        vectors = -(-prod(p.count for p in phases) * channels // lanes)
        total += vectors * (depth * prod(p.taps for p in phases) + stored)
    zeros = prod(op.strides) - prod(_counts(plan))
    return total + -(-zeros * channels // lanes) * stored


def _counts(plan: Plan) -> list[int]:
    """The phases of each axis, those without taps behind the others left out."""
    return [max(p.first + p.count for p in axis) for axis in zip(*plan, strict=True)]


def _general_cost(op: ConvTranspose, costs: PhaseCosts) -> int:
    """That of the general decomposition, which adds as many terms for each result as there are phases with taps."""
    strides, kernel = op.strides, _kernel(op)
    phases = prod(strides)
    if phases > MOST_PHASES:  # a convolution of the dilated input
        dilated = [Phases(0, s, k, 0, 1) for k, s in zip(kernel, strides, strict=True)]
        return _cost(op, [tuple(dilated)], costs.lanes, costs.stored)
    plan = list(combinations(*(separate(k, s, t) for k, s, t in zip(kernel, strides, op.dilations, strict=True))))
    terms = sum(all(p.taps for p in each) for each in plan)
    few = estimate(type_of(op.weight).shape[1]) * op.groups < costs.lanes
    return _cost(op, plan, costs.lanes, terms * costs.added * (SINGLE if few else 1))


def _excess(op: ConvTranspose, plan: Plan) -> float:
    """The results that a plan computes, by those that are not cropped."""
    sizes, lengths = type_of(op.x).shape[2:], type_of(op.operation.results[0]).shape[2:]
    excess = 1.0
    for axis, (size, length) in enumerate(zip(sizes, lengths, strict=True)):
        row = _Rows.of(op, axis, plan, size)
        excess *= estimate(row.end - row.start) * op.strides[axis] / max(1, estimate(length))
    return excess


def _built(op: ConvTranspose, plan: Plan) -> ir.Value:
    """The convolutions of a plan, and their results interleaved."""
    batch, _, *inputs = type_of(op.x).shape
    result = type_of(op.operation.results[0])
    rows = [_Rows.of(op, axis, plan, size) for axis, size in enumerate(inputs)]
    counts = tuple(row.end - row.start for row in rows)
    parts = []
    for phases in plan:
        if all(p.taps for p in phases):
            parts.append(_convolution(op, phases, rows))
        else:
            shape = (batch, result.shape[1] * prod(p.count for p in phases), *counts)
            parts.append(ops.full(shape=shape, dtype=result.dtype, value=0.0))
    found, groups, phases = parts[0], op.groups, _counts(plan)
    if len(parts) > 1:  # each has one phase, or there is one group: phases are the outer axis
        found, groups = ops.concat(parts, axis=1), 1
    low = [p - row.start * s for p, row, s in zip(op.low, rows, op.strides, strict=True)]
    return arranged(found, op.strides, phases, groups, low, result.shape)


@dataclass(frozen=True)
class _Rows:
    """Indices of results along an axis, in strides: from `start` to `end`. Beside those that are not cropped they are as many
    more as each convolution needs for a padding that is not negative."""

    start: int
    end: Dim
    size: Dim

    @staticmethod
    def of(op: ConvTranspose, axis: int, plan: Plan, size: Dim) -> _Rows:
        low, high, stride = op.low[axis], op.high[axis], op.strides[axis]
        assert isinstance(low, int) and isinstance(high, int)
        used = [phases[axis] for phases in plan if all(p.taps for p in phases)]
        start = min(low // stride, *(p.reach for p in used))
        longer = (_kernel(op)[axis] - 1) * op.dilations[axis] + 1 + op.extra[axis] - high - stride
        last = -(-longer // stride)  # the last result that is not cropped is less than so many strides behind x's end
        return _Rows(start, size + max(last, *(p.lead for p in used)), size)


def _convolution(op: ConvTranspose, phases: Sequence[Phases], rows: Sequence[_Rows]) -> ir.Value:
    options: dict[str, Any] = {
        "strides": (1,) * len(phases),
        "dilations": tuple(p.apart for p in phases),
        "low": tuple(p.reach - row.start for p, row in zip(phases, rows, strict=True)),
        "high": tuple(row.end - row.size - p.lead for p, row in zip(phases, rows, strict=True)),
        "groups": op.groups,
    }
    return ops.conv(op.x, kernel_of(op.weight, phases, op.groups), **options)
