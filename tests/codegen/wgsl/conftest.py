"""`webgpu`: tests with it run on a device of WebGPU, and are skipped without one."""

from __future__ import annotations

import importlib.util

import pytest

from burn.runtime import _native
from burn.runtime.device import library


@pytest.fixture(scope="session")
def webgpu() -> None:
    """Skips with the reason if there is no device."""
    if importlib.util.find_spec("wgpu") is None:
        pytest.skip("the package wgpu, which has WebGPU's library, is not installed")
    try:
        devices = _native.device_count("wgpu", library("wgpu"))
    except RuntimeError as error:
        pytest.skip(f"WebGPU does not start: {error}")
    if devices == 0:
        pytest.skip("WebGPU finds no adapter: it needs a Vulkan driver, such as Debian's mesa-vulkan-drivers")
