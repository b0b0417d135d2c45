"""The C interface in Python: the declarations of burn_rt.h and lib.h.

Code generation uses `FUNCTIONS`; error messages come from `MESSAGES`. tests/runtime/test_abi.py compares this
file with the headers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Status(IntEnum):
    """burn_status."""

    OK = 0
    OUT_OF_MEMORY = 1
    INDEX_OUT_OF_RANGE = 2
    SHAPE_MISMATCH = 3
    NEGATIVE_SIZE = 4
    DIVIDE_BY_ZERO = 5
    EMPTY_REDUCTION = 6
    LOOP_LIMIT = 7
    CHECK_FAILED = 8
    SIZE_OVERFLOW = 9
    INPUT_MISMATCH = 10
    SHARED_MEMORY = 11
    INTERRUPTED = 12
    BAD_TEXT = 13
    EMPTY_LIST = 14
    WRONG_ITEM = 15
    HOST_FAILED = 16
    DEVICE_FAILED = 17
    SMALL_OUTPUT = 18
    CANCELLED = 19
    TOO_LONG = 20
    TOO_LARGE = 21
    NOT_FINITE = 22
    CUSTOM_FAILED = 23
    OUT_OF_BOUNDS = 24
    COLLECTIVE_FAILED = 25


MESSAGES = {
    Status.OUT_OF_MEMORY: "out of memory: {value} bytes were asked for",
    Status.INDEX_OUT_OF_RANGE: "index {value} is out of range",
    Status.SHAPE_MISMATCH: "a size is {value}, which does not fit the other operands",
    Status.NEGATIVE_SIZE: "a size came out negative: {value}",
    Status.DIVIDE_BY_ZERO: "integer division by zero",
    Status.EMPTY_REDUCTION: "a reduction over no elements has no value",
    Status.LOOP_LIMIT: "a loop ran more than {value} times",
    Status.CHECK_FAILED: "{site} does not hold: the lhs is {value}",
    Status.SIZE_OVERFLOW: "sizes multiply to more than 64 bits hold",
    Status.INPUT_MISMATCH: "input {value} does not fit the program",
    Status.SHARED_MEMORY: "input {value} is donated but shares memory with another input",
    Status.INTERRUPTED: "the run was interrupted",
    Status.BAD_TEXT: "string {value} is not a number",
    Status.EMPTY_LIST: "an optional or a sequence has no element to give",
    Status.WRONG_ITEM: "element {value} of a sequence is not of the type that was expected",
    Status.HOST_FAILED: "the host could not do what the program asked for",
    Status.DEVICE_FAILED: "the device failed with the driver's error {value}",
    Status.SMALL_OUTPUT: "the memory given for output {value} is too small",
    Status.CANCELLED: "the run was cancelled",
    Status.TOO_LONG: "the run takes longer than its limit",
    Status.TOO_LARGE: "the run would take {value} bytes, more than its limit",
    Status.NOT_FINITE: "element {value} of its result is NaN (or infinite, if that is checked), and no operand has one",
    Status.CUSTOM_FAILED: "the custom op's function failed and returned {value}",
    Status.OUT_OF_BOUNDS: "the custom op's function wrote outside of tensor {value}, or to an operand (operands come first)",
    Status.COLLECTIVE_FAILED: "a collective did not end; its communicator has the reason",
}
"""The message of each failure, with {value} for its number and {site} for its name."""


class Function(NamedTuple):
    """A function that generated code may call: LLVM types, and by which result it tells that the run has failed ("null",
    "negative" or "status"; "" for one that does not tell)."""

    arguments: tuple[str, ...]
    result: str = ""
    fails: str = ""


FUNCTIONS = {
    "burn_rt_input": Function(("ptr", "i64"), "ptr"),
    "burn_rt_input_dim": Function(("ptr", "i64", "i64"), "i64"),
    "burn_rt_constant": Function(("ptr", "i64"), "ptr"),
    "burn_rt_output": Function(("ptr", "i64", "i64", "ptr", "i64"), "ptr", "null"),
    "burn_rt_plan": Function(("ptr", "ptr", "i64", "ptr"), "ptr", "null"),
    "burn_rt_alloc": Function(("ptr", "i64"), "ptr", "null"),
    "burn_rt_free": Function(("ptr", "ptr")),
    "burn_rt_grow": Function(("ptr", "ptr", "i64"), "ptr", "null"),
    "burn_rt_mark": Function(("ptr",), "i64", "negative"),
    "burn_rt_release": Function(("ptr", "i64")),
    "burn_rt_scratch": Function(("ptr", "i64"), "ptr", "null"),
    "burn_rt_copy": Function(("ptr", "ptr", "ptr", "i64")),
    "burn_rt_read": Function(("ptr", "ptr", "i64"), "i64"),
    "burn_rt_write": Function(("ptr", "ptr", "i64", "i64")),
    "burn_rt_threads": Function(("ptr",), "i64"),
    "burn_rt_launch": Function(("ptr", "i64", "ptr", "ptr", "i64", "i64"), "i32", "status"),
    "burn_rt_steps": Function(("ptr", "ptr", "ptr", "ptr", "ptr"), "i32", "status"),
    "burn_rt_enter": Function(("ptr", "i64")),
    "burn_rt_leave": Function(("ptr", "i64")),
    "burn_rt_fail": Function(("ptr", "i64", "i64", "i64")),
    "burn_rt_kernel_fail": Function(("ptr", "i64", "i64", "i64")),
    "burn_rt_status": Function(("ptr",), "i32"),
    "burn_rt_device_alloc": Function(("ptr", "i64"), "ptr", "null"),
    "burn_rt_device_free": Function(("ptr", "ptr")),
    "burn_rt_device_grow": Function(("ptr", "ptr", "i64"), "ptr", "null"),
    "burn_rt_device_copy": Function(("ptr", "ptr", "ptr", "i64")),
    "burn_rt_device_read": Function(("ptr", "ptr", "i64"), "i64"),
    "burn_rt_device_write": Function(("ptr", "ptr", "i64", "i64")),
    "burn_rt_fetch": Function(("ptr", "ptr", "i64"), "ptr", "null"),
    "burn_rt_send": Function(("ptr", "ptr", "ptr", "i64")),
    "burn_rt_device_failure": Function(("ptr",), "ptr", "null"),
    "burn_rt_device_ready": Function(("ptr", "i64")),
    "burn_rt_device_launch": Function(("ptr", "i64", "i64", "ptr", "i64", "i64"), "i32", "status"),
    "burn_rt_device_collective": Function(("ptr", *["i64"] * 5, "ptr", "i64", "ptr"), "i32", "status"),
    "burn_rt_device_await": Function(("ptr", "ptr"), "i32", "status"),
    "burn_lib_collective": Function(("ptr", *["i64"] * 5, "ptr", "i64", "ptr"), "i32", "status"),
    "burn_lib_sort": Function(("ptr", *["i64"] * 5, *["ptr"] * 3), "i32", "status"),
    "burn_lib_partial_sort": Function(("ptr", *["i64"] * 7, *["ptr"] * 3), "i32", "status"),
    "burn_lib_nonzero": Function(("ptr", "i64", "i64", "ptr", "ptr", "ptr"), "i64", "negative"),
    "burn_lib_unique": Function(("ptr", *["i64"] * 5, *["ptr"] * 5), "i64", "negative"),
    "burn_lib_tree_leaves": Function(("ptr", *["i64"] * 10, *["ptr"] * 5), "i32", "status"),
    "burn_lib_non_max_suppression": Function(
        ("ptr", *["i64"] * 5, *["ptr"] * 4, "i64", *["ptr"] * 2), "i64", "negative"
    ),
    "burn_lib_image_decode": Function(("ptr", "i64", "i64", "i64", "ptr", "ptr"), "ptr", "null"),
    "burn_lib_list_insert": Function(
        ("ptr", "i64", "ptr", "i64", "ptr", "i64", "i64", "ptr", "ptr", "i64", "ptr"), "i32", "status"
    ),
    "burn_lib_list_erase": Function(("ptr", "i64", "ptr", "i64", "ptr", "ptr"), "i32", "status"),
    "burn_lib_list_length": Function(("ptr", "ptr", "ptr"), "i32", "status"),
    "burn_lib_list_at": Function(("ptr", "i64", "ptr", "i64", "ptr", "i64", "i64", "ptr"), "ptr", "null"),
    "burn_lib_list_concat": Function(("ptr", "i64", "ptr", "i64", "i64", "i64", "i64", "ptr"), "ptr", "null"),
    "burn_lib_list_split": Function(
        ("ptr", "i64", "i64", "i64", "ptr", "i64", "i64", "i64", "ptr", "ptr", "ptr"), "i32", "status"
    ),
    "burn_lib_text_concat": Function(("ptr", "i64", "ptr", "ptr", "ptr"), "i32", "status"),
    "burn_lib_text_case": Function(("ptr", "i64", "ptr", "i64", "ptr", "ptr"), "i32", "status"),
    "burn_lib_text_split": Function(("ptr", "i64", "i64", "ptr", "ptr", "ptr", "ptr"), "i64", "negative"),
    "burn_lib_text_tokens": Function(
        ("ptr", "i64", "i64", "i64", "i64", "ptr", "ptr", "ptr", "ptr"), "i64", "negative"
    ),
    "burn_lib_text_find": Function(("ptr", "i64", "ptr", "i64", "ptr", "ptr"), "i32", "status"),
    "burn_lib_text_rank": Function(("ptr", "i64", "ptr", "ptr"), "i32", "status"),
    "burn_lib_text_match": Function(("ptr", "i64", "ptr", "i64", "ptr", "ptr"), "i32", "status"),
    "burn_lib_text_write": Function(("ptr", "i64", "i64", "ptr", "ptr"), "i32", "status"),
    "burn_lib_text_read": Function(("ptr", "i64", "i64", "i64", "ptr", "ptr"), "i32", "status"),
    "burn_lib_debug_print": Function(("ptr", "i64", "i64", "ptr", "i64", "ptr"), "i32", "status"),
    "burn_lib_debug_call": Function(("ptr", "i64", "i64", "i64", "ptr"), "i32", "status"),
    "burn_lib_custom": Function(("ptr", "i64", "ptr", "ptr", "i64", "i64", "ptr"), "i32", "status"),
    "burn_lib_custom_host": Function(("ptr", "i64", "i64", "i64", "i64", "ptr"), "i32", "status"),
    "burn_lib_check_finite": Function(("ptr", "i64", "i64", "i64", "i64", "ptr"), "i32", "status"),
}
"""All that burn_rt.h and lib.h declare."""

MAX_RANK = 64
"""Axes that an output may have: BURN_MAX_RANK in runtime.h."""
