"""Uninitialised memory is not read: results are equal with arenas, outputs and scratch full of NaN, or of another byte.

BURN_SWEEP=200 runs so many random graphs instead of a few, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COUNT = os.environ.get("BURN_SWEEP", "3")
SEED = os.environ.get("BURN_SWEEP_SEED", "0")


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=os.environ | environment, check=False
    )


def test_new_memory_has_the_byte() -> None:
    script = "from burn.runtime import _native; print(_native.fresh_memory(8).hex())"
    assert python("-c", script, BURN_POISON="1").stdout.strip() == "ff" * 8
    assert python("-c", script, BURN_POISON="85").stdout.strip() == "55" * 8


def test_what_is_no_byte_is_refused() -> None:
    ended = python("-c", "import burn; burn.num_threads()", BURN_POISON="yes")
    assert ended.returncode and "BURN_POISON" in ended.stderr


@pytest.mark.parametrize(("byte", "mode"), [("1", "load"), ("85", "size")])
def test_graphs_do_not_read_uninitialised_memory(byte: str, mode: str) -> None:
    options = ["--count", COUNT, "--seed", SEED, "-j", "1", "--mode", mode, "--length", "12"]
    ended = python("-m", "tests.fuzz.onnx", *options, BURN_POISON=byte, MALLOC_PERTURB_="85")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_memory_of_a_gpu_has_the_byte() -> None:
    pytest.importorskip("triton")
    options = ["-rA", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "poison or small_value"]
    ended = python("-m", "pytest", *options, "tests/codegen/gpu/test_programs.py", BURN_POISON="90")
    assert ended.returncode == 0 and "::test_poison" in ended.stdout, ended.stdout + ended.stderr


def test_launches_that_write_behind_a_buffer_fail() -> None:
    pytest.importorskip("triton")
    options = ["-rA", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "guard or small_value"]
    ended = python("-m", "pytest", *options, "tests/codegen/gpu/test_programs.py", BURN_GUARD="end")
    assert ended.returncode == 0 and "::test_guard[300]" in ended.stdout, ended.stdout + ended.stderr
