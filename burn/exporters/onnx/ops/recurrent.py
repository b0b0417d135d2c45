"""Recurrent layers: ONNX's own, which burn's follow."""

from __future__ import annotations

from typing import Any

from burn.dialect.types import type_of
from burn.exporters.onnx.emitters import Site, emits

NAMES = {
    n.lower(): n
    for n in ("Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
              "Softsign", "Softplus")
}  # fmt: skip
"""How ONNX spells the activation functions."""


def _plain(op: Any) -> bool:
    """Runtimes differ over the parameters of activation functions: a layer that sets them is written out."""
    attrs = op.attrs
    named = {n.lower() for n in attrs["activations"]} <= {"tanh", "sigmoid", "relu"}
    return named and not attrs["alphas"] and not attrs["betas"] and type_of(op.x).dtype == "float32"


def _common(site: Site) -> dict[str, Any]:
    attrs = site.attrs
    return {
        "hidden_size": site.results[0].shape[-1],
        "direction": attrs["direction"],
        "activations": [NAMES[n.lower()] for n in attrs["activations"]] or None,
        "clip": attrs["clip"] or None,
    }


def _operands(site: Site) -> list[str | None]:
    operands = list(site.inputs)
    operands[4] = None if operands[4] is None else site.cast(operands[4], "int32")
    return operands


@emits("rnn", operator="RNN", when=_plain)
def rnn(site: Site) -> list[str]:
    return site.node("RNN", *_operands(site), outputs=2, **_common(site))


@emits("gru", operator="GRU", when=_plain)
def gru(site: Site) -> list[str]:
    extra = {"linear_before_reset": 1 if site.attrs["reset_after"] else None}
    return site.node("GRU", *_operands(site), outputs=2, **extra, **_common(site))


@emits("lstm", operator="LSTM", when=_plain)
def lstm(site: Site) -> list[str]:
    extra = {"input_forget": 1 if site.attrs["couple"] else None}
    return site.node("LSTM", *_operands(site), outputs=3, **extra, **_common(site))
