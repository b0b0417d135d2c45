"""`burn.generate`: what each kind of model writes, against going over the whole text for every token."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import burn
from burn import generation, nn
from burn.errors import BurnError, IndexRunError, InputError, ModelError, TypeMismatch
from burn.generation import Writer
from burn.generation.decoders import Draws, decoder_of
from burn.generation.sampling import Sampling, choose
from tests.models import Unavailable, model_path

WORDS = 23


class Gpt(nn.Module):
    """With 300 learned positions."""

    def __init__(self, width: int = 12, heads: int = 3, layers: int = 1, rotary: bool = False) -> None:
        self.embed, self.position = nn.Embedding(WORDS, width), None if rotary else nn.LearnedPositions(300, width)
        options = {"dropout": 0.0, "norm_first": True, "rotary": rotary, "kv_heads": 1 if rotary else None}
        self.body = nn.TransformerEncoder(width, heads, 2 * width, layers, **options)  # type: ignore[arg-type]
        self.head = nn.Linear(width, WORDS)

    def start(self, batch: Any, capacity: Any = None) -> Any:
        return self.body.start(batch, capacity)

    def forward(self, tokens: burn.Tensor, cache: Any = None) -> Any:
        x = self.embed(tokens)
        if self.position is not None:
            x = self.position(x, 0 if cache is None else cache[0].own.past)
        if cache is None:
            return self.head(self.body(x, causal=True))
        y, cache = self.body(x, causal=True, cache=cache)
        return self.head(y), cache


def made(**options: Any) -> Gpt:
    burn.manual_seed(3)
    model = Gpt(**options).eval()
    return model.map(lambda path, p: p * 3.0 if p.ndim > 1 else None)  # far from sure of one token


@pytest.fixture(scope="module")
def model() -> Gpt:
    return made()


def draw(batch: int, length: int, words: int = WORDS) -> np.ndarray:
    return np.random.default_rng(length).integers(0, words, (batch, length))


def greedy(scores: Callable[[np.ndarray], np.ndarray], prompt: np.ndarray, count: int) -> np.ndarray:
    for _ in range(count):
        prompt = np.concatenate([prompt, scores(prompt)[:, -1:].argmax(-1)], 1)
    return prompt


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (3, 7)])
def test_the_likeliest_tokens(model: Gpt, batch: int, length: int) -> None:
    prompt = draw(batch, length)
    scores = burn.jit(model, dynamic={"tokens": {0: "b", 1: "n"}})
    want = greedy(lambda tokens: np.asarray(scores(tokens)), prompt, 12)
    np.testing.assert_array_equal(burn.generate(model, prompt, 12), want)
    np.testing.assert_array_equal(burn.generate(model, prompt, 12, cache=False), want)
    np.testing.assert_array_equal(burn.generate(model, prompt, 0), prompt)
    np.testing.assert_array_equal(burn.generate(model, map(list, prompt), 12), want)  # which is gone through once


def test_rotated_positions_and_shared_heads() -> None:
    model, prompt = made(rotary=True), draw(2, 5)
    want = burn.generate(model, prompt, 9, temperature=0.9, seed=4, cache=False)
    np.testing.assert_array_equal(burn.generate(model, prompt, 9, temperature=0.9, seed=4), want)


@pytest.mark.parametrize("how", [{}, {"top_k": 5, "top_p": 0.9}])
def test_drawn_tokens_are_those_of_the_seed(model: Gpt, how: dict[str, Any]) -> None:
    prompt = draw(2, 3)
    first, again, other = (
        burn.generate(model, prompt, 20, temperature=1.3, seed=seed, cache=cache, **how)
        for seed, cache in ((1, True), (1, False), (2, True))
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_without_a_seed_the_process_decides(model: Gpt) -> None:
    texts = []
    for seed in (5, 5, 6):
        burn.manual_seed(seed)
        texts += [burn.generate(model, [1, 2], 24, temperature=2.0) for _ in range(2)]
    np.testing.assert_array_equal(texts[0], texts[2])
    np.testing.assert_array_equal(texts[1], texts[3])
    assert (texts[0] != texts[1]).any() and (texts[0] != texts[4]).any()


def test_tokens_come_as_often_as_their_probability_says() -> None:
    """Against the probabilities in float64, after top_k and top_p."""
    scores = np.array([[2.0, 1.0, 0.5, 0.0, -1.0, 1.0, -30.0]], np.float32)
    draws = 4000
    many = burn.constant(np.repeat(scores, draws, 0))
    cases = [
        ((0.7, None, None), np.ones(7, bool)),
        ((1.0, 2, None), scores[0] >= 1.0),  # the third is as likely as the second
        ((1.0, None, 0.85), scores[0] >= 0.5),
        ((1.0, None, 1e-6), scores[0] >= 2.0),
        ((2.0, 99, 1.0), np.ones(7, bool)),
    ]
    for number, ((temperature, top_k, top_p), left) in enumerate(cases):
        how = Sampling(temperature, top_k, top_p)
        warmth, share = (burn.constant(np.float32(v)) for v in (temperature, top_p or 1))
        found = choose(many, how.form, warmth, share, burn.random.key(number)).numpy()
        weights = np.where(left, np.exp(scores[0].astype(np.float64) / temperature), 0)
        want = weights / weights.sum()
        got = np.bincount(found, minlength=7) / draws
        assert (got[~left] == 0).all()
        assert np.abs(got - want).max() < 4 * np.sqrt(0.25 / draws), (how, got, want)


def test_texts_end_where_they_say(model: Gpt) -> None:
    prompt = draw(3, 4)
    free = burn.generate(model, prompt, 30, temperature=2.0, seed=8)[:, 4:]
    stop = int(free[0, 5])
    ends = [int(np.argmax(row == stop)) if stop in row else 30 for row in free]
    got = burn.generate(model, prompt, 30, temperature=2.0, seed=8, stop=stop, pad=1)[:, 4:]
    assert got.shape[1] == min(30, max(ends) + 1)
    for row, want, end in zip(got, free, ends, strict=True):
        np.testing.assert_array_equal(row[: end + 1], want[: min(end + 1, got.shape[1])])
        assert (row[end + 1 :] == 1).all()
    one = burn.generate(model, prompt[0], 30, temperature=0.0, stop={*range(WORDS)})
    assert one.shape == (5,)


def test_tokens_come_one_by_one(model: Gpt) -> None:
    prompt = draw(2, 3)
    stream = generation.stream(model, prompt, 8)
    assert isinstance(stream, Iterator)
    np.testing.assert_array_equal(np.stack(list(stream), 1), burn.generate(model, prompt, 8)[:, 3:])


def test_keys_and_values_stay_where_they_are(model: Gpt) -> None:
    decoder, draws = decoder_of(model, True, None), Draws(Sampling(), np.zeros(2, np.uint32))
    tokens, kept = decoder.read(draw(2, 3), 20, draws)

    def addresses() -> list[int]:
        return [array.ctypes.data for layer in kept for array in (layer.own.keys, layer.own.values)]

    tokens, kept = decoder.write(tokens, kept, 1, draws)
    before = addresses()
    for n in range(2, 9):
        tokens, kept = decoder.write(tokens, kept, n, draws)
    assert addresses() == before and len(set(before)) == 2


def test_a_second_text_compiles_nothing(model: Gpt) -> None:
    writer = Writer(model)
    list(writer.stream(draw(1, 4), 5, Sampling(0.8, top_p=0.9), seed=1))
    before = burn.compile_count()
    list(writer.stream(draw(1, 9), 50, Sampling(1.4, top_p=0.5), seed=2))
    assert burn.compile_count() == before


def test_a_context_is_what_the_model_sees(model: Gpt) -> None:
    prompt = draw(1, 9)
    want = burn.generate(model, prompt[:, -4:], 1, cache=False)[:, -1]
    np.testing.assert_array_equal(burn.generate(model, prompt, 1, cache=False, context=4)[:, -1], want)


@pytest.mark.parametrize("exporter", ["dynamo"])
def test_an_imported_decoder(exporter: Any) -> None:
    try:
        program = burn.load(model_path("gpt2_tiny", exporter))
    except Unavailable as reason:
        pytest.skip(str(reason))
    prompt = draw(3, 6, 1000)

    def scores(tokens: np.ndarray) -> np.ndarray:
        kept = {spec.name: np.zeros((3, 4, 0, 16), np.float32) for spec in program.inputs if "past" in spec.name}
        return program.run({"input_ids": tokens, "attention_mask": np.ones_like(tokens), **kept})["logits"]

    np.testing.assert_array_equal(burn.generate(program, prompt, 11), greedy(scores, prompt, 11))
    again = [burn.generate(program, prompt, 11, temperature=1.0, top_k=50, seed=s) for s in (1, 1, 2)]
    np.testing.assert_array_equal(again[0], again[1])
    assert (again[0] != again[2]).any()


def test_a_program_that_does_not_write(model: Gpt) -> None:
    double = burn.compile(lambda x, past_a: (x * 2, past_a), ("float32[n, 3]", "float32[n, 3]"))
    with pytest.raises(ModelError) as found:
        burn.generate(double, [1])
    text = str(found.value)
    assert "no input 'input_ids'" in text and "no output 'logits'" in text and "'x'" in text and "'past_a'" in text


WRONG: dict[str, tuple[Callable[[Gpt], Any], type[BurnError], str]] = {
    "no tokens": (lambda m: burn.generate(m, []), InputError, "at least one"),
    "no tokens in a batch": (lambda m: burn.generate(m, np.zeros((2, 0), np.int64)), InputError, r"int64\[2, 0\]"),
    "floats": (lambda m: burn.generate(m, np.zeros((2, 3))), InputError, r"float64\[2, 3\]"),
    "several lengths": (lambda m: burn.generate(m, [[1], [1, 2]]), InputError, "1, 2"),
    "fewer than none": (lambda m: burn.generate(m, [1], -1), InputError, "-1"),
    "odd numbers": (
        lambda m: burn.generate(m, [1], temperature=-1, top_k=0, top_p=1.5),
        TypeMismatch,
        "(?s)temperature.*top_k.*top_p",
    ),
    "nothing is drawn": (lambda m: burn.generate(m, [1], top_k=3), TypeMismatch, "say a temperature"),
    "no cache": (lambda m: burn.generate(m.head, [1]), TypeMismatch, "cache=False"),
    "a context and a cache": (lambda m: burn.generate(m, [1], context=3), TypeMismatch, "cache=False"),
    "a seed below 0": (lambda m: burn.generate(m, [1], temperature=1.0, seed=-1), BurnError, "seed"),
    "an unknown token": (lambda m: burn.generate(m, [WORDS], 2), IndexRunError, str(WORDS)),
    "too long a text": (lambda m: burn.generate(m, draw(1, 297), 9), IndexRunError, "300"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(model: Gpt, name: str) -> None:
    call, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        call(model)


def test_models_are_let_go() -> None:
    """Two writers are kept for models used last; what was used before is not."""
    import weakref

    gone = made(layers=1)
    burn.generate(gone, [1], 2)
    seen = weakref.ref(gone)
    del gone
    for _ in range(2):
        burn.generate(made(layers=1), [1], 2)
    gc.collect()
    assert seen() is None
