"""Training steps as programs: a step, its model's inference, and the state that both share. Enter at `of`.

A step is a `burn.train.step`, a `burn.train.Learner`, or a function that assigns parameters. Its program is the one that the step
has in Python, so both compute the same bits on the same CPU.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from burn.dialect.program import Program
from burn.dialect.spec import spec
from burn.dialect.types import TensorType
from burn.errors import CompileError, Problem, TypeMismatch
from burn.importers.weights import safetensors
from burn.nn.module import Module
from burn.nn.parameter import Parameter
from burn.optim import LBFGS, Optimizer
from burn.runtime.random import process
from burn.tensors.tracer import Owned
from burn.tracing.trace import signature_of, trace_open
from burn.train import states
from burn.train.learner import RATE, Learner
from burn.train.step import Step

LOSS = "loss"

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class State:
    """A tensor that lives from call to call: a parameter, running statistics, an optimizer's average. `names`: in checkpoints; an
    optimizer may have one number of steps under several names. None for tensors that do not change and that a checkpoint of
    Python does not have either, such as a teacher's parameters."""

    names: tuple[str, ...]
    tensor: Owned


@dataclass(frozen=True)
class Part:
    """A program over the state. `inputs`, `outputs`: how many it takes and gives besides state. `state_inputs`: the
    states that are its further inputs, in order; `state_outputs`: those that its further outputs are the next elements of."""

    program: Program
    inputs: int
    outputs: int
    state_inputs: tuple[int, ...]
    state_outputs: tuple[int, ...]


@dataclass(frozen=True)
class Training:
    """A training step to be compiled. `random`: the seed and the number of draws to begin with. `facts`: a checkpoint's content
    besides tensors (`burn.train.states.facts`)."""

    step: Part
    predict: Part | None
    states: tuple[State, ...]
    random: tuple[int, int]
    facts: Mapping[str, Any]


def is_step(found: Any) -> bool:
    """True for an object that is a training step without a look at its code. A function is one if it assigns parameters, which
    only its trace shows (`burn.tracing.trace.Assigned`)."""
    return isinstance(found, (Step, Learner))


def of(found: Any, inputs: Mapping[str, str], predict: Any = None) -> Training:
    """The programs of a training step.

    - `inputs`: the types of a batch's tensors by name ("float32[batch, 784]"), and of further tensors that `predict` takes.
    - `predict`: a module or a function for inference; default: the model of the step, in inference mode. Its inputs are those of
      `inputs` with its parameters' names; if there are none, the first ones of the batch. False: no function for inference.

    Raises TypeMismatch for inputs that do not fit, and CompileError for steps that need Python between two native calls."""
    types = {name: spec(text) for name, text in inputs.items()}
    taken = _own_inputs(found, types, predict)
    position = process.position
    model, optimizers = _owned(found)
    call, of_class = _call(found, taken), is_step(found)
    program, owners = trace_open(call, list(taken.items()), opens=True)
    if not program.renews:
        hint = "burn-compile makes an inference program of a function like this"
        raise CompileError("this function is no training step", [Problem("it assigns no parameter", hint=hint)])
    # after the trace, which may count the steps of some parameters apart
    named = list(states.named(model, optimizers, _step_of(found))) if of_class and model else _globals(found)
    held = _States(named, every=of_class)
    step = held.part(program, owners, len(taken))
    target = model if predict is None else predict
    made = held.part(*_inference(target, types, taken, model)) if callable(target) else None
    steps = max((int(o.steps.array) for o in optimizers.values()), default=0)
    return Training(step, made, _checked(held.all()), position, states.facts(model, steps))


# ---- the step --------------------------------------------------------------------------------------------------------


def _owned(found: Any) -> tuple[Module | None, dict[str, Optimizer]]:
    """The model and the optimizers. Raises CompileError for a step that cannot be one program."""
    if not is_step(found):
        return None, {}
    problems: list[Problem] = []
    if isinstance(found, Learner):
        hint = "compile the Learner without it"
        problems += [
            Problem(f"the observer {type(o).__name__} runs in Python between steps", hint=hint) for o in found.observers
        ]
        if found.group != 1:
            problems.append(Problem("accumulate_batches=: `fit` joins batches in Python", hint="use accumulate="))
        if found.anomaly:
            problems.append(Problem("anomaly=: Python checks the ops of a step", hint="leave it out"))
    step = _step_of(found)
    optimizers = dict(found.optimizers) if isinstance(found, Learner) else {"": found.optimizer}
    if found.mesh is not None:
        problems.append(Problem("mesh=: the step runs on several devices, under Python's control"))
    if isinstance(step, Step) and step.memory is not None:
        hint = "leave out memory=, as the plan depends on the first batch's size"
        problems.append(Problem("memory=: the step is planned when Python calls it first", hint=hint))
    problems += [
        Problem("LBFGS evaluates the loss several times a step, in a loop of Python's", hint="use another optimizer")
        for o in optimizers.values()
        if isinstance(o, LBFGS)
    ]
    if problems:
        raise CompileError("this training step needs Python while it runs", problems)
    return found.model, optimizers


