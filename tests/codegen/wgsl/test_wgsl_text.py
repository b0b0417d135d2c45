"""The text of kernels, without a device: the header for the runtime, the heap's declaration, names, the listing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from burn.codegen.wgsl.backend import WebGPU
from burn.codegen.wgsl.code import Code
from burn.codegen.wgsl.elementary import DEFINITIONS, library
from burn.codegen.wgsl.functions import FUNCTIONS
from burn.codegen.wgsl.library import needed
from burn.codegen.wgsl.scalars import ScalarPrinter
from burn.compiler import listing
from burn.dialect import ops
from burn.dialect.dims import Expr, LoopVar
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import Apply, Buffer, Load, Scalar, Where
from burn.options import Options
from burn.runtime import registry
from burn.runtime.device import Device

WGSL = Options(device=Device("wgpu"), architecture=registry.PORTABLE)

TEXT = """
    NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become cast catch class
    co_await co_return co_yield coherent column_major common compile compile_fragment concept const_cast consteval
    constexpr constinit crate debugger decltype delete demote demote_to_helper do dynamic_cast enum explicit export
    extends extern external fallthrough filter final finally friend from fxgroup get goto groupshared highp impl
    implements import inline instanceof interface layout lowp macro macro_rules match mediump meta mod module move mut
    mutable namespace new nil noexcept noinline nointerpolation non_coherent noncoherent noperspective null nullptr of
    operator package packoffset partition pass patch pixelfragment precise precision premerge priv protected pub
    public readonly ref regardless register reinterpret_cast require resource restrict self set shared sizeof smooth
    snorm static static_assert static_cast std subroutine super target template this thread_local throw trait try type
    typedef typeid typename typeof union unless unorm unsafe unsized use using varying virtual volatile wgsl where
    with writeonly yield
