"""`burn.load`: formats, the cache, and what a warm start leaves alone. Each start is a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import burn
from burn import compiler, loading
from burn.errors import BurnError, ModelError
from burn.loading import read_program
from tests.clocks import wait_for_tick


def small_model(path: Path, factor: float = 2.0, external: bool = False) -> Path:
    weight = numpy_helper.from_array(np.full((4, 300), factor, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 300])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options: dict[str, Any] = (
        {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0} if external else {}
    )
    onnx.save(model, path, **options)
    return path


pytestmark = pytest.mark.usefixtures("own_cache")


def compiled(path: Path, **options) -> tuple[burn.Executable, int]:
    before = burn.compile_count()
    executable = burn.load(path, **options)
    return executable, burn.compile_count() - before


X = np.arange(8, dtype=np.float32).reshape(2, 4)


def test_the_second_load_comes_from_the_cache(tmp_path: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    first, count = compiled(path)
    assert count == 1
    second, count = compiled(path)
    assert count == 0
    np.testing.assert_array_equal(first(X), second(X))
    assert compiled(path, cache=False)[1] == 1


def test_whatever_matters_makes_another_entry(tmp_path: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    compiled(path)
    assert compiled(path, dims={"n": 2})[1] == 1
    assert compiled(path, target="avx2")[1] == 1
    small_model(path, factor=3.0)
    executable, count = compiled(path)
    assert count == 1
    np.testing.assert_allclose(executable(X)[:, 0], X.sum(1) * 3)


def test_external_data_belongs_to_the_key(tmp_path: Path) -> None:
    path = small_model(tmp_path / "m.onnx", external=True)
    assert (tmp_path / "weights.bin").exists()
    np.testing.assert_allclose(compiled(path)[0](X)[:, 0], X.sum(1) * 2)
    assert compiled(path)[1] == 0
    wait_for_tick(tmp_path)
    (tmp_path / "weights.bin").write_bytes(np.full((4, 300), 5, np.float32).tobytes())
    executable, count = compiled(path)
    assert count == 1
    np.testing.assert_allclose(executable(X)[:, 0], X.sum(1) * 5)


def in_place(path: Path, factor: float) -> None:
    """Other contents of the same size, and the times of before."""
    wait_for_tick(path.parent)
    times = path.stat()
    other = small_model(path.with_name("other.onnx"), factor)
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def renamed(path: Path, factor: float) -> None:
    os.replace(small_model(path.with_name("other.onnx"), factor), path)


def external(path: Path, factor: float) -> None:
    wait_for_tick(path.parent)
    (path.parent / "weights.bin").write_bytes(np.full((4, 300), factor, np.float32).tobytes())


@pytest.mark.parametrize("is_put_back", [False, True])
@pytest.mark.parametrize("change", [in_place, renamed, external])
def test_a_file_that_is_replaced_before_it_is_read_makes_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, float], None], is_put_back: bool
) -> None:
    """The file is named in the cache by its bytes, and then read by the importer."""
    path = small_model(tmp_path / "m.onnx", external=change is external)
    read = loading.read_program

    def replaced(path: Path, *choices: Any) -> Any:
        change(path, 5.0)
        return read(path, *choices)

    compile_program = compiler.compile_program

    def compiled_and_put_back(program: Any, options: Any) -> Any:
        made = compile_program(program, options)
        if is_put_back:
            change(path, 2.0)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(loading, "read_program", replaced)
        patch.setattr(compiler, "compile_program", compiled_and_put_back)
        assert compiled(path)[1] == 1
    change(path, 2.0)
    executable, count = compiled(path)
    np.testing.assert_allclose(executable(X)[:, 0], X.sum(1) * 2)
    assert count == 1 and compiled(path)[1] == 0


def test_sizes_can_be_fixed(tmp_path: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    assert burn.load(path, dims={"n": 2}).inputs[0].dims == (2, 4)
    with pytest.raises(ModelError, match="sizes were given for q"):
        burn.load(path, dims={"q": 2})


def test_a_compiled_program_is_a_model_too(tmp_path: Path) -> None:
    executable = burn.load(small_model(tmp_path / "m.onnx"))
    executable.artefact.save(tmp_path / "m.burn")
    loaded, count = compiled(tmp_path / "m.burn")
    assert count == 0
    np.testing.assert_array_equal(loaded(X), executable(X))
    with pytest.raises(ModelError, match="compiled already"):
        burn.load(tmp_path / "m.burn", dims={"n": 1})


def test_machine_code_under_another_name_is_not_run(tmp_path: Path) -> None:
    executable = burn.load(small_model(tmp_path / "m.onnx"))
    executable.artefact.save(tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=r"holds machine code(.|\n)*\.burn"):
        burn.load(tmp_path / "model.onnx")
    executable.artefact.save(tmp_path / "m.burn")
    with pytest.raises(ModelError, match=r"is a compiled program \(burn\.load and burn run take it"):
        read_program(tmp_path / "m.burn")
    (tmp_path / "m.burn").write_bytes((tmp_path / "m.onnx").read_bytes())
    with pytest.raises(ModelError, match="not a compiled program"):
        burn.load(tmp_path / "m.burn")


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    """A pipe without a writer would be waited for without end."""
    os.mkfifo(tmp_path / "pipe.onnx")
    for suffix in ("onnx", "mlir", "pt2", "burn"):
        path = tmp_path / f"pipe.{suffix}"
        if not path.exists():
            os.mkfifo(path)
        with pytest.raises(ModelError, match="pipe or a device"):
            burn.load(path)
    with pytest.raises(ModelError, match="a folder"):
        burn.load(tmp_path)


def test_external_data_in_an_unusual_order_is_not_kept(tmp_path: Path) -> None:
    """The cache would not see that the weights change."""
    path = small_model(tmp_path / "m.onnx", external=True)
    usual, name = path.read_bytes(), b"\x12\x0bweights.bin"
    assert b"\n\x08location" + name in usual
    path.write_bytes(usual.replace(b"\n\x08location" + name, name + b"\n\x08location"))
    for factor in (2, 5):
        (tmp_path / "weights.bin").write_bytes(np.full((4, 300), factor, np.float32).tobytes())
        executable, count = compiled(path)
        assert count == 1
        np.testing.assert_allclose(executable(X)[:, 0], X.sum(1) * factor)


def test_a_program_in_text_form(tmp_path: Path) -> None:
    from burn.dialect.text import to_text
    from burn.importers.onnx import import_onnx
    from burn.importers.weights import safetensors

    program = import_onnx(small_model(tmp_path / "m.onnx"))
    (tmp_path / "p.mlir").write_text(to_text(program))
    safetensors.write(tmp_path / "p.safetensors", dict(program.weights.items()))
    np.testing.assert_allclose(burn.load(tmp_path / "p.mlir")(X)[:, 0], X.sum(1) * 2)
    (tmp_path / "p.mlir").write_text("nonsense")
    with pytest.raises(ModelError):
        burn.load(tmp_path / "p.mlir")


def test_a_text_whose_types_do_not_fit_is_refused(tmp_path: Path) -> None:
    """Kernels would write behind the end of a buffer."""
    (tmp_path / "p.mlir").write_text(
        """func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {
          %0 = "burn.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
          "burn.return"(%0) : (tensor<5xf32>) -> ()
        }"""
    )
    with pytest.raises(ModelError, match=r"p\.mlir is malformed[^$]*float32\[5\], but its operands give float32\[4\]"):
        burn.load(tmp_path / "p.mlir", cache=False)


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read"):
        burn.load(tmp_path / "absent.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelError):
        burn.load(tmp_path / "bad.onnx")
    with pytest.raises(BurnError, match="at least 1"):
        burn.load(small_model(tmp_path / "m.onnx"), threads=0)


def test_a_failed_load_leaves_nothing_in_the_cache(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelError):
        burn.load(tmp_path / "bad.onnx")
    assert not list(own_cache.rglob("*.burn"))


START = """
import sys, time
before = set(sys.modules)
start = time.perf_counter()
import burn, numpy as np
model = burn.load({path!r})
y = model(np.ones((2, 4), np.float32))
seconds = time.perf_counter() - start
import json
import os
named = {{"onnx", "torch_mlir", "google", "logging", "tempfile", "shutil", "statistics", "html", "sysconfig"}}
print(json.dumps([seconds, burn.compile_count(), sorted(named & set(sys.modules) - before)]))
"""


def test_a_warm_start_imports_neither_onnx_nor_mlir_nor_costly_parts_of_the_library(tmp_path: Path) -> None:
    path = small_model(tmp_path / "m.onnx")
    outcomes = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", START.format(path=str(path))], capture_output=True, text=True, check=True
        )
        outcomes.append(json.loads(done.stdout))
    assert outcomes[0][1] == 1 and {"google", "onnx", "torch_mlir", "tempfile"} <= set(outcomes[0][2])
    assert outcomes[1][1:] == [0, []]


def test_import_burn_is_light() -> None:
    script = "import sys, burn; print([m for m in ('numpy', 'onnx', 'torch_mlir', 'click') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_weights_are_no_program(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"")
    with pytest.raises(burn.ModelError, match="is empty"):
        burn.load(path)
    path.write_bytes(len(b"{}").to_bytes(8, "little") + b"{}")
    with pytest.raises(burn.ModelError, match=r"weights alone .*module\.load"):
        burn.load(path)
