"""`burn.Mesh`: devices of one or several hosts as a grid with named axes, and how a training divides its tensors over them.

    mesh = burn.Mesh({"data": 4})                                     # data parallel
    mesh = burn.Mesh({"data": 4}, fully_sharded="data")               # parameters and optimizer state divided as well
    mesh = burn.Mesh({"data": 2, "model": 4}, rules=[("query|key|value", ("model",)), ("output.weight", (None, "model"))])

A mesh is a description. It imports no engine until devices are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from burn.distributed.layout import Layout, Rule, checked_rules
from burn.errors import Problem, TypeMismatch, near
from burn.runtime.origins import current_line

if TYPE_CHECKING:
    from burn.distributed.engine import Engine

REST = -1
"""The size of an axis that has all remaining devices."""


@dataclass(frozen=True, init=False)
class Mesh:
    """Devices as a grid.

    - `axes`: names and sizes, in order. The last axis has neighbouring devices. One size may be -1: all devices that the others
      leave.
    - `rules`: layouts of parameters, (pattern, axes). The first pattern that is found in a parameter's path counts; `axes` names
      for each axis of the tensor the mesh axis that divides it, or None. Parameters without a rule are whole on every device.
      An optimizer's state has the layout of its parameter.
    - `batch`: the mesh axes that divide the first axis of a batch; by default the first axis of the mesh.
    - `fully_sharded`: mesh axes along which each parameter and its state are also divided, on the longest axis that they divide
      (FSDP, ZeRO-3). Parameters without such an axis stay whole.
    - `sharded_state`: the same for the optimizer's state alone (ZeRO-1).
    - `devices`: positions among the engine's devices, in the order of the grid; by default the first ones.
    - `device`: "cpu", or "cuda": each process's own GPU, by the number of the process on its host. For the engine "burn".
    - `engine`: what runs the programs. "burn" has burn's own kernels and one process for each device; "xla" needs JAX. None: the
      one that `burn.distributed.initialize` was given; in a process alone "xla" if JAX is installed and `device` is "cpu",
      else "burn".

    Raises TypeMismatch, which lists everything that is wrong."""

    axes: Mapping[str, int]
    rules: Sequence[Rule]
    batch: str | tuple[str, ...]
    fully_sharded: str | tuple[str, ...] | None
    sharded_state: str | tuple[str, ...] | None
    devices: Sequence[int] | None
    engine: str | None
    device: str
    line: str = field(repr=False, compare=False)
    """The line of the user's code that made it, for errors."""

    def __init__(  # by hand: a generated one would count as a line of the user's
        self,
        axes: Mapping[str, int],
        rules: Sequence[Rule] = (),
        batch: str | tuple[str, ...] | None = None,
        fully_sharded: str | tuple[str, ...] | None = None,
        sharded_state: str | tuple[str, ...] | None = None,
        devices: Sequence[int] | None = None,
        engine: str | None = None,
        line: str = "",
        device: str = "cpu",
    ) -> None:
        given = {"axes": axes, "rules": rules, "batch": batch, "devices": devices, "engine": engine, "device": device}
        given |= {
            "fully_sharded": fully_sharded,
            "sharded_state": sharded_state,
            "line": line or str(current_line() or ""),
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)
        problems = list(self._problems())
        if problems:
            raise TypeMismatch("this is no mesh", problems)
        normal = {
            "axes": dict(axes),
            "rules": tuple((pattern, tuple(named)) for pattern, named in rules),
            "batch": next(iter(axes)) if batch is None else batch,
            "devices": None if devices is None else tuple(devices),
        }
        for name, value in normal.items():
            object.__setattr__(self, name, value)

    def _problems(self) -> Iterator[Problem]:
        from burn.distributed.engine import ENGINES

        if not isinstance(self.axes, Mapping) or not self.axes:
            yield Problem(f"its axes are {self.axes!r}", hint='names and sizes: {"data": 4}')
            return
        for name, size in self.axes.items():
            if not isinstance(name, str) or not name.isidentifier():
                yield Problem(f"{name!r} is no name of an axis")
            if type(size) is not int or (size < 1 and size != REST):
                yield Problem(f"the axis {name!r} has size {size!r}", hint="at least 1, or -1: all remaining devices")
        if list(self.axes.values()).count(REST) > 1:
            yield Problem("two axes have size -1")
        yield from checked_rules(self.rules, list(self.axes))
        for option in ("batch", "fully_sharded", "sharded_state"):
            given = getattr(self, option)
            for name in _names(given):
                if name not in self.axes:
                    yield Problem(f"names the mesh axis {name!r}", attribute=option, hint=near(str(name), self.axes))
        if self.devices is not None and (
            len(set(self.devices)) < len(self.devices) or any(type(d) is not int or d < 0 for d in self.devices)
        ):
            yield Problem(f"{list(self.devices)} are not positions of devices", attribute="devices")
        if self.engine is not None and self.engine not in ENGINES:
            yield Problem(
                f"there is no engine {self.engine!r}", attribute="engine", hint=near(str(self.engine), ENGINES)
            )
        if not isinstance(self.device, str) or not self.device:
            yield Problem(f"{self.device!r} is no device", attribute="device", hint='"cpu" or "cuda"')
        elif self.device != "cpu" and self.engine == "xla":
            yield Problem("the engine 'xla' chooses its devices itself", attribute="device")

    # ---- sizes and devices ---------------------------------------------------------------------------------------------
    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis. An axis of size -1 starts the engine. Raises TypeMismatch if its devices do not divide so."""
        if REST not in self.axes.values():
            return dict(self.axes)
        fixed = prod(size for size in self.axes.values() if size != REST)
        count = len(self.devices) if self.devices is not None else self.started.device_count()
        if count % fixed:
            raise TypeMismatch(
                f"the mesh does not fit the devices{self.where}", [f"there are {count}, no multiple of {fixed}"]
            )
        return {name: count // fixed if size == REST else size for name, size in self.axes.items()}

    @property
    def size(self) -> int:
        """Number of devices."""
        return prod(self.sizes.values())

    def count(self, names: str | Sequence[str] | None) -> int:
        """Number of devices along some axes."""
        sizes = self.sizes
        return prod(sizes[name] for name in _names(names))

    @property
    def started(self) -> Engine:
        """The engine, which is imported at the first use. Raises CompileError if it is not installed."""
        from burn.distributed import processes
        from burn.distributed.engine import engine

        chosen = "burn" if self.device != "cpu" else processes.engine()
        return engine(self.engine or chosen)

    @property
    def where(self) -> str:
        """ " (mesh of train.py:12)", for errors; "" if no line is known."""
        return f" (mesh of {self.line})" if self.line else ""

    # ---- layouts -------------------------------------------------------------------------------------------------------
    @property
    def of_batch(self) -> Layout:
        """The layout of a tensor whose first axis is the batch's."""
        return Layout.of([_names(self.batch)])

    def part(self, rows: int) -> tuple[int, int]:
        """The rows [start, end) of a batch that this process has to read. The batch's devices must divide `rows`."""
        return self.started.part(self, rows)

    def batches(self, data: Any) -> Iterator[Any]:
        """The batches of a loader of `burn.data` for a loop of your own. Each process reads only its rows, as `Rows`, which a
        step on this mesh takes. Batches of other data are given as they are: every process has them whole."""
        from burn.distributed.rows import batches

        return batches(self, data)

    def gather(self, module: Any) -> None:
        """Brings all parameters of a module to this process's memory, where divided ones can be read. Every process calls it."""
        for parameter in module.parameters():
            if (held := parameter.on_mesh) is not None:
                parameter.assign(held.gathered())

    def on(self, device: str) -> Mesh:
        """The same mesh on another kind of device."""
        return replace(self, device=device)

    def with_axes(self, axes: Mapping[str, int]) -> Mesh:
        """The same mesh with other sizes of its axes."""
        return replace(self, axes=axes)

    def __hash__(self) -> int:
        return hash(
            (
                tuple(self.axes.items()),
                self.rules,
                self.batch,
                self.fully_sharded,
                self.sharded_state,
                self.engine,
                self.device,
            )
        )

    def __repr__(self) -> str:
        options = [
            f"{name}={value!r}"
            for name in ("rules", "fully_sharded", "sharded_state", "devices", "engine")
            if (value := getattr(self, name))
        ]
        options += [f"device={self.device!r}"] if self.device != "cpu" else []
        return f"Mesh({', '.join([repr(dict(self.axes)), *options])})"


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())
