# Written by docs/stubs.py.

from burn.nn.activation import Above
from typing import Annotated
from typing import Any
from burn.nn.module import Layer
from typing import Literal
from burn.nn.checks import Range
from burn.tensors import Tensor

__all__ = [
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "ELU",
    "CELU",
    "SELU",
    "GELU",
    "SiLU",
    "Mish",
    "Softplus",
    "Softsign",
    "Hardswish",
    "Hardsigmoid",
    "Hardtanh",
    "Hardshrink",
    "Softshrink",
    "Tanhshrink",
    "Threshold",
    "Sigmoid",
    "LogSigmoid",
    "Tanh",
    "Softmax",
    "Softmin",
    "LogSoftmax",
    "GLU",
]

class Function(Layer):
    options: dict[str, Any]
    def forward(self, x: Tensor) -> Tensor: ...

class ReLU(Function):
    def __init__(self) -> None: ...

class ReLU6(Function):
    def __init__(self) -> None: ...

class LeakyReLU(Function):
    def __init__(self, negative_slope: float = ...) -> None: ...

class ELU(Function):
    def __init__(self, alpha: float = ...) -> None: ...

class CELU(Function):
    def __init__(self, alpha: Above = ...) -> None: ...

class SELU(Function):
    def __init__(self) -> None: ...

class GELU(Function):
    def __init__(self, approximate: Literal['none', 'tanh'] = ...) -> None: ...

class SiLU(Function):
    def __init__(self) -> None: ...

class Mish(Function):
    def __init__(self) -> None: ...

class Softplus(Function):
    def __init__(self, beta: Above = ..., threshold: float = ...) -> None: ...

class Softsign(Function):
    def __init__(self) -> None: ...

class Hardswish(Function):
    def __init__(self) -> None: ...

class Hardsigmoid(Function):
    def __init__(self, slope: float = ..., offset: float = ...) -> None: ...

class Hardtanh(Function):
    def __init__(self, min_val: float = ..., max_val: float = ...) -> None: ...

class Hardshrink(Function):
    def __init__(self, lambd: float = ...) -> None: ...

class Softshrink(Function):
    def __init__(self, lambd: Annotated[float, Range(0)] = ...) -> None: ...

class Tanhshrink(Function):
    def __init__(self) -> None: ...

class Threshold(Function):
    def __init__(self, threshold: float, value: float) -> None: ...

class Sigmoid(Function):
    def __init__(self) -> None: ...

class LogSigmoid(Function):
    def __init__(self) -> None: ...

class Tanh(Function):
    def __init__(self) -> None: ...

class Softmax(Function):
    def __init__(self, dim: int = ...) -> None: ...

class Softmin(Function):
    def __init__(self, dim: int = ...) -> None: ...

class LogSoftmax(Function):
    def __init__(self, dim: int = ...) -> None: ...

class GLU(Function):
    def __init__(self, dim: int = ...) -> None: ...

