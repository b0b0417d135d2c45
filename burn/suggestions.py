"""Hints for names of PyTorch and other libraries that burn spells differently: one table for every `AttributeError`.

The table is by owner ("Tensor", "Module", "Optimizer", "nn", "burn"). For a name that is not in it, the hint is the function of
that name in a module of burn, or the most similar existing name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib import import_module

_GRADIENTS = "value, gradients = burn.value_and_grad(loss)(model, x, y)"
_FREEZE = 'model.freeze("pattern") and model.unfreeze("pattern") say which parameters are trained'
_DEVICES = 'x.to("cuda") brings a tensor or a module to a GPU'

_DTYPES = 'element types are text: x.astype("float32")'
_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp")
"""Functions that TensorFlow names reduce_sum ..."""
FAMILIES = ("linalg", "random", "fft")
"""Modules of burn whose functions other libraries also have at the top."""

ALTERNATIVES: Mapping[str, Mapping[str, str]] = {
    "Tensor": {
        "view": "use reshape",
        "numel": "use size",
        "dim": "use ndim",
        "masked_scatter": "use at[mask].set",
        "index_put": "use at[index].set",
        "index_add": "use at[index].add",
        "backward": f"derivatives are those of functions: {_GRADIENTS}",
        "grad": f"gradients are returned and not kept: {_GRADIENTS}",
        "zero_grad": "gradients are returned and not kept, so there is nothing to set to zero",
        "requires_grad": f"{_FREEZE}; any function can be differentiated by any float tensor (burn.grad)",
        "requires_grad_": f"{_FREEZE}; burn.stop_gradient(x) counts as constant",
        "data": "x.numpy() has the elements; a parameter takes others by p.assign(elements)",
        "cuda": _DEVICES,
        "copy_": "x[:] = y; a parameter takes other elements by p.assign(elements)",
        "fill_": "x[:] = number; a parameter takes elements by p.assign(elements)",
        "add_": "there is no addition in place: x = x + y",
        "mul_": "there is no multiplication in place: x = x * y",
        "type_as": "use astype(other.dtype)",
        "long": 'use astype("int64")',
        **{f"reduce_{name}": f"use {name}" for name in _REDUCTIONS},
        "is_cuda": "x.device says where it is",
    },
    "Module": {
        "cuda": _DEVICES,
        "cpu": 'use to("cpu")',
        "float": 'use to("float32")',
        "double": 'use to("float64")',
        "zero_grad": "gradients are returned and not kept, so there is nothing to set to zero",
        "requires_grad_": _FREEZE,
        "register_buffer": "assign it: self.name = nn.Buffer(array)",
        "register_parameter": "assign it: self.name = nn.Parameter(array)",
        "add_module": "assign it: self.name = module",
        "named_children": "use children(), which gives names and modules",
    },
    "Optimizer": {
        "step": "burn.train.step(model, loss, optimizer) makes the whole training step; in a step of your own write "
        f"{_GRADIENTS}; optimizer.update(gradients)",
        "zero_grad": "gradients are returned and not kept, so there is nothing to set to zero",
        "param_groups": "the groups are optimizer.groups, the learning rate is optimizer.lr",
        "add_param_group": "give groups=[(pattern, options)] to the constructor",
    },
    "burn": {
        "functional": "functions are burn's own: burn.relu(x)",
        "jacobian": "burn.jacrev(f) and burn.jacfwd(f) are functions that return Jacobians",
        "pmap": "burn.vmap maps over examples; burn.Mesh is for several devices",
        "no_grad": "nothing is recorded for a derivative unless burn.grad asks for one, so there is nothing to switch off",
        "inference_mode": "nothing is recorded for a derivative unless burn.grad asks for one; model.eval() sets the mode",
        "autograd": "burn.grad, burn.value_and_grad, burn.vjp and burn.jvp differentiate functions",
        "from_numpy": "burn.tensor(array) copies, burn.asarray(array) does not where it need not",
        "Tensor_": "burn.tensor(elements) makes one",
        "device": 'devices are text: x.to("cuda:0")',
        "cuda": 'devices are text: x.to("cuda:0")',
        "save": "model.save(path) writes weights, burn.export(model, path) a program",
        "utils": "datasets and loaders are in burn.data",
        "array": "burn.tensor(elements) makes one",
        "randn": "use burn.random.normal(shape)",
        "rand": "use burn.random.uniform(shape)",
        "randperm": "use burn.random.permutation(count)",
        **{f"reduce_{name}": f"use burn.{name}" for name in _REDUCTIONS},
        **dict.fromkeys(
            ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool_"), _DTYPES
        ),
    },
    "nn": {
        "InstanceNorm": "InstanceNorm takes any number of axes",
        "functional": "tensors have these as methods, and burn as functions (burn.relu(x))",
        "Dropout": "there are Dropout, Dropout1d, Dropout2d and Dropout3d",
        "CrossEntropy": "losses have torch's names, CrossEntropyLoss",
        "MSE": "losses have torch's names, MSELoss",
        "utils": "clipping is burn.train.step's clip_norm, or optim.clip_by_norm",
    },
}


def suggestion(owner: str, name: str, names: Iterable[str]) -> str:
    """A hint to append to the error about a missing name, or ""."""
    known = ALTERNATIVES.get(owner, {})
    text_found = known.get(name) or next(
        (text for start, text in known.items() if owner == "nn" and name.startswith(start)), ""
    )
    if text_found:
        return f"; {text_found}"
    family = next((f for f in FAMILIES if owner == "burn" and name in import_module(f"burn.{f}").__all__), None)
    if family:
        return f"; use burn.{family}.{name}"
    if name.startswith("_"):  # what IPython, pytest and others look for in every object
        return ""
    public = [n for n in names if not n.startswith("_")]
    same = [n for n in public if n.lower() == name.lower()]
    close = same or difflib.get_close_matches(name, public, 1, 0.75)
    return f"; did you mean '{close[0]}'?" if close else ""
