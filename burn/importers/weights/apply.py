"""`load_into`: the tensors of a checkpoint become the parameters of a module, all of them or none.

It goes in steps. Names are remapped, each parameter finds its tensors (match.py), and mismatches are recorded in a report. Only
without errors are elements converted and, last, assigned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from burn.dialect.types import DTYPES, FLOATS, numpy_dtype
from burn.dialect.weights import Weight, array_weight
from burn.errors import ModelError, Problem
from burn.importers.weights.checkpoint import Checkpoint
from burn.importers.weights.match import OWN, Slot, fits, match, needless
from burn.importers.weights.report import Applied, LoadError, Mismatched, Missing, Report, Skipped, Unused, spelled

Remap = Mapping[str, str] | Sequence[tuple[str, str]]
Filter = str | Sequence[str] | Callable[[str], bool]
DTypes = str | Mapping[str, str | None]

ADAPTERS = ("auto", "torch", "burn", "flax", None)
CAST = "cast"
CONVERTED = (*FLOATS, *(name for name in DTYPES if name.startswith("float8_")))
"""Element types of files that convert to those of parameters."""
MAX_PREFIXES = 20  # that are tried for a hint
WRAPPERS = {"_orig_mod.": "torch.compile", "module.": "DataParallel"}
"""Prefixes that PyTorch adds to names of parameters, and their origins."""


def load_into(
    module: Any,
    checkpoint: Checkpoint,
    *,
    remap: Remap | None = None,
    include: Filter | None = None,
    exclude: Filter | None = None,
    partial: bool = False,
    dtype: DTypes | None = None,
    adapter: str | None = "auto",
) -> Report:
    """Loads a module's parameters; see `burn.nn.Module.load`, which this is, for the options.

    Raises LoadError (a ModelError, with the report) when something does not fit; the module is as it was then."""
    if adapter not in ADAPTERS:
        raise ModelError(f"there is no adapter '{adapter}'", ["'auto', 'torch', 'burn', 'flax' or None"])
    report = Report(type(module).__name__, checkpoint.path.name or "weights")
    report.ignored, report.notes = dict(checkpoint.ignored), list(checkpoint.notes)
    tensors, original = _renamed(checkpoint, remap)
    wanted, policy = _selection(include, exclude), _dtypes(dtype)
    layout = {"auto": checkpoint.layout, None: OWN}.get(adapter, adapter)
    found = match(module, tensors, layout or "")
    if include is not None and found and not any(wanted(path) for slot in found for path in slot.paths):
        raise ModelError("include= and exclude= leave no parameter to load", [f"of {_some(s.name for s in found)}"])
    used: set[str] = set()
    taken: list[tuple[Slot, str]] = []
    for slot in found:
        if slot.part is not None:
            used.update(slot.part.sources)
        if not any(map(wanted, slot.paths)):
            report.skipped.append(Skipped(slot.name, "not selected"))
        elif slot.part is None:
            names = tuple(dict.fromkeys(" + ".join(part.sources) for part in slot.candidates))
            report.missing.append(Missing(slot.name, str(slot.parameter.type), names))
        else:
            becomes = policy(slot.name, slot.parameter.dtype)
            misfits = _misfits(slot, tensors, original, becomes)
            report.mismatched += misfits
            if not misfits:
                taken.append((slot, becomes or slot.parameter.dtype))
    _leftovers(report, module, found, tensors, original, used, wanted)
    _hints(report)
    _refuse(report, partial, bool(taken))
    filled = [(slot, dtype, _elements(slot, tensors, dtype)) for slot, dtype in taken]
    for slot, dtype, weight in filled:  # nothing can fail from here on
        slot.parameter.become(weight)
        slot.parameter.name = slot.name
        report.applied.append(_applied(slot, tensors, original, dtype))
    return report


def _some(names: Iterable[str], most: int = 5) -> str:
    """The first few names, for an error."""
    listed = list(names)
    return ", ".join(listed[:most]) + (" ..." if len(listed) > most else "")


def _refuse(report: Report, partial: bool, any_taken: bool) -> None:
    problems = report.problems(partial)
    if problems:
        raise LoadError(f"these weights are not those of {report.module}; nothing was loaded", report, problems)
    if not any_taken and (report.missing or report.unused):
        problems = report.problems(False)
        raise LoadError(f"none of these weights is one of {report.module}'s; nothing was loaded", report, problems)


# ---- names -----------------------------------------------------------------------------------------------------------------


def _renamed(checkpoint: Checkpoint, remap: Remap | None) -> tuple[dict[str, Weight], dict[str, str]]:
    """The tensors by their new names, and what each was called."""
    pairs = list(remap.items() if isinstance(remap, Mapping) else remap or ())
    compiled = []
    problems = []
    for pair in pairs:
        pattern, replacement = pair
        compiled.append((_pattern(pattern, problems), replacement))
    if problems:
        raise ModelError("the names cannot be remapped", problems)
    tensors: dict[str, Weight] = {}
    original: dict[str, str] = {}
    for name, weight in checkpoint.items():
        new = name
        for pattern, replacement in compiled:
            try:
                new = pattern.sub(replacement, new)
            except (re.error, IndexError) as error:
                text = f"'{replacement}' is no replacement for '{pattern.pattern}': {error}"
                raise ModelError("the names cannot be remapped", [text]) from None
        if new in tensors:
            problems.append(Problem(f"'{original[new]}' and '{name}' would both be called '{new}'"))
        tensors[new], original[new] = weight, name
    if problems:
        raise ModelError("the names cannot be remapped", problems)
    return tensors, original


def _pattern(text: str, problems: list[Problem]) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        problems.append(Problem(f"'{text}' is not a regular expression: {error}"))
        return re.compile("")


def _selection(include: Filter | None, exclude: Filter | None) -> Callable[[str], bool]:
    """A predicate: True for names to load."""
    problems: list[Problem] = []
    taken, left = (_filter(f, problems) if f is not None else None for f in (include, exclude))
    if problems:
        raise ModelError("the names cannot be filtered", problems)
    return lambda name: (taken is None or taken(name)) and not (left is not None and left(name))


def _filter(given: Filter, problems: list[Problem]) -> Callable[[str], bool]:
    if callable(given):
        return given
    patterns = [_pattern(text, problems) for text in ([given] if isinstance(given, str) else given)]
    return lambda name: any(pattern.search(name) for pattern in patterns)


def _leftovers(
    report: Report,
    module: Any,
    found: Iterable[Slot],
    tensors: Mapping[str, Weight],
    original: Mapping[str, str],
    used: set[str],
    wanted: Callable[[str], bool],
) -> None:
    """Sorts the tensors that no parameter took into those with a reason and those without."""
    reasons = needless(module)
    shared = {path: slot for slot in found for path in slot.paths[1:]}
    for name, weight in tensors.items():
        if name in used:
            continue
        slot = shared.get(name)
        if name in reasons:
            report.skipped.append(Skipped(name, reasons[name]))
        elif slot is not None and slot.part is not None and slot.part.convert is None:
            source = tensors[slot.part.sources[0]]
            if _same(weight, source):
                report.skipped.append(Skipped(name, f"the same parameter as '{slot.name}'"))
            else:
                text = f"the elements of '{original[slot.part.sources[0]]}', with which it is shared"
                report.mismatched.append(Mismatched(slot.name, original[name], text, "others"))
        elif not wanted(name):
            report.skipped.append(Skipped(name, "not selected"))
        else:
            report.unused.append(Unused(name, spelled(weight.dtype, weight.shape), original[name]))


def _same(left: Weight, right: Weight) -> bool:
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    if left.file is not None and left.file is right.file and left.offset == right.offset:
        return True
    return left.array().tobytes() == right.array().tobytes()


def _hints(report: Report) -> None:
    """A prefix that all names have, or lack, is the commonest reason that nothing fits."""
    if not report.missing or not report.unused:
        return
    missing, unused = {m.name for m in report.missing}, {u.name for u in report.unused}
    for longer, shorter, pattern in ((unused, missing, "^{}"), (missing, unused, "^")):
        ending = min(sorted(shorter), key=len)
        prefixes = {name[: -len(ending)] for name in longer if name.endswith(f".{ending}")}
        tried = sorted(prefixes, key=lambda p: (len(p), p))[:MAX_PREFIXES]
        fitting = [p for p in tried if 2 * sum(p + name in longer for name in shorter) > len(shorter)]
        if len(fitting) > 1 and longer is unused:
            text = (pattern.format(re.escape(fitting[0])), "")
            sets = " and ".join(f"'{prefix}'" for prefix in fitting)
            report.hints.append(
                f"the file has these names under {sets}: remap=[{text!r}], partial=True loads the first"
            )
            return
        for prefix in fitting:
            text = (pattern.format(re.escape(prefix)), "" if longer is unused else prefix)
            whose = "the file's" if longer is unused else "the module's"
            report.hints.append(f"{whose} names begin with '{prefix}': remap=[{text!r}]")
            return
    for wrapper, maker in WRAPPERS.items():
        if any(wrapper in name and name.replace(wrapper, "") in missing for name in unused):
            text = (re.escape(wrapper), "")
            report.hints.append(f"{maker} has put '{wrapper}' into the file's names: remap=[{text!r}]")


# ---- elements ----------------------------------------------------------------------------------------------------------------


def _dtypes(dtype: DTypes | None) -> Callable[[str, str], str | None]:
    """A function from the name and element type of a parameter to its new type; None for the tensor's own."""
    table = {"": dtype} if isinstance(dtype, str) else dict(dtype or {})
    problems = [
        Problem(f"'{kind}' is not an element type that weights are converted to", hint=f"{CAST} or {', '.join(FLOATS)}")
        for kind in table.values()
        if kind is not None and kind not in (CAST, *FLOATS)
    ]
    rules = [(_pattern(text, problems), kind) for text, kind in table.items()]
    if problems:
        raise ModelError("the element types cannot be chosen", problems)

    def becomes(name: str, own: str) -> str | None:
        kind = next((kind for pattern, kind in rules if pattern.search(name)), None)
        return None if kind is None or own not in FLOATS else own if kind == CAST else kind

    return becomes


