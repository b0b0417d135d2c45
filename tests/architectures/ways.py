"""How an architecture is run, and what its results are compared with. Enter at `run`.

Each way is a function of a made architecture and a backend: `OURS`, or `THEIRS`, which says if torch itself goes that way. To add
one, enter it into `WAYS`.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch._dynamo
from torch.utils import _pytree as pytree

import burn
from burn.adapters.torch import dynamo
from burn.importers.torch.export import export
from tests.architectures import onnx_ways
from tests.architectures.apart import Send, apart
from tests.architectures.drawn import Inputs, Made, Unmade, made, runs
from tests.architectures.reporting import SHOWN, told
from tests.importers.torch.architectures import judged, leaves, tensors
from tests.onnx_suite.pool import Died

OURS, THEIRS = "burn", "aot_eager"
if OURS not in torch._dynamo.list_backends():  # burn is not installed, only found on the path
    torch._dynamo.register_backend(dynamo.backend, name=OURS)
DEVICE = os.environ.get("BURN_ARCHITECTURES_DEVICE", "cpu")
os.environ.setdefault(
    "PYTORCH_NVML_BASED_CUDA_CHECK", "1"
)  # else the driver starts before processes are forked, which ends it
ON_GPU = ("forward", "backward")
"""The ways that are also for models on a GPU."""
BATCH, OTHER = 2, 3
NEW_TOKENS = 3


@dataclass
class Result:
    """How one way of one architecture went. state: "agrees", "ours" (torch goes this way and burn does not), "torch's" (neither),
    "unmade" (no small model was found). detail: the largest error, or what was raised."""

    name: str
    way: str
    state: str
    detail: str
    seconds: float


class Inapplicable(Exception):
    """The way is not for this architecture."""


def floating(value: Any) -> Any:
    """A value in float64, whatever it is kept in."""
    if isinstance(value, list):
        return [floating(v) for v in value]
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _wide(model: torch.nn.Module) -> Any:
    """The model in float64. transformers' grouped matmul of experts does not take float64; its loop over experts does."""
    twin: Any = copy.deepcopy(model).double()
    if getattr(getattr(twin, "config", None), "_experts_implementation", None) is not None:
        twin.set_experts_implementation("eager")
    return twin


def _exact(case: Made) -> tuple[torch.nn.Module, Callable[[int], Inputs]]:
    return _wide(case.model), lambda batch: {n: floating(v) for n, v in case.inputs(batch).items()}


def forward(case: Made, backend: str) -> str:
    """torch.compile, for inference."""
    compiled = torch.compile(case.model, backend=backend)
    with torch.no_grad():
        got = tensors(compiled(**case.inputs(BATCH)))
        want = tensors(case.model(**case.inputs(BATCH)))

        def exact() -> list[torch.Tensor]:
            model, inputs = _exact(case)
            return tensors(model(**inputs(BATCH)))

        return judged(got, want, exact)


def backward(case: Made, backend: str) -> str:
    """torch.compile: the outputs, and the gradients of all parameters and of inputs that are floats. In training mode, unless
    that draws random numbers."""

    def gradients(run: Any, owner: torch.nn.Module, inputs: Inputs) -> list[torch.Tensor]:
        owner.zero_grad()
        torch.manual_seed(3)
        floats = [v.requires_grad_() for v in inputs.values() if isinstance(v, torch.Tensor) and v.is_floating_point()]
        found = leaves(run(**inputs))
        outputs = [t for t in found if t.requires_grad]
        if not outputs:
            raise Inapplicable("no output depends on a parameter")
        generator = torch.Generator().manual_seed(5)
        weights = [torch.randn(t.shape, generator=generator).to(t) / max(t.numel(), 1) ** 0.5 for t in outputs]
        torch.autograd.backward(outputs, weights)
        grads = [p.grad for p in (*owner.parameters(), *floats)]
        return [t.detach() for t in found] + [g.clone() for g in grads if g is not None]

    state = copy.deepcopy(case.model.state_dict())
    case.model.train(_repeats(case))

    def fresh(run: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
        case.model.load_state_dict(state)
        return run()

    try:
        want = fresh(lambda: gradients(case.model, case.model, case.inputs(BATCH)))
        got = fresh(lambda: gradients(torch.compile(case.model, backend=backend), case.model, case.inputs(BATCH)))

        def exact() -> list[torch.Tensor]:
            case.model.load_state_dict(state)
            model, inputs = _exact(case)
            return gradients(model, model, inputs(BATCH))

        return judged(got, want, exact)
    finally:
        case.model.load_state_dict(state)
        case.model.eval()


def _random_state() -> torch.Tensor:
    return torch.get_rng_state() if DEVICE == "cpu" else torch.cuda.get_rng_state()


def _repeats(case: Made) -> bool:
    """True if two runs in training mode are equal, so that nothing is random."""
    twin = copy.deepcopy(case.model).train()
    try:
        with torch.no_grad():
            states = []
            for seed in (1, 2):
                torch.manual_seed(seed)
                before = _random_state()
                twin(**case.inputs(BATCH))
                states.append(torch.equal(before, _random_state()))
        return all(states)
    except Exception:
        return False


def _same_numbers(case: Made) -> bool:
    """True if two runs of eager torch in inference are equal, so that nothing is random."""
    torch.manual_seed(1)
    before = torch.get_rng_state()
    runs(case.model, case.inputs(BATCH))
    return torch.equal(before, torch.get_rng_state())


def direct(case: Made, backend: str) -> str:
    """burn.compile, the batch named, at two sizes."""
    dynamic = {n: {0: "batch"} for n in case.batched if isinstance(case.inputs(BATCH)[n], torch.Tensor)}
    if backend == OURS:
        compiled: Any = burn.compile(case.model, (), dynamic, kwargs=case.inputs(BATCH))
    else:
        compiled = export(case.model, (), case.inputs(BATCH), dynamic).program.module()
    errors = []
    for batch in (BATCH, OTHER) if dynamic else (BATCH,):
        with torch.no_grad():

            def exact(batch: int = batch) -> list[torch.Tensor]:
                model, inputs = _exact(case)
                return tensors(model(**inputs(batch)))

            errors.append(
                judged(tensors(compiled(**case.inputs(batch))), tensors(case.model(**case.inputs(batch))), exact)
            )
    return max(errors, key=float)


def generate(case: Made, backend: str) -> str:
    """Greedy tokens of a language model with its cache: the same ones, and their logits."""
    if not case.prompt:
        raise Inapplicable("it writes no tokens")
    model: Any = case.model
    options = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False}
    options |= {"return_dict_in_generate": True, "output_logits": True}
    try:
        want = model.generate(**case.prompt, **options)
    except Exception as error:
        raise Inapplicable(f"eager: {told(error)}") from None
    eager, model.forward = model.forward, torch.compile(model.forward, backend=backend)
    try:
        got = model.generate(**case.prompt, **options)
    finally:
        model.forward = eager
    assert torch.equal(got.sequences, want.sequences), "other tokens"

    def exact() -> list[torch.Tensor]:
        twin = _wide(model)
        return list(twin.generate(**{n: floating(v) for n, v in case.prompt.items()}, **options).logits)

    return judged(list(got.logits), list(want.logits), exact)


