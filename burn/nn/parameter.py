"""Parameters and buffers: tensors that a module owns. In a traced program each is one constant, or one input (`burn.jit`).

Their elements are an array in memory, or in a mapped file that is read on access. A parameter without elements
draws them from its initialiser at the first use.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn, TypeAlias

import numpy as np

from burn.dialect.deferred import Deferred
from burn.dialect.spec import element_type
from burn.dialect.types import FLOATS, TensorType, numpy_dtype, type_of
from burn.dialect.weights import Weight, array_weight
from burn.errors import TypeMismatch
from burn.nn import init
from burn.nn.init import Init, Simple
from burn.runtime import _native
from burn.runtime.arrays import own_copy
from burn.runtime.device import CPU, Device
from burn.runtime.device_array import DeviceArray, to_device
from burn.runtime.dtypes import name_of
from burn.runtime.random import process
from burn.tensors import Tensor, constant
from burn.tensors.base import made
from burn.tensors.tracer import active
from burn.tracing.changes import changes

ParameterOrNone: TypeAlias = "Parameter | Any"
BufferOrNone: TypeAlias = "Buffer | Any"
"""A parameter or a buffer of a layer that may be built without it: None then. `Any` stands for None, so that type checkers accept
`layer.bias.numpy()`: the constructor's options decide, which they do not follow."""


