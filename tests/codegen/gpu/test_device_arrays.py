"""Device arrays on a simulated GPU: programs accept and return them, other libraries share their memory."""

from __future__ import annotations

import gc
import pickle
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import burn
from burn.errors import IndexRunError, InputError
from burn.runtime import _native, torch_tensors
from burn.runtime.device import device
from burn.runtime.device_array import DeviceArray, to_device

pytest.importorskip("triton")
pytest.importorskip("torch")

import torch

from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.runtime.simulation import simulation

X = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)


class Theirs:
    """Another library's tensor, over the memory of a device array. strides: in elements, if it is not dense."""

    def __init__(self, array: DeviceArray, transposed: bool = False) -> None:
        self.array, self.transposed, self.streams = array, transposed, []
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack__(self, *, stream: int, max_version: Any = None) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=-1, max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def twice() -> Any:
    return burn.compile(lambda x: x * 2 + 1, (X,), cache=False, device="cuda")


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_, np.int8, np.complex64])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 1, 5)])
def test_there_and_back(gpu: SimulatedGPU, dtype: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    array = to_device(x, "cuda:1")
    assert (array.shape, array.dtype, str(array.device)) == (shape, np.dtype(dtype).name, "cuda:1")
    back = array.numpy()
    assert back.dtype == x.dtype and back.flags.writeable
    np.testing.assert_array_equal(back, x)
    np.testing.assert_array_equal(np.asarray(array), x)
    moved = array.to("cuda:0")
    assert str(moved.device) == "cuda:0" and array.to("cuda:1") is array
    np.testing.assert_array_equal(moved.to("cpu"), x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(moved)).numpy(), x)


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.complex64])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 1, 5), (70_001,)])
def test_arrays_do_not_pass_through_the_host(gpu: SimulatedGPU, dtype: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    array = to_device(x, "cuda:0")
    found = simulation()
    found.fail("cuMemcpyDtoHAsync_v2", 719)
    moved = array.to("cuda:1")
    if x.size:
        with pytest.raises(RuntimeError):  # this is the first copy to the host
            moved.numpy()
    assert isinstance(moved, DeviceArray) and str(moved.device) == "cuda:1"
    np.testing.assert_array_equal(moved.numpy(), x)


def test_tensors_move_between_devices(gpu: SimulatedGPU) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    moved = burn.tensor(x, device="cuda:0").to("cuda:1")
    assert str(moved.device) == "cuda:1"
    np.testing.assert_array_equal(moved.numpy(), x)


def test_outputs_stay_where_inputs_are(gpu: SimulatedGPU) -> None:
    made = twice()
    want = X * 2 + 1
    on_host, on_gpu = made(X), made(to_device(X, "cuda"))
    assert isinstance(on_host, np.ndarray) and isinstance(on_gpu, DeviceArray)
    np.testing.assert_allclose(on_host, want, rtol=1e-6)
    np.testing.assert_allclose(on_gpu.numpy(), want, rtol=1e-6)
    again = made(on_gpu)  # no copy on the way
    np.testing.assert_allclose(again.numpy(), want * 2 + 1, rtol=1e-6)


def test_keep_says_where_outputs_go(gpu: SimulatedGPU) -> None:
    made = twice()
    name, output = made.inputs[0].name, made.outputs[0].name
    assert isinstance(made.run({name: X}, keep=True)[output], DeviceArray)
    assert isinstance(made.run({name: to_device(X, "cuda")}, keep=False)[output], np.ndarray)
    assert isinstance(made.run({name: to_device(X, "cuda")})[output], DeviceArray)


def test_memory_is_freed_with_the_array(gpu: SimulatedGPU) -> None:
    made, used = twice(), lambda: device("cuda").facts()["used"]
    made(X)
    gc.collect()
    before = used()
    kept = made(to_device(X, "cuda"))
    assert used() > before
    view = kept.reshaped((5, 3))
    del kept
    np.testing.assert_allclose(view.numpy(), (X * 2 + 1).reshape(5, 3), rtol=1e-6)
    del view
    gc.collect()
    assert used() == before


def test_what_was_given_up_stays_where_a_kernel_fails_before_it(gpu: SimulatedGPU) -> None:
    """Also where another group, which writes to memory of its own, has the same kernel."""
    types = ["float32[5, 3]", "float32[3, 5]", "float32[4, 2]", "int64[1]"]

    def function(x: Any, y: Any, table: Any, i: Any) -> Any:
        return -x, burn.ops.gather(table, i, axis=0), -y

    made = burn.compile(function, types, cache=False, device="cuda", donate=("y",))
    x, y, table = (to_device(a, "cuda") for a in (X.reshape(5, 3), X, np.ones((4, 2), np.float32)))
    *_, z = made(x, y, table, to_device(np.array([3]), "cuda"))
    assert z.address == y.address
    z.native_device.send(z.address, X.view(np.uint8).reshape(-1))
    with pytest.raises(IndexRunError):
        made(x, z, table, to_device(np.array([4]), "cuda"))
        device("cuda").wait()
    np.testing.assert_array_equal(z.numpy(), X)


def test_a_donated_array_becomes_the_output(gpu: SimulatedGPU) -> None:
    made = burn.compile(lambda x, y: x * 2 + y, (X, X), cache=False, device="cuda", donate=("x",))
    x, y = to_device(X, "cuda"), to_device(X, "cuda")
    address = x.address
    for _ in range(3):
        x = made(x, y)
        assert x.address == address
    np.testing.assert_allclose(x.numpy(), X * 15, rtol=1e-5)
    with pytest.raises(InputError, match="'x' is donated but shares memory"):
        made(x, x)
    with pytest.raises(InputError, match="another library's, and cannot be donated"):
        made(Theirs(x), y)
    with pytest.raises(InputError, match="'x' is read-only"):
        made(x.read_only(), y)


def test_other_libraries_arrays_are_taken_without_a_copy(gpu: SimulatedGPU) -> None:
    made = burn.compile(lambda x: (x * 1, x + 1), (X,), cache=False, device="cuda")
    array = to_device(X, "cuda")
    theirs = Theirs(array)
    same, more = made(theirs)
    assert theirs.streams == [device("cuda").native.stream]
    assert isinstance(same, DeviceArray) and isinstance(more, DeviceArray)
    np.testing.assert_array_equal(same.numpy(), X)
    np.testing.assert_array_equal(more.numpy(), X + 1)


def test_others_take_arrays_in_the_order_of_work(gpu: SimulatedGPU) -> None:
    made = twice()
    with simulation().lazy():  # the GPU runs nothing before a synchronisation
        result = made(to_device(X, "cuda"))
        theirs = Theirs(result)
        again = made(theirs)
        del result, theirs
        np.testing.assert_allclose(again.numpy(), (X * 2 + 1) * 2 + 1, rtol=1e-6)


def test_through_dlpack(gpu: SimulatedGPU) -> None:
    array = to_device(X, "cuda")
    assert array.__dlpack_device__() == (2, 0)
    np.testing.assert_array_equal(torch.from_dlpack(to_device(X, "cuda").to("cpu")).numpy(), X)

    class OnHost:
        def __dlpack__(self, **options: Any) -> Any:
            return array.__dlpack__(dl_device=(1, 0), max_version=(1, 0))

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    np.testing.assert_array_equal(np.from_dlpack(OnHost()), X)
    for stream in (None, 1, -1):
        array.__dlpack__(stream=stream)
    with pytest.raises(BufferError, match="stream 0"):
        array.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="cuda:1"):
        array.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="no layout for int4"):
        to_device(np.zeros(3, ml_dtypes.int4), "cuda").__dlpack__()


