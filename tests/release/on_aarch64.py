"""Runs under qemu, as AArch64's Python: `on_aarch64.py FOLDER NAME=MODEL ...` loads models and runs them.

FOLDER/NAME.in.npz are a model's inputs, FOLDER/NAME.out.npz its outputs. Models other than packages are compiled in process."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import burn
from burn.codegen.cpu.target import host_target
from burn.runtime.host import architecture, features


def main(folder: Path, *models: str) -> None:
    assert architecture() == "aarch64"
    assert "neon" in features()
    assert host_target(features()).architecture == "aarch64"
    for name, path in (model.split("=") for model in models):
        with np.load(folder / f"{name}.in.npz") as feeds:
            before = burn.compile_count()
            outputs = burn.load(path, cache=False).run(dict(feeds))
            assert (burn.compile_count() > before) == (not path.endswith(".burn"))
        np.savez(folder / f"{name}.out.npz", *outputs.values())


main(Path(sys.argv[1]), *sys.argv[2:])
