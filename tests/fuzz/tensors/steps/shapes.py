"""Steps that put the same elements elsewhere: reshaping, turning, repeating, padding, cutting, joining."""

from __future__ import annotations

import string

from tests.fuzz.tensors.draft import Draft, Unfit
from tests.fuzz.tensors.steps.registry import step


@step(4)
def permuted(d: Draft) -> None:
    v = d.any(1)
    order = list(range(v.ndim))
    d.random.shuffle(order)
    d.add(f"m.permute({v.name}, {', '.join(map(str, order))})")


@step(4)
def reshaped(d: Draft) -> None:
    v = d.any(1)
    x, roll = v.name, d.random.random()
    if d.named or roll < 0.4:  # by its own sizes
        sizes = [f"{x}.shape[{i}]" for i in range(v.ndim)]
        if v.ndim > 1 and roll < 0.25:
            at = d.random.randrange(v.ndim - 1)
            sizes[at : at + 2] = [d.random.choice([f"{sizes[at]} * {sizes[at + 1]}", "-1" if v.size else "0"])]
        else:
            sizes.insert(d.random.randint(0, len(sizes)), "1")
        d.add(f"m.reshape({x}, {', '.join(sizes)})")
        return
    left, wanted = v.size, []
    for factor in (2, 3, 2, 5, 7):
        if left and left % factor == 0 and d.random.random() < 0.5:
            wanted.append(factor)
            left //= factor
    wanted.append(left if d.random.random() < 0.5 or not left else -1)
    d.random.shuffle(wanted)
    d.add(f"m.reshape({x}, {', '.join(map(str, wanted))})")


@step(3)
def axes_moved(d: Draft) -> None:
    v = d.any(1)
    a, b = d.axis(v), d.axis(v)
    x = v.name
    ones = [i for i, size in enumerate(v.shape) if size == 1]
    choices = [
        f"m.expand_dims({x}, {d.random.randint(0, v.ndim)})",
        f"m.swapaxes({x}, {a}, {b})",
        f"m.moveaxis({x}, {a}, {b})",
        f"m.ravel({x})",
        f"m.flip({x}, {a})",
        f"m.roll({x}, {d.random.randint(-7, 7)}, {a})",
        f"m.repeat({x}, {d.random.randint(0, 3)}, {a})",
        f"m.tile({x}, {d.random.randint(1, 2)}, {d.random.randint(1, 3)})",
        f"m.broadcast_to({x}, {d.random.randint(1, 3)}, *{x}.shape)",
        *([f"m.squeeze({x}, {d.random.choice(ones)})"] if ones else []),
        *([f"m.rot90({x}, {d.random.randint(-1, 3)})"] if v.ndim == 2 else []),
    ]
    d.add(d.random.choice(choices))


@step(2)
def triangles(d: Draft) -> None:
    v = d.any(2)
    k = d.random.randint(-2, 2)
    choices = [f"m.tril({v.name}, {k})", f"m.triu({v.name}, {k})"]
    if abs(k) < min(v.shape[:2]):
        choices.append(f"m.diagonal({v.name}, {k})")
    d.add(d.random.choice(choices))


@step(2)
def padded(d: Draft) -> None:
    v = d.any(1)
    mode = d.random.choice(["constant", "edge", "reflect", "wrap"])
    most = [1 if mode == "reflect" and d.named else size - 1 if mode == "reflect" else 3 for size in v.shape]
    widths = [tuple(d.random.randint(0, max(0, min(3, m))) for _ in range(2)) for m in most]
    if mode != "constant" and not v.size:
        raise Unfit
    d.add(f"m.pad({v.name}, {widths}, mode={mode!r})")


@step(2)
def cut(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim > 0 and max(v.shape) > 1)
    axis = max(range(v.ndim), key=lambda i: v.shape[i])
    if d.named:
        d.add(f"m.split({v.name}, [1], {axis})")
    else:
        d.add(f"m.array_split({v.name}, {d.random.randint(1, min(5, v.shape[axis] + 1))}, {axis})")


@step(4)
def joined(d: Draft) -> None:
    v = d.any(1)
    axis = d.random.randrange(v.ndim)

    def rest(shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:axis] + shape[axis + 1 :]

    others = [w for w in d.values if w.dtype == v.dtype and w.ndim == v.ndim and rest(w.shape) == rest(v.shape)]
    parts = [v, *(d.random.choice(others) for _ in range(d.random.randint(1, 2)))]
    d.random.shuffle(parts)
    names = ", ".join(p.name for p in parts)
    if len({p.shape for p in parts}) == 1 and d.random.random() < 0.3:
        d.add(f"m.stack([{names}], {d.random.randint(-1, v.ndim)})")
    else:
        d.add(f"m.concat([{names}], {axis})")


@step(3)
def einsum(d: Draft) -> None:
    v = d.pick(lambda v: 1 <= v.ndim <= 4 and v.is_float)
    w = d.pick(lambda w: 1 <= w.ndim <= 4 and w.dtype == v.dtype)
    letters = string.ascii_lowercase[:9]
    first, second = "".join(d.random.sample(letters, v.ndim)), ""
    for size in w.shape:
        same = [c for c, s in zip(first, v.shape, strict=True) if s == size and c not in second]
        new = [c for c in letters if c not in first + second]
        second += d.random.choice(same) if same and d.random.random() < 0.7 else d.random.choice(new)
    result = list(dict.fromkeys(first + second))
    d.random.shuffle(result)
    equation = f"{first},{second}->{''.join(result[: d.random.randint(0, 4)])}"
    d.add(f"m.einsum({equation!r}, {v.name}, {w.name})")