def test_host_arrays_next_to_device_arrays(gpu: SimulatedGPU) -> None:
    made = burn.compile(lambda x, y: x - y, (X, X), cache=False, device="cuda")
    y = X * 3
    mixed = made(to_device(X, "cuda"), y)
    assert isinstance(mixed, DeviceArray)
    np.testing.assert_allclose(mixed.numpy(), X - y, rtol=1e-6)
    tensors = made(torch.tensor(X), torch.tensor(y))
    assert isinstance(tensors, torch.Tensor) and tensors.device.type == "cpu"
    np.testing.assert_allclose(tensors.numpy(), X - y, rtol=1e-6)


def test_elsewhere(gpu: SimulatedGPU) -> None:
    on_gpu, on_host = twice(), burn.compile(lambda x: x * 2 + 1, (X,), cache=False)
    with pytest.raises(InputError, match=r"'x' is on cuda:1, and the program runs on cuda:0"):
        on_gpu(to_device(X, "cuda:1"))
    with pytest.raises(InputError, match=r"'x' is on cuda:1, and the program runs on cuda:0"):
        on_gpu(Theirs(to_device(X, "cuda:1")))
    for array in (to_device(X, "cuda"), Theirs(to_device(X, "cuda"))):
        with pytest.raises(InputError, match=r"'x' is on cuda:0; copy it to the CPU"):
            on_host(array)


def test_what_does_not_fit(gpu: SimulatedGPU) -> None:
    made = twice()
    with pytest.raises(InputError, match="element type float64, must be float32"):
        made(to_device(X.astype(np.float64), "cuda"))
    with pytest.raises(InputError, match="has shape"):
        made(to_device(X[0], "cuda"))
    with pytest.raises(InputError):
        made(to_device(X.T, "cuda"))


def test_a_failed_run_leaves_nothing_behind(gpu: SimulatedGPU) -> None:
    table = to_device(np.arange(12, dtype=np.float32).reshape(4, 3), "cuda")
    take = burn.compile(
        lambda t, i: burn.take(t, i, axis=0), (table, np.zeros(2, np.int64)), cache=False, device="cuda"
    )
    take(table, np.array([1, 3]))
    gc.collect()
    before = device("cuda").facts()["used"]
    with pytest.raises(burn.RunError, match="index 9 is out of range"):
        take(table, np.array([1, 9]))
    gc.collect()
    assert device("cuda").facts()["used"] == before
    np.testing.assert_array_equal(take(table, np.array([3, 0])).numpy(), table.numpy()[[3, 0]])


