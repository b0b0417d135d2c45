"""Whole programs on a simulated GPU: a simulated driver, whose launches run in Triton's interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from burn.codegen.triton.images import Machine, Source
from burn.runtime.artefact import KernelImage
from tests.codegen.gpu.simulated import loaded
from tests.codegen.gpu.triton_interpreter import interpreting


class SimulatedGPU:
    """Runs kernels as source instead of machine code. `sources` are all that were compiled, `launched` those that ran.

    reach: the number of bytes from an address to the end of its block. Kernels are given the end of their buffers."""

    def __init__(self, reach: Callable[[int], int]) -> None:
        self.reach = reach
        self.sources: list[Source] = []
        self.launched: list[Source] = []
        self._modules: dict[str, Any] = {}
        self.warp = 32

    def compile_each(self, sources: Iterable[Source], machine: Machine) -> list[KernelImage | str]:
        return list(self.compile_all(sources, machine))

    def compile_all(
        self, sources: Iterable[Source], machine: Machine, known: Mapping[Source, KernelImage] | None = None
    ) -> list[KernelImage]:
        images, self.warp, given = dict(known or {}), machine.warp, []
        for source in sources:
            given.append(source)
            if source not in images:
                images[source] = KernelImage(
                    source.name, f"{len(self.sources)}".encode(), 0, machine.warp * source.warps, source.early
                )
                self.sources.append(source)
        return [images[source] for source in given]

    def launch(self, image: str, function: str, blocks: int, threads: int, shared: int, words: list[int]) -> None:
        import triton.language as tl

        source = self.sources[int(image)]
        self.launched.append(source)
        assert function == source.name and threads == self.warp * source.warps
        if source.text not in self._modules:
            self._modules[source.text] = loaded(source.text)[source.name]
        constants, rest = dict(source.constants), iter(words)
        arguments: list[Any] = []
        for number, type_ in enumerate(source.types):
            if number in constants:
                arguments.append(constants[number])
                continue
            word = next(rest)
            of = dict(source.multiples).get(number, 1)
            assert word % of == 0, f"argument {number} of {function} is {word}"
            arguments.append(_memory(word, self.reach(word), type_) if type_[0] == "*" else _number(word, type_))
        assert list(rest) == [0, 0]  # Triton's own
        with np.errstate(all="ignore"), interpreting():
            wide = tl.int64 if source.wide else tl.int32
            self._modules[source.text][(blocks,)](*arguments, INT=wide, **dict(source.named))


def _number(word: int, type_: str) -> int:
    assert type_ == "i64" or -(1 << 31) <= word < 1 << 31
    return word


def _memory(address: int, reach: int, type_: str) -> Any:
    import torch

    kinds = {"*fp64": torch.float64, "*fp32": torch.float32, "*fp16": torch.float16, "*bf16": torch.bfloat16}
    kinds |= {f"*i{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)}
    kinds |= {f"*u{bits}": getattr(torch, f"uint{bits}") for bits in (8, 16, 32, 64)}
    return torch.frombuffer((ctypes.c_char * reach).from_address(address), dtype=kinds[type_])
