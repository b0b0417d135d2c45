"""Trained weights from elsewhere in modules written by hand. Needs the folder shared/ beside the checkout."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import burn
from burn import nn, ops
from burn.cli.import_ import main
from burn.errors import ModelError

SHARED = Path(__file__).parents[4] / "shared"
MODELS, DATA = SHARED / "models", SHARED / "data" / "mnist"

MNIST = """
from burn import nn, ops


class Mnist(nn.Module):
    def __init__(self, hidden=32):
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.conv3 = nn.Conv2d(16, 24, 3)
        self.norm1 = nn.BatchNorm2d(24)
        self.fc1 = nn.Linear(24 * 22 * 22, hidden)
        self.fc2 = nn.Linear(hidden, 10)
        self.norm2 = nn.BatchNorm1d(10)

    def forward(self, x):
        for conv in (self.conv1, self.conv2, self.conv3):
            x = ops.relu(conv(x))
        x = self.norm1(x).flatten(1)
        return self.norm2(self.fc2(ops.relu(self.fc1(x))))
"""


def mnist() -> Any:
    names: dict = {}
    exec(MNIST, names)
    return names["Mnist"]()


def shared(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path.name} of the folder shared/ is not beside this checkout")
    return path


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first images of MNIST's test set, normalised as in its training, and what they show."""
    with gzip.open(shared(DATA / "t10k-images-idx3-ubyte.gz")) as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)[:count]
    with gzip.open(DATA / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)[:count]
    return ((pixels / 255 - 0.1307) / 0.3081).astype(np.float32), labels


@pytest.mark.parametrize("file", ["mnist.pt", "mnist.safetensors"])
def test_digits_are_told_apart(file: str) -> None:
    model = mnist()
    report = model.load(shared(MODELS / file))
    assert report.complete and len(report.applied) == 18 and len(report.skipped) == 2
    x, labels = images(10_000)
    classify = burn.compile(model, ("float32[batch, 1, 28, 28]",))
    found = np.concatenate([classify(x[i : i + 500]).argmax(1) for i in range(0, len(x), 500)])
    assert (found == labels).mean() > 0.97


class Speech(nn.Module):
    """silero_vad at 16 kHz: a spectrum, four convolutions, a recurrent cell, a probability."""

    def __init__(self) -> None:
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTM(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.stft_conv(x)
        x = ops.sqrt(x[:, :129] ** 2 + x[:, 129:] ** 2)
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = ops.relu(conv(x))
        y = self.lstm_cell(x.permute(2, 0, 1))[0]
        return ops.sigmoid(self.final_conv(ops.relu(y.reshape(y.shape[0], y.shape[2], y.shape[3]).permute(1, 2, 0))))


def test_speech_is_loaded_with_a_report() -> None:
    torch = pytest.importorskip("torch")
    model = Speech()
    report = model.load(shared(MODELS / "silero_vad_16k.safetensors"))
    assert report.complete and len(report.applied) == 14
    rows = {a.name: a for a in report.applied}
    assert rows["lstm_cell.weight_input"].sources == ("lstm_cell.weight_ih",)
    assert "lstm_cell.weight_ih (gates reordered)" in str(report)

    from safetensors.torch import load_file

    theirs = load_file(MODELS / "silero_vad_16k.safetensors")
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 1, 640), np.float32))
    F = torch.nn.functional
    s = F.conv1d(x, theirs["stft_conv.weight"], stride=128)
    s = (s[:, :129] ** 2 + s[:, 129:] ** 2).sqrt()
    for n, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
        s = F.conv1d(s, theirs[f"conv{n}.weight"], theirs[f"conv{n}.bias"], stride=stride, padding=1).relu()
    cell = torch.nn.LSTMCell(128, 128)
    cell.load_state_dict({n.removeprefix("lstm_cell."): t for n, t in theirs.items() if n.startswith("lstm_cell.")})
    state, steps = None, []
    for t in range(s.shape[2]):
        state = cell(s[:, :, t], state)
        steps.append(state[0])
    want = F.conv1d(torch.stack(steps, 2).relu(), theirs["final_conv.weight"], theirs["final_conv.bias"]).sigmoid()
    got = burn.compile(model, (x.numpy(),))(x.numpy())
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_burn_to_safetensors_to_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    ours = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3))
    ours.save(tmp_path / "m.safetensors")
    theirs = torch.nn.Sequential(
        torch.nn.Conv1d(2, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(20, 3)
    ).eval()
    theirs.load_state_dict(load_file(tmp_path / "m.safetensors"), strict=False)
    x = np.random.default_rng(1).standard_normal((3, 2, 7), np.float32)
    want = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(burn.compile(ours, (x,))(x), want, rtol=1e-5, atol=1e-5)
    save_file(theirs.state_dict(), tmp_path / "back.safetensors", metadata={"format": "pt"})
    again = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3))
    assert again.load(tmp_path / "back.safetensors").complete
    for name, array in ours.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name], array)


