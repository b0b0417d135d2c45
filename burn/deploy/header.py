"""A model's C header, and its C++ header over that: functions, each with its documentation, made for the model's tensors."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burn.deploy.interface import Interface, Parameter

NATIVE = Path(__file__).parent / "native"
_WIDTH = 110


@dataclass(frozen=True)
class Function:
    """One function of the interface: `prototype` is its head without a semicolon."""

    verb: str
    prototype: str
    comment: str


def functions(interface: Interface) -> list[Function]:
    """Every function of a model's header, in order."""
    name = interface.name
    sizes = [f"int64_t {size}" for size in interface.sizes]
    in_place = "An output whose address is a multiple of 64 and apart from the inputs is written in place."
    told = "What went wrong in this thread's last call that failed."
    threads = "How many threads all models of this library use; at first BURN_NUM_THREADS, or the number of cores."
    if interface.is_small:
        in_place = "Outputs are copied there at its end."
        told = "What went wrong in this thread's last call that failed, by its number in enum burn_code."
        threads = "Does nothing: a call computes in the thread that it is made in, and in no other."
    made = [
        (
            "create",
            f"int32_t {name}_create({name}_model **model, const char *weights)",
            "Makes the model. weights: the path of its file of weights; NULL where they are in the library. "
            "0, or an error (enum burn_code).",
        ),
        (
            "destroy",
            f"void {name}_destroy({name}_model *model)",
            "Frees it; no call may be under way. Accepts NULL.",
        ),
    ]
    if interface.is_sized:
        arguments = [
            *sizes,
            *(f"const {p.c_type} *{p.name}" for p in interface.inputs),
            *(f"{p.c_type} *{p.name}" for p in interface.outputs),
        ]
        made.append(
            (
                "run",
                f"int32_t {name}_run({', '.join([f'{name}_model *model', *arguments])})",
                "One inference, in the caller's memory: of the sizes above. 0, or an error. " + in_place,
            )
        )
    made += [
        (
            "output_dims",
            f"int32_t {name}_output_dims({', '.join([*sizes, 'int32_t number', 'int64_t *dims'])})",
            "The sizes of an output, by its number, before a run; -1 stands for one that only a run can tell. 0, or an error.",
        ),
        (
            "run_tensors",
            f"int32_t {name}_run_tensors({name}_model *model, const burn_tensor *inputs, burn_tensor *outputs)",
            "The same with tensors, in the order above. An output without data is allocated, and its caller's to free.",
        ),
        ("free", f"void {name}_free(burn_tensor *tensor)", f"Frees an output that {name}_run_tensors allocated."),
    ]
    if interface.random_state:
        made.append(
            (
                "seed",
                f"void {name}_seed({name}_model *model, uint64_t seed)",
                "Makes the random numbers of the calls that follow the same each time a seed is given; it is 0 at first.",
            )
        )
    made += [
        ("error", f"const char *{name}_error(void)", told),
        ("about", f"const char *{name}_about(void)", "The model's inputs, outputs and target, as JSON."),
        ("set_threads", f"void {name}_set_threads(int32_t threads)", threads),
    ]
    return [Function(verb, prototype, comment) for verb, prototype, comment in made]


def header(interface: Interface, version: str) -> str:
    """The C header."""
    name = interface.name
    lines = [f"The model {name}, made by burn-compile {version}.", "", *described(interface)]
    counts = {
        f"{name.upper()}_{kind}": len(of) for kind, of in (("INPUTS", interface.inputs), ("OUTPUTS", interface.outputs))
    }
    about = "A model that is ready to run. Any number of threads may call it at once."
    return header_of(name, lines, counts, about, functions(interface))


def header_of(
    name: str, lines: Sequence[str], counts: Mapping[str, int], about: str, declared: Sequence[Function]
) -> str:
    """A C header. lines: its first comment; counts: constants; about: the comment of the type <name>_model."""
    guard = f"{name.upper()}_H"
    shared = (NATIVE / "burn_model.h").read_text()
    prototypes = "\n\n".join(f"{_comment(f.comment)}\n{name.upper()}_API {f.prototype};" for f in declared)
    first, *rest = lines
    body = "\n".join(f" * {line}".rstrip() for line in rest)
    return f"""/* {first}
{body}
 */
#ifndef {guard}
#define {guard}

{shared}
#ifndef {name.upper()}_API
#define {name.upper()}_API
#endif

#ifdef __cplusplus
extern "C" {{
#endif

enum {{ {", ".join(f"{key} = {count}" for key, count in counts.items())} }};

/* {about} */
typedef struct {name}_model {name}_model;

{prototypes}

#ifdef __cplusplus
}}
#endif
#endif
"""


