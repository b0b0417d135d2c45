"""`burn.jit`: a function that is compiled at its first call with each signature.

    @burn.jit
    def step(x): return model(x)                            # compiled once, however often the model's parameters change

Parameters of modules start as constants of a program, rearranged for the machine. After the first change (in training, from the
first call) they are inputs, and no program holds weights. All other state of modules and objects, such as their mode, is captured
during tracing. The next call compares it (`tracing/guards.py`): if it has changed, the function is traced again.
"""

from __future__ import annotations

import functools
import itertools
import operator
import pickle
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import burn.markup as markup
from burn.compiled import CompiledFunction, executable_of, is_jax, is_torch
from burn.dialect.deferred import is_remembering
from burn.dialect.spec import as_array
from burn.errors import Problem, TypeMismatch
from burn.nn.parameter import are_of, devices_of, elements_of, given_up, renew
from burn.options import Options
from burn.runtime import registry
from burn.runtime._native import call_key, trim_memory
from burn.runtime.arrays import as_given
from burn.runtime.compilations import History, Reason, about
from burn.runtime.debugging import checked
from burn.runtime.device import CPU, Device
from burn.runtime.device import device as as_device
from burn.runtime.device_array import gpu_of
from burn.runtime.executable import Executable
from burn.tensors import Tensor, trees
from burn.tracing.arguments import Arguments, Dynamic, bound, described
from burn.tracing.changes import Verified, changes
from burn.tracing.guards import Captured
from burn.tracing.trace import Assigned, Traced, is_module, name_of, signature_of, trace_call

KEPT = 256
"""Programs that a jitted function keeps; those not used for longest go first."""
KEYS = 4096
"""Keys of calls that a jitted function keeps: each combination of sizes is one, also of sizes that a program leaves open."""
NUMBERS = (int, float)


@dataclass(frozen=True)
class _Program:
    """A compiled program.

    `parameters`: its parameters, which are its last inputs (`opened`) or constants. `given`: their types, or their elements.
    `assigned`: the parameters whose new elements are its last outputs. `captured`: other state that tracing read. `device`:
    where it runs."""

    function: CompiledFunction
    device: Device
    opened: bool
    parameters: tuple[Any, ...]
    given: tuple[Any, ...]
    assigned: tuple[Any, ...]
    captured: Captured
    verified: Verified = field(default_factory=Verified)

    @staticmethod
    def of(function: CompiledFunction, traced: Traced, captured: Captured) -> _Program:
        tracer = traced.tracer
        given = [p.type if tracer.opens else p.weight for p in tracer.parameters]
        parameters, where = tuple(tracer.parameters), function.executable.device
        return _Program(function, where, tracer.opens, parameters, tuple(given), traced.assigned, captured)

    @cached_property
    def renewed(self) -> tuple[int, ...]:
        """Of the parameters that are assigned to, the numbers among all."""
        numbers = {id(p): i for i, p in enumerate(self.parameters)}
        return tuple(numbers[id(p)] for p in self.assigned)

    def takes_parameters(self) -> bool:
        """True if it is right for the elements that the parameters have now."""
        if self.opened:
            return are_of(self.parameters, self.given)
        return all(p.weight is w for p, w in zip(self.parameters, self.given, strict=True))

    @property
    def elements(self) -> list[Any]:
        """Of the parameters that are inputs."""
        return elements_of(self.parameters) if self.opened else []

    def run(self, leaves: Sequence[Any]) -> Any:
        if not self.assigned and not self.opened and self.device.memory.is_host:
            return self.function.run_leaves(leaves)
        elements = self.elements
        if not self.assigned:
            if self.device.memory.is_host:
                return self.function.run_leaves([*leaves, *elements])
            return self.function.run_giving([*map(as_given, leaves), *elements], (), leaves)[0]
        free = given_up(self.assigned)
        numbers = [len(leaves) + i for i in (self.renewed if all(free) else itertools.compress(self.renewed, free))]
        arrays = [*map(as_given, leaves), *elements]  # as the native call takes them
        result, rest = self.function.run_giving(arrays, numbers, leaves)
        renew(self.assigned, rest, self.device)
        return result


