"""Models in float32 on an NVIDIA GPU: burn in its three ways of multiplying, beside PyTorch with and without TF32.

    python benchmarks/gpu_float32.py                     # a table in Markdown: times of calls, and errors
    python benchmarks/gpu_float32.py --model BERT

Needs a GPU, PyTorch, torchvision and transformers. Weights are random. A time is that of a synchronised call from device tensors
to device tensors, the median of alternating calls. An error is the largest difference from PyTorch in float64 for two rows of the
batch, over the largest result.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rows.timing import by_turns, waited
from webgpu import models

import burn
from burn.runtime.device import device

CHECKED = 2
WAYS: dict[str, dict[str, Any]] = {
    "burn, exact": {"exact": True},
    "burn": {},
    'burn, "tf32"': {"precision": "tf32"},
}
TORCH = {"torch": False, "torch, TF32": True}


def measure(module: torch.nn.Module, x: torch.Tensor) -> dict[str, tuple[float, float]]:
    """Milliseconds and error of each way."""
    few = x[:CHECKED]
    want = module.double()(few.double() if few.is_floating_point() else few).detach().numpy()
    module.float()
    results: dict[str, Any] = {}
    calls: dict[str, Callable[[], Any]] = {}
    for name, options in WAYS.items():
        run = burn.compile(module, (x,), cache=False, device="cuda", **options).executable
        given = burn.tensor(x.numpy()).to("cuda")
        results[name] = np.asarray(run(given))
        calls[name] = lambda run=run, given=given: (run(given), device("cuda").wait())
    peer, there = module.cuda(), x.cuda()
    for name, rounds in TORCH.items():

        def call(rounds: bool = rounds) -> torch.Tensor:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = rounds
            with torch.no_grad():
                return peer(there)

        results[name], calls[name] = call().cpu().numpy(), call
    errors = {name: float(np.abs(got[:CHECKED] - want).max() / np.abs(want).max()) for name, got in results.items()}
    return {name: (1e3 * seconds, errors[name]) for name, seconds in by_turns(calls, waited, waited).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="models whose names contain it")
    arguments = parser.parse_args()
    columns = [*WAYS, *TORCH]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: ms, and the error\n")
    print("| model |", " | ".join(columns), "|\n| --- |", " | ".join("---" for _ in columns), "|")
    for name, make in models().items():
        if arguments.model in name:
            torch.manual_seed(0)
            module, x = make()
            row = measure(module.eval(), x)
            print(f"| {name} |", " | ".join(f"{row[c][0]:.2f}, {row[c][1]:.0e}" for c in columns), "|", flush=True)


if __name__ == "__main__":
    main()
