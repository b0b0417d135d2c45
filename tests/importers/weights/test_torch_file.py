"""Checkpoints that torch wrote are read as torch reads them."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn.errors import ModelError
from burn.importers import weights
from burn.importers.weights import torch_file
from tests.importers.weights.checkpoints import END, number, table, tensor, valid, zipped

torch = pytest.importorskip("torch")

DTYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128",
]  # fmt: skip
NEW = ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"]


def same(weight: Any, theirs: Any) -> None:
    assert weight.shape == tuple(theirs.shape)
    assert weight.dtype == str(theirs.dtype).removeprefix("torch.")
    flat = theirs.detach().contiguous().reshape(-1).view(torch.uint8) if theirs.numel() else torch.zeros(0)
    assert weight.array().tobytes() == flat.numpy().tobytes()


def tensors(names: list[str]) -> dict[str, Any]:
    base = torch.arange(-6, 6, dtype=torch.float32).reshape(3, 4)
    return {name: base.to(getattr(torch, name)) for name in names}


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_element_type(legacy: bool, protocol: int, tmp_path: Path) -> None:
    state = tensors(DTYPES if legacy else DTYPES + NEW)
    path = tmp_path / "m.pt"
    torch.save(state, path, pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)
    checkpoint = weights.read(path)
    assert list(checkpoint) == list(state) and checkpoint.layout == "torch"
    for name, theirs in state.items():
        same(checkpoint[name], theirs)
        assert checkpoint[name].file is not None  # mapped


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_views_of_one_storage(legacy: bool, tmp_path: Path) -> None:
    base = torch.randn(5, 7, 3)
    state = {
        "whole": base, "rows": base[1:4], "turned": base.permute(2, 0, 1), "strided": base[1:5:2, :, 1],
        "expanded": torch.randn(1, 3).expand(4, 3), "scalar": torch.tensor(2.5), "element": base[2, 3, 1],
        "empty": torch.zeros(0, 3), "one": base[:, :1, :1], "parameter": torch.nn.Parameter(base[0]),
    }  # fmt: skip
    torch.save(state, tmp_path / "m.pt", _use_new_zipfile_serialization=not legacy)
    checkpoint = weights.read(tmp_path / "m.pt")
    for name, theirs in state.items():
        same(checkpoint[name], theirs)
    assert checkpoint["whole"].offset == checkpoint["rows"].offset - 21 * 4  # still one storage


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_files_that_are_cut_short_say_so(legacy: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    torch.save({"a": torch.randn(500), "b": torch.randn(500)}, path, _use_new_zipfile_serialization=not legacy)
    content = path.read_bytes()
    for kept in (len(content) - 1, len(content) - 2100, len(content) - 2001):
        path.write_bytes(content[:kept])
        with pytest.raises(ModelError, match="it is cut short"):
            weights.read(path)


def test_keys_of_old_optimizers_and_other_numbers(tmp_path: Path) -> None:
    x = torch.randn(2)
    saved = {140_000_000_000_000: x, 1.5: x, (0, "a"): x, -1: x, True: x, 7: {"step": x}}
    torch.save(saved, tmp_path / "m.pt")
    assert list(weights.read(tmp_path / "m.pt")) == ["140000000000000", "1.5", "(0, 'a')", "-1", "True", "7.step"]
    assert list(weights.read(tmp_path / "m.pt", "7")) == ["step"]


def test_nested_dicts_integer_keys_and_what_is_no_tensor(tmp_path: Path) -> None:
    x = torch.randn(2)
    saved = {
        "layers": {0: {"w": x}, 1: [x, x]},
        "lr": 0.1,
        "name": "net",
        "dtype": torch.float16,
        "size": torch.Size([3]),
    }
    torch.save(saved, tmp_path / "m.pt")
    checkpoint = weights.read(tmp_path / "m.pt")
    assert list(checkpoint) == ["layers.0.w", "layers.1.0", "layers.1.1"]
    assert checkpoint.ignored == {"lr": "0.1", "name": "'net'", "dtype": "torch.float16", "size": "1 values"}


def test_the_state_dict_in_a_training_script_s_file(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.zeros(1, 3)).sum().backward()
    optimizer.step()
    torch.save(
        {"epoch": 3, "model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict()}, path
    )
    checkpoint = weights.read(path)
    assert list(checkpoint) == ["weight", "bias"] and "'model_state_dict'" in checkpoint.notes[0]
    assert checkpoint.ignored["epoch"] == "3" and "optimizer_state_dict" in checkpoint.ignored
    assert "state.0.exp_avg" in weights.read(path, "optimizer_state_dict")
    with pytest.raises(ModelError, match=r"top-level key 'ema'(.|\n)*'model_state_dict'"):
        weights.read(path, "ema")


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_numbers_and_settings_beside_the_weights_are_let_go(legacy: bool, tmp_path: Path) -> None:
    saved = {
        "model": {"w": torch.ones(2)}, "best": np.float64(0.5), "curve": np.arange(3), "args": argparse.Namespace(lr=0.1),
    }  # fmt: skip
    torch.save(saved, tmp_path / "m.pt", _use_new_zipfile_serialization=not legacy)
    checkpoint = weights.read(tmp_path / "m.pt")
    assert list(checkpoint) == ["w"]
    assert checkpoint.ignored == {"best": "a numpy number", "curve": "a numpy array", "args": "settings"}


def test_two_state_dicts_are_not_guessed_at(tmp_path: Path) -> None:
    state = torch.nn.Linear(3, 2).state_dict()
    torch.save({"model": state, "ema": {"deep": state}}, tmp_path / "m.pt")
    checkpoint = weights.read(tmp_path / "m.pt")
    assert "model.weight" in checkpoint and "ema.deep.weight" in checkpoint and "top_level_key" in checkpoint.notes[0]
    assert list(weights.read(tmp_path / "m.pt", "ema.deep")) == ["weight", "bias"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_gives_its_tensors(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 3), torch.nn.BatchNorm1d(2), torch.nn.ReLU()).eval()
    torch.jit.trace(model, torch.zeros(1, 1, 5)).save(tmp_path / "m.pt")
    checkpoint = weights.read(tmp_path / "m.pt")
    assert checkpoint.keys() == model.state_dict().keys()
    for name, theirs in model.state_dict().items():
        same(checkpoint[name], theirs)


def test_a_whole_module_is_refused(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(3, 2), tmp_path / "m.pt")
    with pytest.raises(ModelError, match=r"torch.nn.modules.linear.Linear is not allowed.*state_dict"):
        weights.read(tmp_path / "m.pt")


@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
@pytest.mark.parametrize("legacy", [False, True])
def test_lazy_signs_and_conjugates(legacy: bool, tmp_path: Path) -> None:
    """torch saves the storage as it is, and flags that the tensor stands for other elements."""
    z = torch.tensor([1 + 2j, 3 - 4j, 5 + 6j])
    negated = torch._neg_view(torch.arange(6.0).reshape(2, 3).T)
    tensors = {"imag": z.clone().conj().imag, "conj": z.conj(), "both": torch._neg_view(z.conj()), "strided": negated}
    tensors |= {"parameter": torch.nn.Parameter(torch._neg_view(torch.ones(3))), "plain": z}
    torch.save(tensors, tmp_path / "a.pt", _use_new_zipfile_serialization=not legacy)
    found = weights.read(tmp_path / "a.pt")
    for name, t in tensors.items():
        want = t.detach().resolve_conj().resolve_neg().numpy()
        np.testing.assert_array_equal(found[name].array(), want, err_msg=name)


def test_metadata_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch._utils, "get_tensor_metadata", lambda t: {"twisted": True}, raising=False)
    monkeypatch.setattr(torch._C, "_get_tensor_metadata", lambda t: {"twisted": True}, raising=False)
    torch.save({"x": torch.ones(2)}, tmp_path / "a.pt")
    with pytest.raises(ModelError, match="a tensor with the metadata 'twisted'"):
        weights.read(tmp_path / "a.pt")


def test_sparse_and_quantised_tensors_are_named(tmp_path: Path) -> None:
    state = {
        "sparse": torch.eye(3).to_sparse(),
        "quantised": torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8),
        "meta": torch.empty(3, device="meta"),
        "good": torch.randn(2),
    }
    torch.save(state, tmp_path / "m.pt")
    with pytest.raises(ModelError) as caught:
        weights.read(tmp_path / "m.pt")
    assert len(caught.value.problems) == 3 and {p.tensor for p in caught.value.problems} == {
        "sparse",
        "quantised",
        "meta",
    }


def test_bytes_of_a_big_endian_machine(tmp_path: Path) -> None:
    given = np.arange(6, dtype=">f4").tobytes()
    others = {"archive/byteorder": b"big"}
    state = table({"a": tensor(), "t": tensor((3, 2), (1, 3), count=6)}) + END
    checkpoint = weights.read(zipped(tmp_path / "m.pt", state, {"0": given}, others))
    np.testing.assert_array_equal(checkpoint["a"].array(), np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(checkpoint["t"].array(), np.arange(6, dtype=np.float32).reshape(2, 3).T)


def test_the_files_made_by_hand_are_as_torch_s(tmp_path: Path) -> None:
    theirs = torch.load(valid(tmp_path / "m.pt"), weights_only=True)
    ours = weights.read(tmp_path / "m.pt")
    for name in ("a.weight", "a.turned"):
        same(ours[name], theirs[name])


def test_legacy_files_that_are_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    torch.save({"a": torch.randn(3), "b": torch.randn(2, 2).T}, path, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(ModelError):
            torch_file.read(path)


ZIPS = {
    "escaping": ({"../../etc/passwd": b"x"}, "leads out"),
    "absolute": ({"/etc/passwd": b"x"}, "leads out"),
    "byte order": ({"archive/byteorder": b"middle"}, "byte order"),
}


@pytest.mark.parametrize("case", ZIPS)
def test_archives_that_are_none_of_torch_s(case: str, tmp_path: Path) -> None:
    others, message = ZIPS[case]
    with pytest.raises(ModelError, match=message):
        weights.read(zipped(tmp_path / "m.pt", table({"a": tensor()}) + END, None, others))


def test_compressed_storages_and_doubled_names(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", table({"a": tensor((1024,))}) + END)
        archive.writestr("archive/data/0", bytes(4096))
    with pytest.raises(ModelError, match="compressed, which torch never does"):
        weights.read(path)
    with zipfile.ZipFile(path, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for _ in range(2):
            archive.writestr("archive/data.pkl", table({"a": number(1)}) + END)
    with pytest.raises(ModelError, match="two members have this name"):
        weights.read(path)


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """As in zip bombs whose directory has many entries with one offset."""
    path = zipped(tmp_path / "m.pt", table({"a": tensor()}) + END, {"0": bytes(24), "1": bytes(24)})
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        first, second = (archive.getinfo(f"archive/data/{key}") for key in "01")
    entry = content.index(b"archive/data/1", second.header_offset + 60) - 46
    content[entry + 42 : entry + 46] = first.header_offset.to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(ModelError, match="overlap"):
        weights.read(path)


def test_the_oldest_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"storages".ljust(257, b"\0") + b"ustar".ljust(300, b"\0"))
    with pytest.raises(ModelError, match="too old"):
        weights.read(path)


def test_a_pickle_of_something_else(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "m.pt").write_bytes(pickle.dumps({"a": [1.0]}))
    with pytest.raises(ModelError, match=r"pickle that torch\.save did not write"):
        weights.read(tmp_path / "m.pt")
