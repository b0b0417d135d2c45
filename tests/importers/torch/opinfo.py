"""torch's own sample inputs (OpInfo) through the importer: `python -m tests.importers.torch.opinfo [--only NAME] [-j 2]`.

All samples of an operator are exported and compiled as one program, and compared with eager torch; where that fails, one
by one. Prints a line for each operator that does not pass, the reasons by count, and totals. `--update` writes what does not
pass to opinfo_failing.txt. Needs the package expecttest (OpInfo imports it). Not part of the test run: it takes minutes.

The outcome of an operator is that of its worst sample:

    pass
    drawn        random: it runs, with types and sizes as torch has them
    sparse       sparse tensors
    unexported   torch.export refuses it
    missing      an operator without a builder
    refused      another error of the importer
    crash
    wrong

The tables below use these names.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from burn.adapters.torch import compile_module
from burn.errors import BurnError

FAILING = Path(__file__).with_name("opinfo_failing.txt")
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-8, torch.bfloat16: 3e-2, torch.float16: 5e-3,
             torch.complex64: 1e-4, torch.complex128: 1e-8}  # fmt: skip
DTYPES = ("float32", "int64")
LARGEST = 5000
"""Samples with more elements are passed over while there are smaller ones."""
DECOMPOSED = ("linalg.svd", "svd", "linalg.eigh", "linalg.eig", "linalg.eigvals")
"""Operators whose factors are not unique, see `comparable`."""
UNDEFINED = ("empty", "new_empty")
"""Operators whose results hold anything."""
TIES = ("topk", "kthvalue", "mode", "median", "nanmedian")
"""Operators whose indices among equal elements are torch's choice: for integers, which are often equal, only values count."""
ORDER = ("pass", "drawn", "sparse", "unexported", "missing", "refused", "crash", "wrong")
GOOD = ("pass", "drawn")
OUTSIDE = ("sparse", "unexported")


class Call:
    """One sample: an operator's arguments, the tensors among them as inputs."""

    def __init__(self, function: Any, sample: Any, name: str = "") -> None:
        self.function, self.name = function, name
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.indices = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[i].detach().clone() for i in self.indices]

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        leaves = list(self.leaves)
        for number, tensor in zip(self.indices, tensors, strict=True):
            leaves[number] = tensor
        x, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return [t for t in pytree.tree_leaves(self.function(x, *args, **kwargs)) if isinstance(t, torch.Tensor)]

    def copies(self) -> list[torch.Tensor]:
        return [t.clone() for t in self.tensors]


