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

def set_custom_host(function: Any) -> None:
    """Calls `function(number, inputs, outputs)` for custom ops in Python: see burn/custom/host.py."""

def custom_check(is_on: bool) -> None:
    """Checks custom ops in C for writes outside of their tensors, or not; the environment decides by default."""

def add_symbol(name: str, address: int) -> None:
    """A function that programs may call by this name, from now on."""

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
        device: tuple[str, int, str | None] | None = ...,
        images: Sequence[tuple[str, Any, int, int, bool]] = ...,
        sites: Sequence[str] = ...,
        input_names: Sequence[str] = ...,
    ) -> None:
        """`inputs` are (dtype, sizes), with -1 - s for the s-th symbol; `outputs` are dtypes. `input_containers` and
        `output_containers` give each value's containers, outermost first ("s" a sequence, "o" an optional, then "*" if the
        tensors may have any rank), and the tensors' element type as a burn_dtype. `constants` are buffers; `texts` lists the
        constants that are strings, and how many strings each holds. `device` is the GPU of the kernels `images`: its kind, its
        index and its driver's file (None for the default). An image is a function's name, its machine code, its bytes of shared
        memory and the threads of a block. `sites` are the names of kernels and ops that may fail on the GPU. `input_names` are
        for `call`."""

    def arena_bytes(self) -> int:
        """The memory for intermediate results that runs have needed so far, one run at a time."""

    def release_memory(self) -> None:
        """Frees the memory that runs have left for the next ones."""

    def cancel(self) -> None:
        """Ends the runs that are under way with Status.CANCELLED."""

    def call(
        self,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        state: Any = None,
        donated: Sequence[int] | None = None,
        keep: bool | None = None,
        seconds: float = 0.0,
        bytes: int = 0,
    ) -> list[Any]:
        """`run` for inputs by position and by name, and the random state if the program draws numbers. Inputs may also be objects
        with `__as_input__`, and tensors in host memory of libraries with DLPack's C functions. The outputs are then of the first
        such input's class."""

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
        """With `profile`: the outputs; for each kernel (calls, nanoseconds); and in the order of each device's work (kernel,
        start, duration, on the GPU), in nanoseconds since the run began. Inputs may be `DeviceArray`s. `keep` leaves the outputs
        on the GPU; by default they stay there if an input is on it. seconds, bytes: the limits of the run, 0: none."""

    def trace(self, shapes: Sequence[Sequence[int]], from_host: Sequence[bool], into: Sequence[int]) -> Traced | None:
        """The GPU work of runs with inputs of these shapes; None if the host takes part in runs. from_host: the inputs whose
        elements the host sends at each submission. into: for each output, the input that it is written to, or -1."""

class Traced:
    """GPU work whose addresses are open, for callers with their own memory and stream. Any number of threads may submit it."""

    @property
    def arena(self) -> int:
        """Bytes of GPU memory that a submission needs besides inputs and outputs. The stream's later work may overwrite it."""

    @property
    def steps(self) -> int:
        """The number of launches and copies."""

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], int]]:
        """The shape of each output, and the input that it is written to, or -1."""

    def submit(
        self,
        arena: int,
        inputs: list[int],
        from_host: Sequence[Any],
        outputs: list[int],
        stream: int,
        as_graph: bool,
    ) -> None:
        """Submits the work to a stream of the driver's.

        inputs: addresses, multiples of 16; any number for inputs that the host sends. from_host: the elements of those, as
        buffers. outputs: an address for each output that is not written to an input. as_graph: as one CUDA graph, which pays from
        the second submission on. Raises RuntimeError if the driver fails, and the RunError of an earlier submission."""

