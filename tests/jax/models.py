"""Models of Flax, Equinox and Haiku, small: each as a function of its parameters and inputs. Enter at `MODELS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Model:
    """function(parameters, *inputs); specs: types of the inputs with named sizes, for burn.compile."""

    function: Callable[..., Any]
    parameters: Any
    inputs: tuple[Any, ...]
    specs: tuple[str, ...]
    batch_axis: int = 0
    """The axis of the batch in the inputs; the step of burn.train takes it first."""


def _linen(module: Any, inputs: tuple[Any, ...], specs: tuple[str, ...]) -> Model:
    return Model(module.apply, jax.jit(module.init)(jax.random.key(0), *inputs), inputs, specs)


def transformer() -> Model:
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            y = nn.LayerNorm()(x)
            mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
            x = x + nn.MultiHeadDotProductAttention(num_heads=2)(y, y, mask=mask)
            y = nn.LayerNorm()(x)
            return x + nn.Dense(16)(nn.gelu(nn.Dense(32)(y)))

    class Transformer(nn.Module):
        @nn.compact
        def __call__(self, tokens: Any) -> Any:
            x = nn.Embed(11, 16)(tokens)
            x = x + self.param("position", nn.initializers.normal(0.02), (7, 16))[: tokens.shape[1]]
            for _ in range(2):
                x = Block()(x)
            return nn.Dense(11)(nn.LayerNorm()(x))

    return _linen(Transformer(), (jnp.arange(14).reshape(2, 7) % 11,), ("int32[batch, 7]",))


def cnn() -> Model:
    from flax import linen as nn

    class CNN(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(6, (3, 3))(x)))
            x = nn.max_pool(x, (2, 2), (2, 2))
            x = nn.relu(nn.Conv(8, (3, 3), strides=2, padding="SAME", feature_group_count=2)(x))
            x = nn.avg_pool(x, (2, 2), (1, 1))
            return nn.Dense(5)(x.reshape(x.shape[0], -1))

    x = jax.random.normal(jax.random.key(1), (2, 12, 12, 3))
    return _linen(CNN(), (x,), ("float32[batch, 12, 12, 3]",))


def lstm() -> Model:
    from flax import linen as nn

    class Tagger(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(3)(nn.RNN(nn.OptimizedLSTMCell(8))(x))

    x = jax.random.normal(jax.random.key(1), (2, 5, 4))
    return _linen(Tagger(), (x,), ("float32[batch, 5, 4]",))


def unet() -> Model:
    """A denoising U-Net with a time embedding, group norms, attention and skip connections."""
    from flax import linen as nn

    class Residual(nn.Module):
        features: int

        @nn.compact
        def __call__(self, x: Any, t: Any) -> Any:
            y = nn.Conv(self.features, (3, 3))(nn.silu(nn.GroupNorm(4)(x)))
            y = y + nn.Dense(self.features)(nn.silu(t))[:, None, None, :]
            y = nn.Conv(self.features, (3, 3))(nn.silu(nn.GroupNorm(4)(y)))
            return y + (x if x.shape[-1] == self.features else nn.Conv(self.features, (1, 1))(x))

    class UNet(nn.Module):
        @nn.compact
        def __call__(self, x: Any, time: Any) -> Any:
            angles = time[:, None] * jnp.exp(-jnp.arange(4) * 0.5)
            t = nn.Dense(16)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))
            first = Residual(8)(nn.Conv(8, (3, 3))(x), t)
            down = Residual(16)(nn.Conv(8, (3, 3), strides=2)(first), t)
            b, h, w, c = down.shape
            flat = nn.LayerNorm()(down).reshape(b, h * w, c)
            down = down + nn.SelfAttention(num_heads=2)(flat).reshape(b, h, w, c)
            up = nn.ConvTranspose(8, (2, 2), strides=(2, 2))(down)
            return nn.Conv(x.shape[-1], (3, 3))(Residual(8)(jnp.concatenate([up, first], -1), t))

    x = jax.random.normal(jax.random.key(1), (2, 8, 8, 3))
    return _linen(UNet(), (x, jnp.array([3.0, 7.0])), ("float32[batch, 8, 8, 3]", "float32[batch]"))


def nnx_mlp() -> Model:
    from flax import nnx

    class MLP(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.first, self.norm = nnx.Linear(4, 8, rngs=rngs), nnx.LayerNorm(8, rngs=rngs)
            self.last = nnx.Linear(8, 3, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.last(nnx.gelu(self.norm(self.first(x))))

    graph, state = nnx.split(MLP(nnx.Rngs(0)))
    x = jax.random.normal(jax.random.key(1), (3, 4))
    return Model(lambda s, x: nnx.merge(graph, s)(x), state, (x,), ("float32[batch, 4]",))


def equinox_mlp() -> Model:
    import equinox as eqx

    mlp = eqx.nn.MLP(4, 3, 8, 2, key=jax.random.key(0))
    arrays, static = eqx.partition(mlp, eqx.is_array)
    x = jax.random.normal(jax.random.key(1), (3, 4))
    return Model(lambda p, x: jax.vmap(eqx.combine(p, static))(x), arrays, (x,), ("float32[batch, 4]",))


def equinox_vit() -> Model:
    import equinox as eqx

    class ViT(eqx.Module):
        patch: Any
        position: Any
        norm: Any
        attention: Any
        feed: Any
        head: Any

        def __init__(self, key: Any) -> None:
            keys = jax.random.split(key, 5)
            self.patch = eqx.nn.Conv2d(3, 8, 4, 4, key=keys[0])
            self.position = jax.random.normal(keys[1], (5, 8)) * 0.02
            self.norm = eqx.nn.LayerNorm(8)
            self.attention = eqx.nn.MultiheadAttention(2, 8, key=keys[2])
            self.feed = eqx.nn.MLP(8, 8, 16, 1, jax.nn.gelu, key=keys[3])
            self.head = eqx.nn.Linear(8, 4, key=keys[4])

        def __call__(self, image: Any) -> Any:
            x = self.patch(image)
            x = x.reshape(8, -1).T
            x = jnp.concatenate([jnp.zeros((1, 8)), x]) + self.position
            y = jax.vmap(self.norm)(x)
            x = x + self.attention(y, y, y)
            x = x + jax.vmap(self.feed)(jax.vmap(self.norm)(x))
            return self.head(x[0])

    arrays, static = eqx.partition(ViT(jax.random.key(0)), eqx.is_array)
    x = jax.random.normal(jax.random.key(1), (2, 3, 8, 8))
    return Model(lambda p, x: jax.vmap(eqx.combine(p, static))(x), arrays, (x,), ("float32[batch, 3, 8, 8]",))


def haiku_lstm() -> Model:
    import haiku as hk

    def forward(x: Any) -> Any:
        core = hk.LSTM(6)
        outputs, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        return hk.BatchApply(hk.Linear(3))(outputs)

    transformed = hk.without_apply_rng(hk.transform(forward))
    x = jax.random.normal(jax.random.key(1), (5, 2, 4))
    return Model(transformed.apply, transformed.init(jax.random.key(0), x), (x,), ("float32[5, batch, 4]",), 1)


MODELS: dict[str, Callable[[], Model]] = {
    "transformer": transformer,
    "cnn": cnn,
    "lstm": lstm,
    "unet": unet,
    "nnx_mlp": nnx_mlp,
    "equinox_mlp": equinox_mlp,
    "equinox_vit": equinox_vit,
    "haiku_lstm": haiku_lstm,
}
