"""Recurrent layers: LSTM, GRU and the plain RNN, with all options of ONNX. Composites.

`_Recurrent` holds what the three share: operands, types and the loop over time. Each cell defines its number of gates
and its step. One dot product projects all inputs before the loop. A few steps are unrolled; otherwise they are a
`burn.loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.batching.rules import folded
from burn.dialect.compose import check_equal, dim_value, number, number_like, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand, same_type
from burn.dialect.types import TensorType, may_equal, type_of

UNROLLED_STEPS = 8
"""The most steps that are unrolled; a longer loop, or one of unknown length, is a `burn.loop`."""

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def clamp(x: ir.Value, low: float, high: float) -> ir.Value:
    return ops.clip(x, number_like(low, x), number_like(high, x))


@dataclass(frozen=True)
class Activation:
    """A cell's activation function: its formula and the defaults of its parameters."""

    apply: Callable[[ir.Value, float, float], ir.Value]
    alpha: float | None = None
    beta: float | None = None


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(lambda x, a, b: ops.relu(x)),
    "tanh": Activation(lambda x, a, b: ops.tanh(x)),
    "sigmoid": Activation(lambda x, a, b: ops.sigmoid(x)),
    "affine": Activation(lambda x, a, b: ops.add(ops.mul(x, number_like(a, x)), number_like(b, x)), 1.0, 0.0),
    "leakyrelu": Activation(lambda x, a, b: ops.leaky_relu(x, alpha=a), 0.01),
    "thresholdedrelu": Activation(
        lambda x, a, b: ops.select(ops.ge(x, number_like(a, x)), x, number_like(0.0, x)), 1.0
    ),
    "scaledtanh": Activation(
        lambda x, a, b: ops.mul(ops.tanh(ops.mul(x, number_like(b, x))), number_like(a, x)), 1.0, 1.0
    ),
    "hardsigmoid": Activation(lambda x, a, b: ops.hard_sigmoid(x, alpha=a, beta=b), 0.2, 0.5),
    "elu": Activation(lambda x, a, b: ops.elu(x, alpha=a), 1.0),
    "softsign": Activation(lambda x, a, b: ops.div(x, ops.add(ops.abs(x), number_like(1.0, x)))),
    "softplus": Activation(lambda x, a, b: ops.softplus(x)),
}
"""By name in lower case."""


Function = Callable[[ir.Value], ir.Value]


@dataclass
class Direction:
    """One direction of a layer: its weights, without the direction axis, and its functions."""

    recurrence: ir.Value  # [gates * hidden, hidden]
    hidden: int
    functions: list[Function]
    clip: float
    bias: ir.Value | None = None  # the recurrence's own [gates * hidden], if a cell needs it separately
    peephole: list[ir.Value] = field(default_factory=list)  # [hidden] for the input, output and forget gate

    def limited(self, x: ir.Value) -> ir.Value:
        return clamp(x, -self.clip, self.clip) if self.clip else x

    def gate(self, x: ir.Value, index: int, count: int = 1) -> ir.Value:
        """Gates index to index + count of [b, gates * hidden]."""
        batch = type_of(x).shape[0]
        return ops.slice(x, starts=(0, index * self.hidden), sizes=(batch, count * self.hidden), steps=(1, 1))

    def recur(self, h: ir.Value, index: int, count: int) -> ir.Value:
        """h [b, hidden] times the recurrent weights of some gates: [b, count * hidden]."""
        weight = self.recurrence
        if count * self.hidden != type_of(weight).shape[0]:
            starts, sizes = (index * self.hidden, 0), (count * self.hidden, self.hidden)
            weight = ops.slice(weight, starts=starts, sizes=sizes, steps=(1, 1))
        return ops.dot_general(h, weight, lhs_contract=(1,), rhs_contract=(1,))


