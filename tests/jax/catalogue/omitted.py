"""Public functions that the catalogue does not draw, with the reason."""

from __future__ import annotations

_DEVICES = "communicates between devices: it has no meaning on one"
_TYPES = "tells of types, shapes or options: it computes nothing"
_FILES = "reads or writes files or Python objects"
_UNTRACED = "JAX refuses it in a jitted function"
_TOKENS = "a token or a stage of JAX's own, without numbers"

OMITTED: dict[str, dict[str, str]] = {
    "lax": {
        **dict.fromkeys(
            (
                "all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pcast", "pmax", "pmean", "pmin",
                "ppermute", "precv", "psend", "pshuffle", "psum", "psum_scatter", "pswapaxes", "ragged_all_to_all",
                "with_sharding_constraint",
            ),
            _DEVICES,
        ),
        **dict.fromkeys(
            (
                "ConvGeneralDilatedDimensionNumbers", "DotDimensionNumbers", "PrecisionLike", "broadcast_shapes",
                "conv_dimension_numbers", "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple",
                "conv_transpose_shape_tuple", "dtype", "padtype_to_pads", "reduce_window_shape_tuple", "shape_as_value",
            ),
            _TYPES,
        ),
        **dict.fromkeys(("after_all", "create_token", "dce_sink", "stage"), _TOKENS),
        "rng_uniform": "its numbers are not reproducible",
    },
    "lax.linalg": {},
    "jnp": {
        **dict.fromkeys(
            (
                "array_repr", "array_str", "broadcast_shapes", "can_cast", "einsum_path", "get_printoptions", "iscomplexobj",
                "isdtype", "isrealobj", "isscalar", "issubdtype", "iterable", "ndim", "printoptions", "promote_types",
                "result_type", "set_printoptions", "shape", "size",
            ),
            _TYPES,
        ),
        **dict.fromkeys(
            ("from_dlpack", "frombuffer", "fromfile", "fromiter", "fromstring", "load", "save", "savez"), _FILES
        ),
        "trim_zeros": _UNTRACED,
    },
    "jnp.linalg": {},
    "jnp.fft": {},
    "nn": {
        **dict.fromkeys(("get_scaled_dot_general_config",), _TYPES),
        **dict.fromkeys(("scaled_dot_general", "scaled_matmul"), "JAX has it for GPUs alone"),
    },
    "scipy.special": {},
}  # fmt: skip
"""A module's short name -> a function -> the reason."""
