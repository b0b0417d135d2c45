"""A graph of Dynamo's with its programs: with parameters as constants while they do not change, and with all inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from burn.adapters.torch import gpu_memory
from burn.adapters.torch.graph_build import NO_ALIASES, Aliases, Build
from burn.adapters.torch.graph_program import GraphProgram
from burn.adapters.torch.saved import Block
from burn.options import Options


class CompiledGraph:
    """A graph's executable, or two: with its static inputs as constants, and with all inputs."""

    def __init__(
        self,
        graph: fx.GraphModule,
        static: Sequence[int],
        required: Mapping[int, str],
        options: Options | None,
        *,
        aliases: Aliases | None = NO_ALIASES,
        views: bool = False,
        device: torch.device | None = None,
        read: Block | None = None,
        written: Block | None = None,
    ) -> None:
        """required: see `layouts.requirements`. options: compilation options. aliases: None if no outputs share memory, because
        torch tracks gradients itself. views: autograd treats outputs that share memory as views. device: the GPU of the graph's
        tensors. read, written: the blocks of saved tensors that the graph is given and returns."""
        self.device = device
        self.read = read
        self.written = written
        self.aliases = aliases
        self.views = views
        self.bases = _Bases(graph, aliases.updates if aliases else {})
        self.graph = graph
        self.static = list(static)
        self.required = required
        self.options = options
        self.frozen: GraphProgram | None = None
        self.versions: list[int] | None = None
        self.addresses: list[int] = []
        self.general: GraphProgram | None = None
        if not self.static:
            self.general = self._compiled({})

    def __call__(self, arguments: list[Any]) -> list[Any]:
        values = list(arguments)
        arguments.clear()
        given = self.bases.read(values)
        return self.bases.extended(self._program(given)(given), values)

    def _program(self, values: Sequence[Any]) -> GraphProgram:
        if self.static:
            versions = _versions(values, self.static)
            if self.frozen is None and self.general is None and versions is not None:
                self.frozen = self._compiled({i: values[i] for i in self.static})
                self.versions, self.addresses = versions, [0] * (1 + max(self.static))
                for i in self.static:
                    self.addresses[i] = gpu_memory.address(values[i])
            unwritten = self.frozen is not None and versions == self.versions
            if unwritten and gpu_memory.same(values, self.addresses, self.static):
                assert self.frozen is not None
                return self.frozen
            self.frozen, self.static = None, []  # they do change, so that constants would not stay true
        if self.general is None:
            self.general = self._compiled({})
        return self.general

    def _compiled(self, constants: Mapping[int, torch.Tensor]) -> GraphProgram:
        build = Build(self.graph, constants, self.required, self.aliases, self.device, self.read, self.written)
        return GraphProgram(build, self.options, self.views, self.device)


class _Bases:
    """The inputs that AOTAutograd made of the whole storage of inputs that alias. It traces such a base as long as the inputs
    need it, and passes the storage, which may be longer."""

    def __init__(self, graph: fx.GraphModule, updates: Mapping[int, int]) -> None:
        """updates: see `layouts.renewed`."""
        placeholders = (n for n in graph.graph.nodes if n.op == "placeholder")
        self._lengths = {
            i: n.meta["val"].shape[0]
            for i, n in enumerate(placeholders)
            if type(n.meta.get("desc")).__name__ == "SyntheticBaseAOTInput" and isinstance(n.meta["val"].shape[0], int)
        }
        self._updates = {output: i for output, i in updates.items() if i in self._lengths}

    def read(self, values: list[Any]) -> list[Any]:
        """The graph's inputs, as long as they were traced."""
        return (
            values
            if not self._lengths
            else [v[: self._lengths[i]] if i in self._lengths else v for i, v in enumerate(values)]
        )

    def extended(self, outputs: list[Any], values: Sequence[Any]) -> list[Any]:
        """The graph's outputs, with new values for the whole of each base."""
        for output, i in self._updates.items():
            rest = values[i][self._lengths[i] :]
            if rest.numel():
                outputs[output] = torch.cat([outputs[output], rest])
        return outputs


def _versions(values: Sequence[Any], indices: Sequence[int]) -> list[int] | None:
    """Numbers that change when tensors are written in place; None if torch keeps none."""
    try:
        return [values[i]._version for i in indices]
    except RuntimeError:  # of an inference tensor
        return None
