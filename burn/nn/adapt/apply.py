"""Adapters into models and out of them: by path, merged and unmerged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from burn.errors import Problem, TypeMismatch
from burn.nn.adapt import graphs
from burn.nn.adapt.lora import ADAPTABLE, LoRA, Update
from burn.nn.containers import replace
from burn.nn.graph import Graph
from burn.nn.module import Module

M = TypeVar("M", bound=Module)


class Target(NamedTuple):
    """Something that can have an adapter. path: of the layer, as peft writes it; owner, name: the module that holds it, and its
    name there, or an imported model and its parameter."""

    path: str
    owner: Module
    name: str
    layer: Module | None


def lora(
    model: M,
    pattern: str,
    *,
    rank: int = 8,
    alpha: float | None = None,
    dropout: float = 0.0,
    stabilised: bool = False,
    dtype: str | None = None,
    freeze: bool = True,
) -> M:
    """Gives layers of a model a low-rank adapter (`LoRA`), in place; returns the model.

    - `pattern`: a regular expression that is found in a path of the layers: linear (also `BlockLinear` and `QuantLinear`, with
      int4 or int8 weights), embeddings and convolutions. In imported models (`nn.Graph`) it is found in the names of weights.
    - `rank`, `alpha`: the update is B A scaled by alpha / rank, or with `stabilised` by alpha / sqrt(rank); alpha is the rank by
      default.
    - `dropout`: probability that elements of A's input are dropped in training. Not for embeddings and imported models.
    - `dtype`: of A and B; the layer's own float type by default.
    - `freeze`: freezes all other parameters of the model, except those of earlier adapters.

    B is zero at first, so the model computes the same as before. Raises TypeMismatch, without any change, if no layer is found,
    or one already has an adapter or cannot have one (such as a layer whose weight is normalised: `nn.adapt.bake`)."""
    every = targets(model)
    found = [t for t in every if re.search(pattern, t.path if t.layer is not None else _full(t))]
    if not found:
        paths = ", ".join(t.path for t in every) or "none"
        raise TypeMismatch(f"'{pattern}' is in no path of a layer that can have an adapter", [f"the paths are {paths}"])
    once = {id(t.layer) if t.layer is not None else t.path: t for t in reversed(found)}
    ready = [(t, made_of(t, rank, alpha, dropout, stabilised, dtype)) for t in reversed(once.values())]
    for target, adapter in ready:
        put(every, target, adapter)
    if freeze:
        freeze_rest(model)
    return model


def merge(model: M) -> M:
    """Adds each adapter's update to the weight of its layer, in place, for inference without its cost; returns the model. A layer
    with quantised weights becomes a float one meanwhile. Until `unmerge` or `remove` the model is neither trained, saved nor
    loaded. Raises TypeMismatch, without any change, for a convolution with groups, and for a weight that is computed from
    others (`nn.adapt.bake`)."""
    found = [adapter for _, adapter in _some(model)]
    for adapter in found:
        adapter.update()  # raises if it cannot be merged
    for adapter in found:
        adapter.merge()
    return model


def unmerge(model: M) -> M:
    """The opposite of `merge`: weights have the bits that they had before."""
    for _, adapter in _some(model):
        adapter.unmerge()
    return model


def remove(model: M, merged: bool = True) -> M:
    """Takes the adapters out of a model, in place: paths are those of before `lora`. merged: the weights have the updates;
    without it they are those of the base. Parameters stay frozen, or not, as in the base. Returns the model."""
    (merge if merged else unmerge)(model)
    for owner in list(model.modules()):
        if isinstance(owner, Graph):
            graphs.detach(owner)
        elif not isinstance(owner, LoRA):
            for name, child in list(owner.children()):
                if isinstance(child, LoRA):
                    replace(owner, child, name, child.base_layer)
    return model


def adapters(model: Module) -> Iterator[tuple[str, Update]]:
    """The adapters of a model, with the paths of their layers as peft writes them; one that is shared once."""
    seen: set[int] = set()
    for path, module in model.named_modules():
        if isinstance(module, LoRA) and id(module) not in seen:
            seen.add(id(module))
            yield path, module
        elif isinstance(module, graphs.Adapters):
            prefix = path.removesuffix("adapters")
            for name, adapter in module.children():
                assert isinstance(adapter, Update)
                yield f"{prefix}{name}".removesuffix(".weight"), adapter


def targets(model: Module) -> list[Target]:
    """All that can have an adapter, or has one."""
    found: list[Target] = []
    inside: set[int] = set()
    for path, owner in model.named_modules():
        if id(owner) in inside:
            continue
        start = f"{path}." if path else ""
        if isinstance(owner, (LoRA, graphs.Adapters)):
            inside |= {id(part) for part in owner.modules()}
        elif isinstance(owner, Graph):
            for name in graphs.matrices(owner):
                found.append(Target(f"{start}{name}".removesuffix(".weight"), owner, name, None))
        else:
            for name, layer in owner.children():
                if isinstance(layer, LoRA) or type(layer) in ADAPTABLE:
                    found.append(Target(f"{start}{name}", owner, name, layer))
    return found


def _some(model: Module) -> Sequence[tuple[str, Update]]:
    found = list(adapters(model))
    if not found:
        raise TypeMismatch("the model has no adapter", [Problem("nothing to merge", hint="see burn.nn.adapt.lora")])
    return found


def _full(target: Target) -> str:
    return f"{target.path.removesuffix(target.name.removesuffix('.weight'))}{target.name}"


def made_of(
    target: Target, rank: int, alpha: float | None, dropout: float, stabilised: bool, dtype: str | None
) -> Update:
    """An adapter of a layer, not yet part of the model. Raises TypeMismatch if there cannot be one."""
    owner, name, layer = target.owner, target.name, target.layer
    taken = name in vars(owner).get("adapters", ()) if layer is None else isinstance(layer, LoRA)
    if taken:
        problem = Problem(f"'{target.path}' has one", hint="nn.adapt.remove(model)")
        raise TypeMismatch("a layer has one adapter", [problem])
    if layer is None:
        assert isinstance(owner, Graph)
        given = {"dropout": dropout, "dtype": dtype}
        if problems := [f"{n} is {v}: the update is part of the weight" for n, v in given.items() if v]:
            raise TypeMismatch("an adapter of an imported model does not take these options", problems)
        return graphs.adapted(owner, name, rank, alpha, stabilised)
    try:
        return LoRA(layer, rank, alpha, dropout, stabilised, dtype)
    except TypeMismatch as error:
        raise TypeMismatch(error.summary, [f"'{target.path}': {p}" for p in error.problems]) from None


def put(all_targets: Sequence[Target], target: Target, adapter: Update) -> None:
    """Puts an adapter into the model, at every path of its layer."""
    if target.layer is None:
        assert isinstance(target.owner, Graph) and isinstance(adapter, graphs.WeightLoRA)
        graphs.attach(target.owner, target.name, adapter)
        return
    for other in all_targets:
        if other.layer is target.layer and dict(other.owner.children())[other.name] is target.layer:
            replace(other.owner, target.layer, other.name, adapter)


def freeze_rest(model: Module) -> None:
    """Freezes all parameters that are no adapter's."""
    own = {id(p) for _, adapter in adapters(model) for p in adapter.factors().values()}
    for p in model.parameters():
        if id(p) not in own:
            p.trainable = False
