"""Devices on a real GPU, which the simulated driver of tests/runtime can only imitate. Skipped without a GPU."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from burn.runtime import _native

MIB = 1 << 20

KERNELS = r"""
.version 8.0
.target sm_80
.address_size 64

// to[i] += from[i], float32; count is 32 bits of its word
.visible .entry add(.param .u64 to_, .param .u64 from_, .param .u32 count_)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    .reg .f32 %f<4>;
    ld.param.u64 %rd1, [to_];
    ld.param.u64 %rd2, [from_];
    ld.param.u32 %r1, [count_];
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra END;
    mul.wide.u32 %rd5, %r5, 4;
    add.u64 %rd6, %rd3, %rd5;
    add.u64 %rd7, %rd4, %rd5;
    ld.global.f32 %f1, [%rd6];
    ld.global.f32 %f2, [%rd7];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd6], %f3;
END:
    ret;
}

// to[0] = the word at `last` in dynamic shared memory, after 7 was written there
.extern .shared .align 16 .b8 buffer[];
.visible .entry reach(.param .u64 to_, .param .u32 last_)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [to_];
    ld.param.u32 %r1, [last_];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, buffer;
    add.u32 %r3, %r2, %r1;
    mov.u32 %r4, 7;
    st.volatile.shared.u32 [%r3], %r4;
    ld.volatile.shared.u32 %r5, [%r3];
    st.global.u32 [%rd2], %r5;
    ret;
}

// keeps the GPU busy for so many nanoseconds
.visible .entry spin(.param .u64 nanoseconds_)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [nanoseconds_];
    mov.u64 %rd2, %globaltimer;