def _misfits(
    slot: Slot, tensors: Mapping[str, Weight], original: Mapping[str, str], becomes: str | None
) -> list[Mismatched]:
    assert slot.part is not None
    own, part = slot.parameter.dtype, slot.part
    found = []
    for source, shape in zip(part.sources, part.shapes, strict=True):
        weight = tensors[source]
        given = spelled(weight.dtype, weight.shape)
        converts = becomes is not None and weight.dtype in CONVERTED
        if weight.shape != shape or (weight.dtype != own and not converts):
            hint = ""
            if weight.shape == shape and weight.dtype in CONVERTED and own in FLOATS:
                hint = f"dtype='{CAST}' converts the elements"
                hint += f", dtype='{weight.dtype}' the parameters" if weight.dtype in FLOATS else ""
            elif weight.shape != shape and weight.shape == shape[::-1]:
                hint = "it is the other way round: adapter= says whose layout the file has"
            expected = spelled(weight.dtype if converts else own, shape)
            found.append(Mismatched(slot.name, original[source], expected, given, hint))
    if part.clash is not None:
        clash = part.clash
        found.append(Mismatched(slot.name, original[part.sources[0]], clash.ours, clash.theirs, clash.hint))
    if not found and slot.ambiguous is not None:
        how = slot.ambiguous.how
        hint = f"adapter='torch' takes it {how}, adapter=None as it is"
        shape = tensors[part.sources[0]].shape
        text = spelled(own, shape)
        found.append(Mismatched(slot.name, original[part.sources[0]], f"{text} of a known layout", "either", hint))
    return found