class _Recurrent(Op):
    """Base of the layers. A cell gives GATES, ACTIVATIONS, STATES and `step`."""

    GATES: ClassVar[int]
    DEFAULTS: ClassVar[tuple[str, ...]]  # activation functions of one direction
    STATES: ClassVar[int] = 1  # h, or h and c

    @classmethod
    def step(cls, part: Direction, x: ir.Value, states: list[ir.Value], options: dict) -> list[ir.Value]:
        """The next states from the projected input [b, gates * hidden]."""
        raise NotImplementedError

    def flops(self) -> Dim:
        """Of the matmuls with `w` and `r` at each step. Counts the steps beyond a sequence's length."""
        steps, batch = type_of(self.x).shape[:2]
        return steps * batch * (type_of(self.w).elements + type_of(self.r).elements) * 2

    @classmethod
    def own_bias(cls, options: dict) -> bool:
        """True if the recurrence's bias is added separately from the input's."""
        return False

    @classmethod
    def check_layer(cls, x, w, r, b, lengths, states, peephole, options: dict) -> list[TensorType]:
        given = [t for t in (w, r, b, peephole, *states) if t is not None]
        same_type(cls, x, *given)
        if options["direction"] not in DIRECTIONS:
            cls.fail(f"'{options['direction']}' is none of {', '.join(DIRECTIONS)}", "direction")
        count = len(DIRECTIONS[options["direction"]])
        steps, batch = x.shape[:2]
        hidden = r.shape[-1]
        if not isinstance(hidden, int):
            cls.fail(f"the hidden size must be a number, not {hidden}")
        for name, have, want in cls._expected(x, w, r, b, lengths, states, peephole, count):
            if not may_equal(have.shape, want):
                cls.fail(f"{name} {have} must have shape [{', '.join(map(str, want))}]")
        if lengths is not None and lengths.dtype not in ("int32", "int64"):
            cls.fail(f"lengths must be int32 or int64, not {lengths.dtype}")
        names = [n.lower() for n in options["activations"]]
        if unknown := sorted(set(names) - ACTIVATIONS.keys()):
            cls.fail(f"unknown function {', '.join(unknown)}", "activations")
        if names and len(names) != count * len(cls.DEFAULTS):
            cls.fail(f"takes {count * len(cls.DEFAULTS)} functions, not {len(names)}", "activations")
        last = x.with_shape((count, batch, hidden))
        return [x.with_shape((steps, count, batch, hidden)), *[last] * cls.STATES]

    @classmethod
    def _expected(
        cls,
        x: TensorType,
        w: TensorType,
        r: TensorType,
        b: TensorType | None,
        lengths: TensorType | None,
        states: Sequence[TensorType | None],
        peephole: TensorType | None,
        count: int,
    ) -> list[tuple[str, TensorType, tuple[Dim, ...]]]:
        """The operands present: the name, the type, and the shape that x, r's last axis and `count` directions require."""
        batch, hidden = x.shape[1], r.shape[-1]
        operands = (
            ("w", w, (count, cls.GATES * hidden, x.shape[2])),
            ("r", r, (count, cls.GATES * hidden, hidden)),
            ("b", b, (count, 2 * cls.GATES * hidden)),
            ("peephole", peephole, (count, 3 * hidden)),
            ("lengths", lengths, (batch,)),
            *((f"initial state {i}", s, (count, batch, hidden)) for i, s in enumerate(states)),
        )
        return [(name, have, want) for name, have, want in operands if have is not None]

    @classmethod
    def build_layer(cls, x, w, r, b, lengths, states, peephole, options: dict) -> list[ir.Value]:
        steps, batch, _ = type_of(x).shape
        hidden = type_of(r).shape[-1]
        assert isinstance(hidden, int)
        directions = DIRECTIONS[options["direction"]]
        functions = resolve_activations(cls.DEFAULTS * len(directions), options)
        some, own = ([None if v is None else type_of(v) for v in vs] for vs in ((b, lengths, peephole), states))
        types_ = cls._expected(
            type_of(x), type_of(w), type_of(r), some[0], some[1], own, some[2], count=len(directions)
        )
        for name, have, want in types_:
            check_equal(have.shape, want, f"{cls.OP_NAME}: {name}'s shape")
        sequences, finals = [], []
        for index, reverse in enumerate(directions):
            count = len(cls.DEFAULTS)
            part = Direction(
                _row(r, index), hidden, functions[index * count : (index + 1) * count], options.get("clip") or 0.0
            )
            projected = ops.dot_general(x, _row(w, index), lhs_contract=(2,), rhs_contract=(1,))
            if b is not None:
                width = cls.GATES * hidden
                first, second = (ops.slice(_row(b, index), starts=(s,), sizes=(width,), steps=(1,)) for s in (0, width))
                if cls.own_bias(options):
                    part.bias = second
                else:
                    first = ops.add(first, second)
                projected = ops.add(projected, first)
            if peephole is not None:
                row = _row(peephole, index)
                part.peephole = [ops.slice(row, starts=(i * hidden,), sizes=(hidden,), steps=(1,)) for i in range(3)]
            zero = ops.full(shape=(batch, hidden), dtype=type_of(x).dtype, value=0.0)
            start = [zero if s is None else _row(s, index) for s in states]
            outputs, last = cls._walk(part, projected, start, lengths, reverse, steps, options)
            sequences.append(reshape(outputs, (steps, 1, batch, hidden)))
            finals.append([reshape(s, (1, batch, hidden)) for s in last])
        if len(directions) == 1:
            return [sequences[0], *finals[0]]
        return [ops.concat(sequences, axis=1), *(ops.concat(list(pair), axis=0) for pair in zip(*finals, strict=True))]

    @classmethod
    def _walk(
        cls,
        part: Direction,
        projected: ir.Value,
        states: list[ir.Value],
        lengths: ir.Value | None,
        reverse: bool,
        steps: Dim,
        options: dict,
    ) -> tuple[ir.Value, list[ir.Value]]:
        """All steps of one direction: outputs [steps, b, hidden] in the input's order, and the final states."""

        def step(time: ir.Value, states: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
            new = cls.step(part, ops.gather(projected, time, axis=0), states, options)
            output = new[0]
            if lengths is not None:  # past its end a sequence keeps its state and outputs zeros
                now = time if type_of(lengths).dtype == "int64" else ops.cast(time, dtype="int32")
                active = reshape(ops.lt(now, lengths), (type_of(lengths).shape[0], 1))
                new = [ops.select(active, n, s) for n, s in zip(new, states, strict=True)]
                output = ops.select(active, output, number_like(0.0, output))
            return new, output

        if isinstance(steps, int) and steps <= UNROLLED_STEPS:
            outputs: list[ir.Value] = []
            for index in range(steps):
                at = steps - 1 - index if reverse else index
                states, output = step(number(at, "int64"), states)
                outputs.append(reshape(output, (1, *type_of(output).shape)))
            if not outputs:
                return ops.full(shape=(0, *type_of(states[0]).shape), dtype=type_of(states[0]).dtype), states
            return ops.concat(outputs[::-1] if reverse else outputs, axis=0), states
        return loop_over(steps, states, type_of(states[0]), step, reverse)


def loop_over(
    steps: Dim,
    states: list[ir.Value],
    output: TensorType,
    step: Callable[[ir.Value, list[ir.Value]], tuple[list[ir.Value], ir.Value]],
    reverse: bool = False,
) -> tuple[ir.Value, list[ir.Value]]:
    """A `burn.loop` that calls `step(time, states)` for the new states, of unchanged types, and an `output` slice.

    Returns the outputs [steps, ..] in time order and the final states. With `reverse`, time runs backwards.
    """
    from burn.dialect.control import Loop

    trips = dim_value(steps)
    carried = [type_of(s) for s in states]
    region_types = [TensorType("int64", ()), TensorType("bool", ()), *carried]
    results = [*carried, output.with_shape((steps, *output.shape))]
    loop = Loop.create(trips, None, states, scans=1, result_types=results)
    block = loop.regions[0].blocks.append(*[t.to_mlir() for t in region_types])
    with ir.InsertionPoint(block):
        iteration, condition, *inner = block.arguments
        time = iteration
        if reverse:
            time = ops.sub(dim_value(steps - 1), iteration)
        new, slice_ = step(time, inner)
        ops.yield_([condition, *new, slice_])
    *last, outputs = list(loop.results)
    if reverse:
        shape = type_of(outputs).shape
        starts, strides = (steps - 1, *[0] * (len(shape) - 1)), (-1, *[1] * (len(shape) - 1))
        outputs = ops.slice(outputs, starts=starts, sizes=shape, steps=strides)
    return outputs, last


def _row(x: ir.Value, index: int) -> ir.Value:
    """x[index] without the first axis."""
    shape = type_of(x).shape
    if shape[0] == 1:
        return reshape(x, shape[1:])
    starts, sizes = (index, *[0] * (len(shape) - 1)), (1, *shape[1:])
    return reshape(ops.slice(x, starts=starts, sizes=sizes, steps=(1,) * len(shape)), shape[1:])


def resolve_activations(defaults: tuple[str, ...], options: dict) -> list[Function]:
    """The functions with their parameters. `alphas` and `betas` are consumed in order by the functions that have one."""
    names = [n.lower() for n in options["activations"]] or [n.lower() for n in defaults]
    alphas, betas = iter(options["alphas"]), iter(options["betas"])
    functions: list[Function] = []
    for name in names:
        kind = ACTIVATIONS[name]
        alpha = 0.0 if kind.alpha is None else next(alphas, kind.alpha)
        beta = 0.0 if kind.beta is None else next(betas, kind.beta)
        functions.append(lambda x, kind=kind, a=alpha, b=beta: kind.apply(x, a, b))
    return functions


class Rnn(_Recurrent, name="rnn", batching=folded((2, 1), x=1, lengths=0, h=1)):
    """h' = f(x w^T + h r^T + b). Shapes: x [steps, batch, input], w [dirs, hidden, input], r [dirs, hidden, hidden],
    b [dirs, 2 hidden], lengths [batch], h [dirs, batch, hidden] -> [steps, dirs, batch, hidden], last h.
    Source: ONNX RNN."""

    x: Operand
    w: Operand
    r: Operand
    b: Operand | None
    lengths: Operand | None
    h: Operand | None
    direction: str = "forward"
    activations: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    clip: float = 0.0

    GATES: ClassVar[int] = 1
    DEFAULTS: ClassVar[tuple[str, ...]] = ("tanh",)

    @classmethod
    def infer(cls, x, w, r, b, lengths, h, **options) -> list[TensorType]:
        return cls.check_layer(x, w, r, b, lengths, [h], None, options)

    @classmethod
    def decompose(cls, x, w, r, b, lengths, h, **options) -> list[ir.Value]:
        return cls.build_layer(x, w, r, b, lengths, [h], None, options)

    @classmethod
    def step(cls, part: Direction, x: ir.Value, states: list[ir.Value], options: dict) -> list[ir.Value]:
        (f,) = part.functions
        return [f(part.limited(ops.add(x, part.recur(states[0], 0, 1))))]


class Gru(_Recurrent, name="gru", batching=folded((2, 1), x=1, lengths=0, h=1)):
    """z = f(..), r = f(..), n = g(x wn^T + (r * h) rn^T + b), h' = (1 - z) n + z h; gates in the order z, r, n.

    With `reset_after`, n = g(x wn^T + r * (h rn^T + rbn) + wbn). Shapes: as for rnn with 3 hidden instead of hidden in
    the weights and 6 hidden in b. Source: ONNX GRU (`linear_before_reset`)."""

    x: Operand
    w: Operand
    r: Operand
    b: Operand | None
    lengths: Operand | None
    h: Operand | None
    direction: str = "forward"
    activations: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    clip: float = 0.0
    reset_after: bool = False

    GATES: ClassVar[int] = 3
    DEFAULTS: ClassVar[tuple[str, ...]] = ("sigmoid", "tanh")

    @classmethod
    def infer(cls, x, w, r, b, lengths, h, **options) -> list[TensorType]:
        return cls.check_layer(x, w, r, b, lengths, [h], None, options)

    @classmethod
    def decompose(cls, x, w, r, b, lengths, h, **options) -> list[ir.Value]:
        return cls.build_layer(x, w, r, b, lengths, [h], None, options)

    @classmethod
    def own_bias(cls, options: dict) -> bool:
        return bool(options["reset_after"])

    @classmethod
    def step(cls, part: Direction, x: ir.Value, states: list[ir.Value], options: dict) -> list[ir.Value]:
        f, g = part.functions
        (h,) = states
        if options["reset_after"]:
            recurrent = part.recur(h, 0, 3)
            if part.bias is not None:
                recurrent = ops.add(recurrent, part.bias)
            gates = f(part.limited(ops.add(part.gate(x, 0, 2), part.gate(recurrent, 0, 2))))
            z, r = part.gate(gates, 0), part.gate(gates, 1)
            inner = ops.mul(r, part.gate(recurrent, 2))
        else:
            gates = f(part.limited(ops.add(part.gate(x, 0, 2), part.recur(h, 0, 2))))
            z, r = part.gate(gates, 0), part.gate(gates, 1)
            inner = part.recur(ops.mul(r, h), 2, 1)
        n = g(part.limited(ops.add(part.gate(x, 2), inner)))
        return [ops.add(n, ops.mul(z, ops.sub(h, n)))]


class Lstm(_Recurrent, name="lstm", batching=folded((2, 1, 1), x=1, lengths=0, h=1, c=1)):
    """i, o, f = f(..), c' = f c + i g(..), h' = o h(c'); gates in the order i, o, f, c.

    Shapes: as for rnn with 4 hidden instead of hidden in the weights and 8 hidden in b; c as h; peephole [dirs, 3
    hidden] (i, o, f) -> [steps, dirs, batch, hidden], last h, last c. `couple` makes f = 1 - i. Source: ONNX LSTM."""

    x: Operand
    w: Operand
    r: Operand
    b: Operand | None
    lengths: Operand | None
    h: Operand | None
    c: Operand | None
    peephole: Operand | None
    direction: str = "forward"
    activations: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    clip: float = 0.0
    couple: bool = False

    GATES: ClassVar[int] = 4
    DEFAULTS: ClassVar[tuple[str, ...]] = ("sigmoid", "tanh", "tanh")
    STATES: ClassVar[int] = 2

    @classmethod
    def infer(cls, x, w, r, b, lengths, h, c, peephole, **options) -> list[TensorType]:
        return cls.check_layer(x, w, r, b, lengths, [h, c], peephole, options)

    @classmethod
    def decompose(cls, x, w, r, b, lengths, h, c, peephole, **options) -> list[ir.Value]:
        return cls.build_layer(x, w, r, b, lengths, [h, c], peephole, options)

    @classmethod
    def step(cls, part: Direction, x: ir.Value, states: list[ir.Value], options: dict) -> list[ir.Value]:
        f, g, output = part.functions
        h, c = states
        gates = ops.add(x, part.recur(h, 0, 4))
        i, o, forget, candidate = (part.gate(gates, index) for index in range(4))
        if part.peephole:
            i = ops.add(i, ops.mul(part.peephole[0], c))
            forget = ops.add(forget, ops.mul(part.peephole[2], c))
        i = f(part.limited(i))
        forget = ops.sub(number_like(1.0, i), i) if options["couple"] else f(part.limited(forget))
        new = ops.add(ops.mul(forget, c), ops.mul(i, g(part.limited(candidate))))
        if part.peephole:
            o = ops.add(o, ops.mul(part.peephole[1], new))
        return [ops.mul(f(part.limited(o)), output(new)), new]
