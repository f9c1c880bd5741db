"""Line plots as SVG, without a library: axes, a few ticks, a legend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 32, 40, 48
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")


@dataclass(frozen=True)
class Axis:
    """``log``: powers of ten; every value must then be above 0."""

    label: str
    log: bool = False


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    log: bool
    start: float
    end: float

    def at(self, value: float) -> float:
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            return [10.0**n for n in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)]
        step = 10 ** math.floor(math.log10((self.high - self.low) or 1.0))
        while (self.high - self.low) / step < 4:
            step /= 2
        first = math.ceil(self.low / step)
        return [n * step for n in range(first, math.floor(self.high / step) + 1)]


def _scale(values: Sequence[float], axis: Axis, start: float, end: float) -> _Scale:
    low, high = min(values), max(values)
    if axis.log:
        return _Scale(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)), True, start, end)
    return _Scale(min(0.0, low), high, False, start, end)


def save(path: Path, picture: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(picture, encoding="utf-8")


def svg(title: str, x: Axis, y: Axis, lines: Mapping[str, Points], *, marks: bool = False) -> str:
    """``lines``: name → points in order. ``marks``: a dot at each point."""
    points = [point for line in lines.values() for point in line]
    across = _scale([px for px, _ in points], x, LEFT, WIDTH - RIGHT)
    up = _scale([py for _, py in points], y, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
        *_axes(across, up, x, y),
    ]
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{across.at(px):.1f},{up.at(py):.1f}" for px, py in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if marks:
            parts += [
                f'<circle cx="{across.at(px):.1f}" cy="{up.at(py):.1f}" r="3" fill="{colour}"/>' for px, py in line
            ]
        legend = TOP + 14 + 16 * number
        parts.append(f'<rect x="{LEFT + 12}" y="{legend - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 28}" y="{legend}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(across: _Scale, up: _Scale, x: Axis, y: Axis) -> list[str]:
    bottom = HEIGHT - BOTTOM
    parts = [f'<path d="M{LEFT},{TOP} V{bottom} H{WIDTH - RIGHT}" fill="none" stroke="#444"/>']
    for tick in across.ticks():
        at = across.at(tick)
        parts.append(f'<path d="M{at:.1f},{bottom} v4" stroke="#444"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
    for tick in up.ticks():
        at = up.at(tick)
        parts.append(f'<path d="M{LEFT},{at:.1f} H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.label)}</text>')
    parts.append(f'<text x="14" y="{TOP - 8}">{escape(y.label)}</text>')
    return parts
