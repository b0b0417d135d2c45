"""The C interface of a compiled training: its header, and the C file with its tables (native/train/train.h)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from burn.deploy import header, tables, wasm
from burn.deploy.header import Function
from burn.deploy.interface import Interface, Parameter
from burn.deploy.training import Part, State, Training
from burn.errors import CompileError, Problem
from burn.importers.weights.safetensors import CODES as SAFETENSORS
from burn.runtime.dtypes import numpy_dtype
from burn.runtime.sizes import parse
from burn.train.checkpoints import FORMAT

Size = TypeVar("Size", int, str)

_CODES = {dtype: code for code, dtype in SAFETENSORS.items()}

BATCH = "batch"
"""The name for the number of a batch's rows."""

OTHERS = "F32"
"""For states that are in no checkpoint, whose element types safetensors may lack."""


@dataclass(frozen=True)
class TrainInterface:
    """The functions of a training are named <name>_step and so on."""

    name: str
    step: Interface
    predict: Interface | None

    @property
    def batch(self) -> str | None:
        """The size that counts a batch's rows: "batch" if that is a first axis of the step's inputs, else the commonest first
        axis among sizes with a name. None if there is none, or if several are equally common."""
        firsts = [d for d in self.first_axes if isinstance(d, str) and d in self.step.symbols]
        return BATCH if BATCH in firsts else _commonest(firsts)

    @property
    def first_axes(self) -> list[int | str | None]:
        """Of the step's inputs; None for a scalar."""
        return [p.spec.dims[0] if p.spec.dims else None for p in self.step.inputs]


@dataclass(frozen=True)
class Rows:
    """How a command makes batches of arrays. has_rows: for each input of the step, True if its first axis is the rows of a batch;
    the others are the same in each step. size: the number of a batch's rows that the step was compiled for, or 0: any number."""

    has_rows: tuple[bool, ...]
    size: int


def rows_of(interface: TrainInterface) -> Rows:
    """Raises CompileError if the inputs do not tell which axis counts rows, or if an input cannot be divided by rows."""
    firsts = interface.first_axes
    named = [d for d in firsts if isinstance(d, str)]
    batch = interface.batch if named else _commonest([d for d in firsts if isinstance(d, int)])
    listed = ", ".join(f"{p.spec.name}={p.spec.type_text}" for p in interface.step.inputs)
    hint = f"call the first axis of the inputs with rows '{BATCH}'; --emit shared makes a library, whose caller makes batches"
    if batch is None:
        several = len({d for d in firsts if d is not None}) > 1
        what = "several first axes could be it" if several else "no first axis is a size of its own"
        raise CompileError("a command must know which axis counts rows", [Problem(f"{what}: {listed}", hint=hint)])
    wrong = [
        Problem(f"'{p.spec.name}' is {p.spec.type_text}: it is not one block per row of '{batch}'", hint=hint)
        for p in interface.step.inputs
        if any(
            isinstance(d, str) and batch in parse(d).symbols and (axis, d) != (0, batch)
            for axis, d in enumerate(p.spec.dims)
        )
    ]
    if wrong:
        raise CompileError("a command divides the inputs into batches by their first axis", wrong)
    return Rows(tuple(d == batch for d in firsts), batch if isinstance(batch, int) else 0)


def _commonest(found: Sequence[Size]) -> Size | None:
    """None if there is none, or if several are equally common."""
    counts = Counter(found).most_common(2)
    return counts[0][0] if counts and (len(counts) == 1 or counts[0][1] > counts[1][1]) else None


