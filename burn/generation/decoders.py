"""The models that write: each kind reads a prompt, and then one token after another.

    module with a cache     `start(batch, capacity)`, and `model(tokens, cache=cache)` -> (scores, cache): a step is one program,
                            which chooses the token, too, and writes keys and values over the old ones
    ONNX, imported          a program with keys and values of the tokens before among its inputs (`past...`), and of all so
                            far among its outputs (`present...`), as exporters of decoders make them
    anything else           a function of tokens alone goes over the whole text for each one; only where `cache=False` asks
                            for it

Shapes: tokens int64[b, s], scores [b, s, words].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import burn.random
from burn.dialect.dims import ceildiv
from burn.errors import InputError, ModelError, TypeMismatch
from burn.generation.sampling import Form, Sampling, choose
from burn.jitted import jit
from burn.nn import Module
from burn.runtime.dtypes import numpy_dtype
from burn.runtime.executable import Executable
from burn.tensors import Tensor

ROOM = 128
"""Caches have room for a multiple of so many tokens: texts of about one length share their programs."""


@dataclass(frozen=True)
class Draws:
    """How tokens are chosen, and the key of their random numbers: token number n has the n-th key of it."""

    sampling: Sampling
    key: np.ndarray

    def numbers(self, n: int) -> tuple[Any, ...]:
        """The numeric arguments of `chosen`, besides scores and form."""
        s = self.sampling
        return np.float32(s.temperature or 1), np.float32(s.top_p or 1), self.key, np.uint32(n)


def chosen(scores: Tensor, form: Form, temperature: Tensor, top_p: Tensor, key: Tensor, n: Tensor) -> Tensor:
    """Of the last token's scores. Shapes: [b, s, words] -> int64[b]."""
    return choose(scores[:, -1], form, temperature, top_p, burn.random.fold_in(key, n) if form.draws else key)


class Decoder(Protocol):
    def read(self, prompt: np.ndarray, room: int, draws: Draws) -> tuple[np.ndarray, Any]:
        """The token after a prompt [b, s], int64[b], and the state for at most `room` further tokens."""
        ...

    def write(self, tokens: np.ndarray, kept: Any, n: int, draws: Draws) -> tuple[np.ndarray, Any]:
        """The n-th token, behind the tokens [b] that came last."""
        ...


class Cached:
    """A module with a cache of one size."""

    def __init__(self, model: Any) -> None:
        def read(tokens: Tensor, room: int, form: Form, *numbers: Tensor) -> Any:
            scores, cache = model(tokens, cache=model.start(tokens.shape[0], room))
            return chosen(scores, form, *numbers), cache

        def write(tokens: Tensor, cache: Any, form: Form, *numbers: Tensor) -> Any:
            scores, cache = model(tokens, cache=cache)
            return chosen(scores, form, *numbers), cache

        self._read = jit(read, dynamic={"tokens": {1: "length"}}, static=("room", "form"))
        self._write = jit(write, static="form", donate=("cache",))

    def read(self, prompt: np.ndarray, room: int, draws: Draws) -> tuple[np.ndarray, Any]:
        capacity = ROOM * ceildiv(prompt.shape[1] + room, ROOM)
        token, cache = self._read(prompt, capacity, draws.sampling.form, *draws.numbers(0))
        return np.asarray(token), cache

    def write(self, tokens: np.ndarray, kept: Any, n: int, draws: Draws) -> tuple[np.ndarray, Any]:
        token, cache = self._write(tokens[:, None], kept, draws.sampling.form, *draws.numbers(n))
        return np.asarray(token), cache


class Whole:
    """A function of all tokens so far, or of the last `context` of them."""

    def __init__(self, model: Callable[[Tensor], Tensor], context: int | None) -> None:
        def read(tokens: Tensor, form: Form, *numbers: Tensor) -> Tensor:
            return chosen(model(tokens), form, *numbers)

        self._read, self._context = jit(read, dynamic={"tokens": {1: "length"}}, static="form"), context

    def read(self, prompt: np.ndarray, room: int, draws: Draws) -> tuple[np.ndarray, Any]:
        return self._next(prompt, 0, draws)

    def write(self, tokens: np.ndarray, kept: Any, n: int, draws: Draws) -> tuple[np.ndarray, Any]:
        return self._next(np.concatenate([kept, tokens[:, None]], 1), n, draws)

    def _next(self, text: np.ndarray, n: int, draws: Draws) -> tuple[np.ndarray, Any]:
        seen = text if self._context is None else text[:, -self._context :]
        return np.asarray(self._read(seen, draws.sampling.form, *draws.numbers(n))), seen


