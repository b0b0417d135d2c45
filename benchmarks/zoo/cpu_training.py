"""Training steps of drawn models on a CPU: burn beside torch and torch.compile, and what they must agree on.

A step is a forward pass, a backward pass of the mean square of the result, and an update by AdamW. All engines start with the
same weights and get the same batch. Dropout is off, so that they compute the same. `drawn` has names, `one` makes a row.
"""

from __future__ import annotations

import copy
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from zoo.cpu_models import SEED, Entry, made
from zoo.pages import Row, short
from zoo.roofline import kernels_of
from zoo.weights import vary

ENGINES = ("burn", "torch", "torch.compile")
COUNT, OF_A_LIST = 10, 4
MOST_FLOPS, MOST_PARAMETERS = 1.4e10, 1e8
"""Of one example's forward pass, and of a model: a step of four examples takes about a second of one thread."""

RATE, FIRST_BETA = 1e-4, 0.9
COMPARED = 3
"""Steps that every engine makes before it is timed."""

FACTOR, ROUNDING = 4.0, 1e-4
"""An engine's error against float64: at most FACTOR times the largest of torch's in float32 (`rounded`), or ROUNDING if that is
more. Rounding decides at the edges of ReLU and at ties of pools, so that no smaller bound holds for deep networks."""

PERTURBATIONS, PERTURBATION = 5, 2.0**-24
"""Further gradients of torch's are computed after each parameter and input has changed by about PERTURBATION of itself, half a
unit in the last digit. A maximum of two nearly equal operands has a discontinuous gradient. There one run of torch's does not
show the error of float32: that of hiera_tiny_224 jumps from 3e-7 to 1.9e-4."""

APART = {"losses": 1e-3, "moved": 0.2, "buffers": 1e-3}
"""Bounds of burn's differences from torch after COMPARED steps, unless FACTOR times those of torch.compile are more. "moved" is
that of the parameters over the distance that they moved. AdamW's first steps follow a gradient's sign, also that of a gradient
that is 0 but for rounding."""

PROFILED = 15
"""Steps of a profile: on a busy machine the least time of a kernel counts, and most runs of a long kernel are interrupted."""

Step = Callable[[], float]


# ---- names ---------------------------------------------------------------------------------------------------------------
def drawn(entries: Sequence[Entry], seed: int = SEED) -> list[Entry]:
    """COUNT of the entries in random order, at most OF_A_LIST of a list, without those that are too large or hold no module."""
    found: list[Entry] = []
    for entry in random.Random(seed).sample(entries, len(entries)):
        of_list = sum(one["list"] == entry["list"] for one in found)
        if entry["list"] not in ("tabular", "decode") and of_list < OF_A_LIST and is_small(entry):
            found.append(entry)
        if len(found) == COUNT:
            break
    return found


def is_small(entry: Entry) -> bool:
    """Prints the name of a model that does not run."""
    from torch.utils.flop_counter import FlopCounterMode

    try:
        module, inputs = made(entry, 1)
        if sum(p.numel() for p in module.parameters()) > MOST_PARAMETERS:
            return False
        with FlopCounterMode(display=False) as counter:
            module(*inputs)
    except ImportError:
        raise  # with other packages this were another draw
    except Exception as error:
        print(f"not drawn: {entry['name']}: {short(str(error))}", file=sys.stderr)
        return False
    return counter.get_total_flops() <= MOST_FLOPS


# ---- engines -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Engine:
    """step: makes a step and returns the loss before it. gradients: those of the first step, as long as no other was made. state:
    parameters and buffers, now. All by names of the module's."""

    step: Step
    gradients: Callable[[], dict[str, np.ndarray]]
    state: Callable[[], dict[str, np.ndarray]]


def of_torch(module: torch.nn.Module, inputs: Sequence[torch.Tensor], compiled: bool) -> Engine:
    """Of a copy of the module."""
    own = copy.deepcopy(module)
    called = torch.compile(own) if compiled else own
    optimizer = torch.optim.AdamW(own.parameters(), lr=RATE, betas=(FIRST_BETA, 0.999), fused=True)

    def step() -> float:
        optimizer.zero_grad()
        loss = called(*inputs).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Engine(step, lambda: gradients_of(own), lambda: arrays_of(own.state_dict()))


