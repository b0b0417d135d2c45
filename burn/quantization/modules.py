"""Weight-only quantisation of modules: linear layers become layers whose weights are blocks of a few bits."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import numpy as np

from burn import nn
from burn.errors import BurnError, Problem, near
from burn.nn.containers import replace
from burn.quantization.weights import BITS, in_blocks

M = TypeVar("M", bound=nn.Module)


def quantize_module(
    module: M, *, weights: str = "int4", block: int = 32, zero_points: bool = False, exclude: Collection[str] = ()
) -> M:
    """Replaces every `nn.Linear` in a module by an `nn.BlockLinear`, in place; returns the module. `weights`: int4 or int8.
    `block`: number of neighbours along the inputs that share a scale, a multiple of 8. `zero_points`: see `quantize_weights`.
    `exclude`: paths of unchanged layers. Raises BurnError, without any change, if there is no such layer, for an unknown path,
    or if a weight is not finite."""
    if weights not in BITS:
        raise BurnError(f"weights cannot be '{weights}'", [f"they can be {', '.join(BITS)}"])
    if block < 8 or block % 8:
        raise BurnError(f"a block has a multiple of 8 numbers, not {block}")
    paths = {path: layer for path, layer in module.named_modules() if path and type(layer) is nn.Linear}
    unknown = [
        Problem(f"there is no linear layer '{path}'", hint=near(path, paths)) for path in exclude if path not in paths
    ]
    if unknown:
        raise BurnError("what is to be left out is not there", unknown)
    infinite = [
        Problem(f"the weight of '{path}' holds NaN or infinity")
        for path, layer in paths.items()
        if path not in exclude and not np.isfinite(np.asarray(layer.weight).astype(np.float32)).all()
    ]
    if infinite:
        raise BurnError("numbers that are not finite cannot be quantised", infinite)
    owners = dict(module.named_modules())
    made: dict[int, nn.BlockLinear] = {}
    for path, layer in paths.items():
        if path not in exclude:
            if id(layer) not in made:
                made[id(layer)] = _quantised(layer, BITS[weights], block, zero_points)
            owner, _, name = path.rpartition(".")
            replace(owners[owner], layer, name, made[id(layer)])
    if not made:
        raise BurnError("nothing to quantise: no linear layer in the module")
    return module


def _quantised(layer: nn.Linear, bits: int, block: int, zero_points: bool) -> nn.BlockLinear:
    weight = np.asarray(layer.weight).astype(np.float32)
    blocks = in_blocks(weight.T if layer.transposed else weight, bits, block, zero_points)
    bias = layer.bias is not None
    made = nn.BlockLinear(layer.in_features, layer.out_features, bias, bits, block, zero_points, layer.dtype)
    state = {"values": blocks.values, "scale": blocks.scales.astype(layer.weight.array.dtype)}
    if blocks.zeros is not None:
        state["zero_point"] = blocks.zeros.astype(layer.weight.array.dtype)
    if layer.bias is not None:
        state["bias"] = np.asarray(layer.bias)
    made.load_state_dict(state)
    made.training = layer.training
    return made
