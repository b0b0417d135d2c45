"""Container types of inputs and outputs other than tuples and dictionaries: each must be registered with torch.

transformers registers its outputs as their modules are imported, and its caches on request.
"""

from __future__ import annotations

import importlib
import re
import sys
from importlib.util import find_spec
from typing import Any

from torch.utils import _pytree as pytree

from burn.errors import ModelError, Problem

TYPES = re.compile(rb'\\*"type\\*": *\\*"(transformers\.[A-Za-z0-9_.]+)\.[A-Za-z0-9_]+\\*"')
"""A container of transformers in a program's description, which is JSON in JSON."""
MODULES = re.compile(r"transformers\.(modeling_outputs|cache_utils|models\.\w+\.modeling_\w+)", re.ASCII)
"""Those that define outputs; no other is imported, whatever a file names."""


def know_caches() -> None:
    """Tells torch of transformers' caches, where transformers is in use."""
    if "transformers" in sys.modules:
        try:
            from transformers.integrations.executorch import register_dynamic_cache_export_support
        except ImportError:
            return
        register_dynamic_cache_export_support()
        _know_pairs_of_caches()


PARTS = ("self_attention_cache", "cross_attention_cache")


def _know_pairs_of_caches() -> None:
    """transformers does not tell of the cache of a model with encoder and decoder, which is two caches."""
    from transformers.cache_utils import EncoderDecoderCache

    if EncoderDecoderCache in pytree.SUPPORTED_NODES:
        return

    def parts(cache: Any) -> list[Any]:
        return [getattr(cache, name) for name in PARTS]

    def parts_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], list[str]]:
        return [(pytree.GetAttrKey(name), part) for name, part in zip(PARTS, parts(cache), strict=True)], list(PARTS)

    pytree.register_pytree_node(
        EncoderDecoderCache,
        lambda cache: (parts(cache), list(PARTS)),
        lambda values, keys: EncoderDecoderCache(*values),
        serialized_type_name=f"{EncoderDecoderCache.__module__}.{EncoderDecoderCache.__name__}",
        flatten_with_keys_fn=parts_with_keys,
    )


def know_those_of(description: bytes) -> None:
    """Tells torch of the containers that a program's description names. Raises ModelError where transformers is missing."""
    names = sorted({name.decode() for name in TYPES.findall(description)})
    if names and find_spec("transformers") is None:
        hint = "pip install transformers"
        raise ModelError(
            "the program takes or returns containers of another library",
            [Problem(f"{name} is not installed", hint=hint) for name in names],
        )
    for name in filter(MODULES.fullmatch, names):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ModelError("the program takes or returns containers of another library", [str(error)]) from error
    if names:
        know_caches()