def _elements(slot: Slot, tensors: Mapping[str, Weight], dtype: str) -> Weight:
    """The parameter's new elements: those of the file where nothing has to be done to them."""
    assert slot.part is not None and fits(slot.part, tensors)
    weights = [tensors[source] for source in slot.part.sources]
    if slot.part.convert is None and weights[0].dtype == dtype:
        return weights[0]
    arrays = [weight.array().astype(numpy_dtype(dtype), copy=False) for weight in weights]
    made = slot.part.convert(*arrays) if slot.part.convert is not None else arrays[0]
    assert made.shape == slot.parameter.shape, f"the rule for {slot.name} gives {made.shape}"
    for weight in weights:
        if weight.file is not None:
            weight.file.release(weight.offset, weight.nbytes)
    return array_weight(np.ascontiguousarray(made).reshape(slot.parameter.shape))


def _applied(slot: Slot, tensors: Mapping[str, Weight], original: Mapping[str, str], dtype: str) -> Applied:
    assert slot.part is not None
    given = {tensors[source].dtype for source in slot.part.sources} - {dtype}
    how = [slot.part.how] if slot.part.how else []
    how += [f"from {', '.join(sorted(given))}"] if given else []
    sources = tuple(original[source] for source in slot.part.sources)
    return Applied(slot.name, str(slot.parameter.type), sources, ", ".join(how))
