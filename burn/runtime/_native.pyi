"""The native module's types; see native/binding*.cpp."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

ANY_DIM: int  # of an input: the program checks it
__version__: str

class InputMismatch(ValueError):
    """An input does not fit the program's signature as it stands."""

class RunFailure(RuntimeError):
    """`args` is (burn_status, site, value)."""

def set_debug_host(function: Any) -> None:
    """Calls `function(number, text, tensors)` for programs that print or call back: see debugging.py."""

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
        card: tuple[str, int, str | None] | None = ...,
        images: Sequence[tuple[str, Any, int, int]] = ...,
        sites: Sequence[str] = ...,
    ) -> None:
        """`input_containers` and `output_containers` say for each value what is around its tensors ("s" a sequence, "o" an
        optional, from outside in, then "*" where they may have any rank) and the tensors' element type as burn_dtype numbers it;
        `texts` which constants are strings, and how many each holds. `constants` are buffers. `inputs` are (dtype, sizes) with
        -1 - s for the s-th symbol; `outputs` are
        dtypes. `card` is the device whose kernels `images` are: its kind, its number and its driver's file (None for the usual
        one); an image is its function's name, its machine code, its bytes of shared memory and the threads of a block. `sites`
        are the names of what may fail on a card."""

    def arena_bytes(self) -> int:
        """The memory for intermediate results that runs have needed so far, one run at a time."""

    def cancel(self) -> None:
        """Ends the runs that are under way with Status.CANCELLED."""

    @overload
    def run(
        self,
        inputs: Sequence[Any],
        donated: Sequence[int] | None = None,
        profile: Literal[False] = False,
        keep: bool | None = None,
        seconds: float = 0.0,
        bytes: int = 0,
    ) -> list[Any]: ...
    @overload
    def run(
        self,
        inputs: Sequence[Any],
        donated: Sequence[int] | None = None,
        *,
        profile: Literal[True],
        keep: bool | None = None,
        seconds: float = 0.0,
        bytes: int = 0,
    ) -> tuple[list[Any], list[tuple[int, int]], list[tuple[int, int, int, bool]]]:
        """With `profile`: the outputs; per kernel, (calls, nanoseconds); and in the order of each device's work (kernel, when it
        began, how long it took, whether on the card), in nanoseconds since the run began. On a card inputs may be `CardArray`s,
        and outputs are where `keep` says so; without that, where an input is one. seconds, bytes: the run's limits, 0: none."""

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

def fresh_memory(count: int) -> bytes: ...
def checksum(data: Any) -> int:
    """Of a buffer's bytes: for damage, not against an author."""

def cpu_features() -> list[str]:
    """Instruction-set extensions by LLVM's names."""

def cpu_name() -> str: ...
def cpu_cores() -> int:
    """Cores that this process may use, hyper-threads counted once."""

def cache_bytes(level: int) -> int:
    """Data cache of level 1, 2 or 3 as seen by one core; 0 when unknown."""

def set_reported_error(make: Any) -> None:
    """`make(code, site, value)` gives the exception for what a kernel of an earlier run reported."""

def device_count(kind: str, library: str | None = None) -> int:
    """How many devices of a kind ("cuda") there are; RuntimeError says why there is no driver. `library`: the driver's file."""

class DeviceMemory:
    """Freed with the object; it may be handed out again at once, because a device does its work in order."""

    @property
    def address(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class DeviceFunction: ...

class DeviceModule:
    def find(self, name: str, shared: int = 0) -> DeviceFunction:
        """A kernel, and the bytes of dynamic shared memory that a launch of it gets."""

class DeviceGraph:
    """Recorded work. It knows addresses: the memory that it touches must stay."""

class DeviceMoment:
    def since(self, other: DeviceMoment) -> int:
        """Nanoseconds of the device's time between the two. Waits for both."""

class Device:
    """A card, opened once in a process: see native/device.h. Failures are RuntimeError and MemoryError with the reason. Where
    memory is wanted, an address does as well."""

    def __init__(self, kind: str, index: int = 0, library: str | None = None) -> None: ...
    @property
    def kind(self) -> str: ...
    @property
    def index(self) -> int: ...
    def facts(self) -> dict[str, Any]:
        """The fields of burn_device_facts."""

    def alloc(self, bytes: int) -> DeviceMemory: ...
    def trim(self) -> None:
        """Gives freed memory back to the driver."""

    def send(self, to: DeviceMemory | int, data: Any) -> None:
        """All bytes of a buffer, which may be written again afterwards."""

    def fetch(self, address: DeviceMemory | int, bytes: int, into: Any = None) -> Any:
        """Bytes, in an array of uint8 or in a buffer of that size. Waits for all work before."""

    def copy(self, to: DeviceMemory | int, source: DeviceMemory | int, bytes: int) -> None: ...
    def fill(self, to: DeviceMemory | int, byte: int, bytes: int) -> None: ...
    def wait(self) -> None:
        """Until all that was submitted is done."""

    @property
    def stream(self) -> int:
        """The driver's handle of the stream that all work goes to."""

    def wait_for(self, stream: int) -> None:
        """What another stream (0: the default one) was given comes before what follows here."""

    def let_wait(self, stream: int) -> None:
        """What was submitted here comes before what another stream is given from now on."""

    def load(self, image: Any) -> DeviceModule:
        """Machine code (a cubin) or PTX."""

    def launch(self, function: DeviceFunction, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        """`arguments` are 64-bit words."""

    def record(self) -> None:
        """Work of this thread is recorded instead of done, until `recorded`. Other threads wait meanwhile."""

    def recorded(self) -> DeviceGraph: ...
    def replay(self, graph: DeviceGraph) -> None: ...
    def mark(self) -> DeviceMoment: ...

def device_to_dlpack(
    owner: Any, address: int, shape: Sequence[int], code: int, bits: int, device_type: int, device_index: int
) -> Any:
    """An object with `__dlpack__` over dense memory, which keeps `owner` alive. `stream` is ignored: order comes first."""

def device_from_dlpack(capsule: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, int, int, Any]:
    """Of a capsule: address, shape, strides in elements, type code, bits, device type and index, and what keeps it alive."""

class CardArray:
    """A dense array in a card's memory, in row-major order: what the base class of burn.runtime.device_array.DeviceArray."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def numpy_dtype(self) -> np.dtype: ...
    @property
    def card(self) -> Device: ...
    @property
    def is_writable(self) -> bool:
        """Whether it can be donated: not where the memory is another library's, nor where `read_only` gave it."""

    def read_only(self) -> Any:
        """The same memory, which is not donated."""

    def fetched(self) -> np.ndarray:
        """Its bytes, in the host's memory. Waits for what writes them, and raises what was reported until then."""

    def lent(self, stream: int) -> Lent:
        """Keeps the memory for a library that works on `stream`."""

    def reshaped(self, shape: Sequence[int]) -> Any:
        """The same memory in another shape."""

class Lent: ...

def new_card_array(device: Device, dtype: np.dtype, shape: Sequence[int]) -> Any:
    """New memory, of any content."""

def foreign_card_array(
    device: Device, address: int, dtype: np.dtype, shape: Sequence[int], owner: Any, stream: int | None
) -> Any:
    """Another library's memory, which lives as long as `owner`. When that is let go of, `stream` comes after burn's work so far;
    without a stream, that is waited for."""

def set_card_array_type(type: Any) -> None:
    """The class of all card arrays: derived from `CardArray`, without fields of its own."""