"""
RESERVED = set(TEXT.split())
"""Words that are no names. Source: WGSL, section "Reserved Words"."""


def printed(*types: TensorType, build: Callable[..., Any]) -> list[str]:
    """The kernels of a program, each from its header on."""
    program = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    with program.building("node"):
        made = build(*program.inputs)
    results = made if isinstance(made, list) else [made]
    text = listing(program.finish([(f"y{i}", value) for i, value in enumerate(results)]), WGSL)
    return [part for part in re.split(r"(?=^// burn: )", text, flags=re.MULTILINE) if part.startswith("// burn: ")]


def floats(*shape: int | str) -> TensorType:
    from burn.dialect.dims import parse

    return TensorType("float32", tuple(d if isinstance(d, int) else parse(d) for d in shape))


def test_the_header_has_the_function_and_a_letter_for_each_argument() -> None:
    (text,) = printed(floats("n", 7), floats(7), build=ops.add)
    name, letters = re.match(r"// burn: (\w+) ([an]+)\n", text).groups()  # type: ignore[union-attr]
    assert f"fn {name}(" in text
    assert letters.startswith("aaa") and set(letters[3:]) == {"n"}
    used = [int(4 * int(i) + "xyzw".index(c)) for i, c in re.findall(r"words\[(\d+)\]\.([xyzw])", text)]
    assert sorted(set(used)) == list(range(len(letters) + 1))
    (size,) = re.findall(r"words: array<vec4<u32>, (\d+)>", text)
    assert int(size) * 4 > len(letters)


def test_the_heap_is_atomic_only_for_kernels_that_need_it() -> None:
    plain, narrow = (
        printed(floats(9), build=lambda x, d=dtype: ops.cast(x, dtype=d))[0] for dtype in ("int32", "int8")
    )
    assert "array<u32>" in plain and "atomic" not in plain
    assert "array<atomic<u32>>" in narrow and "heap[at] =" not in narrow


def test_a_kernel_declares_what_it_uses() -> None:
    text = "\n".join(needed("fn f() { g = exp_f32(1.0); }"))
    assert "fn shifted_exp(" in text and "fn scaled(" in text and "fn sin_f32(" not in text
    assert text.index("fn read(") < text.index("fn shifted_exp(")


def test_kernels_that_differ_in_sizes_alone_share_a_text() -> None:
    def build(x: Any, y: Any) -> Any:
        return [ops.tanh(x), ops.tanh(y)]

    assert len(printed(floats(100), floats(200), build=build)) == 1


def test_nested_conditions_do_not_repeat_values() -> None:
    """A scatter of n updates is n nested conditions that share their values: the text grows by n, not by 2^n."""

    def length(n: int) -> int:
        loop = LoopVar("i", 40)
        printer = ScalarPrinter(Code(), [Buffer("float32", "read")], [], {})
        printer.put(loop, "x")
        node: Scalar = Load("float32", 0, 0)
        for i in range(1, n + 1):
            added = Apply("float32", "add", (node, Load("float32", 0, i)))
            node = Where("float32", ((Expr.of(loop) - i, 1),), added, node)
        printer.value(node)
        return len(printer.code.lines)

    assert length(8) - length(4) == length(4) - length(0)


def test_tests_of_negative_constants() -> None:
    """An index map of constants may lie before its range, as in windows that read padding alone. WGSL refuses `u32(-1)`."""
    printer = ScalarPrinter(Code(), [Buffer("float32", "read")], [], {})
    assert printer.tests([(1, 2), (-1, 2)]) == printer.tests([(0, -1)]) == ["false"]
    assert printer.tests([(1, 2)]) == ["1 < 2"]


def test_workgroup_memory_stays_within_the_default_limit() -> None:
    """Reductions of one kernel share an array for each type: 80 sums need no more than one."""

    def build(x: Any, y: Any) -> list[Any]:
        factors = [ops.constant(values=[i + 2], shape=(), dtype="int64") for i in range(80)]
        sums = [ops.reduce(ops.shift_left(x, f), kind="sum", axes=(1,)) for f in factors]
        largest = [ops.arg_reduce(each, kind="max", axis=1) for each in (x, y)]
        return [*sums, ops.reduce(y, kind="max", axes=(1,)), *largest]

    texts = printed(TensorType("int64", (3, 500)), floats(3, 500), build=build)
    assert any(text.count("store_64(") > 32 for text in texts)  # more than 16 kB if each sum has 64 pairs of words
    for text in texts:
        arrays = re.findall(r"var<workgroup> \w+: array<(.+), (\d+)>;", text)
        assert sum((8 if "vec2" in type_ else 4) * int(count) for type_, count in arrays) <= 16384


def test_comparisons_of_floats_do_not_depend_on_how_operators_compare_nan() -> None:
    """Compilers of shaders may assume that there is no NaN, and replace `a < b` by `!(a >= b)`."""
    for name, rule in FUNCTIONS.items():
        if rule.predicate:
            assert rule.floats is not None and not re.search(r"[<>=]", rule.floats), name
    (text,) = printed(floats(7), build=lambda x: ops.cast(x, dtype="bool"))
    assert "is_nonzero(v0)" in text
    for name, (count, _) in DEFINITIONS.items():
        first = library()[name].split("\n")[1]
        assert first.count("is_nan") == count and "return float_of(0x7fc00000u)" in first


def test_no_name_is_a_reserved_word() -> None:
    text = "\n".join(needed("exp_f32 sin_f32 power_f32 fmod_f32 report fetched mod_i64 small_of_float"))
    names = set(re.findall(r"\b(?:let|var|fn|const|struct) (\w+)", text)) | set(re.findall(r"[(,] ?(\w+): ", text))
    assert not names & RESERVED


def test_doubles_run_on_the_host_and_the_listing_says_so() -> None:
    program = Program.create([("x", TensorType("float64", (3,)))])
    with program.building("a_node"):
        y = ops.exp(program.inputs[0])
    assert "// on the host: a_node: WGSL kernels have no 'exp' of elements of type float64" in listing(
        program.finish([("y", y)]), WGSL
    )


def test_the_back_end_is_named_once() -> None:
    backend = WebGPU()
    assert backend.printer.runs_on.kind == "wgpu" and backend.printer.runs_on.architecture == "webgpu"
    assert registry.languages()["wgsl"] == "wgpu"


def test_no_variable_hides_a_type() -> None:
    code = Code()
    names = {code.let("1", prefix) for prefix in "iuf" for _ in range(40)}
    assert len(names) == 120 and not names & {"i32", "u32", "f32", "f16"}


def test_the_taps_of_a_small_window_are_unrolled() -> None:
    def pooled(x: Any, size: int) -> Any:
        none, ones = (0, 0, 0, 0), (1, 1, 1, 1)
        window = (1, size, size, 1)
        return ops.window_reduce(x, kind="sum", window=window, strides=ones, dilations=ones, low=none, high=none)

    for size, unrolled in ((3, True), (9, False)):
        (kernel,) = printed(floats(1, 16, 16, 4), build=lambda x, size=size: pooled(x, size))
        assert ("for (" not in kernel) == unrolled
