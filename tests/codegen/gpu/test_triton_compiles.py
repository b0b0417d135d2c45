"""Triton makes machine code of every kind of kernel, on a machine without a GPU: NVIDIA's and AMD's."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from burn.codegen.triton import images, workers
from burn.codegen.triton.abilities import SHARED_MEMORY, Abilities
from burn.codegen.triton.images import Machine, Source
from burn.dialect.text import parse_text
from burn.errors import CompileError
from tests.codegen.gpu.sources import HOPPER, sources_of
from tests.passes.cases import Case, cases, read

CASES = cases(Path(__file__).parent / "cases")
MACHINES = {
    "sm_80": Machine("cuda", 80, 32),
    "sm_90": HOPPER,
    "gfx90a": Machine("hip", "gfx90a", 64),
    "gfx942": Machine("hip", "gfx942", 64),
    "gfx1100": Machine("hip", "gfx1100", 32),
}

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("processes")


def all_printed(wanted: Sequence[Case], machine: str) -> list[Source]:
    printed: dict[Source, None] = {}
    for case in wanted:
        abilities = Abilities.of(MACHINES[machine].kind, machine)
        printed |= dict.fromkeys(sources_of(read(case), abilities, case.passes))
    return list(printed)


def different(sources: Sequence[Source]) -> list[Source]:
    """One of those that differ only in the alignment of their arguments."""
    return list({source.text: source for source in reversed(sources)}.values())


def test_kinds() -> None:
    """On one architecture, where `test_all_kinds` also compiles for other alignments and architectures."""
    printed = different(all_printed(CASES, "sm_90"))
    assert len(printed) >= 10
    made = images.compile_all(printed, MACHINES["sm_90"])
    assert all(len(image.data) > 500 for image in made)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_all_kinds(machine: str) -> None:
    made = images.compile_all(all_printed(CASES, machine), MACHINES[machine])
    assert len(made) >= 10 and all(len(image.data) > 500 for image in made)


def test_one_of_each_kind_for_another_maker() -> None:
    """A case's name contains its kind: "kinds: reduce: a short row is read once". Attention compiles slowest, and consists of the
    same matmuls and reductions as other kinds."""
    first = {case.name.split(": ")[1]: case for case in reversed(CASES) if case.name.count(": ") > 1}
    first = {kind: case for kind, case in first.items() if "attention" not in kind}
    printed = different(all_printed(list(first.values()), "gfx942"))
    assert len(printed) >= 5
    made = images.compile_all(printed, MACHINES["gfx942"])
    assert all(len(image.data) > 500 for image in made)


@pytest.mark.parametrize(
    "name", ["a padded convolution of float16", "a weight's gradient in parts of a batch with a name"]
)
def test_both_operands_of_a_matmul_are_prefetched(name: str) -> None:
    """A side that the compiler cannot copy in whole words is waited for at every step; such a kernel has less shared memory."""
    case = next(case for case in CASES if name in case.name)
    source = next(source for source in sources_of(read(case), passes=case.passes) if "tl.dot" in source.text)
    (image,) = images.compile_all([source], MACHINES["sm_90"])
    sizes = dict(source.named)
    step = 2 * sizes["DEPTH"] * (sizes["ROWS"] + sizes["COLUMNS"])
    assert image.shared >= step * (source.stages - 1)


def test_what_cannot_be_compiled_is_named_with_its_text(tmp_path: Path) -> None:
    text = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef bad(x, INT: tl.constexpr):\n    tl.nothing(x)\n"
    source = Source("bad", text, ("*fp32",), (), (), ((0, 16),), False, 4, 3, ("the node",))
    with pytest.raises(CompileError) as error:
        images.compile_all([source, source, source, source], MACHINES["sm_90"])
    problem = error.value.problems[0]
    assert problem.node == "the node" and "nothing" in problem.message
    (kept,) = tmp_path.glob("failed/bad-*.py")
    assert str(kept) in problem.message and kept.read_text() == text


def test_the_same_bytes_in_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes whose hashes differ, each with an empty cache. No byte depends on the process."""
    source = all_printed(CASES[:1], "sm_90")[0]
    made = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path / seed))
        workers.stop()
        made += images.compile_all([source], MACHINES["sm_90"])
    assert made[0] == made[1]
    assert b"debug_line" not in bytes(made[0].data)


