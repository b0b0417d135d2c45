"""Bodies of custom ops in C and C++: compiled by the C compiler of `burn.toolchain`, and kept on disk by their digest."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from burn import toolchain
from burn.errors import CompileError, Problem
from burn.runtime.cache import Cache
from burn.runtime.files import whole
from burn.toolchain import Toolchain, platforms
from burn.toolchain.platforms import Platform

HEADER = Path(__file__).parents[1] / "runtime" / "native" / "burn_custom.h"
LANGUAGES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".o": "object", ".obj": "object"}
_SUFFIX = {"c": ".c", "c++": ".cpp"}
_INCLUDED = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_ELF = {62: "x86_64", 183: "aarch64", 243: "riscv64", 40: "thumbv7em"}
"""Machines of ELF files, as platforms name them."""

_ENTRY = """#include "burn_custom.h"
{included}
#ifdef __cplusplus
extern "C"
#endif
__attribute__((visibility("default"))) int {symbol}(const burn_custom_call *call) {{ {body} }}
"""
_SPREAD = """
    enum {{ ABSENT = {count} }};
    static const int64_t absent[ABSENT] = {{ {numbers} }};
    burn_custom_tensor inputs[{operands}];
    burn_custom_call whole = *call;
    int64_t next = 0, missing = 0;
    for (int64_t i = 0; i < call->inputs + ABSENT; i++)
        if (missing < ABSENT && absent[missing] == i) {{
            burn_custom_tensor none = {{ 0, BURN_CUSTOM_ABSENT, 0, 0, 0 }};
            inputs[i] = none;
            missing++;
        }} else
            inputs[i] = call->input[next++];
    whole.inputs += ABSENT;
    whole.input = inputs;
    return {function}(&whole);
