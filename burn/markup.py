"""HTML for notebooks: the `_repr_html_` of tensors, modules, programs and trainings are built of these functions.

Every text is escaped, as names in a model's file may hold markup. The notebook styles tables, `details` and `pre`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Markup(str):
    """Finished HTML. The functions here escape any other text."""

    __slots__ = ()


def text(value: object) -> Markup:
    """A value's text, escaped."""
    import html  # on demand: its table of entities takes longer than the rest of this module

    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def code(value: object) -> Markup:
    return Markup(f"<code>{text(value)}</code>")


def block(value: object) -> Markup:
    """Lines as they are, such as numpy's text of an array."""
    return Markup(f'<pre style="margin:0">{text(value)}</pre>')


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> Markup:
    """A table with a row of headings."""
    top = "".join(f'<th style="text-align:left">{text(cell)}</th>' for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td style=text-align:left>{text(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return Markup(f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>")


def details(summary: object, *parts: object, opened: bool = False) -> Markup:
    """A line that folds the parts away."""
    inner = "".join(f'<div style="margin-left:1.2em">{text(part)}</div>' for part in parts)
    if not inner:
        return Markup(f'<div style="margin-left:1em">{text(summary)}</div>')
    return Markup(f"<details{' open' if opened else ''}><summary>{text(summary)}</summary>{inner}</details>")


def joined(*parts: object) -> Markup:
    return Markup(" ".join(text(part) for part in parts))


def chart(lines: Sequence[tuple[str, Sequence[float]]], width: int = 420, height: int = 120) -> Markup:
    """Lines over their index as one SVG, with their names; without NaN and infinity."""
    finite = [[(i, y) for i, y in enumerate(values) if abs(y) < float("inf")] for _, values in lines]
    heights = [y for points in finite for _, y in points]
    if not heights or max(map(len, finite)) < 2:
        return Markup("")
    low, high = min(heights), max(heights)
    last = max(i for points in finite for i, _ in points)
    scale = (height - 10) / (high - low or 1.0)
    drawn = []
    for number, ((name, _), points) in enumerate(zip(lines, finite, strict=True)):
        path = " ".join(f"{5 + i * (width - 10) / last:.1f},{height - 5 - (y - low) * scale:.1f}" for i, y in points)
        color = ("#d9480f", "#1c7ed6", "#2b8a3e", "#862e9c")[number % 4]
        drawn.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{path}"/>')
        drawn.append(f'<text x="{width}" y="{14 + 14 * number}" fill="{color}" font-size="12">{text(name)}</text>')
    head = f'<svg role="img" viewBox="0 0 {width + 90} {height}" style="max-width:{width + 90}px;width:100%">'
    return Markup(f"{head}{''.join(drawn)}</svg>")