class Jit:
    """A function that is compiled at its first call with each signature: the element types and shapes of all tensors in its
    arguments, and everything else in them. `programs` holds what was compiled."""

    def __init__(
        self,
        function: Callable[..., Any],
        dynamic: Dynamic | None,
        static: Collection[str],
        donate: Sequence[int | str] = (),
        opens: bool = False,
        device: Device | None = None,
        budget: str = "",
        size_hints: Mapping[str, int] | None = None,
    ) -> None:
        """As `jit`. opens: whether parameters are inputs from the first program on. budget: options of the pass `recompute`, if
        programs' memory has a limit. size_hints: see `Program.size_hints`."""
        functools.update_wrapper(self, function)
        self._function, self._dynamic, self._donate, self._device = function, dynamic or {}, donate, device
        self._signature = signature_of(function)
        self._static = frozenset(static)
        self._budget, self._size_hints = budget, size_hints or {}
        self._varied = opens  # whether parameters change
        self._lock = threading.RLock()  # a function may call itself while it is traced
        self.programs: OrderedDict[Hashable, list[_Program]] = OrderedDict()
        self._history, self._signatures = History(), dict[Any, None]()  # the latter in the order of compilations
        self._calls: dict[Any, _Program] = {}  # by keys of calls; they are also in `programs`
        self._parameter_names = tuple(self._signature.parameters)
        unknown = sorted(self._static - self._signature.parameters.keys())
        if unknown:
            names = ", ".join(self._signature.parameters)
            raise TypeMismatch("static names what is no argument", [f"{', '.join(unknown)}; the arguments are {names}"])

    @property
    def executable(self) -> Executable:
        """The executable compiled last. Raises TypeMismatch before the first call."""
        if not self.programs:
            raise TypeMismatch("nothing is compiled yet", [f"{name_of(self._function)} was never called"])
        return next(reversed(self.programs.values()))[0].function.executable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(kwargs) > 1:  # in the order of the function's parameters
            kwargs = {n: kwargs[n] for n in self._parameter_names if n in kwargs} | kwargs
        is_remembered = is_remembering()
        known = None if is_remembered else call_key(args, kwargs, checked(), bool(self._static))
        if known is not None:
            key, leaves, has_numbers = known
            program = self._calls.get(key)
            if program is not None and program.verified.holds(program.opened) and program.captured.holds():
                return program.run(
                    [v if type(v) not in NUMBERS else as_array(v) for v in leaves] if has_numbers else leaves
                )
        given = bound(self._signature, args, kwargs, name_of(self._function))
        leaves = [leaf for name, value in given.items() for leaf in self._leaves(name, value)]
        if is_remembered or any(isinstance(leaf, Tensor) and leaf.is_traced for leaf in leaves):
            return self._function(*args, **kwargs)  # the call becomes part of the outer trace or derivative
        program = self._program(given, leaves)
        if known is not None and len(known[1]) == len(leaves) and all(map(operator.is_, known[1], leaves)):
            if len(self._calls) >= KEYS:
                self._calls.clear()
            self._calls[known[0]] = program
        return program.run([leaf if trees.is_array(leaf) else as_array(leaf) for leaf in leaves])

    def program_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """The program for a call, compiled if there is none yet, and the tensors in the arguments."""
        given = bound(self._signature, args, kwargs, name_of(self._function))
        leaves = [leaf for name, value in given.items() for leaf in self._leaves(name, value)]
        return self._program(given, leaves), leaves

    def _program(self, given: Mapping[str, Any], leaves: Sequence[Any]) -> _Program:
        arguments = described(self._signature, given, self._dynamic, static=self._static)
        key = (arguments.names, arguments.structures, tuple(arguments.types.items()), checked())
        devices = frozenset(found for leaf in leaves if (found := _device_of(leaf)) is not None)
        program = self._known(key, devices)
        if program is None:
            with self._lock:
                program = self._known(key, devices)
                if program is None:
                    reason = difference(self._signatures, key)
                    with about(name_of(self._function), reason):
                        program = self._compiled(arguments, devices)
                    self._signatures[key] = None
                    self._history.add(name_of(self._function), reason)
                    self._keep(key, program)
                    program.elements  # noqa: B018  drawn now if they never were: that takes memory, too
                    trim_memory()
        return program

    def _leaves(self, name: str, value: Any) -> list[Any]:
        """The tensors of an argument. Raises TypeMismatch for a static argument without a hash or equality."""
        if name not in self._static:
            return trees.flatten(value)[0]
        try:
            hash(value)
        except TypeError:
            text = f"a {type(value).__name__} has no hash; pass a tuple instead of a list, and arrays as they are"
            raise TypeMismatch(f"'{name}' is static, and this value cannot be", [text]) from None
        if isinstance(value, Tensor):
            raise TypeMismatch(f"'{name}' is static, and this value cannot be", ["tensors differ by their elements"])
        return []

    def _known(self, key: Hashable, devices: frozenset[Device]) -> _Program | None:
        """The cached program for a signature, if its guards still hold."""
        for program in self.programs.get(key, ()):
            now = changes.kinds, changes.elements
            if program.takes_parameters() and program.captured.holds():
                where = self._where(devices, program.parameters)
                if where is program.device or where == program.device:
                    program.verified.until(*now)
                    return program
        return None

    def _where(self, devices: frozenset[Device], parameters: Sequence[Any]) -> Device:
        """The device that a program runs on: the requested one, or that of the tensors and parameters. Raises
        TypeMismatch if there are several."""
        if self._device is not None:
            return self._device
        found = {*devices, *devices_of(parameters)} - {CPU}
        if len(found) > 1:
            names = ", ".join(sorted(map(str, found)))
            hint = "move them to one, or say which with device=..."
            raise TypeMismatch("tensors on different devices", [Problem(f"arguments lie on {names}", hint=hint)])
        return next(iter(found), CPU)

    def _compiled(self, arguments: Arguments, devices: frozenset[Device]) -> _Program:
        if wrong := [name for name, type_ in arguments.types.items() if type_.dtype == "list"]:
            hint = "pass its tensors; burn.ops.list_at reads them"
            raise TypeMismatch("arguments are tensors", [Problem(f"'{n}' is a sequence", hint=hint) for n in wrong])
        whole = [self._function] if is_module(self._function) else []
        owners = {id(v): v for v in (*whole, *fixed_values(arguments.structures))}
        self._calls.clear()
        self._forget_what_varied()
        self._varied = self._varied or any(getattr(v, "training", False) for v in owners.values())
        try:
            traced = trace_call(self._function, arguments, opens=self._varied)
        except Assigned:  # what changes is an input
            self._varied = True
            traced = trace_call(self._function, arguments, opens=True)
        where = self._where(devices, traced.tracer.parameters)
        if registry.entry(where.kind).size_hints:
            traced.program.size_hints |= self._size_hints
        made = executable_of(traced, Options(device=where, budget=self._budget), self._donate)
        function = CompiledFunction(made, arguments, traced.results)
        # what the function itself changes while it is traced is no reason to trace it again
        return _Program.of(function, traced, Captured({**owners, **traced.tracer.modules}.values()))

    def _forget_what_varied(self) -> None:
        """Lets programs go that hold elements which parameters no longer have."""
        for key, programs in list(self.programs.items()):
            kept = [p for p in programs if p.opened or p.takes_parameters()]
            self._varied = self._varied or len(kept) < len(programs)
            self.programs[key] = kept

    def _keep(self, key: Hashable, program: _Program) -> None:
        self.programs.setdefault(key, []).insert(0, program)
        self.programs.move_to_end(key)
        while sum(map(len, self.programs.values())) > KEPT:
            oldest = next(iter(self.programs))
            self.programs[oldest].pop()
            if not self.programs[oldest]:
                del self.programs[oldest]

    def __repr__(self) -> str:
        return f"<burn.jit of {name_of(self._function)}, {sum(map(len, self.programs.values()))} programs>"

    def _repr_html_(self) -> str:
        """For notebooks: the compiled programs, the last one first."""
        made = [p.function.executable for found in reversed(self.programs.values()) for p in found]
        parts = [markup.text(markup.Markup(e._repr_html_())) for e in made]
        return markup.details(repr(self), *parts, opened=True)

    def __reduce__(self) -> str:
        """Pickled by its name, as functions are. Raises PicklingError where its module has something else under the name."""
        module, name = self.__module__, self.__qualname__  # type: ignore[attr-defined]
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not self:
            raise pickle.PicklingError(f"a jitted function is pickled by its name, and {module}.{name} is not this one")
        return name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _device_of(leaf: Any) -> Device | None:
    """The device of an argument; None for arrays in host memory and for tensors on the CPU."""
    if not isinstance(leaf, Tensor):
        return gpu_of(leaf)
    name = leaf.device
    return None if name == CPU.kind else as_device(name)