def a_failure_to_come(gpu: SimulatedGPU) -> tuple[Any, Any, Any]:
    """A program, its table, and the pending result of a call with an index out of range."""
    table = to_device(np.arange(12, dtype=np.float32).reshape(4, 3), "cuda")
    take = burn.compile(
        lambda t, i: burn.take(t, i, axis=0), (table, np.zeros(2, np.int64)), cache=False, device="cuda"
    )
    take(table, np.array([1, 3])).numpy()
    return take, table, take(table, np.array([1, 9]))


def test_failures_are_asynchronous_and_raised_by_the_next_copy_to_the_host(gpu: SimulatedGPU) -> None:
    with simulation().lazy():
        take, table, left = a_failure_to_come(gpu)
        later = burn.compile(lambda x: x * 2, (table,), cache=False, device="cuda")(table)
        with pytest.raises(IndexRunError, match=r"in this call or one before(?s:.)*index 9 is out of range"):
            later.numpy()
        np.testing.assert_array_equal(later.numpy(), table.numpy() * 2)  # the error is raised once
        np.testing.assert_array_equal(take(table, np.array([3, 0])).numpy(), table.numpy()[[3, 0]])
        assert left.shape == (2, 3)


def test_a_failure_outlives_its_program(gpu: SimulatedGPU) -> None:
    with simulation().lazy():
        take, _, left = a_failure_to_come(gpu)
        del take
        gc.collect()
        with pytest.raises(IndexRunError, match="index 9 is out of range"):
            left.numpy()


def test_synchronising_raises_a_failure(gpu: SimulatedGPU) -> None:
    with simulation().lazy():
        take, table, _ = a_failure_to_come(gpu)
        with pytest.raises(IndexRunError, match="index 9 is out of range"):
            device("cuda").wait()
        device("cuda").wait()
        device("cpu").wait()
        np.testing.assert_array_equal(take(table, np.array([2, 1])).numpy(), table.numpy()[[2, 1]])


def test_a_failure_comes_with_results_for_the_host(gpu: SimulatedGPU) -> None:
    with simulation().lazy():
        _, _, left = a_failure_to_come(gpu)
        twice_there = burn.compile(lambda x: x * 2, (left,), cache=False, device="cuda")
        with pytest.raises(IndexRunError, match="index 9 is out of range"):
            twice_there.run({"x": left}, keep=False)


def test_torchs_tensors_there_are_read_without_asking(gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torch's tensors, which do not exist on a simulated GPU."""

    class Tensor:
        device, requires_grad, dtype = SimpleNamespace(type="cuda", index=0), False, "torch.float32"
        is_conj = is_neg = lambda self: False

        def __init__(self, array: DeviceArray) -> None:
            self.array, self.shape = array, array.shape

        def is_contiguous(self) -> bool:
            return True

        def numel(self) -> int:
            return self.array.nbytes // 4

        def data_ptr(self) -> int:
            return self.array.address

        def __dlpack__(self, **options: Any) -> Any:
            raise RuntimeError("asked through DLPack")

    def given(capsule: Any) -> Tensor:
        address, shape, *_, owner = _native.device_from_dlpack(capsule)
        return Tensor(_native.foreign_device_array(there, address, np.dtype(np.float32), shape, owner, 0))

    there = device("cuda").native
    stream = SimpleNamespace(cuda_stream=0)
    fake = SimpleNamespace(
        Tensor=Tensor,
        nn=SimpleNamespace(Parameter=type("Parameter", (Tensor,), {})),
        cuda=SimpleNamespace(current_stream=lambda index: stream),
        utils=SimpleNamespace(dlpack=SimpleNamespace(from_dlpack=given)),
    )
    made = twice()
    monkeypatch.setattr(torch_tensors, "sys", SimpleNamespace(modules={"torch": fake}))
    for _ in range(3):
        found = made(Tensor(to_device(X, "cuda")))
        assert type(found) is Tensor
        np.testing.assert_allclose(found.array.numpy(), X * 2 + 1, rtol=1e-6)
    monkeypatch.setattr(Tensor, "requires_grad", True)
    with pytest.raises(InputError, match="cannot be read through DLPack"):
        made(Tensor(to_device(X, "cuda")))


def test_int8_matmuls_stay_on_the_gpu(gpu: SimulatedGPU) -> None:
    x, y = (np.random.default_rng(i).standard_normal((5, 5)).astype(ml_dtypes.float8_e4m3fn) for i in range(2))
    matmul = burn.compile(
        lambda x, y: burn.ops.dot_general(x, y, lhs_contract=(1,), rhs_contract=(0,), dtype="bfloat16"),
        ["float8_e4m3fn[5, 5]"] * 2,
        cache=False,
        device="cuda",
    )
    got = matmul(to_device(x, "cuda"), to_device(y, "cuda"))
    assert isinstance(got, DeviceArray)
    np.testing.assert_allclose(got.numpy().astype(np.float64), x.astype(np.float64) @ y.astype(np.float64), rtol=1e-2)
