"""The table of architectures in docs/guide/pytorch.md: `python -m tests.importers.torch.architectures [--update] [NAME ...]`.

Each architecture of `tests/models/architectures.py` is compared with eager torch. `torch.compile(backend="burn")` runs it forward
at two sizes and computes the gradients of all parameters. `burn.compile` runs it forward with dynamic sizes. `generate()` makes
some greedy tokens with its cache. A failure is repeated without burn: `torch.compile(backend="aot_eager")` and torch.export alone
show torch's own errors. Exits with 1 if burn fails or is above its tolerance.
"""

from __future__ import annotations

import argparse
import copy
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

import burn
from burn.importers.torch.export import export
from tests.architectures.shaken import with_noise
from tests.models.architectures import ARCHITECTURES, Architecture, Inputs
from tests.onnx_suite.pool import Died, Pool

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "pytorch.md"
BEGIN, END = "<!-- architectures: begin -->", "<!-- architectures: end -->"
TOLERANCE = 1e-4
NOISE = 8
"""A larger difference is accepted if burn is at most so many times as far from float64 as torch itself."""
SHAKES = 3
"""So many draws of noise show what rounding alone does."""
NEW_TOKENS = 4
TIMEOUT = 600.0
SHOWN = 60
"""So much of an error is shown in the table."""


# ---- differences --------------------------------------------------------------------------------------------------------
def leaves(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, whatever they are kept in; caches are left out."""
    if isinstance(result, dict):
        return [t for key, value in result.items() if "past_key" not in key for t in leaves(value)]
    if isinstance(result, (list, tuple)):
        return [t for value in result for t in leaves(value)]
    return [result] if isinstance(result, torch.Tensor) else []


def tensors(result: Any) -> list[torch.Tensor]:
    return [t.detach() for t in leaves(result)]


def worst(got: list[torch.Tensor], want: list[torch.Tensor]) -> float:
    """The largest |got - want| / (1 + |want|); infinite where types, shapes or NaNs differ, or integers."""
    if len(got) != len(want):
        return float("inf")
    return max((_worst(*pair) for pair in zip(got, want, strict=True)), default=0.0)


def _worst(a: torch.Tensor, b: torch.Tensor) -> float:
    if a.shape != b.shape or a.dtype != b.dtype or not torch.equal(a.isfinite(), b.isfinite()):
        return float("inf")
    if not b.is_floating_point():
        return 0.0 if torch.equal(a, b) else float("inf")
    finite = b.isfinite()
    return ((a - b).abs() / (1 + b.abs()))[finite].max().item() if finite.any() else 0.0


def judged(got: list[torch.Tensor], want: list[torch.Tensor], exact: Callable[[], list[torch.Tensor]]) -> str:
    """The error as text. An error above the tolerance is compared with torch's own error and with the effect of rounding in
    float64 (`tests/architectures/shaken.py`). Raises AssertionError if it is larger than both."""
    error = worst(got, want)
    if error > TOLERANCE:
        truth = exact()
        ours, theirs = (worst([_wide(t) for t in side], truth) for side in (got, want))
        assert theirs < float("inf"), (
            "torch and float64 cannot be compared: they differ in types, shapes, NaNs or integers"
        )
        if ours > NOISE * theirs + TOLERANCE:
            noise = max(_moved(exact, truth, seed) for seed in range(SHAKES))
            assert ours <= NOISE * noise < float("inf"), (
                f"{error:.1e} from torch, {ours:.1e} from float64 (torch {theirs:.1e}, rounding {noise:.1e})"
            )
    return f"{error:.1e}"


def _moved(exact: Callable[[], list[torch.Tensor]], truth: list[torch.Tensor], seed: int) -> float:
    """The largest relative change of float64 results that noise of float32's size causes."""
    with with_noise(seed):
        shaken = exact()
    return worst(shaken, truth)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


# ---- ways to run --------------------------------------------------------------------------------------------------------
def double(inputs: Inputs) -> Inputs:
    return {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}


def forward(case: Architecture, model: Any, backend: str) -> str:
    """Through torch.compile, at every size."""
    compiled = torch.compile(model, backend=backend)
    got, want, exact = [], [], []
    with torch.no_grad():
        for size in case.sizes:
            inputs = case.inputs(*size)
            got += tensors(compiled(**inputs))
            want += tensors(model(**inputs))
            exact.append(inputs)
    return judged(got, want, lambda: [t for i in exact for t in tensors(copy.deepcopy(model).double()(**double(i)))])


def backward(case: Architecture, model: Any, backend: str) -> str:
    """The gradients of all parameters, each against the largest of the model, so that what hardly matters hardly counts."""

    def gradients(run: Any, owner: Any, inputs: Inputs) -> list[torch.Tensor]:
        owner.zero_grad()
        generator = torch.Generator().manual_seed(5)
        outputs = [t for t in leaves(run(**inputs)) if t.requires_grad]
        weights = [torch.randn(t.shape, generator=generator).to(t.dtype) for t in outputs]
        torch.autograd.backward(outputs, weights)
        return [p.grad.clone() for p in owner.parameters() if p.grad is not None]

    inputs = case.inputs(*case.sizes[0])
    want = gradients(model, model, inputs)
    got = gradients(torch.compile(model, backend=backend), model, inputs)

    def exact() -> list[torch.Tensor]:
        twin = copy.deepcopy(model).double()
        return gradients(twin, twin, double(inputs))

    return judged(got, want, exact)


def direct(case: Architecture, model: Any, backend: str) -> str:
    """Through burn.compile, the batch named."""
    inputs = case.inputs(*case.sizes[0])
    dynamic = {name: {0: "batch"} for name in inputs}
    if backend == OURS:
        compiled = burn.compile(model, (), dynamic, kwargs=inputs)
    else:
        compiled = export(model, (), inputs, dynamic).program.module()
    with torch.no_grad():
        return judged(
            tensors(compiled(**inputs)),
            tensors(model(**inputs)),
            lambda: tensors(copy.deepcopy(model).double()(**double(inputs))),
        )


def generate(case: Architecture, model: Any, backend: str) -> str:
    """Greedy tokens with a cache: the same ones, and their logits."""
    if not case.generates:
        return ""
    prompt = {"input_ids": case.inputs(2, 5)["input_ids"]}
    options = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False, "use_cache": True}
    options |= {"return_dict_in_generate": True, "output_logits": True}
    want = model.generate(**prompt, **options)
    eager, model.forward = model.forward, torch.compile(model.forward, backend=backend)
    try:
        got = model.generate(**prompt, **options)
    finally:
        model.forward = eager
    assert torch.equal(got.sequences, want.sequences), "other tokens"
    return judged(
        list(got.logits),
        list(want.logits),
        lambda: list(copy.deepcopy(model).double().generate(**prompt, **options).logits),
    )