def functions(interface: TrainInterface) -> list[Function]:
    """Every function of the header, in order."""
    name, model = interface.name, f"{interface.name}_model *model"
    made = [
        (
            "create",
            f"int32_t {name}_create({name}_model **model, const char *weights)",
            "Makes a training in its initial state: that of the Python step when it was compiled. weights: the path of its file "
            "of weights; NULL if they are in the library. 0, or an error (enum burn_code).",
        ),
        ("destroy", f"void {name}_destroy({model})", "Frees it; no call may be under way. Accepts NULL."),
    ]
    made += _calls(
        name,
        "step",
        interface.step,
        "One training step: a batch comes in, the state changes, and the loss of the parameters before the step goes out. A "
        "call with the sizes of the call before allocates no memory. After an error parameters and the optimizer's state "
        "are unchanged; running statistics may have changed.",
    )
    if interface.predict is not None:
        made += _calls(
            name, "predict", interface.predict, "Inference with the current parameters. The state does not change."
        )
    made += [
        ("free", f"void {name}_free(burn_tensor *tensor)", "Frees an output that a call with tensors allocated."),
        (
            "save",
            f"int32_t {name}_save({model}, const char *path)",
            "Writes a checkpoint: parameters, the optimizer's state, random state. The file appears whole or not at all. It is a "
            "safetensors file that burn.train reads (Step.load, Learner.fit(resume=path)).",
        ),
        (
            "load",
            f"int32_t {name}_load({model}, const char *path)",
            "Restores the state of a checkpoint, also of one that burn.train wrote; or the model's parameters of a safetensors "
            "file that has nothing else. After an error the state is unchanged.",
        ),
        (
            "read",
            f"int32_t {name}_read({model}, const char *tensor, void *data, int64_t bytes)",
            'Copies a tensor of the state by its name in checkpoints ("model.head.weight"), whose bytes must be as many '
            "as given.",
        ),
        (
            "write",
            f"int32_t {name}_write({model}, const char *tensor, const void *data, int64_t bytes)",
            "Replaces a tensor of the state.",
        ),
        (
            "steps",
            f"int64_t {name}_steps({model})",
            "How many steps were made, those before the loaded checkpoint among them.",
        ),
        (
            "seed",
            f"int32_t {name}_seed({model}, uint64_t seed)",
            "Starts the random numbers of the following calls from a seed, as burn.manual_seed does.",
        ),
        ("error", f"const char *{name}_error(void)", "The message of this thread's last call that failed."),
        ("about", f"const char *{name}_about(void)", "Inputs, outputs, the state's tensors and the target, as JSON."),
        (
            "set_threads",
            f"void {name}_set_threads(int32_t threads)",
            "The number of threads of a call; at first BURN_NUM_THREADS, or the number of cores.",
        ),
    ]
    return [Function(verb, prototype, comment) for verb, prototype, comment in made]


def _calls(name: str, verb: str, of: Interface, comment: str) -> list[tuple[str, str, str]]:
    sizes = [f"int64_t {size}" for size in of.sizes]
    made = []
    if of.is_sized:
        inputs = [f"const {p.c_type} *{p.name}" for p in of.inputs]
        outputs = [f"{p.c_type} *{p.name}" for p in of.outputs]
        arguments = ", ".join([f"{name}_model *model", *sizes, *inputs, *outputs])
        made.append((verb, f"int32_t {name}_{verb}({arguments})", comment))
    with_tensors = (
        f"int32_t {name}_{verb}_tensors({name}_model *model, const burn_tensor *inputs, burn_tensor *outputs)"
    )
    more = "The same with tensors, in the order above. An output without data is allocated, and its caller's to free."
    if verb == "step":
        more += " BURN_E_SMALL_OUTPUT is the one error after which the step was made: an output's memory was too small."
    made.append((f"{verb}_tensors", with_tensors, more if of.is_sized else f"{comment} {more}"))
    dims = ", ".join([*sizes, "int32_t number", "int64_t *dims"])
    about = f"The sizes of an output of {verb} by its number; -1 stands for one that only the call can tell."
    return [*made, (f"{verb}_dims", f"int32_t {name}_{verb}_dims({dims})", about)]


def text_of_header(interface: TrainInterface, version: str) -> str:
    """The C header, which C++ also takes."""
    parts = [("step", interface.step), *([("predict", interface.predict)] if interface.predict else [])]
    lines = [f"The training {interface.name}, made by burn-compile {version}."]
    for verb, of in parts:
        lines += ["", *header.described(of, f"{verb}: ")]
    counts = {
        f"{interface.name.upper()}_{verb.upper()}_{kind}": len(found)
        for verb, of in parts
        for kind, found in (("INPUTS", of.inputs), ("OUTPUTS", of.outputs))
    }
    about = (
        "A training: parameters, the optimizer's state, random state. Any number of threads may call it; the calls run one\n"
        " * after another. Several trainings run at the same time."
    )
    return header.header_of(interface.name, lines, counts, about, functions(interface))


# ---- tables ----------------------------------------------------------------------------------------------------------