def difference(signatures: Mapping[Any, None], key: Any) -> Reason:
    """Why there is no program for a signature: how it differs from the one that was compiled last."""
    if not signatures:
        return Reason("the first call")
    if key in signatures:
        return Reason("a parameter, an attribute of a module or the device differs")
    names, structures, types_, checks = key
    old_names, old_structures, old_types, old_checks = list[Any](signatures)[-1]
    if names != old_names:
        return Reason("other arguments were passed", ", ".join(names))
    known = dict(old_types)
    for name, type_ in types_:
        before = known.get(name)
        if before is not None and before != type_:
            what = "element type" if before.dtype != type_.dtype else "shape"
            return Reason(f"the {what} of '{name}' differs", f"{type_}, not {before}")
    for name, structure, before in zip(names, structures, old_structures, strict=True):
        if structure != before:
            value = f"{structure.value!r}"[:60] if isinstance(structure, trees.Fixed) else "another container"
            return Reason(f"the value of '{name}' differs, which is static", value)
    return Reason("burn.debug.nans was switched") if checks != old_checks else Reason("another signature")


def fixed_values(structures: Sequence[trees.Structure]) -> Iterator[Any]:
    """The non-tensor values in a call's arguments."""
    for structure in structures:
        if isinstance(structure, trees.Fixed):
            yield structure.value
        elif isinstance(structure, trees.Node):
            yield from fixed_values(structure.children)


