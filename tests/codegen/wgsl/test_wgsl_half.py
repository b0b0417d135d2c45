"""float16 by the device's instructions and by arithmetic on bits: the same results for every half, and for floats near them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from burn.codegen.wgsl.library import END_OF_HALF, FIRST_OF_HALF, HALF, needed

TEXT = """
import numpy as np, burn
codes = np.arange(65536, dtype=np.uint16)
numbers = codes.view(np.float16)
lost = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x3000, 0x8000], np.uint32)
floats = ((codes.astype(np.uint32)[:, None] << 16) | lost).view(np.float32).ravel()
def function(h, f):
    return burn.astype(h, "float32"), burn.astype(f, "float16"), h + h[::-1], h * h, -h
made = burn.compile(function, (numbers, floats), cache=False, device="wgpu")
with np.errstate(all="ignore"):
    want = numbers.astype(np.float32), floats.astype(np.float16), numbers + numbers[::-1], numbers * numbers, -numbers
for _ in range(2):
    for got, right in zip(made(numbers, floats), want, strict=True):
        got = np.asarray(got)
        same = (got == right) & (np.signbit(got) == np.signbit(right)) | np.isnan(got) & np.isnan(right)
        assert same.all(), (got[~same][:5], right[~same][:5])
print("agrees")
"""


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("way", ["", "bits"])
def test_conversions_round_as_numpy_does(way: str) -> None:
    env = {**os.environ, "BURN_WGPU_HALF": way}
    run = subprocess.run([sys.executable, "-c", TEXT], env=env, capture_output=True, text=True)
    assert run.stdout == "agrees\n", run.stderr


def test_a_text_has_all_conversions_between_their_lines() -> None:
    """The driver replaces them as a whole."""
    text = "\n".join(needed("let x = float_of_half(1u);"))
    inside = text.split(f"{FIRST_OF_HALF}\n")[1].split(END_OF_HALF)[0]
    assert all(f"fn {name}(" in inside for name in HALF)
    assert inside.count("fn ") == len(HALF)
    assert FIRST_OF_HALF not in "\n".join(needed("let x = 1.0;"))
