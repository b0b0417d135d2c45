"""Source out of programs: what is built from it is what it was written from, and it reads as a person would write it."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import burn
from burn import nn, ops
from burn.dialect.dims import parse
from burn.dialect.program import Program
from burn.errors import BurnError, CompileError
from burn.exporters.python.generate import Source, generate
from burn.exporters.python.names import Names, block_name, identifier, parameter_path, snake_case
from burn.exporters.python.text import Text, binary, literal, number, size
from burn.importers.onnx import import_onnx
from burn.importers.weights import safetensors
from burn.tracing.trace import trace
from tests.models import MODELS, Unavailable, instances, is_slow, model_path, random_inputs
from tests.models.case import Exporter
from tests.onnx_suite.cases import Case, load_cases, without_repeats

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
CHUNKS = 8
LIGHT = (
    "gpt2_tiny",
    "lstm",
    "unet",
    "mnist",
    "magika",
    "ultraface",
    "silero_vad",
    "mobilenet",
    "minilm",
)
"""Models of every run. Those of the onnx package are slow: their ops are in its node tests, and their names in `test_names`."""


def load_source(source: Source, folder: Path) -> tuple[ModuleType, nn.Module]:
    """As a user does: the two files, an import, `from_file`."""
    (folder / "model.py").write_text(source.text)
    safetensors.write(folder / "model.safetensors", source.tensors)
    spec = importlib.util.spec_from_file_location("generated_model", folder / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, getattr(module, source.name).from_file(folder / "model.safetensors")


# ---- every program that can be imported --------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_node_tests_make_the_round_trip(chunk: int) -> None:
    """A covering subset. `generate` raises unless tracing its source gives the program again, op by op."""
    round_trips(without_repeats(load_cases(("node",)))[chunk::CHUNKS], 90)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_all_node_tests_make_the_round_trip(chunk: int) -> None:
    round_trips(load_cases(("node",))[chunk::CHUNKS], 200)


def round_trips(cases: list[Case], least: int) -> None:
    failures, done = [], 0
    for case in cases:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = import_onnx(case.model)
        except BurnError:
            continue  # not imported: another test's matter
        try:
            generate(program)
            done += 1
        except CompileError as error:
            if "sequences and optionals as inputs or outputs" not in str(error):  # modules take and give tensors
                failures.append(f"{case.name}: {error}")
        except Exception as error:  # whatever it is, it is listed
            failures.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)
    assert done > least


def _instances() -> list:
    marked = []
    for name, exporter in instances():
        label = ".".join(filter(None, (name, exporter)))
        slow = name not in LIGHT or (exporter == "dynamo" and is_slow(name, exporter))
        marked.append(pytest.param(name, exporter, id=label, marks=[pytest.mark.slow] if slow else []))
    return marked


@pytest.mark.untuned
@pytest.mark.covering(each=lambda name, exporter: (name, exporter))
@pytest.mark.parametrize(("name", "exporter"), _instances())
def test_models_give_the_same_numbers(name: str, exporter: Exporter | None, tmp_path: Path) -> None:
    """Bit for bit, through the files and the compiler."""
    try:
        path = model_path(name, exporter)
    except Unavailable as reason:
        pytest.skip(str(reason))
    case = MODELS[name]
    _, model = load_source(generate(import_onnx(path)), tmp_path)
    ours, direct = burn.compile(model), burn.load(path, cache=False)
    assert [(s.name, s.dtype, s.dims) for s in ours.inputs] == [(s.name, s.dtype, s.dims) for s in direct.inputs]
    feeds = random_inputs(case, 5)
    got, want = ours.run(feeds), direct.run(feeds)
    assert list(got) == list(want)
    for key in want:
        np.testing.assert_array_equal(got[key], want[key], key)


# ---- how it reads ------------------------------------------------------------------------------------------------------

DIGITS_SOURCE = '''"""Model, written from digits.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Model(nn.Module):
    inputs = {"image": "float32[batch, 1, 8, 8]"}
    outputs = ("logits",)

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.max_pool = nn.MaxPool2d(2)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.norm3 = nn.BatchNorm2d(32)
        self.avg_pool = nn.AvgPool2d(2)
        self.hidden = nn.Linear(128, 64)
        self.output = nn.Linear(64, 10)

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        x = ops.relu(self.norm1(self.conv1(image / 16.0)))  # [batch, 16, 8, 8]
        x = ops.relu(self.norm2(self.conv2(x)))  # [batch, 32, 8, 8]
        x = self.norm3(self.conv3(self.max_pool(x)))  # [batch, 32, 4, 4]
        x = self.hidden(self.avg_pool(ops.relu(x)).flatten(1))  # [batch, 64]
        return self.output(ops.relu(x))