def jit(
    function: Callable[..., Any] | None = None,
    *,
    dynamic: Dynamic | None = None,
    static: str | Collection[str] = (),
    donate: Sequence[int | str] = (),
    device: str | Device | None = None,
) -> Any:
    """Compiles a function at its first call with each signature.

    A signature holds the element types and shapes of the arrays and tensors in the arguments, also inside lists, tuples,
    dictionaries and dataclasses. Python numbers are float32 and int64 scalars. Everything else (bools, strings, None, modules) is
    part of the signature by value, and the function receives it unchanged.

    numpy arrays in, numpy arrays out; tensors in, tensors out. `dynamic`: as for `compile`; sizes named there are not in the
    signature. `static`: names of arguments that the function receives unchanged, including numbers. Each value needs a hash
    and is a signature of its own. `donate`: as for `compile`. `device`: where the function runs; by default the GPU of an
    argument or a parameter, else the CPU. Inside another traced function the call becomes part of that trace.

    Parameters and buffers of modules have their current values at each call. Their first change makes them inputs of one more
    program, which serves all later calls; in training they are inputs from the start. A parameter that the function assigns to
    (`p.assign(tensor)`) has its new elements after each call. They reuse the old memory unless something else refers to it.
    Changes of other state in modules that the function calls, and of attributes of objects among its arguments (`self`
    included), compile another program. Global numbers and tensors keep the value from when the program was compiled.
    A JAX function (jitted, transformed, a module, `burn.from_jax(f)`) takes and returns JAX's arrays; its parameters are
    constants. Raises TypeMismatch for a PyTorch module."""
    if function is not None and is_torch(function):
        raise TypeMismatch(
            "burn.jit is for functions of burn's tensors", ["compile a PyTorch module with burn.compile"]
        )
    names, where = (
        (static,) if isinstance(static, str) else tuple(static),
        None if device is None else as_device(device),
    )
    if function is None:
        return functools.partial(jit, dynamic=dynamic, static=names, donate=donate, device=where)
    if is_jax(function):
        if names:
            raise TypeMismatch("a JAX function says itself what is static", ["jax.jit(f, static_argnames=...)"])
        from burn.adapters import jax

        return jax.JaxJit(jax.as_function(function), dynamic, donate, Options(device=where or CPU))
    return Jit(function, dynamic, names, donate, device=where)
