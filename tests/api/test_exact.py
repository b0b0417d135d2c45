"""`exact=True` and `--exact` sum in order, for every way to compile a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import burn
from burn.cli.compile import main as compile_
from burn.cli.run import main as run_
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import TARGETS
from burn.errors import ModelError
from burn.nn import Conv2d

pytestmark = pytest.mark.untuned

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@pytest.fixture(scope="module")
def layer() -> Conv2d:
    """A convolution for which Winograd pays off."""
    burn.manual_seed(3)
    return Conv2d(64, 64, 3, padding=1, bias=False)


@pytest.fixture(scope="module")
def image() -> Array:
    """All positive, as behind a rectifier: points take away large sums from each other."""
    return np.random.default_rng(3).random((1, 64, 28, 28), np.float32)


@pytest.fixture(scope="module")
def file(layer: Conv2d, image: Array, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exact") / "layer.onnx"
    burn.export(layer, path, (image,))
    return path


@pytest.fixture(scope="module")
def plain(layer: Conv2d, image: Array) -> Array:
    return burn.compile(layer, (image,), exact=True, cache=False)(image)


def test_sums_of_whole_numbers_are_exact() -> None:
    """float32 holds all plain sums of them exactly, but not the filter in the Winograd domain."""
    drawn = np.random.default_rng(4)
    layer = Conv2d(64, 64, 3, padding=1, bias=False)
    layer.weight.assign(drawn.integers(-8, 9, (64, 64, 3, 3)).astype(np.float32))
    image = drawn.integers(-8, 9, (1, 64, 28, 28)).astype(np.float32)
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    under = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    want = np.einsum("nchwij,ocij->nohw", under, np.asarray(layer.weight))
    got, usual = (burn.compile(layer, (image,), exact=exact, cache=False)(image) for exact in (True, False))
    np.testing.assert_array_equal(got, want)
    assert not np.array_equal(usual, want)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("in_memory", [False, True])
def test_loaded_models(file: Path, image: Array, plain: Array, in_memory: bool) -> None:
    """The cache keeps the exact and the default program apart."""
    source = file.read_bytes() if in_memory else file
    usual = burn.load(source)(image)
    count = burn.compile_count()
    for _ in range(2):
        np.testing.assert_array_equal(burn.load(source, exact=True)(image), plain)
    assert burn.compile_count() == count + 1
    assert not np.array_equal(usual, plain)


@pytest.mark.usefixtures("own_cache")
def test_commands(file: Path, image: Array, plain: Array, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", image)
    name, done, package = burn.load(file).inputs[0].name, tmp_path / "y.npz", tmp_path / "layer.burn"
    given = ["--input", f"{name}={tmp_path / 'x.npy'}", "--save", str(done)]
    for options in (["--exact"], ["--exact", "--report", str(tmp_path / "page.html")]):
        CliRunner().invoke(run_, [str(file), *given, *options], catch_exceptions=False)
        (got,) = np.load(done).values()
        np.testing.assert_array_equal(got, plain)
        done.unlink()
    CliRunner().invoke(compile_, [str(file), "-o", str(package), "--exact"], catch_exceptions=False)
    np.testing.assert_array_equal(burn.load(package)(image), plain)
    with pytest.raises(ModelError, match="is compiled already"):
        burn.load(package, exact=True)
    refused = CliRunner().invoke(compile_, [str(file), "-o", str(tmp_path / "layer.py"), "--exact"])
    assert refused.exit_code == 2 and "--exact is for programs that run on a CPU" in refused.output


def test_torch(image: Array) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Conv2d(64, 64, 3, padding=1).eval()
    x = torch.from_numpy(image)
    runs = [burn.compile(module, (x,), exact=exact, cache=False) for exact in (True, True, False)]
    with torch.no_grad():
        first, second, usual = (run(x) for run in runs)
    assert torch.equal(first, second) and not torch.equal(first, usual)


def test_every_cpu_does_without_both() -> None:
    for target in (replace(t, exact=True) for t in TARGETS.values()):
        assert "winograd" not in CPU(target).pipeline.text and not target.tiles
    assert TARGETS["amx"].tiles
