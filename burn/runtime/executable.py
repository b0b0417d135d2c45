"""A compiled program ready to run: `y = executable(x)`.

The usual call, all inputs by position as contiguous numpy arrays of the right types and sizes, is one native call that
checks and runs. Only when that finds something amiss are the inputs looked at here, one by one: to convert what can be
converted and to report, in one error, all that cannot.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import burn.markup as markup
from burn.errors import (
    DistributedError,
    DivisionRunError,
    IndexRunError,
    InputError,
    MemoryBudgetError,
    MemoryRunError,
    Problem,
    RunCancelled,
    RunError,
    TimeBudgetError,
)
from burn.runtime import _native, debugging, images, sizes, torch_tensors
from burn.runtime.abi import MESSAGES, Status
from burn.runtime.arrays import Unfit, as_dicts, as_given, contained, like, to_numpy
from burn.runtime.artefact import Artefact, ValueSpec
from burn.runtime.budget import Limits
from burn.runtime.device import Device, device_of
from burn.runtime.device_array import DeviceArray, resident
from burn.runtime.package import COMPILED
from burn.runtime.random import Generator, Source, process

if TYPE_CHECKING:
    from burn.runtime.profile import Profile

_KINDS = {
    1: MemoryRunError,
    2: IndexRunError,
    5: DivisionRunError,
    Status.CANCELLED: RunCancelled,
    Status.COLLECTIVE_FAILED: DistributedError,
}
"""Statuses whose errors are also Python's own exception types."""


def run_failure(code: Any, site: str, value: int, what: str, reason: str = "") -> RunError:
    """The error of a run that ended with a status at a source node. reason: of the device's driver."""
    if reason:
        return _KINDS.get(code, RunError)(what, [Problem(reason, node=site)])
    text = MESSAGES.get(code, f"error {code} with value {{value}}")
    if code == Status.COLLECTIVE_FAILED:
        text = _native.communicator_error().replace("{", "{{").replace("}", "}}") or text
    problem = Problem(text.format(value=value, site=site), node="" if "{site}" in text else site)
    return _KINDS.get(code, RunError)(what, [problem])


_native.set_image_decoder(images.decode)
_native.set_debug_host(debugging.called)
_native.set_reported_error(
    lambda code, site, value: run_failure(code, site, value, "a program failed on the GPU, in this call or one before")
)


LOST = 1001
"""The driver's code of a lost device: see native/driver_wgpu.h."""