AGAIN:
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra AGAIN;
    ret;
}
"""
LONG = 30_000_000  # nanoseconds: longer than the host takes for whatever comes after


@pytest.fixture(scope="module")
def device() -> _native.Device:
    return _native.Device("cuda")


@pytest.fixture(scope="module")
def kernels(device: _native.Device) -> _native.DeviceModule:
    return device.load(KERNELS.encode())


@pytest.fixture(autouse=True)
def whole(device: _native.Device) -> Iterator[None]:
    """A kernel that failed is seen where it was launched."""
    yield
    device.wait()


def busy(device: _native.Device, kernels: _native.DeviceModule) -> None:
    device.launch(kernels.find("spin"), 1, 1, [LONG])


def some(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def test_facts(device: _native.Device) -> None:
    facts = device.facts()
    assert facts["architecture"].startswith("sm_")
    assert facts["name"]
    assert facts["warp"] == 32
    assert facts["driver"] >= 12000
    assert facts["processors"] > 0
    assert 0 < facts["free"] <= facts["memory"]
    assert facts["shared"] >= 48 << 10
    with pytest.raises(RuntimeError, match=r"there is no device cuda:\d+: they are numbered"):
        _native.Device("cuda", _native.device_count("cuda"))


@pytest.mark.parametrize("size", [0, 1, 3, 65_535, 65_536, 65_537, 5 * MIB + 3])
def test_sent_copied_and_fetched(device: _native.Device, kernels: _native.DeviceModule, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    expected = data.copy()
    here, there = device.alloc(size), device.alloc(size)
    busy(device, kernels)
    device.send(here, data)
    data[:] = 0  # it may be written again
    device.copy(there, here, size)
    np.testing.assert_array_equal(device.fetch(there, size), expected)


def test_many_small_sends(device: _native.Device, kernels: _native.DeviceModule) -> None:
    """More than the ring of pinned memory holds, behind work that takes long."""
    block, data = device.alloc(8 * 65_536), np.empty(65_536, np.uint8)
    busy(device, kernels)
    for turn in range(40):
        data[:] = turn
        device.send(block.address + turn % 8 * 65_536, data)
    data[:] = 255
    found = device.fetch(block, 8 * 65_536).reshape(8, -1)
    np.testing.assert_array_equal(found, np.repeat(np.arange(32, 40, dtype=np.uint8)[:, None], 65_536, 1))


def test_filled(device: _native.Device) -> None:
    block = device.alloc(1001)
    device.fill(block, 1, 1001)
    device.fill(block.address + 7, 200, 13)
    expected = np.ones(1001, np.uint8)
    expected[7:20] = 200
    np.testing.assert_array_equal(device.fetch(block, 1001), expected)


def test_out_of_memory_and_usable_again(device: _native.Device) -> None:
    too_much = device.facts()["memory"] + 1
    with pytest.raises(MemoryError, match=f"out of memory: {too_much} bytes were asked for"):
        device.alloc(too_much)
    most = device.facts()["free"] * 3 // 4
    block = device.alloc(most)
    device.fill(block.address + most - 10, 3, 10)
    assert (device.fetch(block.address + most - 10, 10) == 3).all()
    del block
    other = device.alloc(device.facts()["free"] + most // 2)  # what is kept goes back first
    del other
    device.trim()
    assert device.facts()["kept"] == 0


@pytest.mark.parametrize("count", [1, 127, 128, 129, 1_000_003])
def test_a_kernel(device: _native.Device, kernels: _native.DeviceModule, count: int) -> None:
    x, y = some(count, 1), some(count, 2)
    to, source = device.alloc(4 * count), device.alloc(4 * count)
    device.send(to, x)
    device.send(source, y)
    add = kernels.find("add")
    garbage = 0x5A5A5A5A << 32  # a shorter argument is its word's low end
    device.launch(add, (count + 127) // 128, 128, [to.address, source.address, garbage | count])
    device.launch(add, 0, 128, [0, 0, 0])
    np.testing.assert_array_equal(device.fetch(to, 4 * count).view(np.float32), x + y)


def test_dynamic_shared_memory(device: _native.Device, kernels: _native.DeviceModule) -> None:
    block, most = device.alloc(4), device.facts()["shared"]
    for shared in (most, 1024, 48 << 10, most):
        device.fill(block, 0, 4)
        device.launch(kernels.find("reach", shared), 1, 1, [block.address, shared - 4])
        assert device.fetch(block, 4).view(np.int32)[0] == 7
    with pytest.raises(RuntimeError, match=f"reach: a block gets at most {most} bytes of shared memory"):
        kernels.find("reach", most + 1)


def test_what_does_not_load(device: _native.Device, kernels: _native.DeviceModule) -> None:
    with pytest.raises(RuntimeError, match=r"cuda:0: loading a kernel: .*\(CUDA_ERROR_"):
        device.load(b"this is no code")
    with pytest.raises(RuntimeError, match=r"cuda:0: nowhere: .*\(CUDA_ERROR_NOT_FOUND, 500\)"):
        kernels.find("nowhere")


def test_recorded_and_replayed(device: _native.Device, kernels: _native.DeviceModule) -> None:
    count = 10_000
    add, x = kernels.find("add"), some(count)
    to, source = device.alloc(4 * count), device.alloc(4 * count)
    device.send(to, np.zeros(count, np.float32))
    device.send(source, x)
    device.record()
    for _ in range(3):
        device.launch(add, (count + 127) // 128, 128, [to.address, source.address, count])
    device.fill(to.address, 0, 4)
    device.copy(to.address + 4, source.address, 4)
    with pytest.raises(RuntimeError, match="not while work is being recorded"):
        device.wait()
    kept = device.alloc(100 * MIB)  # memory may be had meanwhile
    graph = device.recorded()
    assert not device.fetch(to, 4 * count).any()
    expected = np.zeros(count, np.float32)
    for _ in range(4):
        device.replay(graph)
        for _ in range(3):
            expected += x
        expected[:2] = 0, x[0]
    np.testing.assert_array_equal(device.fetch(to, 4 * count).view(np.float32), expected)
    del graph, kept


def test_clocks(device: _native.Device, kernels: _native.DeviceModule) -> None:
    first = device.mark()
    busy(device, kernels)
    last = device.mark()
    assert LONG * 0.9 < last.since(first) < 100 * LONG


def test_threads(device: _native.Device, kernels: _native.DeviceModule) -> None:
    add = kernels.find("add")
    wrong: list[object] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for turn in range(50):
                x = some(int(random.integers(1, 50_000)), turn)
                to, copy = device.alloc(x.nbytes), device.alloc(x.nbytes)
                device.send(to, x)
                device.copy(copy, to, x.nbytes)
                arguments = [to.address, copy.address, x.size]
                if turn % 4 == seed:
                    device.record()
                    device.launch(add, (x.size + 255) // 256, 256, arguments)
                    device.replay(device.recorded())
                else:
                    device.launch(add, (x.size + 255) // 256, 256, arguments)
                del copy
                if not np.array_equal(device.fetch(to, x.nbytes).view(np.float32), x + x):
                    wrong.append((seed, turn))
                if turn % 20 == 0:
                    device.trim()
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_wrong_address_is_told() -> None:
    """The context is lost then: in a process of its own."""
    script = """
