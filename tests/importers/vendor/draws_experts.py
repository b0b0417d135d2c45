"""Random cases of com.microsoft's mixtures of experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.vendor.case import Case, Draw, draws
from tests.importers.vendor.references import mixture, quantized_mixture


def _common(d: Draw, experts: int) -> dict[str, Any]:
    kind = d.pick(None, "relu", "gelu", "silu", "identity", "swiglu")
    own = {
        "activation_alpha": d.pick(None, 1.702),
        "activation_beta": d.pick(None, 1.0),
        "swiglu_limit": d.pick(None, 1.0),
    }
    return {
        "k": d.pick(None, 1, min(2, experts), experts),
        "activation_type": kind,
        "normalize_routing_weights": d.pick(None, 0, 1),
        "swiglu_fusion": 1 if kind == "swiglu" else d.pick(None, 0),
        "use_sparse_mixer": d.pick(None, 0),
        **(own if kind == "swiglu" else {}),
    }


@draws("MoE")
def moe(d: Draw) -> Case:
    experts, hidden, inner = d.size(1, 3, 4), d.size(4, 8), d.size(3, 8)
    lead = d.pick((5,), (1,), (2, 3))
    tokens = int(np.prod(lead))
    attributes = _common(d, experts)
    first = inner * 2 if attributes["activation_type"] == "swiglu" else inner
    operands = [
        d.f(*lead, hidden),
        d.f(tokens, experts),
        d.f(experts, first, hidden),
        d.maybe(d.f(experts, first)),
        d.f(experts, hidden, inner),
        d.maybe(d.f(experts, hidden)),
    ]
    free = {0: range(len(lead)), 1: (0,)}
    return Case("MoE", operands, attributes, constant=(2, 3, 4, 5), tolerance=1e-4, truth=mixture, both=True, open=free)


@draws("QMoE")
def qmoe(d: Draw) -> Case:
    experts, hidden, inner, bits = d.size(1, 2, 3), 32, d.pick(32, 64), d.pick(2, 4, 4, 8)
    lead = d.pick((5,), (1,), (2, 3))
    tokens = int(np.prod(lead))
    attributes = _common(d, experts)
    block = d.pick(None, 16, 32)
    attributes.update(
        block_size=block,
        expert_weight_bits=bits if bits != 4 else d.pick(None, 4),
        fc1_expert_weight_bits=d.pick(None, bits),
        fc2_expert_weight_bits=d.pick(None, bits),
        fc3_expert_weight_bits=d.pick(None, bits),
        quant_type=d.pick(None, "int"),
        weights_prepacked=d.pick(None, 0),
        accuracy_level=d.pick(None, 0, 1),
    )
    first = inner * 2 if attributes["activation_type"] == "swiglu" else inner
    pack = 8 // bits
    zeros = d.flag()

    def layer(rows: int, depth: int) -> list[Any]:
        weight = d.bytes(np.uint8, experts, rows, depth // pack)
        if block:
            points = d.bytes(np.uint8, experts, rows, -(-(depth // block) // pack))
            return [weight, d.positive(experts, rows, depth // block), points if zeros else None]
        points = d.bytes(np.uint8, experts, -(-rows // pack))
        return [weight, d.positive(experts, rows), points if zeros else None]

    (w1, s1, z1), (w2, s2, z2) = layer(first, hidden), layer(hidden, inner)
    operands = [
        d.f(*lead, hidden),
        d.f(tokens, experts),
        *(w1, s1, d.maybe(d.f(experts, first))),
        *(w2, s2, d.maybe(d.f(experts, hidden))),
        *(None, None, None),
        *(z1, z2, None),
        d.maybe(d.positive(tokens, experts, low=0.1, high=1.0)),
    ]
    fixed = (2, 3, 4, 5, 6, 7, 11, 12)
    rounded = 0.1 if block or bits == 4 else None  # of activations to bytes, or of weights once more
    free = {0: range(len(lead)), 1: (0,), 14: (0,)}
    return Case(
        "QMoE",
        operands,
        attributes,
        constant=fixed,
        tolerance=1e-4,
        truth=quantized_mixture,
        both=True,
        open=free,
        runtime_tolerance=rounded,
    )