# ---- the command ---------------------------------------------------------------------------------------------------------


def run(folder: Path, *arguments: object) -> tuple[int, str, str]:
    (folder / "net.py").write_text(MNIST)
    before = sorted(folder.iterdir())
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    if result.exit_code:
        left = [p for p in folder.iterdir() if p not in before and p.name != "__pycache__"]
        assert not left, f"something was left behind: {left}"
        assert "Traceback" not in result.stderr
    return result.exit_code, result.stdout, result.stderr


def test_into_saves_a_module_s_weights(tmp_path: Path) -> None:
    weights = shared(MODELS / "mnist.pt")
    code, out, _ = run(tmp_path, weights, "--into", f"{tmp_path}/net.py:Mnist", "-o", tmp_path / "out.bpk")
    assert code == 0 and "18 applied, 2 skipped" in out
    arguments = (
        tmp_path / "out.bpk",
        "--into",
        f"{tmp_path}/net.py:Mnist",
        "-o",
        tmp_path / "out.safetensors",
        "--json",
    )
    code, out, _ = run(tmp_path, *arguments)
    assert code == 0 and json.loads(out)["report"]["complete"]
    model, want = mnist(), mnist()
    model.load(tmp_path / "out.safetensors")
    want.load(weights)
    for name, array in want.state_dict().items():
        np.testing.assert_array_equal(model.state_dict()[name], array)
    assert run(tmp_path, *arguments)[0] == 1  # it is there already
    assert run(tmp_path, *arguments, "--force")[0] == 0


def test_into_renames_and_casts(tmp_path: Path) -> None:
    state = {f"net.{name}": array.astype(np.float16) for name, array in mnist().state_dict().items()}
    np.savez(tmp_path / "w.npz", **state)
    arguments = (tmp_path / "w.npz", "--into", f"{tmp_path}/net.py:Mnist", "-o", tmp_path / "o.safetensors")
    code, _, err = run(tmp_path, *arguments)
    assert code == 1 and "'net.'" in err
    assert run(tmp_path, *arguments, "--remap", "^net\\.=>", "--dtype", "cast")[0] == 0
    model = mnist()
    model.load(tmp_path / "o.safetensors")
    assert model.fc1.bias.dtype == "float32"


INTO = {
    "no colon": ("net.py", "names nothing"),
    "no file": ("other.py:Net", "no such file"),
    "no class": ("net.py:Nothing", "it has Mnist"),
    "no module": ("no_such_package.models:Net", "cannot be imported"),
    "no nn.Module": ("builtins:dict", "makes no burn.nn.Module"),
    "not callable": ("net.py:__name__", "is no class"),
}


@pytest.mark.parametrize("case", INTO)
def test_classes_that_are_none(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "w.npz", a=np.zeros(2))
    target, message = INTO[case]
    code, _, err = run(tmp_path, "w.npz", "--into", target, "-o", "o.bpk")
    assert code == 1 and message in err


def test_arguments_of_the_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "w.npz", a=np.zeros(2))
    options = ("w.npz", "--into", "net.py:Mnist", "-o", "o.bpk", "--args")
    assert "unexpected keyword argument 'x'" in run(tmp_path, *options, '{"x": 1}')[2]
    assert run(tmp_path, *options, "{")[0] == 2 and run(tmp_path, *options, "3")[0] == 2
    code, _, err = run(tmp_path, *options, '{"hidden": 7}')
    assert code == 1 and "float32[7, 11616]" in err
    assert "cannot be run" in run_broken(tmp_path)


def run_broken(folder: Path) -> str:
    (folder / "broken.py").write_text("import nothing_of_that_name\n")
    return CliRunner().invoke(main, ["w.npz", "--into", "broken.py:Net", "-o", "o.bpk"]).stderr


def test_weights_without_a_class_are_refused(tmp_path: Path) -> None:
    for name in ("w.pt", "w.safetensors", "w.bpk"):
        (tmp_path / name).write_bytes(b"")
        code, _, err = run(tmp_path, tmp_path / name, "-o", tmp_path / "out")
        assert code == 1 and "--into" in err
    code, _, err = run(tmp_path, tmp_path / "w.pt", "--into", "net.py:Mnist", "-o", tmp_path / "out.pt")
    assert code == 1 and ".safetensors" in err


def test_a_module_is_not_touched_by_a_bad_file(tmp_path: Path) -> None:
    model = mnist()
    before = {name: array.copy() for name, array in model.state_dict().items()}
    model.save(tmp_path / "m.safetensors")
    content = (tmp_path / "m.safetensors").read_bytes()
    (tmp_path / "m.safetensors").write_bytes(content[:-8])
    with pytest.raises(ModelError):
        model.load(tmp_path / "m.safetensors")
    assert all(np.array_equal(model.state_dict()[name], array) for name, array in before.items())
