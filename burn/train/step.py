"""The training step: forward, backward, clipping, update, running statistics and random numbers in one native call."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from burn.dialect.spec import spec
from burn.dialect.types import numpy_dtype
from burn.distributed.communication import Communication
from burn.distributed.mesh import Mesh
from burn.distributed.partition import Partition
from burn.distributed.program import MeshJit
from burn.errors import Problem, TypeMismatch
from burn.jitted import Jit
from burn.nn.module import Module
from burn.nn.parameter import Buffer
from burn.optim import LBFGS, Optimizer, clip_by_norm, clip_by_value
from burn.runtime.cache import parse_size
from burn.runtime.device import Device
from burn.runtime.device import device as as_device
from burn.runtime.executable import Executable
from burn.tensors import Tensor, constant, trees
from burn.tensors.base import made
from burn.tensors.concatenation import where
from burn.tensors.gradients import Gradients, value_and_grad
from burn.tensors.no_gradient import no_gradient
from burn.tensors.tracer import active
from burn.tracing.arguments import bound
from burn.train import states
from burn.train.accumulate import WHOLE, Split, in_parts
from burn.train.precision import FULL, LossScale, checked, narrowed, rounded
from burn.train.several import Several

Loss = Callable[..., Any]
"""loss(model, *batch) returns a float scalar; with `has_aux` a pair of it and any other result."""

BATCH = "batch"
"""Name of the common first size of a batch's tensors in the compiled step."""


