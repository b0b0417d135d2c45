"""Every reference model as a shared library and as a command: the bits of the same program in this process, at several sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn.compiler import executable
from burn.loading import read_program
from tests.deploy.making import Library, feeds_of, make, run
from tests.e2e.test_models import sizes_to_try
from tests.models import MODELS, Unavailable, instances, model_path, random_inputs
from tests.models.case import Exporter

QUICK = {"mnist"}
"""Those that are compiled in a second or two."""


def _marked() -> list[Any]:
    marks = {True: [], False: [pytest.mark.slow]}
    return [pytest.param(*pair, id=".".join(filter(None, pair)), marks=marks[pair[0] in QUICK]) for pair in instances()]


@pytest.mark.parametrize(("name", "exporter"), _marked())
def test_the_same_bits(name: str, exporter: Exporter | None, tmp_path: Path) -> None:
    try:
        program = read_program(model_path(name, exporter))
    except Unavailable as reason:
        pytest.skip(str(reason))
    case = MODELS[name]
    reference = executable(program.copy())
    library = make("shared", program.copy(), tmp_path / "model", beside=True)
    command = make("exe", program, tmp_path / "command", beside=True)
    weights = library.parent / "model.safetensors"
    model = Library(library, "model", reference.outputs, weights if weights.exists() else None)
    sizes = sizes_to_try(case.sizes)
    for seed, chosen in enumerate(sizes):
        feeds = random_inputs(case, seed, **chosen)
        wanted = reference.run(feeds)
        for got, (output, want) in zip(model.run(feeds_of(reference.inputs, feeds)), wanted.items(), strict=True):
            np.testing.assert_array_equal(got, want, output)
        if chosen in (sizes[0], sizes[-1]):
            np.savez(tmp_path / "in.npz", **dict[str, Any](feeds))
            run(command, tmp_path / "in.npz", "-o", tmp_path / "out.npz")
            with np.load(tmp_path / "out.npz") as made:
                for output, want in wanted.items():
                    np.testing.assert_array_equal(made[output], want, output)
    model.close()