'''


def test_a_small_network_reads_as_it_was_written() -> None:
    assert generate(import_onnx(DIGITS), origin=DIGITS.name).text == DIGITS_SOURCE


class _Attention(nn.Module):
    def __init__(self, dim: int) -> None:
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.output = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        batch, length, dim = x.shape
        q, k, v = (
            f(x).reshape(batch, length, 4, dim // 4).permute(0, 2, 1, 3) for f in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(2, 3) + mask
        y = (scores.softmax() @ v).permute(0, 2, 1, 3).reshape(batch, length, dim)
        x = self.norm(x + self.output(y))
        return x + self.down(ops.gelu(self.up(x)))


class _Encoder(nn.Module):
    def __init__(self) -> None:
        self.embed = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(_Attention(32) for _ in range(5))
        self.head = nn.Linear(32, 7)

    def forward(self, tokens: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        bias = ops.select(mask == 1, burn.constant(0.0), burn.constant(-1e9)).unsqueeze(1).unsqueeze(1)
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(x[:, 0])


def test_repeated_layers_become_one_class_and_a_loop(tmp_path: Path) -> None:
    model = _Encoder()
    types = {"tokens": "int64[batch, length]", "mask": "int64[batch, length]"}
    source = generate(trace(model, types))
    assert source.text.count("class ") == 2 and "nn.ModuleList(Block() for _ in range(5))" in source.text
    assert "for layer in self.layers:" in source.text
    assert "batch, length, _ = x.shape" in source.text
    _, again = load_source(source, tmp_path)
    assert set(again.state_dict()) == set(model.state_dict())  # the names of the weights are also kept
    feeds = {"tokens": np.arange(12).reshape(2, 6) % 50, "mask": np.ones((2, 6), np.int64)}
    want = burn.compile(model, types).run(feeds)["output"]
    np.testing.assert_array_equal(burn.compile(again).run(feeds)["output"], want)


def test_blocks_that_differ_in_numbers_have_options() -> None:
    class Unit(nn.Module):
        def __init__(self, a: int, b: int, stride: int) -> None:
            self.conv = nn.Conv2d(a, b, 3, stride, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(b)
            self.point = nn.Conv2d(b, b, 1)

        def forward(self, x: burn.Tensor) -> burn.Tensor:
            y = ops.relu(self.norm(self.conv(x)))
            return ops.relu(self.point(y) * ops.sigmoid(y)) + y

    chain = nn.Sequential(Unit(3, 8, 1), Unit(8, 8, 2), Unit(8, 16, 2), Unit(16, 24, 1))
    text = generate(trace(chain, {"x": "float32[n, 3, 32, 32]"})).text
    assert "def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:" in text
    assert "(3, 8, 1)" in text and "(16, 24, 1)" in text
    assert "stride=stride" in text


def test_a_shared_weight_stays_one_parameter() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.embed = nn.Embedding(20, 8)

        def forward(self, tokens: burn.Tensor) -> burn.Tensor:
            return self.embed(tokens) @ self.embed.weight.T

    source = generate(trace(Tied(), {"tokens": "int64[n]"}))
    assert list(source.tensors) == ["embed.weight"]
    assert "self.embed(tokens) @ self.embed.weight.T" in source.text


LAYERS = {
    "nn.Conv1d(3, 4, 3, padding=((1, 2),), bias=False)": (nn.Conv1d(3, 4, 3, padding=((1, 2),), bias=False), "n, 3, 9"),
    "nn.Conv3d(2, 4, 2)": (nn.Conv3d(2, 4, 2), "n, 2, 4, 4, 4"),
    "nn.Conv2d(4, 8, (3, 1), stride=(2, 1), dilation=2, groups=2)": (
        nn.Conv2d(4, 8, (3, 1), (2, 1), dilation=2, groups=2), "n, 4, 16, 8",
    ),
    "nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)": (
        nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), "n, 4, 5, 5",
    ),
    "nn.LayerNorm((4, 5))": (nn.LayerNorm((4, 5)), "n, 4, 5"),
    "nn.LayerNorm(5, bias=False)": (nn.LayerNorm(5, bias=False), "n, 5"),
    "nn.RMSNorm(5, eps=1e-06)": (nn.RMSNorm(5, 1e-6), "n, 5"),
    "nn.GroupNorm(2, 6)": (nn.GroupNorm(2, 6), "n, 6, 4, 4"),
    "nn.InstanceNorm(6)": (nn.InstanceNorm(6), "n, 6, 4"),
    "nn.BatchNorm1d(6)": (nn.BatchNorm1d(6), "n, 6"),
    "nn.Linear(5, 3, bias=False)": (nn.Linear(5, 3, bias=False), "n, 7, 5"),
    "nn.Linear(5, 3)": (nn.Linear(5, 3, transposed=True), "n, 5"),  # stored as it is without
    "nn.PReLU(6, 1, 1)": (nn.PReLU(6, 1, 1), "n, 6, 4, 4"),
    "nn.MaxPool2d(3, stride=2, padding=1)": (nn.MaxPool2d(3, 2, 1), "n, 2, 9, 9"),
    "nn.AvgPool2d(3, padding=1)": (nn.AvgPool2d(3, padding=1), "n, 2, 9, 9"),
    "nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)": (
        nn.AvgPool2d(3, 1, 1, count_include_pad=False), "n, 2, 9, 9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("written", LAYERS)
def test_layers_are_recognised(written: str) -> None:
    layer, shape = LAYERS[written]
    text = generate(trace(layer, {"x": f"float32[{shape}]"})).text
    assert f" = {written}\n" in text


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_recognised(kind: str) -> None:
    layer = getattr(nn, kind)(6, 5, "bidirectional")
    text = generate(trace(layer, {"x": "float32[steps, n, 6]"})).text
    assert f'nn.{kind}(6, 5, direction="bidirectional")' in text


def test_control_flow_becomes_functions() -> None:
    def model(x: burn.Tensor, n: burn.Tensor) -> tuple[burn.Tensor, ...]:
        y = burn.cond(x.sum() > 0, lambda: x * 2, lambda: x - 1)
        total, rows = burn.loop(lambda i, going, a: (going, a + y, a[0]), [x], trips=n, condition=True, scans=1)
        return total, rows

    source = generate(trace(model, {"x": "float32[k, 3]", "n": "int64[]"}))
    assert "burn.cond(" in source.text and "burn.loop(" in source.text and "def then():" in source.text


def test_conditions_on_sizes_are_written() -> None:
    def forward(x: burn.Tensor) -> burn.Tensor:
        burn.check_size(x.shape[0] % 2, "==", 0)
        burn.check_size(x.shape[0], "<=", 16, "the cache has 16 rows")
        return x.exp()

    text = generate(trace(forward, {"x": "float32[n, 2]"})).text
    assert 'burn.check_size(n % 2, "==", 0)' in text
    assert 'burn.check_size(n, "<=", 16, "the cache has 16 rows")' in text


def test_a_program_with_fused_groups_is_refused() -> None:
    from burn.passes import pipeline

    program = trace(lambda x: ops.relu(x) + 1.0, {"x": "float32[4]"})
    pipeline.run(pipeline.parse("decompose,fuse"), program)
    with pytest.raises(CompileError, match=r"burn\.group"):
        generate(program)


def test_a_difference_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is read back: a wrong line in it is an error that names the op."""
    from burn.exporters.python import spell

    def wrong(node, scope):
        return spell.binary("add", *(scope.value(v) for v in node.operands))

    monkeypatch.setitem(spell.RULES, "sub", wrong)
    program: Program = trace(lambda x, y: ops.relu(x - y), {"x": "float32[4]", "y": "float32[4]"})
    with pytest.raises(CompileError, match=r"sub .* became add"):
        generate(program, plain=False)


# ---- the pieces --------------------------------------------------------------------------------------------------------


def test_numbers_are_written_short_and_exact() -> None:
    assert number(np.float32(0.1), "float32") == "0.1"
    assert number(float(np.float32(1e-5)), "float32") == "1e-05"
    assert number(0.1, "float64") == "0.1"
    assert number(float(np.float32(0.1)), "float64") == "0.10000000149011612"
    assert number(float("-inf"), "float32") == 'float("-inf")'
    assert number(3, "int64") == "3" and number(1, "bool") == "True"
    for value in np.random.default_rng(0).standard_normal(500).astype(np.float32) * np.float32(1e7):
        assert np.float32(float(number(value, "float32"))) == value


def test_literals() -> None:
    assert literal((1,)) == "(1,)" and literal([1, 2]) == "[1, 2]" and literal(None) == "None"
    assert literal("it's") == '"it\'s"' and literal("a") == '"a"'


def test_brackets_where_they_are_needed() -> None:
    a, b, c = Text("a"), Text("b"), Text("c")
    assert binary("mul", binary("add", a, b), c).code == "(a + b) * c"
    assert binary("sub", a, binary("sub", b, c)).code == "a - (b - c)"
    assert binary("lt", binary("lt", a, b), c).code == "(a < b) < c"
    assert binary("sub", binary("sub", a, b), c).code == "a - b - c"


@pytest.mark.parametrize("text", ["2*n + 1", "n*m - 3", "(n + 1) // 2", "min(n, 4*m)", "(n // 2) * m % 7", "-1*n + 5"])
def test_sizes_mean_what_they_did(text: str) -> None:
    dim = parse(text)
    code = size(dim, lambda d: str(d) if getattr(d, "is_symbol", False) else None).code
    assert eval(code, {"burn": burn, "n": burn.Dim("n"), "m": burn.Dim("m")}) == dim


def test_names() -> None:
    assert parameter_path("encoder.layer.0.query.weight") == ["encoder", "layer", "0", "query"]
    assert parameter_path("gpu_0/conv1_w_0") == ["gpu_0", "conv1"]
    assert parameter_path("onnx::MatMul_1604") == [] and parameter_path("val_12") == []
    assert identifier("2x/y.z") == "n2x_y_z" and identifier("class") == "class_" and identifier("past.0") == "past_0"
    assert snake_case("MaxPool2d") == "max_pool" and snake_case("LayerNorm") == "layer_norm"
    assert block_name([["encoder", "layer", "0"], ["encoder", "layer", "1"]], "Attention", False) == "EncoderLayer"
    assert block_name([["transformer", "h", "3"]], "TransformerLayer", False) == "TransformerLayer"
    assert block_name([["c3", "cv1"], ["stem"]], None, False) == "Block" and block_name([], None, True) == "Stage"
    assert block_name([["a", "self_attn"], ["b", "self_attn"]], None, False) == "SelfAttention"
    names = Names(["norm"])
    assert [names.from_path(["a", "norm"], "x"), names.from_path(["b", "norm"], "x")] == ["a_norm", "b_norm"]
    assert names.from_path([], "conv") == "conv" and names.from_path([], "conv") == "conv2"


def test_parameters_are_stored_as_they_are_used() -> None:
    """A layout turned into another by slices and joins is not written down; a vector laid along an axis stays a vector."""

    class Gates(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter((64, 8), init=lambda s: np.arange(512.0).reshape(s))
            self.bias = nn.Parameter((32,), init=lambda s: np.arange(32.0))

        def forward(self, x: burn.Tensor) -> burn.Tensor:
            swapped = ops.concat([self.weight[32:], self.weight[:32]], axis=0)
            return x @ swapped.reshape(2, 32, 8).transpose(1, 2) + self.bias.reshape(1, 1, 32)

    source = generate(trace(Gates(), {"x": "float32[2, n, 8]"}))
    assert "concat" not in source.text and "self.bias" in source.text
    shapes = {name: weight.shape for name, weight in source.tensors.items()}
    assert sorted(shapes.values()) == [(2, 32, 8), (32,)]
    x = np.random.default_rng(0).standard_normal((2, 3, 8), np.float32)
    np.testing.assert_array_equal(burn.compile(source.load())(x), burn.compile(Gates(), ("float32[2, n, 8]",))(x))