def load(case: Made, backend: str) -> str:
    """torch.onnx.export, then burn.load; the peer is ONNX Runtime."""
    return onnx_ways.loaded(case, backend == OURS)


def written(case: Made, backend: str) -> str:
    """torch.onnx.export, then the source that burn-import writes; the peer is ONNX Runtime."""
    return onnx_ways.imported(case, backend == OURS)


GROUPS = (("forward",), ("backward",), ("burn.compile",), ("generate",), ("burn.load", "burn-import"))
"""The ways that run in one process: those that share an ONNX file."""
WAYS: dict[str, Callable[[Made, str], str]] = {
    "forward": forward,
    "backward": backward,
    "burn.compile": direct,
    "generate": generate,
    "burn.load": load,
    "burn-import": written,
}


def results(name: str, ways: tuple[str, ...], timeout: float) -> Iterator[Result | None]:
    """The results of an architecture, as they come; None for a way that is not for it. timeout: seconds for a way.

    The model is made once. Every group of ways runs in a process of its own, forked from this one. A crash, a hang or a lack of
    memory then concerns one way alone."""
    start = time.monotonic()
    try:
        case = made(name)
    except Exception as error:  # whatever a package raises, torch alone does it
        text = str(error) if isinstance(error, Unmade) else told(error)
        yield Result(name, "", "unmade", text[:SHOWN], time.monotonic() - start)
        return
    if DEVICE != "cpu":  # a driver that has started does not outlast a fork, and making the model may have started it
        yield from (_result(name, case, way) for way in ways)
        return
    for group in GROUPS:
        waiting = [way for way in group if way in ways]
        while waiting:
            yield from _apart(name, case, waiting, timeout)


def _apart(name: str, case: Made, waiting: list[str], timeout: float) -> Iterator[Result | None]:
    """Runs ways until all are done or the process dies, and takes those that are over from the list."""
    start = time.monotonic()

    def go(send: Send) -> None:
        for way in list(waiting):
            send(_result(name, case, way))

    for found in apart(go, timeout):
        way = waiting.pop(0)
        if isinstance(found, Died):
            text = f"{found.reason}: {found.message}"[:SHOWN]
            state = "ours" if _torch_goes(case, way, timeout) else "torch's"
            yield Result(name, way, state, text, time.monotonic() - start)
        else:
            yield found
        start = time.monotonic()


def _torch_goes(case: Made, way: str, timeout: float) -> bool:
    """True if the way succeeds without burn, in a process of its own."""

    def go(send: Send) -> None:
        torch._dynamo.reset()
        WAYS[way](case, THEIRS)
        send(True)

    try:
        return next(apart(go, timeout), None) is True
    except Exception:
        return False


def run(name: str, ways: tuple[str, ...]) -> list[dict[str, Any]]:
    """The results of an architecture in this process, as JSON can hold them."""
    start = time.monotonic()
    try:
        case = made(name)
    except Exception as error:
        text = str(error) if isinstance(error, Unmade) else told(error)
        return [asdict(Result(name, "", "unmade", text[:SHOWN], time.monotonic() - start))]
    return [asdict(found) for way in ways if (found := _result(name, case, way)) is not None]


def _on_device(case: Made) -> Made:
    def inputs(batch: int) -> Inputs:
        return pytree.tree_map_only(torch.Tensor, lambda t: t.to(DEVICE), case.inputs(batch))

    torch.backends.cudnn.allow_tf32 = False
    return replace(case, model=case.model.to(DEVICE), inputs=inputs)


def _result(name: str, case: Made, way: str) -> Result | None:
    start, reason = time.monotonic(), ""
    for backend in (OURS, THEIRS):
        torch._dynamo.reset()
        try:
            detail = WAYS[way](case if DEVICE == "cpu" else _on_device(case), backend)
            seconds = time.monotonic() - start
            return (
                Result(name, way, "ours", reason, seconds) if reason else Result(name, way, "agrees", detail, seconds)
            )
        except Inapplicable:
            return None
        except Exception as error:
            if isinstance(error, AssertionError) and not _same_numbers(case):
                return None  # nothing to compare with
            reason = reason or told(error)
    return Result(name, way, "torch's", reason, time.monotonic() - start)
