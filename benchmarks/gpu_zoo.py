"""Models whose names are drawn from packages' lists, on a GPU: burn against PyTorch. Writes benchmarks/gpu_zoo.md.

    python benchmarks/gpu_zoo.py list --output benchmarks/zoo_models.json      # draws the names
    python benchmarks/gpu_zoo.py run --models benchmarks/zoo_models.json --results rows.jsonl --seconds 500
    python benchmarks/gpu_zoo.py run ... --batch 1 --dtype bfloat16            # other settings append to the same file
    python benchmarks/gpu_zoo.py run ... --training                            # steps instead of inference
    python benchmarks/gpu_zoo.py run ... --through torch.compile               # burn as its backend
    python benchmarks/gpu_zoo.py write --results rows.jsonl --output benchmarks/gpu_zoo.md

Needs a GPU, PyTorch, timm, torchvision and transformers; diffusers adds its models. Weights are random. Each model runs in a
process of its own: `--jobs` of them compile at once, and are then timed one after another. A time is that of a synchronised
call on the host's clock, from device tensors to device tensors; figures are medians of alternating calls. Calls through
torch.compile have two more times: of a call among ten in a row by the GPU's clock, and the host's.
The latter ends when a call returns that an idle GPU gets.

The bound of a kernel is the larger of its bytes over the bandwidth of a copy and its operations over the rate of a large matmul.
The share of the roofline is the sum of the bounds over that of the times. The worst kernel is furthest above its bound.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

SEED = 32
DRAWN = {"timm": 70, "torchvision": 12, "encoder": 6, "decoder": 6, "encoder-decoder": 4, "diffusers": 4}
"""The most names of each list."""

MOST_PARAMETERS = 4e8
TIMEOUT = 280
ROUNDS, CALLS = 5, 8
READY = "ready"
THROUGH = ("burn.compile", "torch.compile")
"""How burn gets a model; for training steps the first is `burn.train.step`."""


# ---- names ---------------------------------------------------------------------------------------------------------------
def smallest_of_family(module: str) -> tuple[str, int] | None:
    """timm's smallest model of a module, by parameters."""
    import timm

    best: tuple[str, int] | None = None
    names = [n for n in timm.list_models(module=module) if not n.startswith("test_")]  # of timm's own tests
    for name in random.Random(SEED).sample(names, min(len(names), 40)):
        try:
            with torch.device("meta"):
                size = sum(p.numel() for p in timm.create_model(name).parameters())
        except Exception:  # a model that needs another package, or cannot be made without memory
            continue
        best = min(best or (name, size), (name, size), key=lambda pair: pair[1])
    return best


def transformers_names(kind: str) -> list[str]:
    """Types of models with default configurations of moderate size."""
    from transformers.models.auto import modeling_auto

    causal, both = (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    )
    masked = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    lists = {
        "decoder": set(causal) - set(masked) - set(both),
        "encoder": set(masked) - set(both),
        "encoder-decoder": set(both),
    }
    return sorted(lists[kind])


def drawn_names() -> list[dict[str, str]]:
    import timm
    import torchvision

    found: list[dict[str, str]] = []
    modules = sorted(timm.list_modules())
    with ProcessPoolExecutor() as pool:
        best = [pair for pair in pool.map(smallest_of_family, modules) if pair is not None]
    rng = random.Random(SEED)
    small = [name for name, size in best if size < MOST_PARAMETERS]
    found += [{"list": "timm", "name": n} for n in rng.sample(small, min(len(small), DRAWN["timm"]))]
    names = torchvision.models.list_models(module=torchvision.models)
    found += [{"list": "torchvision", "name": n} for n in rng.sample(names, DRAWN["torchvision"])]
    for kind in ("encoder", "decoder", "encoder-decoder"):
        names = transformers_names(kind)
        rng.shuffle(names)
        with ProcessPoolExecutor() as pool:
            sizes = pool.map(_parameters, names[:40])
            small = [n for n, size in zip(names, sizes, strict=False) if 0 < size < MOST_PARAMETERS]
        found += [{"list": kind, "name": n} for n in small[: DRAWN[kind]]]
    found += [{"list": "diffusers", "name": n} for n in _diffusers()]
    return found


def _parameters(name: str) -> int:
    """Those of a model with its default configuration; 0 if there is none."""
    from transformers import AutoConfig, AutoModel

    try:
        with torch.device("meta"):
            return sum(p.numel() for p in AutoModel.from_config(AutoConfig.for_model(name)).parameters())
    except Exception:
        return 0


