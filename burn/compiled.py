"""Functions and modules of tensors, compiled: `burn.compile` for inputs given beforehand, `burn.jit` for those of each call.

fast = burn.compile(f, (example,), dynamic={"x": {0: "batch"}})     # one executable for every batch size

@burn.jit
def f(x): return burn.ops.gelu(x @ w)                               # compiled at the first call with each signature
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burn.dialect.spec import as_array
from burn.errors import TypeMismatch
from burn.tensors import Tensor, trees
from burn.tracing.arguments import Arguments, Dynamic, bound, described
from burn.tracing.trace import Traced, arguments_of, is_module, name_of, signature_of, trace_call

if TYPE_CHECKING:
    from burn.runtime import Executable


def compile(
    function: Any,
    example_inputs: Any = None,
    dynamic: Dynamic | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    target: str | None = None,
) -> Any:
    """Compiles a module or a function of tensors, or a PyTorch module, for this machine (or for the CPU `target`).

    example_inputs: arrays, types ("float32[batch, 3]") or containers of them (lists, tuples, dictionaries, dataclasses), by
    position (in a tuple, where there are several) or by name; a module that knows its inputs (as imported ones do) needs
    none. dynamic: names for sizes that vary, {"x": {0: "batch"}}, by the inputs' names or positions; what is compiled takes
    every size of them.

    Returns an Executable; where arguments or results are containers, or not all arguments are tensors, a CompiledFunction,
    which is called as the function is. A torch.nn.Module or an exported program becomes a CompiledModule, which takes and
    gives torch's tensors (burn/adapters/torch); `kwargs` are further examples for it, by name.

    Raises TypeMismatch for operands that do not fit each other, ModelError for what cannot be imported, and CompileError."""
    if is_torch(function):
        from burn.adapters.torch import compile_module

        examples = () if example_inputs is None else example_inputs  # a tensor has no truth value
        return compile_module(function, examples, kwargs, dynamic, target=target)
    if kwargs is not None:
        example_inputs = _by_name(function, example_inputs, kwargs)
    traced = trace_call(function, arguments_of(function, example_inputs, dynamic))
    executable = _executable(traced, target)
    return executable if traced.is_flat else CompiledFunction(executable, traced.arguments, traced.results)


def is_torch(function: Any) -> bool:
    """Whether it is PyTorch's; which is not imported for this: only a caller that has it can have made one."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    exported = getattr(sys.modules.get("torch.export"), "ExportedProgram", ())
    return isinstance(function, (torch.nn.Module, exported))