def test_kernels_are_compiled_while_others_are_printed() -> None:
    """The first one is done before the second one is there. Images are in the order of the sources."""
    source = all_printed(CASES[:1], "sm_90")[0]
    compiled, made = threading.Event(), workers._one

    def one(source: Source, machine: Machine) -> workers.Image | str:
        image = made(source, machine)
        compiled.set()
        return image

    def printed() -> Iterator[Source]:
        yield source
        assert compiled.wait(300)
        yield replace(source, name="missing")
        yield source

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "_one", one)
        first, failed, last = workers.compiled(printed(), MACHINES["sm_90"])
    assert first == last and isinstance(failed, str) and "missing" in failed


def test_an_error_of_the_printer_ends_the_compilation() -> None:
    def printed() -> Iterator[Source]:
        yield all_printed(CASES[:1], "sm_90")[0]
        raise ZeroDivisionError

    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError):
        workers.compiled(printed(), MACHINES["sm_90"])
    assert set(threading.enumerate()) <= before
    assert workers.compiled([], MACHINES["sm_90"]) == []


def test_a_kernel_is_compiled_once_for_all_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes of a source differ between programs. Another GPU and another option of Triton's make other kernels."""
    monkeypatch.delenv("BURN_CACHE_SIZE")
    source = all_printed(CASES[:1], "sm_80")[0]  # newer GPUs also run it
    asked: list[Source] = []
    compiled = workers.compiled
    monkeypatch.setattr(workers, "compiled", lambda s, m: compiled((asked.append(x) or x for x in s), m))
    first = images.compile_all([source, replace(source, nodes=("another",))], MACHINES["sm_90"])
    again = images.compile_all([replace(source, nodes=("a third",))], MACHINES["sm_90"])
    assert len(asked) == 1 and first == [*again, *again]
    images.compile_all([source], MACHINES["sm_80"])
    images.compile_all([replace(source, warps=2 * source.warps)], MACHINES["sm_90"])
    monkeypatch.setenv("TRITON_F32_DEFAULT", "ieee")
    images.compile_all([source], MACHINES["sm_90"])
    assert len(asked) == 4


def test_processes_that_end_together_are_replaced() -> None:
    source = all_printed(CASES[:1], "sm_90")[0]
    workers.stop()
    workers._pool.start(2)
    for idle in workers._pool.idle:
        idle.process.kill()  # as if it had been idle for long
        idle.process.poll = lambda: None  # it ends after it was taken
    (made,) = workers.compiled([source], MACHINES["sm_90"])
    assert not isinstance(made, str)


