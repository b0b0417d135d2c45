"""The row of one model: burn and PyTorch, timed in this process. Enter at `one`."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import burn.adapters.torch.dynamo  # noqa: F401  registers the backend where burn is not installed
from zoo.models import made
from zoo.settings import JAX, READY, THROUGH, Setting
from zoo.tables import WRONG, is_wrong
from zoo.weights import vary

ROUNDS, CALLS = 5, 8
LOSSES = 4
"""Forward passes of eager whose losses say how much dropout moves them."""
STEPS = 4
"""Training steps whose last loss is compared: a wrong gradient or update does not change the first one."""


def waited(call: Callable[[], Any]) -> float:
    """Seconds of a synchronised call: the median."""
    times = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def in_a_row(call: Callable[[], Any]) -> float:
    """Seconds of a call among ten in a row, by the GPU's clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    torch.cuda.synchronize()
    start.record()
    for _ in range(10):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e4


def of_host(call: Callable[[], Any]) -> float:
    """Seconds until a call that an idle GPU gets returns, without waiting for it: the median."""
    times = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return sorted(times)[len(times) // 2]


def rates(dtype: torch.dtype) -> tuple[float, float]:
    """Bytes per second of a copy, and operations per second of a large matmul."""
    big, square = torch.randn(1 << 28, device="cuda", dtype=dtype), torch.randn(8192, 8192, device="cuda", dtype=dtype)
    copy, multiply = big.clone, lambda: square @ square
    copy()
    multiply()
    return 2 * big.nbytes / waited(copy), 2 * 8192**3 / waited(multiply)


def bounds(profile: Any, bandwidth: float, rate: float) -> dict[str, Any]:
    """The share of the roofline, the worst kernels, and the times of all kernels by the ops that they compute."""
    rows = [(max((r.bytes or 0) / bandwidth, (r.flops or 0) / rate), r) for r in profile.rows]
    total = sum(r.seconds for _, r in rows)
    found = [
        {"kernel": r.kernel.name, "kind": r.kernel.kind, "of_time": r.seconds / total, "of_roofline": bound / r.seconds,
         "us": r.seconds * 1e6, "calls": r.calls, "lost": (r.seconds - bound) / total, "nodes": list(r.kernel.sources)[:3]}
        for bound, r in rows if r.seconds
    ]  # fmt: skip
    found.sort(key=lambda row: -row["lost"])
    kinds: dict[tuple[str, str], dict[str, Any]] = {}
    for bound, r in rows:
        key = r.kernel.name, r.kernel.kind
        of = kinds.setdefault(key, {"kernel": key[0], "kind": key[1], "kernels": 0, "us": 0.0, "bound_us": 0.0})
        of["kernels"] += 1
        of["us"] += r.seconds * 1e6
        of["bound_us"] += bound * 1e6
    return {
        "roofline": sum(b for b, _ in rows) / total,
        "kernels": found[:12],
        "kinds": sorted(kinds.values(), key=lambda of: of["bound_us"] - of["us"]),
        "kernel_seconds": total,
    }


def one(entry: Mapping[str, str], setting: Setting) -> dict[str, Any]:
    """Compiles, waits for a line of standard input, and times. Failures of an engine are texts in the row."""
    dtype = getattr(torch, setting.dtype)
    row: dict[str, Any] = {**entry, **setting.row()}
    module, inputs = made(entry, setting.batch, torch.float32 if setting.training else dtype)
    vary(module, inputs)
    parts = trained(module, inputs, setting, row) if setting.training else inferred(module, inputs, setting, row)
    print(READY, flush=True)
    sys.stdin.readline()  # until the others have compiled, and those before it are timed
    measures = {"seconds": waited}
    gc.collect()
    gc.disable()
    if setting.through == THROUGH[1]:
        measures |= {"in_a_row": in_a_row, "host": of_host}
    for key, measure in measures.items():
        times: dict[str, list[float]] = {}
        for number in range(ROUNDS):
            for name, call in parts.items():
                if name != "eager" or not number:  # eager is slow and decides nothing
                    times.setdefault(name, []).append(measure(call))
        row[key] = {name: sorted(each)[len(each) // 2] for name, each in times.items()}
    row["device"], row["torch"] = torch.cuda.get_device_name(), torch.__version__.split("+")[0]
    profile = row.pop("profile", None)
    if "burn" in parts and profile is not None:
        try:
            bandwidth, rate = rates(dtype)
            row |= bounds(profile(), bandwidth, rate) | {"bandwidth": bandwidth, "rate": rate}
        except Exception as error:  # the times are right all the same
            row["profile failed"] = f"{type(error).__name__}: {error}"[:400]
    return row


def attempted(row: dict[str, Any], name: str, make: Callable[[], Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """An engine's call, after it ran; without one the reason is in the row."""
    start = time.perf_counter()
    try:
        call = make()
        for _ in range(3):
            call()
    except Exception as error:
        row[f"{name} failed"] = f"{type(error).__name__}: {error}"[:400]
        return {}
    finally:
        torch.cuda.empty_cache()  # of the memory that only compiling took
        print(f"{name} {time.perf_counter() - start:.0f} s", flush=True)
    row[f"{name} compiled"] = time.perf_counter() - start
    return {name: call}


def inferred(module: Any, inputs: Any, setting: Setting, row: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    import burn

    module = module.eval()
    torch.set_grad_enabled(False)
    given = tuple(x.cuda() for x in inputs)
    kept: list[Any] = []

    def ours() -> Callable[[], Any]:
        compiled = burn.compile(module, inputs, device="cuda")
        kept.append(compiled)
        return lambda: compiled(*given)

    found = attempted(row, "burn", ours) if setting.through == THROUGH[0] else {}
    if kept:
        row["profile"] = lambda: profiled(kept[0], given)
    if setting.jax:
        found |= attempted(row, JAX, lambda: _compiled_by_xla(module, inputs))
    eager = module.cuda()
    if setting.through == THROUGH[1]:
        found |= attempted(row, "burn", lambda: _compiled_by_torch(eager, None, given, backend="burn"))
    found |= attempted(row, "eager", lambda: lambda: eager(*given))
    for mode in setting.modes:
        found |= attempted(row, mode, lambda mode=mode: _compiled_by_torch(eager, mode, given))
    if "burn" in found and "eager" in found:
        want = found["eager"]()
        row["differs"] = difference(found["burn"](), want)
        if is_wrong(row) and setting.through == THROUGH[0]:  # some models are others while they are traced
            exported = torch.export.export(eager, given).module()
            row["export differs"] = difference(exported(*given), want) > WRONG
    return found


def difference(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest difference over the largest number, or over the least normal number of the type: those below have few bits, and
    some models with random weights return nothing else."""
    least = torch.finfo(want.dtype).tiny if want.is_floating_point() else 1
    return ((got.float() - want.float()).abs().max() / want.float().abs().max().clamp_min(least)).item()


def beyond(got: float, want: Sequence[float]) -> float:
    """The difference of a number from some, as far as it is larger than theirs from each other, over the largest."""
    nearest = min(abs(got - each) for each in want)
    return max(0.0, nearest - (max(want) - min(want))) / max(map(abs, want))


def _compiled_by_torch(module: Any, mode: str | None, given: Any, backend: str = "inductor") -> Callable[[], Any]:
    fast = torch.compile(module, mode=mode, backend=backend)
    return lambda: fast(*given)


def _compiled_by_xla(module: Any, inputs: Sequence[torch.Tensor]) -> Callable[[], Any]:
    """The model as a function of JAX. A call ends when its results are there: JAX returns before it has launched all."""
    import jax

    import burn

    fast = jax.jit(burn.to_jax(module, inputs))
    given = [_of_jax(x) for x in inputs]
    return lambda: jax.block_until_ready(fast(*given))


def _of_jax(tensor: torch.Tensor) -> Any:
    """The tensor as an array of JAX on its first device: numpy, between them, has no bfloat16."""
    from jax import numpy as jnp

    if not tensor.is_floating_point():
        return jnp.asarray(tensor.numpy())
    return jnp.asarray(tensor.float().numpy()).astype(str(tensor.dtype).removeprefix("torch."))


def profiled(compiled: Any, given: Sequence[torch.Tensor]) -> Any:
    """The profile of a compiled module's program."""
    from burn.runtime.device import device
    from burn.runtime.device_array import resident

    tensors = {**compiled._buffers, **compiled._calling.inputs(list(given))}
    arrays = [resident(tensors[spec.name].contiguous(), device("cuda")) for spec in compiled.executable.inputs]
    return compiled.executable.profile(*arrays, repeat=7)


def profiled_step(step: Any, batch: Sequence[Any], repeat: int = 5) -> Any:
    """The profile of so many steps on a batch. They move nothing."""
    program, leaves = step.compiled.program_of(tuple(batch), {})
    arrays = [leaf.numpy() for leaf in leaves]
    return program.function.executable.profile(*arrays, *program.elements, repeat=repeat)


def trained(module: Any, inputs: Any, setting: Setting, row: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Steps of AdamW on the mean square of the result."""
    import burn
    from burn import optim, train

    module = module.train()
    given = tuple(x.cuda() for x in inputs)
    arrays = [x.numpy() for x in inputs]

    def ours() -> Callable[[], Any]:
        twin = burn.compile(module, inputs, train=True)
        step = train.step(
            twin, lambda m, *x: (m(*x) ** 2).mean(), optim.AdamW(twin, lr=1e-4), precision=setting.dtype, device="cuda"
        )
        sent = [burn.tensor(a).to("cuda") for a in arrays]
        row["profile"] = lambda: profiled_step(step, sent)
        return lambda: float(step(*sent))

    def loss_of(result: torch.Tensor) -> torch.Tensor:
        return (result.float() ** 2).mean()

    def theirs(model: Any) -> Callable[[], Any]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def step() -> torch.Tensor:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", getattr(torch, setting.dtype)):
                result = model(*given)
            loss = loss_of(result)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def losses() -> list[float]:
        with torch.no_grad(), torch.autocast("cuda", getattr(torch, setting.dtype)):
            return [loss_of(eager(*given)).item() for _ in range(LOSSES)]

    ours_lost: list[float] = []
    eager_lost: list[float] = []

    def noting(call: Callable[[], Any], lost: list[float]) -> Callable[[], Any]:
        """The call, with the losses of its first steps noted."""
        lost += [float(call()) for _ in range(STEPS)]
        return call

    found = attempted(row, "burn", lambda: noting(ours(), ours_lost)) if setting.through == THROUGH[0] else {}
    eager = module.cuda()
    expected = losses()  # with the first weights: PyTorch has made no step yet
    if setting.through == THROUGH[1]:
        # torch.compile shares the parameters, so eager's steps come first, and the weights are put back
        start = {name: value.clone() for name, value in eager.state_dict().items()}
        found |= attempted(row, "eager", lambda: noting(theirs(eager), eager_lost))
        eager.load_state_dict(start)
        found |= attempted(row, "burn", lambda: noting(theirs(torch.compile(eager, backend="burn")), ours_lost))
    else:
        found |= attempted(row, "eager", lambda: noting(theirs(eager), eager_lost))
    if ours_lost:
        row["differs"] = beyond(ours_lost[0], expected)
    if ours_lost and eager_lost:
        spread = max(expected) - min(expected)
        row["differs later"] = beyond(ours_lost[-1], [eager_lost[-1] - spread / 2, eager_lost[-1] + spread / 2])
    for mode in setting.modes:
        found |= attempted(row, mode, lambda mode=mode: theirs(torch.compile(eager, mode=mode)))
    return found