class Parameter(Tensor):
    """A trainable tensor. It is made from elements (an array, a tensor, numbers in lists), or from a shape (a tuple
    of sizes). The elements of a shape come later: from a file, or from `init`, a function of the shape, or of the shape and a
    random generator of its own."""

    __slots__ = (
        "_alone", "_device", "_init", "_leaf", "_on_device", "_on_mesh", "_stream", "_trainable", "_type", "_weight", "mover",
        "name",
    )  # fmt: skip

    def __init__(self, data: Any, dtype: str = "float32", init: Init | Simple | None = None):
        self.name = ""  # its path in the last traced or loaded module
        self._init = init
        self._stream = process.draw() if init is not None else (0, 0)
        self._trainable = True
        self.mover: Any = None  # a weak reference to its optimizer
        self._weight: Weight | np.ndarray | None = None  # an array: of its type, as a program gave it
        self._leaf: Deferred | None = None
        self._device = CPU
        self._on_device: DeviceArray | None = None  # its elements on the GPU; `_weight` is then a copy
        self._on_mesh: Any = None  # its elements on the devices of a mesh (burn/distributed); `_weight` is then a copy
        self._tracer = None
        self._alone = False  # no other reference to its elements exists: a program may overwrite them
        if isinstance(data, (tuple, list)) and all(isinstance(d, (int, np.integer)) for d in data):
            self._type = TensorType(element_type(dtype), tuple(map(int, data)))
        else:
            elements = constant(data).numpy() if not isinstance(data, np.ndarray) else data
            self._weight, self._alone = array_weight(own_copy(elements, elements.dtype)), True
            self._type = TensorType(self._weight.dtype, self._weight.shape)

    @property
    def type(self) -> TensorType:
        return self._type

    @property
    def is_traced(self) -> bool:
        return False

    @property
    def trainable(self) -> bool:
        """False for a frozen parameter: see `Module.freeze`."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = value
        changes.kinds += 1

    @property
    def _value(self) -> Deferred:  # type: ignore[override]  # made at the first use in a computation
        if self._leaf is None:
            elements = self.array if _is_host(self._device) else self.elements
            self._leaf = Deferred(self._type, array=elements, device="" if self._device is CPU else str(self._device))
            self._alone = False
        return self._leaf

    def __del__(self) -> None:
        """Does not release a deferred value as tensors do: a parameter owns its elements, which may not exist yet."""

    @property
    def value(self) -> Any:
        """Its value: an input or a constant of the program being traced, or its elements."""
        tracer = active()
        return self._value if tracer is None else tracer.parameter(self)

    def evaluate(self) -> Tensor:
        """Its present elements."""
        return self._present()

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeMismatch("a parameter is assigned as a whole", ["p.assign(p.at[i].set(v))"])

    def _present(self) -> Tensor:
        return made(self.value)

    @property
    def weight(self) -> Weight:
        """Its elements as a weight, in memory or mapped."""
        weight = self._own()
        if self._on_device is None and self._on_mesh is None:
            self._alone = False
        return weight

    def _own(self) -> Weight:
        """Its elements in host memory."""
        if self._weight is None and self._on_mesh is not None:
            self._weight = array_weight(self._on_mesh.numpy())
        elif self._weight is None and self._on_device is not None:
            self._weight = array_weight(self._on_device.numpy())
        elif self._weight is None:
            drawn = init.drawn(self._init or init.zeros, self.shape, np.random.default_rng(self._stream))
            self._weight, self._alone = array_weight(own_copy(drawn, numpy_dtype(self.dtype))), True
        if not isinstance(self._weight, Weight):
            assert self._weight is not None
            self._weight = Weight(self._type.dtype, self._weight.shape, self._weight)
        return self._weight

    @property
    def array(self) -> np.ndarray:
        """Its elements in host memory, read-only; no copy if they are in memory, or mapped with at least a byte each."""
        view = self.weight.array().view()
        view.flags.writeable = False  # recorded or compiled users would not see a change
        return view

    @property
    def elements(self) -> np.ndarray | DeviceArray:
        """Its elements as program inputs: at least a byte each, on its device, or mapped. Valid only for the next call."""
        if _is_host(self._device):
            return self._own().array()
        if self._on_device is None:
            self._on_device, self._alone = to_device(self._own().array(), self._device), True
        return self._on_device

    @property
    def placement(self) -> Device:
        """The device of its elements, present or future."""
        return self._device

    @property
    def device(self) -> str:
        return str(self._device)

    def move(self, where: Device) -> None:
        """Moves its elements to a device. Raises DeviceError for a device that does not exist, and MemoryError."""
        if where == self._device:
            return
        known = self._weight is not None or self._on_device is not None or self._on_mesh is not None
        if self._on_device is not None or self._on_mesh is not None:
            self._own()  # copied to the host
        self._device, self._on_device, self._on_mesh, self._leaf = CPU if where == CPU else where, None, None, None
        changes.kinds += 1
        if known:
            _ = self.elements

    @property
    def on_mesh(self) -> Any:
        """Its elements on the devices of a mesh, a `burn.distributed.engine.Held`; None if they are elsewhere."""
        return self._on_mesh

    def put_on_mesh(self, held: Any) -> None:
        """Sets its elements, which are now on the devices of a mesh, and drops those in host memory. A device that it was moved
        to no longer counts."""
        self._on_mesh, self._alone = held, True
        self._weight = self._leaf = self._on_device = None
        changes.kinds += self._device is not CPU
        changes.elements += 1
        self._device = CPU

    @property
    def count(self) -> int:
        return prod(self.shape)

    def assign(self, data: np.ndarray | Weight | Tensor) -> None:
        """Assigns other elements; in a compiled function (`burn.jit`) at every call. Raises TypeMismatch
        unless element type and shape are the same."""
        tracer = active()
        if tracer is not None:
            value = constant(data).value if not isinstance(data, Weight) else tracer.literal(data)
            self._must_fit(type_of(value))
            tracer.assign(self, value)
            return
        if not _is_host(self._device):
            self._assign_on_gpu(data)
            return
        if isinstance(data, Tensor):
            data = data.numpy()
        weight = data if isinstance(data, Weight) else array_weight(own_copy(array := np.asarray(data), array.dtype))
        self._must_fit(TensorType(weight.dtype, weight.shape))
        self._weight, self._leaf, self._on_mesh, self._alone = weight, None, None, weight is not data
        changes.elements += 1

    def _assign_on_gpu(self, data: Any) -> None:
        held = data._held() if isinstance(data, Tensor) else data.array() if isinstance(data, Weight) else data
        alone = not isinstance(held, DeviceArray) or held.device != self._device
        if not isinstance(held, DeviceArray):
            held = np.asarray(held)
        self._must_fit(TensorType(name_of(held.dtype) if isinstance(held, np.ndarray) else held.dtype, held.shape))
        self._on_device = to_device(held, self._device) if isinstance(held, np.ndarray) else held.to(self._device)
        self._weight, self._leaf, self._alone = None, None, alone
        changes.elements += 1

    def _must_fit(self, given: TensorType) -> None:
        if given != self._type:
            raise TypeMismatch(
                f"parameter '{self.name}' does not take these elements", [f"it is {self._type}, not {given}"]
            )

    def become(self, weight: Weight) -> None:
        """Assigns other elements, which may have another element type."""
        self._type = TensorType(weight.dtype, weight.shape)
        self._weight, self._leaf, self._on_device, self._on_mesh, self._alone = weight, None, None, None, False
        changes.kinds += 1
        changes.elements += 1

    def exchange(self, other: Parameter) -> None:
        """Exchanges elements with a parameter of the same type and device, without a copy. Raises TypeMismatch."""
        other._must_fit(self._type)
        if self._device != other._device:
            raise TypeMismatch("parameters on different devices", [f"{self._device} and {other._device}"])
        for name in ("_weight", "_on_device", "_on_mesh", "_leaf", "_alone", "_init", "_stream"):
            own = getattr(self, name)
            setattr(self, name, getattr(other, name))
            setattr(other, name, own)
        changes.elements += 1

    def reset(self, init: Init | Simple, seed: int | None = None) -> None:
        """Draws new elements at the next use: from the process's generator, or from a generator with this seed."""
        self._init, self._stream = init, process.draw() if seed is None else (seed, 0)
        self._weight = self._leaf = self._on_device = self._on_mesh = None
        self._alone = False
        changes.elements += 1

    def convert(self, dtype: str) -> None:
        """Converts it to another float type, with rounding. Raises TypeMismatch for other types."""
        if dtype not in FLOATS or self._type.dtype not in FLOATS:
            raise TypeMismatch(f"{self._type} does not become {dtype}", [f"float types are {', '.join(FLOATS)}"])
        if self._weight is not None or self._on_device is not None or self._on_mesh is not None:
            self._weight = array_weight(self.array.astype(numpy_dtype(dtype)))
        self._type, self._leaf, self._on_device, self._on_mesh = self._type.with_dtype(dtype), None, None, None
        changes.kinds += 1
        changes.elements += 1

    def copy(self) -> Parameter:
        """A copy; both share the elements until one is assigned."""
        other = type(self)(self.shape, self.dtype)
        other.name, other._init, other._stream, other._trainable = self.name, self._init, self._stream, self._trainable
        other._weight, other._on_device, other._device = self._weight, self._on_device, self._device
        other._on_mesh = self._on_mesh
        self._alone = False  # neither may be overwritten
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        return memo.setdefault(id(self), self.copy())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restored, (type(self), self.array, self.dtype, self.name, self._trainable)

    def __copy__(self) -> Parameter:
        return self.copy()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._type})"


