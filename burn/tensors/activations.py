"""Activation functions. Each is one op of the dialect, whose docstring has the formula and the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burn.dialect import ops as build
from burn.tensors.base import made
from burn.tensors.logic import Logic
from burn.tensors.promotion import Operand, lift, rounded, together

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


class Activations(Logic):
    """Activation functions, of floats; integers become float32."""

    __slots__ = ()

    def _activation(self, name: str, **numbers: float) -> Tensor:
        """An op with attributes that are numbers of the tensor's own type (16-bit floats: of float32)."""
        x = self._floating()
        working = "float64" if x.dtype == "float64" else "float32"
        return made(getattr(build, name)(x.value, **{k: rounded(float(v), working) for k, v in numbers.items()}))

    def relu(self) -> Tensor:
        """max(x, 0)."""
        return made(build.relu(self.value))

    def relu6(self) -> Tensor:
        """min(max(x, 0), 6). Integers stay integers."""
        bounds = (lift(n, self.dtype).value for n in (0, 6))
        return made(build.clip(self.value, *bounds, strict=True))

    def leaky_relu(self, alpha: float = 0.01) -> Tensor:
        """x for x >= 0, alpha * x below."""
        return self._activation("leaky_relu", alpha=alpha)

    def prelu(self, slope: Operand) -> Tensor:
        """x for x >= 0, slope * x below; slope broadcasts to x."""
        x, slopes = together(self, slope, floating=True)
        return made(build.prelu(x.value, slopes.value))

    def elu(self, alpha: float = 1.0) -> Tensor:
        """x for x > 0, alpha * (exp(x) - 1) below."""
        return self._activation("elu", alpha=alpha)

    def celu(self, alpha: float = 1.0) -> Tensor:
        """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
        return self._activation("celu", alpha=alpha)

    def selu(self) -> Tensor:
        """The self-normalising ELU (arXiv:1706.02515)."""
        return self._activation("selu", alpha=1.6732632423543772, gamma=1.0507009873554805)

    def gelu(self, approximate: str = "none") -> Tensor:
        """x times the normal distribution's integral up to x (arXiv:1606.08415); approximate: "none" or "tanh"."""
        return made(build.gelu(self._floating().value, approximate=approximate))

    def silu(self) -> Tensor:
        """x * sigmoid(x), also called swish."""
        return self._activation("silu")

    def mish(self) -> Tensor:
        """x * tanh(softplus(x)) (arXiv:1908.08681)."""
        return self._activation("mish")

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
        return self._fraction("sigmoid")

    def log_sigmoid(self) -> Tensor:
        """log(sigmoid(x)), without overflow."""
        return -((-self._floating()).softplus())

    def hard_sigmoid(self, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
        """min(max(alpha * x + beta, 0), 1)."""
        return self._activation("hard_sigmoid", alpha=alpha, beta=beta)

    def hard_swish(self) -> Tensor:
        """x * hard_sigmoid(x)."""
        return self._activation("hard_swish")

    def softplus(self, beta: float = 1.0) -> Tensor:
        """log(1 + exp(beta * x)) / beta, without overflow."""
        x: Any = self._floating()
        return x._activation("softplus") if beta == 1.0 else (x * beta)._activation("softplus") / beta

    def softsign(self) -> Tensor:
        """x / (1 + |x|)."""
        return self._activation("softsign")

    def softmax(self, axis: int = -1) -> Tensor:
        """exp(x) / sum of exp(x) along the axis."""
        return made(build.softmax(self._floating().value, axis=self._axis(axis)))

    def log_softmax(self, axis: int = -1) -> Tensor:
        """log(softmax(x)) along the axis."""
        return made(build.log_softmax(self._floating().value, axis=self._axis(axis)))