def gradients_of(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """Copies of the parameters' gradients; a parameter that the result does not use has none."""
    return arrays_of({name: p.grad for name, p in module.named_parameters() if p.grad is not None})


def arrays_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}


def of_burn(module: torch.nn.Module, inputs: Sequence[torch.Tensor], profiles: list[Callable[[], Any]]) -> Engine:
    """Of a copy of the module. A function that profiles a step is appended to `profiles`."""
    import burn
    from burn import optim, train
    from zoo.measured import profiled_step

    twin = burn.compile(copy.deepcopy(module), tuple(inputs), train=True)
    optimizer = optim.AdamW(twin, lr=RATE, betas=(FIRST_BETA, 0.999))
    step = train.step(twin, lambda model, *given: (model(*given) ** 2).mean(), optimizer)
    arrays = [tensor.numpy() for tensor in inputs]

    def gradients() -> dict[str, np.ndarray]:
        """The average of gradients begins at 0: after one step it is a share of the first gradient."""
        return {path: state["average"].array / (1 - FIRST_BETA) for path, state in optimizer.state.items()}

    profiles.append(lambda: profiled_step(step, [burn.tensor(array) for array in arrays], PROFILED))
    return Engine(lambda: float(step(*arrays)), gradients, lambda: {k: v.copy() for k, v in twin.state_dict().items()})


def without_randomness(module: torch.nn.Module) -> torch.nn.Module:
    """Turns off dropout of layers and of functions whose probability is an attribute of a module or of its configuration,
    stochastic depth, and masks that transformers draws for spectrograms. Returns the module."""
    for part in module.modules():
        if any(word in type(part).__name__ for word in ("Drop", "StochasticDepth")) and hasattr(part, "p"):
            part.p = 0.0
        for owner in (part, getattr(part, "config", None)):
            for name, value in list(vars(owner).items()) if owner is not None else ():
                if "drop" in name and isinstance(value, float):
                    setattr(owner, name, 0.0)
                if name == "apply_spec_augment":
                    setattr(owner, name, False)
    return module


# ---- a row ---------------------------------------------------------------------------------------------------------------
def one(entry: Entry, batch: int, threads: int, engines: Sequence[str], cpu: bool) -> dict[str, Any]:
    """Makes the steps, compares and times them. cpu: by CPU seconds. "failed" has an engine's error, "wrong" what differs too
    much."""
    import burn
    from burn.bench.interleave import Plan, bind, interleave

    bind(threads)
    torch.set_num_threads(threads)
    burn.set_num_threads(threads)
    module, inputs = made(entry, batch)
    vary(module, inputs, device="cpu")
    module = without_randomness(module).train()
    row: dict[str, Any] = {"threads": threads, "seconds": {}, "failed": {}, "torch": torch.__version__.split("+")[0]}
    profiles: list[Callable[[], Any]] = []
    makers: dict[str, Callable[[], Engine]] = {
        "burn": lambda: of_burn(module, inputs, profiles),
        "torch": lambda: of_torch(module, inputs, compiled=False),
        "torch.compile": lambda: of_torch(module, inputs, compiled=True),
    }
    steps: dict[str, Step] = {}
    seen: dict[str, Seen] = {}
    for name in engines:
        try:
            engine = makers[name]()
            seen[name] = Seen.of(engine)
            steps[name] = engine.step
        except Exception as error:  # the others are timed all the same
            row["failed"][name] = f"{type(error).__name__}: {error}"[-400:]
    row |= compared(module, inputs, seen)
    plan = Plan(6, 3, clock=time.process_time) if cpu else Plan(6, 3)
    timed = interleave(steps, plan)
    row |= {"seconds": {name: timing.median for name, timing in timed.timings.items()}, "others": timed.others}
    return row | (kernels_of(profiles[0](), least=cpu) if "burn" in steps else {})


@dataclass(frozen=True)
class Seen:
    """The losses of an engine's first steps, the first one's gradients, and the state after them."""

    losses: list[float]
    gradients: dict[str, np.ndarray]
    state: dict[str, np.ndarray]

    @staticmethod
    def of(engine: Engine) -> Seen:
        losses, gradients = [engine.step()], engine.gradients()
        losses += [engine.step() for _ in range(COMPARED - 1)]
        return Seen(losses, gradients, engine.state())


