"""jax.nn beyond functions of elements, losses of optax, and images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tests.jax.case import Case
from tests.jax.draw import Draw
from tests.jax.families import entered


def _attention(draw: Draw) -> Case:
    heads, groups = draw.pick((2, 2), (4, 2), (3, 1))
    length, keys = draw.integer(1, 6), draw.integer(2, 6)
    causal = draw.pick(True, False)
    scale = draw.pick(None, 0.3)
    q = draw.floats((2, length, heads, 4))
    k, v = draw.floats((2, keys, groups, 4)), draw.floats((2, keys, groups, 4))
    mask = draw.bools((2, 1, length, keys)).at[..., 0].set(True) if draw.pick(True, False) else None
    function = lambda q, k, v: jax.nn.dot_product_attention(q, k, v, mask=mask, is_causal=causal, scale=scale)  # noqa: E731
    return Case("nn.dot_product_attention", function, (q, k, v), True, 4)


def _one_hot(draw: Draw) -> Case:
    axis, dtype = draw.pick(-1, 0), draw.pick("float32", "int32", "bfloat16")
    return Case(
        "nn.one_hot", lambda i: jax.nn.one_hot(i, 5, axis=axis, dtype=dtype), (draw.ints(draw.shape(), "int32", -1, 6),)
    )


def _resize(draw: Draw) -> Case:
    method, antialias = draw.pick("nearest", "linear", "cubic", "lanczos3"), draw.pick(True, False)
    shape = draw.pick((2, 7, 5, 3), (2, 3, 4, 3))
    return Case(
        "image.resize", lambda x: jax.image.resize(x, shape, method, antialias), (draw.floats((2, 4, 6, 3)),), True, 4
    )


def _losses(draw: Draw) -> Case:
    import optax

    functions: dict[str, Callable[..., Any]] = {
        "softmax_cross_entropy": lambda x, y: optax.softmax_cross_entropy(x, jax.nn.softmax(y)),
        "with_integer_labels": lambda x, y: optax.softmax_cross_entropy_with_integer_labels(x, jnp.argmax(y, -1)),
        "sigmoid_binary_cross_entropy": lambda x, y: optax.sigmoid_binary_cross_entropy(x, jax.nn.sigmoid(y)),
        "l2_loss": optax.l2_loss,
        "huber_loss": optax.huber_loss,
        "log_cosh": optax.log_cosh,
        "cosine_similarity": optax.cosine_similarity,
        "hinge_loss": lambda x, y: optax.hinge_loss(x, jnp.sign(y)),
        "kl_divergence": lambda x, y: optax.kl_divergence(jax.nn.log_softmax(x), jax.nn.softmax(y)),
        "squared_error": optax.squared_error,
        "global_norm": lambda x, y: optax.global_norm({"a": x, "b": y}),
    }
    name = draw.pick(*functions)
    return Case(f"optax.{name}", functions[name], (draw.floats((4, 5)), draw.floats((4, 5))), True, 4)


def _optimizers(draw: Draw) -> Case:
    import optax

    makers: dict[str, Callable[[], Any]] = {
        "sgd": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
        "adam": lambda: optax.adam(0.1),
        "adamw": lambda: optax.adamw(0.1),
        "rmsprop": lambda: optax.rmsprop(0.1),
        "lion": lambda: optax.lion(0.1),
        "adagrad": lambda: optax.adagrad(0.1),
        "lamb": lambda: optax.lamb(0.1),
        "adafactor": lambda: optax.adafactor(0.1),
        "clipped": lambda: optax.chain(
            optax.clip_by_global_norm(0.5), optax.adam(optax.cosine_decay_schedule(0.1, 10))
        ),
        "adabelief": lambda: optax.adabelief(0.1),
        "radam": lambda: optax.radam(0.1),
        "novograd": lambda: optax.novograd(0.1),
    }
    name = draw.pick(*makers)
    optimizer = makers[name]()

    def step(w: Any, x: Any) -> Any:
        state = optimizer.init(w)
        for _ in range(2):
            gradient = jax.grad(lambda v: jnp.sum((x @ v) ** 2))(w)
            updates, state = optimizer.update(gradient, state, w)
            w = optax.apply_updates(w, updates)
        return w

    return Case(f"optax.{name}", step, (draw.floats((4, 3)), draw.floats((5, 4))), False, 16)


def _images(draw: Draw) -> Case:
    function = draw.pick(
        lambda x: jax.scipy.ndimage.map_coordinates(
            x[0, :, :, 0], [jnp.array([0.5, 1.2, 9.0]), jnp.array([1.5, 0.2, 1.0])], order=1
        ),
        lambda x: jax.image.scale_and_translate(
            x, (2, 5, 5, 3), (1, 2), jnp.array([1.2, 0.8]), jnp.array([0.1, 0.3]), "linear"
        ),
        lambda x: jax.lax.conv_general_dilated_patches(jnp.moveaxis(x, -1, 1), (2, 2), (1, 2), "SAME"),
        lambda x: jax.lax.conv_general_dilated_local(
            jnp.moveaxis(x, -1, 1), jnp.ones((2, 12, 3, 5)), (1, 1), "VALID", (2, 2)
        ),
        lambda x: jax.scipy.signal.convolve(x[0, :, :, 0], x[1, :2, :2, 1], mode="same"),
    )
    return Case("image.functions", function, (draw.floats((2, 4, 6, 3)),), True, 8)


for _name, _builder, _count in (
    ("nn.dot_product_attention", _attention, 10),
    ("nn.one_hot", _one_hot, 4),
    ("image.resize", _resize, 8),
    ("optax.losses", _losses, 11),
    ("optax.optimizers", _optimizers, 12),
    ("image.functions", _images, 5),
):
    for _number in range(_count):
        entered(f"{_name}_{_number}", _builder)
