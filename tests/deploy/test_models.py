"""Every reference model as a shared library and as a command: the bits of the same program in this process, at several sizes
and from eight threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn.compiler import executable
from burn.loading import read_program
from burn.runtime.executable import Executable
from tests.deploy.making import Array, Library, feeds_of, make, reference_models, run
from tests.e2e.test_models import sizes_to_try
from tests.models import MODELS, Unavailable, model_path, random_inputs
from tests.models.case import Exporter

pytestmark = pytest.mark.untuned  # results have the bits of `burn.load`, and deployed programs are not tuned


@pytest.mark.parametrize(("name", "exporter"), reference_models())
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
        _same(model.run(feeds_of(reference.inputs, feeds)), wanted)
        if chosen in (sizes[0], sizes[-1]):
            np.savez(tmp_path / "in.npz", **dict[str, Any](feeds))
            run(command, tmp_path / "in.npz", "-o", tmp_path / "out.npz")
            with np.load(tmp_path / "out.npz") as made:
                for output, want in wanted.items():
                    np.testing.assert_array_equal(made[output], want, output)
    drawn = [random_inputs(case, seed, **chosen) for seed, chosen in enumerate(sizes)]
    small = sorted(drawn, key=lambda feeds: sum(array.size for array in feeds.values()))[:3]
    _same_from_threads(model, reference, small)
    model.close()


def _same(got: Sequence[Array], wanted: Mapping[str, Array]) -> None:
    for array, (output, want) in zip(got, wanted.items(), strict=True):
        np.testing.assert_array_equal(array, want, output)


def _same_from_threads(model: Library, reference: Executable, feeds: Sequence[dict[str, Array]]) -> None:
    """Eight threads share one library, each beginning with other sizes than its neighbour."""
    wanted = [reference.run(given) for given in feeds]

    def call(thread: int) -> None:
        for turn in range(len(feeds)):
            which = (thread + turn) % len(feeds)
            _same(model.run(feeds_of(reference.inputs, feeds[which])), wanted[which])

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(call, thread) for thread in range(8)]:
            done.result()
