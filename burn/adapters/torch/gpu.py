"""Programs on torch's GPU tensors: `torch.compile(backend="burn")` on CUDA. Enter at `GPUCalls`.

All work goes to torch's current stream, and all memory comes from torch's caching allocator: results, and an arena that a call
takes and gives back. So burn has no second pool of memory. torch's rules for streams hold: memory that is freed during a
call's work is reused by later work of its stream.

A program is traced once for given sizes (`Executable.traced`). The first call submits its launches one by one, later calls one
CUDA graph. Tensors at other addresses than in the last call change the graph's nodes that use them; nothing is copied. Some
programs need the host during a run: it reads elements, such as data-dependent sizes, or runs a kernel (a library op, or a group
that Triton cannot express). They run on burn's own stream, between torch's earlier and later work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx

from burn.adapters.torch import gpu_memory
from burn.adapters.torch.saved import part
from burn.codegen.host.records import ON_HOST
from burn.errors import MemoryRunError, ModelError, Problem, RunError
from burn.importers.torch.build import SUMMARY
from burn.importers.torch.dtypes import to_array, torch_dtype
from burn.runtime import Executable, _native
from burn.runtime.device import Device
from burn.runtime.device import device as burn_device

KINDS = ("cuda",)
"""torch's device types that programs run on, besides the CPU."""

FEWEST = 3
"""Launches from which on a CUDA graph costs the host less than they do."""

MOST_SIZES = 64
"""Traced calls that a program keeps, of different sizes."""

ALIGNMENT = 16
"""Kernels take addresses for multiples of this many bytes."""


def device_of(graph: fx.GraphModule) -> torch.device | None:
    """The GPU of a graph's tensors; None for the CPU. Raises ModelError for tensors on several GPUs, or on another kind of
    device."""
    found: dict[torch.device, fx.Node] = {}
    for node in graph.graph.nodes:
        for value in _tensors(node):
            found.setdefault(gpu_memory.where(value), node)
    others = [d for d in found if d.type not in ("cpu", *KINDS)]
    if others:
        problems = [Problem(f"a tensor is on {d}", node=found[d].name, hint="use the CPU or CUDA") for d in others]
        raise ModelError(SUMMARY, problems)
    gpus = [d for d in found if d.type != "cpu"]
    if len(gpus) > 1:
        listed = " and ".join(f"{d} ('{found[d].name}')" for d in gpus)
        raise ModelError(SUMMARY, [Problem(f"its tensors are on {listed}, and a program runs on one device")])
    return gpus[0] if gpus else None


def _tensors(node: fx.Node) -> Iterator[torch.Tensor]:
    value = node.meta.get("val")
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, torch.Tensor):
            yield each


def as_burn(device: torch.device) -> Device:
    return burn_device(f"{device.type}:{device.index or 0}")


@contextmanager
def with_room(device: torch.device) -> Iterator[None]:
    """Raises torch's error where burn finds no memory for constants and code."""
    try:
        yield
    except MemoryRunError as error:
        raise torch.OutOfMemoryError(str(error)) from error


def loaded(make: Callable[[], Executable]) -> Executable:
    """A program's executable. If there is no memory for its code and constants, torch gives back what it keeps in reserve. Raises
    torch.OutOfMemoryError."""
    try:
        return make()
    except RunError as error:
        if "out of memory" not in str(error):
            raise
    gpu_memory.give_back()
    try:
        return make()
    except RunError as error:
        if "out of memory" not in str(error):
            raise
        raise torch.OutOfMemoryError(str(error)) from error


@dataclass(frozen=True)
class Input:
    """An input of a program. index: among the graph's inputs. order: the axes as the program takes them, None for as they are.
    shape: None if it is read at each call. offset: in bytes, if it is a part of that input, a block of saved tensors."""

    index: int
    dtype: str
    from_host: bool
    number: bool
    is_complex: bool
    order: tuple[int, ...] | None
    shape: tuple[int, ...] | None
    offset: int | None = None


@dataclass(frozen=True)
class Result:
    """How an output of a program is allocated: `order` says which axis lies where, outermost first. layout: torch's sizes and
    strides, if they are known beforehand. offset: in bytes, in the block of saved tensors."""

    dtype: torch.dtype
    order: tuple[int, ...] | None = None
    layout: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    offset: int | None = None


