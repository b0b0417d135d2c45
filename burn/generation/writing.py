"""The loop: a prompt is read, then tokens come one by one, until all texts of a batch have ended or there are enough."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

import burn.random
from burn.errors import InputError, RunError
from burn.generation.decoders import Draws, decoder_of
from burn.generation.sampling import NOTHING, Sampling


class Writer:
    """A model that writes, with the programs that were compiled for it, which further texts use again."""

    def __init__(self, model: Any, cache: bool = True, context: int | None = None) -> None:
        """As `generate`."""
        self._decoder = decoder_of(model, cache, context)

    def stream(
        self,
        prompt: Any,
        max_new_tokens: int,
        sampling: Sampling,
        stop: int | Collection[int] = (),
        pad: int | None = None,
        seed: int | None = None,
    ) -> Iterator[np.ndarray]:
        """The tokens of each step, int64[b]. Raises InputError before the first."""
        text, ends = (
            _prompt(prompt),
            np.array([stop] if isinstance(stop, (int, np.integer)) else sorted(stop), np.int64),
        )
        if max_new_tokens < 0:
            raise InputError("there are no fewer tokens than none", [f"max_new_tokens is {max_new_tokens}"])
        filler = pad if pad is not None else int(ends[0]) if len(ends) else 0
        return self._tokens(text, max_new_tokens, Draws(sampling, _key(seed)), ends, filler)

    def _tokens(
        self, text: np.ndarray, count: int, draws: Draws, ends: np.ndarray, filler: int
    ) -> Iterator[np.ndarray]:
        ended = np.zeros(len(text), bool)
        tokens, kept = None, None
        for n in range(count):
            if tokens is None:
                tokens, kept = self._decoder.read(text, count, draws)
            else:
                tokens, kept = self._decoder.write(tokens, kept, n, draws)
            tokens = np.where(ended, filler, tokens)
            if (lost := np.flatnonzero((tokens == NOTHING) & ~ended)).size:
                reason = "its scores are NaN, or none is above -inf: look for NaN in the weights"
                raise RunError(f"the model gives no token {n + 1} for text {int(lost[0]) + 1}", [reason])
            yield tokens
            ended |= np.isin(tokens, ends)
            if ended.all():
                return


def _prompt(prompt: Any) -> np.ndarray:
    """int64[b, s]. Raises InputError."""
    rows = prompt if hasattr(prompt, "shape") else list(prompt)
    if isinstance(rows, list) and rows and not isinstance(rows[0], (int, np.integer)):
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise InputError("the prompts of a batch have one length", [f"these have {', '.join(map(str, lengths))}"])
    text = np.asarray(rows)
    text = text[None] if text.ndim == 1 else text
    if text.ndim != 2 or not text.shape[1] or text.dtype.kind not in "iu":
        what = f"{text.dtype}[{', '.join(map(str, text.shape))}]"
        raise InputError("a prompt is a row of tokens, at least one, or a batch of rows", [f"not {what}"])
    if (text < 0).any():
        raise InputError("tokens count from 0", [f"the prompt has {int(text.min())}"])
    return text.astype(np.int64)


def _key(seed: int | None) -> np.ndarray:
    """uint32[2] of a seed, or the next one of the process's generator."""
    return (burn.random.next_key() if seed is None else burn.random.key(seed)).numpy()


@lru_cache(maxsize=2)
def _writer(model: Any, cache: bool, context: int | None) -> Writer:
    """Those used last: a writer holds its model, and is wanted for many texts one after the other."""
    return Writer(model, cache, context)


def stream(
    model: Any,
    prompt: Any,
    max_new_tokens: int = 128,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | Collection[int] = (),
    pad: int | None = None,
    seed: int | None = None,
    cache: bool = True,
    context: int | None = None,
) -> Iterator[np.ndarray]:
    """As `generate`, but the tokens of each step as they come: int64[b]."""
    writer = _writer(model, cache, context)
    return writer.stream(prompt, max_new_tokens, Sampling(temperature, top_k, top_p), stop, pad, seed)


def generate(
    model: Any,
    prompt: Any,
    max_new_tokens: int = 128,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | Collection[int] = (),
    pad: int | None = None,
    seed: int | None = None,
    cache: bool = True,
    context: int | None = None,
) -> np.ndarray:
    """A prompt followed by a language model's tokens. Shapes: prompt integers [b, s] or [s] -> int64[b, s + n], or [s + n].

    - `model`: a module with a cache (`start(batch, capacity)`, `model(tokens, cache=cache)` -> (scores [b, s, vocabulary],
    cache)), or
      an ONNX decoder from `burn.load` with keys and values as inputs and outputs (`past_key_values...`, `present...`).
    - `cache=False`: for any module, function or program of tokens that gives scores. It recomputes the whole text for each token,
      or its last `context` tokens.
    - `temperature`: 0 takes the likeliest token; otherwise tokens are sampled, with scores divided by it.
    - `top_k`, `top_p`: see `Sampling`.
    - `stop`: tokens that end a text; then its row holds `pad` (default: the first of `stop`) until all texts have ended.
    - `seed`: equal seeds give equal tokens; default: `burn.manual_seed`'s generator.

    The first call compiles. A `Writer` keeps a model's programs as long as it exists, this function those of the two
    models used last. Raises InputError for prompts of several lengths or without tokens, TypeMismatch or ModelError for a model
    that cannot generate, and RunError for a token outside of the vocabulary."""
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "stop": stop, "pad": pad, "seed": seed}
    prompt = prompt if hasattr(prompt, "shape") else list(prompt)
    text = _prompt(prompt)
    steps = list(stream(model, text, max_new_tokens, cache=cache, context=context, **given))
    whole = np.concatenate([text, *(tokens[:, None] for tokens in steps)], 1)
    return whole if np.ndim(prompt) == 2 else whole[0]