"""
"""The call of an op that lacks operands: the function gets tensors of no type for these."""


@dataclass(frozen=True)
class CBody:
    """A function in C or C++, as text, or in an object file.

    origin: the source's name in errors. folder: where its own headers are; "" for none. headers: the text of these headers.
    absent: the numbers of operands that calls lack, in order; operands: the number of all, then."""

    name: str
    source: str
    data: bytes
    language: str
    function: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    origin: str
    folder: str
    headers: tuple[str, ...]
    absent: tuple[int, ...] = ()
    operands: int = 0

    @classmethod
    def of(
        cls,
        name: str,
        source: str | Path,
        function: str,
        flags: Sequence[str] = (),
        libraries: Sequence[str] = (),
        language: str = "c",
        origin: str = "",
    ) -> CBody:
        """source: text, or the path of a file, whose suffix says the language. Raises CompileError."""
        problem = None
        if not function.isidentifier():
            problem = f"'{function}' is no name of a C function"
        if isinstance(source, Path):
            language = LANGUAGES.get(source.suffix, "")
            if not language:
                problem = f"{source.name}: the suffix is none of {', '.join(LANGUAGES)}"
            elif not source.is_file():
                problem = f"there is no file {source}"
        elif language not in _SUFFIX:
            problem = f"the language '{language}' is none of {', '.join(_SUFFIX)}"
        if problem:
            raise CompileError(f"the C body of {name} cannot be read", [Problem(problem, op=name)])
        if not isinstance(source, Path):
            return cls(name, source, b"", language, function, tuple(flags), tuple(libraries), origin, "", ())
        data = source.read_bytes()
        where, folder = source.name, str(source.resolve().parent)
        if language == "object":
            return cls(name, "", data, language, function, tuple(flags), tuple(libraries), where, folder, ())
        text = data.decode(errors="replace")
        headers = tuple(
            f"{path.name}\n{path.read_text(errors='replace')}" for path in _headers(text, source.parent, set())
        )
        return cls(name, text, b"", language, function, tuple(flags), tuple(libraries), where, folder, headers)

    @property
    def digest(self) -> str:
        parts = [self.source, self.language, self.function, repr(self.flags), repr(self.libraries), *self.headers]
        parts += [repr(self.absent)] * bool(self.absent)
        digest = hashlib.sha256("\0".join(parts).encode())
        digest.update(self.data)
        digest.update(HEADER.read_bytes())
        return digest.hexdigest()

    # ---- for this process ----------------------------------------------------------------------------------------------
    def library(self, symbol: str, platform: Platform | None = None) -> bytes:
        """A shared library with a function `symbol`, for this machine or another platform, compiled at the first use. Raises
        CompileError with the compiler's messages, and if there is no compiler."""
        chain = toolchain.find(platform or platforms.find())
        cache = Cache.from_environment()
        name = hashlib.sha256(f"{self.digest}\n{symbol}\n{chain.identity}".encode()).hexdigest()
        kept = cache.folder("custom") / f"{name}.so" if cache.size else None
        if kept is not None and kept.is_file() and cache.distrusted(kept) is None:
            return kept.read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "body.so"
            objects = self.objects(symbol, chain, Path(folder))
            self._link(chain, objects, made, symbol)
            data = made.read_bytes()
        if kept is not None:
            with suppress(OSError), whole(kept) as file:  # a full disk is no error
                file.write(data)
        return data

    def _link(self, chain: Toolchain, objects: Sequence[Path], made: Path, symbol: str) -> None:
        """Without the C++ library where that is enough: ziglang compiles it at its first use, which takes minutes."""
        whole = ("-Wl,-z,defs",)
        if self.language == "c++":
            with suppress(CompileError):
                return chain.shared(objects, made, [symbol], [*whole, *self.linking(chain)[1:]])
        return chain.shared(objects, made, [symbol], [*whole, *self.linking(chain)])

    # ---- for any platform ----------------------------------------------------------------------------------------------
    def linking(self, chain: Toolchain) -> list[str]:
        """The linker's flags for what the body uses."""
        runtime = ["-lc++" if chain.takes_triple else "-lstdc++"] if self.language == "c++" else []
        return [*runtime, *(f"-l{library}" for library in self.libraries)]

    def _entry(self, included: str, symbol: str) -> str:
        body = f"return {self.function}(call);"
        if self.absent:
            numbers = ", ".join(map(str, self.absent))
            body = _SPREAD.format(
                count=len(self.absent), numbers=numbers, operands=self.operands, function=self.function
            )
        return _ENTRY.format(included=included, symbol=symbol, body=body)

    def objects(self, symbol: str, chain: Toolchain, folder: Path) -> list[Path]:
        """Objects with a function `symbol` in a folder; one that is there already may be among them. Raises CompileError with the
        compiler's messages."""
        if self.language == "object":
            machine = _machine(self.data)
            if machine and machine != chain.platform.architecture:
                hint = "give the source, which burn compiles for each platform"
                problem = Problem(f"{self.origin} is for {machine}", op=self.name, hint=hint)
                raise CompileError(f"the C body of {self.name} is not for {chain.platform.name}", [problem])
            digest = hashlib.sha256(self.data).hexdigest()[:16]
            unit, own = folder / f"{symbol}.c", folder / f"burn_custom_{digest}_body.o"  # several versions share it
            declared = f"int {self.function}(const burn_custom_call *call);"
            unit.write_text(self._entry(declared, symbol))
            own.write_bytes(self.data)
            more = [own]
        else:
            suffix = _SUFFIX[self.language]
            body, unit, more = folder / f"{symbol}_body{suffix}", folder / f"{symbol}{suffix}", []
            body.write_text(f'#line 1 "{self.origin}"\n{self.source}')
            unit.write_text(self._entry(f'#include "{body.name}"', symbol))
        headers = ["-lc++"] if self.language == "c++" and chain.takes_triple else []  # ziglang's are found by it
        if self.language != "object":  # other ops in a binary may have a function of this name
            headers.append(f"-D{self.function}={symbol}_{self.function}")
        flags = [*headers, f"-I{HEADER.parent}", *([f"-I{self.folder}"] if self.folder else []), *self.flags]
        try:
            return [*chain.compile([unit], folder, flags), *more]
        except CompileError as error:
            lines = [problem.message.replace(f"{folder}/", "") for problem in error.problems]
            problems = [Problem(line, op=self.name) for line in lines]
            raise CompileError(f"the C body of {self.name} ({self.origin}) does not compile", problems) from None


def _machine(data: bytes) -> str:
    """The architecture of an object in ELF, or WebAssembly's; "" for others."""
    if data.startswith(b"\0asm"):
        return "wasm32"
    return _ELF.get(int.from_bytes(data[18:20], "little"), "") if data.startswith(b"\x7fELF") else ""


def _headers(text: str, folder: Path, seen: set[Path]) -> Iterator[Path]:
    """The user's headers that a source includes, and those that they include."""
    for name in _INCLUDED.findall(text):
        path = folder / name
        if path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            yield path
            yield from _headers(path.read_text(errors="replace"), path.parent, seen)
