"""A printed kernel: its text, its arguments, and its number of workgroups. See `KernelPrinter` in kernels.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from burn.codegen.printing.arguments import Argument
from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl.code import Code
from burn.codegen.wgsl.elements import register
from burn.codegen.wgsl.library import needed
from burn.codegen.wgsl.scalars import ScalarPrinter
from burn.codegen.wgsl.widths import MOST
from burn.codegen.wgsl.widths import needed as widths
from burn.dialect.dims import Dim, LoopVar, product, symbol
from burn.kernels.body import Kernel
from burn.kernels.parameters import argument_names

MOST_WORDS = 255
"""The words of a launch behind the number of workgroups: the uniform binding has 1024 bytes."""


@dataclass(frozen=True)
class Printed:
    """A kernel and its launch. body: the function's lines. shared: declarations of workgroup memory. names: of the arguments.
    groups: the number of workgroups; lanes: the invocations of each."""

    name: str
    about: str
    body: tuple[str, ...]
    shared: tuple[str, ...]
    arguments: tuple[Argument, ...]
    names: tuple[str, ...]
    groups: Dim
    lanes: int
    guard: bool = False

    def guarded(self) -> Printed:
        """The same, except that it does nothing if a previous kernel has failed."""
        if self.guard:
            return self
        extra = () if "failure" in self.names else ((Argument("failure"), "failure"),)
        return replace(
            self,
            guard=True,
            arguments=(*(a for a, _ in extra), *self.arguments),
            names=(*(n for _, n in extra), *self.names),
        )

    @property
    def key(self) -> str:
        """Equal for kernels with equal texts, whose names differ."""
        return self.text_as("kernel")

    @property
    def text(self) -> str:
        return self.text_as(self.name)

    def text_as(self, name: str) -> str:
        """The whole module. Its first line is for the runtime: the function's name, and a letter for each argument."""
        letters = "".join("n" if argument.kind == "size" else "a" for argument in self.arguments)
        words = (len(self.arguments) + 4) // 4
        lines = [f"  // {self.about}"]
        lines += ["  let program = bitcast<i32>(workgroup.x + workgroup.y * workgroups.x);"]
        lines += ["  if (program >= bitcast<i32>(words[0].x)) { return; }"]
        for number, (argument, each) in enumerate(zip(self.arguments, self.names, strict=True), 1):
            if not each:  # for the launch's check alone
                continue
            word = f"words[{number // 4}].{'xyzw'[number % 4]}"
            lines.append(f"  let {each} = {word if argument.kind != 'size' else f'bitcast<i32>({word})'};")
        shared = list(self.shared)
        if self.guard:
            shared.append("var<workgroup> failed: u32;")
            lines += ["  if (lane == 0) { failed = read(failure + 1u); }"]
            lines += ["  if (workgroupUniformLoad(&failed) != 0u) { return; }"]
        lines = [
            *lines[:1],
            "  let lane = i32(invocation);",
            *lines[1:],
            *self.body,
        ]
        head = [
            f"@compute @workgroup_size({self.lanes})",
            f"fn {name}(@builtin(local_invocation_index) invocation: u32, @builtin(workgroup_id) workgroup: vec3<u32>,",
            "  @builtin(num_workgroups) workgroups: vec3<u32>) {",
        ]
        function = "\n".join([*head, *lines, "}"])
        uniform = f"@group(0) @binding(1) var<uniform> words: array<vec4<u32>, {words}>;"
        parts = [*needed("\n".join([*shared, function])), uniform, *shared, function]
        return f"// burn: {name} {letters}\n" + "\n\n".join(parts) + "\n"


@dataclass(frozen=True)
class Opened:
    """A kernel whose body is being printed. sizes: the kernel with the values of its sizes."""

    printer: ScalarPrinter
    sizes: Kernel
    arguments: list[Argument]
    names: list[str]

    def count(self, loops: Sequence[LoopVar], sizes: Sequence[LoopVar]) -> str:
        """The iterations of loops, as a word of the launch: a multiplication in the shader may wrap. sizes: the same loops of
        `self.sizes`."""
        if sum(loop.extent != 1 for loop in loops) < 2 or all(isinstance(loop.extent, int) for loop in loops):
            return self.printer.dim(product([loop.extent for loop in loops]))
        argument = Argument("size", 0, product([loop.extent for loop in sizes]))
        for known, name in zip(self.arguments, self.names, strict=True):
            if known == argument and name.startswith("count"):
                return name
        self.arguments.append(argument)
        self.names.append(f"count{len(self.names)}")
        return self.names[-1]

    def closed(self, about: str, groups: Dim, lanes: int, shared: Sequence[str] = ()) -> Printed:
        checked = [Argument("size", 0, size) for size in widths(self.sizes)]
        arguments, names = [*self.arguments, *checked], [*self.names, *("" for _ in checked)]
        if self.printer.fetches:
            arguments, names = [Argument("failure"), *arguments], ["failure", *names]
        words = len(arguments) + ("failure" not in names)  # of a guarded kernel
        if words > MOST_WORDS:
            raise Unprintable(f"a launch of WebGPU has at most {MOST_WORDS} words, not {words}")
        for size in (groups, *(argument.size for argument in arguments if argument.kind == "size")):
            if isinstance(size, int) and not -MOST - 1 <= size <= MOST:
                raise Unprintable(f"WGSL kernels have 32-bit indices, and a size is {size}")
        body = tuple(self.printer.code.lines)
        return Printed("kernel", about, body, tuple(shared), tuple(arguments), tuple(names), groups, lanes)


def opened(kernel: Kernel, values: Mapping[str, Dim], sizes: Kernel, sites: list[str], iterations: Dim = 0) -> Opened:
    """values: the values of the kernel's sizes; sizes: the kernel with these values. iterations: those of the parallel loops,
    for scratch memory. Raises Unprintable for buffers of elements that kernels do not hold."""
    for buffer in kernel.buffers:
        register(buffer.dtype)
    arguments, names = [], []
    for number, buffer in enumerate(kernel.buffers):
        own = buffer.access == "scratch"
        arguments.append(
            Argument("workspace", number, iterations * buffer.elements) if own else Argument("buffer", number)
        )
        names.append(f"b{number}")
    words: dict[str, str] = {}
    for name in argument_names(kernel):
        words[name] = f"n{len(words)}"
        arguments.append(Argument("size", 0, values[name] if name in values else symbol(name)))
        names.append(words[name])
    return Opened(ScalarPrinter(Code(), kernel.buffers, sites, words), sizes, arguments, names)