WAYS: dict[str, Callable[[Architecture, Any, str], str]] = {
    "forward": forward,
    "backward": backward,
    "`burn.compile`": direct,
    "`generate()`": generate,
}
OURS, THEIRS = "burn", "aot_eager"


class Cell(NamedTuple):
    """How one way went: the error, or what was raised. fault: "ours" or "torch's" where something was."""

    text: str
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.fault}: {self.text[:SHOWN].replace('|', '/')}" if self.fault else self.text


def run(name: str, ways: Sequence[str] = tuple(WAYS)) -> list[Cell]:
    """One row: how each way went."""
    case = ARCHITECTURES[name]
    model = case.build()
    return [_cell(case, model, WAYS[way]) for way in ways]


def _cell(case: Architecture, model: Any, way: Callable[[Architecture, Any, str], str]) -> Cell:
    reason = ""
    for backend in (OURS, THEIRS):
        torch._dynamo.reset()
        try:
            error = way(case, model, backend)
            return Cell(reason, "ours") if reason else Cell(error)
        except Exception as error:  # the other ways are still tried; the exit status tells
            reason = reason or _text(error)
    return Cell(reason, "torch's")


def _text(error: Any) -> str:
    while getattr(error, "inner_exception", None) is not None:
        error = error.inner_exception
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


def in_a_worker(name: str) -> list[tuple[str, ...]]:
    """`run`, without the warnings of torch and transformers."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    return [tuple(cell) for cell in run(name)]


# ---- the table ----------------------------------------------------------------------------------------------------------
HEADER = f"| architecture | {' | '.join(WAYS)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures; all of them by default")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT, help=f"seconds for an architecture (default {TIMEOUT:g})"
    )
    parser.add_argument("--update", action="store_true", help="write the rows into the guide")
    options = parser.parse_args()
    if unknown := set(options.names) - ARCHITECTURES.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there is {', '.join(ARCHITECTURES)}")
    names = [n for n in ARCHITECTURES if not options.names or n in options.names]
    print(HEADER, flush=True)
    failed = 0
    for index, answer in Pool(in_a_worker, options.jobs, options.timeout, ("torch", "transformers", "burn")).run(names):
        died = isinstance(answer, Died)
        cells = [Cell(f"{answer.reason}: {answer.message}", "ours")] if died else [Cell(*c) for c in answer]
        failed += any(c.fault == "ours" for c in cells)
        print(" | ".join([names[index], *(": ".join(filter(None, (c.fault, c.text))) for c in cells)]), flush=True)
        if options.update:
            update(
                {
                    names[
                        index
                    ]: f"| {names[index]} | {' | '.join(map(str, cells + [Cell('')] * (len(WAYS) - len(cells))))} |"
                }
            )
    print(f"burn fails in {failed} of {len(names)}")
    return int(failed > 0)


def update(new: dict[str, str]) -> None:
    """Puts rows into the guide's table, in the order of `ARCHITECTURES`, and counts; those that were not run stay."""
    before, _, rest = GUIDE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("|")} | new
    kept = [rows[name] for name in ARCHITECTURES if name in rows]
    ours = sum("| ours: " in row for row in kept)
    torchs = sum("| torch's: " in row and "| ours: " not in row for row in kept)
    counts = {
        "agree in every way": len(kept) - ours - torchs,
        "in every way that torch itself can go": torchs,
        "fail": ours,
        "have not been run": len(ARCHITECTURES) - len(kept),
    }
    told = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
    count = f"Of {len(ARCHITECTURES)} architectures {told}."
    lines = [HEADER, "|" + "---|" * (len(WAYS) + 1), *kept, "", count]
    GUIDE.write_text("\n".join([before + BEGIN, *lines, END + after]))


if __name__ == "__main__":
    sys.exit(main())
