"""Whole models against ONNX Runtime: the same file, the same inputs, the same numbers at every size.

Every model of tests/models is here. Those that take more than a few seconds have the marker `slow`; a model that cannot
be had (PyTorch absent, no shared folder beside the checkout) is skipped by name.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import IndexRunError
from burn.runtime.sizes import parse
from tests.e2e.speech import speech
from tests.models import (
    MODELS,
    OnnxFile,
    Unavailable,
    instances,
    is_slow,
    model_path,
    random_inputs,
    sizes_to_try,
)
from tests.models.case import Array, Exporter

onnxruntime = pytest.importorskip("onnxruntime")

TOLERANCE = 1e-4  # largest difference, relative to the output's largest value
THREADS = 2
MNIST = Path(__file__).parents[3] / "shared" / "data" / "mnist"

Instance = tuple[str, Exporter | None]


def _marked(pairs: list[Instance]) -> list[Any]:
    """The instances as test parameters, the slow ones marked."""
    return [
        pytest.param(
            *pair,
            id=".".join(filter(None, pair)),
            marks=[pytest.mark.slow] if is_slow(*pair) else [],
        )
        for pair in pairs
    ]


def _path(name: str, exporter: Exporter | None = None) -> Path:
    try:
        return model_path(name, exporter)
    except Unavailable as reason:
        pytest.skip(str(reason))


class Pair:
    """One file loaded by burn and by ONNX Runtime."""

    def __init__(self, path: Path) -> None:
        self.before = burn.compile_count()
        self.burn = burn.load(path, threads=THREADS, cache=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.log_severity_level = 4  # it warns when an output has other sizes than the exporter wrote down
        self.peer = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def compilations(self) -> int:
        """How often burn has compiled since just before it loaded the file: once, whatever sizes it has run at."""
        return burn.compile_count() - self.before

    def expected(self, feeds: dict[str, Array]) -> dict[str, Array]:
        names = [output.name for output in self.peer.get_outputs()]
        return dict(zip(names, self.peer.run(names, feeds), strict=True))

    def check(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Run both, compare every output, and give burn's."""
        got = self.burn.run(feeds)
        assert_close(got, self.expected(feeds))
        return got


def assert_close(got: dict[str, Array], want: dict[str, Array], tolerance: float = TOLERANCE) -> None:
    """Names, types and shapes equal; whole numbers equal; floats within `tolerance` of each output's largest value."""
    assert list(got) == list(want)
    for name, expected in want.items():
        actual = np.asarray(got[name])
        assert actual.dtype == expected.dtype, name
        assert actual.shape == expected.shape, name
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(actual, expected, name)
        elif expected.size:
            difference = np.abs(actual.astype(np.float64) - expected).max()
            assert difference <= tolerance * np.abs(expected).max(), f"{name}: {difference}"


def run_with_nothing(program: burn.Executable, case: Any, name: str) -> None:
    """A batch or a sequence of nothing gives outputs of nothing, of the shapes that the program declares; a pooler, which takes
    the first word, has none to take. (ONNX Runtime has no one answer there: many of its kernels refuse, any reshape with a -1
    among them.)"""
    known = {**case.sizes, name: 0}
    feeds = random_inputs(case, 0, **{name: 0})
    if name == "seq" and "pooler_output" in {output.name for output in program.outputs}:
        with pytest.raises(IndexRunError, match=r"node '[^']*(select|Gather)': index 0 is out of range"):
            program.run(feeds)
        return
    got = program.run(feeds)
    for output in program.outputs:
        found = got[output.name].shape
        assert len(found) == len(output.dims)
        for size, dim in zip(found, output.dims, strict=True):
            if isinstance(dim, int) or parse(dim).symbols <= known.keys():
                assert size == (dim if isinstance(dim, int) else parse(dim).evaluate(known)), (output, found)


