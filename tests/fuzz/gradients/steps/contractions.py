"""Contractions and linear algebra."""

from __future__ import annotations

from tests.fuzz.gradients.draft import Draft, Texts, Unfit
from tests.fuzz.gradients.steps.registry import both, step

SCALE = 0.5


@step(6)
def contraction(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0)
    columns = d.among(1, 2, 3, 5, 8)
    w = d.new((x.shape[-1], columns), SCALE)
    return d.among(
        both(f"{x} @ {w}"),
        both(f"{x} @ {w}[:, 0]"),
        both(f"{w}.swapaxes(0, 1) @ {x if x.rank == 1 else f'{x}.swapaxes(-2, -1)'}"),
        both(f"m.einsum('...i,ij->...j', {x}, {w})"),
        both(f"{x} @ {w} + {w}[0]"),
        (f"m.tensordot({x}, {w}, 1)", f"torch.tensordot({x}, {w}, 1)"),
    )


@step(3)
def of_itself(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank >= 2)
    flat = d.value(lambda v: v.rank > 0 and v.size < 30)
    return d.among(
        both(f"{x} @ {x}.swapaxes(-1, -2)"),
        both(f"{x}.swapaxes(-1, -2) @ {x}"),
        both(f"m.outer({flat}.reshape(-1), {flat}.reshape(-1)[:3])"),
        both(f"m.kron({x}, {x})") if x.rank == 2 and x.size < 10 else both(f"{x} * {x}"),
        both(f"m.vdot({flat}.reshape(-1), {flat}.reshape(-1).sin())"),
        (f"m.inner({x}, {x})", f"torch.inner({x}, {x})") if x.rank == 2 else both(f"m.inner({flat}, {flat})"),
    )


@step(3)
def stacked(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank >= 3)
    lead = [n if d.flag(0.6) else 1 for n in x.shape[:-2]][d.chance.randint(0, 1) :]
    w = d.new((*lead, x.shape[-1], d.among(1, 2, 4)), SCALE)
    return both(f"m.matmul({x}, {w})")


@step(4)
def einsum(d: Draft) -> Texts:
    """Random letters: contracted, kept, summed in one operand alone, repeated in one operand."""
    x = d.value(lambda v: 0 < v.rank <= 4)
    letters = list("abcd"[: x.rank])
    sizes = dict(zip(letters, x.shape, strict=True))
    if x.rank >= 2 and x.shape[0] == x.shape[-1] and d.flag(0.5):
        letters[-1] = letters[0]
    sizes["e"] = d.among(1, 2, 3)
    second = d.chance.sample(sorted(sizes), d.chance.randint(1, min(3, len(sizes))))
    y = d.new([sizes[c] for c in second], SCALE)
    kept = [c for c in sorted({*letters, *second}) if d.flag(0.6)]
    d.chance.shuffle(kept)
    return both(f"m.einsum('{''.join(letters)},{''.join(second)}->{''.join(kept)}', {x}, {y})")


@step(1)
def einsum_of_three(d: Draft) -> Texts:
    x = d.ranked(2)
    a, b = x.shape
    y, z = d.new((b, d.among(2, 3)), SCALE), d.new((a,), SCALE)
    return both(f"m.einsum('ab,bc,a->{d.among('c', 'ac', 'ca', '', 'b')}', {x}, {y}, {z})")


@step(1)
def along_vectors(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    y = d.new(x.shape)
    if x.shape[-1] == 3 and d.flag():
        return f"{x}.cross({y}, -1)", f"torch.linalg.cross({x}, {y}, dim=-1)"
    return (
        f"({x} + 0.0123).cosine_similarity({y} + 0.0321, -1)",
        f"F.cosine_similarity({x} + 0.0123, {y} + 0.0321, -1)",
    )


@step(3)
def algebra(d: Draft) -> Texts:
    """Of well-conditioned matrices: those at singular, repeated and triangular ones are tests/points'."""
    if d.program.dtype not in ("float64", "float32"):
        raise Unfit
    x = d.value(lambda v: v.rank >= 2 and 0 < max(v.shape[-2:]) <= 4 and v.size > 0)
    n = x.shape[-2]
    definite = f"({x} @ {x}.swapaxes(-1, -2) * 0.2 + m.cast(m.eye({n}), '{d.program.dtype}') * 2.0)"
    b = d.new((n, d.among(1, 2)))
    return d.among(
        (f"m.linalg.inv({definite})", f"torch.linalg.inv({definite})"),
        both(f"m.linalg.det({definite})"),
        both(f"m.linalg.solve({definite}, {b})") if x.rank == 2 else both(f"m.linalg.det({definite})"),
        both(f"m.linalg.cholesky({definite})"),
        both(f"m.linalg.slogdet({definite})[1]"),
        both(f"m.linalg.eigvalsh({definite})"),
        both(f"m.linalg.qr({definite})[{d.among(0, 1)}]"),
        both(f"m.linalg.pinv({definite})"),
        (f"m.linalg.solve_triangular({definite}, {b})", f"torch.linalg.solve_triangular({definite}, {b}, upper=False)")
        if x.rank == 2
        else both(f"m.linalg.cholesky({definite})"),
    )
