"""The measures as one picture."""

import math
from xml.sax.saxutils import escape

from .rounds import number

_WIDTH = 900
_LEFT = 330
_RIGHT = 200
_ROW = 34
_TOP = 64
# Shown: from a quarter of the wanted value to four times as much.
_REACH = 2.0

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 11px; fill: #59636e; }
.title { font-size: 15px; font-weight: 600; }
.met { fill: #1a7f37; }
.missed { fill: #cf222e; }
.met-line { stroke: #1a7f37; }
.missed-line { stroke: #cf222e; }
.want { stroke: #59636e; stroke-dasharray: 4 3; }
.page { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .small { fill: #9198a1; }
  .page { fill: #0d1117; }
}
"""


def score(value, outcome):
    """How well: 1 is exactly the wanted value, 2 twice as good."""
    value = max(value, 1e-9)
    return value / outcome["want"] if outcome["at_least"] else outcome["want"] / value


def position(scored):
    """The position of a score, on a logarithmic scale that ends at both sides."""
    exponent = max(-_REACH, min(_REACH, math.log2(max(scored, 1e-9))))
    width = _WIDTH - _LEFT - _RIGHT
    return _LEFT + width * (exponent + _REACH) / (2 * _REACH)


def _row(index, key, outcome):
    y = _TOP + index * _ROW + _ROW // 2
    kind = "met" if outcome["met"] else "missed"
    low, high = sorted(position(score(outcome[end], outcome)) for end in ("min", "max"))
    unit = "" if outcome["unit"] == "x" else " " + outcome["unit"]
    sign = "≥" if outcome["at_least"] else "≤"
    return [
        f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(key)}</text>',
        f'<line class="{kind}-line" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"'
        ' stroke-width="3" stroke-linecap="round"/>',
        f'<circle class="{kind}" cx="{position(score(outcome["median"], outcome)):.1f}" cy="{y}"'
        ' r="5.5"/>',
        f'<text x="{_WIDTH - _RIGHT + 12}" y="{y + 4}">{number(outcome["median"])}{unit}'
        f'<tspan class="small" dx="8">wanted {sign} {number(outcome["want"])}{unit}</tspan></text>',
    ]


def chart(outcomes, caption):
    """An SVG: one row per measure, further right is better."""
    height = _TOP + _ROW * len(outcomes) + 30
    bottom = height - 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        f' role="img" aria-label="{escape(caption)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>',
        '<text class="title" x="16" y="26">Measured, against what is wanted</text>',
        f'<text class="small" x="16" y="44">{escape(caption)}</text>',
    ]
    for exponent in range(-int(_REACH), int(_REACH) + 1):
        x = position(2.0**exponent)
        label = "as wanted" if exponent == 0 else (
            f"{2**exponent} x better" if exponent > 0 else f"{2**-exponent} x worse")
        if exponent == 0:
            lines.append(f'<line class="want" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}"'
                         f' y2="{bottom}"/>')
        lines.append(f'<text class="small" x="{x:.1f}" y="{height - 12}" text-anchor="middle">'
                     f"{label}</text>")
    for index, (key, outcome) in enumerate(outcomes.items()):
        lines += _row(index, key, outcome)
    return "\n".join(lines + ["</svg>"]) + "\n"
