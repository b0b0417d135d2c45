"""A model's C interface: names, sizes, and types of its tensors.

`Interface.of` refuses models that the interface cannot express. header.py and tables.py generate the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from burn.errors import CompileError, Problem
from burn.runtime import sizes
from burn.runtime.artefact import Signature, ValueSpec

MAX_RANK = 16
"""BURN_TENSOR_RANK in burn_model.h."""

C_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "bool": "uint8_t",
    "complex64": "float",
    "complex128": "double",
    "int2": "int8_t",
    "int4": "int8_t",
    "uint2": "uint8_t",
    "uint4": "uint8_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""The C types of elements; for a complex number, of one of its two parts. Other types are bytes."""

_NOTES = {
    "float16": "bits of IEEE half precision",
    "bfloat16": "the upper half of a float's bits",
    "bool": "0 or 1",
    "complex64": "pairs of real and imaginary part",
    "complex128": "pairs of real and imaginary part",
}
_WORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr continue
default delete do double else enum explicit export extern false float for friend goto if inline int int8_t int16_t int32_t
int64_t long main mutable namespace new not not_eq nullptr operator or or_eq private protected public register restrict return
short signed sizeof static std struct switch template this throw true try typedef typename uint8_t uint16_t uint32_t uint64_t
union unsigned using virtual void volatile wchar_t while xor xor_eq"""
_LANGUAGE: frozenset[str] = frozenset(_WORDS.split())
"""Words of C and of C++."""

_OWN = frozenset(("arena", "arena_bytes", "burn_in", "burn_out", "dims", "model", "number", "program", "sizes"))
"""Names of the functions' own parameters and variables."""

_CALLS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"}


@dataclass(frozen=True)
class Parameter:
    """An input or output in C. `dims` are numbers and expressions; None is a size that only a run can tell."""

    spec: ValueSpec
    name: str
    dims: tuple[int | str | None, ...]

    @property
    def c_type(self) -> str:
        return C_TYPES.get(self.spec.dtype, "uint8_t")

    @property
    def note(self) -> str:
        """Documentation of the elements in the header, besides their type."""
        known = _NOTES.get(self.spec.dtype, "")
        return known or (f"bits of {self.spec.dtype}" if self.spec.dtype.startswith("float8") else "")


@dataclass(frozen=True)
class Interface:
    """The functions of a model are named <name>_run and so on. `symbols` are the dynamic sizes by their names in the model,
    `sizes` their names in C. is_small: it uses the runtime of small.py, which has one thread and copies
    outputs."""

    name: str
    symbols: tuple[str, ...]
    sizes: tuple[str, ...]
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    random_state: bool
    is_small: bool = False

    @property
    def is_sized(self) -> bool:
        """True if all outputs' sizes depend only on the call's sizes, so that the caller can allocate them."""
        return all(dim is not None for output in self.outputs for dim in output.dims)

    @staticmethod
    def of(name: str, signature: Signature) -> Interface:
        """Raises CompileError for what C code cannot be handed."""
        _check(signature)
        found: dict[str, None] = {}
        for spec in signature.inputs:
            for dim in spec.dims:
                if isinstance(dim, str):
                    found |= dict.fromkeys(sorted(sizes.parse(dim).symbols))
        taken: set[str] = {*_LANGUAGE, *_OWN}
        named = [identifier(symbol, taken) for symbol in found]

        def parameters(specs: Sequence[ValueSpec]) -> tuple[Parameter, ...]:
            return tuple(
                Parameter(
                    spec,
                    identifier(spec.name, taken),
                    tuple(
                        d if isinstance(d, int) or sizes.parse(d).symbols <= found.keys() else None for d in spec.dims
                    ),
                )
                for spec in specs
            )

        inputs = parameters(signature.inputs)
        return Interface(
            model_name(name),
            tuple(found),
            tuple(named),
            inputs,
            parameters(signature.outputs),
            signature.random_state,
        )

    def expression(self, dim: str) -> str:
        """A size in C, of an array `s` of all symbols."""

        def text(node: ast.expr) -> str:
            match node:
                case ast.Constant(value=int() as value):
                    return f"INT64_C({value})"
                case ast.Name(id=name):
                    return f"s[{self.symbols.index(name)}]"
                case ast.UnaryOp(operand=operand):
                    return f"burn_size_sub(0, {text(operand)})"
                case ast.BinOp(left=left, op=operator, right=right):
                    return f"burn_size_{_CALLS[type(operator)]}({text(left)}, {text(right)})"
                case ast.Call(func=ast.Name(id=name), args=[first, *rest]):
                    folded = text(first)
                    for argument in rest:
                        folded = f"burn_size_{name}({folded}, {text(argument)})"
                    return folded
            raise AssertionError(ast.dump(node))  # sizes.parse let nothing else through

        return text(sizes.parse(dim).tree)


def model_name(text: str) -> str:
    """The prefix of a model's functions, different from the runtime's."""
    name = identifier(text, {*_LANGUAGE})
    return f"the_{name}" if name.split("_")[0].lower() == "burn" else name


def identifier(text: str, taken: set[str]) -> str:
    """A name of C's that is like a name of the model's and not taken yet; now it is."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_") or "value"
    name = f"_{name}"[name[0].isalpha() :]
    free = next(n for k in range(len(taken) + 1) if (n := f"{name}_{k}" if k else name) not in taken)
    taken.add(free)
    return free


def _check(signature: Signature) -> None:
    problems = []
    for kind, specs in (("input", signature.inputs), ("output", signature.outputs)):
        for spec in specs:
            if spec.containers:
                problems.append(f"{kind} '{spec.name}' is a {spec.type_text}: the C interface has tensors alone")
            elif spec.dtype == "string":
                problems.append(f"{kind} '{spec.name}' holds strings: the C interface has numbers alone")
            elif len(spec.dims) > MAX_RANK:
                problems.append(
                    f"{kind} '{spec.name}' has {len(spec.dims)} axes: the C interface has {MAX_RANK} at most"
                )
    if problems:
        hint = "--emit package makes a file that burn.load runs"
        raise CompileError("this model has no C interface", [Problem(p, hint=hint) for p in problems])
