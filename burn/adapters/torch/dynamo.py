"""`torch.compile(model, backend="burn")`: TorchDynamo's graphs, forward and backward, compiled by burn. Enter at `backend`.

AOTAutograd makes of each graph a functional one (inference), or two (forward and backward); both go through the same table
of builders as exported programs. Parameters are ordinary inputs, read from torch's memory at every call, so changes between
calls take effect. With `options={"freeze": True}` the parameters of inference graphs become
constants, which burn packs once. A change of a parameter shows in its
version or address (except writes through `.data`); then the graph is compiled again, without constants.

Dynamic sizes of Dynamo are symbols of the compiled program: one compilation serves all of them. One ModelError lists all
unsupported operators; torch falls back to eager only with `torch._dynamo.config.suppress_errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import fx
from torch._C import _len_torch_dispatch_stack
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch._guards import TracingContext

from burn.adapters.torch import gpu_memory
from burn.adapters.torch.attention import keep_attention
from burn.adapters.torch.compiled_graph import CompiledGraph
from burn.adapters.torch.gpu import KINDS, as_burn, device_of
from burn.adapters.torch.graph_build import Aliases
from burn.adapters.torch.input_views import forget_replays, layouts_of_views, parts_of_inputs
from burn.adapters.torch.layouts import ELEMENTS, outputs_of, renewed, requirements
from burn.adapters.torch.partition import partition
from burn.adapters.torch.saved import opened_backward, opened_forward
from burn.adapters.torch.subclasses import to_plain
from burn.errors import ModelError, Problem
from burn.importers.torch.build import SUMMARY
from burn.importers.torch.decompositions import for_autograd
from burn.importers.torch.flex_attention import expand_flex_attention
from burn.options import FULL, Options

OPTIONS = ("freeze", "target")
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def backend(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles one graph of Dynamo's. `mode`: torch's own are taken and all mean the same, burn has one.

    Raises ModelError that lists everything in the graph that burn cannot do."""
    if mode not in MODES:
        raise ModelError("torch.compile was given a mode that it does not have", [f"{mode}; there is {MODES[1:]}"])
    unknown = [name for name in options or {} if name not in OPTIONS]
    if unknown:
        raise ModelError(
            "torch.compile was given options that burn does not have", [f"{n}; there is {OPTIONS}" for n in unknown]
        )
    freeze = bool((options or {}).get("freeze", False))
    asked = Options.of(target=(options or {}).get("target"))
    on_gpu = any(isinstance(x, torch.Tensor) and gpu_memory.where(x).type in KINDS for x in example_inputs)
    compiler = aot_autograd(
        fw_compiler=partial(compile_graph, options=asked),
        bw_compiler=partial(compile_graph, options=asked, backward=True),
        inference_compiler=partial(compile_graph, options=asked, freeze=freeze, inference=True),
        decompositions=for_autograd(),
        partition_fn=partial(partition, recompute=on_gpu),
        keep_inference_input_mutations=on_gpu,
    )
    expand_flex_attention(graph)
    if on_gpu:
        keep_attention(graph)
    return compiler(graph, example_inputs)


if not entry_points(group="torch_dynamo_backends", name="burn"):
    # Installed, burn is found by its entry point, and torch refuses a name that is registered twice.
    register_backend(backend, name="burn")


def rounds_float32(device: torch.device) -> bool:
    """True if torch's matmuls may round float32 operands to TF32: `torch.set_float32_matmul_precision("high")`, on a GPU that has
    it. Dynamo compiles anew when that changes."""
    if torch.get_float32_matmul_precision() == "highest":
        return False
    from burn.codegen.triton.abilities import Abilities

    gpu = as_burn(device)
    return Abilities.of(gpu.kind, gpu.architecture).tf32


def compile_graph(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Options | None = None,
    freeze: bool = False,
    backward: bool = False,
    inference: bool = False,
) -> Callable[[list[Any]], Any]:
    """A functional ATen graph as a function of a list of its inputs. It empties the list, as torch requires. inference: the
    graph is called outside of an autograd function, so its outputs may be views of each other."""
    device = device_of(graph)
    read, written = opened_backward(graph), opened_forward(graph)
    if device is not None:
        if options is not None and options.target is not None:
            reason = f"the graph's tensors are on {device}, and a target is a CPU"
            raise ModelError(SUMMARY, [Problem('the option "target": ' + reason, hint="leave it out")])
        precision = "tf32" if rounds_float32(device) else FULL
        options = replace(options or Options(), device=as_burn(device), target=None, precision=precision)
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    static = tuple(metadata.static_input_indices or ()) if freeze and metadata is not None else ()
    count = len(outputs_of(graph))
    required = (
        dict.fromkeys(range(count), ELEMENTS) if backward else requirements(metadata) if metadata is not None else {}
    )
    aliases = Aliases()
    if metadata is not None and not backward:
        forget_replays(graph, metadata)
        aliases = Aliases(renewed(metadata), layouts_of_views(graph, metadata), parts_of_inputs(graph, metadata))
    compiled = CompiledGraph(
        graph,
        static,
        required,
        options,
        aliases=None if backward else aliases,
        views=inference,
        device=device,
        read=read,
        written=written,
    )

    def call(arguments: list[Any]) -> list[Any]:
        if _len_torch_dispatch_stack():
            to_plain(arguments)
        return compiled(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]  # torch hands over its arguments in a list that may be emptied
    return call
