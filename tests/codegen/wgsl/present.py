"""Tests that need a device of WebGPU: `needs_webgpu`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import cache

import pytest

COUNT = """
from burn.runtime import _native
from burn.runtime.device import library
print(_native.device_count("wgpu", library("wgpu")))
"""


@cache
def _lacking() -> str:
    """The reason why there is no device, "" if there is one. Another process looks: one with a device cannot be forked."""
    if importlib.util.find_spec("wgpu") is None:
        return "the package wgpu, which has WebGPU's library, is not installed"
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"WebGPU does not start: {done.stderr.strip().splitlines()[-1]}"
    if int(done.stdout) == 0:
        return "WebGPU finds no adapter: it needs a Vulkan driver, such as Debian's mesa-vulkan-drivers"
    return ""


def needs_webgpu() -> None:
    """Skips the test with the reason if there is no device."""
    if reason := _lacking():
        pytest.skip(reason)