DIFFUSION = {
    "UNet2DModel": {"sample_size": 64, "block_out_channels": (128, 256, 256, 512)},
    "UNet2DConditionModel": {"sample_size": 32, "cross_attention_dim": 768},
    "DiTTransformer2DModel": {"num_attention_heads": 12, "attention_head_dim": 64, "sample_size": 32, "num_layers": 12},
    "AutoencoderKL": {"sample_size": 128, "block_out_channels": (64, 128), "latent_channels": 4,
                      "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2},
}  # fmt: skip


def _diffusers() -> list[str]:
    try:
        import diffusers
    except ImportError:
        return []
    return [name for name in DIFFUSION if hasattr(diffusers, name)]


# ---- models ------------------------------------------------------------------------------------------------------------------
class Tensors(torch.nn.Module):
    """The first floating-point tensor of a model's result."""

    def __init__(self, model: torch.nn.Module, given: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.model, self.given = model, dict(given or {})

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return _first(self.model(*args, **self.given))


def _first(found: Any) -> torch.Tensor:
    if isinstance(found, torch.Tensor):
        return found
    values = found.values() if isinstance(found, Mapping) else found
    return next(v for v in map(_first, values) if v is not None)


def made(entry: Mapping[str, str], batch: int, dtype: torch.dtype) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A model with random weights on the CPU, and its inputs."""
    name = entry["name"]
    torch.manual_seed(0)
    match entry["list"]:
        case "timm":
            import timm

            model = timm.create_model(name)
            inputs: tuple[torch.Tensor, ...] = (torch.randn(batch, *model.default_cfg["input_size"], dtype=dtype),)
        case "torchvision":
            import torchvision

            model = torchvision.models.get_model(name, weights=None)
            size = 299 if "inception" in name else 224
            inputs = (torch.randn(batch, 3, size, size, dtype=dtype),)
        case "diffusers":
            import diffusers

            model = getattr(diffusers, name)(**DIFFUSION[name])
            size, channels = model.config.sample_size, model.config.in_channels
            image, steps = torch.randn(batch, channels, size, size, dtype=dtype), torch.randint(0, 999, (batch,))
            context = torch.randn(batch, 77, 768, dtype=dtype)
            given = {"return_dict": False} | (
                {"class_labels": torch.zeros(batch, dtype=torch.int64)} if "DiT" in name else {}
            )
            inputs = (image,) if name.startswith("Auto") else (image, steps)
            inputs = (*inputs, context) if name == "UNet2DConditionModel" else inputs
            return Tensors(model, {k: v for k, v in given.items() if not isinstance(v, torch.Tensor)}).to(dtype), inputs
        case kind:
            from transformers import AutoConfig, AutoModel

            config = AutoConfig.for_model(name, use_cache=False)
            tokens = torch.randint(5, min(1000, getattr(config, "vocab_size", 1000)), (batch, 128))
            inputs = (tokens,)
            model = AutoModel.from_config(config)
            if kind == "encoder-decoder":
                return Both(model).to(dtype), (tokens, tokens[:, :32].contiguous())
    return Tensors(model).to(dtype), inputs


class Both(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, decoder_ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, decoder_input_ids=decoder_ids)[0]


# ---- one model -----------------------------------------------------------------------------------------------------------
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
    """The share of the roofline, and the worst kernel."""
    rows = [(max((r.bytes or 0) / bandwidth, (r.flops or 0) / rate), r) for r in profile.rows]
    total = sum(r.seconds for _, r in rows)
    found = [
        {"kernel": r.kernel.name, "kind": r.kernel.kind, "of_time": r.seconds / total, "of_roofline": bound / r.seconds,
         "us": r.seconds * 1e6, "calls": r.calls, "lost": (r.seconds - bound) / total, "nodes": list(r.kernel.sources)[:3]}
        for bound, r in rows if r.seconds
    ]  # fmt: skip
    found.sort(key=lambda row: -row["lost"])
    return {"roofline": sum(b for b, _ in rows) / total, "kernels": found[:12], "kernel_seconds": total}


def one(entry: Mapping[str, str], args: argparse.Namespace) -> dict[str, Any]:
    """Times one model in this process. Failures of an engine are texts in the row."""
    dtype = getattr(torch, args.dtype)
    row: dict[str, Any] = {**entry, **setting(args)}
    module, inputs = made(entry, args.batch, torch.float32 if args.training else dtype)
    parts = trained(module, inputs, args, row) if args.training else inferred(module, inputs, args, row)
    print(READY, flush=True)
    sys.stdin.readline()  # until the others have compiled, and those before it are timed
    measures = {"seconds": waited}
    if args.through == THROUGH[1]:
        measures |= {"in_a_row": in_a_row, "host": of_host}
    for key, measure in measures.items():
        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, call in parts.items():
                times.setdefault(name, []).append(measure(call))
        row[key] = {name: sorted(each)[len(each) // 2] for name, each in times.items()}
    if "burn" in parts and "profile" in row:
        bandwidth, rate = rates(dtype)
        row |= bounds(row.pop("profile")(), bandwidth, rate) | {"bandwidth": bandwidth, "rate": rate}
    row["device"], row["torch"] = torch.cuda.get_device_name(), torch.__version__.split("+")[0]
    row.pop("profile", None)
    return row


def setting(args: argparse.Namespace) -> dict[str, Any]:
    """The part of a row that says how it was made."""
    return {"batch": args.batch, "dtype": args.dtype, "training": args.training, "through": args.through}


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
    row[f"{name} compiled"] = time.perf_counter() - start
    return {name: call}


def inferred(module: Any, inputs: Any, args: argparse.Namespace, row: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    import burn

    module = module.eval()
    torch.set_grad_enabled(False)
    given = tuple(x.cuda() for x in inputs)
    kept: list[Any] = []

    def ours() -> Callable[[], Any]:
        compiled = burn.compile(module, inputs, device="cuda")
        kept.append(compiled)
        return lambda: compiled(*given)

    found = attempted(row, "burn", ours) if args.through == THROUGH[0] else {}
    if kept:
        row["profile"] = lambda: profiled(kept[0], given)
    eager = module.cuda()
    if args.through == THROUGH[1]:
        found |= attempted(row, "burn", lambda: _compiled_by_torch(eager, None, given, backend="burn"))
    found |= attempted(row, "eager", lambda: lambda: eager(*given))
    for mode in args.mode:
        found |= attempted(row, mode, lambda mode=mode: _compiled_by_torch(eager, mode, given))
    if "burn" in found and "eager" in found:
        got, want = found["burn"]().float(), found["eager"]().float()
        row["differs"] = ((got - want).abs().max() / want.abs().max().clamp_min(1e-9)).item()
    return found


def _compiled_by_torch(module: Any, mode: str | None, given: Any, backend: str = "inductor") -> Callable[[], Any]:
    fast = torch.compile(module, mode=mode, backend=backend)
    return lambda: fast(*given)


def profiled(compiled: Any, given: Sequence[torch.Tensor]) -> Any:
    """The profile of a compiled module's program."""
    from burn.runtime.device import device
    from burn.runtime.device_array import resident

    tensors = {**compiled._buffers, **compiled._calling.inputs(list(given))}
    arrays = [resident(tensors[spec.name].contiguous(), device("cuda")) for spec in compiled.executable.inputs]
    return compiled.executable.profile(*arrays, repeat=7)


def trained(module: Any, inputs: Any, args: argparse.Namespace, row: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Steps of AdamW on the mean square of the result."""
    import burn
    from burn import optim, train

    module = module.train()
    given = tuple(x.cuda() for x in inputs)
    arrays = [x.numpy() for x in inputs]

    def ours() -> Callable[[], Any]:
        twin = burn.compile(module, inputs, train=True)
        step = train.step(
            twin, lambda m, *x: (m(*x) ** 2).mean(), optim.AdamW(twin, lr=1e-4), precision=args.dtype, device="cuda"
        )
        sent = [burn.tensor(a).to("cuda") for a in arrays]
        return lambda: float(step(*sent))

    def theirs(model: Any) -> Callable[[], Any]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def step() -> torch.Tensor:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", getattr(torch, args.dtype)):
                result = model(*given)
            loss = (result.float() ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    found = attempted(row, "burn", ours) if args.through == THROUGH[0] else {}
    eager = module.cuda()
    if args.through == THROUGH[1]:
        found |= attempted(row, "burn", lambda: theirs(torch.compile(eager, backend="burn")))
    found |= attempted(row, "eager", lambda: theirs(eager))
    for mode in args.mode:
        found |= attempted(row, mode, lambda mode=mode: theirs(torch.compile(eager, mode=mode)))
    return found


# ---- all of them -----------------------------------------------------------------------------------------------------------
def run(args: argparse.Namespace) -> None:
    """Runs models in processes of their own, a wave at a time, until the time is over, and appends rows to the results."""
    entries = json.loads(args.models.read_text())[args.first :]
    end = time.monotonic() + args.seconds
    with args.results.open("a") as file:
        for start in range(0, len(entries), args.jobs):
            if time.monotonic() > end:
                print(f"{len(entries) - start} models are left: --first {args.first + start}")
                break
            for row in wave(entries[start : start + args.jobs], args, end):
                print(shown(row), flush=True)
                file.write(json.dumps(row) + "\n")
                file.flush()


def wave(entries: Sequence[Mapping[str, str]], args: argparse.Namespace, end: float) -> Iterator[dict[str, Any]]:
    """The rows of some models, which compile at once."""
    settings = ["--batch", str(args.batch), "--dtype", args.dtype, "--through", args.through]
    settings += ["--training"] * args.training
    settings += [x for mode in args.mode for x in ("--mode", mode)]
    with ExitStack() as stack:
        errors = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in entries]
        running = [
            subprocess.Popen(
                [sys.executable, __file__, "one", json.dumps(entry), *settings],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=error,
                text=True,
            )
            for entry, error in zip(entries, errors, strict=True)
        ]
        pool = stack.enter_context(ThreadPoolExecutor(len(running)))
        ready = [pool.submit(_until_ready, process) for process in running]
        wait(ready, max(0.0, min(end - time.monotonic(), TIMEOUT)))
        late = [process for process, state in zip(running, ready, strict=True) if not state.done()]
        for process in late:
            process.kill()
        for entry, process, error in zip(entries, running, errors, strict=True):
            row = {**entry, **setting(args)}
            if process in late:
                if time.monotonic() < end:
                    yield row | {"failed": f"compiling took more than {TIMEOUT} s"}
            elif timed := _timed(process, pool):
                yield json.loads(timed)
            else:
                error.seek(0)
                yield row | {"failed": error.read()[-600:]}


def _until_ready(process: subprocess.Popen[str]) -> bool:
    """Reads a process's output until its model is compiled; False if it ended."""
    assert process.stdout is not None
    return any(line.strip() == READY for line in process.stdout)


def _timed(process: subprocess.Popen[str], pool: ThreadPoolExecutor) -> str | None:
    """Lets a process time its model; returns the row as text, None if it failed."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write("\n")
        process.stdin.flush()
        output = pool.submit(process.stdout.read).result(TIMEOUT)
    except (BrokenPipeError, TimeoutError):
        return None
    finally:
        if process.poll() is None:
            process.kill()
    return next((line for line in output.splitlines() if line.startswith("{")), None)


def shown(row: Mapping[str, Any]) -> str:
    times = " ".join(f"{name} {1e3 * s:.3f}" for name, s in row.get("seconds", {}).items())
    problems = "; ".join(f"{k}: {v}"[:160] for k, v in row.items() if k.endswith("failed"))
    return f"{row['list']} {row['name']} b{row['batch']} {row['dtype']}: {times} differs {row.get('differs', 0):.1e} {problems}"


# ---- tables ----------------------------------------------------------------------------------------------------------------
def ratio(row: Mapping[str, Any]) -> float | None:
    """torch.compile's best time over burn's; eager's if it failed."""
    seconds = dict(row.get("seconds", {}))
    own, eager = seconds.pop("burn", None), seconds.pop("eager", None)
    best = min(seconds.values(), default=eager)
    return best / own if own and best else None


def mean(numbers: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else 0.0


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    modes = sorted(
        {name for row in rows for name in row.get("seconds", {})} - {"burn"}, key=lambda m: (m != "eager", m)
    )
    names = ["model", "burn ms", *(f"{mode} ms" for mode in modes), "ratio"]
    more = [key for key in TIMES if any(key in row for row in rows)]
    names += [f"{TIMES[key]}, burn / {mode}" for key in more for mode in modes if mode != "eager"]
    have_profiles = any("roofline" in row for row in rows)
    names += ["of the roofline", "worst kernel"] if have_profiles else []
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"
    for row in sorted(rows, key=lambda row: ratio(row) or 0):
        if "burn" not in row.get("seconds", {}):
            continue
        cells = [f"{row['list']} {row['name']}"]
        cells += [f"{1e3 * row['seconds'][m]:.3f}" if m in row["seconds"] else "" for m in ("burn", *modes)]
        found = ratio(row)
        cells.append("" if found is None else f"{found:.2f}")
        cells += [_pair(row.get(key, {}), mode) for key in more for mode in modes if mode != "eager"]
        if not have_profiles:
            yield f"| {' | '.join(cells)} |"
            continue
        cells.append(f"{row['roofline']:.0%}" if "roofline" in row else "")
        worst = row.get("kernels", [None])[0]
        text = (
            ""
            if worst is None
            else f"{worst['kernel']}: {worst['of_time']:.0%} of the time, {worst['of_roofline']:.0%} of its roofline"
        )
        yield f"| {' | '.join([*cells, text])} |"


TIMES = {"in_a_row": "in a row", "host": "host"}
"""Times besides that of a synchronised call, by their keys in a row."""


def _pair(times: Mapping[str, float], mode: str) -> str:
    return f"{1e3 * times['burn']:.3f} / {1e3 * times[mode]:.3f}" if "burn" in times and mode in times else ""


def write(args: argparse.Namespace) -> None:
    rows = [json.loads(line) for line in args.results.read_text().splitlines()]
    devices = sorted({row["device"] for row in rows if "device" in row})
    versions = sorted({row["torch"] for row in rows if "torch" in row})
    lines = [
        "# Models drawn from packages' lists, on a GPU",
        f"Written by `python benchmarks/gpu_zoo.py write` on {datetime.date.today()}: {', '.join(devices)}. PyTorch "
        f"{', '.join(versions)}. Random weights. Ratio: the best time of torch.compile over burn's (eager's if "
        "torch.compile failed). The script says how names are drawn and how the roofline is counted.",
    ]
    names = ("training", "batch", "dtype", "through")
    for key in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
        mine = [row for row in rows if tuple(row[name] for name in names) == key]
        training, batch, dtype, through = key
        ratios = [r for row in mine if (r := ratio(row)) is not None]
        kind = "Training steps" if training else "Inference"
        by = "" if through == THROUGH[0] else ', `torch.compile(backend="burn")`'
        lines.append(f"## {kind}, batch {batch}, {dtype}{by}")
        below = sum(r < 1 for r in ratios)
        lines.append(
            f"{len(ratios)} models: geometric mean {mean(ratios):.2f}, {below} below 1. "
            f"{len(mine) - len(ratios)} without a ratio."
        )
        lines.append("\n".join(table(mine)))
        failed = [f"- {row['list']} {row['name']}: {reason(row)}" for row in mine if ratio(row) is None]
        if failed:
            lines.append("Without a ratio:\n\n" + "\n".join(failed))
    args.output.write_text("\n\n".join(lines) + "\n")


def reason(row: Mapping[str, Any]) -> str:
    text = next((str(v) for k, v in row.items() if k in ("failed", "burn failed")), "not timed")
    return " ".join(text.split())[:200]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", help="draws the names")
    listed.add_argument("--output", type=Path, required=True)
    for name, about in (("run", "times the models"), ("one", "times one model in this process")):
        part = commands.add_parser(name, help=about)
        part.add_argument("--batch", type=int, default=32)
        part.add_argument("--dtype", choices=("float16", "bfloat16"), default="float16")
        part.add_argument("--training", action="store_true", help="steps instead of inference")
        part.add_argument("--through", choices=THROUGH, default=THROUGH[0])
        part.add_argument("--mode", action="append", help="of torch.compile; repeatable")
        if name == "one":
            part.add_argument("entry", type=json.loads)
            continue
        part.add_argument("--models", type=Path, required=True)
        part.add_argument("--results", type=Path, required=True)
        part.add_argument("--first", type=int, default=0, help="the number of models to skip")
        part.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) * 3 // 4))
        part.add_argument("--seconds", type=float, default=math.inf, help="after which no model is started")
    written = commands.add_parser("write", help="writes the page")
    written.add_argument("--results", type=Path, required=True)
    written.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    if args.command in ("run", "one"):
        args.mode = args.mode or ["reduce-overhead"]
    match args.command:
        case "list":
            args.output.write_text(json.dumps(drawn_names(), indent=1) + "\n")
        case "run":
            run(args)
        case "one":
            print(json.dumps(one(args.entry, args)), flush=True)
        case "write":
            write(args)


if __name__ == "__main__":
    main()
