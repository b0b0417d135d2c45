"""Names and layouts of these layers' parameters in PyTorch and in Burn (Rust). One rule for each class; see
`burn.importers.weights.layouts`.

Sources: the `state_dict`s of torch.nn (documentation of each class, "Variables"), and the modules' fields in
https://github.com/tracel-ai/burn, crates/burn-nn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from burn.importers.weights.layouts import Clash, Part, Shape, needless, rule
from burn.nn.activation import PReLU
from burn.nn.attention import MultiheadAttention
from burn.nn.convolution import _Conv
from burn.nn.linear import Embedding, Linear
from burn.nn.module import Module
from burn.nn.norm import GroupNorm, InstanceNorm, LayerNorm, RMSNorm, _BatchNorm
from burn.nn.recurrent import GRU, LSTM, RNN, _Recurrent
from burn.nn.stacked import _Stacked
from burn.nn.transformer import _TransformerLayer

# ---- linear layers -------------------------------------------------------------------------------------------------------


@rule(Linear, "torch")
def _linear_torch(layer: Linear) -> Iterator[Part]:
    """torch stores [out, in]."""
    if layer.transposed:
        yield Part("weight", ("weight",), (layer.weight.shape[::-1],), np.transpose, "transposed")


@rule(Linear, "burn")
def _linear_burn(layer: Linear) -> Iterator[Part]:
    """Burn stores [in, out]."""
    if not layer.transposed:
        yield Part("weight", ("weight",), (layer.weight.shape[::-1],), np.transpose, "transposed")


# ---- normalisation -------------------------------------------------------------------------------------------------------


def _gamma_beta(layer: Module) -> Iterator[Part]:
    """Burn's names, and those of checkpoints that came from TensorFlow."""
    own = dict(layer.named_parameters())
    for name, other in (("weight", "gamma"), ("bias", "beta")):
        if name in own:
            yield Part(name, (other,), (own[name].shape,))


for _kind in (LayerNorm, RMSNorm, _BatchNorm, GroupNorm, InstanceNorm):
    rule(_kind, "torch", "burn")(_gamma_beta)

needless(_BatchNorm, {"num_batches_tracked": "a count of training steps"})


@rule(PReLU, "burn")
def _prelu(layer: PReLU) -> Iterator[Part]:
    yield Part("weight", ("alpha",), (layer.weight.shape,))


# ---- Flax ------------------------------------------------------------------------------------------------------------------


@rule(Linear, "flax")
def _linear_flax(layer: Linear) -> Iterator[Part]:
    """Flax's kernels are [in, out]."""
    if layer.transposed:
        yield Part("weight", ("kernel",), (layer.weight.shape,))
    else:
        yield Part("weight", ("kernel",), (layer.weight.shape[::-1],), np.transpose, "transposed")


@rule(_Conv, "flax")
def _conv_flax(layer: _Conv) -> Iterator[Part]:
    """Flax's kernels are [k.., in / groups, out]."""
    out, inner, *kernel = layer.weight.shape
    yield Part("weight", ("kernel",), ((*kernel, inner, out),), _channels_first, "channels first")


def _channels_first(kernel: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.transpose(kernel, (kernel.ndim - 1, kernel.ndim - 2, *range(kernel.ndim - 2))))


@rule(Embedding, "flax")
def _embedding_flax(layer: Embedding) -> Iterator[Part]:
    yield Part("weight", ("embedding",), (layer.weight.shape,))


FLAX_NORMS = {"weight": "scale", "running_mean": "mean", "running_var": "var"}


def _norm_flax(layer: Module) -> Iterator[Part]:
    """Flax's names. Statistics are in the collection batch_stats, whose name a remap takes off."""
    own = dict(layer.named_parameters())
    for name, other in FLAX_NORMS.items():
        if name in own:
            yield Part(name, (other,), (own[name].shape,))


for _kind in (LayerNorm, RMSNorm, _BatchNorm, GroupNorm):
    rule(_kind, "flax")(_norm_flax)


# ---- attention -----------------------------------------------------------------------------------------------------------


def _third(number: int, array: np.ndarray) -> np.ndarray:
    return np.split(array, 3)[number]


@rule(MultiheadAttention, "torch")
def _attention(layer: MultiheadAttention) -> Iterator[Part]:
    """torch.nn.MultiheadAttention: the three projections are one matrix, or three when their inputs differ in size."""
    for number, name in enumerate(("query", "key", "value")):
        inner: Linear = getattr(layer, name)
        rows, columns = inner.weight.shape
        how = f"part {number + 1} of 3"
        yield Part(f"{name}.weight", ("in_proj_weight",), ((3 * rows, columns),), partial(_third, number), how)
        yield Part(f"{name}.weight", (f"{name[0]}_proj_weight",), ((rows, columns),))
        if inner.bias is not None:
            yield Part(f"{name}.bias", ("in_proj_bias",), ((3 * rows,),), partial(_third, number), how)
    yield Part("output.weight", ("out_proj.weight",), (layer.output.weight.shape,))
    if layer.output.bias is not None:
        yield Part("output.bias", ("out_proj.bias",), (layer.output.bias.shape,))


TRANSFORMER = {"feed.inner": "linear1", "feed.outer": "linear2"}