def test_a_process_has_the_environment_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are kept under the variables of the call. A process that started under others is ended."""
    workers.stop()
    monkeypatch.delenv("TRITON_DISABLE_LINE_INFO", raising=False)
    workers._pool.start(1)
    (old,) = workers._pool.idle
    monkeypatch.setenv("TRITON_CACHE_DIR", "/nowhere")  # changes no code
    workers._pool.start(1)
    assert workers._pool.idle == [old]
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "0")
    assert workers._pool.take() is None and not old.is_alive
    workers._pool.start(1)
    (new,) = workers._pool.idle
    assert workers._pool.take() is new
    new.stop()


def test_a_source_longer_than_a_pipe() -> None:
    source = all_printed(CASES[:1], "sm_90")[0]
    long = replace(source, text=source.text + "\n# " + "x" * 500_000 + "\n")
    (made,) = workers.compiled([long], MACHINES["sm_90"])
    assert not isinstance(made, str)


def test_processes_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    source = all_printed(CASES[:1], "sm_90")[0]
    workers.stop()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    workers.start(1)
    with pytest.raises(CompileError, match="no process that compiles kernels can be started"):
        workers.compiled([source], MACHINES["sm_90"])
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(CompileError, match="a process that compiles kernels failed"):
        workers.compiled([source], MACHINES["sm_90"])


def test_no_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a process that is stopped, nor by one whose input ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    workers.stop()
    source = all_printed(CASES[:1], "sm_90")[0]
    workers.compiled([source], MACHINES["sm_90"])
    (idle,) = workers._pool.idle
    assert Path(idle.folder).parent == tmp_path and Path(idle.folder).exists()
    workers.stop()
    assert not list(tmp_path.glob("burn-triton-*"))
    ended = workers._Worker()
    assert ended.process.stdin is not None
    ended.process.stdin.close()
    assert ended.process.wait(timeout=300) == 0
    assert not Path(ended.folder).exists()


ATTENTION = """
func.func @main(%q: tensor<1x2x300x128xf16>, %k: tensor<1x2x300x128xf16>, %v: tensor<1x2x300x128xf16>)
    -> tensor<1x2x300x128xf16> {
  %0 = "burn.attention"(%q, %k, %v) {scale = 1.0 : f64, segments = array<i64: 1, 1, 1, 0, 0, 0>} : (tensor<1x2x300x128xf16>,
    tensor<1x2x300x128xf16>, tensor<1x2x300x128xf16>) -> tensor<1x2x300x128xf16>
  "burn.return"(%0) : (tensor<1x2x300x128xf16>) -> ()
}
"""


@pytest.mark.parametrize("number", [80, 86])
def test_kernels_fit_the_shared_memory(number: int) -> None:
    """With fewer blocks in flight where the usual ones take more than the architecture has."""
    machine = Machine("cuda", number, 32)
    sources = sources_of(parse_text(ATTENTION), Abilities.of("cuda", machine.name))
    (image,) = images.compile_all(sources, machine)
    assert image.shared <= SHARED_MEMORY[machine.name]


def test_a_kernel_that_cannot_fit_the_shared_memory_is_no_program() -> None:
    (source,) = sources_of(parse_text(ATTENTION), Abilities.of("cuda", "sm_86"))
    wide = replace(source, shared=100 << 10)
    with pytest.raises(CompileError, match=r"bytes of shared memory, and a block of sm_86 gets 101376"):
        images.compile_all([wide], Machine("cuda", 86, 32))


EPILOGUE = '''import triton
import triton.language as tl


@triton.jit
def kernel(b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, _0, _1, _2, _3, _4, _5,
           INT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr):
    """A tile of rows and columns each, summed along the depth."""
    program = tl.program_id(0).to(INT)
    across = tl.cdiv(_1, COLUMNS)
    down = tl.cdiv(_0, ROWS)
    tile = program % (across * down)
    first = tile // (GROUP * across) * GROUP
    height = tl.minimum(down - first, GROUP)
    within_group = tile % (GROUP * across)
    x = (first + within_group % height) * ROWS + tl.arange(0, ROWS)[:, None]
    y = (within_group // height) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    batch0 = program // (across * down)
    total = tl.full([ROWS, COLUMNS], 0.0, tl.float32)
    for start in range(0, _2, DEPTH):
        k = (start + tl.arange(0, DEPTH)).to(INT)
        k0 = k[None, :]
        v0 = tl.load(b0 + (_3 * x + k0))
        left0 = tl.broadcast_to(v0, [ROWS, DEPTH])
        k1 = k[:, None]
        v1 = tl.load(b1 + (_4 * k1 + y))
        right0 = tl.broadcast_to(v1, [DEPTH, COLUMNS])
        total = tl.dot(left0, right0, total, input_precision="ieee")
    v2 = tl.load(b3 + (_5 * x + y))
    v3 = total.to(tl.bfloat16)
    v4 = v3.to(tl.float32)
    v5 = v2 + v4
    v6 = tl.load(b5 + (_5 * x + y))
    v7 = tl.load(b6 + y)
    v8 = v6 * v7
    v9 = v5 * v8
    v10 = tl.load(b8 + y)
    v11 = v5 * v10
    v12 = tl.load(b9 + y)
    v13 = v11 * v12
    v14 = tl.load(b11 + (_5 * x + y))
    v15 = v11 * v14
    tl.store(b2 + (_5 * x + y), v5)
    tl.store(b4 + (_5 * x + y), v9)
    tl.store(b7 + (_5 * x + y), v13)
    tl.store(b10 + (_5 * x + y), v15)
'''


def test_layouts_that_need_more_warps() -> None:
    """Triton 3.6 fails in TritonGPURemoveLayoutConversions with 4 warps. The kernel is of a training step of levit_128s."""
    types = (
        "*bf16",
        "*bf16",
        "*fp32",
        "*fp32",
        "*fp32",
        "*fp32",
        "*fp32",
        "*fp32",
        "*fp32",
        "*fp32",
        "*fp32",
        "*fp32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
    )
    named = (("ROWS", 64), ("COLUMNS", 128), ("DEPTH", 64), ("GROUP", 8))
    multiples = tuple((number, 16) for number in range(len(types)))
    source = Source("kernel", EPILOGUE, types, (), named, multiples, False, 4, 1)
    (made,) = images.compile_each([source], HOPPER)
    assert not isinstance(made, str) and made.threads == 8 * 32, made