def described(interface: Interface, of: str = "") -> list[str]:
    """A program's sizes, inputs and outputs for people. of: the beginning of each heading."""
    told = [
        c if c == s else f'{c} ("{_quiet(s)}" in the model)'
        for c, s in zip(interface.sizes, interface.symbols, strict=True)
    ]
    lines = [f"{of}Sizes that a call chooses: {', '.join(told)}.", ""] if told else []
    for what, parameters in (("Inputs", interface.inputs), ("Outputs", interface.outputs)):
        lines += [f"{of}{what}, in row-major order:", *(f"    {_described(p)}" for p in parameters), ""]
    return lines[:-1]


def _quiet(text: str) -> str:
    """A name of the model's that cannot end a comment."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("*/", "* /")


def _described(parameter: Parameter) -> str:
    spec = parameter.spec
    called = "" if parameter.name == spec.name else f' ("{_quiet(spec.name)}" in the model)'
    note = f", {parameter.note}" if parameter.note else ""
    return f"{parameter.name}: {_quiet(spec.type_text)}{called}{note}"


def _comment(text: str) -> str:
    lines = textwrap.wrap(text, _WIDTH - 6)
    return "/* " + "\n * ".join(lines) + " */"


def cpp_header(interface: Interface, version: str) -> str:
    """The C++ header: a class that owns the model, throws errors, and gives outputs as vectors."""
    name = interface.name
    fields = "\n".join(f"    std::vector<{p.c_type}> {p.name};" for p in interface.outputs)
    arguments = [
        *(f"int64_t {size}" for size in interface.sizes),
        *(f"const {p.c_type} *{p.name}" for p in interface.inputs),
    ]
    declared = [f"int64_t {size}" for size in interface.sizes]
    passed = [*interface.sizes, *(p.name for p in interface.inputs)]
    sizes = "".join(f"{size}, " for size in interface.sizes)
    parts = {"complex64": 2, "complex128": 2}
    grown = "\n".join(
        f"        burn_out.{p.name}.resize(elements({number}, {len(p.dims)}, {parts.get(p.spec.dtype, 1)}"
        f"{''.join(f', {size}' for size in interface.sizes)}));"
        for number, p in enumerate(interface.outputs)
    )
    outputs = "".join(f", burn_out.{p.name}.data()" for p in interface.outputs)
    inputs = "".join(f", {value}" for value in passed)
    run = f"""
    /* One inference. */
    Outputs run({", ".join(arguments)}) const {{
        Outputs burn_out;
{grown}
        check({name}_run(model_{inputs}{outputs}));
        return burn_out;
    }}
"""
    counted = f"""
    static std::size_t elements({", ".join(["int32_t number", "int rank", "std::size_t parts", *declared])}) {{
        int64_t dims[BURN_TENSOR_RANK];
        check({name}_output_dims({sizes}number, dims));
        std::size_t count = parts;
        for (int axis = 0; axis < rank; axis++)
            count *= static_cast<std::size_t>(dims[axis]);
        return count;
    }}
"""
    return f"""/* The model {name} in C++, made by burn-compile {version}: see {name}.h for its inputs and outputs. */
#ifndef {name.upper()}_HPP
#define {name.upper()}_HPP

#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "{name}.h"

namespace {name} {{

class Error : public std::runtime_error {{
  public:
    Error(int32_t code, const char *what) : std::runtime_error(what), code(code) {{}}
    int32_t code; /* enum burn_code */
}};

struct Outputs {{
{fields}
}};

/* Owns the model; any number of threads may call one at once. */
class Model {{
  public:
    explicit Model(const char *weights = nullptr) {{ check({name}_create(&model_, weights)); }}
    Model(Model &&other) noexcept : model_(std::exchange(other.model_, nullptr)) {{}}
    Model &operator=(Model &&other) noexcept {{
        std::swap(model_, other.model_);
        return *this;
    }}
    ~Model() {{ {name}_destroy(model_); }}

    {name}_model *get() const {{ return model_; }}
{run if interface.is_sized else ""}
    static void check(int32_t code) {{
        if (code != BURN_DONE)
            throw Error(code, {name}_error());
    }}

  private:{counted if interface.is_sized else ""}
    {name}_model *model_ = nullptr;
}};

}} // namespace {name}
#endif
"""