class Calls(torch.nn.Module):
    def __init__(self, calls: list[Call]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, groups: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
        return [call(*tensors) for call, tensors in zip(self.calls, groups, strict=True)]


class Draws(TorchDispatchMode):
    """Notes whether anything that runs draws random numbers."""

    found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found = self.found or torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def eager(call: Call) -> tuple[list[torch.Tensor], bool] | None:
    """torch's results, and True if they are random; None if torch refuses its own sample."""
    try:
        with Draws() as draws:  # its results are not used: within a mode torch loses the conjugation of lazy conjugates
            call(*call.copies())
        return call(*call.copies()), draws.found
    except Exception:
        return None


def outcome(calls: list[Call], counted: slice = slice(None)) -> tuple[str, str]:
    """One of `ORDER`, and why. Of the results that are not `counted` types and sizes are compared."""
    pairs = [(call, result) for call in calls if (result := eager(call)) is not None]
    if any(t.layout is not torch.strided for c, r in pairs for t in (*r[0], *c.tensors)):
        return "sparse", ""
    module, groups = Calls([c for c, _ in pairs]), [c.copies() for c, _ in pairs]
    try:
        got = compile_module(module, (groups,))([c.copies() for c, _ in pairs])
    except BurnError as error:
        text = "; ".join(dict.fromkeys(f"{p.op}: {p.message}".split("; used")[0] for p in error.problems)) or str(error)
        kind = "unexported" if "be exported" in str(error) else "missing" if "is not supported" in text else "refused"
        return kind, " ".join(text.split())[:200]
    except Exception as error:
        return "crash", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    for results, (call, (wanted, random)) in zip(got, pairs, strict=True):
        results, wanted = comparable(call, results, wanted)
        loose = [True] * len(wanted)
        loose[counted] = [random] * len(loose[counted])
        reasons = [difference(*row) for row in zip(results, wanted, loose, strict=True)]
        if any(reasons) and not nearer_the_truth(results, wanted, call):
            return "wrong", next(filter(None, reasons))
    return ("drawn" if any(random for _, (_, random) in pairs) else "pass"), ""


def comparable(
    call: Call, have: list[torch.Tensor], want: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The numbers that two results of a decomposition have in common.

    Its vectors have any phase, and any basis for equal values. The matrix that the factors give is compared, and that they are
    orthonormal. Eigenvalues of `eig` have any order."""
    name = call.name
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(have, want, strict=True)):
        return have, want
    if name in ("linalg.svd", "svd") and have[0].numel() and have[2].numel():
        return tuple(_singular(*r, adjoint=name == "svd") for r in (have, want))  # type: ignore[return-value]
    if name == "linalg.eigh" and have[1].numel():
        return tuple([w, (v * w.unsqueeze(-2)) @ v.mH, v.mH @ v] for w, v in (have, want))  # type: ignore[return-value]
    if name in ("linalg.eig", "linalg.eigvals") and have[0].numel():
        values = _matched(have[0], want[0])
        if name == "linalg.eigvals":
            return [values], want
        w, v = have
        return [values, call.tensors[0].to(v.dtype) @ v, v.norm(dim=-2)], [
            want[0],
            v * w.unsqueeze(-2),
            want[1].norm(dim=-2),
        ]
    return have, want


def _singular(u: torch.Tensor, s: torch.Tensor, v: torch.Tensor, adjoint: bool) -> list[torch.Tensor]:
    vh, k = v.mH if adjoint else v, s.shape[-1]
    return [s, (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], u.mH @ u, vh @ vh.mH]


def _matched(have: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Each row of `have` in the order that comes nearest to the row of `want`."""
    flat = have.reshape(-1, have.shape[-1])
    rows = zip(flat, want.reshape(flat.shape), strict=True)
    orders = [linear_sum_assignment((a[None, :] - b[:, None]).abs().numpy())[1] for a, b in rows]
    return torch.stack([row[torch.from_numpy(order)] for row, order in zip(flat, orders, strict=True)]).reshape(
        have.shape
    )


def nearer_the_truth(have: list[torch.Tensor], want: list[torch.Tensor], call: Call) -> bool:
    """True if torch's float64 results are no further from our result than from torch's own."""
    wide = Call.__new__(Call)
    wide.__dict__.update(call.__dict__)
    wide.tensors = [
        t.to(torch.complex128) if t.is_complex() else t.double() if t.is_floating_point() else t for t in call.tensors
    ]
    truth = eager(wide)
    if (
        truth is None
        or call.name in DECOMPOSED
        or any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(have, want, strict=True))
    ):
        return False

    def error(tensors: list[torch.Tensor]) -> float:
        pairs = zip(tensors, truth[0], strict=True)
        return max(((_wide(t) - _wide(e)).abs().nan_to_num(0).max().item() for t, e in pairs if t.numel()), default=0.0)

    same_nan = all(torch.equal(a.isnan(), b.isnan()) for a, b in zip(have, want, strict=True))
    return same_nan and error(have) <= error(want)


def _wide(t: torch.Tensor) -> torch.Tensor:
    return t.to(torch.complex128) if t.is_complex() else t.double()


def difference(have: torch.Tensor, want: torch.Tensor, loose: bool) -> str:
    if have.dtype != want.dtype or have.shape != want.shape:
        return f"{have.dtype}{list(have.shape)}, not {want.dtype}{list(want.shape)}"
    tolerance = TOLERANCE.get(want.dtype, 0)
    try:
        if not loose:
            torch.testing.assert_close(have, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return ""


def _table() -> list[Any]:
    """The operators. Imported by name, as pyright spends a minute on this module's source."""
    return import_module("torch.testing._internal.common_methods_invocations").op_db


@dataclass(frozen=True)
class Operator:
    """An entry of OpInfo's table, with one element type."""

    number: int
    dtype: str
    limit: int

    @property
    def info(self) -> Any:
        return _table()[self.number]

    @property
    def title(self) -> str:
        variant = self.info.variant_test_name
        return f"{self.info.name}{'.' + variant if variant else ''}[{self.dtype}]"

    def calls(self) -> list[Call]:
        """Up to `limit` samples, spread over all that there are."""
        torch.manual_seed(self.number)
        samples = list(self.info.sample_inputs("cpu", getattr(torch, self.dtype), requires_grad=False))
        calls = [Call(self.info.op, s, self.info.name) for s in samples]
        calls = [c for c in calls if sum(t.numel() for t in c.tensors) <= LARGEST] or calls[:1]
        step = max(1, len(calls) // self.limit)
        return calls[::step][: self.limit]


def judge(operator: Operator) -> tuple[str, str, str]:
    """(title, outcome, why)"""
    warnings.simplefilter("ignore")
    try:
        calls = operator.calls()
    except Exception as error:  # some samples need packages or devices that are not here
        return operator.title, "unexported", f"no sample: {type(error).__name__}"
    name = operator.info.name
    ties = name in TIES and operator.dtype == "int64"
    counted = slice(0) if name.startswith(UNDEFINED) else slice(1 if ties else None)
    kind, why = outcome(calls, counted)
    if kind not in GOOD and len(calls) > 1:
        kind, why = max((outcome([c], counted) for c in calls), key=lambda o: ORDER.index(o[0]))
    return operator.title, kind, why


def operators(only: str, dtypes: Iterable[str], limit: int) -> Iterator[Operator]:
    for number, info in enumerate(_table()):
        for dtype in dtypes:
            if getattr(torch, dtype) in info.dtypes and (not only or info.name in only.split(",")):
                yield Operator(number, dtype, limit)


def run(found: list[Operator], jobs: int) -> Iterator[tuple[str, str, str]]:
    if jobs == 1:
        yield from map(judge, found)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(judge, found, chunksize=4)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators' names, with commas between")
    parser.add_argument("-n", "--samples", type=int, default=4, help="of each operator")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES, help="element types")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th operator")
    parser.add_argument("--update", action="store_true", help=f"write {FAILING.name}")
    options = parser.parse_args()
    index, count = map(int, options.shard.split("/"))
    found = list(operators(options.only, options.dtypes, options.samples))[index::count]
    totals: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    lines = []
    for title, kind, why in run(found, options.jobs):
        totals[kind] += 1
        if kind in GOOD:
            continue
        if kind not in OUTSIDE:
            lines.append(f"{title} {kind}")
            reasons[f"{kind}: {why}"] += 1
        print(f"{title}: {kind}: {why}", flush=True)
    print("\n".join(f"{n:4} {reason}" for reason, n in reasons.most_common(40)))
    print(f"{len(found)} operators: " + ", ".join(f"{totals[kind]} {kind}" for kind in ORDER))
    if options.update:
        FAILING.write_text("\n".join(sorted(lines)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