def _step_of(found: Any) -> Any:
    return found.step if isinstance(found, Learner) else found


def _call(found: Any, taken: Mapping[str, TensorType]) -> Callable[..., Any]:
    """A function of the batch's tensors, which returns its results by name."""
    names = list(taken)
    signature = _signature(found)
    variadic = any(p.kind in _VARIADIC for p in signature.parameters.values())

    def arguments(tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tuple(tensors), {}) if variadic else ((), dict(zip(names, tensors, strict=True)))

    step = _step_of(found)
    of_learner = isinstance(found, Learner) and not found.has_own_step

    def called(*tensors: Any) -> Any:
        args, kwargs = arguments(tensors)
        result = step.run(*args, **kwargs) if isinstance(step, Step) else step(*args, **kwargs)
        if of_learner:
            loss, counts = result
            return {LOSS: loss, RATE: counts[RATE]}
        if isinstance(step, Step) and step.has_aux and isinstance(found, Step):
            return {LOSS: result[0], "aux": result[1]}
        if isinstance(result, Mapping):
            return result
        if isinstance(result, (tuple, list)) and not hasattr(result, "_fields"):
            return {LOSS: result[0], **{f"output_{i}": r for i, r in enumerate(result[1:], 1)}} if result else {}
        return {LOSS: result}

    return called


def _signature(found: Any) -> inspect.Signature:
    """Of a batch."""
    if isinstance(found, Learner):
        return signature_of(found.step) if found.has_own_step else found.objective.signature
    return found.signature if isinstance(found, Step) else signature_of(found)


def _own_inputs(found: Any, types: Mapping[str, TensorType], predict: Any) -> dict[str, TensorType]:
    """The tensors of a batch, in the order of the step's parameters. Raises TypeMismatch."""
    parameters = _signature(found).parameters
    if any(p.kind in _VARIADIC for p in parameters.values()):
        own = (
            dict(types) if not callable(predict) else {n: t for n, t in types.items() if not _takes_by_name(predict, n)}
        )
        if not own:
            raise TypeMismatch("the types of a batch are not known", [Problem("no input is given", hint=_HINT)])
        return own
    missing = [n for n, p in parameters.items() if n not in types and p.default is inspect.Parameter.empty]
    others = signature_of(predict).parameters if callable(predict) else {}
    unknown = [n for n in types if n not in parameters and n not in others]
    problems = [Problem(f"the type of '{n}' is not given", hint=_HINT) for n in missing]
    problems += [Problem(f"there is no input '{n}'", hint=f"the inputs are {', '.join(parameters)}") for n in unknown]
    if problems:
        raise TypeMismatch("the inputs do not fit the step", problems)
    return {n: types[n] for n in parameters if n in types}


_HINT = "--input NAME=TYPE for every tensor of a batch, as in 'x=float32[batch,784]'"


def _takes_by_name(function: Any, name: str) -> bool:
    return name in signature_of(function).parameters


def _globals(function: Any) -> list[tuple[str, Parameter]]:
    """All parameters that a function's globals and closure hold, by names: "w", "model.head.weight", "optimizer.steps"."""
    inner: Any = inspect.unwrap(function)
    held: dict[str, Any] = dict(getattr(inner, "__globals__", {}))
    free = getattr(getattr(inner, "__code__", None), "co_freevars", ())
    for name, cell in zip(free, getattr(inner, "__closure__", None) or (), strict=False):
        held[name] = cell.cell_contents
    found: dict[int, tuple[str, Parameter]] = {}
    for name, value in held.items():
        for path, tensor in _tensors_of(value):
            found.setdefault(id(tensor), (f"{name}.{path}" if path else name, tensor))
    return list(found.values())


def _tensors_of(value: Any) -> Iterator[tuple[str, Parameter]]:
    if isinstance(value, Parameter):
        yield "", value
    elif isinstance(value, Module):
        yield from value.named_parameters()
    elif isinstance(value, (Optimizer, Step)):
        yield from value.named_buffers().items()