@pytest.mark.covering(each=lambda name, exporter: (name, exporter))
@pytest.mark.parametrize(("name", "exporter"), _marked(instances()))
def test_same_as_onnxruntime(name: str, exporter: Exporter | None) -> None:
    case = MODELS[name]
    both = Pair(_path(name, exporter))
    for seed, sizes in enumerate(sizes_to_try(case.sizes)):
        both.check(random_inputs(case, seed, **sizes))
    for name in {"batch", "seq"} & set(case.sizes):
        run_with_nothing(both.burn, case, name)
    if isinstance(case.source, OnnxFile) and case.source.stored is not None:
        feeds, outputs = case.source.stored()
        names = [spec.name for spec in both.burn.outputs]
        assert_close(both.burn.run(feeds), dict(zip(names, outputs, strict=True)), tolerance=1e-5)
    assert both.compilations() == 1


@pytest.mark.parametrize(
    ("name", "exporter"), _marked([pair for pair in instances() if "past" in MODELS[pair[0]].sizes])
)
def test_generation_with_a_growing_cache(name: str, exporter: Exporter | None) -> None:
    """Greedy decoding, each engine on its own keys and values: a prompt, then token by token."""
    both = Pair(_path(name, exporter))
    case = MODELS[name]
    prompt = random_inputs(case, seed=3, batch=2, seq=7, past=0)
    ours, theirs = dict(prompt), dict(prompt)
    for _ in range(24):
        got, want = both.burn.run(ours), both.expected(theirs)
        assert_close(got, want)
        tokens = want["logits"][:, -1:].argmax(-1)
        np.testing.assert_array_equal(got["logits"][:, -1:].argmax(-1), tokens)
        ours, theirs = _next_step(got, tokens), _next_step(want, tokens)
    assert both.compilations() == 1


def _next_step(outputs: dict[str, Array], tokens: Array) -> dict[str, Array]:
    past = {key.replace("present", "past_key_values"): value for key, value in outputs.items() if key != "logits"}
    length = next(iter(past.values())).shape[2] + 1
    return {"input_ids": tokens, "attention_mask": np.ones((len(tokens), length), np.int64), **past}


def test_speech_detector_over_a_stream() -> None:
    """200 chunks, each engine on its own state: what one step gets wrong, the next ones keep."""
    both = Pair(_path("silero_vad"))
    chunk, context = 512, 64
    signal = np.concatenate([np.zeros(context, np.float32), speech(200 * chunk)])
    ours = theirs = np.zeros((2, 1, 128), np.float32)
    heard = []
    for start in range(0, 200 * chunk, chunk):
        feeds = {"input": signal[None, start : start + context + chunk], "sr": np.array(16000)}
        got, want = both.burn.run({**feeds, "state": ours}), both.expected({**feeds, "state": theirs})
        assert abs(got["output"].item() - want["output"].item()) <= TOLERANCE
        assert_close({"stateN": got["stateN"]}, {"stateN": want["stateN"]})
        ours, theirs = got["stateN"], want["stateN"]
        heard.append(want["output"].item())
    assert max(heard) > 0.9 and min(heard) < 0.1  # the model detects the synthetic voice and its pauses


def test_digits_of_mnist() -> None:
    files = {kind: next(MNIST.glob(f"*{kind}*"), None) for kind in ("images", "labels")}
    if files["images"] is None or files["labels"] is None:
        pytest.skip("the folder shared/data/mnist is not beside this checkout")
    both = Pair(_path("mnist"))
    count = 200
    pixels = np.frombuffer(gzip.decompress(files["images"].read_bytes()), np.uint8, 28 * 28 * count, offset=16)
    labels = np.frombuffer(gzip.decompress(files["labels"].read_bytes()), np.uint8, count, offset=8)
    images = ((pixels.reshape(count, 1, 1, 28, 28) / 255 - 0.1307) / 0.3081).astype(np.float32)
    guesses = [both.check({"input.1": image})["33"].argmax() for image in images]
    assert (np.array(guesses) == labels).mean() > 0.97