KEPT = re.compile(r"(?:past_key_values?|past|present_key_values?|present)[._]?(?P<which>.*)")
"""How exporters name keys and values: those before, and those so far."""


class Imported:
    """A program with keys and values as inputs and outputs.

    Optional inputs: a mask of all tokens so far (`attention_mask`), the positions of the new tokens (`position_ids`, or
    `cache_position` without a batch), and a flag for an existing cache (`use_cache_branch`).

    Raises ModelError if its inputs or outputs are not those of a decoder."""

    TOKENS, SCORES = "input_ids", "logits"
    BESIDE: Mapping[str, Callable[[int, int, int], Any]] = {
        "attention_mask": lambda batch, past, new: np.ones((batch, past + new), np.int64),
        "position_ids": lambda batch, past, new: np.arange(past, past + new)[None].repeat(batch, 0),
        "cache_position": lambda batch, past, new: np.arange(past, past + new),
        "use_cache_branch": lambda batch, past, new: np.array([past > 0]),
    }

    def __init__(self, program: Executable) -> None:
        given = {match["which"]: spec.name for spec in program.outputs if (match := KEPT.fullmatch(spec.name))}
        self._program, self._inputs = program, {spec.name: spec for spec in program.inputs}
        self._renewed: dict[str, str] = {}  # an input of keys or values, and the output that is its next elements
        problems = [f"there is no {kind} '{name}'" for kind, name, specs in (
            ("input", self.TOKENS, program.inputs), ("output", self.SCORES, program.outputs),
        ) if name not in {spec.name for spec in specs}]  # fmt: skip
        for name in self._inputs:
            if name == self.TOKENS or name in self.BESIDE:
                continue
            match = KEPT.fullmatch(name)
            if match is None:
                problems.append(f"nobody knows what input '{name}' wants")
            elif match["which"] not in given:
                problems.append(f"no output gives the next elements of input '{name}'")
            else:
                self._renewed[name] = given[match["which"]]
        if not self._renewed and not problems:
            problems.append("it takes no keys and values: cache=False goes over the whole text for each token")
        if problems:
            raise ModelError("this program is not one that writes token by token", problems)
        self._choose = jit(chosen, static="form")

    def read(self, prompt: np.ndarray, room: int, draws: Draws) -> tuple[np.ndarray, Any]:
        kept = {}
        for name in self._renewed:
            spec = self._inputs[name]
            if spec.dims and isinstance(spec.dims[0], int) and spec.dims[0] != len(prompt):
                raise InputError("this program is of another batch", [f"{spec.type_text}, not {len(prompt)} prompts"])
            sizes = (len(prompt), *(dim if isinstance(dim, int) else 0 for dim in spec.dims[1:]))
            kept[name] = np.zeros(sizes, numpy_dtype(spec.dtype))
        return self._next(prompt, 0, kept, 0, draws)

    def write(self, tokens: np.ndarray, kept: Any, n: int, draws: Draws) -> tuple[np.ndarray, Any]:
        past, values = kept
        return self._next(tokens[:, None], past, values, n, draws)

    def _next(self, new: np.ndarray, past: int, kept: Any, n: int, draws: Draws) -> tuple[np.ndarray, Any]:
        batch, count = new.shape
        feeds = {name: make(batch, past, count) for name, make in self.BESIDE.items() if name in self._inputs}
        ids = new.astype(numpy_dtype(self._inputs[self.TOKENS].dtype))
        found = self._program.run({self.TOKENS: ids, **feeds, **kept})
        token = self._choose(found[self.SCORES], draws.sampling.form, *draws.numbers(n))
        return np.asarray(token), (past + count, {name: found[output] for name, output in self._renewed.items()})


def decoder_of(model: Any, cache: bool, context: int | None) -> Decoder:
    """How a model writes. Raises TypeMismatch for what cannot, and ModelError."""
    if not cache:
        return Whole(model, context)
    if context is not None:
        raise TypeMismatch("context is for models without a cache", ["say cache=False, too"])
    if isinstance(model, Executable):
        return Imported(model)
    if isinstance(model, Module) and hasattr(model, "start"):
        return Cached(model)
    name = type(model).__name__
    hint = "a module wants `start(batch, capacity)` and `forward(tokens, cache=...)`, see `nn.TransformerEncoder.start`"
    raise TypeMismatch(f"{name} has no cache", [hint, "cache=False goes over the whole text for each token"])
