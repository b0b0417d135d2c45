"""`torch.compile(model, backend="burn")`: TorchDynamo's graphs, forward and backward, compiled by burn. Enter at `backend`.

AOTAutograd makes of each graph a functional one (inference), or two (forward and backward); both go through the same table
of builders as exported programs. Parameters are ordinary inputs, read from torch's memory at every call, so changes between
calls take effect. With `options={"freeze": True}` the parameters of inference graphs become
constants, which burn packs once. A change of a parameter shows in its
version or address (except writes through `.data`); then the graph is compiled again, without constants.

Dynamic sizes of Dynamo are symbols of the compiled program: one compilation serves all of them. One ModelError lists all
unsupported operators; torch falls back to eager only with `torch._dynamo.config.suppress_errors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import unset_fake_temporarily

from burn.adapters.torch import gpu_memory
from burn.adapters.torch.attention import keep_attention
from burn.adapters.torch.gpu import KINDS, GPUCalls, Input, Result, as_burn, device_of, loaded
from burn.adapters.torch.input_views import assigned, forget_replays, layouts_of_views, parts_of_inputs
from burn.adapters.torch.layouts import (
    ELEMENTS,
    LAYOUT_ONLY,
    Layout,
    contiguous,
    memory_order,
    outputs_of,
    renewed,
    requirements,
    shared,
)
from burn.adapters.torch.partition import partition
from burn.adapters.torch.saved import SAVED, Block, opened_backward, opened_forward
from burn.caching import executable
from burn.dialect import ops
from burn.dialect.compose import reshape, transpose
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, TensorType, type_of
from burn.errors import ModelError, Problem
from burn.importers.torch.build import SUMMARY, Importer, as_output, read_size
from burn.importers.torch.decompositions import for_autograd
from burn.importers.torch.dtypes import dtype_name, to_array, to_tensor
from burn.importers.torch.random import draw_state
from burn.importers.torch.sizes import Sizes, Unrepresentable, expression_of
from burn.options import Options
from burn.runtime import Executable
from burn.tensors.tracer import tracing

OPTIONS = ("freeze", "target")
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def backend(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles one graph of Dynamo's. `mode`: torch's own are taken and all mean the same, burn has one.

    Raises ModelError that lists everything in the graph that burn cannot do."""
    if mode not in MODES:
        raise ModelError("torch.compile was given a mode that it does not have", [f"{mode}; there is {MODES[1:]}"])
    unknown = [name for name in options or {} if name not in OPTIONS]
    if unknown:
        raise ModelError(
            "torch.compile was given options that burn does not have", [f"{n}; there is {OPTIONS}" for n in unknown]
        )
    freeze = bool((options or {}).get("freeze", False))
    asked = Options.of(target=(options or {}).get("target"))
    on_gpu = any(isinstance(x, torch.Tensor) and gpu_memory.where(x).type in KINDS for x in example_inputs)
    compiler = aot_autograd(
        fw_compiler=partial(compile_graph, options=asked),
        bw_compiler=partial(compile_graph, options=asked, backward=True),
        inference_compiler=partial(compile_graph, options=asked, freeze=freeze, inference=True),
        decompositions=for_autograd(),
        partition_fn=partial(partition, recompute=on_gpu),
        keep_inference_input_mutations=on_gpu,
    )
    if on_gpu:
        keep_attention(graph)
    return compiler(graph, example_inputs)


if not entry_points(group="torch_dynamo_backends", name="burn"):
    # Installed, burn is found by its entry point, and torch refuses a name that is registered twice.
    register_backend(backend, name="burn")


def compile_graph(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Options | None = None,
    freeze: bool = False,
    backward: bool = False,
    inference: bool = False,
) -> Callable[[list[Any]], Any]:
    """A functional ATen graph as a function of a list of its inputs. It empties the list, as torch requires. inference: the
    graph is called outside of an autograd function, so its outputs may be views of each other."""
    device = device_of(graph)
    read, written = opened_backward(graph), opened_forward(graph)
    if device is not None:
        if options is not None and options.target is not None:
            reason = f"the graph's tensors are on {device}, and a target is a CPU"
            raise ModelError(SUMMARY, [Problem('the option "target": ' + reason, hint="leave it out")])
        options = replace(options or Options(), device=as_burn(device), target=None)
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    static = tuple(metadata.static_input_indices or ()) if freeze and metadata is not None else ()
    count = len(outputs_of(graph))
    required = (
        dict.fromkeys(range(count), ELEMENTS) if backward else requirements(metadata) if metadata is not None else {}
    )
    aliases = Aliases()
    if metadata is not None and not backward:
        forget_replays(graph, metadata)
        aliases = Aliases(renewed(metadata), layouts_of_views(graph, metadata), parts_of_inputs(graph, metadata))
    compiled = CompiledGraph(
        graph,
        static,
        required,
        options,
        aliases=None if backward else aliases,
        views=inference,
        device=device,
        read=read,
        written=written,
    )

    def call(arguments: list[Any]) -> list[Any]:
        return compiled(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]  # torch hands over its arguments in a list that may be emptied
    return call


