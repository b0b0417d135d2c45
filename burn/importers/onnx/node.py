"""The argument of an op's builder: one ONNX node with its operands as values of the program. Enter at `Node` and `onnx_op`.

    @onnx_op("Softmax")
    def softmax(node: Node) -> ir.Value:
        return ops.softmax(node.input(0), axis=node.int("axis", -1 if node.opset >= 13 else 1))

A builder builds at the current insertion point and returns the node's outputs: one value, or a list of them (None for
one that the node does not name). Differences between opset versions are decided in the builder, by `node.opset`.

Every operand and attribute that the file gives must be read by the builder, or be marked by `no_effect` with a reason;
the importer refuses the node otherwise (`unread`). A builder therefore reads what applies, and only that.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from burn.dialect import ops
from burn.dialect.compose import number
from burn.dialect.dims import Dim, Expr, symbol
from burn.dialect.mlir import ir
from burn.dialect.types import INTEGERS, TensorType, type_of
from burn.errors import Problem
from burn.importers.onnx.attributes import Attributes
from burn.importers.onnx.contents import Content
from burn.importers.onnx.functions import opset_of
from burn.importers.onnx.reads import Operands, Reads
from burn.importers.onnx.tensors import TensorReader
from burn.importers.regions import discard

if TYPE_CHECKING:
    from burn.importers.onnx.build import Importer

Builder = Callable[["Node"], Any]
BUILDERS: dict[tuple[str, str], Builder] = {}
"""(domain, operator) -> its builder; ai.onnx is the domain ''."""


Rank = int | tuple[int, ...] | None
"""How many axes an operand has: so many, one of several numbers, or any."""


def onnx_op(*names: str, domain: str = "", ranks: Sequence[Rank] = ()) -> Callable[[Builder], Builder]:
    """Enters a builder into the table under one or more operators. `ranks`: the ranks that operands must have, in order, checked
    before the builder runs."""

    def register(builder: Builder) -> Builder:
        @functools.wraps(builder)
        def checked(node: Node) -> Any:
            node.need_ranks(*ranks)
            return builder(node)

        for name in names:
            if (domain, name) in BUILDERS:
                raise ValueError(f"{domain}::{name} has two builders")
            BUILDERS[domain, name] = checked if ranks else builder
        return builder

    return register


@dataclass
class Node(Attributes):
    """One node: its operator, attributes and operands.

    `inputs`: values of the program, None for an absent operand, or another builder's result for a sequence or an optional.
    `outputs`: names, '' for an unused one. `opset`: the version of the node's domain.
    """

    proto: onnx.NodeProto
    importer: Importer
    domain: str
    opset: int
    name: str
    inputs: Operands
    reads: Reads

    @staticmethod
    def of(
        proto: onnx.NodeProto, importer: Importer, domain: str, opset: int, name: str, inputs: Sequence[Any]
    ) -> Node:
        """A node without recorded reads."""
        reads = Reads()
        return Node(proto, importer, domain, opset, name, Operands(list(inputs), reads), reads)

    def standard(self, opset: int) -> Node:
        """This node, to be read by the builder of a standard operator as of that opset."""
        return replace(self, opset=opset)

    @property
    def tensors_of_file(self) -> TensorReader:
        return self.importer.file.tensors

    @property
    def outputs(self) -> list[str]:
        return list(self.proto.output)

    @property
    def written_opset(self) -> int:
        return opset_of(self.proto, self.importer.opsets)

    def needs_output(self, index: int) -> bool:
        """True if the node names the output."""
        return index < len(self.proto.output) and self.proto.output[index] != ""

    def gives_output(self, index: int) -> bool:
        """True if an output of the node is one of the model's."""
        return self.proto.output[index] in self.importer.output_names

    def declared(self, index: int) -> onnx.TensorShapeProto | None:
        """The shape that the model declares for an output, in whichever of its graphs; None where it says nothing."""
        return self.importer.declared_shapes.get(self.outputs[index])

    def declared_ranks(self) -> list[int | None]:
        """The ranks that the model declares for this node's outputs; None where it says nothing."""
        shapes = [self.declared(i) for i in range(len(self.outputs))]
        return [None if shape is None else len(shape.dim) for shape in shapes]

    # ---- operands ----------------------------------------------------------------------------------------------------
    def has_input(self, index: int) -> bool:
        """True if the node has the operand. This does not count as reading it."""
        return self._peek(index) is not None

    def _peek(self, index: int) -> Any:
        return next(itertools.islice(self.inputs.peek(), index, None), None)

    def _tensor(self, index: int) -> ir.Value | None:
        value = self._peek(index)
        if value is not None and not isinstance(value, ir.Value):
            self.fail(f"operand {index} is {_article(type(value).__name__)}, not a tensor")
        return value

    def input(self, index: int) -> Any:
        """An operand as a tensor value; None when it is absent. Fails for a sequence."""
        value = self._tensor(index)
        self.reads.inputs.add(index)
        return value

    def tensors(self) -> list[ir.Value]:
        """Every operand, for ops that take any number of them; each must be there."""
        if not self.inputs:
            self.fail("needs at least one operand")
        return [self.required(i) for i in range(len(self.inputs))]

    def required(self, index: int) -> ir.Value:
        value = self.input(index)
        if value is None:
            self.fail(f"operand {index} is missing")
        return value

    def type(self, index: int) -> TensorType:
        """An operand's type. This is no read of its elements: `type_only` is, for operators that need no more."""
        value = self._tensor(index)
        if value is None:
            self.fail(f"operand {index} is missing")
        return type_of(value)

    def type_only(self, index: int) -> TensorType:
        """The type of an operand whose elements the operator does not use."""
        self.reads.inputs.add(index)
        return self.type(index)

    def unread(self) -> list[Problem]:
        """A problem for each operand and attribute that the file gives and nothing has read."""
        attributes = self.reads.unread_attributes(self.proto, self.domain, self.opset)
        inputs = self.reads.unread_inputs(self.inputs)
        return [
            *(self.problem("the attribute is not supported here", name) for name in attributes),
            *(self.problem(f"operand {index} ('{self.proto.input[index]}') is not supported here") for index in inputs),
        ]

    def content(self, index: int) -> Content | None:
        """The known contents of a small operand."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return self.importer.content(value) if isinstance(value, ir.Value) else None

    def constant(self, index: int) -> np.ndarray | None:
        """An operand's elements when all of them are known numbers: an initializer, or folded from small ones."""
        value = self.input(index)
        return None if value is None else self.importer.constant(value)

    def need_constant(self, index: int, what: str) -> np.ndarray:
        """`constant`, or a problem saying that `what` must be known when the model is imported."""
        array = self.constant(index)
        if array is None:
            self.fail(f"{what} (operand {index}) must be a constant")
        return array

    def scalar(self, index: int) -> Any:
        """The one element of an operand, as a Python number, a symbolic size, or None when it is not known."""
        content = self.content(index)
        if content is not None and content.array.size == 1:
            element = content.array.reshape(-1)[0]
            return element if isinstance(element, (int, float, bool, Expr)) else None
        return None

    def need_ranks(self, *ranks: Rank) -> None:
        """Fails where an operand that is there has another number of axes."""
        for index, rank in enumerate(ranks):
            allowed = (rank,) if isinstance(rank, int) else rank
            if allowed is not None and self.has_input(index) and self.type(index).rank not in allowed:
                said = " or ".join(map(str, allowed))
                self.fail(
                    f"operand {index} must have {said} {'axis' if said == '1' else 'axes'}, not {self.type(index)}"
                )

    def dims(self, index: int) -> tuple[Dim, ...] | None:
        """The elements of an integer operand of rank 0 or 1 as sizes, or None when they come from data."""
        content = self.content(index)
        if content is None:
            array = self.constant(index)
            if array is None or array.ndim > 1 or array.dtype.kind not in "iu":
                return None
            return tuple(int(v) for v in array.reshape(-1))
        if content.dtype not in INTEGERS or content.array.ndim > 1:
            return None
        return tuple(content.array.reshape(-1))

    def read_dims(self, index: int, minimum: int = 0) -> tuple[Dim, ...]:
        """`dims`, or sizes that the program reads from the operand when it runs. Its length must be known.

        minimum: a smaller element is an error when the program runs."""
        known = self.dims(index)
        if known is not None:
            return known
        type_ = self.type(index)
        if type_.dtype not in INTEGERS or type_.rank > 1:
            self.fail(f"operand {index} must be integers of rank 0 or 1, not {type_}")
        length = type_.shape[0] if type_.rank else 1
        if not isinstance(length, int):
            self.fail(f"the number of sizes in operand {index} is not known: {type_}")
        if length > 64:
            self.fail(f"operand {index} holds {length} sizes, more than the 64 axes that a tensor may have")
        value = self.required(index)
        return tuple(self.read_dim(value, k, minimum) for k in range(length))

    def read_one(self, index: int, minimum: int = 0) -> Dim:
        """`read_dims` of an operand that must hold one element."""
        if self.type(index).elements != 1:
            self.fail(f"operand {index} must be one number, not {self.type(index)}")
        return self.read_dims(index, minimum)[0]

    def read_dim(self, value: ir.Value, position: int = 0, minimum: int = 0, hint: str = "") -> Expr:
        """A new size: an element (in memory order) of an integer tensor, read when the program runs."""
        if type_of(value).dtype != "int64":
            value = ops.cast(value, dtype="int64")
        name = self.fresh(hint or f"{self.op.lower()}_size")
        ops.read_dim(value, symbol=name, position=position, minimum=minimum)
        return symbol(name)

    def fresh(self, hint: str = "size") -> str:
        """A size's name that nothing else in the program has."""
        return self.importer.names.fresh(hint)

    # ---- values ------------------------------------------------------------------------------------------------------
    def known(self, content: Content) -> ir.Value:
        """A tensor of known elements."""
        return self.importer.known(content)

    def sizes(self, dims: Sequence[Dim], dtype: str = "int64") -> ir.Value:
        """A vector of known sizes."""
        return self.known(Content.of(dtype, list(dims)))

    def array(self, array: np.ndarray, hint: str = "") -> ir.Value:
        """A constant tensor: written out when it is small, else kept with the weights."""
        return self.importer.array(array, hint or f"{self.name}/{self.op}")

    def like(self, value: float, index: int = 0) -> ir.Value:
        """A scalar of an operand's element type."""
        return number(value, self.type(index).dtype)

    def default(self, index: int, value: float, dtype: str) -> ir.Value:
        """An operand, or a scalar if it is absent."""
        operand = self.input(index)
        return number(value, dtype) if operand is None else operand

    def build_subgraph(self, graph: onnx.GraphProto, inputs: Sequence[Any]) -> list[Any]:
        """Builds a graph attribute's nodes at the insertion point, the outer names visible, and returns its outputs."""
        return self.importer.build_subgraph(graph, inputs, self)

    def attempt(self, build: Callable[[], Any]) -> tuple[Any, list[Problem]]:
        """Returns the result of `build`, or None and its problems; see Importer.attempt."""
        return self.importer.attempt(build)

    def discard(self, draft: ir.Operation) -> None:
        """Takes an op that was built on trial out of the program."""
        discard(draft, self.importer.discarded)

    def pick(self, options: int) -> int:
        """Which of several options to take where nothing here settles it: the first, or what the rest of the model needs."""
        return self.importer.choices.pick(next((o for o in self.outputs if o), self.name), options)

    # ---- training ----------------------------------------------------------------------------------------------------
    def trains(self, said: Any) -> Any:
        """True if the node computes as in training. The import for training or inference overrides `said`, the node's own
        setting."""
        opening = self.importer.opening
        return said if opening is None else opening.training

    def keep_statistic(self, index: int, new: ir.Value | None = None) -> None:
        """Notes that an operand is a running statistic, and what it is after the run."""
        opening, value = self.importer.opening, self.required(index)
        if opening is None:
            return
        if new is None:
            opening.keep(value)
            return
        if ir.InsertionPoint.current.block != self.importer.program.block:
            self.fail("running statistics inside of a branch or a loop are not followed in training")
        opening.renew(value, new)

    # ---- axes --------------------------------------------------------------------------------------------------------
    def axis(self, axis: int, rank: int, attribute: str = "axis") -> int:
        """A possibly negative axis as one of 0 .. rank - 1."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is out of range for rank {rank}", attribute)
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int, attribute: str = "axes") -> tuple[int, ...]:
        result = tuple(self.axis(int(a), rank, attribute) for a in axes)
        if len(set(result)) != len(result):
            self.fail(f"axes {list(axes)} repeat", attribute)
        return result


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
