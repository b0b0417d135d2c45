"""burn.fft against numpy.fft, and short-time transforms there and back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from tests.complex.test_tensors import DEVICE, agree, drawn


def compiled(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    return [r.numpy() for r in burn.jit(function, device=DEVICE)(*map(burn.tensor, arrays))]


def calls(m: Any, z: Any, x: Any) -> Any:
    f = m.fft
    return [
        f.fft(z), f.ifft(z, 7, 0), f.fft(x, norm="ortho"), f.fft(x, norm="forward"), f.ifft(z, norm="ortho"),
        f.ifft(z, norm="forward"),
        f.rfft(x), f.rfft(x, 4, 0), f.irfft(z), f.irfft(z, 5), f.irfft(z, 3, 0, "ortho"), f.hfft(z, 5), f.ihfft(x),
        f.fft2(z), f.ifft2(z, (2, 6)), f.fftn(x), f.ifftn(z, norm="ortho"), f.rfftn(x), f.irfftn(z), f.irfftn(z, (3, 7)),
        f.rfft2(x), f.irfft2(z), f.fftshift(x), f.ifftshift(z, (1,)), f.fftshift(z, 0),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transforms() -> None:
    z, x = drawn(3, 4), drawn(3, 5, seed=1).real
    expected = calls(np, z, x)
    agree(compiled(lambda a, b: calls(burn, a, b), z, x), expected, 1e-12)


def test_single_precision_and_pairs() -> None:
    x = drawn(6).real.astype(np.float32)
    assert burn.fft.fft(burn.tensor(x)).dtype == burn.fft.fft(burn.tensor(x.astype(np.float16))).dtype == "complex64"
    pair = burn.fft.ifft((burn.tensor(x), burn.tensor(x[::-1].copy())))
    np.testing.assert_allclose(pair.numpy(), np.fft.ifft(x + 1j * x[::-1]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("window", [None, burn.hann_window(8, dtype="float64")], ids=["none", "hann"])
def test_short_time_transforms_there_and_back(window: Any) -> None:
    x = drawn(2, 26).real
    spectrum = burn.fft.stft(burn.tensor(x), 8, 3, window)
    assert spectrum.shape == (2, 7, 5) and spectrum.dtype == "complex128"
    frames = np.lib.stride_tricks.sliding_window_view(x, 8, -1)[:, ::3]
    weights = 1.0 if window is None else window.numpy()
    np.testing.assert_allclose(spectrum.numpy(), np.fft.rfft(frames * weights), rtol=1e-12, atol=1e-12)
    back = burn.fft.istft(spectrum, 8, 3, window).numpy()
    inside = slice(1, -1) if window is not None else slice(None)  # the window is 0 at the first element
    np.testing.assert_allclose(back[:, inside], x[:, inside], rtol=1e-11, atol=1e-12)


def test_refusals() -> None:
    z = burn.tensor(drawn(4))
    for call, text in (
        (lambda: burn.fft.rfft(z), "real numbers"),
        (lambda: burn.fft.fft(z, norm="no"), "norm"),
        (lambda: burn.fft.fft(z, 0), "at least one"),
        (lambda: burn.fft.fftn(z, (2, 2)), "axis"),
    ):
        with pytest.raises(burn.BurnError, match=text):
            call()
