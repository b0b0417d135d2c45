"""One trained file: `burn.load`, `burn-import` and `burn-compile`, each against ONNX Runtime on the same inputs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import burn
from burn.errors import BurnError
from tests.trained.exact import exact
from tests.trained.feeds import draw

WAYS = ("load", "import", "compile")
SIZES = 3
TRIES = 120
DRAWING = 60.0  # seconds
FLOATS, HALF_PRECISION, QUANTISED = 1e-3, 4e-3, 5e-2
"""The largest difference, by the largest magnitude of the output. For float16 outputs it is four ulps; for 8-bit activations,
one step of them."""

LEAST = 1e-3
"""The magnitude that smaller outputs count as: ONNX Runtime's sigmoid and tanh are off by about 1e-7, whatever their value."""

Feed = dict[str, np.ndarray]


def run(path: str, ways: Sequence[str] = WAYS, seed: int = 0) -> list[dict[str, Any]]:
    """A row for each way: whether it is right, at how many sizes, the largest difference, or why not."""
    try:
        feeds, wanted, tolerance = expected(Path(path), seed)
    except Exception as error:
        reason = f"without burn: {type(error).__name__}: {_first(error)}"
        return [{"file": path, "way": way, "skipped": reason} for way in ways]
    return [{"file": path, "way": way, **_tried(way, Path(path), feeds, wanted, tolerance)} for way in ways]


def expected(path: Path, seed: int) -> tuple[list[Feed], list[list[np.ndarray]], float]:
    """Inputs that ONNX Runtime takes, at several sizes, with its outputs; and the tolerance."""
    import onnxruntime  # here: it starts threads, and workers are forked

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    model = onnx.load(path, load_external_data=False)
    source: Any = str(path)
    if any(node.op_type in ("MatMulInteger", "DynamicQuantizeLSTM") for node in model.graph.node):
        whole = onnx.load(path)
        exact(whole)
        source = whole.SerializeToString()
    session: Any = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    feeds: list[Feed] = []
    wanted: list[list[np.ndarray]] = []
    seen: set[Any] = set()
    last: Exception | None = None
    start = time.monotonic()
    for count, feed in enumerate(draw(model, session, seed)):
        enough = len(feeds) >= SIZES or (feeds and count - len(feeds) > TRIES // 3)
        if enough or count == TRIES or time.monotonic() - start > DRAWING:
            break
        shapes = tuple(a.shape for a in feed.values())
        if shapes in seen and len(seen) > 1:
            continue
        try:
            results = session.run(None, feed)
        except Exception as error:
            last = error
            continue
        if any(np.isnan(r).any() for r in results if isinstance(r, np.ndarray) and r.dtype.kind == "f"):
            last = RuntimeError("ONNX Runtime's answers are NaN")  # of images too small for the windows of a pool
            continue
        seen.add(shapes)
        feeds.append(feed)
        wanted.append(results)
    if not feeds:
        raise last or RuntimeError("no inputs were found")
    quantised = any("Integer" in n.op_type or "Quant" in n.op_type or "QLinear" in n.op_type for n in model.graph.node)
    half = any(o.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for o in model.graph.output)
    return feeds, wanted, QUANTISED if quantised else HALF_PRECISION if half else FLOATS


def _tried(way: str, path: Path, feeds: list[Feed], wanted: list[list[Any]], tolerance: float) -> dict[str, Any]:
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            call = _PREPARED[way](path, Path(folder))
            largest = max(_difference(call(f), w, tolerance) for f, w in zip(feeds, wanted, strict=True))
    except Exception as error:
        return {"right": False, "reason": f"{type(error).__name__}: {_first(error)}", "seconds": _since(start)}
    return {"right": True, "sizes": len(feeds), "difference": largest, "seconds": _since(start)}


def _since(start: float) -> float:
    return round(time.monotonic() - start, 1)


def _first(error: BaseException) -> str:
    return " ".join(str(error).split())[:400]


# ---- the ways ----------------------------------------------------------------------------------------------------------
def _loaded(path: Path, folder: Path) -> Callable[[Feed], list[Any]]:
    executable = burn.load(path, cache=False)
    return lambda feed: list(executable.run(feed).values())


def _imported(path: Path, folder: Path) -> Callable[[Feed], list[Any]]:
    """The source that burn-import writes, compiled with the sizes that it names."""
    from burn.exporters.python.generate import generate
    from burn.loading import read_program

    program = read_program(path)
    names = list(program.input_names)
    module = burn.compile(generate(program, "Model", path.name).load())

    def call(feed: Feed) -> list[Any]:
        result = module(*(feed[name] for name in names))
        return [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else (result,))]

    return call


def _compiled(path: Path, folder: Path) -> Callable[[Feed], list[Any]]:
    """The package that burn-compile writes, loaded."""
    from click.testing import CliRunner

    from burn.cli.compile import main

    made = folder / "model.burn"
    done = CliRunner().invoke(main, [str(path), "-o", str(made)])
    if done.exit_code:
        raise done.exception if isinstance(done.exception, BurnError) else BurnError(done.output.strip())
    executable = burn.load(made)
    return lambda feed: list(executable.run(feed).values())


_PREPARED = {"load": _loaded, "import": _imported, "compile": _compiled}


def _difference(got: list[Any], want: list[Any], tolerance: float) -> float:
    """The largest difference by the largest magnitude. Raises AssertionError for another shape, type or number."""
    assert len(got) == len(want), f"{len(got)} outputs for {len(want)}"
    largest = 0.0
    for index, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        if isinstance(theirs, list):
            assert [list(row) for row in mine] == [list(row) for row in theirs], f"output {index}: other keys"
            mine, theirs = (np.array([list(row.values()) for row in rows]) for rows in (mine, theirs))
        mine = np.asarray(mine)
        assert mine.shape == theirs.shape, f"output {index} has shape {mine.shape} for {theirs.shape}"
        assert mine.dtype == theirs.dtype, f"output {index} is {mine.dtype} for {theirs.dtype}"
        if theirs.dtype.kind not in "fc":
            assert np.array_equal(mine, theirs), f"output {index}: {np.mean(mine != theirs):.2%} of elements differ"
            continue
        a, b = mine.astype(np.float64), theirs.astype(np.float64)
        assert np.array_equal(np.isfinite(a), np.isfinite(b)), f"output {index}: other elements are not finite"
        finite = np.isfinite(b)
        scale = max(float(np.abs(b[finite]).max(initial=0)), LEAST)
        difference = float(np.abs(a - b)[finite].max(initial=0)) / scale
        assert difference <= tolerance, f"output {index} differs by {difference:.2g} of its magnitude"
        largest = max(largest, difference)
    return largest
