"""Runs printed kernels in Triton's interpreter, on the CPU and without a driver: `launch` stands for `interpret.run`."""

from __future__ import annotations

import ast
import ctypes
import itertools
import linecache
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.kernels import KernelPrinter
from burn.codegen.triton.printed import Printed
from burn.codegen.triton.program import with_library
from burn.dialect.dims import evaluate
from burn.dialect.functions import BY_NAME
from burn.errors import RunError
from burn.kernels.body import Kernel
from tests.codegen.gpu import ptx
from tests.codegen.gpu.triton_interpreter import interpreting

_numbers = itertools.count()


class Simulator:
    """The kernels of one program, for a GPU with these abilities. Raises RunError for an index out of range."""

    def __init__(self, abilities: Abilities = USUAL_ABILITIES) -> None:
        self.printer = KernelPrinter(abilities=abilities)
        self._modules: dict[str, Any] = {}

    def launch(self, kernel: Kernel, buffers: Sequence[np.ndarray | None], sizes: Mapping[str, int]) -> None:
        import torch
        import triton.language as tl

        printed = self.printer.print(kernel)
        failure = torch.zeros(1, dtype=torch.int64)
        arguments: list[Any] = []
        for argument in printed.arguments:
            match argument.kind:
                case "buffer":
                    array = buffers[argument.number]
                    assert array is not None
                    arguments.append(_tensor(array))
                case "workspace":
                    dtype = kernel.buffers[argument.number].dtype
                    arguments.append(torch.zeros(evaluate(argument.size, sizes), dtype=getattr(torch, dtype)))
                case "failure":
                    arguments.append(failure)
                case "size":
                    arguments.append(evaluate(argument.size, sizes))
        programs = evaluate(printed.programs, sizes)
        if programs:
            with np.errstate(all="ignore"), interpreting():
                self._function(printed)[(programs,)](*arguments, INT=tl.int64, **printed.constants)
        word = int(failure[0])
        if word:
            index = (word & 0xFFFFFFFFFFFF) - ((word >> 47 & 1) << 48)
            raise RunError("out of range", [f"node '{self.printer.sites[(word >> 48) - 1]}': index {index}"])

    def _function(self, printed: Printed) -> Any:
        if printed.name not in self._modules:
            self._modules[printed.name] = loaded(with_library([printed.text], "A kernel."))[printed.name]
        return self._modules[printed.name]


def _tensor(array: np.ndarray) -> Any:
    """The array's memory; bools, and what has no arithmetic, as bytes."""
    import torch

    array = array if array.flags.writeable else array.copy()  # torch has no tensors that are only read
    if array.dtype == bool:
        return torch.from_numpy(array.view(np.int8))
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if array.dtype.kind == "V" or array.dtype.name.startswith(("float8", "float4", "int2", "int4", "uint2", "uint4")):
        return torch.from_numpy(array.view(np.int8 if array.dtype.name.startswith("int") else np.uint8))
    return torch.from_numpy(array)


def loaded(text: str) -> dict[str, Any]:
    """The names of a module for the interpreter. Functions of Triton's device library are numpy's here. Functions in Gluon run as
    Triton's, without their layouts. The interpreter would parse and rewrite each function by itself, which takes much longer."""
    from triton.runtime import interpreter

    text = re.sub(
        r"\n *\w+\.inline_asm_elementwise\(\"[^\"]*(griddepcontrol|prefetch)[^\n]*", "", text
    )  # one kernel runs at a time
    text = text.replace("@gluon.jit", "@triton.jit").replace("gl.constexpr", "tl.constexpr")
    name = f"<printed {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": name, "interpreter_semantic": interpreter.interpreter_semantic}
    module = ast.parse(text, name)
    for each in module.body:
        if isinstance(each, ast.FunctionDef):
            interpreter.FunctionRewriter.ast_transformer.visit(each)
    ast.fix_missing_locations(module)
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        exec(compile(module, name, "exec"), names)
    finally:
        os.environ.pop("TRITON_INTERPRET")
        if before is not None:
            os.environ["TRITON_INTERPRET"] = before
    for value in names.values():
        if isinstance(value, interpreter.InterpretedFunction):
            value.rewritten_fn[value.fn] = value.fn
    names["libdevice"] = _DeviceLibrary()
    names["gl"] = gluon = _Gluon()
    names["mma_v2"], names["async_copy"] = gluon.mma_v2, _Copies()
    return names


