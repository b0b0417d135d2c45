"""The preview training domain: gradients and optimizers.

An optimizer updates any number of tensors at once. Its operands are R, T and then, for every kind (tensor, gradient,
state ...), all tensors of that kind. Its results are grouped by kind in the same order."""

from __future__ import annotations

from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.compose import convert, number, number_like, reshape, zeros_like
from burn.dialect.mlir import ir
from burn.dialect.types import FLOATS, type_of
from burn.errors import TypeMismatch
from burn.importers.onnx.node import Node, onnx_op

DOMAIN = "ai.onnx.preview.training"

Update = Callable[[ir.Value, ir.Value, list[ir.Value]], list[ir.Value]]
"""(learning rate, step count, one tensor of each kind) -> the tensor and its states afterwards."""


@onnx_op("Gradient", domain=DOMAIN)
def gradient(node: Node) -> list[ir.Value]:
    """The derivatives of the tensor called `y` by those called `xs`. The operands replace the tensors called `xs` and `zs`,
    and the part of the graph between them is rebuilt. The elements of a `y` with axes are summed."""
    xs, zs, y = node.strings("xs"), node.strings("zs", ()), node.string("y")
    names, values = [*xs, *zs], node.tensors()
    if len(values) != len(names) or len(set(names)) != len(names):
        node.fail(f"takes one operand for each of {', '.join(names)}, not {len(values)}", "xs")
    for name, value in zip(xs, values, strict=False):
        if type_of(value).dtype not in FLOATS:
            node.fail(f"'{name}' is {type_of(value)}, and only floats are differentiated by", "xs")
    given = dict(zip(names, values, strict=True))
    given |= {name: ops.reshape(given[name], shape=type_of(given[name]).shape) for name in xs}  # values of their own
    result = node.importer.build_again(y, given, node)
    if not isinstance(result, ir.Value) or type_of(result).dtype not in FLOATS:
        node.fail(f"'{y}' is no tensor of floats", "y")
    type_ = type_of(result)
    one = ops.full(shape=type_.shape, dtype=type_.dtype, value=1.0)
    try:
        found = gradients([result], [one], [given[name] for name in xs])
    except TypeMismatch as error:
        node.fail("; ".join(f"{p.node or p.op}: {p.message}" for p in error.problems))
    return [zeros_like(given[x]) if g is None else g for x, g in zip(xs, found, strict=True)]


def update_all(node: Node, kinds: int, update: Update) -> list[ir.Value]:
    rate, count, *tensors = node.tensors()
    if len(tensors) % kinds or not tensors:
        node.fail(f"takes R, T and then {kinds} operands for every tensor, not {len(tensors)}")
    number_of = len(tensors) // kinds
    columns = []
    for index in range(number_of):
        own = tensors[index::number_of]
        dtype = type_of(own[0]).dtype
        scalars = [convert(reshape(x, ()), dtype) for x in (rate, count)]
        columns.append(update(scalars[0], scalars[1], own))
    return [value for kind in zip(*columns, strict=True) for value in kind]


def scaled(x: ir.Value, factor: float) -> ir.Value:
    return ops.mul(x, number_like(factor, x))


@onnx_op("Adagrad", domain=DOMAIN)
def adagrad(node: Node) -> list[ir.Value]:
    decay, epsilon = node.float("decay_factor", 0.0), node.float("epsilon", 1e-6)
    norm = node.float("norm_coefficient", 0.0)

    def update(rate: ir.Value, count: ir.Value, own: list[ir.Value]) -> list[ir.Value]:
        x, gradient, squares = own
        rate = ops.div(rate, ops.add(scaled(count, decay), number_like(1.0, x)))
        gradient = ops.add(scaled(x, norm), gradient)
        squares = ops.add(squares, ops.mul(gradient, gradient))
        root = ops.add(ops.sqrt(squares), number_like(epsilon, x))
        return [ops.sub(x, ops.div(ops.mul(rate, gradient), root)), squares]

    return update_all(node, 3, update)


@onnx_op("Adam", domain=DOMAIN)
def adam(node: Node) -> list[ir.Value]:
    alpha, beta, epsilon = node.float("alpha", 0.9), node.float("beta", 0.999), node.float("epsilon", 1e-6)
    norm, after = node.float("norm_coefficient", 0.0), node.float("norm_coefficient_post", 0.0)

    def update(rate: ir.Value, count: ir.Value, own: list[ir.Value]) -> list[ir.Value]:
        x, gradient, mean, square = own
        one = number_like(1.0, x)
        gradient = ops.add(scaled(x, norm), gradient)
        mean = ops.add(scaled(mean, alpha), scaled(gradient, 1.0 - alpha))
        square = ops.add(scaled(square, beta), scaled(ops.mul(gradient, gradient), 1.0 - beta))
        root = ops.add(ops.sqrt(square), number_like(epsilon, x))
        first, second = (ops.sub(one, ops.pow(number_like(f, x), count)) for f in (alpha, beta))
        started = ops.gt(count, number_like(0.0, x))
        corrected = ops.div(ops.mul(rate, ops.sqrt(second)), ops.select(started, first, one))
        rate = ops.select(started, corrected, rate)
        x = ops.sub(x, ops.div(ops.mul(rate, mean), root))
        return [scaled(x, 1.0 - after) if after else x, mean, square]

    return update_all(node, 4, update)


@onnx_op("Momentum", domain=DOMAIN)
def momentum(node: Node) -> list[ir.Value]:
    alpha, beta, norm = node.float("alpha"), node.float("beta"), node.float("norm_coefficient")
    mode = node.string("mode")
    if mode not in ("standard", "nesterov"):
        node.fail(f"'{mode}' is neither standard nor nesterov", "mode")

    def update(rate: ir.Value, count: ir.Value, own: list[ir.Value]) -> list[ir.Value]:
        x, gradient, velocity = own
        dtype = type_of(x).dtype
        gradient = ops.add(scaled(x, norm), gradient)
        started = ops.gt(count, number(0.0, dtype))
        share = ops.select(started, number(beta, dtype), number(1.0, dtype))
        velocity = ops.add(scaled(velocity, alpha), ops.mul(share, gradient))
        step = velocity if mode == "standard" else ops.add(gradient, scaled(velocity, alpha))
        return [ops.sub(x, ops.mul(rate, step)), velocity]

    return update_all(node, 3, update)
