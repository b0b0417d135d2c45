"""From a file to an executable: `burn.load`.

Programs compiled before on this machine come from the disk cache. Its key is a digest of the model's file and the native
runtime, so a hit imports neither the ONNX reader nor the compiler.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from burn.caching import executable_of, is_cached
from burn.errors import BurnError, CompileError, ModelError, Problem, TypeMismatch
from burn.importers.given_sizes import checked_names, checked_sizes
from burn.options import FULL, Options
from burn.runtime import Executable, _native, model_identity, package, signing
from burn.runtime.budget import Limits, limited
from burn.runtime.compilations import about
from burn.runtime.device import CPU, Device
from burn.runtime.files import mapped
from burn.runtime.package import COMPILED, MAGIC

if TYPE_CHECKING:
    import onnx

    from burn.dialect.program import Program
    from burn.importers.onnx.names import Given
    from burn.nn.graph import Graph

_SHOWN = 5  # missing weights that an error names
MOST_THREADS = 2**31 - 1
WEIGHTS = frozenset((".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".bpk", ".npz", ".npy"))


@overload
def load(
    path: str | os.PathLike[str] | bytes | bytearray | onnx.ModelProto,
    *,
    cache: bool = True,
    threads: int | None = None,
    dims: Given | None = None,
    inputs: Collection[str] = (),
    target: str | None = None,
    device: str | Device = CPU,
    precision: str = FULL,
    autotune: str | None = None,
    exact: bool = False,
    signed_by: str | os.PathLike[str] | None = None,
    max_memory: int | str | None = None,
    max_seconds: float | None = None,
    train: Literal[False] = False,
) -> Executable: ...


@overload
def load(
    path: str | os.PathLike[str] | bytes | bytearray | onnx.ModelProto,
    *,
    cache: bool = True,
    threads: int | None = None,
    dims: Given | None = None,
    target: str | None = None,
    device: str | Device = CPU,
    precision: str = FULL,
    max_memory: int | str | None = None,
    max_seconds: float | None = None,
    train: Literal[True],
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
) -> Graph: ...


def load(
    path: str | os.PathLike[str] | bytes | bytearray | onnx.ModelProto,
    *,
    cache: bool = True,
    threads: int | None = None,
    dims: Given | None = None,
    inputs: Collection[str] = (),
    target: str | None = None,
    device: str | Device = CPU,
    precision: str = FULL,
    autotune: str | None = None,
    exact: bool = False,
    signed_by: str | os.PathLike[str] | None = None,
    max_memory: int | str | None = None,
    max_seconds: float | None = None,
    train: bool = False,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
) -> Any:
    """Loads a model's file as an executable.

    path: one of these files, or a model in memory (an `onnx.ModelProto`, a `jax.export.Exported`, or the bytes of ONNX or
    StableHLO).

    - an ONNX model
    - a program of torch.export (.pt2, which needs PyTorch)
    - a StableHLO program: text as .mlir or .stablehlo, bytecode, or an artefact of jax.export; they need jaxlib
    - burn's IR as text (.mlir, with weights in a .safetensors file beside it)
    - a compiled program (.burn)

    No model file runs code of its own, except for a compiled program. That is machine code with all rights of this process: load
    only those that you would run.

    `cache`: read the compiled program from the disk cache, and write it there. `threads`: number of threads of the process
    from now on (see `set_num_threads`). `dims`: values for named sizes, such as {"batch": 1}; the others stay dynamic. {"n":
    None} makes each axis that an ONNX model calls "n" a separate size. {"x": ("batch", 3)} gives the sizes of an input whose
    rank is unknown. `inputs`: constants of an ONNX model that it also lists as inputs, with their values as defaults; they are
    compiled in unless they are named here. `target`: the CPU to compile for, this machine's by default.
    `device`: "cpu", or a GPU, "cuda" or "cuda:1".
    `precision`: "bf16" or "fp16" runs matmuls, convolutions, attention and the pointwise ops between them in that type. Norms,
    softmax, sums, inputs and outputs stay float32. "tf32" rounds float32 operands of multiplications for the tensor cores of
    NVIDIA's GPUs; "tf32x3" keeps float32's accuracy there, and is the default (see the guide on GPUs).
    `autotune`: "fast" or "full" times a few or more kernel variants during
    compilation, with the current number of threads, and keeps the fastest on disk. "off" times none; BURN_AUTOTUNE, or "off", is
    the default. `exact`: no algorithm that changes rounding, which is slower: no Winograd convolutions (within five times a plain
    sum's rounding error), and no float32 as several bfloat16 (AMX) or TF32 (GPUs).
    `signed_by`: a file with the Ed25519 public key (PEM) that a compiled program must be signed with; the signature is checked
    before the header, code and constants are read.
    `max_memory, max_seconds`: limits for models from untrusted sources, in bytes (or a text such as "2GB") and seconds. They hold
    for the load, and then for each run (see `Executable.limit`, and the guide on safety). `train`: return a module to be
    trained instead (`burn.nn.Graph`), whose parameters are the model's weights; not for compiled programs. `dynamic`: with
    train, names for sizes that vary though an ONNX model fixes them: {"input": {0: "batch"}}.

    Raises ModelError, listing all problems of the model, CompileError, DeviceError for a GPU that is not there, and
    BudgetExceeded, which names the limit that was passed."""
    limits = Limits.of(max_memory, max_seconds)
    dims = checked_sizes(dims)
    name = path if isinstance(path, (str, os.PathLike)) else "the model"
    with limited(limits, f"loading {name}"):
        options = Options.of(
            target=target, device=device, precision=precision, autotune=autotune, exact=exact, cache=cache
        )
        options.device.open_beside()
        if threads is not None:
            set_num_threads(threads)
        made = _load(path, options, dims, inputs, signed_by, train, dynamic)
    if isinstance(made, Executable):
        made.limit_to(limits)
    return made


def _load(
    path: str | os.PathLike[str] | bytes | bytearray | onnx.ModelProto,
    options: Options,
    dims: Given | None,
    inputs: Collection[str],
    signed_by: str | os.PathLike[str] | None,
    train: bool,
    dynamic: Mapping[str, Mapping[int, str]] | None,
) -> Any:
    if signed_by is not None and (not isinstance(path, (str, os.PathLike)) or Path(path).suffix != COMPILED):
        hint = f"burn-compile MODEL -o NAME{COMPILED} --sign KEY makes one that is"
        raise ModelError("only compiled programs are signed", [Problem("this is a model", hint=hint)])
    if isinstance(inputs, str) or not (isinstance(inputs, Collection) and all(isinstance(n, str) for n in inputs)):
        raise TypeMismatch("inputs= is a list of names", [f"not {inputs!r}"])
    if dynamic is not None:
        checked_names(dynamic)
    if train:
        if inputs:
            raise TypeMismatch(
                "inputs= is for inference", ["a model that is to be trained has its weights as parameters"]
            )
        if options.device != CPU:
            raise ModelError("a model that is to be trained is not compiled yet", ["give the device to what trains it"])
        if options.precision != FULL:
            hint = "give the precision to what trains it"
            raise ModelError(
                "a model that is to be trained is not compiled yet", [Problem("it has no precision", hint=hint)]
            )
        return _to_train(path, dims, options, dynamic)
    if dynamic is not None:
        raise TypeMismatch("sizes that a model fixes vary where it is trained only", ["give train=True, or no dynamic"])
    if not isinstance(path, (str, os.PathLike)):
        return _load_model(path, dims, inputs, options)
    path = Path(path)
    status = _status(path)
    with _opened(path) as content:
        compiled = content[: len(MAGIC)] == MAGIC
        if compiled and path.suffix != COMPILED:
            hint = f"rename it to {path.stem}{COMPILED} if you would run it as a program"
            raise ModelError(f"{path} holds machine code", [Problem(f"its name does not end in {COMPILED}", hint=hint)])
        if compiled and (dims or inputs or options.changes_code):
            what = "sizes, inputs, target, precision, exactness and the shapes of kernels cannot be changed any more"
            raise ModelError(f"{path} is compiled already", [Problem(what)])
        if path.suffix == COMPILED:
            artefact = package.load(path, signing.required_key(signed_by), options.device)
            return Executable(artefact, device=package.placed(artefact.target, options.device))
        own = model_identity.identity(path, status, content) if is_cached(options) else None
    identity = None if own is None else [*own.digests, *_sizes_given(dims), *_inputs_given(inputs), *_custom_ops()]
    with about(path.name, "burn.load"):
        return executable_of(
            identity, lambda: read_program(path, dims, inputs), options, lambda: _identity(path) == own
        )


def _load_model(
    model: bytes | bytearray | onnx.ModelProto, dims: Given | None, inputs: Collection[str], options: Options
) -> Executable:
    """An ONNX model or a StableHLO program in memory. Its bytes are all there is to it."""
    content = _content(model)
    given = [*_sizes_given(dims), *_inputs_given(inputs)]
    identity = [hashlib.sha256(content).hexdigest(), *given] if is_cached(options) else None

    def read() -> Program:
        if _stablehlo(content):
            from burn.importers.stablehlo.build import import_stablehlo

            _need_onnx("the program", inputs)
            return import_stablehlo(content, dims=_numbers(Path("the program"), dims))
        from burn.importers.onnx import import_onnx

        return import_onnx(content, dims=dims, inputs=inputs)

    return executable_of(identity, read, options)


def _content(model: Any) -> bytes:
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString(deterministic=True)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "mlir_module_serialized"):  # jax.export.Exported
        return bytes(model.serialize())
    hint = "burn.compile takes functions and modules" if callable(model) else ""
    raise TypeMismatch(
        "load takes a file's name, an ONNX model, or what jax.export gives",
        [Problem(f"not a {type(model).__name__}", hint=hint)],
    )


def _to_train(
    source: Any,
    dims: Given | None,
    options: Options,
    dynamic: Mapping[str, Mapping[int, str]] | None,
) -> Graph:
    """A model as a module. Its file is read twice, for inference and for training; weights stay in it until they move."""
    from burn.importers.onnx import import_opened
    from burn.nn.graph import Forms, Graph

    if options.target is not None:
        raise ModelError("a model that is to be trained is not compiled yet", ["give the target to burn.compile"])
    if not isinstance(source, (str, os.PathLike)):
        content = _content(source)
        if _stablehlo(content):
            raise ModelError("a StableHLO program cannot be trained", ["ONNX models and PyTorch's .pt2 programs can"])
        return Graph(Forms(lambda training: import_opened(content, training, dims=dims, dynamic=dynamic)))
    path = Path(source)
    if path.suffix == ".pt2":
        _need_torch(path)
        from burn.adapters.torch.training import to_train
        from burn.importers.torch import read_pt2

        if dynamic is not None:
            raise ModelError(f"{path} says which of its sizes vary", ["dynamic= is for ONNX models"])
        return to_train(read_pt2(path), dims=_numbers(path, dims))
    if path.suffix in (".mlir", COMPILED) or path.suffix in WEIGHTS or _stablehlo_file(path):
        raise ModelError(f"{path} cannot be trained", ["ONNX models and PyTorch's .pt2 programs can"])
    return Graph(Forms(lambda training: import_opened(path, training, dims=dims, dynamic=dynamic)))


def read_program(path: Path, dims: Given | None = None, inputs: Collection[str] = ()) -> Program:
    """The program in an ONNX model, in one of torch.export's (.pt2), in StableHLO, or in a text (.mlir). `inputs`: see `load`.
    Raises ModelError."""
    from burn.importers import strangers

    strangers.refuse(path)
    if _stablehlo_file(path):
        from burn.importers.stablehlo.build import import_stablehlo

        _need_onnx(path, inputs)
        return import_stablehlo(path, dims=_numbers(path, dims))
    if path.suffix == ".pt2":
        _need_onnx(path, inputs)
        return _read_pt2(path, dims)
    if path.suffix in WEIGHTS:
        raise strangers.refusal(path, strangers.WEIGHTS)
    if path.suffix != ".mlir":
        from burn.importers.onnx import import_onnx

        return import_onnx(path, dims=dims, inputs=inputs)
    _need_onnx(path, inputs)
    from burn.dialect.text import missing_weights, parse_text
    from burn.importers.weights import safetensors
    from burn.passes.verify import Verify

    if dims:
        raise ModelError(f"{path}: sizes cannot be given for a program in text form", ["they are written in it"])
    beside = path.with_suffix(".safetensors")
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read {path}", [getattr(error, "strerror", None) or str(error)]) from None
    program = parse_text(text, safetensors.read(beside) if beside.exists() else {}, str(path))
    if missing := missing_weights(program):
        where = "which does not hold them" if beside.exists() else "and there is no such file"
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        names = ", ".join(f"'{name}'" for name in missing[:_SHOWN]) + more
        raise ModelError(f"{path} has no weights", [f"it takes {names} from {beside}, {where}"])
    try:
        Verify().run(program)
    except CompileError as error:
        raise ModelError(f"{path} is malformed", error.problems) from None
    return program


def _stablehlo_file(path: Path) -> bool:
    """True for a file that holds a StableHLO program."""
    with _opened(path) as content:
        return bool(_stablehlo(content, path.name))


def _stablehlo(content: mmap.mmap | bytes, name: str = "") -> str:
    from burn.importers.stablehlo.recognition import recognise

    return recognise(content, name)


def _read_pt2(path: Path, dims: Given | None) -> Program:
    _need_torch(path)
    from burn.importers.torch import import_pt2

    return import_pt2(path, _numbers(path, dims))


def _numbers(path: Path, dims: Given | None) -> dict[str, int]:
    """Sizes given to a program whose names say what they mean."""
    wrong = [name for name, size in (dims or {}).items() if not isinstance(size, int)]
    if wrong:
        raise ModelError(f"{path}: a size is a number", [f"of '{name}' none is given" for name in wrong])
    return {name: size for name, size in (dims or {}).items() if isinstance(size, int)}


def _need_onnx(path: Path | str, inputs: Collection[str]) -> None:
    if inputs:
        raise ModelError(f"{path} has no default values of inputs", ["inputs= is for ONNX models"])


def _need_torch(path: Path) -> None:
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        hint = "pip install 'burn-mlir[torch]'"
        raise ModelError(f"{path} cannot be read", [Problem("a .pt2 file needs PyTorch", hint=hint)]) from None


def set_num_threads(threads: int) -> None:
    """How many threads every executable of this process uses, the caller's among them. At first it is the number of
    cores, or BURN_NUM_THREADS."""
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise TypeMismatch("the number of threads is an integer", [f"not {threads!r}"])
    if not 1 <= threads <= MOST_THREADS:
        if threads > MOST_THREADS:
            raise BurnError(f"the number of threads is at most {MOST_THREADS:,}, not {threads:,}")
        raise BurnError(f"the number of threads must be at least 1, not {threads}")
    _native.set_num_threads(threads)


def compile_count() -> int:
    """How many programs this process has compiled; those that came from the cache are not counted."""
    compiler = sys.modules.get("burn.compiler")
    return 0 if compiler is None else compiler.compile_count()


# ---- the cache's key -------------------------------------------------------------------------------------------------


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise ModelError(f"cannot read {path}", [error.strerror or str(error)]) from error
    except ValueError as error:  # a character that no name has
        raise ModelError(f"cannot read {str(path)!r}", [str(error)]) from None


@contextmanager
def _opened(path: Path) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a file, mapped."""
    try:
        content = mapped(path)
    except OSError as error:
        raise ModelError(f"cannot read {path}", [error.strerror or str(error)]) from error
    try:
        yield content
    finally:
        if isinstance(content, mmap.mmap):
            content.close()


def _identity(path: Path) -> model_identity.Identity | None:
    """The identity of a model's file as it is now; None for one that has none, or cannot be read."""
    try:
        status = _status(path)
        with _opened(path) as content:
            return model_identity.identity(path, status, content)
    except ModelError:
        return None


def _custom_ops() -> list[str]:
    """The versions of custom ops, which a file's nodes may name."""
    defined = sys.modules.get("burn.dialect.custom")  # there are none if it was not imported
    return [] if defined is None else defined.versions()


def _sizes_given(dims: Given | None) -> list[str]:
    return [" ".join(f"{name}={size}" for name, size in sorted((dims or {}).items()))]


def _inputs_given(inputs: Collection[str]) -> list[str]:
    return [f"inputs {' '.join(sorted(inputs))}"] if inputs else []