@dataclass
class _Call:
    """A call's work for inputs of certain sizes."""

    traced: _native.Traced
    arena: int
    shapes: list[
        tuple[tuple[int, ...], tuple[int, ...], torch.dtype]
    ]  # of the outputs to allocate: sizes, strides, type
    used: int = 0
    known: _Known | None = None  # replaced as a whole, because several threads may call


@dataclass(frozen=True)
class _Known:
    """Where the inputs of the last call were. `addresses`: of all inputs. `varying`: the inputs that have been at several
    addresses. `indices`: the others, by their numbers among the graph's inputs. `steady`: their addresses, by these numbers."""

    addresses: list[int]
    varying: tuple[tuple[int, Input], ...]
    steady: list[int]
    indices: list[int]

    @staticmethod
    def of(addresses: list[int], before: _Known | None, on_gpu: Sequence[tuple[int, Input]]) -> _Known:
        """Decides which inputs are steady: those that are where they were before, and always were. In a loop these are the
        parameters, and most memory of torch's allocator. Dynamo's guards hold their sizes and strides."""
        moved = set()
        if before is not None:
            moved = {n for n, _ in before.varying}
            moved |= {n for n, _ in on_gpu if before.addresses[n] != addresses[n]}
        varying = tuple((n, i) for n, i in on_gpu if n in moved or i.is_complex)
        fixed = [(n, i) for n, i in on_gpu if n not in moved and not i.is_complex]
        steady = [0] * (1 + max((i.index for _, i in on_gpu), default=0))
        for n, i in fixed:
            steady[i.index] = addresses[n] - (i.offset or 0)
        return _Known(addresses, varying, steady, list(dict.fromkeys(i.index for _, i in fixed)))