def source(
    interface: TrainInterface,
    training: Training,
    offsets: Sequence[int],
    version: str,
    about: str,
    rows: Rows | None = None,
) -> str:
    """The C file of the functions and the tables besides those of the two programs. offsets: where the first elements of each
    state are in the weights, or -1: they are zeros. rows: of a command."""
    name = interface.name
    externs = [f"extern const burn_model_facts {name}_{verb}_facts;" for verb in _parts(training)]
    names = [
        f"{{{tables.text(n)}, {number}, {_counts(n, training.states)}}}"
        for number, state in enumerate(training.states)
        for n in state.names
    ]
    parts = [
        '#include "train.h"',
        text_of_header(interface, version),
        *externs,
        *_states(training.states, offsets),
        tables.table("burn_state_name", "names", names),
        *(
            f"static const int32_t {verb}_{which}[] = {{{', '.join(map(str, numbers)) or '0'}}};"
            for verb, part in _parts(training).items()
            for which, numbers in (("state_inputs", part.state_inputs), ("state_outputs", part.state_outputs))
        ),
        f"static const char about[] =\n{tables.long_text(about)};",
        f"static const char checkpoint[] =\n{tables.long_text(json.dumps({'format': FORMAT, **training.facts}))};",
        *(
            []
            if rows is None
            else [tables.array("static const unsigned char", "has_rows", [str(int(r)) for r in rows.has_rows])]
        ),
        _facts(interface, training, len(names), rows),
        *_functions(interface),
        "#ifdef BURN_PROGRAM\nconst burn_trainer_facts *const burn_main_trainer = &facts;\n#endif",
    ]
    return "\n\n".join(parts) + "\n"


def _parts(training: Training) -> dict[str, Part]:
    return {"step": training.step} | ({"predict": training.predict} if training.predict else {})


def _counts(name: str, states: Sequence[State]) -> int:
    """The number of the state with all steps of an optimizer, for its count of some parameters' steps; else -1."""
    head, found, _ = name.partition("count.")
    if not found or not head.startswith("optimizer."):
        return -1
    return next((i for i, s in enumerate(states) if f"{head}steps" in s.names), -1)


def _states(states: Sequence[State], offsets: Sequence[int]) -> list[str]:
    lines, rows = [], []
    for number, (state, offset) in enumerate(zip(states, offsets, strict=True)):
        type_ = state.tensor.type
        dims = [int(d) for d in type_.shape]  # type: ignore[arg-type]  # a parameter's sizes are numbers
        item, count = numpy_dtype(type_.dtype).itemsize, 1
        for dim in dims:
            count *= dim
        lines.append(f"static const int64_t state_{number}[] = {{{', '.join(f'INT64_C({d})' for d in dims) or '0'}}};")
        code = _CODES.get(type_.dtype, OTHERS)
        rows.append(
            f"{{{tables.text(str(type_))}, {tables.text(type_.dtype)}, {tables.text(code)}, {len(dims)}, {item}, "
            f"state_{number}, INT64_C({count * item}), INT64_C({offset})}}"
        )
    return ["\n".join(lines), tables.table("burn_state", "states", rows)]


def _facts(interface: TrainInterface, training: Training, names: int, rows: Rows | None) -> str:
    fields: dict[str, object] = {
        verb: f"{{&{interface.name}_{verb}_facts, {verb}_state_inputs, {verb}_state_outputs, "
        f"{len(part.state_inputs)}, {len(part.state_outputs)}}}"
        for verb, part in _parts(training).items()
    }
    seed, draws = training.random
    fields |= {
        "about": "about",
        "states": "states",
        "state_count": len(training.states),
        "names": "names",
        "name_count": names,
        "seed": f"UINT64_C({seed})",
        "draws": f"UINT64_C({draws})",
        "checkpoint": "checkpoint",
        "steps": f"INT64_C({training.facts['step']})",
        "has_rows": "0" if rows is None else "has_rows",
        "batch": f"INT64_C({0 if rows is None else rows.size})",
    }
    lines = "".join(f"    .{key} = {value},\n" for key, value in fields.items())
    return f"static const burn_trainer_facts facts = {{\n{lines}}};"


def _functions(interface: TrainInterface) -> list[str]:
    trainer = "(burn_trainer *)model"
    bodies = {
        "create": "return burn_trainer_create(&facts, weights, (burn_trainer **)model);",
        "destroy": f"burn_trainer_destroy({trainer});",
        "free": "burn_model_free(tensor);",
        "save": f"return burn_trainer_save({trainer}, path);",
        "load": f"return burn_trainer_load({trainer}, path);",
        "read": f"return burn_trainer_read({trainer}, tensor, data, bytes);",
        "write": f"return burn_trainer_write({trainer}, tensor, data, bytes);",
        "steps": f"return burn_trainer_steps({trainer});",
        "seed": f"return burn_trainer_seed({trainer}, seed);",
        "error": "return burn_model_error();",
        "about": "return about;",
        "set_threads": "burn_pool_set_threads(threads);",
    }
    for verb, of in (("step", interface.step), ("predict", interface.predict)):
        if of is None:
            continue
        sizes = tables.array("const int64_t", "sizes", of.sizes)
        call = f"return burn_trainer_{verb}({trainer}, sizes, burn_in, burn_out);"
        inputs = tables.array("const void *const", "burn_in", [p.name for p in of.inputs])
        outputs = tables.array("void *const", "burn_out", [p.name for p in of.outputs])
        bodies[verb] = "\n    ".join([sizes, inputs, outputs, call])
        bodies[f"{verb}_tensors"] = f"return burn_trainer_{verb}_tensors({trainer}, inputs, outputs);"
        dims = f"return burn_model_dims(&{interface.name}_{verb}_facts, sizes, number, dims);"
        bodies[f"{verb}_dims"] = f"{sizes}\n    {dims}"
    return [f"{f.prototype} {{\n    {bodies[f.verb]}\n}}" for f in functions(interface)]


