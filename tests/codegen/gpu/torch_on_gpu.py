"""torch's CPU tensors that play tensors on the simulated GPU. See `FakeCUDA`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from burn.adapters.torch import gpu, gpu_memory
from tests.runtime.simulation import Simulation


class FakeCUDA:
    """Stands for torch's side of a GPU (`gpu_memory`). Every tensor is on cuda:0, but 0-d float64 ones, which are on the CPU.
    `given` counts the tensors that were allocated."""

    def __init__(self, driver: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver = driver
        self.streams = [driver.stream()]
        self.given = 0
        self.capturing = False
        self.room: int | None = None
        self.device = torch.device("cuda", 0)
        self._held: dict[int, torch.Tensor] = {}
        self._lazy = False
        for name in (
            "where",
            "stream",
            "is_capturing",
            "empty",
            "allocated",
            "address",
            "same",
            "give_back",
            "as_array",
            "copied",
        ):
            monkeypatch.setattr(gpu_memory, name, getattr(self, name))
        call = gpu.GPUCalls.__call__

        def called(calls: Any, values: Sequence[Any]) -> Any:
            try:
                return call(calls, values)
            finally:
                if not self._lazy:
                    self.finish()

        monkeypatch.setattr(gpu.GPUCalls, "__call__", called)

    def where(self, tensor: torch.Tensor) -> torch.device:
        return torch.device("cpu") if tensor.dtype is torch.float64 and tensor.dim() == 0 else self.device

    def stream(self, device: torch.device) -> int:
        return self.streams[-1]

    def is_capturing(self) -> bool:
        return self.capturing

    def empty(
        self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        assert device == self.device
        made = torch.empty_strided(size, stride, dtype=dtype)
        if self.room is not None and made.untyped_storage().nbytes() > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        storage: Any = made.untyped_storage()  # torch's stubs lack fill_
        storage.fill_(0x7F)
        self.given += 1
        return made

    def allocated(self, shapes: Sequence[tuple[Any, Any, torch.dtype]], device: torch.device) -> list[torch.Tensor]:
        return [self.empty(size, stride, dtype, device) for size, stride, dtype in shapes]

    def address(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in self._held:
            self.driver.adopt(storage.data_ptr(), storage.nbytes())
            self._held[storage.data_ptr()] = tensor
        return tensor.data_ptr()

    def same(self, values: Sequence[Any], addresses: list[int], indices: list[int]) -> bool:
        found = {i: self.address(values[i]) for i in indices}
        return all(addresses[i] == at for i, at in found.items())

    def give_back(self) -> None:
        self.room = None

    def as_array(self, tensor: torch.Tensor, native: Any, on: int) -> Any:
        self.address(tensor)
        return _AS_ARRAY(tensor, native, on)

    def copied(self, array: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        from burn.importers.torch.dtypes import to_tensor

        return to_tensor(array.numpy()).clone()

    def finish(self) -> None:
        """Runs what was submitted."""
        for stream in self.streams:
            self.driver.finish(stream)
        for address in self._held:
            self.driver.give_back(address)
        self._held.clear()

    @contextmanager
    def lazily(self) -> Iterator[None]:
        """Work is delayed to the end of the block."""
        self._lazy = True
        with self.driver.lazy():
            yield
            self.finish()
        self._lazy = False


_AS_ARRAY = gpu_memory.as_array