import sys
from burn.runtime import _native
device = _native.Device("cuda")
module = device.load(sys.stdin.buffer.read())
block = device.alloc(100)
device.launch(module.find("add"), 1, 32, [256, 512, 32])
for _ in range(2):
    try:
        device.wait()
    except RuntimeError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], input=KERNELS.encode(), capture_output=True, timeout=120)
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert text.count("cuda:0: waiting for it: an illegal memory access was encountered") == 2, text


def test_a_forked_child_is_told() -> None:
    script = """
import os, sys
from burn.runtime import _native
device = _native.Device("cuda")
block = device.alloc(100)
child = os.fork()
if child == 0:
    try:
        device.fill(block, 1, 100)
    except RuntimeError as error:
        told = "was forked" in str(error)
    del block
    os._exit(7 if told else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
device.fill(block, 1, 100)
assert (device.fetch(block, 100) == 1).all()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


# ---- torch in the same process -------------------------------------------------------------------------------------


def sums(torch: Any, turns: int = 200) -> Any:
    """A tensor that takes a while to compute: 1000000 times `turns`."""
    x = torch.zeros(1_000_000, device="cuda")
    for _ in range(turns):
        x += 1
    return x


def test_torch_first_then_burn(torch: Any, device: _native.Device) -> None:
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            x = sums(torch)
            block = device.alloc(4_000_000)
            device.wait_for(stream.cuda_stream)
            device.copy(block, x.data_ptr(), 4_000_000)
            assert (device.fetch(block, 4_000_000).view(np.float32) == 200).all()
    device.let_wait(torch.cuda.current_stream().cuda_stream)


def test_burn_first_then_torch(torch: Any, device: _native.Device, kernels: _native.DeviceModule) -> None:
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            x = torch.full((1000,), 5, dtype=torch.uint8, device="cuda")
            device.wait_for(stream.cuda_stream)
            busy(device, kernels)
            device.fill(x.data_ptr(), 9, 1000)
            device.let_wait(stream.cuda_stream)
            assert (x == 9).all().item()


def test_torchs_pinned_memory(torch: Any, device: _native.Device, kernels: _native.DeviceModule) -> None:
    data = torch.full((10 * MIB,), 3, dtype=torch.uint8).pin_memory()
    block = device.alloc(10 * MIB)
    busy(device, kernels)
    device.send(block, data.numpy())
    data.fill_(4)
    assert (device.fetch(block, 10 * MIB, data.numpy()) == 3).all()
    assert (data == 3).all()


def test_the_current_device_stays(torch: Any, device: _native.Device) -> None:
    """In a thread that torch has not been in, and in one where it has."""
    found: list[int] = []

    def ask() -> None:
        device.fill(device.alloc(10), 1, 10)
        found.append(torch.cuda.current_device())
        device.fill(device.alloc(10), 1, 10)
        found.append(int(torch.ones(3, device="cuda").sum().item()))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [0, 3]


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_dlpack(torch: Any, device: _native.Device, version: tuple[int, int] | None) -> None:
    x = some(24).reshape(2, 3, 4)
    block = device.alloc(x.nbytes)
    device.send(block, x)
    device.let_wait(torch.cuda.current_stream().cuda_stream)
    tensor = torch.from_dlpack(_native.device_to_dlpack(block, block.address, x.shape, 2, 32, 2, 0))
    address = block.address
    del block
    again = device.alloc(x.nbytes)
    assert again.address != address  # torch has it
    assert tensor.data_ptr() == address
    np.testing.assert_array_equal(tensor.cpu().numpy(), x)
    other = tensor.transpose(0, 2)
    try:
        capsule = other.__dlpack__(max_version=version) if version else other.__dlpack__()
    except TypeError:
        pytest.skip("this torch knows no versions")
    found = _native.device_from_dlpack(capsule)
    assert found[:-1] == (address, (4, 3, 2), (1, 4, 12), 2, 32, 2, 0)
