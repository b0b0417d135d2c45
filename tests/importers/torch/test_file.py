"""`.pt2` files: loading, importing as source, and files that would run code."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
from burn.importers.torch.file import read_pt2  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2)).eval()
    exported = torch.export.export(model, (torch.randn(2, 3),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    torch.export.save(exported, path)
    return path, model


def test_load(saved: tuple[Path, Any]) -> None:
    path, model = saved
    run = burn.load(path)
    for rows in (1, 5):
        x = torch.randn(rows, 3)
        np.testing.assert_allclose(run(x.numpy()), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert burn.load(path, dims={"input_0": 4}).inputs[0].dims == (4, 3)
    with pytest.raises(burn.ModelError, match="the sizes are called input_0"):
        burn.load(path, dims={"rows": 4})


def test_import_as_source(saved: tuple[Path, Any], tmp_path: Path) -> None:
    from click.testing import CliRunner

    from burn.cli.import_ import main

    path, model = saved
    result = CliRunner().invoke(main, [str(path), "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    names: dict[str, Any] = {}
    exec(compile((tmp_path / "out" / "model.py").read_text(), "model.py", "exec"), names)
    run = burn.compile(names["Model"].from_file(tmp_path / "out" / "model.safetensors"))
    x = torch.randn(3, 3)
    np.testing.assert_allclose(run(x.numpy()), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def changed(
    path: Path, to: Path, change: Callable[[str, bytes], bytes | None], extra: dict[str, bytes] | None = None
) -> Path:
    """A copy of an archive with every file passed through `change` (None drops it)."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w") as new:
        for entry in old.infolist():
            content = change(entry.filename, old.read(entry))
            if content is not None:
                new.writestr(entry.filename, content)
        for name, content in (extra or {}).items():
            new.writestr(f"{old.namelist()[0].partition('/')[0]}/{name}", content)
    return to


def in_model(edit: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return content
        model = json.loads(content)
        edit(model)
        return json.dumps(model).encode()

    return change


def call_system(model: Any) -> None:
    model["graph_module"]["graph"]["nodes"][0]["target"] = "torch.os.system"


def run_expression(model: Any) -> None:
    for value in model["graph_module"]["graph"]["tensor_values"].values():
        for size in value["sizes"]:
            if "as_expr" in size:
                size["as_expr"]["expr_str"] = "__import__('os').system('true')"


class Payload:
    """A pickle of this creates a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize(
    ("change", "extra", "wanted"),
    [
        (in_model(call_system), {}, "calls 'torch.os.system'"),
        (in_model(run_expression), {}, "no arithmetic"),
        (lambda n, c: c, {"data/aotinductor/model/a.so": b"\x7fELF"}, "is compiled code"),
        (lambda n, c: c, {"data/constants/custom_obj_0": b"\x80"}, "pickled object"),
        (lambda n, c: c, {"models/other.json": b"{}"}, "2 programs"),
        (lambda n, c: c.replace(b'"use_pickle": false', b'"use_pickle": true'), {}, "pickled tensor"),
        (lambda n, c: c[:-9] if n.endswith("models/model.json") else c, {}, "no JSON"),
        (lambda n, c: None if "weight_0" in n else c, {}, "torch cannot read"),
    ],
)
def test_files_that_are_refused(saved: tuple[Path, Any], tmp_path: Path, change: Any, extra: Any, wanted: str) -> None:
    path = changed(saved[0], tmp_path / "bad.pt2", change, extra)
    with pytest.raises(burn.ModelError, match=wanted):
        read_pt2(path)


def test_pickled_examples_are_not_read(saved: tuple[Path, Any], tmp_path: Path) -> None:
    """Files hold the inputs they were exported with; if those are no plain tensors the program is read without them."""
    witness = tmp_path / "witness"
    buffer = io.BytesIO()
    torch.save(((Payload(witness),), {}), buffer)
    path = changed(saved[0], tmp_path / "bad.pt2", lambda n, c: buffer.getvalue() if "/sample_inputs/" in n else c)
    run = burn.load(path)
    assert run(np.zeros((2, 3), np.float32)).shape == (2, 2)
    assert not witness.exists()


def test_no_archive(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(b"nothing")
    with pytest.raises(burn.ModelError, match="no zip archive"):
        burn.load(tmp_path / "m.pt2")
    with pytest.raises(burn.ModelError, match="cannot read"):
        burn.load(tmp_path / "none.pt2")
