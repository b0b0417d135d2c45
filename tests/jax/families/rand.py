"""jax.random: bits are the same as JAX's, and numbers made of them agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tests.jax.case import Case
from tests.jax.draw import Draw
from tests.jax.families import entered

R = jax.random
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "bits32": lambda k: R.bits(k, (3, 5), "uint32"),
    "bits16": lambda k: R.bits(k, (7,), "uint16"),
    "bits8": lambda k: R.bits(k, (3, 5), "uint8"),
    "uniform": lambda k: R.uniform(k, (5, 3)),
    "uniform_half": lambda k: R.uniform(k, (5,), "float16"),
    "uniform_bf16": lambda k: R.uniform(k, (5,), "bfloat16", -1, 2),
    "normal": lambda k: R.normal(k, (2, 7)),
    "normal_scalar": lambda k: R.normal(k),
    "split": lambda k: R.split(k, 3),
    "split_normal": lambda k: [R.normal(s, (2,)) for s in R.split(k)],
    "fold_in": lambda k: R.normal(R.fold_in(k, 17), (3,)),
    "fold_in_data": lambda k: jax.vmap(lambda i: R.uniform(R.fold_in(k, i)))(jnp.arange(4)),
    "randint": lambda k: R.randint(k, (9,), -5, 11),
    "randint_uint8": lambda k: R.randint(k, (9,), 0, 200, "uint8"),
    "bernoulli": lambda k: R.bernoulli(k, 0.3, (11,)),
    "permutation": lambda k: R.permutation(k, 10),
    "permutation_rows": lambda k: R.permutation(k, jnp.arange(12).reshape(4, 3)),
    "choice": lambda k: R.choice(k, 7, (4,)),
    "choice_without": lambda k: R.choice(k, 7, (4,), replace=False),
    "choice_weighted": lambda k: R.choice(k, 4, (6,), p=jnp.array([0.1, 0.2, 0.3, 0.4])),
    "categorical": lambda k: R.categorical(k, jnp.log(jnp.array([[0.1, 0.9], [0.6, 0.4]]))),
    "gumbel": lambda k: R.gumbel(k, (5,)),
    "exponential": lambda k: R.exponential(k, (5,)),
    "laplace": lambda k: R.laplace(k, (5,)),
    "logistic": lambda k: R.logistic(k, (5,)),
    "cauchy": lambda k: R.cauchy(k, (5,)),
    "truncated_normal": lambda k: R.truncated_normal(k, -1.0, 2.0, (6,)),
    "gamma": lambda k: R.gamma(k, 2.5, (4,)),
    "beta": lambda k: R.beta(k, 2.0, 3.0, (3,)),
    "dirichlet": lambda k: R.dirichlet(k, jnp.array([1.0, 2.0, 3.0])),
    "poisson": lambda k: R.poisson(k, 3.0, (5,)),
    "student_t": lambda k: R.t(k, 4.0, (3,)),
    "chisquare": lambda k: R.chisquare(k, 3.0, shape=(3,)),
    "rademacher": lambda k: R.rademacher(k, (9,)),
    "maxwell": lambda k: R.maxwell(k, (4,)),
    "weibull": lambda k: R.weibull_min(k, 1.0, 2.0, (4,)),
    "pareto": lambda k: R.pareto(k, 3.0, (4,)),
    "rayleigh": lambda k: R.rayleigh(k, 1.5, (4,)),
    "orthogonal": lambda k: jnp.abs(R.orthogonal(k, 3)) > -1,
    "ball": lambda k: R.ball(k, 3, shape=(2,)),
    "multivariate_normal": lambda k: R.multivariate_normal(k, jnp.zeros(2), jnp.array([[2.0, 0.5], [0.5, 1.0]])),
    "geometric": lambda k: R.geometric(k, 0.3, (5,)),
    "triangular": lambda k: R.triangular(k, 0.0, 0.5, 2.0, (4,)),
    "wald": lambda k: R.wald(k, 1.5, (4,)),
    "generalized_normal": lambda k: R.generalized_normal(k, 2.0, (3,)),
    "double_sided_maxwell": lambda k: R.double_sided_maxwell(k, 0.5, 2.0, (3,)),
    "lognormal": lambda k: R.lognormal(k, 0.5, (3,)),
    "binomial": lambda k: R.binomial(k, 10, 0.3, (4,)),
    "key_data": lambda k: R.key_data(k) if jnp.issubdtype(k.dtype, jax.dtypes.prng_key) else k,
    "keys_in_scan": lambda k: jax.lax.scan(lambda c, s: (c + R.uniform(s), None), 0.0, R.split(k, 4))[0],
    "key_carried": lambda k: jax.lax.fori_loop(0, 3, lambda i, c: R.split(c)[0], k),
    "keys_chosen": lambda k: R.normal(R.split(k, 3)[1]),
    "keys_stacked": lambda k: jax.vmap(R.normal)(jnp.stack([k, R.fold_in(k, 1)])),
    "keys_where": lambda k: R.uniform(jnp.where(jnp.array(True), k, R.fold_in(k, 2))) if k.ndim == 0 else k,
    "dropout": lambda k: jnp.where(R.bernoulli(k, 0.5, (4, 4)), jnp.ones((4, 4)) / 0.5, 0),
    "initializers": lambda k: (
        jax.nn.initializers.lecun_normal()(k, (4, 3)),
        jax.nn.initializers.glorot_uniform()(k, (4, 3)),
    ),
    "seeded": lambda k: R.normal(R.key(7), (3,)) + 0 * R.uniform(k),
    "clone": lambda k: R.uniform(R.clone(k)) if jnp.issubdtype(k.dtype, jax.dtypes.prng_key) else k,
}


def _builder(name: str, function: Callable[[Any], Any]) -> Callable[[Draw], Case]:
    def build(draw: Draw) -> Case:
        seed = draw.integer(0, 2**31 - 1)
        key = R.key(seed) if draw.pick(True, False) else R.PRNGKey(seed)
        return Case(f"random.{name}", function, (key,), False, 4)

    return build


for _name, _function in FUNCTIONS.items():
    entered(f"random.{_name}", _builder(_name, _function))


def _philox(draw: Draw) -> Case:
    impl = draw.pick("rbg", "unsafe_rbg")
    key = R.key(draw.integer(0, 999), impl=impl)
    return Case("random.rbg", lambda k: R.uniform(R.split(k)[0], (3, 4)), (key,))


entered("random.rbg", _philox)
