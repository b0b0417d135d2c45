"""`Tensor`: an array computed by compiled programs, with the operators and methods of numpy arrays.

    def f(x: burn.Tensor) -> burn.Tensor:
        batch, length = x.shape                    # in a traced function sizes may be symbolic, and arithmetic on them too
        return (x - x.mean(-1, keepdims=True)).reshape(batch * length)

Inside of a traced function (`burn.compile`, `burn.jit`) an operator adds an op to the program. Outside, it records the op:
`print`, `.numpy()`, `.item()`, `bool()` and the like compile and run what was recorded, together and once, and a program of the
same structure is compiled once in a process. Functions that are no methods are in `burn.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import burn.markup as markup
from burn.dialect.deferred import Deferred
from burn.dialect.functions import FUNCTIONS, Function
from burn.dialect.op import site
from burn.dialect.query import op_of
from burn.errors import Problem, TypeMismatch
from burn.evaluation import family
from burn.runtime import _native
from burn.runtime.arrays import Array
from burn.runtime.device import device
from burn.runtime.device_array import DeviceArray, dlpack_device
from burn.suggestions import suggestion
from burn.tensors import numpy_protocol
from burn.tensors.aliases import accepted
from burn.tensors.at import Updates
from burn.tensors.base import Base, of_array
from burn.tensors.tracer import current

_INSTEAD = {
    "truth value": "Use burn.cond for `if`, burn.while_loop for `while`, burn.scan for `for`, burn.where to choose by element",
    "float()": "Keep it a tensor; to convert its elements use .astype",
    "int()": "Keep it a tensor; for a size use burn.read_dim",
    "use as an index or a size": "To index with it write x[tensor]; for a size use burn.read_dim",
    "numpy array": "Call functions of burn rather than numpy's",
    "item()": "Keep it a tensor",
    "list": "Keep it a tensor",
    "copy in a file": "Return it from the traced function",
    "len()": "Use x.shape[0], which may be symbolic",
    "DLPack": "Return it from the traced function",
}
"""Hints for uses that need elements, which a traced tensor does not have."""


@accepted
class Tensor(Updates):
    """A tensor: of the traced program, or lazy.

    The classes of its methods derive from each other, so each may use those before it: `base`, `conversions`, `operators`,
    `math`, `complexes`, `logic`, `activations`, `shapes`, `manipulation`, `reductions`, `statistics`, `contractions`, `sorting`,
    `indexing`, `at`."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:  # type: ignore[override]
        return numpy_protocol.of_elements(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return numpy_protocol.of_arrays(function, args, options)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """The array API standard's functions of tensors: `burn.array_api`. Raises ValueError for an unsupported version."""
        namespace = family("array_api")
        if api_version not in (None, *namespace.VERSIONS):
            raise ValueError(
                f"there is no version {api_version} of the array API here, but {', '.join(namespace.VERSIONS)}"
            )
        return namespace

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """torch's functions refuse other tensors; this method gives the error burn's text. It raises TypeError, after which
        `torch_tensor + x` tries `__radd__`."""
        from burn.tensors import functions

        name = getattr(function, "__name__", str(function))
        alternative = f"burn.{name} does, and " if name in functions.NAMES else ""
        raise TypeError(
            f"torch.{name} does not compute with burn's tensors: {alternative}a function of torch's tensors is compiled with "
            'torch.compile(function, backend="burn"), a torch.nn.Module with burn.compile'
        )

    if not TYPE_CHECKING:  # checkers know the attributes that there are

        def __getattr__(self, name: str) -> NoReturn:
            hint = "" if name.startswith("_") else suggestion("Tensor", name, dir(type(self)))
            raise AttributeError(f"'Tensor' has no attribute '{name}'{hint}")

    # ---- its elements ------------------------------------------------------------------------------------------------
    def numpy(self) -> np.ndarray:
        """The elements as a read-only numpy array over the tensor's memory; for a tensor on a GPU, a copy. Computes
        recorded operations."""
        self._must_have_elements("numpy array")
        view = self._elements().view()
        view.flags.writeable = False
        return view

    def item(self) -> Any:
        """The only element, as a Python number. Raises TypeMismatch for several elements."""
        self._must_have_elements("item()")
        if self.type.elements != 1:
            raise TypeMismatch("item() is of tensors with one element", [f"this is {self.type}"])
        return self._elements().item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        self._must_have_elements("list")
        return self._elements().tolist()

    def evaluate(self) -> Tensor:
        """Computes recorded operations, and returns itself."""
        if not self.is_traced:
            self._held()
        return self

    @property
    def is_evaluated(self) -> bool:
        """True if the elements are computed."""
        return isinstance(self._value, Deferred) and self._value.array is not None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self._must_have_elements("numpy array")
        if copy is None:  # numpy 1 does not know the value
            return np.asarray(self.numpy(), dtype=dtype)
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        self._must_have_elements("DLPack")
        if isinstance(self._value, Deferred) and self._value.origin is not None:
            hint = "differentiate the function itself; what counts as constant goes in as x.numpy()"
            raise TypeMismatch("a compiled function, or another library, is not differentiated", [hint])
        held = self._held()
        return (held if isinstance(held, DeviceArray) else Array(held)).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        value = self._value
        if isinstance(value, Deferred) and isinstance(value.array, DeviceArray):
            return value.array.__dlpack_device__()
        return dlpack_device(device(self.device))

    def __as_input__(self) -> Any:
        """The input of an executable: the elements on their device, read-only."""
        if self.is_traced or self._value.origin is not None:
            return self  # __dlpack__ raises the error
        held = self._held()
        if isinstance(held, DeviceArray):
            return held.read_only()
        view = held.view()
        view.flags.writeable = False
        return view

    def __like_input__(self, array: np.ndarray | DeviceArray) -> Tensor:
        """An executable's output as a tensor, for a caller that passed tensors."""
        return of_array(array, device="" if self.device == "cpu" else self.device)

    def __bool__(self) -> bool:
        self._must_have_elements("truth value")
        if self.type.elements != 1:
            hint = "write (x == y).all() or .any()" if self.dtype == "bool" else "say which with .any() or .all()"
            raise TypeMismatch("the truth value of many elements is not known", [f"this is {self.type}; {hint}"])
        return bool(self._elements().item())

    def __float__(self) -> float:
        self._must_have_elements("float()")
        return float(self.item())

    def __int__(self) -> int:
        self._must_have_elements("int()")
        return int(self.item())

    def __index__(self) -> int:
        self._must_have_elements("use as an index or a size")
        if not self.dtype.startswith(("int", "uint")):
            raise TypeMismatch("an index is an integer", [f"not {self.type}"])
        return int(self.item())

    def __complex__(self) -> complex:
        self._must_have_elements("item()")
        return complex(self.item())

    def __len__(self) -> int:
        length = self.type.shape[0] if self.ndim else None
        if length is None:
            raise TypeMismatch("len() of a number", [f"this is {self.type}"])
        if not isinstance(length, int):
            self._unknown("len()")
        return length

    def __contains__(self, value: Any) -> bool:
        """True if an element equals the value."""
        return bool((self == value).any())

    def __copy__(self) -> Tensor:
        return self._present()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return memo.setdefault(id(self), self._present())

    def __reduce__(self) -> tuple[Any, ...]:
        self._must_have_elements("copy in a file")
        return (of_array, (self._held(),))

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self.is_traced else str(self)

    def __repr__(self) -> str:
        if self.is_traced:
            return "Tensor(of a traced function that has ended)" if self._is_gone else f"Tensor({self.type})"
        if self.dtype == "list":
            return f"Tensor({self.type})"
        text = np.array2string(self._elements(), separator=", ", prefix="tensor(")
        sizes = "" if self.type.elements else f", shape={list(self.type.shape)}"
        device = "" if self.device == "cpu" else f", device={self.device}"
        return f"tensor({text}{sizes}, dtype={self.dtype}{device})"

    def _repr_html_(self) -> str:
        """For notebooks: type, device and elements."""
        if self.is_traced or self.dtype == "list":
            return markup.code(repr(self))
        head = markup.joined(markup.code(self.type), f"on {self.device}")
        return markup.details(head, markup.block(np.array2string(self._elements(), separator=", ")), opened=True)

    def _must_have_elements(self, what: str) -> None:
        if self.is_traced:
            self._unknown(what)

    def _unknown(self, what: str) -> NoReturn:
        self._must_be_alive()
        text = f"{self!r} has no elements yet: it belongs to a program that is being traced. {_INSTEAD[what]}"
        op = op_of(self.value)
        if op is None and not self.ndim and (name := current().input_name(self.value)):
            hint = f"'{name}' is an argument: burn.jit passes a Python number unchanged if it is named in static="
            raise TypeMismatch(f"{what} of a traced tensor", [Problem(text, hint=hint)])
        raise TypeMismatch(f"{what} of a traced tensor", [Problem(text, node="" if op is None else site(op))])


def _method(row: Function) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        return self._fraction(row.name)

    method.__name__, method.__qualname__ = row.name, f"Tensor.{row.name}"
    method.__doc__ = f"{row.doc[0].upper()}{row.doc[1:]}."
    return method


for _row in FUNCTIONS:  # functions of one float that no family of methods defines
    if (
        (_row.arity, _row.predicate) == (1, False)
        and {*_row.kinds} <= {"float", "complex"}
        and not hasattr(Tensor, _row.name)
    ):
        setattr(Tensor, _row.name, _method(_row))

Base._final = Tensor
_native.set_tensor_classes(Tensor, Deferred)
