"""The native module's types; see native/binding.cpp."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

ANY_DIM: int  # of an input: the program checks it
__version__: str

class InputMismatch(ValueError):
    """An input does not fit the program's signature as it stands."""

class RunFailure(RuntimeError):
    """`args` is (burn_status, site, value)."""

def set_image_decoder(decoder: Any) -> None:
    """`decoder(data, form)` gives the pixels of an image file, uint8[height, width, channels]: see images.py."""

class Program:
    def __init__(
        self,
        object_code: Any,
        entry: str,
        *,
        constants: Sequence[Any],
        live_ranges: Sequence[tuple[int, int]],
        inputs: Sequence[tuple[Any, Sequence[int]]],
        outputs: Sequence[Any],
        kernel_count: int,
        aliases: Sequence[int] = ...,
        input_containers: Sequence[tuple[str, int]] = ...,
        output_containers: Sequence[tuple[str, int]] = ...,
        texts: Sequence[tuple[int, int]] = ...,
    ) -> None:
        """`input_containers` and `output_containers` say for each value what is around its tensors ("s" a sequence, "o" an
        optional, from outside in, then "*" where they may have any rank) and the tensors' element type as burn_dtype numbers it;
        `texts` which constants are strings, and how many each holds. `constants` are buffers. `inputs` are (dtype, sizes) with
        -1 - s for the s-th symbol; `outputs` are
        dtypes."""

    def arena_bytes(self) -> int:
        """The memory for intermediate results that runs have needed so far, one run at a time."""

    @overload
    def run(
        self, inputs: Sequence[Any], donated: Sequence[int] | None = None, profile: Literal[False] = False
    ) -> list[np.ndarray]: ...
    @overload
    def run(
        self, inputs: Sequence[Any], donated: Sequence[int] | None = None, *, profile: Literal[True]
    ) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
        """With `profile`: the outputs and, per kernel, (calls, nanoseconds)."""

def plan(live_ranges: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offsets of buffers in an arena, and the arena's bytes."""

def symbols() -> dict[str, int]:
    """What compiled programs may call: addresses by name."""

def from_dlpack(capsule: Any) -> tuple[np.ndarray, int, int]:
    """An array of raw elements over the tensor's memory, and DLPack's type code and bits."""

def to_dlpack(array: np.ndarray, code: int, bits: int) -> Any:
    """An object with `__dlpack__` over the array's memory."""

def num_threads() -> int: ...
def set_num_threads(threads: int) -> None: ...
def new_bytes(count: int) -> np.ndarray:
    """An array of bytes, aligned as outputs are, of any content."""

def trim_memory() -> None:
    """Gives memory that is free, but held for what comes next, back to the system: after a compilation, say."""

def checksum(data: Any) -> int:
    """Of a buffer's bytes: for damage, not against an author."""

def cpu_features() -> list[str]:
    """Instruction-set extensions by LLVM's names."""

def cpu_name() -> str: ...
def cpu_cores() -> int:
    """Cores that this process may use, hyper-threads counted once."""

def cache_bytes(level: int) -> int:
    """Data cache of level 1, 2 or 3 as seen by one core; 0 when unknown."""