def _by_name(function: Callable[..., Any], examples: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All examples by name."""
    if isinstance(examples, Mapping):
        return {**examples, **kwargs}
    return {**dict(zip(signature_of(function).parameters, examples or (), strict=False)), **kwargs}


def _executable(traced: Traced, target: str | None = None) -> Executable:
    from burn.compiler import executable

    return executable(traced.program, target=target)


class CompiledFunction:
    """A compiled program that is called as the function it was made of. `executable` takes and gives tensors by path."""

    def __init__(self, executable: Executable, arguments: Arguments, results: trees.Structure) -> None:
        self.executable = executable
        self._arguments, self._results = arguments, results

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns. Raises InputError where the arguments are not made like the examples, and RunError."""
        return self.run_leaves(self._arguments.leaves(args, kwargs))

    def run_leaves(self, leaves: Sequence[Any]) -> Any:
        outputs = self.executable(*leaves)
        return trees.unflatten(self._results, outputs if isinstance(outputs, tuple) else (outputs,))

    def __repr__(self) -> str:
        return f"CompiledFunction({self.executable!r})"


KEPT = 256
"""Programs that a jitted function keeps; the oldest go first."""


class Jit:
    """A function that is compiled at its first call with each signature: the element types and shapes of all tensors in its
    arguments, and everything else in them. `programs` holds what was compiled, and the state of modules it was compiled with."""

    def __init__(self, function: Callable[..., Any], dynamic: Dynamic | None) -> None:
        functools.update_wrapper(self, function)
        self._function, self._dynamic = function, dynamic or {}
        self._signature = signature_of(function)
        self._lock = threading.RLock()  # a function may call itself while it is traced
        self.programs: dict[Any, tuple[_State, CompiledFunction]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = bound(self._signature, args, kwargs, name_of(self._function))
        leaves = [leaf for value in given.values() for leaf in trees.flatten(value)[0]]
        if any(isinstance(leaf, Tensor) and leaf.is_traced for leaf in leaves):
            return self._function(*args, **kwargs)  # part of a program that is being traced
        arguments = described(self._signature, given, self._dynamic)
        key = (arguments.names, arguments.structures, tuple(arguments.types.items()))
        modules = [m for m in (self._function, *_fixed(arguments.structures)) if is_module(m)]
        program = self._known(key, modules)
        if program is None:
            with self._lock:
                program = self._known(key, modules)
                if program is None:
                    state = _State.of(modules)  # before tracing: what changes meanwhile is seen at the next call
                    traced = trace_call(self._function, arguments)
                    program = CompiledFunction(_executable(traced), arguments, traced.results)
                    self.programs[key] = state, program
                    while len(self.programs) > KEPT:
                        self.programs.pop(next(iter(self.programs)))
        return program.run_leaves([leaf if trees.is_array(leaf) else as_array(leaf) for leaf in leaves])

    def _known(self, key: Any, modules: Sequence[Any]) -> CompiledFunction | None:
        """The program for a signature, unless a module has other weights now, or another mode."""
        state, program = self.programs.get(key, (None, None))
        return program if state is not None and state.holds(modules) else None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


@dataclass(frozen=True)
class _State:
    """What of some modules is written into a program: their parameters' elements, and whether they are in training."""

    weights: tuple[Any, ...]
    training: tuple[bool, ...]

    @staticmethod
    def of(modules: Sequence[Any]) -> _State:
        parameters = (p for m in modules for _, p in m.named_parameters(shared=True))
        return _State(tuple(p.weight for p in parameters), tuple(i.training for m in modules for i in m.modules()))

    def holds(self, modules: Sequence[Any]) -> bool:
        if not modules:
            return True
        now = _State.of(modules)
        same = len(now.weights) == len(self.weights) and all(map(operator.is_, now.weights, self.weights))
        return same and now.training == self.training


def _fixed(structures: Sequence[trees.Structure]) -> Iterator[Any]:
    """What in a call's arguments is no tensor."""
    for structure in structures:
        if isinstance(structure, trees.Fixed):
            yield structure.value
        elif isinstance(structure, trees.Node):
            yield from _fixed(structure.children)


def jit(function: Callable[..., Any] | None = None, *, dynamic: Dynamic | None = None) -> Any:
    """A function that is compiled at its first call with each signature: the element types and shapes of the arrays and
    tensors in its arguments (also inside of lists, tuples, dictionaries and dataclasses; Python's numbers are float32 and
    int64 scalars), and everything else in them (bools, strings, None, modules), which the function sees as it is; other
    objects are told apart by `==` and their hash: what changes inside of one is not seen.

    numpy arrays in, numpy arrays out; tensors in, tensors out. dynamic: as for `compile`; sizes named there do not count
    into the signature. In a function that is being traced, the call is part of that. Parameters of modules are constants of
    the program: where the module is the function or among its arguments (`self`, too), it is compiled anew when they have
    changed, or its mode; elsewhere a change is not seen. Raises TypeMismatch for a PyTorch module."""
    if function is not None and is_torch(function):
        raise TypeMismatch(
            "burn.jit is for functions of burn's tensors", ["compile a PyTorch module with burn.compile"]
        )
    return functools.partial(jit, dynamic=dynamic) if function is None else Jit(function, dynamic)