OTHER_NAMES = {"nearbyint": "round"}
"""Functions of the device library that are not named as the dialect's."""


class _DeviceLibrary:
    def __getattr__(self, name: str) -> Any:
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        function: Any = np.copysign if name == "copysign" else BY_NAME[OTHER_NAMES.get(name, name)].numpy
        function = function if isinstance(function, np.ufunc) else np.vectorize(function, otypes=[float])

        def apply(*operands: Any) -> Any:
            arrays = [x.handle.data for x in operands]
            result = np.asarray(function(*arrays), dtype=arrays[0].dtype)
            scalar = operands[0].dtype
            type_ = tl.block_type(scalar, list(result.shape)) if any(x.type.is_block() for x in operands) else scalar
            return tl.tensor(TensorHandle(result, scalar), type_)

        return apply


class SharedLayout:
    """A layout of shared memory: numbers that each bit of an address adds to the indices."""

    def __init__(self, bases: Sequence[Sequence[Any]]) -> None:
        self.bases = [[int(step) for step in basis] for basis in bases]

    def order(self, shape: Sequence[int]) -> np.ndarray:
        """The flat index of the element at each address."""
        addresses = np.arange(1 << len(self.bases))
        indices = [np.zeros_like(addresses) for _ in shape]
        for bit, basis in enumerate(self.bases):
            for axis, step in enumerate(basis):
                indices[axis] ^= np.where(addresses >> bit & 1, step, 0)
        found = np.ravel_multi_index(indices, shape)
        assert len(set(found.tolist())) == len(found) == np.prod(shape), "addresses are not distinct"
        return found


class _Buffer:
    """Shared memory that a program allocates, or a view of it: with its axes permuted, or in another layout. The content is a
    tensor and the layout in which it was stored."""

    def __init__(self, content: list[Any], layout: Any = None, order: tuple[Any, ...] = ()) -> None:
        self._content, self._layout, self._order = content, layout, order

    def permute(self, order: tuple[Any, ...]) -> _Buffer:
        assert not self._order
        return _Buffer(self._content, self._layout, order)

    def _reinterpret(self, dtype: Any, shape: Sequence[Any], layout: SharedLayout) -> _Buffer:
        return _Buffer(self._content, layout)

    def forget(self) -> None:
        """A copy to this memory has started."""
        self._content.clear()

    def store(self, value: Any) -> None:
        inverse = sorted(range(len(self._order)), key=lambda axis: int(self._order[axis]))
        self._content[:] = [value.permute(*inverse) if inverse else value, self._layout]

    def load(self, layout: Any) -> Any:
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        value, stored = self._content
        if stored is not self._layout:
            data = value.handle.data
            moved = np.empty(data.size, data.dtype)
            moved[self._layout.order(data.shape)] = data.reshape(-1)[stored.order(data.shape)]
            value = tl.tensor(TensorHandle(moved.reshape(data.shape), value.dtype), value.type)
        return value.permute(*self._order) if self._order else value


class _Copies:
    """Copies to shared memory, which nothing may read before a wait for its group."""

    def __init__(self) -> None:
        self._groups: list[list[tuple[_Buffer, Any]]] = [[]]

    def async_copy_global_to_shared(self, buffer: _Buffer, pointer: Any, mask: Any = None) -> None:
        import triton.language as tl

        buffer.forget()
        value = tl.load(pointer) if mask is None else tl.load(pointer, mask=mask, other=0.0)
        self._groups[-1].append((buffer, value))

    def commit_group(self) -> None:
        self._groups.append([])

    def wait_group(self, outstanding: Any) -> None:
        while len(self._groups) - 1 > int(outstanding):
            for buffer, value in self._groups.pop(0):
                buffer.store(value)