def about(
    interface: TrainInterface,
    training: Training,
    version: str,
    target: str,
    features: Sequence[str],
    weights: tuple[int, str],
) -> str:
    """The training for machines that ask: JSON. weights: their bytes, and their file or ""."""

    def described(of: Interface) -> dict[str, Any]:
        return {
            "sizes": list(of.symbols),
            "inputs": tables.described(of.inputs),
            "outputs": tables.described(of.outputs),
        }

    found = {
        "name": interface.name,
        "burn": version,
        "target": target,
        "features": list(features),
        "step": described(interface.step),
        "predict": None if interface.predict is None else described(interface.predict),
        "batch": interface.batch,
        "state": tensors(training),
        "weights": {"bytes": weights[0], "file": weights[1] or None},
    }
    return json.dumps(found, separators=(",", ":"))


def tensors(training: Training) -> list[dict[str, object]]:
    """The state's tensors by their names, for JSON."""
    return [
        {"name": name, "dtype": s.tensor.type.dtype, "dims": list(s.tensor.type.shape)}
        for s in training.states
        for name in s.names
    ]


def typescript(interface: TrainInterface) -> str:
    """The types of the ES module (native/train/index.js)."""

    def named(title: str, parameters: Sequence[Parameter], form: str) -> str:
        return f"export interface {title} {{\n{wasm.fields([p.spec for p in parameters], form)}}}\n"

    step, predict = interface.step, interface.predict
    scalars, others = [p for p in step.outputs if not p.dims], [p for p in step.outputs if p.dims]
    kinds = {"int64": "bigint", "uint64": "bigint"}
    numbers = "".join(
        f"  /** {p.spec.type_text} */\n  {json.dumps(p.spec.name)}: {kinds.get(p.spec.dtype, 'number')};\n"
        for p in scalars
    )
    results = f"export interface Results {{\n{numbers}{wasm.fields([p.spec for p in others], 'Tensor<{0}>')}}}\n"
    inference = "" if predict is None else named("Inputs", predict.inputs, "{0} | Tensor<{0}>")
    inference += "" if predict is None else "\n" + named("Outputs", predict.outputs, "Tensor<{0}>")
    call = (
        ""
        if predict is None
        else "\n  /** Inference with the current parameters. */\n  predict(inputs: Inputs): Outputs;"
    )
    return f"""/** A tensor: elements in row-major order, and sizes. */
export interface Tensor<Data> {{
  data: Data;
  dims: number[];
}}

{named("Batch", step.inputs, "{0} | Tensor<{0}>")}
{results}
{inference}
/** An input, an output or a tensor of the state. */
export interface Value {{
  name: string;
  dtype: string;
  dims: (number | string)[];
}}

export interface Trainer {{
  readonly inputs: Value[];
  readonly outputs: Value[];
  readonly state: Value[];
  /** How many steps were made, those before a loaded checkpoint among them. */
  readonly steps: number;
  /** One training step; throws an Error, and parameters are unchanged then. */
  step(batch: Batch): Results;{call}
  /** Starts the random numbers of the following steps from a seed. */
  seed(seed: bigint | number): void;
  /** A checkpoint (safetensors), which burn.train reads. */
  save(): Uint8Array;
  /** Restores the state of a checkpoint, or takes the parameters of a safetensors file. */
  load(checkpoint: Uint8Array | ArrayBuffer): void;
  /** A copy of a tensor of the state, by its name in a checkpoint. */
  read(name: string): Tensor<ArrayBufferView>;
  write(name: string, data: ArrayBufferView): void;
}}

export interface Options {{
  /** Receives the number of bytes that have been read, and of all. */
  progress?: (loaded: number, total: number) => void;
}}

/** Loads the training. base: the folder of its files; default: this module's. */
export function load(base?: string | URL, options?: Options): Promise<Trainer>;
"""