class Executable:
    """Callable from any number of threads at once."""

    def __init__(self, artefact: Artefact, donate: Collection[str] = (), device: Device | None = None) -> None:
        """donate: inputs that every call donates, as `run` donates the named ones. device: the GPU of a GPU program; default: the
        first of its kind. Raises RunError if this machine cannot run the artefact's code."""
        self.artefact = artefact = artefact.resolved()
        self.device = device or device_of(artefact.target)
        signature, loader = artefact.signature, self.device.loader
        problems = loader.cannot_run(artefact.target, self.device)
        if problems:
            raise RunError("this program cannot run here", problems)
        try:
            self._program = loader.load(artefact, self.device)
        except ValueError as error:
            raise RunError("this program cannot be loaded", [Problem(str(error))]) from error
        self._limits = Limits()
        self._run: Callable[..., Any] = self._program.run
        self._keys = {index: spec.keys for index, spec in enumerate(signature.outputs) if spec.keys}
        self._draws = signature.random_state
        is_plain = not any("optional" in spec.containers for spec in signature.inputs)
        self._is_plain = isinstance(self._program, _native.Program) and is_plain
        self._call = self._program.call if isinstance(self._program, _native.Program) and is_plain else None
        self._is_direct = not (self._draws or donate or self._keys)
        self._direct = self._call if self._is_direct else None
        self._gives_tensors = not self.device.memory.is_host and torch_tensors.can_give(signature.outputs)
        self._names = [spec.name for spec in signature.inputs]
        self._output_names = [spec.name for spec in signature.outputs]
        self._donate = tuple(donate)
        self._donated = [index for index, name in enumerate(self._names) if name in donate] or None
        self._random: Source = process.draw

    @property
    def inputs(self) -> tuple[ValueSpec, ...]:
        return self.artefact.signature.inputs

    @property
    def outputs(self) -> tuple[ValueSpec, ...]:
        return self.artefact.signature.outputs

    @property
    def arena_bytes(self) -> int:
        """Bytes that intermediate results have needed in runs so far: 0 before the first, and after `release_memory`. Inputs and
        outputs are the caller's."""
        return self._program.arena_bytes()

    def release_memory(self) -> None:
        """Frees the memory of intermediate results, which runs leave for the next ones. The next run allocates it again."""
        if isinstance(self._program, _native.Program):
            self._program.release_memory()

    def limit(self, *, max_memory: int | str | None = None, max_seconds: float | None = None) -> None:
        """Limits every run from now on: bytes (or "2GB") of intermediate results and outputs, and seconds; None: no limit.

        A run that would take more raises MemoryBudgetError or TimeBudgetError, which are BudgetExceeded. Time is looked at
        between kernels and inside of long ones, on a GPU between kernels. Raises TypeMismatch for what is no size or no time."""
        self.limit_to(Limits.of(max_memory, max_seconds))

    def limit_to(self, limits: Limits) -> None:
        """See `limit`."""
        self._limits = limits
        limited = functools.partial(functools.partial, seconds=limits.seconds, bytes=limits.bytes)
        run = self._program.run
        self._run = limited(run) if limits else run
        if self._is_plain:
            assert isinstance(self._program, _native.Program)
            self._call = limited(self._program.call) if limits else self._program.call
            self._direct = self._call if self._is_direct else None

    def cancel(self) -> None:
        """Ends the runs that are under way, in whatever threads: they raise RunCancelled. May be called from any thread."""
        self._program.cancel()

    def seed(self, seed: int) -> None:
        """Makes the random numbers of the calls that follow the same each time this seed (0 to 2**64 - 1) is given.

        Before, they follow the process's generator, which `burn.manual_seed` sets."""
        self._random = Generator(seed).draw

    def draw_from(self, source: Source) -> None:
        """Takes the random state of the calls that follow from `source`."""
        self._random = source

    def __call__(self, *arrays: Any, **by_name: Any) -> Any:
        """The output, or a tuple of several.

        Inputs are given by position, by name, or both. They are numpy arrays of the declared element types, DLPack tensors, or
        Python numbers and lists that the element type holds exactly. For DLPack tensors the outputs are DLPack arrays, for torch
        tensors torch tensors. A GPU program uses inputs in GPU memory without a copy, and then leaves its outputs there. It
        copies inputs in host memory to the GPU; if all are in host memory, it copies the outputs back. Raises InputError, which
        names every input that does not fit, and RunError.
        """
        if self._direct is not None:
            try:
                outputs = self._direct(arrays, by_name)
            except _native.InputMismatch:
                outputs = None
            except _native.RunFailure as failure:
                raise self._run_error(failure) from None
            else:
                return outputs[0] if len(outputs) == 1 else tuple(outputs)
        state = self._state()
        outputs = None if self._direct is not None else self._called(arrays, by_name, state, self._donated)
        if outputs is None and self._gives_tensors and not by_name and not state:
            outputs = self._from_torch(arrays)
        if outputs is None:
            call = self._prepare(arrays, by_name, self._donate)
            outputs = self._formed(self._execute(call.arrays, call.donated, state), call.given)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _called(
        self,
        arrays: tuple[Any, ...],
        by_name: Mapping[str, Any],
        state: Sequence[np.ndarray],
        donated: Sequence[int] | None = None,
        keep: bool | None = None,
    ) -> list[Any] | None:
        """The outputs by one native call, in the form of the inputs; None if some inputs need conversion, or do not fit."""
        if self._call is None or type(by_name) is not dict:
            return None
        try:
            if state or donated or keep is not None:
                outputs = self._call(arrays, by_name, state[0] if state else None, donated, keep)
            else:
                outputs = self._call(arrays, by_name)
        except _native.InputMismatch:
            return None
        except _native.RunFailure as failure:
            raise self._run_error(failure) from None
        for index, keys in self._keys.items():
            outputs[index] = as_dicts(outputs[index], keys)
        return outputs

    def _from_torch(self, tensors: Sequence[Any]) -> list[Any] | None:
        """The outputs as torch tensors, for torch tensors on the program's GPU; None for other inputs, or inputs that do not
        fit."""
        arrays = torch_tensors.as_arrays(tensors, self.device)
        if arrays is None:
            return None
        try:
            outputs = self._run(arrays, self._donated)
        except _native.InputMismatch:
            return None
        except _native.RunFailure as failure:
            raise self._run_error(failure) from None
        return torch_tensors.as_tensors(outputs, self.device)

    def run_giving(self, arrays: Sequence[Any], given_up: Sequence[int]) -> list[Any]:
        """All outputs as numpy or GPU arrays, for inputs by position. The inputs numbered in `given_up` are donated in this call,
        besides those that every call donates. Raises InputError and RunError."""
        donated = [*(self._donated or ()), *given_up]
        state = self._state()  # drawn once, for any kind of arrays
        try:
            return self._run([*arrays, *state], donated or None)
        except _native.InputMismatch:
            call = self._prepare(arrays, {}, [self._names[i] for i in donated])
            return self._execute(call.arrays, call.donated, state)
        except _native.RunFailure as failure:
            raise self._run_error(failure) from None

    def run_keeping(self, arrays: Sequence[Any]) -> list[Any]:
        """All outputs in the memory of the program's device, for inputs by position. Raises RunError."""
        return self._execute(list(arrays), keep=True)

    def random_state(self) -> np.ndarray | None:
        """The random state of the next call, uint64[2]; None if the program draws no numbers."""
        return next(iter(self._state()), None)

    def traced(
        self, shapes: Sequence[Sequence[int]], from_host: Sequence[bool], into: Sequence[int] = ()
    ) -> _native.Traced | None:
        """The GPU work of calls with inputs of these shapes, for a caller with its own memory and stream.

        from_host: for each input, True if its elements are in host memory at each submission. The random state is one more such
        input, the last. into: for each output, the input whose memory it is written to, or -1. None if the host takes part in
        runs. Raises InputError for shapes that do not fit, and RunError."""
        if not isinstance(self._program, _native.Program):
            return None
        draws = self.artefact.signature.random_state
        into = list(into) or [-1] * len(self.outputs)
        try:
            return self._program.trace([*shapes, *[(2,)] * draws], [*from_host, *[True] * draws], into)
        except _native.InputMismatch as mismatch:
            raise InputError("the inputs do not fit the program", [Problem(f"wrong {mismatch}")]) from None
        except _native.RunFailure as failure:
            raise self._run_error(failure) from None

    def run(
        self, inputs: Mapping[str, Any], *, donate: Collection[str] = (), keep: bool | None = None
    ) -> dict[str, Any]:
        """Outputs by name. Outputs may overwrite the inputs named in `donate`, so their
        contents are undefined afterwards. keep: leaves the outputs of a program on a GPU there (True) or copies them to the host
        (False); by default they stay if an input is on the GPU."""
        if not isinstance(inputs, Mapping):
            hint = "call the program itself to give them by position"
            raise InputError(
                "run takes a mapping of inputs by name", [Problem(f"not a {type(inputs).__name__}", hint=hint)]
            )
        state = self._state()
        outputs = None if donate else self._called((), inputs, state, None, keep)
        if outputs is None:
            call = self._prepare((), inputs, donate)
            outputs = self._formed(self._execute(call.arrays, call.donated, state, keep), call.given)
        return dict(zip(self._output_names, outputs, strict=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the compiled program to a file, whole or not at all, which `burn.load` runs without compiling: on a machine
        with the same CPU features. The file's name ends in .burn."""
        if Path(path).suffix != COMPILED:
            raise InputError(f"{path} is no name for a compiled program", [f"it ends in {COMPILED}"])
        self.artefact.save(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """In a pickle or a copy lies the compiled program; its random numbers start anew."""
        self.artefact.check_portable()
        return Executable, (self.artefact, (), self.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Executable:
        return Executable(self.artefact, (), self.device)

    def profile(self, *arrays: Any, repeat: int = 1, **by_name: Any) -> Profile:
        """Runs `repeat` times and returns the time of each kernel: medians, with minimum and maximum.
        `Profile.save_trace` writes a timeline. GPU kernels are timed by the GPU's clock, including some microseconds of
        launching."""
        from burn.runtime.profile import Profile

        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise InputError("repeat is a number of runs from 1 on", [f"not {repeat!r}"])
        call = self._prepare(arrays, by_name)
        runs: list[Sequence[tuple[int, int]]] = []
        seconds: list[float] = []
        events: list[tuple[int, int, int, bool]] = []
        for _ in range(repeat):
            given = [*call.arrays, *self._state()]
            start = time.perf_counter()
            try:
                _, rows, events = self._run(given, profile=True)
            except _native.RunFailure as failure:
                raise self._run_error(failure) from None
            seconds.append(time.perf_counter() - start)
            runs.append(rows)
        return Profile.of(self.artefact.kernels, runs, seconds, call.symbols, events)

    def __repr__(self) -> str:
        def show(specs: Sequence[ValueSpec]) -> str:
            return ", ".join(f"{s.name}: {s.type_text}" for s in specs)

        return f"Executable({show(self.inputs)} -> {show(self.outputs)})"

    def _repr_html_(self) -> str:
        """For notebooks: inputs, outputs and kernels."""
        sides = (("input", self.inputs), ("output", self.outputs))
        rows = [(side, s.name, markup.code(s.type_text)) for side, specs in sides for s in specs]
        kernels = self.artefact.kernels
        listed = [(k.kind, markup.code(k.name), ", ".join(k.sources)) for k in kernels]
        size = sum(constant.bytes for constant in self.artefact.constants)
        head = f"Executable on {self.device}: {len(kernels)} kernels, {size:,} bytes of constants"
        inner = markup.details("kernels", markup.table(("kind", "kernel", "computes"), listed))
        return markup.details(head, markup.table(("", "name", "type"), rows), inner, opened=True)

    def _formed(self, outputs: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """Outputs in the form of the inputs, and as dicts those that have keys."""
        if not self._keys:
            return like(outputs, given)
        tensors = iter(like([o for i, o in enumerate(outputs) if i not in self._keys], given))
        return [as_dicts(o, self._keys[i]) if i in self._keys else next(tensors) for i, o in enumerate(outputs)]

    # ---- running ---------------------------------------------------------------------------------------------------

    def _state(self) -> list[np.ndarray]:
        """The random state of a run: an input more, where the program draws."""
        return [np.array(self._random(), np.uint64)] if self._draws else []

    def _execute(
        self,
        arrays: list[Any],
        donated: list[int] | None = None,
        state: list[np.ndarray] | None = None,
        keep: bool | None = None,
    ) -> list[Any]:
        try:
            return self._run([*arrays, *(self._state() if state is None else state)], donated, keep=keep)
        except _native.RunFailure as failure:
            raise self._run_error(failure) from None
        except _native.InputMismatch as mismatch:  # sizes that the program can tell apart and the signature cannot
            raise InputError("the inputs do not fit the program", [Problem(f"wrong {mismatch}")]) from None

    def _run_error(self, failure: _native.RunFailure) -> RunError | InputError:
        code, site, value, *reason = failure.args
        if code == Status.SHARED_MEMORY:
            problem = Problem(f"input '{self._names[value]}' is donated but shares memory with another input")
            return InputError("the inputs do not fit the program", [problem])
        if code in (Status.TOO_LONG, Status.TOO_LARGE):
            return self._over_budget(code, value)
        if code == Status.DEVICE_FAILED and value == LOST:
            self._run, self._call, self._direct = self._loaded_anew, None, None
        node = self.artefact.sites[site] if 0 <= site < len(self.artefact.sites) else ""
        return run_failure(code, node, value, "the program failed while it ran", *reason)

    def _loaded_anew(self, *args: Any, **options: Any) -> Any:
        """The first run after the device was lost: what the program had there is gone."""
        self._program = self.device.loader.load(self.artefact, self.device)
        self.limit_to(self._limits)
        return self._run(*args, **options)

    def _over_budget(self, code: int, value: int) -> RunError:
        if code == Status.TOO_LONG:
            return TimeBudgetError(
                "the run was ended", [f"it took longer than its limit (max_seconds), {self._limits.seconds:g} s"]
            )
        what = f"it would take {value:,} bytes of memory, and its limit (max_memory) is {self._limits.bytes:,}"
        return MemoryBudgetError("the run was ended", [what])

    # ---- looking at inputs -----------------------------------------------------------------------------------------

    def _prepare(self, positional: Sequence[Any], by_name: Mapping[str, Any], donate: Collection[str] = ()) -> _Call:
        problems: list[Problem] = []
        given = self._match(positional, by_name, problems)
        arrays: dict[str, Any] = {}
        found: list[sizes.Found] = []
        for spec in self.inputs:
            if spec.name not in given:
                continue
            try:
                if spec.containers:
                    arrays[spec.name] = contained(given[spec.name], spec)
                    continue
                array = self._array(as_given(given[spec.name]), spec)
            except Unfit as error:
                problems.append(Problem(f"input '{spec.name}' {error}"))
                continue
            if array.ndim != len(spec.dims):
                dims = ", ".join(map(str, spec.dims))
                problems.append(
                    Problem(
                        f"input '{spec.name}' has shape {list(array.shape)}, must have {len(spec.dims)} axes: [{dims}]"
                    )
                )
                continue
            arrays[spec.name] = array
            for axis, (expression, size) in enumerate(zip(spec.dims, array.shape, strict=True)):
                found.append(sizes.Found(expression, size, f"input '{spec.name}' axis {axis}"))
        symbols, mismatches = sizes.bind(found)
        problems += [Problem(m) for m in mismatches if not (problems and "cannot be found" in m)]
        donated = self._given_up(donate, arrays, problems)
        if problems:
            raise InputError("the inputs do not fit the program", problems)
        ordered = [arrays[name] for name in self._names]
        return _Call(ordered, [given[name] for name in self._names], symbols, donated)

    def _array(self, value: Any, spec: ValueSpec) -> np.ndarray | DeviceArray:
        """An input without a copy, on the program's GPU or in host memory. Raises Unfit."""
        if self.device.memory.is_host or spec.dtype == "string":
            return to_numpy(value, spec.dtype)
        array = resident(value, self.device)
        if array is None:
            return to_numpy(value, spec.dtype)
        if array.dtype != spec.dtype:
            raise Unfit(f"has element type {array.dtype}, must be {spec.dtype}")
        return array

    def _match(self, positional: Sequence[Any], by_name: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
        names = self._names
        if len(positional) > len(names):
            problems.append(Problem(f"{len(positional)} inputs were given by position, there are {len(names)}"))
        given = dict(zip(names, positional, strict=False))
        listing = ", ".join(f"'{name}'" for name in names) or "none"
        for name, value in by_name.items():
            if name in self.artefact.signature.defaults:
                what = f"'{name}' has a default value in the model, which is compiled in"
                problems.append(Problem(what, hint=f"burn.load(..., inputs=[{name!r}]) makes it an input"))
            elif name not in names:
                problems.append(Problem(f"there is no input '{name}'", hint=f"the inputs are {listing}"))
            elif name in given:
                problems.append(Problem(f"input '{name}' was given both by position and by name"))
            else:
                given[name] = value
        problems += [Problem(f"input '{name}' is missing") for name in names if name not in given]
        return given

    def _given_up(
        self, donate: Collection[str], arrays: Mapping[str, Any], problems: list[Problem]
    ) -> list[int] | None:
        """The numbers of donated inputs. That they share no memory with others, the runtime checks."""
        wanted = frozenset(donate)
        for name in wanted:
            array = arrays.get(name)
            if array is None and name not in self._names:
                problems.append(Problem(f"there is no input '{name}' to donate"))
            elif isinstance(array, DeviceArray):
                if not array.is_writable:
                    problems.append(
                        Problem(f"input '{name}' is read-only, or another library's, and cannot be donated")
                    )
            elif array is not None and not isinstance(array, np.ndarray):
                problems.append(Problem(f"input '{name}' is not a tensor and cannot be donated"))
            elif array is not None and not array.flags.writeable:
                problems.append(Problem(f"input '{name}' is read-only and cannot be donated"))
        return [index for index, name in enumerate(self._names) if name in wanted] or None


class _Call(NamedTuple):
    """Inputs that fit, in order."""

    arrays: list[Any]  # an array each, or lists of them
    given: list[Any]
    symbols: dict[str, int]
    donated: list[int] | None
