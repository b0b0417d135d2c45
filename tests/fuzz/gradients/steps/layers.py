"""Norms, attention, recurrent layers, losses."""

from __future__ import annotations

from tests.fuzz.gradients.draft import Draft, Texts, Unfit
from tests.fuzz.gradients.steps.registry import both, step


@step(4)
def norm(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    last = x.shape[-1]
    s, b = d.new((last,)), d.new((last,))
    image, shape = d.image(d.among(1, 2))
    c = shape[1]
    u, v, mean, variance = d.new((c,)), d.new((c,)), d.new((c,)), d.positive((c,))
    groups = d.chance.choice([n for n in range(1, c + 1) if c % n == 0])
    return d.among(
        (f"ops.layer_norm({x}, {s}, {b}, epsilon=0.1)", f"F.layer_norm({x}, ({last},), {s}, {b}, 0.1)"),
        (f"ops.rms_norm({x}, {s}, epsilon=0.1)", f"F.rms_norm({x}, ({last},), {s}, 0.1)"),
        (
            f"ops.group_norm({image}, {u}, {v}, groups={groups}, epsilon=0.1)",
            f"F.group_norm({image}, {groups}, {u}, {v}, 0.1)",
        ),
        (f"ops.instance_norm({image}, {u}, {v}, epsilon=0.1)", f"F.group_norm({image}, {c}, {u}, {v}, 0.1)"),
        (
            f"ops.batch_norm({image}, {u}, {v}, {mean}, {variance}, epsilon=0.1)",
            f"({image} - {_laid(mean, shape)}) / ({_laid(variance, shape)} + 0.1).sqrt() * {_laid(u, shape)}"
            f" + {_laid(v, shape)}",
        ),
    )


def _laid(parameter: object, shape: tuple[int, ...]) -> str:
    return f"{parameter}.reshape({[1, -1, *[1] * (len(shape) - 2)]})"


@step(4)
def attention(d: Draft) -> Texts:
    heads, share, s, t = d.among(1, 2), d.among(1, 1, 2), d.among(1, 2, 3, 5), d.among(1, 2, 4)
    width, own, batch = d.among(2, 3), d.among(1, 2, 4), d.among(1, 2)
    x = d.value(empty=False)
    q, k, v = (
        d.new(shape) for shape in ((batch, heads * share, s, width), (batch, heads, t, width), (batch, heads, t, own))
    )
    options = f"scale={d.among(0.5, 1.0)}, causal={d.flag(0.4)}, softcap={d.among(0.0, 0.0, 2.0)}"
    mask = d.among("None", "None", str(d.new((s, t))), f"{d.new((s, t))} > -0.7", str(d.new((batch, 1, s, t))))
    lengths = d.among("None", "None", d.constant(d.data.integers(1, t + 1, batch)))
    inner = f"{q} * {x}.mean(), {k}, {v}, {mask}, {lengths}, {options}"
    return f"ops.attention({inner})", f"t.attention({inner})"


@step(1)
def rotary(d: Draft) -> Texts:
    x = d.ranked(4, empty=False)
    b, _, s, width = x.shape
    if width < 2:
        raise Unfit
    r = d.chance.randint(1, width // 2)
    shape = (d.among(1, b), s, r)
    cos, sin, flag = d.new(shape), d.new(shape), d.flag()
    return f"ops.rotary_embedding({x}, {cos}, {sin}, interleaved={flag})", f"t.rotary({x}, {cos}, {sin}, {flag})"


@step(3)
def recurrent(d: Draft) -> tuple[Texts, int] | Texts:
    kind = d.among("rnn", "gru", "lstm")
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
    x = d.ranked(3, empty=False)
    _, batch, width = x.shape
    hidden, direction = d.among(1, 2, 3), d.among("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    w, r = d.new((ways, gates * hidden, width), 0.5), d.new((ways, gates * hidden, hidden), 0.5)
    b = d.new((ways, 2 * gates * hidden), 0.5) if d.flag() else None
    h = d.new((ways, batch, hidden)) if d.flag() else None
    c = d.new((ways, batch, hidden)) if d.flag() and kind == "lstm" else None
    more = f", direction='{direction}'{f', reset_after={d.flag()}' if kind == 'gru' else ''}"
    ours = f"ops.{kind}({x}, {w}, {r}, {b}, None, {h}{f', {c}' if kind == 'lstm' else ''}{more})"
    theirs = f"t.recurrent('{kind}', {x}, {w}, {r}, {b}, {h}, {c}{more})"
    if d.flag():
        return (ours, theirs), 3 if kind == "lstm" else 2
    first = d.chance.randrange(2)
    return f"{ours}[{first}]", f"{theirs}[{first}]"


@step(4)
def loss(d: Draft) -> Texts:
    x = d.ranked(2, 3, empty=False)
    reduction = d.among("mean", "sum", "none")
    y = d.new(x.shape)
    classes = x.shape[1]
    i = d.whole(classes, (x.shape[0], *x.shape[2:]))
    weight = d.positive((classes,)) if d.flag(0.4) else None
    ignore = d.among(None, 0)
    options = f"reduction='{reduction}'"
    held = f"{y}.sigmoid()"
    theirs = f"{options}, ignore_index={-100 if ignore is None else ignore}"
    return d.among(
        (
            f"ops.cross_entropy({x}, {i}, {weight}, {options}, ignore={ignore})[0]",
            f"F.cross_entropy({x}, {i}, {weight}, {theirs})",
        ),
        (f"ops.nll_loss({x}, {i}, {weight}, {options}, ignore={ignore})", f"F.nll_loss({x}, {i}, {weight}, {theirs})"),
        (
            _narrow(x, f"nn.BCEWithLogitsLoss({options})({x}, {held})"),
            f"F.binary_cross_entropy_with_logits({x}, {held}, {options})",
        ),
        (
            _narrow(x, f"nn.BCELoss({options})({x}.sigmoid(), {held})"),
            f"t.binary_cross_entropy({x}.sigmoid(), {held}, {options})",
        ),
        (_narrow(x, f"nn.SmoothL1Loss({options})({x}, {y})"), f"F.smooth_l1_loss({x}, {y}, {options})"),
        (_narrow(x, f"nn.HuberLoss({options})({x}, {y})"), f"F.huber_loss({x}, {y}, {options})"),
        (_narrow(x, f"nn.MSELoss({options})({x}, {y})"), f"F.mse_loss({x}, {y}, {options})"),
        (_narrow(x, f"nn.L1Loss({options})({x}, {y})"), f"F.l1_loss({x}, {y}, {options})"),
        (
            _narrow(x, f"nn.KLDivLoss({options})({x}.log_softmax(1), {y}.softmax(1))"),
            f"F.kl_div({x}.log_softmax(1), {y}.softmax(1), {options})",
        ),
        (
            _narrow(x, f"nn.PoissonNLLLoss({options})({x}.clamp(None, 2.0), {held})"),
            f"F.poisson_nll_loss({x}.clamp(None, 2.0), {held}, {options})",
        ),
    )


def _narrow(x: object, text: str) -> str:
    """A loss of burn.nn in x's type: those of 16-bit floats are float32."""
    return f"m.cast({text}, {x}.dtype)"


@step(0.3)
def sequence_loss(d: Draft) -> Texts:
    """Connectionist temporal classification; torch has no second derivative of it."""
    steps, batch, classes, length = d.among(3, 5), d.among(1, 2), d.among(2, 3), d.among(1, 2)
    x = d.new((steps, batch, classes))
    y = d.constant(d.data.integers(1, classes, (batch, length)))
    frames, labels = d.constant([steps] * batch), d.constant([length] * batch)
    return (
        _narrow(x, f"nn.CTCLoss(reduction='sum')({x}.log_softmax(-1), {y}, {frames}, {labels})"),
        f"F.ctc_loss({x}.log_softmax(-1), {y}, {frames}, {labels}, reduction='sum')",
    )


@step(1)
def computed_again(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    w = d.new((x.shape[-1], x.shape[-1]), 0.5)
    return both(f"m.checkpoint(lambda a, b: ((a @ b).tanh() + a) @ b)({x}, {w})")
