"""`burn.custom_op`: an op of the user's, with types, bodies for devices, and a derivative.

@burn.custom_op("shop::scale")
def scale(x, *, factor=1.0):              # types of operands -> types of results; attributes are keyword-only
    return x

@scale.functions                          # any device; fused with its neighbours
def _(x, *, factor):
    return x * factor

scale.c(SOURCE, function="scale")         # CPUs; linked into binaries

y = scale(x, factor=2.0)
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from burn.custom import host  # noqa: F401  programs call it
from burn.custom.definition import Version
from burn.custom.native import CBody
from burn.custom.signature import Inference, Text
from burn.dialect import custom
from burn.dialect.mlir import context
from burn.errors import Problem, TypeMismatch
from burn.runtime.origins import current_line
from burn.tensors import Tensor, constant
from burn.tensors.gradients import with_derivative
from burn.tensors.tracer import active

Function = TypeVar("Function", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z_][\w.]*::[A-Za-z_]\w*")


class _Changes:
    """How often an op of this name was defined or changed. Traced functions that call it are traced again after a change."""

    def __init__(self) -> None:
        self.count = 0


_changes: dict[str, _Changes] = {}


def custom_op(
    name: str,
    types: str | None = None,
    *,
    attributes: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Sequence[Any]] | None = None,
) -> Any:
    """An op of one's own, by a name "domain::name". It is a decorator of a function of types, or with `types` the op itself.

    The function takes the type of each operand, with `dtype`, `shape`, `rank` and `elements`, and returns the type of each
    result: one of the operands', `x.with_shape((n, 3))`, or text such as "float32[batch, 3]". Sizes may be named, and the
    function may compute with them. Its keyword-only parameters are the op's attributes: numbers, texts, or tuples of numbers.

    types: the same as text: "T[n, k], T[k, m] -> T[n, m]". T is any element type, "..." any axes. Operands that share a name
    must have equal sizes; a run compares sizes that are unknown before it. "T[k]?" is an operand that a call may leave out, or
    give as None; in a function of types it is a parameter with the default None. attributes: then, their
    defaults. parameters: candidates of tuning parameters by name, the default first. Bodies get them: burn functions and
    Triton's by keyword, C as macros.

    Give the op bodies (`CustomOp.functions`, `.c`, `.triton`, `.python`) and a derivative (`.vjp`). Raises TypeMismatch for a
    malformed name or malformed types."""
    if not _NAME.fullmatch(name):
        raise TypeMismatch(f"'{name}' is no name of an op", ['write "domain::name"'])
    if types is None:
        if attributes is not None:
            raise TypeMismatch(f"{name}: attributes are the keyword-only parameters of the function of types")

        def decorate(function: Callable[..., Any]) -> CustomOp:
            return CustomOp(name, Inference.of(name, function), parameters or {}, function.__doc__ or "")

        return decorate
    return CustomOp(name, Text.of(name, types, attributes or {}), parameters or {}, f"{types}")


_ops: dict[str, CustomOp] = {}


def find(name: str) -> CustomOp:
    """The custom op of a name, as `burn.custom_op` defined it last in this process. Raises TypeMismatch if there is none."""
    if name not in _ops:
        hint = custom.suggestion(*name.partition("::")[::2])
        raise TypeMismatch(f"there is no custom op '{name}'", [Problem("no module has defined it", op=name, hint=hint)])
    return _ops[name]


class CustomOp:
    """An op that `burn.custom_op` defines. It is called like a function of tensors.

    Several bodies may be given. A CPU takes C first, then burn functions, then Python. A GPU takes Triton first, then burn
    functions; bodies for the host get copies there, which profiles show as `host`."""

    def __init__(self, name: str, types: Inference | Text, parameters: Mapping[str, Sequence[Any]], doc: str) -> None:
        self.name, self.__doc__, self.__name__ = name, doc, name.partition("::")[2]
        self._types = types
        self._candidates = {key: tuple(values) for key, values in parameters.items()}
        if empty := [key for key, values in self._candidates.items() if not values]:
            raise TypeMismatch(f"{name}: a tuning parameter has candidates", [f"'{empty[0]}' has none"])
        self._chosen = {key: values[0] for key, values in self._candidates.items()}
        self._parts: dict[str, Any] = {}
        self._c: dict[str, Any] | None = None
        self._changes = _changes.setdefault(name, _Changes())
        _ops[name] = self
        self._version: Version | None = None
        self._is_digesting = False
        self._changed()

    def __repr__(self) -> str:
        return f"<custom op {self.name}>"

    def _changed(self) -> None:
        self._version = None
        self._changes.count += 1
        custom.define_later(self.name, lambda: self.version)

    # ---- bodies ----------------------------------------------------------------------------------------------------------
    def functions(self, function: Function) -> Function:
        """Decorates the body by burn functions, for any device: a function of tensors, and of attributes by keyword. Its ops fuse
        with those around. Without a rule of its own, the op's derivative is that of this body."""
        return self._set("functions", function)

    def python(self, function: Function) -> Function:
        """Decorates the body in Python: a function of numpy arrays, and of attributes by keyword, that returns arrays of the
        op's types. It runs on the host, with copies of operands and results, which profiles show. Programs with it run in this
        process alone: they are not cached on disk, saved, or compiled to binaries. An exception ends the run and is raised by
        its call."""
        return self._set("python", function)

    def triton(self, function: Function) -> Function:
        """Decorates the body by Triton kernels, for GPUs: a function of `burn.custom.Pointer`s, first the operands, then the
        results, and of attributes by keyword. It returns one `burn.custom.Launch`, or a list of them, which run in order.
        Compilation calls it. Sizes may be named: each run computes the launch for its own."""
        return self._set("triton", function)

    def vjp(self, function: Function) -> Function:
        """Decorates the derivative: a function (cotangent, result, *operands, **attributes) of tensors that returns the
        cotangent of each operand, or None for one that has none, such as indices. An op with several results gets tuples of
        cotangents and results."""
        return self._set("derivative", function)

    def vmap(self, function: Function) -> Function:
        """Decorates the batching rule of `burn.vmap`: a function (size, mapped, *operands, **attributes) that returns the results
        of all examples, with the axis of the examples first. size: the number of examples, which may be named. mapped: for each
        operand, True if its first axis is that of the examples; False if all share it. Without a rule, a body of burn functions
        is mapped unless the op has a `vjp`; other ops run in a loop over the examples."""
        return self._set("batching", function)

    def _set(self, kind: str, function: Function) -> Function:
        self._parts[kind] = function
        self._changed()
        return function

    def c(
        self,
        source: str | Path,
        function: str,
        *,
        flags: Sequence[str] = (),
        libraries: Sequence[str] = (),
        language: str = "c",
    ) -> CustomOp:
        """The body in C or C++, for CPUs: `int function(const burn_custom_call *call)` of burn_custom.h, which returns 0, or
        another number to end the run with an error.

        source: text, or the path of a file: .c, .cc, .cpp, or an object (.o). flags: for its compiler. libraries: names to link
        with ("z" for -lz). language: of text, "c" or "c++". It is compiled at the first use by the compiler that burn-compile
        takes (CC, ziglang's, the system's), and kept on disk. Binaries link it. Raises CompileError for a file that is not
        there; what the compiler refuses is an error of the first call."""
        line = current_line()
        given = {"flags": tuple(flags), "libraries": tuple(libraries), "language": language}
        self._c = {"source": source, "function": function, "origin": f"{line}" if line else self.name, **given}
        self._c_body()
        self._changed()
        return self

    def _c_body(self) -> CBody | None:
        if self._c is None:
            return None
        macros = tuple(f"-D{key}={_macro(value)}" for key, value in self._chosen.items())
        return CBody.of(self.name, **{**self._c, "flags": (*macros, *self._c["flags"])})

    # ---- versions --------------------------------------------------------------------------------------------------------
    @property
    def version(self) -> Version:
        """The op as it is now. Raises TypeMismatch if it has no body."""
        if self._version is None:
            version = Version(self.name, self._types, dict(self._chosen), c=self._c_body(), **self._parts)
            if not version.bodies:
                hint = "write one with .functions, .c, .triton or .python"
                raise TypeMismatch(f"{self.name} has no body", [Problem("it has types alone", op=self.name, hint=hint)])
            self._version = version
            custom.define(version)
        return self._version

    def custom_digest(self) -> str:
        """The digest of everything that its results depend on; its name alone inside of its own functions."""
        if self._is_digesting:
            return self.name
        self._is_digesting = True
        try:
            return f"{self.name} {self.version.key}"
        finally:
            self._is_digesting = False

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of its tuning parameters."""
        return dict(self._chosen)

    def set_parameters(self, **values: Any) -> None:
        """Chooses values of tuning parameters. Raises TypeMismatch for one that is none of its candidates."""
        for key, value in values.items():
            if value not in self._candidates.get(key, ()):
                known = ", ".join(f"{name} in {list(found)}" for name, found in self._candidates.items()) or "none"
                raise TypeMismatch(f"{self.name} has no parameter {key}={value!r}", [f"it has {known}"])
        self._chosen |= values
        self._changed()

    def tune(self, *operands: Any, repeat: int = 5, **attributes: Any) -> dict[str, Any]:
        """Runs the op with each combination of tuning parameters on these operands, and chooses the fastest. Returns the
        choice. The time of each is the least of `repeat` runs, of the op alone."""
        tensors = [constant(x) for x in operands]
        for tensor in tensors:
            tensor.numpy()
        best: tuple[float, dict[str, Any]] | None = None
        for values in itertools.product(*self._candidates.values()):
            chosen = dict(zip(self._candidates, values, strict=True))
            self.set_parameters(**chosen)
            times = [self._timed(tensors, attributes) for _ in range(max(repeat, 1) + 1)][1:]  # the first compiles
            if best is None or min(times) < best[0]:
                best = min(times), chosen
        assert best is not None
        self.set_parameters(**best[1])
        return self.parameters

    def _timed(self, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> float:
        start = time.perf_counter()
        made_ = self(*operands, **attributes)
        for tensor in made_ if isinstance(made_, tuple) else (made_,):
            tensor.numpy()
        return time.perf_counter() - start

    # ---- calls -----------------------------------------------------------------------------------------------------------
    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """Applies the op: a tensor, or a tuple of several. Operands are tensors, arrays or numbers, and None for optional ones.
        Raises TypeMismatch for operands and attributes that it does not take. Errors of a body come when the program is compiled
        or runs."""
        context()
        version = self.version
        tracer = active()
        if tracer is not None:
            tracer.saw(self._changes)
        version = version.lacking(operands)
        tensors = [constant(x) for x in operands if x is not None]
        if version.bodies == {"functions"} and version.batching is None and not custom.is_kept_whole():
            results = self._inlined(version, tensors, custom.complete(version, attributes))
        else:
            results = version.recorded(tensors, attributes)
        return results[0] if len(results) == 1 else tuple(results)

    def _inlined(self, version: Version, operands: list[Tensor], settings: dict[str, Any]) -> list[Tensor]:
        """The ops of the body in place of the op."""
        if version.derivative is None:
            return version.called(operands, settings)

        def function(*tensors: Tensor) -> tuple[Tensor, ...]:
            return tuple(version.called(tensors, settings))

        def backward(
            operands: tuple[Tensor, ...], results: tuple[Tensor, ...], cotangents: Sequence[Tensor | None]
        ) -> Sequence[Tensor | None]:
            return version.backward(operands, results, cotangents, settings)

        return list(with_derivative(function, backward, *operands))

    def torch(self) -> Any:
        """The op as one of torch's, `torch.ops.domain.name`, with its types and its derivative: for torch.compile, also with
        burn as the back end, and for torch.export. Eagerly it runs on CPU tensors. Needs torch."""
        from burn.custom.torch_library import bound

        return bound(self)

    def jax(self) -> Any:
        """The op as a function of JAX's arrays, which `jax.jit`, `jax.grad` and `jax.vmap` accept. It is a primitive that burn
        imports as the op. JAX itself runs it on the host through `jax.pure_callback`, with copies, and maps it in a loop over
        the examples. The derivative is in reverse mode, and of first order. Needs jax."""
        from burn.custom.jax_primitive import bound

        return bound(self)


def _macro(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