class _Gluon:
    """Triton's functions with Gluon's parameters."""

    def __init__(self) -> None:
        self._memory, self._missing = np.zeros(0, np.uint8), 0  # shared memory, and bytes that are not copied to it yet

    def __getattr__(self, name: str) -> Any:
        import triton.language as tl

        return getattr(tl, name)

    def arange(self, start: Any, end: Any, layout: Any = None) -> Any:
        return self.__getattr__("arange")(start, end)

    def full(self, shape: Any, value: Any, dtype: Any, layout: Any = None) -> Any:
        return self.__getattr__("full")(shape, value, dtype)

    def allocate_shared_memory(self, dtype: Any, shape: Any, layout: Any) -> Any:
        return _Buffer([], layout)

    def SharedLinearLayout(self, bases: Sequence[Any]) -> SharedLayout:
        return SharedLayout(bases)

    def BlockedLayout(self, *parts: Any) -> None:
        """Elements have no threads here."""

    SwizzledSharedLayout = BlockedLayout
    SliceLayout = NVMMADistributedLayout = DotOperandLayout = BlockedLayout

    def mma_v2(self, lhs: Any, rhs: Any, total: Any) -> Any:
        """A matmul for each index of the first axis."""
        return self.dot(lhs, rhs, total, input_precision="ieee")

    def convert_layout(self, value: Any, layout: Any) -> Any:
        return value

    def inline_asm_elementwise(
        self, text: Any, constraints: Any, args: Sequence[Any], dtype: Any, is_pure: Any, pack: Any
    ) -> Any:
        """For tensors whose last axis has the elements that a thread packs. For tensor cores the two axes before it have a warp's
        threads. Other code is for a whole program."""
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        if "mma.sync" not in text and "ld.shared" not in text and "st.shared" not in text:
            return self._scalar(text, [int(np.asarray(a.handle.data).item()) for a in args])
        kinds = dtype if isinstance(dtype, tuple) else (dtype,)
        shape = np.broadcast_shapes(*(tensor.handle.data.shape for tensor in args))
        registers = []
        for tensor in args:
            data = np.ascontiguousarray(np.broadcast_to(tensor.handle.data, shape))
            words = data.reshape(*shape[:-3], 32, pack) if "mma.sync" in text else data.reshape(-1, pack)
            words = words.view(np.uint32)
            registers += [words[..., i] for i in range(words.shape[-1])]
        counts = [max(1, pack * kind.primitive_bitwidth // 32) for kind in kinds]
        outputs = [each.startswith("=") for each in constraints.split(",")]
        assert outputs == [True] * sum(counts) + [False] * len(registers)
        values = ptx.run(text, sum(counts), registers, self._memory)
        made = []
        for kind, count in zip(kinds, counts, strict=True):
            words = np.stack(values[:count], -1)
            values = values[count:]
            if pack * kind.primitive_bitwidth < 32:
                words = words.astype(f"u{kind.primitive_bitwidth // 8}")
            stored = {"fp16": np.float16, "fp32": np.float32, "bf16": np.uint16, "int32": np.int32, "int8": np.int8}
            data = words.view(stored[kind.name]).reshape(shape)
            made.append(tl.tensor(TensorHandle(data, kind), tl.block_type(kind, list(data.shape))))
        return tuple(made) if isinstance(dtype, tuple) else made[0]

    def _scalar(self, text: str, values: Sequence[int]) -> Any:
        """Copies to shared memory, and barriers. The memory of a program begins at 0."""
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        number = 0
        if text.startswith("mov.b32 $0, "):
            number = int(text.split()[-1].strip(";"))
        elif "%dynamic_smem_size" in text:
            (size,) = re.findall(r"sub.u32 \$0, n, (\d+)", text)
            self._memory, self._missing = np.full(int(size), 0xFF, np.uint8), 0
        elif "mbarrier.init" in text:
            (size,) = re.findall(r"\[\$1\], (\d+); mov", text)
            assert values[0] % 8 == 0
            self._missing = int(size)
        elif "cp.async.bulk.shared" in text:
            (size,) = (int(n) for n in re.findall(r"\[\$2\], (\d+), ", text))
            to, source, _ = values
            assert to % 16 == source % 16 == size % 16 == 0 and 0 <= to <= len(self._memory) - size
            self._memory[to : to + size] = np.frombuffer(ctypes.string_at(source, size), np.uint8)
            self._missing -= size
        elif "mbarrier.try_wait" in text:
            assert self._missing == 0
        else:
            assert text.startswith("bar.sync"), text
        return tl.tensor(TensorHandle(np.full(1, number, np.int32), tl.int32), tl.int32)
