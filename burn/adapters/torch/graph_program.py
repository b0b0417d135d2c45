"""A compiled program with the calling convention of a graph of Dynamo's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from burn.adapters.torch.gpu import GPUCalls, Input, loaded
from burn.adapters.torch.graph_build import Build
from burn.adapters.torch.graph_outputs import InputPart, InputView, Made, Passed, SavedBlock, View
from burn.adapters.torch.layouts import Layout
from burn.caching import executable
from burn.importers.torch.dtypes import to_array
from burn.importers.torch.random import draw_state
from burn.options import Options
from burn.runtime import Executable


class GraphProgram:
    """One compiled program with the graph's calling convention."""

    def __init__(
        self,
        build: Build,
        options: Options | None,
        views: bool = False,
        device: torch.device | None = None,
    ) -> None:
        with unset_fake_temporarily():  # a graph's own constants are true tensors
            program = build.run()
            make = partial(executable, program, options)
            self.executable: Executable = make() if device is None else loaded(make)
        self.inputs = build.inputs(device)
        self.given = build.given
        self.outputs = build.outputs
        self.owners = build.owners
        self.firsts = build.firsts
        self.views = views
        self.executable.draw_from(draw_state)
        self.on_gpu: GPUCalls | None = None
        self.orders: list[tuple[int, tuple[int, ...]]] = []  # of results that sizes are read from
        self.direct = self._direct() if device is not None else [-1] * len(self.outputs)
        if device is not None and self.computed:
            results = [build.results[i] for i in range(len(self.executable.outputs))]
            block = build.written.bytes if build.written is not None else 0
            self.on_gpu = GPUCalls(self.executable, device, self.inputs, results, build.into, block)
            if build.sizes.symbols:
                # a saved tensor in the block is no tensor of its own, and has fixed sizes
                self.orders = [(i, r.order) for i, r in enumerate(results) if r.order is not None and r.offset is None]

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        if self.on_gpu is not None:
            results: Any = self.on_gpu(values)
        elif self.computed:
            results = self.executable(*[_array(values[i.index], i) for i in self.inputs])
            results = results if isinstance(results, tuple) else (results,)
        else:
            results = ()
        known = [*values, *results]
        for i, order in self.orders:
            known[len(values) + i] = results[i].permute(order)
        owners = [owner.of(results, known) for owner in self.owners]
        made: list[Any] = []
        for i, (output, direct) in enumerate(zip(self.outputs, self.direct, strict=True)):
            if direct >= 0:
                made.append(known[direct])
                continue
            first = self.firsts[i]
            made.append(made[first] if first < i else self._output(output, results, known, owners))
        return made

    def _direct(self) -> list[int]:
        """Of each output: the number of the input or result that it is, inputs first, or -1 for others. There are hundreds in a
        training step."""
        first = self.given
        found = []
        for output in self.outputs:
            if isinstance(output, Passed):
                found.append(output.index)
            elif isinstance(output, Made) and output.is_result:
                found.append(first + output.result)
            elif isinstance(output, SavedBlock):
                found.append(first + len(self.executable.outputs))
            else:
                found.append(-1)
        return found

    def _output(self, output: Any, results: Sequence[Any], known: Sequence[Any], owners: Sequence[torch.Tensor]) -> Any:
        if isinstance(output, Made):
            return output.of(results, known)
        if isinstance(output, View):
            layout, owner = output.layout, owners[output.owner]
            return layout.viewing(owner, known) if self.views else layout.over(owner, known)
        if isinstance(output, InputView):
            return output.layout.within(known[output.index], known)
        if isinstance(output, Passed):
            return known[output.index]
        if isinstance(output, InputPart):
            return output.layout.over(known[output.index], known)
        return output.empty(known) if isinstance(output, Layout) else output  # or a constant

    @property
    def computed(self) -> bool:
        """True if there is anything to compute."""
        return bool(self.executable.outputs)


def _array(value: Any, spec: Input) -> Any:
    """An input as the program takes it: complex numbers as pairs, axes in the order in which they lie in memory."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().resolve_conj() if value.is_complex() else value
    value = value.permute(spec.order) if spec.order is not None else value
    return to_array(torch.view_as_real(value) if value.is_complex() else value)
