"""`.pt2` files: loading, importing as source, and files that would run code."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
from burn.importers.torch.file import _is_size, read_pt2  # noqa: E402

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


def pickled(witness: Path, kind: type = tuple) -> bytes:
    buffer = io.BytesIO()
    torch.save(((Payload(witness),), {}) if kind is tuple else {"w": Payload(witness)}, buffer)
    return buffer.getvalue()


def refused(path: Path, witness: Path, wanted: str) -> None:
    with pytest.raises(burn.ModelError, match=wanted):
        read_pt2(path)
    assert not witness.exists()


def test_the_witness_is_one(tmp_path: Path) -> None:
    """The effect that the tests below look for does occur in plain unpickling."""
    torch.load(io.BytesIO(pickled(tmp_path / "witness")), weights_only=False)
    assert (tmp_path / "witness").exists()


def test_files_of_the_older_format(saved: tuple[Path, Any], tmp_path: Path) -> None:
    """torch falls back to entries at the top of the archive, which it unpickles."""
    witness, path = tmp_path / "witness", tmp_path / "old.pt2"
    with zipfile.ZipFile(saved[0]) as old:
        model = next(old.read(name) for name in old.namelist() if name.endswith("models/model.json"))
    with zipfile.ZipFile(path, "w") as new:
        new.writestr("x/models/model.json", "{}")
        new.writestr("version", ".".join(map(str, json.loads(model)["schema_version"].values())))
        new.writestr("serialized_exported_program.json", model)
        for name in ("state_dict", "constants", "example_inputs"):
            new.writestr(f"serialized_{name}.pt", pickled(witness, dict))
    refused(path, witness, "'serialized_constants.pt' is outside of the folder")


@pytest.mark.parametrize("name", ["data/sample_inputs/model.pt", "data/Sample_Inputs/model.pt"])
def test_entries_of_one_name(saved: tuple[Path, Any], tmp_path: Path, name: str) -> None:
    """Python reads the last of two entries of a name, torch the first; torch takes letter case for nothing."""
    witness, path = tmp_path / "witness", tmp_path / "twice.pt2"
    with zipfile.ZipFile(saved[0]) as old, zipfile.ZipFile(path, "w") as new:
        new.writestr(f"{old.namelist()[0].partition('/')[0]}/{name}", pickled(witness))
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    refused(path, witness, "more than once")


def test_letter_case(saved: tuple[Path, Any], tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    path = changed(
        saved[0],
        tmp_path / "case.pt2",
        lambda n, c: None if "/sample_inputs/" in n else c,
        {"data/Sample_Inputs/model.pt": pickled(witness)},
    )
    refused(path, witness, "'data/Sample_Inputs/model.pt' is nothing that torch.export.save writes")


def test_pickled_weights(saved: tuple[Path, Any], tmp_path: Path) -> None:
    witness = tmp_path / "witness"

    def change(name: str, content: bytes) -> bytes:
        if name.endswith("/weight_0"):
            return pickled(witness)
        return content.replace(b'"use_pickle": false', b'"use_pickle": 1')  # which is as good as true to torch

    refused(changed(saved[0], tmp_path / "weights.pt2", change), witness, "pickled tensor")
    whole = {"data/weights/model.pt": pickled(witness, dict)}
    refused(
        changed(saved[0], tmp_path / "whole.pt2", lambda n, c: c, whole), witness, "'data/weights/model.pt' is a pick"
    )


def test_roots_and_sizes(saved: tuple[Path, Any], tmp_path: Path) -> None:
    with zipfile.ZipFile(changed(saved[0], tmp_path / "two.pt2", lambda n, c: c), "a") as archive:
        archive.writestr("other/archive_format", "pt2")
    with pytest.raises(burn.ModelError, match="the folders 'model', 'other', not one"):
        read_pt2(tmp_path / "two.pt2")
    # torch makes a tensor of the size that is claimed when its file is empty
    empty = changed(saved[0], tmp_path / "empty.pt2", lambda n, c: b"" if n.endswith("/weight_0") else c)
    with pytest.raises(burn.ModelError, match=r"'0\.weight' in 'weight_0', which is empty"):
        read_pt2(empty)
    damaged = bytearray(saved[0].read_bytes())
    with zipfile.ZipFile(saved[0]) as archive:
        entry = next(e for e in archive.infolist() if e.filename.endswith("/weight_0"))
        start = damaged.index(archive.read(entry), entry.header_offset)
    damaged[start] ^= 1
    (tmp_path / "damaged.pt2").write_bytes(damaged)
    with pytest.raises(burn.ModelError, match=r"damaged.*\n?.*CRC"):
        read_pt2(tmp_path / "damaged.pt2")


def test_containers_import_nothing(saved: tuple[Path, Any], tmp_path: Path) -> None:
    """torch imports the module that a defaultdict's or an enum's description names, JSON within JSON."""
    context = {"default_factory_module": "this", "default_factory_name": "s", "dict_context": []}
    spec = [1, {"type": "collections.defaultdict", "context": json.dumps(context), "children_spec": []}]
    enum = [1, {"type": "builtins.dict", "context": json.dumps([{"__enum__": True, "fqn": "this:S", "name": "a"}])}]

    def set_spec(value: Any) -> Callable[[Any], None]:
        def edit(model: Any) -> None:
            model["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json.dumps(value)

        return edit

    for value, wanted in ((spec, "a defaultdict of this.s"), (enum, "the type 'this:S'")):
        with pytest.raises(burn.ModelError, match=wanted):
            read_pt2(changed(saved[0], tmp_path / "bad.pt2", in_model(set_spec(value))))


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("Mul(Integer(2), Symbol('s27', positive=True, integer=True))", True),
        ("Pow(Add(FloorDiv(Add(s0, Integer(-1)), Integer(2)), Integer(1)), Integer(2))", True),
        ("FloatPow(ToFloat(Pow(s0, Integer(2))), Float('0.5', precision=53))", True),
        ("s0**2 // 4", True),
        ("9**9**9**9", False),
        ("Pow(9,Pow(9,9))", False),
        ("Pow(Pow(Pow(s0, 4), 4), 4)", False),
        ("Pow(Integer(9), Integer(1000000000))", False),
        ("Pow(9, Float('1e9'))", False),
        ("PowByNatural(s0, s1)", False),
        ("LShift(1, 1000000000)", False),
        ("1 << 1000000000", False),
        ("Float(1.5, 1000000000)", False),
        ("Float(1.5, precision=1000000000)", False),
        ("Integer(" + "9" * 100 + ")", False),
        ("Integer('" + "9" * 100 + "')", False),
        ("-" * 20_000 + "1", False),
        ("+".join(["s0"] * 1500), False),
        ("Max(1, #\n2)", False),
        ("s0.args", False),
        (3, False),
    ],
)
def test_size_expressions(text: Any, good: bool) -> None:
    """Only what is evaluated at once: sympy computes what is written, before anything looks at the result."""
    assert _is_size(text) is good


def test_size_expressions_are_not_evaluated(saved: tuple[Path, Any], tmp_path: Path) -> None:
    path = changed(saved[0], tmp_path / "bad.pt2", lambda n, c: c.replace(b"Symbol('s", b"Pow(9, 9**9**9) + Symbol('s"))
    with pytest.raises(burn.ModelError, match="no arithmetic"):
        read_pt2(path)


def test_pickled_examples_are_not_read(saved: tuple[Path, Any], tmp_path: Path) -> None:
    """Files hold the inputs they were exported with; the program is read without them."""
    witness = tmp_path / "witness"
    path = changed(saved[0], tmp_path / "bad.pt2", lambda n, c: pickled(witness) if "/sample_inputs/" in n else c)
    run = burn.load(path)
    assert run(np.zeros((2, 3), np.float32)).shape == (2, 2)
    assert not witness.exists()


def test_no_archive(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(b"nothing")
    with pytest.raises(burn.ModelError, match="no zip archive"):
        burn.load(tmp_path / "m.pt2")
    with pytest.raises(burn.ModelError, match="cannot read"):
        burn.load(tmp_path / "none.pt2")


def test_containers_of_transformers_are_known_in_a_new_process(tmp_path: Path) -> None:
    """torch registers a library's containers once the modules that define them are imported."""
    pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> BaseModelOutput:
            return BaseModelOutput(last_hidden_state=x.relu())

    torch.export.save(torch.export.export(Module(), (torch.ones(3),)), tmp_path / "m.pt2")
    read = "import burn, numpy as np; print(burn.load('m.pt2')(np.ones(3, np.float32)))"
    done = subprocess.run([sys.executable, "-c", read], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[1.", "1.", "1.]"] and not done.stderr


def test_modules_that_a_description_may_name() -> None:
    from burn.importers.torch.containers import MODULES, TYPES

    text = json.dumps(json.dumps({"type": "transformers.models.clip.modeling_clip.CLIPOutput"})).encode()
    assert [MODULES.fullmatch(n.decode()) is not None for n in TYPES.findall(text)] == [True]
    assert MODULES.fullmatch("transformers.commands.serve") is None