@rule(_TransformerLayer, "torch")
def _transformer_torch(layer: _TransformerLayer) -> Iterator[Part]:
    """torch.nn.TransformerEncoderLayer and TransformerDecoderLayer."""
    for name, other in (("attention", "self_attn"), ("cross", "multihead_attn")):
        inner = getattr(layer, name, None)
        for part in () if inner is None else _attention(inner):
            sources = tuple(f"{other}.{source}" for source in part.sources)
            yield replace(part, target=f"{name}.{part.target}", sources=sources)
    for path, parameter in layer.named_parameters():
        name, _, kind = path.rpartition(".")
        if name in TRANSFORMER:
            yield Part(path, (f"{TRANSFORMER[name]}.{kind}",), (parameter.shape,))


# ---- recurrence ----------------------------------------------------------------------------------------------------------

GATES: dict[type, tuple[tuple[int, ...], tuple[str, ...]]] = {
    RNN: ((0,), ("gate",)),
    GRU: ((1, 0, 2), ("update_gate", "reset_gate", "new_gate")),
    LSTM: ((0, 3, 1, 2), ("input_gate", "output_gate", "forget_gate", "cell_gate")),
}
"""For each gate in our order: its number in torch, and its name in Burn."""


def _gates(layer: _Recurrent) -> tuple[tuple[int, ...], tuple[str, ...]]:
    return next(GATES[kind] for kind in type(layer).__mro__ if kind in GATES)


def _reordered(order: tuple[int, ...], *arrays: np.ndarray) -> np.ndarray:
    """torch's gates in our order, the directions stacked."""
    return np.stack([a.reshape(len(order), -1, *a.shape[1:])[list(order)].reshape(a.shape) for a in arrays])


def _reordered_biases(order: tuple[int, ...], *arrays: np.ndarray) -> np.ndarray:
    """The input's bias, then the recurrence's, for each direction."""
    half = len(arrays) // 2
    return np.concatenate([_reordered(order, *arrays[:half]), _reordered(order, *arrays[half:])], axis=1)


@rule(_Recurrent, "torch")
def _recurrent_torch(layer: _Recurrent) -> Iterator[Part]:
    """torch.nn.LSTM and its like (`weight_ih_l0`, `weight_ih_l0_reverse`), and the cells (`weight_ih`)."""
    order, _ = _gates(layer)
    directions, rows, inputs = layer.weight_input.shape
    hidden = layer.weight_hidden.shape[2]
    endings = [("_l0",), ("",)] if directions == 1 else [("_l0", "_l0_reverse")]
    how = "gates reordered" if len(order) > 1 else "stacked"
    clash = None
    if isinstance(layer, GRU) and not layer.options["reset_after"]:
        texts = ("of a GRU that resets the state before the matmul", "of torch's, which resets the matmul's result")
        clash = Clash(*texts, "make it with reset_after=True")
    for ending in endings:
        for target, name, columns in (("weight_input", "weight_ih", inputs), ("weight_hidden", "weight_hh", hidden)):
            sources = tuple(name + e for e in ending)
            yield Part(target, sources, ((rows, columns),) * directions, partial(_reordered, order), how, clash)
        if layer.bias is not None:
            sources = tuple(name + e for name in ("bias_ih", "bias_hh") for e in ending)
            yield Part("bias", sources, ((rows,),) * 2 * directions, partial(_reordered_biases, order), how)


@rule(_Stacked, "torch")
def _stacked_torch(layer: _Stacked) -> Iterator[Part]:
    """torch numbers the layers at the end: `weight_ih_l1`."""
    for number, inner in enumerate(layer.layers):
        assert isinstance(inner, _Recurrent)
        for part in _recurrent_torch(inner):
            if part.sources[0].endswith("_l0"):
                sources = tuple(source.replace("_l0", f"_l{number}") for source in part.sources)
                yield replace(part, target=f"layers.{number}.{part.target}", sources=sources)


def _stacked(directions: int, transposed: bool, *arrays: np.ndarray) -> np.ndarray:
    """Burn's gates, which are separate tensors, in our layout: [directions, gates * hidden, ..]."""
    each = [a.T if transposed else a for a in arrays]
    count = len(each) // directions
    return np.stack([np.concatenate(each[i * count : (i + 1) * count]) for i in range(directions)])


@rule(_Recurrent, "burn")
def _recurrent_burn(layer: _Recurrent) -> Iterator[Part]:
    """Burn's Lstm, Gru and Rnn: a linear layer a gate and operand; BiLstm and its like hold two of them."""
    _, names = _gates(layer)
    directions, rows, inputs = layer.weight_input.shape
    hidden = rows // len(names)
    prefixes = ("forward.", "reverse.") if directions == 2 else ("",)
    gates = [prefix + name for prefix in prefixes for name in names]

    def part(target: str, paths: list[str], shape: Shape, transposed: bool) -> Part:
        return Part(target, tuple(paths), (shape,) * len(paths), partial(_stacked, directions, transposed), "joined")

    yield part("weight_input", [f"{g}.input_transform.weight" for g in gates], (inputs, hidden), True)
    yield part("weight_hidden", [f"{g}.hidden_transform.weight" for g in gates], (hidden, hidden), True)
    if layer.bias is not None:
        kinds = ("input_transform", "hidden_transform")
        paths = [f"{p}{g}.{kind}.bias" for p in prefixes for kind in kinds for g in names]
        yield part("bias", paths, (hidden,), False)
