"""What N shards carry, as one picture."""

import math
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 900, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 220, 60, 50

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 11px; fill: #59636e; }
.title { font-size: 15px; font-weight: 600; }
.grid { stroke: #d1d9e0; }
.by_key { stroke: #1a7f37; fill: none; stroke-width: 2.5; }
.by_tenant { stroke: #0969da; fill: none; stroke-width: 2.5; }
.hot_tenants { stroke: #cf222e; fill: none; stroke-width: 2.5; }
.page { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .small { fill: #9198a1; }
  .grid { stroke: #3d444d; }
  .page { fill: #0d1117; }
}
"""

LINES = {"by_key": "by key", "by_tenant": "by tenant, little skew",
         "hot_tenants": "by tenant, much skew"}


class Scale:
    """Logarithmic, from the first to the last decade of the values."""

    def __init__(self, values, start, end):
        self._low, self._high = math.log10(min(values)), math.log10(max(values))
        self._start, self._end = start, end

    def __call__(self, value):
        share = (math.log10(value) - self._low) / max(self._high - self._low, 1e-9)
        return self._start + share * (self._end - self._start)

    def decades(self):
        return [10 ** power for power in range(math.ceil(self._low - 1e-9),
                                               math.floor(self._high + 1e-9) + 1)]


def _grid(rows, across, up):
    lines = []
    for value in up.decades():
        y = up(value)
        lines += [f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}"'
                  f' y2="{y:.1f}"/>',
                  f'<text class="small" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
                  f"{value:,}/s</text>"]
    for row in rows:
        lines.append(f'<text class="small" x="{across(row.shards):.1f}" y="{_HEIGHT - 28}"'
                     f' text-anchor="middle">{row.shards}</text>')
    return lines


def chart(rows, caption):
    """An SVG: calls per second by the number of shards, both logarithmic."""
    values = [getattr(row, name) for row in rows for name in LINES]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    across = Scale([row.shards for row in rows], _LEFT, _WIDTH - _RIGHT)
    up = Scale([low, high], _HEIGHT - _BOTTOM, _TOP)
    lines = _grid(rows, across, up)
    for index, (name, label) in enumerate(LINES.items()):
        points = " ".join(f"{across(row.shards):.1f},{up(getattr(row, name)):.1f}" for row in rows)
        y = _TOP + 20 * index + 8
        lines += [f'<polyline class="{name}" points="{points}"/>',
                  f'<line class="{name}" x1="{_WIDTH - _RIGHT + 16}" x2="{_WIDTH - _RIGHT + 40}"'
                  f' y1="{y}" y2="{y}"/>',
                  f'<text x="{_WIDTH - _RIGHT + 48}" y="{y + 4}">{escape(label)}</text>']
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' role="img" aria-label="{escape(caption)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{_HEIGHT}"/>',
        '<text class="title" x="16" y="26">Calls per second that N shards carry, planned</text>',
        f'<text class="small" x="16" y="44">{escape(caption)}</text>',
        *lines,
        f'<text class="small" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 10}"'
        ' text-anchor="middle">shards</text>', "</svg>"]) + "\n"
