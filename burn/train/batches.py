"""Sources of batches: the arguments of a step, their count, and the position after a resume. Start at `Source`.

Data is any iterable that restarts each epoch: a list of batches, a loader of `burn.data` or of PyTorch, or a function. The
function returns an iterator and takes no argument or the epoch. `state_dict` and `load_state_dict` of the data get and set
its position in an epoch. Other data is iterated again up to the position, with the random generators of Python,
numpy and PyTorch in their states at the start of the epoch.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from burn.data import Loader
from burn.dialect.spec import as_array
from burn.distributed.mesh import Mesh
from burn.distributed.rows import batches as mesh_batches
from burn.errors import InputError, Problem, TypeMismatch
from burn.runtime.arrays import on_host
from burn.tensors import trees

Data: TypeAlias = Iterable[Any] | Callable[..., Iterable[Any]]


class Several(list[Any]):
    """Batches of one step (`Step.over`)."""


class Source:
    """Where batches come from. what: "training" or "validation", for errors. mesh: if it divides the batches, each process reads
    only its rows of a loader's. group: so many batches are one `Several`, if it is more than 1. limit: of the batches of an
    epoch, if it is more than 0."""

    def __init__(self, data: Data, what: str, mesh: Mesh | None = None, group: int = 1, limit: int = 0) -> None:
        self.data, self.what, self._mesh, self._group, self._limit = data, what, mesh, group, limit
        if _is_whole(data):
            hint = "burn.data.Loader((inputs, targets), batch_size=64) makes batches of them"
            problem = Problem("these arrays are all of it at once", hint=hint)
            raise TypeMismatch(f"{what} data is gone through batch by batch", [problem])
        if not callable(data) and not hasattr(data, "__iter__"):
            problem = f"not a {type(data).__name__}"
            raise TypeMismatch(f"{what} data is something to iterate over, or a function that makes it", [problem])
        self.has_position = hasattr(data, "state_dict") and hasattr(data, "load_state_dict")

    def position(self) -> Any:
        """The data's own position, as plain values; None if it has no `state_dict`."""
        return self.data.state_dict() if self.has_position else None  # type: ignore[union-attr]

    def go_to(self, position: Any) -> None:
        """Continues from an earlier result of `position`. Raises InputError if only one of the two has a `state_dict`."""
        if self.has_position != (position is not None):
            text = "only one of the checkpoint's data and this data has a state_dict"
            raise InputError(f"this is not the {self.what} data of the training that is resumed", [text])
        if self.has_position:
            self.data.load_state_dict(position)  # type: ignore[union-attr]

    def once(self, epochs: int) -> None:
        """Raises TypeMismatch for an iterator that more than one epoch would have to go through."""
        if epochs > 1 and isinstance(self.data, Iterator):
            hint = "give the function that makes it, without calling it"
            problem = Problem(f"a {type(self.data).__name__} can be gone through once", hint=hint)
            raise TypeMismatch(f"{self.what} data is needed for {epochs} epochs", [problem])

    def count(self) -> int | None:
        """Batches in an epoch, where the data says."""
        try:
            count = -(-len(self.data) // self._group)  # type: ignore[arg-type]
        except TypeError:
            return None
        return min(count, self._limit) if self._limit else count

    def batches(self, epoch: int) -> Iterator[Any]:
        """The batches of an epoch, or its groups of batches."""
        found = self._single(epoch)
        if self._group > 1:
            found = _grouped(found, self._group)
        return itertools.islice(found, self._limit) if self._limit else found

    def _single(self, epoch: int) -> Iterator[Any]:
        if self._mesh is not None and isinstance(self.data, Loader):
            return mesh_batches(self._mesh, self.data, whole_rest=self.what == "validation")
        if hasattr(self.data, "__iter__"):
            return iter(self.data)  # type: ignore[arg-type]
        make: Any = self.data
        takes = inspect.signature(make).parameters.values()
        numbered = any(p.kind in _POSITIONAL and p.default is inspect.Parameter.empty for p in takes)
        return iter(make(epoch) if numbered else make())

    def skip(self, batches: Iterator[Any], count: int) -> None:
        """Passes over batches that are done. Raises InputError where there are fewer."""
        nothing = object()
        for i in range(count):
            if next(batches, nothing) is nothing:
                text = f"the checkpoint was made after batch {count}, the data has {i}"
                raise InputError("this is not the data of the training that is resumed", [text])


class Splits:
    """Named sets of validation data, in order; one without a name is called ""."""

    def __init__(self, data: Data | Mapping[str, Data], mesh: Mesh | None = None, limit: int = 0) -> None:
        named: Mapping[str, Any] = data if isinstance(data, Mapping) else {"": data}
        wrong = [f"{name!r}" for name in named if not isinstance(name, str) or "." in name or "/" in name]
        if wrong or not named or (isinstance(data, Mapping) and "" in named):
            problems = wrong or ["there is none, or one is called ''"]
            raise TypeMismatch("sets of validation data have names without dots and slashes", problems)
        self.sources = {
            name: Source(d, f"validation ({name})" if name else "validation", mesh, limit=limit)
            for name, d in named.items()
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sets; none if there is one without a name."""
        return tuple(name for name in self.sources if name)

    @property
    def has_position(self) -> bool:
        return any(source.has_position for source in self.sources.values())

    def position(self) -> Any:
        positions = {name: source.position() for name, source in self.sources.items()}
        return positions if self.names else positions[""]

    def go_to(self, position: Any) -> None:
        """Raises InputError for the position of other sets."""
        positions = position if self.names else {"": position}
        if not isinstance(positions, Mapping) or positions.keys() != self.sources.keys():
            raise InputError("this is not the validation data of the training that is resumed", [", ".join(self.names)])
        for name, source in self.sources.items():
            if source.has_position:
                source.go_to(positions[name])

    def once(self, epochs: int) -> None:
        for source in self.sources.values():
            source.once(epochs)

    def count(self) -> int | None:
        counts = [source.count() for source in self.sources.values()]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def named(self, values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Values of all sets by one name: those of the first set have their own names, and all have "<set>/<name>"."""
        if not self.names:
            return dict(values[""])
        first = values[self.names[0]]
        return {**first, **{f"{split}/{name}": v for split, own in values.items() for name, v in own.items()}}


def _grouped(batches: Iterator[Any], count: int) -> Iterator[Several]:
    while group := Several(itertools.islice(batches, count)):
        yield group


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _is_whole(data: Any) -> bool:
    return trees.is_array(data) or (isinstance(data, tuple) and len(data) > 0 and all(map(trees.is_array, data)))


def arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A batch as arguments of a call: the entries of a tuple or list by position, those of a dictionary by name, anything else
    as the only one. Lists of numbers are arrays. Raises InputError for what is neither tensor nor container."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(batch, Mapping):
        kwargs = {str(name): _entry(value) for name, value in batch.items()}
    elif isinstance(batch, (tuple, list)) and not all(isinstance(value, (int, float)) for value in batch):
        args = tuple(map(_entry, batch))
    else:
        args = (_entry(batch),)
    problems = [p for name, value in _named(args, kwargs) for p in _strangers(value, name)]
    if problems:
        raise InputError("a batch is made of tensors", problems)
    return args, kwargs


def _entry(value: Any) -> Any:
    return as_array(value) if _numbers(value) else value


def _numbers(value: Any) -> bool:
    """True for a list of numbers, or of such lists."""
    if not isinstance(value, list) or not value:
        return False
    return isinstance(value[0], (int, float)) or _numbers(value[0])


def _named(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [*((str(i), value) for i, value in enumerate(args)), *kwargs.items()]


def _strangers(value: Any, path: str) -> Iterator[Problem]:
    """Errors for parts of an entry that would need a program for each value."""
    leaves, structure = trees.flatten(value)
    if not leaves and structure != trees.Fixed(None):
        hint = "map it to numbers, or leave it out of the batch"
        yield Problem(f"entry {path} is of type {type(value).__name__} and holds no tensor", hint=hint)


def examples(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """How many examples a batch has: the size of its first tensor's first axis."""
    for leaf in trees.flatten([*args, *kwargs.values()])[0]:
        for size in getattr(leaf, "shape", ()):
            return int(size)
    return 1


def wider(batch: Any, types: Collection[str]) -> list[Problem]:
    """Which entries are float64, as numpy's floats are, for a model whose parameters are not."""
    if "float64" in types or not types:
        return []
    if isinstance(batch, Several):
        return [problem for one in batch for problem in wider(one, types)]
    hint = "x.astype(np.float32)"
    return [
        Problem(
            f"entry {name} of the batch is float64, the model's parameters are {', '.join(sorted(types))}", hint=hint
        )
        for name, value in _named(*arguments(batch))
        if any(str(getattr(leaf, "dtype", "")).endswith("float64") for leaf in trees.flatten(value)[0])
    ]


def spoiled(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """Which entries of a batch hold NaN or infinity."""
    found = []
    for name, value in _named(args, kwargs):
        for leaf in trees.flatten(value)[0]:
            array = on_host(leaf)
            if array.dtype.kind in "fc" and not np.isfinite(array).all():
                found.append(f"entry {name} of the batch holds NaN or infinity")
                break
    return found
