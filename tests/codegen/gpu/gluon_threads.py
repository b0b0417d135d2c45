"""Runs warp-specialised kernels in Gluon on the CPU, which Triton's interpreter does not: each group of warps is a thread.

Barriers count as the GPU's do. A multiplication reads shared memory as late as the kernel allows, so that a block which is
overwritten too early gives wrong numbers. A thread that waits for ever is an error. Layouts are ignored.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.kernels import KernelPrinter
from burn.codegen.triton.program import with_library
from burn.dialect.dims import evaluate
from burn.dialect.types import numpy_dtype
from burn.kernels.body import Kernel
from tests.codegen.gpu.simulated import Simulator

SECONDS = 20.0
"""A wait that takes longer is a deadlock."""


class Number(int):
    """A scalar of a kernel."""

    dtype = "int"

    def to(self, dtype: Any) -> Number:
        return self


def _operation(name: str) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        made = getattr(int, name)(a, b) if isinstance(b, int) else NotImplemented
        return Number(made) if isinstance(made, int) and not isinstance(made, bool) else made

    return apply


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor"):
    for _side in ("", "r"):
        setattr(Number, f"__{_side}{_name}__", _operation(f"__{_side}{_name}__"))


class Block(np.ndarray):
    """A tensor of a kernel."""

    def to(self, dtype: Any) -> Any:
        return self if dtype == "int" else self.astype(numpy_dtype(dtype)).astype(np.float32).view(Block)


class Pointer:
    """An address in an array, or several."""

    def __init__(self, memory: np.ndarray, at: Any = 0) -> None:
        self.memory, self.at = memory, at
        self.dtype = self
        self.element_ty = memory.dtype

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.at + offset)


class Descriptor:
    """A tensor map."""

    def __init__(self, base: Pointer, sizes: Sequence[int], strides: Sequence[int], block: Sequence[int]) -> None:
        self.base, self.sizes, self.strides = base, sizes, strides
        self.dtype, self.layout, self.block_type, self.shape = base.element_ty, None, self, tuple(block)
        self.nbytes = 2 * int(np.prod(block))
        assert all(stride % 8 == 0 for stride in strides[:-1]) and base.at % 8 == 0, "an address is not aligned"

    def read(self, start: Sequence[int]) -> np.ndarray:
        at, inside = np.full((1,) * len(self.shape), self.base.at), np.full((1,) * len(self.shape), True)
        for axis, (first, size, stride, count) in enumerate(
            zip(start, self.sizes, self.strides, self.shape, strict=True)
        ):
            index = np.arange(first, first + count).reshape([-1 if axis == i else 1 for i in range(len(self.shape))])
            at, inside = at + index * stride, inside & (index >= 0) & (index < size)
        return np.where(inside, self.base.memory[np.where(inside, at, 0)].astype(np.float32), 0)


class Shared:
    """Shared memory."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory, self.shape, self.dtype = memory, memory.shape, memory.dtype

    def index(self, number: int) -> Shared:
        return Shared(self.memory[number])

    def permute(self, order: Sequence[int]) -> Shared:
        return Shared(self.memory.transpose(order))

    def load(self, layout: Any) -> Shared:
        return Shared(self.memory.copy())

    def _reinterpret(self, dtype: Any, shape: Sequence[int], layout: Any) -> Shared:
        return Shared(self.memory.reshape(shape))


class Barrier:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.phase = self.count = self.waiting = self.bytes = 0

    def take(self, arrivals: int = 0, size: int = 0) -> None:
        with self.changed:
            self.waiting -= arrivals
            self.bytes += size
            assert self.waiting >= 0, "more threads arrive than a barrier has"
            if self.waiting == 0 and self.bytes == 0:
                self.phase, self.waiting = self.phase + 1, self.count
                self.changed.notify_all()


class Barriers:
    def __init__(self, count: int) -> None:
        self.each, self.shape = [Barrier() for _ in range(count)], (count, 1)

    def index(self, number: int) -> Barrier:
        return self.each[number]


class Mbarrier:
    @staticmethod
    def MBarrierLayout() -> None:
        """Barriers have one layout."""

    @staticmethod
    def init(barrier: Barrier, count: int) -> None:
        barrier.count = barrier.waiting = count

    @staticmethod
    def expect(barrier: Barrier, size: int) -> None:
        barrier.take(size=size)
        barrier.take(arrivals=1)

    @staticmethod
    def arrive(barrier: Barrier, pred: bool = True) -> None:
        if pred:
            barrier.take(arrivals=1)

    @staticmethod
    def wait(barrier: Barrier, parity: int) -> None:
        with barrier.changed:
            if not barrier.changed.wait_for(lambda: barrier.phase & 1 != parity, SECONDS):
                raise TimeoutError("a thread waits for ever")


class TMA:
    @staticmethod
    def make_tensor_descriptor(base: Pointer, sizes: Any, strides: Any, block: Any, layout: Any) -> Descriptor:
        return Descriptor(base, sizes, strides, block)

    @staticmethod
    def async_copy_global_to_shared(source: Descriptor, start: Any, barrier: Barrier, target: Shared) -> None:
        assert target.shape == source.shape
        target.memory[...] = source.read(start)
        barrier.take(size=-source.nbytes)


