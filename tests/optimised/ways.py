"""A file through burn, compared with ONNX Runtime. Enter at `cases`, `write` and `differences`."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from burn.errors import ModelError
from burn.importers.onnx import import_onnx
from burn.importers.onnx.names import Given
from burn.loading import read_program
from tests.deploy import making
from tests.fuzz.onnx import ways
from tests.importers.vendor.nchwc import AMBIGUOUS, machine_block
from tests.models.case import Exporter, random_inputs
from tests.models.export import export
from tests.optimised.models import MODELS
from tests.optimised.tools import OPTIMISERS, QUANTISERS, Unfit

BOUNDS = {True: 1e-4, False: 0.03}
"""The largest error relative to the largest element, for models of floats and for quantised ones. In those an activation beside a
tie may be rounded to either neighbour, and what comes after has another range."""

Feed = dict[str, np.ndarray]
Results = dict[str, Any]
EXPORT_OPSET = 21


@dataclass(frozen=True)
class Case:
    model: str
    exporter: Exporter
    optimiser: str
    quantiser: str

    @property
    def name(self) -> str:
        return f"{self.model}/{self.exporter}/{self.optimiser}/{self.quantiser}"


def cases() -> list[Case]:
    return [
        Case(model.case.name, exporter, optimiser, quantiser)
        for model in MODELS.values()
        for exporter in model.exporters
        for optimiser in OPTIMISERS
        for quantiser in QUANTISERS
        # at this level convolutions are laid out for the machine's vectors, which the tools do not read
        if optimiser != "all" or quantiser == "float"
    ]


def write(case: Case, folder: Path) -> Path:
    """The case's file. Raises Unfit where the tools do not make it, or ONNX Runtime does not run it."""
    model = MODELS[case.model]
    source = _exported(case, folder)
    optimised, path = (folder / f"{case.name.replace('/', '.')}.{i}.onnx" for i in range(2))
    if not source.exists():
        try:
            export(model.case, case.exporter, source, model.build())
        except Exception as error:  # of another release of torch than the one that the tests are pinned to
            raise Unfit(f"torch.onnx.export: {type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    try:
        OPTIMISERS[case.optimiser](model, source, optimised)
        QUANTISERS[case.quantiser](model, optimised, path)
        _session(path)
    except Unfit:
        raise
    except Exception as error:
        raise Unfit(f"ONNX Runtime's tools: {type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    return path


def _exported(case: Case, folder: Path) -> Path:
    """The model as it was exported, in floats."""
    return folder / f"{case.model}.{case.exporter}.onnx"


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def compile_(model: onnx.ModelProto, target: str | None, opset: int, dims: Given | None) -> Callable[[Feed], Results]:
    """As burn-compile does: a command that reads and writes .npz files."""
    folder = Path(tempfile.mkdtemp(prefix="optimised-"))
    onnx.save(model, folder / "model.onnx")
    command = making.make("exe", read_program(folder / "model.onnx", dims), folder / "model")

    def run(feed: Feed) -> Results:
        np.savez(folder / "in.npz", **feed)  # type: ignore[arg-type]
        subprocess.run([command, folder / "in.npz", "-o", folder / "out.npz"], check=True, capture_output=True)
        with np.load(folder / "out.npz") as found:
            return dict(found)

    return run


WAYS: dict[str, Callable[[onnx.ModelProto, str | None, int, Given | None], Callable[[Feed], Results]]] = {
    "load": ways.load,
    "import": ways.source,
    "export": ways.export,
    "compile": compile_,
}


def differences(case: Case, path: Path, chosen: list[str]) -> Iterator[tuple[str, float, str]]:
    """(way, the largest relative error, what was raised or "") of each way; inf where shapes or types differ.

    On x86 without VNNI, ONNX Runtime's 8-bit matmuls saturate in 16 bits. So a quantised model may also be nearer to the exported
    one than ONNX Runtime is, by a factor of four."""
    model, session, bound = onnx.load(path), _session(path), BOUNDS[case.quantiser == "float"]
    sizes = [{}, {"batch": 1}, {"batch": 3, "seq": 4} if "seq" in MODELS[case.model].case.sizes else {"batch": 3}]
    feeds = [random_inputs(MODELS[case.model].case, 7 + i, **given) for i, given in enumerate(sizes)]
    wanted = [
        dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True)) for feed in feeds
    ]
    dims = _block(model)
    for way in chosen:
        try:
            run = WAYS[way](model, None, EXPORT_OPSET, dims)
            found = [run(feed) for feed in feeds]
            error = max(map(_error, found, wanted))
            if error > bound and case.quantiser != "float":
                plain = _session(_exported(case, path.parent))
                exact = [dict(zip(wanted[0], plain.run(None, feed), strict=True)) for feed in feeds]
                ours = max(map(_error, found, exact))
                if 4 * ours < max(map(_error, wanted, exact)):
                    error = ours
            yield way, error, "" if error <= bound else f"error {error:.3g}"
        except Exception as raised:
            yield way, np.inf, f"{type(raised).__name__}: {' '.join(str(raised).split())[:300]}"


def _block(model: onnx.ModelProto) -> dict[str, int]:
    """The block of channels of a file that was optimised on this machine, if the file does not say it."""
    try:
        import_onnx(model.SerializeToString())
    except ModelError as error:
        return {"nchwc_block": machine_block()} if AMBIGUOUS in str(error) else {}
    return {}


def _error(got: Results, want: Results) -> float:
    largest = 0.0
    for name, mine in got.items():
        theirs = want[name.removeprefix(ways.BACK)]
        if np.shape(mine) != np.shape(theirs) or np.asarray(mine).dtype != theirs.dtype:
            return np.inf
        if theirs.size:
            error = np.abs(np.asarray(mine, np.float64) - theirs).max() / max(np.abs(theirs).max(), 1e-6)
            largest = max(largest, float(np.nan_to_num(error, nan=np.inf)))
    return largest