# ---- inference -------------------------------------------------------------------------------------------------------


def _inference(
    function: Any, types: Mapping[str, TensorType], batch: Mapping[str, TensorType], model: Module | None
) -> tuple[Program, list[Owned], int]:
    """The program of the model, or of a function for inference; its parameters; and how many inputs it has besides."""
    inputs = _predicted(function, types, batch)

    def called(*tensors: Any) -> Any:
        result = function(*tensors)
        if isinstance(result, Mapping):
            return result
        if isinstance(result, (tuple, list)) and not hasattr(result, "_fields"):
            return {f"output_{i}": r for i, r in enumerate(result)}
        return {"output": result}

    module = function if isinstance(function, Module) else model
    try:
        with _inferring(module):
            program, owners = trace_open(called, list(inputs.items()), opens=True)
    except TypeMismatch as error:
        listed = ", ".join(f"{n}: {t}" for n, t in inputs.items())
        hint = "--predict NAME names another function of the file, --predict none leaves it out"
        problem = Problem(f"it is traced for {listed}", hint=hint)
        raise TypeMismatch(f"predict: {error.summary}", [*error.problems, problem]) from error
    if program.renews:
        raise CompileError("the function for inference assigns parameters", ["only the step may"])
    return program, owners, len(inputs)


def _predicted(
    function: Any, types: Mapping[str, TensorType], batch: Mapping[str, TensorType]
) -> dict[str, TensorType]:
    parameters = signature_of(function).parameters.values()
    if any(p.kind in _VARIADIC for p in parameters):
        raise TypeMismatch(
            "predict: the function takes any number of inputs",
            [
                Problem(
                    "which ones is not known",
                    hint="--predict NAME names a function with named inputs, --predict none leaves it out",
                )
            ],
        )
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    if all(name in types for name in needed):
        return {p.name: types[p.name] for p in parameters if p.name in types}
    own = [*batch.items()][: len(needed)]
    if any(name in types for name in needed) or len(own) < len(needed):
        missing = [name for name in needed if name not in types]
        raise TypeMismatch(
            "predict: the inputs do not fit", [Problem(f"the type of '{n}' is not given", hint=_HINT) for n in missing]
        )
    return dict(own)


@contextmanager
def _inferring(model: Module | None) -> Iterator[None]:
    """Inside, a model is in inference mode."""
    if model is None:
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


# ---- the state -------------------------------------------------------------------------------------------------------


class _States:
    """All tensors of state, numbered in the order of their first use. every: also those that no program uses."""

    def __init__(self, named: Sequence[tuple[str, Owned]], every: bool) -> None:
        self._names: dict[int, list[str]] = {}
        self._number: dict[int, int] = {}
        self._found: list[Owned] = []
        self._renewed: set[int] = set()
        for name, owner in named:
            self._names.setdefault(id(owner), []).append(name)
            if every:
                self._of(owner)

    def part(self, program: Program, owners: Sequence[Owned], inputs: int) -> Part:
        numbers = tuple(self._of(owner) for owner in owners)
        order = sorted(program.renews)
        renewed = tuple(numbers[program.renews[output] - inputs] for output in order)
        self._renewed.update(renewed)
        program.given_up = tuple(program.renews.values())
        return Part(program, inputs, len(program.outputs) - len(order), numbers, renewed)

    def _of(self, owner: Owned) -> int:
        if id(owner) not in self._number:
            self._number[id(owner)] = len(self._found)
            self._found.append(owner)
        return self._number[id(owner)]

    def all(self) -> tuple[State, ...]:
        taken = {name for names in self._names.values() for name in names}
        made = []
        for number, owner in enumerate(self._found):
            names = self._names.get(id(owner), [])
            if not names and number in self._renewed:
                base = f"other.{owner.name or 'parameter'}"
                names = [next(n for i in range(len(taken) + 1) if (n := f"{base}_{i}" if i else base) not in taken)]
                taken.update(names)
            made.append(State(tuple(names), owner))
        return tuple(made)


def _checked(found: tuple[State, ...]) -> tuple[State, ...]:
    """Raises CompileError for element types that checkpoints do not have."""
    problems = [
        Problem(f"'{s.names[0]}' is {s.tensor.type}: checkpoints have no such elements")
        for s in found
        if s.names and s.tensor.type.dtype not in safetensors.CODES.values()
    ]
    if problems:
        raise CompileError("this training step has state that cannot be saved", problems)
    return found
