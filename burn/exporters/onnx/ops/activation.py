"""Activations: composites that ONNX has by another name, the same parameters or none."""

from __future__ import annotations

from burn.dialect.types import DTYPES, type_of
from burn.exporters.onnx.emitters import Site, emits

OPERATORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "relu": ("Relu", ()),
    "leaky_relu": ("LeakyRelu", ("alpha",)),
    "thresholded_relu": ("ThresholdedRelu", ("alpha",)),
    "elu": ("Elu", ("alpha",)),
    "selu": ("Selu", ("alpha", "gamma")),
    "celu": ("Celu", ("alpha",)),
    "hard_sigmoid": ("HardSigmoid", ("alpha", "beta")),
    "hard_swish": ("HardSwish", ()),
    "gelu": ("Gelu", ("approximate",)),
    "softplus": ("Softplus", ()),
    "mish": ("Mish", ()),
    "softsign": ("Softsign", ()),
    "softmax": ("Softmax", ("axis",)),
    "log_softmax": ("LogSoftmax", ("axis",)),
}
"""Op -> operator, and the attributes that both have. Swish (opset 24) is left out: runtimes lack it, Sigmoid and Mul do
the same."""


def _enter(name: str, operator: str, attributes: tuple[str, ...]) -> None:
    @emits(name, operator=operator, when=_has_axes if "axis" in attributes else lambda op: True)
    def activation(site: Site) -> str:
        return site.node(operator, site.inputs[0], **{a: site.attrs[a] for a in attributes})


def _has_axes(op) -> bool:
    return type_of(op.x).rank > 0


for _name, (_operator, _attributes) in OPERATORS.items():
    _enter(_name, _operator, _attributes)


@emits("prelu", operator="PRelu")
def prelu(site: Site) -> str:
    return site.node("PRelu", *site.inputs)


@emits("clip", when=lambda op: DTYPES[type_of(op.x).dtype].kind == "float", operator="Clip")
def clip(site: Site) -> str:
    """The bounds of ONNX have no axes."""
    x, low, high = site.inputs
    bounds = [
        n if n is None or not t.rank else site.node("Reshape", n, site.ints([]))
        for n, t in zip((low, high), site.types[1:], strict=True)
    ]
    return site.node("Clip", x, *bounds)