@dataclass(frozen=True)
class Aliases:
    """The outputs of a forward graph that torch or burn makes of an input. updates: see `layouts.renewed`. placed: see
    `input_views.layouts_of_views`. parts: see `input_views.parts_of_inputs`."""

    updates: Mapping[int, int] = field(default_factory=dict)
    placed: Mapping[int, torch.Tensor] = field(default_factory=dict)
    parts: Mapping[int, tuple[int, torch.Tensor]] = field(default_factory=dict)


class CompiledGraph:
    """A graph's executable, or two: with its static inputs as constants, and with all inputs."""

    def __init__(
        self,
        graph: fx.GraphModule,
        static: Sequence[int],
        required: Mapping[int, str],
        options: Options | None,
        *,
        aliases: Aliases | None = Aliases(),
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
        self.frozen: _Program | None = None
        self.versions: list[int] | None = None
        self.addresses: list[int] = []
        self.general: _Program | None = None
        if not self.static:
            self.general = self._compiled({})

    def __call__(self, arguments: list[Any]) -> list[Any]:
        values = list(arguments)
        arguments.clear()
        given = self.bases.read(values)
        return self.bases.extended(self._program(given)(given), values)

    def _program(self, values: Sequence[Any]) -> _Program:
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

    def _compiled(self, constants: Mapping[int, torch.Tensor]) -> _Program:
        build = _Build(self.graph, constants, self.required, self.aliases, self.device, self.read, self.written)
        return _Program(build, self.options, self.views, self.device)


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


class _Program:
    """One compiled program with the graph's calling convention."""

    def __init__(
        self,
        build: _Build,
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
                self.orders = [(i, r.order) for i, r in enumerate(results) if r.order is not None]

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
            if isinstance(output, _Passed):
                found.append(output.index)
            elif isinstance(output, _Made) and output.is_result:
                found.append(first + output.result)
            elif isinstance(output, _SavedBlock):
                found.append(first + len(self.executable.outputs))
            else:
                found.append(-1)
        return found

    def _output(self, output: Any, results: Sequence[Any], known: Sequence[Any], owners: Sequence[torch.Tensor]) -> Any:
        if isinstance(output, _Made):
            return output.of(results, known)
        if isinstance(output, _View):
            layout, owner = output.layout, owners[output.owner]
            return layout.viewing(owner, known) if self.views else layout.over(owner, known)
        if isinstance(output, _InputView):
            return output.layout.within(known[output.index], known)
        if isinstance(output, _Passed):
            return known[output.index]
        if isinstance(output, _InputPart):
            return output.layout.over(known[output.index], known)
        return output.empty(known) if isinstance(output, Layout) else output  # or a constant

    @property
    def computed(self) -> bool:
        """True if there is anything to compute."""
        return bool(self.executable.outputs)


def _is_tensor(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(_meta(node), torch.Tensor)


def _array(value: Any, spec: Input) -> Any:
    """An input as the program takes it: complex numbers as pairs, axes in the order in which they lie in memory."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().resolve_conj() if value.is_complex() else value
    value = value.permute(spec.order) if spec.order is not None else value
    return to_array(torch.view_as_real(value) if value.is_complex() else value)


@dataclass(frozen=True)
class _Made:
    """An output that the program computes: its index among the executable's outputs, its kind, its layout."""

    result: int
    kind: str  # "tensor"; "pairs", of complex numbers; or one of NUMBERS
    layout: Layout | None = None
    ordered: bool = False  # the array is the memory that the layout says, element after element
    device: torch.device | None = None  # that torch takes it to be on, where that is another than the program's

    @property
    def is_result(self) -> bool:
        """True if a GPU's result is allocated as torch takes the output to be, see `Result.layout`."""
        laid = self.layout is None or (self.ordered and self.layout.fixed is not None)
        return laid and self.kind == "tensor" and self.device is None

    def of(self, results: Sequence[Any], known: Sequence[Any]) -> Any:
        """The output, of the executable's results. known: the values that sizes are read from."""
        if self.kind in NUMBERS:
            return NUMBERS[self.kind](results[self.result])
        given = results[self.result]
        on_gpu = isinstance(given, torch.Tensor)
        tensor = given if on_gpu else to_tensor(given)
        if self.device is not None:
            tensor = tensor.to(self.device)
        tensor = torch.view_as_complex(tensor) if self.kind == "pairs" else tensor
        if self.layout is None:
            return tensor
        if not self.ordered:
            return self.layout.holding(tensor, known)
        return (
            tensor
            if on_gpu and self.kind == "tensor" and self.layout.is_of(tensor, known)
            else self.layout.over(tensor, known)
        )


@dataclass(frozen=True)
class _View:
    """An output over the memory of one of the program's owners of shared memory, by number."""

    owner: int
    layout: Layout


@dataclass(frozen=True)
class _InputView:
    """An output that is a view of an input, by number. layout: its offset is counted from that of the input."""

    index: int
    layout: Layout


@dataclass(frozen=True)
class _Passed:
    """An output that is saved for the backward pass, and is the graph's input of that number."""

    index: int


@dataclass(frozen=True)
class _SavedBlock:
    """An output that is the block of saved tensors, which comes after the results."""


@dataclass(frozen=True)
class _InputPart:
    """An output in the memory of an input, by number, that torch writes after the call. Autograd would forbid that for a view, so
    the output is a tensor of its own."""

    index: int
    layout: Layout


NUMBERS: dict[str, Callable[[Any], Any]] = {"SymInt": int, "SymFloat": float, "SymBool": bool}
"""torch's numbers of a graph -> what it takes for one when the graph runs."""

DTYPES_OF_NUMBERS = {"SymInt": torch.int64, "SymFloat": torch.float64, "SymBool": torch.bool}
"""The element types in which the program returns them."""


class _Build:
    """From a functional graph to a program.

    `positions`: the graph's inputs that the program takes, in order, and the order of their axes in memory if it is another than
    the rows'. `results`: how each output of the program is allocated. `firsts`: by output, the first that is the same tensor:
    what a graph returns twice is one object, as in eager mode. `assigned`: the graph's inputs, by number, that it writes itself,
    and their new values. `into`: by output of the program, the graph's input that it is written to. `read`, `written`: blocks of
    saved tensors. `given`: how many inputs the graph has for torch; further ones are members of a block."""

    def __init__(
        self,
        graph: fx.GraphModule,
        constants: Mapping[int, torch.Tensor],
        required: Mapping[int, str],
        aliases: Aliases | None,
        device: torch.device | None = None,
        read: Block | None = None,
        written: Block | None = None,
    ) -> None:
        self.device = device
        self.read = read
        self.written = written
        self.graph = graph
        self.constants = constants
        self.required = required
        self.aliases = aliases
        self.placed = aliases.placed if aliases else {}
        self.parts = aliases.parts if aliases else {}
        self.sizes = Sizes()
        self.placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        self.given = len(self.placeholders) if read is None else read.first
        self.unread = {i for i, n in enumerate(self.placeholders) if any(_orders(user, n) for user in n.users)}
        self.unread |= {read.index} if read is not None else set()
        self.positions: dict[int, tuple[int, ...] | None] = {}
        self.results: list[Result] = []
        self.outputs: list[Any] = []
        self.owners: list[_Made] = []
        self.firsts: list[int] = []
        self.assigned = assigned(graph)
        self.into: dict[int, int] = {}

    def run(self) -> Any:
        inputs = self._inputs()
        self.positions = {i: self._order(i) for i in inputs}
        importer = Importer(list(inputs.values()), self.sizes)
        values = dict(zip(inputs, importer.program.inputs, strict=True))
        returned = outputs_of(self.graph)
        self.firsts = self._firsts(returned)
        kept = {i: n for i, n in enumerate(returned) if isinstance(n, fx.Node) and self.required.get(i) == ELEMENTS}
        apart = {**self.placed, **self.parts}
        sharing = shared({i: n for i, n in kept.items() if i not in apart}) if self.aliases is not None else {}
        of_inputs = {i: self.placeholders.index(n) for i, n in sharing.items() if n.op == "placeholder"}
        owners = list(dict.fromkeys(n for n in sharing.values() if n.op != "placeholder"))
        with tracing(importer.tracer):
            self._read_sizes(importer, values)
            arguments = [self._argument(importer, i, values) for i in range(len(self.placeholders))]
            further = [*owners, *self.assigned.values()]
            results = importer.run(self.graph, arguments, further)
            importer.raise_problems()
            made: dict[int, _Output] = {}  # what the program computes: outputs by number, then owners
            passed = self._passed(returned)
            for i, (node, value) in enumerate(
                zip((*returned, *owners), results[: len(returned) + len(owners)], strict=True)
            ):
                layout_only = (
                    i < len(returned) and self.required.get(i) == LAYOUT_ONLY and isinstance(_meta(node), torch.Tensor)
                )
                if (
                    not layout_only
                    and i not in passed
                    and i not in sharing
                    and i not in self.parts
                    and not _is_constant(value, _meta(node))
                ):
                    made[i] = _Output.of(value, self._lying(i, node), i in kept or i >= len(returned))
            updates = results[len(returned) + len(owners) :]
            for i, (index, value) in enumerate(zip(self.assigned, updates, strict=True), len(returned) + len(owners)):
                self.into[len(made)] = index
                made[i] = _Output.of(value, _meta(self.placeholders[index]), True, self._order(index))
        saved = dict(enumerate(self.written.offsets, self.written.first)) if self.written is not None else {}
        sources = [*map(_meta, self.placeholders[: self.given]), *(m.source for m in made.values())]
        placed = {i: self._on_device(m.placed(number, sources), m.meta) for number, (i, m) in enumerate(made.items())}
        self.results = [m.result(placed[i].layout, saved.get(i)) for i, m in made.items()]
        for i, node in enumerate(returned):
            if i in saved:
                continue
            if self.written is not None and i == self.written.index:
                self.outputs.append(_SavedBlock())
            elif i in passed:
                self.outputs.append(_Passed(passed[i]))
            elif i in placed:
                self.outputs.append(placed[i])
            elif i in self.parts:
                index, meta = self.parts[i]
                self.outputs.append(_InputPart(index, _layout(meta, sources, i)))
            elif i in of_inputs:
                start = _meta(self.placeholders[of_inputs[i]]).storage_offset()
                self.outputs.append(_InputView(of_inputs[i], _layout(_meta(node), sources, i, start)))
            elif i in sharing:
                self.outputs.append(_View(owners.index(sharing[i]), _layout(_meta(node), sources, i)))
            else:
                layout_only = self.required.get(i) == LAYOUT_ONLY and isinstance(_meta(node), torch.Tensor)
                meta = self.placed.get(i, _meta(node))
                self.outputs.append(_layout(meta, sources, i) if layout_only else results[i])
        self.owners = [placed[len(returned) + i] for i in range(len(owners))]
        program = importer.finish([(f"output_{i}", m.value) for i, m in made.items()])
        numbers = {index: number for number, index in enumerate(self.positions)}
        renewed = {output: numbers[index] for output, index in self.into.items() if index in numbers}
        program.renews, program.given_up = renewed, tuple(renewed.values())
        return program

    def _lying(self, output: int, node: Any) -> Any:
        """torch's view of an output in the memory that it is to have."""
        if output in self.placed or output in self.required or not isinstance(node, fx.Node):
            return self.placed.get(output, _meta(node))
        return node.meta.get(SAVED, _meta(node))

    def _passed(self, returned: Sequence[Any]) -> dict[int, int]:
        """Output -> the input that it is, for what is saved for the backward pass."""
        if self.aliases is None:
            return {}
        free = (i for i in range(len(returned)) if i not in self.required and i not in self.aliases.updates)
        return {i: self.placeholders.index(returned[i]) for i in free if returned[i] in self.placeholders}

    def _on_device(self, made: _Made, meta: Any) -> _Made:
        """An output where torch takes it to be."""
        if self.device is None or not isinstance(meta, torch.Tensor) or gpu_memory.where(meta) == self.device:
            return made
        return replace(made, device=gpu_memory.where(meta))

    def inputs(self, device: torch.device | None) -> list[Input]:
        """The program's inputs. device: the program's GPU."""
        found = []
        offsets = dict(enumerate(self.read.offsets, self.read.first)) if self.read is not None else {}
        for i, order in self.positions.items():
            meta = self.placeholders[i].meta["val"]
            if i in offsets:
                assert self.read is not None
                dtype, shape = dtype_name(meta.dtype), tuple(meta.shape)
                found.append(Input(self.read.index, dtype, False, False, False, order, shape, offsets[i]))
                continue
            if not isinstance(meta, torch.Tensor):
                dtype = (
                    "int64"
                    if isinstance(meta, torch.SymInt)
                    else "float64"
                    if isinstance(meta, torch.SymFloat)
                    else "bool"
                )
                found.append(Input(i, dtype, device is not None, True, False, None, ()))
                continue
            varies = any(isinstance(n, torch.SymInt) for n in meta.shape)
            from_host = device is not None and gpu_memory.where(meta) != device
            shape = None if varies else tuple(meta.shape)
            found.append(Input(i, dtype_name(meta.dtype.to_real()), from_host, False, meta.is_complex(), order, shape))
        return found

    def _order(self, index: int) -> tuple[int, ...] | None:
        """The axes of an input as they lie in memory, if they fill it in another order than the rows'."""
        meta = self.placeholders[index].meta["val"]
        if not isinstance(meta, torch.Tensor) or meta.dim() < 2 or meta.is_neg():
            return None
        order = memory_order(meta, anywhere=True)
        return None if order is None or order == tuple(range(meta.dim())) else order

    def _firsts(self, returned: Sequence[Any]) -> list[int]:
        """Maps every output to the first that is the same object. An output with the requirement LAYOUT_ONLY has no elements. An
        output that is kept for the backward pass has them, though both are results of one call."""
        found: dict[Any, int] = {}
        firsts = []
        for i, node in enumerate(returned):
            same = self.aliases is not None and _is_tensor(node) and self.required.get(i) != LAYOUT_ONLY
            firsts.append(found.setdefault(node, i) if same else i)
        return firsts

    def _inputs(self) -> dict[int, tuple[str, TensorType]]:
        problems: list[Problem] = []
        metas = [n.meta["val"] for n in self.placeholders]
        for value in metas:
            for size in value.shape if isinstance(value, torch.Tensor) else ():
                name = re.sub(r"\W", "_", str(expression_of(size)))
                if isinstance(size, torch.SymInt) and name.isidentifier():
                    self.sizes.bind(size, symbol(name))
        inputs: dict[int, tuple[str, TensorType]] = {}
        for i, (node, value) in enumerate(zip(self.placeholders, metas, strict=True)):
            name = f"input_{i}_{re.sub(r'[^0-9a-zA-Z]+', '_', node.name)}"
            try:
                if i in self.unread:
                    continue
                if isinstance(value, torch.Tensor) and i not in self.constants:
                    shape = tuple(self._size(d, f"input_{i}_{axis}") for axis, d in enumerate(value.shape))
                    order = self._order(i)
                    shape = shape if order is None else tuple(shape[axis] for axis in order)
                    pair = (2,) * value.is_complex()
                    inputs[i] = (name, TensorType(dtype_name(value.dtype.to_real()), (*shape, *pair)))
                elif isinstance(value, torch.SymInt) and not self._is_known(value):
                    inputs[i] = (name, TensorType("int64", ()))
                elif isinstance(value, (torch.SymFloat, torch.SymBool)):
                    inputs[i] = (name, TensorType("float64" if isinstance(value, torch.SymFloat) else "bool", ()))
            except Unrepresentable as error:
                problems.append(Problem(f"input '{node.name}': {error}"))
        if problems:
            raise ModelError(SUMMARY, problems)
        return inputs

    def _is_known(self, value: torch.SymInt) -> bool:
        """True if a number is another input's size, or one that torch fixed while tracing (it may be negative)."""
        expression = expression_of(value)
        return expression.is_Integer or expression in self.sizes.symbols

    def _size(self, size: Any, name: str) -> Dim:
        """A size of an input. One that is reckoned from numbers that are inputs themselves is any size until those are
        known, see `_argument`."""
        return self.sizes.dim(size) if self.sizes.has(size) else symbol(name)

    def _read_sizes(self, importer: Importer, values: Mapping[int, Any]) -> None:
        """Binds the sizes that are inputs of their own."""
        for i, node in enumerate(self.placeholders):
            if i in values and isinstance(node.meta["val"], torch.SymInt):
                self.sizes.bind(node.meta["val"], read_size(values[i], importer.tracer, "size"))

    def _argument(self, importer: Importer, index: int, values: Mapping[int, Any]) -> Any:
        node = self.placeholders[index]
        meta = node.meta["val"]
        if index in self.unread:
            return None
        if isinstance(meta, torch.SymInt):
            return self.sizes.dim(meta)
        if index in self.constants:
            return importer.constant(self.constants[index], node.name)
        if index not in values or not isinstance(meta, torch.Tensor):
            return values.get(index, meta)
        order = self._order(index)
        sizes, pair = tuple(map(self.sizes.dim, meta.shape)), (2,) * meta.is_complex()
        lying = sizes if order is None else tuple(sizes[axis] for axis in order)
        value = reshape(values[index], (*lying, *pair))
        if order is not None:
            back = sorted(range(len(order)), key=order.__getitem__)
            value = transpose(value, (*back, len(order)) if pair else tuple(back))
        return ops.view_as_complex(value) if meta.is_complex() else value


def _is_complex(value: Any) -> bool:
    return isinstance(value, ir.Value) and type_of(value).dtype in PARTS


def _is_constant(value: Any, meta: Any) -> bool:
    return value is None or (isinstance(value, (int, float, bool)) and not isinstance(meta, torch.Tensor))


@dataclass(frozen=True)
class _Output:
    """An output of the program while it is built. order: the axes as they lie in memory, where torch says so."""

    value: ir.Value
    meta: Any
    kind: str
    lies: bool
    order: tuple[int, ...] | None

    @classmethod
    def of(cls, value: Any, meta: Any, lies: bool, order: tuple[int, ...] | None = None) -> _Output:
        """lies: where torch says, unless that is contiguous anyway. order: of the axes in memory; torch's by default."""
        number = type(meta).__name__
        kind = number if number in NUMBERS else "pairs" if _is_complex(value) else "tensor"
        made = ops.view_as_real(value) if _is_complex(value) else as_output(value)
        dense = isinstance(meta, torch.Tensor) and not contiguous(meta)
        order = order or (memory_order(meta) if dense else None)
        lies = dense and (lies or order is not None)
        if order is not None:
            made = transpose(made, (*order, len(order)) if kind == "pairs" else order)
        return cls(made, meta, kind, lies, order)

    def result(self, layout: Layout | None, offset: int | None) -> Result:
        """offset: in the block of saved tensors."""
        dtype = DTYPES_OF_NUMBERS.get(self.kind) or (
            self.meta.dtype.to_real() if self.kind == "pairs" else self.meta.dtype
        )
        if not isinstance(self.meta, torch.Tensor) and self.kind not in NUMBERS:
            raise ModelError(SUMMARY, [Problem(f"an output is neither a tensor nor a number: {self.meta!r}")])
        if self.order is None or self.kind == "pairs":
            return Result(dtype, offset=offset)
        return Result(dtype, self.order, layout.fixed if layout is not None else None, offset)

    @property
    def source(self) -> Any:
        """torch's view of the array, whose sizes the program tells."""
        return self.meta if self.order is None else self.meta.permute(self.order)

    def placed(self, number: int, sources: Sequence[Any]) -> _Made:
        layout = _layout(self.meta, sources, number) if self.lies else None
        return _Made(number, self.kind, layout, self.order is not None)


def _layout(meta: torch.Tensor, sources: Sequence[Any], number: int, start: Any = 0) -> Layout:
    """Where torch takes a tensor to lie. start: what its offset is counted from. Raises ModelError."""
    try:
        return Layout(meta, sources, start)
    except KeyError as error:
        reason = f"it is a view, and where it lies depends on {error}, a size that the graph computes"
        raise ModelError(SUMMARY, [Problem(f"output {number}: {reason}", hint="return a .clone() of it")]) from None


def _meta(value: Any) -> Any:
    """torch's view of a value of a graph."""
    return value.meta.get("val") if isinstance(value, fx.Node) else value


def _orders(call: fx.Node, token: fx.Node) -> bool:
    """True for an input that only orders a call with side effects: torch passes None."""
    return call.target is torch.ops.higher_order.with_effects and call.args[0] is token