class Step:
    """Called with a batch, moves the model's parameters and returns the loss. `compiled` is the jitted function behind it, from
    the first call on."""

    def __init__(
        self,
        model: Module,
        loss: Loss,
        optimizer: Optimizer,
        has_aux: bool = False,
        norm: float = 0.0,
        value: float = 0.0,
        parts: int = 1,
        precision: str = FULL,
        memory: int | None = None,
        mesh: Mesh | None = None,
    ) -> None:
        if isinstance(loss, Module):
            hint = f"lambda model, x, y: nn.{type(loss).__name__}()(model(x), y); a burn.train.Learner takes the layer itself"
            problem = Problem(f"a {type(loss).__name__} is a layer of predictions and targets", hint=hint)
            raise TypeMismatch("a step's loss is a function of the model and a batch", [problem])
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.has_aux, self._norm, self._value, self._parts = has_aux, norm, value, parts
        self._precision, self.memory = checked(precision), memory
        self.scale = LossScale() if self._precision == "float16" else None
        self.signature = inspect.Signature(list(inspect.signature(loss).parameters.values())[1:])
        self.compiled: Jit | None = None
        self._compiled: dict[Split, Jit] = {}
        changed = parts > 1 or norm or value or self._precision != FULL
        if isinstance(optimizer, LBFGS) and changed:
            raise TypeMismatch("LBFGS takes gradients as they are", ["without clipping, accumulate and precision"])
        if not isinstance(optimizer, Optimizer):
            hint = "write optim.AdamW(model, lr=1e-3)"
            given = f"not a {type(optimizer).__name__}"
            raise TypeMismatch("a step takes an optimizer of burn.optim", [Problem(given, hint=hint)])
        own = {id(p) for p in model.parameters()}
        strangers = [Problem(f"'{path}'") for path, p in optimizer.parameters.items() if id(p) not in own]
        if strangers:
            raise TypeMismatch("the optimizer moves parameters that are not the model's", strangers)
        self._several: Several | None = None
        self.mesh = mesh
        if mesh is not None:
            Partition.of(mesh, model, (optimizer,))  # finds sizes that do not divide

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The loss, of the parameters as they were before. Batches of other sizes are no other program: the first axis of every
        tensor may have another size at the next call, the same in all. A step that fails (a label out of range) leaves
        parameters and the optimizer's state as they were; running statistics may have moved. Raises InputError, RunError and
        TypeMismatch."""
        compiled = self._jit(args, kwargs)
        several = isinstance(self.optimizer, LBFGS)
        return self._evaluating(compiled, args, kwargs) if several else compiled(*args, **kwargs)

    def _jit(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Jit:
        """The jitted function for batches that are taken in as many parts as this one."""
        split = WHOLE if self._parts == 1 else Split.of(args, kwargs, self._parts)
        if split not in self._compiled:
            name = getattr(self.loss, "__name__", "step")
            function = self._evaluated if isinstance(self.optimizer, LBFGS) else partial(self._moved, split)
            batch = bound(self.signature, args, kwargs, name)
            partition = None if self.mesh is None else Partition.of(self.mesh, self.model, (self.optimizer,))
            made = of_batches(function, self.signature, name, batch, self.memory, partition)
            self._compiled[split] = made
            self.compiled = self.compiled or made
        return self._compiled[split]

    def communication(self, *args: Any, **kwargs: Any) -> Communication:
        """The collectives of a step on a mesh, in bytes. args, kwargs: a batch, as arrays or types ("float32[64, 8]"), for which
        the step is compiled and not run, so the devices may be simulated ones. Without them: of the last step. Raises
        TypeMismatch without a mesh, and before the first call."""
        if self.mesh is None:
            raise TypeMismatch("a step on one device does not communicate", ["burn.train.step(..., mesh=)"])
        args, kwargs = described_batch(args, kwargs)
        jitted = self._jit(args, kwargs) if args or kwargs else self.compiled
        if not isinstance(jitted, MeshJit):
            raise TypeMismatch("nothing is compiled yet", ["give a batch, or its types: 'float32[64, 8]'"])
        return jitted.communication(*args, **kwargs)

    @property
    def programs(self) -> int:
        """How many programs it was compiled to."""
        own = sum(len(found) for jit in self._compiled.values() for found in jit.programs.values())
        return own + (0 if self._several is None else self._several.programs)

    def parts(self, args: Any, kwargs: Any) -> int:
        """How many parts a batch is taken in."""
        return Split.of(args, kwargs, self._parts).parts

    def _evaluating(self, compiled: Jit, args: Any, kwargs: Any) -> Any:
        """A step of an optimizer that evaluates the loss several times: each evaluation is one native call."""
        extras: list[Any] = []

        def closure() -> tuple[Any, Gradients]:
            loss, extra, gradients = compiled(*args, **kwargs)
            extras.append(extra)
            return loss, gradients

        assert isinstance(self.optimizer, LBFGS)
        loss = self.optimizer.step(closure)
        return (loss, extras[0]) if self.has_aux else loss

    @property
    def executable(self) -> Executable:
        """The compiled step: `burn.explain(step)` lists its kernels. Raises TypeMismatch before the first call, and on a mesh,
        whose kernels are XLA's."""
        if self.mesh is not None:
            raise TypeMismatch("a step on a mesh has no executable of burn's", ["see Step.communication"])
        if self.compiled is None:
            raise TypeMismatch("nothing is compiled yet", ["the step was never called"])
        return self.compiled.executable

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """One step, not compiled as a whole: what a function of one's own may call (`burn.jit`)."""
        return self._moved(Split.of(args, kwargs, self._parts), *args, **kwargs)

    def _moved(self, split: Split, *args: Any, **kwargs: Any) -> Any:
        if (tracer := active()) is not None:
            tracer.saw(self.model)
        statistics = [(buffer, made(buffer.value)) for _, buffer in self.model.named_buffers()]
        if split.parts > 1:
            moved = self.optimizer.parameters
            found = in_parts(self._gradients, self._forward, split, self.model, moved, args, kwargs)
        else:
            found = self._gradients(*args, **kwargs)
        loss, extra, gradients = found
        finite = self._move(gradients)
        if self.scale is not None:
            for buffer, before in statistics:
                if buffer.value is not before.value:
                    buffer.assign(where(finite, buffer * 1, before))
        return (loss, extra) if self.has_aux else loss

    def _move(self, gradients: Gradients) -> Tensor:
        """Clips gradients and updates the parameters; false, a bool scalar, if float16's gradients overflowed."""
        moving: Mapping[str, Tensor] = gradients.used
        finite = None if self.scale is None else self.scale.finite(moving)
        if self._value:
            moving = clip_by_value(moving, self._value)
        if self._norm:
            moving = clip_by_norm(moving, self._norm)
        self.optimizer.update(moving, only_if=finite)
        if finite is None or self.scale is None:
            return constant(True)
        self.scale.update(finite)
        return finite

    def over(self, batches: Sequence[Any]) -> Any:
        """One step over several batches, which may differ in all sizes: gradients are accumulated, and one update follows.

        batches: tuples of the loss function's arguments behind the model, or dictionaries. The loss and the gradients equal those
        of one batch with all rows, also with ignored targets, as with `accumulate`. With `has_aux` the second result is a list.
        Batches without rows are left out, unless none has any. Batches with the same sizes behind the first axis share programs.
        Raises TypeMismatch with `accumulate`, on a mesh and with LBFGS."""
        problems = [f"accumulate is {self._parts}: batches are parts already"] if self._parts > 1 else []
        problems += ["mesh: gradients between batches are on one device"] if self.mesh is not None else []
        problems += ["LBFGS evaluates the loss itself"] if isinstance(self.optimizer, LBFGS) else []
        if problems:
            raise TypeMismatch("this step takes one batch at a time", problems)
        if self._several is None:
            self._several = Several(self)
        pairs = [((), dict(b)) if isinstance(b, Mapping) else (tuple(b), {}) for b in batches]
        loss, extras = self._several(pairs)
        return (loss, extras) if self.has_aux else loss

    def _of_batches(self, function: Callable[..., Any], batch: Mapping[str, Any]) -> Jit:
        """A function of a batch as a program for every batch size."""
        return of_batches(function, self.signature, getattr(self.loss, "__name__", "step"), batch, self.memory)

    def _gradients(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Any, Gradients]:
        """The loss, the loss function's other result, and the gradients of the optimizer's parameters by path."""
        factor = None if self.scale is None else self.scale.factor
        moved = self.optimizer.parameters
        own = {id(p): path for path, p in moved.items()}
        paths = {path: own[id(p)] for path, p in self.model.named_parameters(buffers=False) if id(p) in own}

        def scaled(model: Module, args: Any, kwargs: Any) -> Any:
            loss, extra = self._loss_of(args, kwargs)
            return loss if factor is None else loss * factor, (loss, extra)

        if self._precision != FULL:
            args, kwargs = narrowed((args, kwargs), self._precision)
        with rounded(self.model, self._precision):
            (_, (loss, extra)), found = value_and_grad(scaled, has_aux=True)(self.model, args, kwargs)
        if paths and found.unused.issuperset(paths):
            raise no_gradient(loss.value, list(paths))
        gradients = {own: found[path].astype(moved[own].dtype) for path, own in paths.items()}
        if factor is not None:
            gradients = {path: g * (1.0 / factor) for path, g in gradients.items()}
        return loss, extra, Gradients(gradients, [paths[path] for path in found.unused if path in paths])

    def _evaluated(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Any, dict[str, Tensor]]:
        loss, extra, gradients = self._gradients(*args, **kwargs)
        return loss, extra, dict(gradients)

    def _loss_of(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        result = self.loss(self.model, *args, **kwargs)
        loss, extra = result if self.has_aux else (result, None)
        return loss.astype(FULL) if self._precision != FULL and isinstance(loss, Tensor) else loss, extra

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        """The loss alone, as the model computes it in the step."""
        if self._precision != FULL:
            args, kwargs = narrowed((args, kwargs), self._precision)
        with rounded(self.model, self._precision):
            return self._loss_of(args, kwargs)[0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint: the model, the optimizer, the step's own buffers, and the position of burn's random numbers.
        `Learner.fit(resume=path)` and compiled training binaries also read it. Raises ModelError if it cannot be written."""
        states.save(self, path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Restores the state of a checkpoint: of `save`, of a `Learner`, or of a compiled training binary; also which parameters
        are frozen. The next steps have the bits of the steps that would have followed there. Raises ModelError, and then
        changes nothing."""
        states.load(self, path)

    def named_buffers(self) -> dict[str, Buffer]:
        """The step's own buffers: float16's loss scale."""
        return {} if self.scale is None else {"scale": self.scale.factor, "good": self.scale.good}


def of_batches(
    function: Callable[..., Any],
    signature: inspect.Signature,
    name: str,
    batch: Mapping[str, Any],
    memory: int | None = None,
    partition: Partition | None = None,
    whole_rest: bool = False,
) -> Jit:
    """A function of batches as one program for every batch size: the first axes of all tensors are one size with a name.
    Parameters are inputs. batch: the arguments of the first call, by name; memory: bytes that results may take meanwhile, with
    a batch as large as that one. partition: the program runs on its mesh, which divides batches; whole_rest: see `MeshJit`."""

    def whole(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    whole.__signature__ = signature  # type: ignore[attr-defined]
    whole.__name__ = name
    leaves = {name: trees.flatten(value)[0] for name, value in batch.items()}
    shared = {name: {0: BATCH} for name, found in leaves.items() if found and all(_has_axes(v) for v in found)}
    if partition is not None:
        return MeshJit(whole, shared, partition, BATCH, whole_rest)
    sizes = {v.shape[0] for name in shared for v in leaves[name]}
    at = f" at={BATCH}:{max(sizes)}" if sizes else ""
    budget = "" if memory is None else f"memory={memory}{at}"
    return Jit(whole, shared, (), opens=True, budget=budget, size_hints={BATCH: max(sizes)} if sizes else {})


def _has_axes(leaf: Any) -> bool:
    return trees.is_array(leaf) and len(getattr(leaf, "shape", ())) > 0


def described_batch(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A batch whose types as text ("float32[64, 8]") are arrays that take no memory."""

    def array(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        type_ = spec(value)
        sizes = [size for size in type_.shape if isinstance(size, int)]
        if len(sizes) != type_.rank:
            raise TypeMismatch("a batch on a mesh has sizes that are numbers", [value])
        return np.broadcast_to(np.zeros((), numpy_dtype(type_.dtype)), tuple(sizes))

    return tuple(map(array, args)), {name: array(value) for name, value in kwargs.items()}


def move_to(model: Module, optimizers: Iterable[Optimizer], device: str | Device) -> None:
    """Moves parameters and optimizers' states to a device. Raises DeviceError for a device that does not exist."""
    where = as_device(device)
    model.to(where)
    for optimizer in optimizers:
        for buffer in optimizer.named_buffers().values():
            buffer.move(where)


def step(
    model: Module,
    loss: Loss,
    optimizer: Optimizer,
    *,
    has_aux: bool = False,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    accumulate: int = 1,
    precision: str = FULL,
    memory: int | str | None = None,
    device: str | Device | None = None,
    mesh: Mesh | None = None,
) -> Step:
    """The training step of a model as one compiled program. Puts the model into training mode.

    - `loss`: loss(model, *batch) -> a float scalar; with `has_aux` a pair of it and any other result, which each step returns.
    - `clip_value`, `clip_norm`: bounds on the gradients' elements, and then on their norm.
    - `accumulate`: number of parts of a batch, processed in sequence with the memory of one. Loss and gradients equal those of
      the whole batch, also with ignored targets, if the loss consists of loss layers (`burn.nn`) and means over rows. A sum over
      rows outside of a loss layer becomes a mean over parts. If the rows are not divisible, some parts have one row more; a
      batch with fewer rows is processed row by row. The results of `has_aux` get a first axis of parts.
    - `precision`: "bfloat16" or "float16" (or "bf16", "fp16"): the model computes with parameters and batches rounded to this
      type. Parameters, losses and the optimizer stay float32. float16 gradients are scaled, and a step that overflows changes no
      parameter.
    - `memory`: maximum bytes ("200 MB") of intermediate results, without parameters, the optimizer's state and the batch. Results
      that do not fit are recomputed in the backward pass. Counted for batches of the first batch's size.
    - `device`: moves the model's parameters and the optimizer's state to this device; the step runs on their device.
    - `mesh`: runs the step on all devices of a `burn.Mesh`, which divide the batch, and by its rules parameters and state. These
      stay on the devices between steps. The loss and the other results are whole in every process. Results equal those of one
      device up to the order of sums; random numbers are the same. Not with `device`, `memory` and LBFGS.

    Frozen parameters, and those that the loss does not depend on, do not change, not even by weight decay. A computed gradient of
    zero does count.

    Raises TypeMismatch for an optimizer of another model, for limits or numbers of parts that are not positive, and for an
    unknown precision. The first call raises CompileError if the memory is not enough, and TypeMismatch if the loss depends on
    none of the parameters that the optimizer moves."""
    for name, limit in {"clip_norm": clip_norm, "clip_value": clip_value}.items():
        if limit is not None and not (isinstance(limit, (int, float)) and limit > 0):
            raise TypeMismatch("a limit for gradients is more than 0", [f"{name} is {limit!r:.80}"])
    if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
        raise TypeMismatch("a batch is taken in at least one part", [f"accumulate is {accumulate!r:.80}"])
    if mesh is not None:
        check_mesh(mesh, (optimizer,), {"device": device, "memory": memory})
    if device is not None:
        move_to(model, (optimizer,), device)
    clipped = (clip_norm or 0.0, clip_value or 0.0)
    limit = limit_of(memory, accumulate)
    return Step(model.train(), loss, optimizer, has_aux, *clipped, accumulate, precision, limit, mesh)


def check_mesh(mesh: Mesh, optimizers: Iterable[Any], options: Mapping[str, Any]) -> None:
    """Raises TypeMismatch for what a step on a mesh does not support."""
    problems = [] if isinstance(mesh, Mesh) else [Problem(f"mesh is {mesh!r}", hint='burn.Mesh({"data": 4})')]
    problems += [Problem("it decides on one device", attribute=n) for n, value in options.items() if value is not None]
    if any(isinstance(optimizer, LBFGS) for optimizer in optimizers):
        problems.append(Problem("LBFGS evaluates the loss several times a step", hint="use another optimizer"))
    if problems:
        raise TypeMismatch("a step on a mesh does not take these options", problems)


def limit_of(memory: int | str | None, accumulate: int) -> int | None:
    """Bytes. Raises BurnError for what is no size, and TypeMismatch where a batch is taken in parts."""
    if memory is None:
        return None
    if accumulate > 1:
        raise TypeMismatch("memory has a limit for a batch that is taken whole", [f"accumulate is {accumulate}"])
    return parse_size(str(memory), "memory")
