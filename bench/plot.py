"""Reports of the comparison as a picture: output tokens a second against the number of clients. Plain SVG, light and dark."""
from xml.sax.saxutils import escape

import table

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 48, 62
STYLE = """:root{--paper:#fff;--ink:#1b1f24;--faint:#d4d8dd;--c0:#1769aa;--c1:#c2570c}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e4e7eb;--faint:#3a4048;--c0:#6db3f2;--c1:#f2a45c}}
text{font:12px system-ui,sans-serif;fill:var(--ink)}.head{font-weight:600;font-size:13px}.small{font-size:10px}
.paper{fill:var(--paper)}.grid{stroke:var(--faint)}path{fill:none;stroke-width:2}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.f0{fill:var(--c0)}.f1{fill:var(--c1)}"""


def ticks(most):
    """Round numbers from 0 to what is shown, four to eight of them."""
    step = next(m * 10**p for p in range(-3, 9) for m in (1, 2, 5) if most / (m * 10**p) <= 7)
    return [i * step for i in range(int(most / step) + 1)]


def text(x, y, words, anchor="middle", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def svg(reports, levels, command):
    """One line a server, over the numbers of clients; of several rounds the best, as in the table."""
    rates = {name: [table.best(reports[name][level])["output_tokens_per_s"] for level in levels] for name in reports}
    most = max(max(line) for line in rates.values()) or 1
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    x = lambda clients: LEFT + clients / max(levels) * (right - LEFT)
    y = lambda rate: bottom - rate / most * (bottom - TOP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"><style>{STYLE}</style>',
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        text(LEFT, 18, "Output against clients", "start", "head"),
        text(14, 0, "tokens a second").replace("<text ", f'<text transform="translate(0 {(TOP + bottom) / 2:.0f}) rotate(-90 14 0)" '),
        text((LEFT + right) / 2, bottom + 34, "clients at once"),
        text(right, HEIGHT - 8, command, "end", "small"),
    ]
    for rate in ticks(most):
        out.append(f'<line class="grid" x1="{LEFT}" y1="{y(rate):.1f}" x2="{right}" y2="{y(rate):.1f}"/>' + text(LEFT - 6, y(rate) + 4, f"{rate:g}", "end"))
    for level in levels:
        out.append(f'<line class="grid" x1="{x(level):.1f}" y1="{TOP}" x2="{x(level):.1f}" y2="{bottom}"/>' + text(x(level), bottom + 16, str(level)))
    for i, (name, line) in enumerate(rates.items()):
        points = list(zip(map(x, levels), map(y, line)))
        out.append(f'<path class="s{i}" d="M' + "L".join(f"{px:.1f} {py:.1f}" for px, py in points) + '"/>')
        out += [
            f'<circle class="f{i}" cx="{px:.1f}" cy="{py:.1f}" r="3.5"><title>{escape(name)}: {rate:.1f} at {level}</title></circle>'
            for (px, py), rate, level in zip(points, line, levels)
        ]
        out.append(f'<path class="s{i}" d="M{LEFT + 170 * i} 34h20"/>' + text(LEFT + 170 * i + 25, 38, name, "start"))
    return "\n".join(out) + "</svg>\n"
