"""Calls by name, with other libraries' tensors and with burn's: by one native call, with the results and errors of the others."""

from __future__ import annotations

import gc
import sys
import threading
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import burn
from burn.errors import BurnError, InputError
from burn.runtime import Executable, _native
from burn.runtime.arrays import Array, Unfit, like, to_numpy

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.float32(10) * A


@pytest.fixture(scope="module")
def minus() -> Executable:
    """d = a - b and s = a + b, for a, b: float32[n, 3]."""
    return burn.compile(lambda a, b: (a - b, a + b), (A, B), {"a": {0: "n"}, "b": {0: "n"}})


def natively(executable: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a call that needs more than the one native call."""

    def refuse(*_: object) -> None:
        raise AssertionError("the call went the long way")

    monkeypatch.setattr(executable, "_prepare", refuse)


@pytest.mark.parametrize("of", [np.asarray, torch.from_numpy, burn.tensor], ids=["numpy", "torch", "burn"])
def test_position_and_name_in_one_native_call(minus: Executable, of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    natively(minus, monkeypatch)
    a, b = of(A), of(B)
    calls = [minus(a, b), minus(a, b=b), minus(b=b, a=a), tuple(minus.run({"b": b, "a": a}).values())]
    for difference, total in calls:
        assert type(difference) is type(total) is type(a)
        np.testing.assert_array_equal(np.asarray(difference), A - B)
        np.testing.assert_array_equal(np.asarray(total), A + B)


def test_the_first_tensor_decides_the_class_of_the_outputs(minus: Executable) -> None:
    assert type(minus(A, torch.from_numpy(B))[0]) is torch.Tensor
    assert type(minus(torch.from_numpy(A), burn.tensor(B))[0]) is burn.Tensor  # burn's comes first, wherever it is
    assert type(minus(A, Array(B))[0]) is Array
    assert type(minus(A, B)[0]) is np.ndarray


@pytest.mark.parametrize(
    ("args", "named", "text"),
    [
        ((A,), {}, "input 'b' is missing"),
        ((A,), {"c": B}, "there is no input 'c'"),
        ((A, B), {"b": B}, "given both by position and by name"),
        ((A, B, A), {}, "3 inputs were given by position, there are 2"),
        ((), {"a": A, "b": B.astype(np.float64)}, "'b' has element type float64"),
        ((torch.from_numpy(A), torch.ones(3, 3)), {}, "'b' axis 0 is 3"),
        ((torch.from_numpy(A).double(), torch.from_numpy(B)), {}, "'a' has element type float64"),
        ((torch.ones(2, 3, requires_grad=True), torch.from_numpy(B)), {}, "use tensor.detach()"),
        ((torch.ones(2, 3, device="meta"), torch.from_numpy(B)), {}, "'a' "),
        ((torch.eye(2, 3).to_sparse(), torch.from_numpy(B)), {}, "cannot be read through DLPack"),
        ((burn.tensor(A).astype("int32"), B), {}, "'a' has element type int32"),
        ((torch.ones(2), B), {}, "must have 2 axes"),
    ],
)
def test_errors_name_the_inputs(minus: Executable, args: Any, named: Any, text: str) -> None:
    with pytest.raises(InputError) as error:
        minus(*args, **named)
    assert text in str(error.value)


def test_a_mapping_that_is_no_dict(minus: Executable) -> None:
    np.testing.assert_array_equal(minus.run(UserDict(a=A, b=B))["output_0"], A - B)


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[:, ::2][:, :3],
        lambda t: t.T.contiguous().T[:, :3],
        lambda t: t[:1, :3].expand(2, 3),
        lambda t: t[2:2, :3],
        lambda t: t[:, 1:4],
        lambda t: t.reshape(-1)[1:7].reshape(2, 3),
    ],
)
def test_strided_and_empty_torch_tensors(minus: Executable, view: Any) -> None:
    a = view(torch.arange(30, dtype=torch.float32).reshape(5, 6))
    b = torch.ones(a.shape)
    difference, total = minus(a, b)
    torch.testing.assert_close(difference, a - b, rtol=0, atol=0)
    torch.testing.assert_close(total, a + b, rtol=0, atol=0)


def test_lazy_signs_of_torch() -> None:
    """torch exports a view of negated elements without its sign."""
    negated = torch.view_as_complex(torch.randn(2, 3, 2)).conj().imag
    assert negated.is_neg()
    twice = burn.compile(lambda x: x * 2, (A,))
    torch.testing.assert_close(twice(negated), negated.resolve_neg() * 2)
    np.testing.assert_array_equal(to_numpy(negated, "float32"), negated.resolve_neg().numpy())
    conjugate = torch.randn(2, 3, dtype=torch.complex64).conj()
    with pytest.raises(Unfit):
        to_numpy(conjugate, "complex64")


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "bfloat16", "int8", "int64", "uint8", "bool", "complex64", "float8_e4m3fn"]
)
def test_element_types_of_torch(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    same = burn.compile(lambda x: burn.flip(x, 0), f"{dtype}[4]")
    natively(same, monkeypatch)
    x = torch.tensor([0, 1, 1, 0]).to(getattr(torch, dtype))
    found = same(x)
    assert found.dtype == x.dtype
    assert found.view(torch.uint8).tolist() == x.view(torch.uint8).reshape(4, -1).flip(0).reshape(-1).tolist()


def test_a_class_that_derives_from_torchs_tensor_goes_through_its_own_dlpack(minus: Executable) -> None:
    class Own(torch.Tensor):
        pass

    own = torch.from_numpy(A).as_subclass(Own)
    np.testing.assert_array_equal(np.asarray(minus(own, B)[0]), A - B)


def test_outputs_own_their_memory(minus: Executable) -> None:
    """Outputs live on without their executable, and are released with the last view, in any thread."""
    executable = Executable(minus.artefact)
    kept = executable(torch.from_numpy(A), torch.from_numpy(B))[0]
    view = kept[1:]
    del executable, kept
    gc.collect()
    torch.testing.assert_close(view, torch.from_numpy((A - B)[1:]))
    held = [view]
    del view
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()


def test_no_reference_leaks(minus: Executable) -> None:
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    named = {"a": a, "b": b}
    before = [sys.getrefcount(v) for v in (a, b, named)]
    for _ in range(100):
        minus(a, b)
        minus.run(named)
        with pytest.raises(InputError):
            minus(a=a, c=b)
    gc.collect()
    assert [sys.getrefcount(v) for v in (a, b, named)] == before


def test_random_programs_by_name() -> None:
    noisy = burn.compile(lambda x: x + burn.random.uniform(x.shape), (A,))
    noisy.seed(3)
    first = [noisy(A), noisy(x=A), noisy.run({"x": A}), noisy(torch.from_numpy(A))]
    noisy.seed(3)
    second = [noisy(A.copy()) for _ in first]
    for one, other in zip(first, second, strict=True):
        found = next(iter(one.values())) if isinstance(one, dict) else one
        np.testing.assert_array_equal(np.asarray(found), other)
    with pytest.raises(InputError):
        noisy(A.astype(np.float64))


def _tabular(path: Path) -> Path:
    """A classifier whose probabilities are maps, as skl2onnx writes them."""
    nodes = [
        helper.make_node(
            "LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", classlabels_ints=[3, 5, 9],
            coefficients=np.linspace(-1, 1, 12).tolist(), intercepts=[0.1, 0.2, 0.3], multi_class=1, post_transform="SOFTMAX",
        ),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[3, 5, 9]),
    ]  # fmt: skip
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    graph = helper.make_graph(
        nodes,
        "tabular",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]), helper.make_value_info("maps", maps)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_outputs_as_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    path = _tabular(tmp_path / "tabular.onnx")
    executable = burn.load(path)
    x = np.random.default_rng(0).standard_normal((5, 4), dtype=np.float32)
    wanted: Any = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})
    natively(executable, monkeypatch)
    calls = executable(x), executable(x=x), executable(torch.from_numpy(x)), executable.run({"x": x}).values()
    for label, maps in calls:
        assert list(label) == list(wanted[0])
        assert [list(m) for m in maps] == [list(m) for m in wanted[1]]
        np.testing.assert_allclose([list(m.values()) for m in maps], [list(m.values()) for m in wanted[1]], rtol=1e-5)


def test_limits_hold_for_calls_by_name() -> None:
    executable = burn.compile(lambda x: (x @ x.T).sum(), "float32[300, 300]")
    executable.limit(max_memory=1000)
    x = np.ones((300, 300), np.float32)
    for call in (lambda: executable(x), lambda: executable(x=x), lambda: executable.run({"x": x})):
        with pytest.raises(BurnError):
            call()
    executable.limit()
    assert float(executable(x=x)) == 300.0**3


def test_like_through_the_c_functions() -> None:
    found = like([A, B], [A, torch.zeros(1)])
    assert [type(f) for f in found] == [torch.Tensor] * 2
    torch.testing.assert_close(found[1], torch.from_numpy(B))
    assert _native.tensor_like(A, 3) is None
    assert _native.tensor_like(A.T, torch.zeros(1)) is None