def _restored(cls: type[Parameter], array: np.ndarray, dtype: str, name: str, trainable: bool) -> Parameter:
    """A parameter from a pickle."""
    made = cls(array.shape, dtype)
    made.assign(Weight(dtype, array.shape, np.asarray(array, order="C")))  # of a scalar: still without axes
    made.name, made._trainable = name, trainable
    return made


def _is_host(device: Device) -> bool:
    """True for a device that computes in host memory. The CPU is one object, which this recognises fast."""
    return device is CPU or device.memory.is_host


# ---- for many parameters at once, at every call of a compiled function -------------------------------------------------------
def elements_of(parameters: tuple[Parameter, ...]) -> list[np.ndarray | DeviceArray]:
    """The elements of each: see `Parameter.elements`."""
    if all(_is_host(device) for device in devices_of(parameters)):
        return host_elements(parameters)
    return [p.elements if (found := p._on_device) is None else found for p in parameters]


def host_elements(parameters: tuple[Parameter, ...]) -> list[Any]:
    """The elements of parameters whose device computes in host memory."""
    found = _native.get_all(parameters, "_weight")
    if _native.are_arrays(found):
        return found
    return [_at_hand(held, p) for held, p in zip(found, parameters, strict=True)]


def _at_hand(held: Weight | np.ndarray | None, parameter: Parameter) -> Any:
    if type(held) is np.ndarray:
        return held
    if isinstance(held, Weight) and type(held.buffer) is np.ndarray:
        return held.buffer
    return parameter.elements


def devices_of(parameters: Sequence[Parameter]) -> set[Device]:
    """The devices of the parameters. Deduplicates by identity first, because hashing a Device is slow."""
    found = _native.get_all(tuple(parameters), "_device")
    return {found[0]} if found and _native.all_are(found, found[0]) else set({id(d): d for d in found}.values())


def are_of(parameters: Sequence[Parameter], types: Sequence[TensorType]) -> bool:
    """True if they have these types."""
    own = _native.get_all(tuple(parameters), "_type")
    return all(map(operator.is_, own, types)) or own == list(types)


def given_up(parameters: tuple[Parameter, ...]) -> list[bool]:
    """For each parameter: True if a program may overwrite its elements."""
    return _native.get_all(parameters, "_alone")


def renew(parameters: tuple[Parameter, ...], arrays: list[Any], where: Device) -> None:
    """Assigns elements that a program computed, on their device; the parameters then own them."""
    on_host = _native.are_arrays(arrays)
    if not on_host and any(isinstance(array, np.ndarray) for array in arrays):
        for parameter, array in zip(parameters, arrays, strict=True):
            renew((parameter,), [array], where)
        return
    placed = where if not on_host or _is_host(where) else CPU
    if not all(device is placed for device in devices_of(parameters)):
        _native.set_all(parameters, "_device", placed)
        changes.kinds += 1
    _native.set_all(parameters, "_weight", arrays if on_host else None)
    _native.set_all(parameters, "_on_device", None if on_host else arrays)
    _native.set_all(parameters, "_leaf", None)
    _native.set_all(parameters, "_on_mesh", None)
    _native.set_all(parameters, "_alone", True)
    changes.elements += 1


def renew_on_mesh(parameters: Sequence[Parameter], elements: Sequence[Any]) -> None:
    """Assigns elements that a program computed on the devices of a mesh; the parameters then own them."""
    for parameter, held in zip(parameters, elements, strict=True):
        parameter.put_on_mesh(held)


class Buffer(Parameter):
    """A tensor of a module that is not trained: a table, running statistics."""

    __slots__ = ()

    @property
    def trainable(self) -> bool:
        return False

    @trainable.setter
    def trainable(self, value: bool) -> None:
        if value:
            raise TypeMismatch("a buffer is not trained", [repr(self)])
