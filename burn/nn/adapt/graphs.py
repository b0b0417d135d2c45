"""Adapters of imported models, whose layers are ops of a program: the program reads weight + scale * update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from burn.errors import Problem, TypeMismatch
from burn.nn import init
from burn.nn.adapt.lora import Update
from burn.nn.graph import Graph
from burn.nn.module import Module
from burn.nn.parameter import Buffer, Parameter
from burn.tensors import Tensor


class WeightLoRA(Update):
    """The weight of a matmul with a low-rank update, weight + scale * B A. Called with the weight. transposed: the weight is
    [in, out], not [out, in]; table: it is the table [count, dim] of an embedding."""

    _weight: tuple[Parameter]

    def __init__(
        self, weight: Parameter, rank: int, alpha: float | None, stabilised: bool, transposed: bool, table: bool
    ) -> None:
        self._set(rank, alpha, stabilised)
        self.transposed, self.table = transposed or table, table
        rows, columns = weight.shape[::-1] if self.transposed else weight.shape
        self.lora_A = Parameter((rank, columns), weight.dtype, init.zeros if table else init.inputs_bound(columns))
        self.lora_B = Parameter((rows, rank), weight.dtype, init.normal() if table else init.zeros)
        vars(self)["_weight"] = (weight,)  # a parameter of the graph, not of this module
        self._kept: Any = None
        for parameter in (self.lora_A, self.lora_B):
            parameter.move(weight.placement)

    def forward(self, weight: Tensor) -> Tensor:
        self._must_not_train()
        return weight * 1 if self.merged else weight + self.update()

    def update(self) -> Tensor:
        update = self.lora_B @ self.lora_A * self.scale
        return update.T if self.transposed else update

    def factors(self) -> dict[str, Parameter]:
        names = ("lora_embedding_A", "lora_embedding_B") if self.table else ("lora_A.weight", "lora_B.weight")
        return dict(zip(names, (self.lora_A, self.lora_B), strict=True))

    def merge(self) -> None:
        if not self.merged:
            (weight,) = self._weight
            self._kept, self.merged = weight.weight, True
            weight.assign(weight + self.update())

    def unmerge(self) -> None:
        if self.merged:
            self._weight[0].assign(self._kept)
            self._kept, self.merged = None, False


class Adapters(Module):
    """Adapters by the paths of a graph's weights, which have dots."""

    def __init__(self) -> None:
        self._modules: dict[str, WeightLoRA] = {}

    def children(self) -> Iterator[tuple[str, Module]]:
        return iter(self._modules.items())

    def __contains__(self, path: object) -> bool:
        return path in self._modules

    def __getitem__(self, path: str) -> WeightLoRA:
        return self._modules[path]

    def __setitem__(self, path: str, adapter: WeightLoRA) -> None:
        self._modules[path] = adapter


def matrices(graph: Graph) -> dict[str, Parameter]:
    """The float matrices of an imported model by path, without those of its adapters."""
    return {
        path: p
        for path, p in vars(graph).items()
        if isinstance(p, Parameter)
        and not isinstance(p, Buffer)
        and p.ndim == 2
        and p.dtype.startswith(("float", "bf"))
    }


def adapted(graph: Graph, path: str, rank: int, alpha: float | None, stabilised: bool) -> WeightLoRA:
    """The adapter of a weight, not yet part of the graph. Raises TypeMismatch for a weight that is not a matmul's alone."""
    uses = set(graph.weight_uses(path))
    table = uses == {("gather", None)}
    axes = {axis for name, axis in uses if name == "dot_general"}
    if not table and (len(axes) != 1 or None in axes or any(name != "dot_general" for name, _ in uses)):
        names = ", ".join(sorted({name for name, _ in uses})) or "no op"
        problem = Problem(f"'{path}' is an operand of {names}", hint="a pattern that leaves it out")
        raise TypeMismatch("LoRA adapts the weights of matmuls and embeddings in an imported model", [problem])
    return WeightLoRA(vars(graph)[path], rank, alpha, stabilised, axes == {0}, table)


def attach(graph: Graph, path: str, adapter: WeightLoRA) -> None:
    adapters = vars(graph).setdefault("adapters", Adapters())
    adapter.training = adapters.training = graph.training
    adapters[path] = adapter


def detach(graph: Graph) -> None:
    vars(graph).pop("adapters", None)