def compared(module: torch.nn.Module, inputs: Sequence[torch.Tensor], seen: Mapping[str, Seen]) -> Row:
    """The errors of gradients and the differences from torch by engine, and how burn fails their bounds (`judged`)."""
    if "torch" not in seen:
        return {"wrong": ["torch failed: nothing is compared"]}
    start, base, exact = arrays_of(module.state_dict()), seen["torch"], gradients_at(module, inputs, torch.float64)
    names = [name for name, _ in module.named_parameters()]
    moved = distance(base.state, start, names)
    errors = {
        engine: errors_of(found.gradients, exact)
        | {
            "losses": float(np.max(np.abs(np.subtract(found.losses, base.losses)) / np.abs(base.losses))),
            "moved": distance(found.state, base.state, names) / moved,
            "buffers": float(np.max([0.0, *(relative(mine, its) for mine, its in _buffers(found, base, names))])),
        }
        for engine, found in seen.items()
    }
    perturbed = rounded(module, inputs, exact)
    return {"errors": errors, "perturbed": perturbed, "wrong": judged(errors, perturbed)}


def judged(errors: Mapping[str, Mapping[str, float]], perturbed: Mapping[str, float]) -> list[str]:
    """burn's figures beyond their bounds, as texts. A figure that is not a number is beyond any. perturbed: see `rounded`."""
    if "burn" not in errors:
        return []
    own, plain, other = errors["burn"], errors["torch"], errors.get("torch.compile", {})
    bounds = {key: max(ROUNDING, FACTOR * max(plain[key], error)) for key, error in perturbed.items()}
    bounds |= {key: max(bound, FACTOR * other.get(key, 0.0)) for key, bound in APART.items()}
    return [f"burn: {key} {own[key]:.1e}, bound {bound:.1e}" for key, bound in bounds.items() if not own[key] <= bound]


def gradients_at(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor], dtype: torch.dtype, seed: int | None = None
) -> dict[str, np.ndarray]:
    """The first step's gradients by torch, computed in a type. seed: of changes of parameters and inputs (PERTURBATION)."""
    own = copy.deepcopy(module).to(dtype)
    given = [x.to(dtype, copy=True) if x.is_floating_point() else x for x in inputs]
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for tensor in (*own.parameters(), *(x for x in given if x.is_floating_point())):
                tensor *= 1 + PERTURBATION * torch.randn(tensor.shape, generator=generator, dtype=dtype)
    own(*given).square().mean().backward()
    return gradients_of(own)


def rounded(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor], exact: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """The largest errors (`errors_of`) of torch's gradients in float32 at PERTURBATIONS changed parameters and inputs."""
    found = [errors_of(gradients_at(module, inputs, torch.float32, seed), exact) for seed in range(PERTURBATIONS)]
    return {key: max(errors[key] for errors in found) for key in ("gradients", "worst gradient")}


def errors_of(found: Mapping[str, np.ndarray], exact: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The relative error of all gradients as one vector, and the largest of a parameter's. The latter is over the parameter's
    share of the whole norm, or a hundredth of it if its gradient is smaller."""
    if missing := [name for name in exact if name not in found and np.any(exact[name])]:
        raise ValueError(f"no gradients of {', '.join(missing)}")
    squares = {name: float(np.sum((found[name] - exact[name]) ** 2)) for name in exact if name in found}
    norms, size = {name: float(np.sum(exact[name] ** 2)) for name in exact}, sum(x.size for x in exact.values())
    whole = sum(norms.values())
    least = {name: 1e-4 * whole * exact[name].size / size for name in exact}
    worst = max((squares[name] / max(norms[name], least[name])) ** 0.5 for name in squares)
    return {"gradients": (sum(squares.values()) / whole) ** 0.5, "worst gradient": worst}


def distance(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray], names: Sequence[str]) -> float:
    return sum(float(np.sum((one[name].astype(np.float64) - other[name]) ** 2)) for name in names) ** 0.5


def _buffers(found: Seen, base: Seen, names: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Running statistics, those of the engine and torch's."""
    own = set(base.state) & set(found.state) - set(names)
    return [(found.state[name], base.state[name]) for name in own if base.state[name].dtype.kind == "f"]


def relative(found: np.ndarray, want: np.ndarray) -> float:
    return float(np.linalg.norm(found - want) / max(float(np.linalg.norm(want)), 1e-30))
