"""burn on a GPU against PyTorch: kernels, whole models and training steps, alternating in one process. Writes benchmarks/gpu.md.

    python benchmarks/gpu.py --output benchmarks/gpu.md
    python benchmarks/gpu.py --part training --model bert-base --peers burn,torch     # a part of it
    python benchmarks/gpu.py --part kernels --row gradient                            # rows whose names have that pattern

Needs a GPU, PyTorch for it, torchvision and transformers. A kernel's time is that of many calls in a row between two events
on the GPU, for both libraries. A model's time is that of a synchronised call on the host's clock, from device tensors to device
tensors. Figures are medians.
"""

from __future__ import annotations

import argparse
import datetime
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from rows import decoding, kernels, models, windows
from rows.timing import Row, attempt, table

from burn.bench.interleave import Plan
from burn.bench.training import Setting, measure
from burn.bench.twins import GPU_CASES
from burn.runtime.device import device

_WAITED = "One synchronised call on tensors in GPU memory; `torch.compile` in its mode `reduce-overhead`."

CALLS = {
    "kernels": ("Many calls in a row, timed by the GPU's clock.", kernels.cases),
    "convolutions": (
        "Layers with groups, drawn from models (fp16). Kernels by the GPU's clock, inputs not in the cache.",
        windows.cases,
    ),
    "models": (_WAITED, models.cases),
    "decoding": (f"{_WAITED} Keys and values are in tensors of fixed size.", decoding.cases),
}
PARTS = (*CALLS, "training")

# ---- training ------------------------------------------------------------------------------------------------------------


def training(names: Sequence[str], peers: list[str]) -> list[Row]:
    """Steps in bfloat16, of matmuls alone, from the same weights, whose losses agree."""
    setting, rows = Setting(threads=8, device="cuda", precision="bfloat16"), []
    for name in names:
        try:
            with torch.enable_grad():
                found = measure(name, peers, setting, Plan(runs=8, rounds=2), memory=False)
        except Exception as error:  # the other models are timed all the same
            print(f"{name}: {type(error).__name__}: {error}"[:600], flush=True)
            continue
        times = {peer: timing.median for peer, timing in found.timings.items()}
        print(f"{name}: {times}, losses {found.losses}", flush=True)
        shape = "x".join(map(str, GPU_CASES[name].shape))
        rows.append(Row(f"{name} {shape}", times.pop("burn"), times))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="where to write the tables")
    parser.add_argument("--part", action="append", choices=PARTS, help="only that; repeatable")
    parser.add_argument(
        "--model", action="append", choices=list(GPU_CASES), help="of those that are trained; repeatable"
    )
    parser.add_argument(
        "--row", default="", help="only rows of kernels, models and decoding whose names this pattern finds"
    )
    parser.add_argument("--peers", default="burn,torch,torch.compile", help="what trains")
    args = parser.parse_args()
    wanted = args.part or PARTS
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    facts = device("cuda").facts()
    parts = [
        "# burn on a GPU, beside PyTorch",
        f"Written by `python benchmarks/gpu.py` on {datetime.date.today()}: {facts['name']}, driver's interface "
        f"{facts['driver'] // 1000}.{facts['driver'] % 1000 // 10}, PyTorch {torch.__version__.split('+')[0]}. Smaller is "
        "better; torch's time is that of its fastest way.",
    ]
    for name, (about, cases) in CALLS.items():
        if name in wanted:
            parts += [f"## {name.capitalize()}\n\n{about}", table(attempt(cases(), args.row))]
    if "training" in wanted:
        about = "Steps of AdamW in bfloat16 in a row, each until its loss is read (torch: autocast, fused AdamW)."
        rows = training(args.model or list(GPU_CASES), args.peers.split(","))
        parts += [f"## Training\n\n{about}", table(rows)]
    text = "\n\n".join(parts) + "\n"
    print(text)
    if args.output:
        args.output.write_text(text)


if __name__ == "__main__":
    main()