class Sums:
    """Accumulators, and the multiplications that are unfinished."""

    unfinished = threading.local()

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def to(self, dtype: Any) -> Any:
        return self.value.view(Block).to(dtype)


def warpgroup_mma(left: Shared, right: Shared, total: Any, is_async: bool) -> Sums:
    sums = total if isinstance(total, Sums) else Sums(np.array(total))
    Sums.unfinished.each = [*getattr(Sums.unfinished, "each", []), (sums, left.memory, right.memory)]
    return sums


def warpgroup_mma_wait(count: int, deps: Sequence[Sums]) -> Any:
    each = getattr(Sums.unfinished, "each", [])
    done = len(each) - count
    for sums, left, right in each[: max(0, done)]:
        sums.value += left.astype(np.float64) @ right.astype(np.float64)
    Sums.unfinished.each = each[max(0, done) :]
    return deps[0] if len(deps) == 1 else tuple(deps)


class Language:
    """Functions of `gl`."""

    constexpr, int32, int64, float32 = "constexpr", "int", "barrier", "float32"
    bfloat16, float16 = "bfloat16", "float16"
    static_range = range

    def __init__(self, program: int, programs: int) -> None:
        self.program, self.programs = Number(program), Number(programs)

    def __getattr__(self, name: str) -> Any:
        return _Layout() if name.endswith("Layout") else getattr(np, name)

    def program_id(self, axis: int) -> Number:
        return self.program

    def num_programs(self, axis: int) -> Number:
        return self.programs

    def to_tensor(self, value: int) -> Number:
        return Number(value)

    def cdiv(self, a: int, b: int) -> Number:
        return Number(-(-a // b))

    def minimum(self, a: int, b: int) -> Number:
        return Number(min(a, b))

    def maximum(self, a: int, b: int) -> Number:
        return Number(max(a, b))

    def where(self, condition: bool, a: int, b: int) -> Number:
        return Number(a if condition else b)

    def arange(self, first: int, last: int) -> Block:
        return np.arange(first, last).view(Block)

    def full(self, shape: Any, value: float, dtype: Any, layout: Any) -> Sums:
        return Sums(np.full(shape, value))

    def zeros_like(self, sums: Sums) -> Sums:
        return Sums(np.zeros_like(sums.value))

    def static_assert(self, condition: bool) -> None:
        assert condition

    def allocate_shared_memory(self, dtype: Any, shape: Sequence[int], layout: Any) -> Any:
        return Barriers(shape[0]) if dtype == "barrier" else Shared(np.full(shape, np.nan, np.float32))

    def store(self, pointer: Pointer, value: Any, mask: Any) -> None:
        value = value.value if isinstance(value, Sums) else value
        mask = np.broadcast_to(mask, value.shape)
        pointer.memory[np.broadcast_to(pointer.at, value.shape)[mask]] = value[mask]

    def warp_specialize(self, groups: Sequence[tuple[Any, Any]], warps: Any, registers: Any) -> None:
        failures: list[BaseException] = []

        def run(function: Any, arguments: Any) -> None:
            try:
                Sums.unfinished.each = []
                function(*arguments)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=group) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


class _Layout:
    def __call__(self, *parts: Any) -> None:
        """Elements have no threads here."""

    def get_default_for(self, shape: Any, dtype: Any) -> None:
        """Shared memory is not swizzled here."""


class GluonSimulator(Simulator):
    """Kernels of a program for a GPU with these abilities: warp-specialised kernels run in threads, others in Triton's
    interpreter."""

    def __init__(self, abilities: Abilities) -> None:
        super().__init__()
        self.printer = KernelPrinter(abilities=abilities)
        self.specialised = 0

    def launch(self, kernel: Kernel, buffers: Sequence[np.ndarray | None], sizes: Mapping[str, int]) -> None:
        printed = self.printer.print(kernel)
        if "gl.warp_specialize(" not in with_library([printed.text], "A kernel."):
            super().launch(kernel, buffers, sizes)
            return
        self.specialised += 1
        text = with_library([printed.text], "A kernel.").split("import mbarrier", 1)[-1]
        text = "from __future__ import annotations\n" + text[text.index("@") :]
        programs = evaluate(printed.programs, sizes)
        memory = [None if b is None else b.reshape(-1) for b in buffers]
        arguments = [
            Pointer(_found(memory[a.number])) if a.kind == "buffer" else Number(evaluate(a.size, sizes))
            for a in printed.arguments
        ]
        code = compile(text, "<gluon>", "exec")
        for program in range(programs):
            names = _names(Language(program, programs))
            exec(code, names)
            names[printed.name](*arguments, INT="int", **printed.constants)


def _found(memory: np.ndarray | None) -> np.ndarray:
    assert memory is not None
    return memory


def _names(language: Language) -> dict[str, Any]:
    class Gluon:
        jit = staticmethod(lambda function: function)

    def numbers(*bounds: int) -> Iterator[Number]:
        return map(Number, range(*map(operator.index, bounds)))

    return {
        "gluon": Gluon, "gl": language, "mbarrier": Mbarrier, "tma": TMA, "range": numbers,
        "warpgroup_mma": warpgroup_mma, "warpgroup_mma_wait": warpgroup_mma_wait, "fence_async_shared": lambda: None,
    }  # fmt: skip
