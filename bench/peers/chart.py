"""The alternatives as one picture."""

from xml.sax.saxutils import escape

_WIDTH = 900
_LEFT = 230
_RIGHT = 90
_BAR = 15
_GAP = 26
_TOP = 64
_FOOT = 16

# Title, load, number, and whether less is better.
PANELS = [
    ("First calls per second, 64 in flight (more is better)", "first/64", "per_second"),
    ("Replays of distinct keys per second, 64 in flight (more is better)", "replay/64",
     "per_second"),
    ("Replays of one hot key per second, 64 in flight (more is better)", "hot/64", "per_second"),
    ("A lone first call: median, and p99 (less is better)", "first/1", "p50_us"),
]

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 11px; fill: #59636e; }
.title { font-size: 15px; font-weight: 600; }
.ours { fill: #1a7f37; }
.other { fill: #8c959f; }
.reach { stroke: #59636e; }
.page { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .small { fill: #9198a1; }
  .page { fill: #0d1117; }
}
"""

OURS = ("guarded", "embedded")


def length(value, largest):
    """Of a bar, in pixels."""
    return (_WIDTH - _LEFT - _RIGHT) * value / max(largest, 1e-9)


def _label(field, number):
    median = number["median"]
    return f"{median:,.0f}" if field == "per_second" else f"{median / 1000:.2f} ms"


def _ends(loads, load, field):
    """The ends of a bar's thin line: the spread of the rounds, or from the median to the p99."""
    number = loads[load][field]
    if field == "p50_us":
        return number["median"], loads[load]["p99_us"]["median"]
    return number["min"], number["max"]


def _panel(contenders, panel, top):
    title, load, field = panel
    rows = [(key, one) for key, one in contenders.items() if load in one["loads"]]
    largest = max(max(_ends(one["loads"], load, field)) for _, one in rows)
    lines = [f'<text x="16" y="{top}">{escape(title)}</text>']
    for index, (key, one) in enumerate(rows):
        y = top + 12 + index * _GAP
        number = one["loads"][load][field]
        low, high = (_LEFT + length(end, largest) for end in _ends(one["loads"], load, field))
        width = length(number["median"], largest)
        kind = "ours" if key in OURS else "other"
        lines += [
            f'<text class="small" x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">'
            f'{escape(one["title"])}</text>',
            f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}"/>',
            f'<line class="reach" x1="{low:.1f}" x2="{high:.1f}" y1="{y + _BAR / 2}"'
            f' y2="{y + _BAR / 2}"/>',
            f'<text class="small" x="{max(high, _LEFT + width) + 6:.1f}" y="{y + 12}">'
            f"{_label(field, number)}</text>"]
    return lines, top + 12 + len(rows) * _GAP + _GAP


def chart(contenders, caption):
    """An SVG with a panel for each load."""
    top, body = _TOP + 12, []
    for panel in PANELS:
        if any(panel[1] in one["loads"] for one in contenders.values()):
            lines, top = _panel(contenders, panel, top)
            body += lines
    height = top - _GAP + _FOOT
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        f' role="img" aria-label="{escape(caption)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>',
        '<text class="title" x="16" y="26">Beside the alternatives</text>',
        f'<text class="small" x="16" y="44">{escape(caption)}</text>',
        *body, "</svg>"]) + "\n"