class GPUCalls:
    """A program with the calling convention of tensors on a GPU."""

    def __init__(
        self,
        executable: Executable,
        device: torch.device,
        inputs: Sequence[Input],
        results: Sequence[Result],
        into: Mapping[int, int],
        block: int = 0,
    ) -> None:
        """into: output -> the graph's input that it is written to. block: bytes of the block of saved tensors."""
        self.executable = executable
        self.device = device
        self.inputs = tuple(inputs)
        self.results = tuple(results)
        numbers = {spec.index: n for n, spec in enumerate(self.inputs) if not spec.from_host}
        self.into = [numbers.get(into.get(o, -1), -1) for o in range(len(self.results))]
        self._block = block
        self._apart = [
            o for o, r in enumerate(self.results) if self.into[o] < 0 and r.offset is None
        ]  # own allocations
        self._on_host = {o: i for o, i in into.items() if i not in numbers}  # updates of tensors in host memory
        self._sized = [i for i in self.inputs if i.shape is None and not i.number]
        self._from_host = [i for i in self.inputs if i.from_host]
        self._on_gpu = tuple((n, i) for n, i in enumerate(self.inputs) if not i.from_host)
        self._drawn = int(executable.artefact.signature.random_state)
        self._calls: dict[Any, _Call | None] = {}
        self._last: tuple[Any, _Call] | None = None

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The outputs, dense tensors on the GPU. An output that is written to an input is that input. A saved tensor is None, and
        the block of all of them follows the outputs."""
        key = tuple([values[i.index].shape for i in self._sized])
        if self._last is not None and self._last[0] == key:
            call: _Call | None = self._last[1]
        else:
            call = self._call(key, values)
        if call is None:
            return self._through_host(values)
        stream = gpu_memory.stream(self.device)
        kept: list[torch.Tensor] = []  # what must live until the work is submitted
        written: list[tuple[torch.Tensor, torch.Tensor]] = []
        addresses = self._addresses(call, values, kept, written)
        results, targets = self._allocated(call, values)
        arena = gpu_memory.empty((call.arena,), (1,), torch.uint8, self.device) if call.arena else None
        base = gpu_memory.address(arena) if arena is not None else 0
        as_graph = call.used > 0 and call.traced.steps >= FEWEST and not gpu_memory.is_capturing()
        call.used += 1
        call.traced.submit(base, addresses, self._sent(values), targets, stream, as_graph)
        if written or self._on_host:
            with torch.no_grad():
                for original, copy in written:
                    original.copy_(copy)
                for output, index in self._on_host.items():
                    values[index].copy_(results[output])
        return results

    def _allocated(self, call: _Call, values: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """The outputs, and the addresses of those that are not written to inputs."""
        made = gpu_memory.allocated(call.shapes, self.device)
        targets = list(map(gpu_memory.address, made))
        if len(made) == len(self.results):
            return made, targets
        results: list[Any] = [values[self.inputs[into].index] if into >= 0 else None for into in self.into]
        for output, tensor in zip(self._apart, made, strict=True):
            results[output] = tensor
        if self._block:
            block = gpu_memory.empty((self._block,), (1,), torch.uint8, self.device)
            base, own = gpu_memory.address(block), iter(targets)
            targets = [
                next(own) if result.offset is None else base + result.offset
                for result, into in zip(self.results, self.into, strict=True)
                if into < 0
            ]
            results.append(block)
        return results, targets

    # ---- inputs ------------------------------------------------------------------------------------------------------

    def _addresses(
        self,
        call: _Call,
        values: Sequence[Any],
        kept: list[torch.Tensor],
        written: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> list[int]:
        known = call.known
        if known is not None and gpu_memory.same(values, known.steady, known.indices):
            if not known.varying:
                return known.addresses
            addresses, taken = known.addresses[:], known.varying
        else:
            addresses, taken = [0] * (len(self.inputs) + self._drawn), self._on_gpu
        blocks: dict[int, int] = {}
        for n, spec in taken:
            value = values[spec.index]
            if spec.offset is not None:
                if spec.index not in blocks:
                    blocks[spec.index] = self._block_address(n, value, kept)
                addresses[n] = blocks[spec.index] + spec.offset
                continue
            if spec.order is not None:
                value = value.permute(spec.order)
            if spec.is_complex:
                value = torch.view_as_real(value.resolve_conj())
            if not value.is_contiguous() or value.is_neg():
                value = self._copied(n, value, kept, written)
            at = gpu_memory.address(value)
            if at % ALIGNMENT:
                value = self._copied(n, value, kept, written)
                at = gpu_memory.address(value)
            addresses[n] = at
        if taken is self._on_gpu and not kept:
            call.known = _Known.of(addresses, known, self._on_gpu)
        return addresses

    def _copied(
        self,
        number: int,
        value: torch.Tensor,
        kept: list[torch.Tensor],
        written: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        """A dense copy, from which results are copied back to an input that they are written to."""
        made = gpu_memory.empty(tuple(value.shape), _dense(value.shape), value.dtype, self.device)
        with torch.no_grad():
            made.copy_(value)
        kept.append(made)
        if number in self.into:
            written.append((value, made))
        return made

    def _block_address(self, number: int, block: torch.Tensor, kept: list[torch.Tensor]) -> int:
        """Where a block of saved tensors begins. A hook on saved tensors may have made another of it."""
        at = gpu_memory.address(block)
        if block.is_contiguous() and not at % ALIGNMENT:
            return at
        return gpu_memory.address(self._copied(number, block, kept, []))

    def _sent(self, values: Sequence[Any]) -> list[np.ndarray]:
        """Elements that the host sends: numbers, tensors on the CPU, the random state."""
        if not (self._from_host or self._drawn):
            return []
        sent = [_bytes(host_array(values[i.index], i)) for i in self._from_host]
        state = self.executable.random_state()
        return sent if state is None else [*sent, state]

    # ---- tracing -----------------------------------------------------------------------------------------------------

    def _call(self, key: Any, values: Sequence[Any]) -> _Call | None:
        if key not in self._calls:
            if len(self._calls) >= MOST_SIZES:
                self._calls.pop(next(iter(self._calls)))
            self._calls[key] = self._traced(values)
        call = self._calls[key]
        if call is not None:
            self._last = key, call
        return call

    def _traced(self, values: Sequence[Any]) -> _Call | None:
        shapes = [self._shape(spec, values[spec.index]) for spec in self.inputs]
        with with_room(self.device):
            traced = self.executable.traced(shapes, [i.from_host for i in self.inputs], self.into)
        if traced is None:
            return None
        made = []
        for output in self._apart:
            (dims, _), result = traced.outputs[output], self.results[output]
            strides = _dense(dims)
            if result.layout is not None:
                dims, strides = result.layout
            elif result.order is not None:
                inverse = sorted(range(len(dims)), key=result.order.__getitem__)
                dims, strides = tuple(dims[a] for a in inverse), tuple(strides[a] for a in inverse)
            made.append((dims, strides, result.dtype))
        return _Call(traced, traced.arena, made)

    def _shape(self, spec: Input, value: Any) -> tuple[int, ...]:
        if spec.number:
            return ()
        shape = tuple(value.shape) if spec.offset is None else spec.shape or ()
        if spec.order is not None:
            shape = tuple(shape[a] for a in spec.order)
        return (*shape, 2) if spec.is_complex else shape

    # ---- runs that need the host ---------------------------------------------------------------------------------------

    def _through_host(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """On burn's own stream, and with its memory, which is given back afterwards."""
        if gpu_memory.is_capturing():
            raise RunError("the program cannot be captured", self._needs_of_host())
        native = as_burn(self.device).native
        stream = gpu_memory.stream(self.device)
        native.wait_for(stream)
        arrays: list[Any] = []
        for spec in self.inputs:
            value = values[spec.index]
            if spec.offset is not None:
                value = part(value, spec.offset, *_lying(spec), torch_dtype(spec.dtype))
                arrays.append(gpu_memory.as_array(value, native, stream))
                continue
            if spec.from_host:
                arrays.append(host_array(value, spec))
                continue
            value = value.permute(spec.order) if spec.order is not None else value
            value = torch.view_as_real(value.resolve_conj()) if spec.is_complex else value
            dense = value.detach().contiguous().resolve_neg()
            arrays.append(gpu_memory.as_array(dense, native, stream))
        with with_room(self.device):
            outputs = self.executable.run_keeping(arrays)
        native.let_wait(stream)
        made = [
            gpu_memory.copied(output, result.dtype, self.device)
            for output, result in zip(outputs, self.results, strict=True)
        ]
        native.wait_for(stream)  # before burn writes to memory that is freed here
        del outputs, arrays
        if native.facts()["kept"] > gpu_memory.MOST_KEPT:
            native.trim()
        results: list[Any] = []
        block = gpu_memory.empty((self._block,), (1,), torch.uint8, self.device) if self._block else None
        for tensor, result, into in zip(made, self.results, self.into, strict=True):
            if result.offset is not None and block is not None:
                with torch.no_grad():
                    part(block, result.offset, tensor.shape, tensor.stride(), tensor.dtype).copy_(tensor)
                results.append(None)
                continue
            tensor = tensor if result.order is None else tensor.permute(_inverse(result.order))
            if result.layout is not None:
                size, stride = result.layout
                tensor = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
                    tensor.untyped_storage(), 0, size, stride
                )
            if into >= 0:
                with torch.no_grad():
                    tensor = values[self.inputs[into].index].copy_(tensor)
            results.append(tensor)
        with torch.no_grad():
            for output, index in self._on_host.items():
                values[index].copy_(results[output])
        return results if block is None else [*results, block]

    def _needs_of_host(self) -> list[Problem]:
        """The reasons why the host takes part in runs."""
        found = [
            Problem(f"{kernel.name} runs on the host", node=next(iter(kernel.sources), ""))
            for kernel in self.executable.artefact.kernels
            if kernel.kind == ON_HOST
        ]
        return found or [Problem("the host reads elements during a run, such as a size that depends on data")]


def _lying(spec: Input) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of a saved tensor as the program takes it."""
    shape = spec.shape or ()
    shape = shape if spec.order is None else tuple(shape[a] for a in spec.order)
    return shape, _dense(shape)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def host_array(value: Any, spec: Input) -> np.ndarray:
    """An input in host memory, dense."""
    if spec.number:
        return np.asarray(value, spec.dtype)
    value = value.permute(spec.order) if spec.order is not None else value
    value = value.detach()
    array = to_array(torch.view_as_real(value.resolve_conj()) if spec.is_complex else value)
    return np.ascontiguousarray(array).reshape(array.shape)


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)
