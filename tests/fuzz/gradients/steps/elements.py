"""Functions of elements."""

from __future__ import annotations

from tests.fuzz.gradients.draft import Draft, Texts
from tests.fuzz.gradients.steps.registry import both, step

SAME = (
    "exp exp2 expm1 sin cos tanh sinh cosh atan asinh erf sigmoid square abs neg sign floor ceil round trunc frac relu"
    " nan_to_num deg2rad rad2deg"
)
DOMAINS = {
    "positive": ("({x}.abs() + 0.3)", "log log2 log10 log1p sqrt rsqrt reciprocal"),
    "unit": ("({x}.tanh() * 0.9)", "asin acos atanh tan"),
    "above one": ("({x}.abs() + 1.1)", "acosh"),
}
ACTIVATIONS = {
    "gelu()": "F.gelu({x})", "gelu('tanh')": "F.gelu({x}, approximate='tanh')", "silu()": "F.silu({x})",
    "mish()": "F.mish({x})", "softplus()": "F.softplus({x})", "softplus(2.0)": "F.softplus({x}, 2.0)",
    "log_sigmoid()": "F.logsigmoid({x})", "softsign()": "F.softsign({x})", "relu6()": "F.relu6({x})",
    "leaky_relu(0.2)": "F.leaky_relu({x}, 0.2)", "hard_sigmoid()": "F.relu6({x} + 3.0) / 6.0",
    "hard_swish()": "F.hardswish({x})",
}  # fmt: skip
# torch rounds 1 / alpha of celu to float32 in the backward pass.
KINKED = {"elu(0.7)": "F.elu({x}, 0.7)", "celu(0.5)": "F.celu({x}, 0.5)", "selu()": "F.selu({x})"}
"""The second derivative jumps at 0, where burn takes the other side's (tests/points): they are moved off it."""


@step(7)
def function(d: Draft) -> Texts:
    return both(f"{d.value()}.{d.among(*SAME.split())}()")


@step(4)
def in_a_domain(d: Draft) -> Texts:
    domain, names = DOMAINS[d.among(*DOMAINS)]
    return both(f"{domain.format(x=d.value())}.{d.among(*names.split())}()")


@step(5)
def activation(d: Draft) -> Texts:
    x = d.value()
    table = ACTIVATIONS if d.flag(0.85) else KINKED
    name = d.among(*table)
    argument = str(x) if table is ACTIVATIONS else f"({x} + 0.0123)"
    return f"{argument}.{name}", table[name].format(x=argument)


@step(9)
def binary(d: Draft) -> Texts:
    x = d.value()
    y = d.fitting(x.shape)
    if d.flag(0.3):
        x, y = y, x
    return both(
        d.among(
            f"{x} + {y}",
            f"{x} - {y}",
            f"{x} * {y}",
            f"{x} * {y}",
            f"{x} / ({y}.abs() + 0.5)",
            f"{x} / ({y} * {y} + 1.0)",
            f"m.maximum({x}, {y})",
            f"m.minimum({x}, {y})",
            f"m.where({x} > {y}, {x}, {y} * 2.0)",
            f"m.where({x} == {y}, {x} * 3.0, {y})",
            f"({x}.abs() + 0.3) ** {y}",
            f"m.hypot({x} + 0.0123, {y})",
            f"m.atan2({x} + 0.0123, {y})",
            f"m.fmod({x}, {y}.abs() + 0.6)",
            f"m.remainder({x}, {y}.abs() + 0.6)",
            f"{x} * {y}.sigmoid() - {y} * {x}.tanh()",
        )
    )


@step(4)
def with_a_number(d: Draft) -> Texts:
    x, n = d.value(), d.number()
    return both(
        d.among(
            f"{x} * {n}",
            f"{n} - {x}",
            f"{n} / ({x}.abs() + 0.5)",
            f"{x} ** {d.among(2, 3, 1, 0, 4)}",
            f"({x}.abs() + 0.2) ** {d.among(0.5, 1.5, -1, -0.5, -2, 2.5)}",
            f"m.fmod({x}, 1.3)",
            f"m.remainder({x}, -0.7)",
            f"m.where({x} > {n}, {x}, {n})",
            f"{x} + {x} * {n} + {x}",
            f"2.0 ** {x}",
        )
    )


@step(3)
def bounded(d: Draft) -> Texts:
    x = d.value()
    low, high = d.new(()), d.new(())
    return both(
        d.among(
            f"{x}.clamp(-0.5, 1.0)",
            f"{x}.clamp(0.5)",
            f"{x}.clamp(None, 0.5)",
            f"{x}.clamp({low}, {high})",
        )
    )


@step(2)
def joined(d: Draft) -> Texts:
    x = d.value()
    y, w = d.fitting(x.shape), d.fitting(x.shape)
    return d.among(
        both(f"m.lerp({x}, {x} * 0.0 + {y}, 0.3)"),
        (f"{x}.lerp({y}, {w})", f"{x} + {w} * ({y} - {x})"),
        (f"{x}.prelu({y})", f"torch.where({x} > 0, {x} + {y} * 0.0, {x} * {y})"),
        (f"{x}.copysign({y} + 0.0123)", f"torch.copysign({x}, {y} + 0.0123)"),
        both(f"{x} * m.stop_gradient({x}) + m.stop_gradient({y})"),
    )


@step(2)
def converted(d: Draft) -> Texts:
    """Through another element type and back."""
    x, dtype = d.value(), d.program.dtype
    wide = (
        "float64" if dtype == "float64" else d.among("float64", "float32")
    )  # a narrower one rounds more than the unit
    return d.among(
        both(f"m.cast(m.cast({x}, '{wide}').sin(), '{dtype}')"),
        both(f"m.cast(m.cast({x}, '{wide}') * {x}, '{dtype}')"),
        both(f"{x} * m.cast({x} > 0.1, '{dtype}')"),
        both(f"{x} * m.cast(m.cast({x}, 'int64'), '{dtype}')"),
    )


@step(2)
def beside_integers(d: Draft) -> Texts:
    x = d.value()
    n = d.whole(4, x.shape if d.flag() else x.shape[-1:], -3)
    return both(d.among(f"{x} * {n}", f"{x} + {n}", f"m.where({n} > 0, {x}, -{x})", f"{x} / ({n} * {n} + 1)"))
