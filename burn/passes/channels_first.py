"""Convolutions of one tap that nothing else makes channels-last, as matmuls of channels-first images.

`layout` makes every convolution channels-last, which copies the images where they come from an input or become a result. In a
network those copies are few. In a region of pointwise ops and convolutions of one tap they can take as long as the rest. There
each image is multiplied by the weight from the left. Its pixels are contiguous columns, also in groups of few channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, reshape
from burn.dialect.contraction import Conv
from burn.dialect.dims import Dim, estimate, product
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.program import Program
from burn.dialect.query import blocks, op_of, result_type
from burn.dialect.types import type_of
from burn.kernels.preferences import PointwiseRegion
from burn.passes.constants import Constants
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.read_pixels import dense_strides, slice_read

DTYPES = ("float32", "float64")
"""Narrower numbers are multiplied in pairs along the depth, which a channels-last image has contiguous."""


@register
@dataclass(frozen=True)
class ChannelsFirst:
    """For regions whose copies by `layout` would take longer than they save (`Preferences.channels_first`)."""

    name: ClassVar[str] = "channels_first"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        is_preferred, count = env.preferences.channels_first, 0
        if is_preferred is not None:
            with context():
                for block in blocks(program.block):
                    for region in list(_regions(block)):
                        if is_preferred(region.sizes()):
                            _Rewriter(region).run()
                            count += sum(isinstance(op, Conv) for op in region.ops)
        return {"channels first": count}


@dataclass
class _Region:
    """Convolutions of one tap that are connected by pointwise ops, in the order of the program. Numbers are those of one pixel.

    is_closed: images have one size, come from inputs and constants, and nothing else but the block's end reads them."""

    ops: list[Op] = field(default_factory=list)
    multiplications: int = 0
    copied: int = 0
    between: int = 0
    is_closed: bool = True

    def sizes(self) -> PointwiseRegion:
        """The sizes by which a target decides about the region."""
        results = [result_type(op) for op in self.ops if isinstance(op, Conv)]
        outputs = tuple(result.shape[1] for result in results)
        pixels = product(_image(self.ops[0]))
        return PointwiseRegion(results[0].dtype, pixels, self.multiplications, self.copied, self.between, outputs)


def _regions(block: ir.Block) -> Iterator[_Region]:
    """The closed regions of a block."""
    constant, order = Constants(), list(block.operations)
    seen: set[ir.Operation] = set()
    for operation in order:
        op = operation.opview
        if isinstance(op, Conv) and op.operation not in seen:
            region = _region(op, seen, constant)
            if region.is_closed:
                inside = {each.operation for each in region.ops}
                region.ops = [each.opview for each in order if each.operation in inside]
                yield region


def _region(start: Conv, seen: set[ir.Operation], constant: Constants) -> _Region:
    found, todo = _Region(), [start.operation]
    crossing: set[ir.Value] = set()  # images that come from outside, or leave the region
    seen.add(start.operation)

    def visit(operation: ir.Operation) -> None:
        if operation not in seen:
            seen.add(operation)
            todo.append(operation)

    for operation in todo:  # grows
        op = operation.opview
        if not _fits(op, start):
            found.is_closed = False
            continue
        found.ops.append(op)
        result = op.operation.results[0]
        if isinstance(op, Conv):
            found.multiplications += estimate(product(type_of(op.weight).shape))
        for value in (op.x,) if isinstance(op, Conv) else op.operation.operands:
            producer = op_of(value)
            if producer is not None and not constant(value):
                visit(producer.operation)
            elif producer is None and (isinstance(op, Conv) or type_of(value).shape[2:] == type_of(result).shape[2:]):
                crossing.add(value)  # of an image with strides, as many pixels as results
        for use in result.uses:
            reader = use.owner.operation
            if reader.name in ("burn.return", "burn.yield"):
                crossing.add(result)
            else:
                found.is_closed &= not (isinstance(reader.opview, Conv) and reader.opview.weight == result)
                visit(reader)
    found.copied = sum(estimate(type_of(value).shape[1]) for value in crossing)
    found.between = sum(
        estimate(type_of(op.x).shape[1]) for op in found.ops if isinstance(op, Conv) and op.x not in crossing
    )
    return found


def _fits(op: ir.OpView, start: Conv) -> bool:
    """True for an op that a region may contain: its image has the size of the others."""
    if not isinstance(op, Conv | Pointwise) or op.operation.block != start.operation.block:
        return False
    return _image(op) == _image(start) and (
        _has_one_tap(op) if isinstance(op, Conv) else isinstance(_channels(op), int)
    )


def _channels(op: Op) -> Dim:
    return result_type(op).shape[1]


def _image(op: Op) -> tuple[Dim, ...]:
    """The sizes of a result of an op in a region, without channels."""
    shape = result_type(op).shape
    return (*shape[:1], *shape[2:])


def _has_one_tap(op: Conv) -> bool:
    """True for a convolution of one tap without padding and another type of result."""
    shape = type_of(op.weight).shape
    one = {*shape[2:], *dense_strides(op)} == {1} and {*op.low, *op.high} == {0}
    plain = op.layout == "first" and op.dtype is None and type_of(op.x).dtype in DTYPES
    return one and plain and all(isinstance(d, int) for d in shape)


class _Rewriter:
    """Builds the ops of a region on images [N, groups, channels of a group, pixels]: an epilogue then has the shape of the
    matmul before it."""

    def __init__(self, region: _Region) -> None:
        self.region = region
        self.made: dict[ir.Value, ir.Value] = {}
        self.batch, *self.sizes = _image(region.ops[0])

    def run(self) -> None:
        for op in self.region.ops:
            with op.operation.location, ir.InsertionPoint(op.operation):
                self.made[op.operation.results[0]] = self._multiplied(op) if isinstance(op, Conv) else self._applied(op)
        for op in reversed(self.region.ops):
            result = op.operation.results[0]
            with op.operation.location, ir.InsertionPoint(op.operation):
                result.replace_all_uses_with(reshape(self.made[result], type_of(result).shape))
            op.operation.erase()

    def _multiplied(self, op: Conv) -> ir.Value:
        outputs, inputs, *_ = type_of(op.weight).shape
        assert isinstance(outputs, int)
        shape = (self.batch, op.groups, outputs // op.groups, inputs)
        weight = broadcast_to(reshape(op.weight, shape[1:]), shape)
        x = op.x if op.x in self.made else slice_read(op, op.x, range(2, 2 + len(op.strides)))
        x = self._image_of(x, op.groups)
        return ops.dot_general(weight, x, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(3,), rhs_contract=(2,))

    def _applied(self, op: Op) -> ir.Value:
        channels = _channels(op)
        known = (type_of(self.made[v]).shape for v in op.operation.operands if v in self.made)
        groups = next((shape[1] for shape in known if shape[1] * shape[2] == channels), 1)
        return type(op).build(*(self._image_of(v, groups) for v in op.operation.operands), **op.attrs)

    def _image_of(self, value: ir.Value, groups: Dim) -> ir.Value:
        """An operand with channels in groups and all pixels in one axis. Axes along which it is broadcast have one element."""
        found = self.made.get(value)
        shape = type_of(value).shape
        batch, channels, *sizes = (*(1,) * (len(self.sizes) + 2 - len(shape)), *shape)
        if channels == 1:
            groups = 1
        if found is None and {*sizes} != {1} and sizes != self.sizes:
            sizes = self.sizes
            value = broadcast_to(value, (batch, channels, *sizes))
        return reshape(value if found is None else found, (batch, groups, channels // groups, product(sizes)))