def plan(live_ranges: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offsets of buffers in an arena, and the arena's bytes."""

def symbols() -> dict[str, int]:
    """The addresses of functions that compiled programs may call, by name."""

def from_dlpack(capsule: Any) -> tuple[np.ndarray, int, int]:
    """An array of raw elements over the tensor's memory, and DLPack's type code and bits."""

def to_dlpack(array: np.ndarray, code: int, bits: int) -> Any:
    """An object with `__dlpack__` over the array's memory."""

def tensor_like(array: np.ndarray, tensor: Any) -> Any:
    """A tensor of another library over the array's memory, by the C functions on the type of one of its tensors; None if the type
    has none."""

def call_key(
    arguments: tuple[Any, ...], named: dict[str, Any], extra: Any, numbers_by_value: bool
) -> tuple[tuple[Any, ...], list[Any], bool] | None:
    """A key of a call's arguments, which starts with `extra`; their tensors and numbers in order; and true if there are numbers.
    None for arguments that need a closer look."""

def all_same(pairs: list[tuple[dict[Any, Any] | list[Any], tuple[Any, ...]]]) -> bool:
    """True if each dictionary has these keys and then these values in this order, and each list these items, by identity."""

def are_arrays(objects: list[Any]) -> bool:
    """True if each is a numpy array, of no class that derives from numpy's."""

def all_are(objects: list[Any], object: Any) -> bool:
    """True if each is this object."""

def get_all(objects: tuple[Any, ...], attribute: str) -> list[Any]:
    """An attribute of each object."""

def set_all(objects: tuple[Any, ...], attribute: str, values: Any) -> None:
    """Sets an attribute of each object: to the values of a list, or all to another value."""

def set_tensor_classes(tensor: type, recorded: type) -> None:
    """The classes of tensors and of the values that lazy ones hold, for `call_key`."""

def set_module_class(module: type) -> None:
    """The class of modules, which `call_key` takes by identity."""

def environment(name: str) -> str | None:
    """An environment variable, in 50 nanoseconds."""

def num_threads() -> int: ...
def set_num_threads(threads: int) -> None: ...
def new_bytes(count: int) -> np.ndarray:
    """An array of bytes, aligned as outputs are, of any content."""

def trim_memory() -> None:
    """Gives memory that is free, but held for what comes next, back to the system: after a compilation, say."""

def release_library(name: str) -> int:
    """Unmaps the resident pages of code and read-only data of the loaded libraries whose paths contain `name`. The next access
    maps them again. Segments with changed pages stay. Returns the bytes of the address ranges, 0 on systems other than Linux."""

def fresh_memory(count: int) -> bytes: ...
def checksum(data: Any) -> int:
    """Of a buffer's bytes: for damage, not against an author."""

def find_all(data: Any, pattern: bytes) -> list[int]:
    """The offsets at which a buffer has the bytes of a pattern, those that overlap included. Raises ValueError for an empty
    pattern."""

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

def device_preview(kind: str, index: int = 0, library: str | None = None) -> dict[str, Any]:
    """The facts about a device that do not change, without opening it; RuntimeError says why there is none."""

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
    """Recorded work. It holds addresses: the memory that it uses must stay allocated."""

class DeviceMoment:
    def since(self, other: DeviceMoment) -> int:
        """Nanoseconds of the device's time between the two. Waits for both."""

class Device:
    """A GPU, opened once in a process: see native/device.h. Failures raise RuntimeError or MemoryError with the reason.
    Parameters that take memory also accept an address."""

    def __init__(self, kind: str, index: int = 0, library: str | None = None) -> None: ...
    @property
    def kind(self) -> str: ...
    @property
    def index(self) -> int: ...
    def facts(self) -> dict[str, Any]:
        """The fields of burn_device_facts."""

    def alloc(self, bytes: int) -> DeviceMemory: ...
    def trim(self) -> None:
        """Returns freed memory to the driver."""

    def send(self, to: DeviceMemory | int, data: Any) -> None:
        """Copies all bytes of a buffer, which may be overwritten afterwards."""

    def fetch(self, address: DeviceMemory | int, bytes: int, into: Any = None) -> Any:
        """Copies bytes to a new array of uint8, or to a buffer of that size. Waits for all submitted work."""

    def copy(self, to: DeviceMemory | int, source: DeviceMemory | int, bytes: int) -> None: ...
    def reaches(self, other: Device) -> bool:
        """True if `copy_from` copies from that device: both have the same driver, and it copies between devices."""

    def copy_from(self, to: DeviceMemory | int, other: Device, source: DeviceMemory | int, bytes: int) -> None:
        """A copy from another device's memory. Does not block; both devices order it among their work. Raises DeviceError."""

    def fill(self, to: DeviceMemory | int, byte: int, bytes: int) -> None: ...
    def wait(self) -> None:
        """Waits until all submitted work is done."""

    @property
    def stream(self) -> int:
        """The driver's handle of the stream that all work goes to."""

    def wait_for(self, stream: int) -> None:
        """Later work here waits for work already submitted to another stream (0: the default stream)."""

    def let_wait(self, stream: int) -> None:
        """Later work of another stream waits for work already submitted here."""

    def load(self, image: Any) -> DeviceModule:
        """Machine code (a cubin) or PTX."""

    def launch(self, function: DeviceFunction, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        """`arguments` are 64-bit words."""

    def record(self) -> None:
        """Records this thread's work instead of running it, until `recorded`. Other threads wait meanwhile."""

    def recorded(self) -> DeviceGraph: ...
    def replay(self, graph: DeviceGraph) -> None: ...
    def mark(self) -> DeviceMoment: ...

def device_to_dlpack(
    owner: Any, address: int, shape: Sequence[int], code: int, bits: int, device_type: int, device_index: int
) -> Any:
    """An object with `__dlpack__` over dense memory, which keeps `owner` alive. `stream` is ignored: order comes first."""

def device_from_dlpack(capsule: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, int, int, Any]:
    """The address, shape, strides in elements, type code, bits, device type and index of a capsule, and its owner."""

class DeviceArray:
    """A dense array in GPU memory, in row-major order: the base class of burn.runtime.device_array.DeviceArray."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def numpy_dtype(self) -> np.dtype: ...
    @property
    def native_device(self) -> Device: ...
    @property
    def is_writable(self) -> bool:
        """True if it can be donated: not for another library's memory, nor for a result of `read_only`."""

    def read_only(self) -> Any:
        """The same memory, which cannot be donated."""

    def fetched(self) -> np.ndarray:
        """Its bytes, in host memory. Waits for the kernels that write them, and raises the failures reported until then."""

    def lent(self, stream: int) -> Lent:
        """Keeps the memory alive for a library that uses it on `stream`."""

    def reshaped(self, shape: Sequence[int]) -> Any:
        """The same memory with another shape."""

class Lent: ...

def new_device_array(device: Device, dtype: np.dtype, shape: Sequence[int]) -> Any:
    """New, uninitialised memory."""

def foreign_device_array(
    device: Device, address: int, dtype: np.dtype, shape: Sequence[int], owner: Any, stream: int | None
) -> Any:
    """Another library's memory, which lives as long as `owner`. Before burn releases the owner, it lets `stream` wait for burn's
    pending work; without a stream, burn waits itself."""

def set_device_array_type(type: Any) -> None:
    """Sets the class of all device arrays: derived from `DeviceArray`, without fields of its own."""

class Communicator:
    """The processes of a mesh, for the collectives of programs on one device of this process: see native/communicator.h."""

    def fail(self) -> None:
        """A program of this process has failed: collectives of the others fail. Shared memory alone."""

    def reset(self) -> None:
        """After all processes have failed, between two barriers. Shared memory alone."""

    def abort(self, why: str) -> None:
        """Collectives under way and later ones fail with this reason. Has no effect on a closed one."""

    def look(self) -> str | None:
        """The error of a collective under way; None if there is none, or it is aborted or closed. NCCL alone."""

    def connect(self, groups: Sequence[int], size: int, id: bytes) -> None:
        """Connects this process with its group. NCCL alone. Waits for the others of the group."""

    def close(self) -> None:
        """Programs cannot use it any more. Calls of other threads that are under way end before it is freed."""

def shared_communicator(file: str, rank: int, ranks: int) -> Communicator:
    """Of processes that map one file of `shared_bytes` zeros. RuntimeError says why it cannot be opened."""

def shared_bytes(ranks: int) -> int: ...
def nccl_communicator(device: Device, rank: int, ranks: int) -> Communicator:
    """Of GPUs; `nccl_version` has opened the library. RuntimeError says why it cannot be opened: NCCL is for CUDA's devices."""

def nccl_version(library: str) -> int:
    """Opens NCCL's library; its version, such as 22703. RuntimeError says what is missing."""

def nccl_id() -> bytes:
    """An id for a group of processes, 128 bytes."""

def communicator_error() -> str:
    """The reason of the last failure of a collective in this process; "" if there was none."""
