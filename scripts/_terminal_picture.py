"""What a program sent to its terminal, as an animated SVG.

A frame is the screen at one moment, a row of it a few runs of one style. Rows that are the same
in several frames are drawn once and used by reference; the frames stand side by side on a film
that moves on by one width at each frame's time (CSS, so it plays inside an `<img>` too).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import pyte
import pyte.graphics

FRAME_S: Final = 0.1
CELL: Final = (8.4, 18.0)
"""Width and height of a character cell, in the picture's units."""

MARGIN: Final = 10
_FONT: Final = "'Fira Code','DejaVu Sans Mono',Menlo,Consolas,monospace"
_DEFAULT: Final = {"foreground": "e0e0e0", "background": "121212"}

# pyte knows no faint text and the chat never blinks, so the one stands for the other here.
pyte.graphics.TEXT[2] = "+blink"


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes that the program sent, and when, in seconds."""

    at: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Look:
    """Colours as six hexadecimal digits, and what else is done to letters."""

    foreground: str
    background: str
    bold: bool
    italic: bool
    underlined: bool
    struck: bool


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring cells of one look; `cells` differs from the text's length where letters are wide."""

    column: int
    cells: int
    text: str
    look: Look


Row = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """The screen from the second `at` on."""

    at: float
    rows: tuple[Row, ...]

    @property
    def text(self) -> list[str]:
        return ["".join(run.text for run in row) for row in self.rows]


def frames_of(outputs: Sequence[Output], size: tuple[int, int], *, last_only: bool = False) -> list[Frame]:
    """The screens that differ, at most one in `FRAME_S` seconds; always the last one."""
    columns, lines = size
    screen = pyte.Screen(columns, lines)
    stream = pyte.ByteStream(screen)
    frames: list[Frame] = []
    for index, output in enumerate(outputs):
        stream.feed(output.data)
        is_last = index + 1 == len(outputs)
        tick = int(output.at / FRAME_S)
        if not is_last and (last_only or int(outputs[index + 1].at / FRAME_S) == tick):
            continue
        frame = Frame(tick * FRAME_S, tuple(_row(screen, y) for y in range(lines)))
        if not frames or frame.rows != frames[-1].rows:
            frames.append(frame)
    return frames or [Frame(0.0, ())]


def _row(screen: pyte.Screen, y: int) -> Row:
    line = screen.buffer[y]
    runs: list[Run] = []
    cells = ((x, line[x]) for x in range(screen.columns))
    for look, group in groupby(cells, key=lambda cell: _look(cell[1])):
        run = list(group)
        runs.append(Run(run[0][0], len(run), "".join(cell.data for _, cell in run), look))
    return tuple(runs)


def _look(cell: pyte.screens.Char) -> Look:
    colours = [
        _DEFAULT[ground] if colour == "default" else colour
        for ground, colour in (("foreground", cell.fg), ("background", cell.bg))
    ]
    foreground, background = reversed(colours) if cell.reverse else colours
    if cell.blink:
        foreground = _blended(foreground, background)
    return Look(foreground, background, cell.bold, cell.italics, cell.underscore, cell.strikethrough)


def _blended(one: str, other: str) -> str:
    """The colour between two."""
    pairs = zip(bytes.fromhex(one), bytes.fromhex(other), strict=True)
    return bytes((a + b) // 2 for a, b in pairs).hex()


def animated_svg(frames: Sequence[Frame], size: tuple[int, int], hold_s: float, title: str) -> str:
    """The frames as an endless film; the last one stands for `hold_s` seconds longer."""
    width, height = round(size[0] * CELL[0] + 2 * MARGIN), round(size[1] * CELL[1] + 2 * MARGIN)
    rows = list(dict.fromkeys(row for frame in frames for row in frame.rows if not _is_blank(row)))
    looks = list(dict.fromkeys(run.look for row in rows for run in row))
    number = {row: index for index, row in enumerate(rows)}
    total = frames[-1].at + hold_s
    film = [
        f"{100 * frame.at / total:.3f}%{{transform:translateX({-index * width}px)}}"
        for index, frame in enumerate(frames)
    ]
    film.append(f"100%{{transform:translateX({-(len(frames) - 1) * width}px)}}")
    styles = [f".c{index}{{{_css(look)}}}" for index, look in enumerate(looks)]
    classes = {look: f"c{index}" for index, look in enumerate(looks)}
    return "".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        f' width="{width}" height="{height}">\n',
        f"<title>{html.escape(title)}</title>\n<style>\n",
        f"text{{font:14px {_FONT};white-space:pre;fill:#{_DEFAULT['foreground']}}}\n",
        "".join(styles), "\n",
        f"@keyframes film{{{''.join(film)}}}\n",
        f"#film{{animation:film {total:.2f}s steps(1,end) infinite}}\n",
        "@media (prefers-reduced-motion:reduce){#film{animation:none;",
        f"transform:translateX({-(len(frames) - 1) * width}px)}}}}\n</style>\n<defs>\n",
        *(f'<g id="r{index}">{_drawn(row, classes)}</g>\n' for row, index in number.items()),
        f'</defs>\n<rect width="100%" height="100%" rx="6" fill="#{_DEFAULT["background"]}"/>\n',
        '<g id="film">\n',
        *(_placed(frame, number, index * width) for index, frame in enumerate(frames)),
        "</g>\n</svg>\n",
    ])  # fmt: skip


def _is_blank(row: Row) -> bool:
    return all(not run.text.strip() and run.look.background == _DEFAULT["background"] for run in row)


def _css(look: Look) -> str:
    lines = " ".join(
        name for name, wanted in (("underline", look.underlined), ("line-through", look.struck)) if wanted
    )
    rules = [
        f"fill:#{look.foreground}" if look.foreground != _DEFAULT["foreground"] else "",
        "font-weight:bold" if look.bold else "",
        "font-style:italic" if look.italic else "",
        f"text-decoration:{lines}" if lines else "",
    ]
    return ";".join(filter(None, rules))


def _drawn(row: Row, classes: dict[Look, str]) -> str:
    """A row at the top left: grounds first, so that no letter is cut by its neighbour's."""
    grounds = [
        f'<rect x="{_x(run.column)}" width="{run.cells * CELL[0]:.5g}" height="{CELL[1]:g}" '
        f'fill="#{run.look.background}"/>'
        for run in row
        if run.look.background != _DEFAULT["background"]
    ]
    texts = []
    for run in row:
        text = run.text.rstrip() if not (run.look.underlined or run.look.struck) else run.text
        lead = len(text) - len(text.lstrip()) if not (run.look.underlined or run.look.struck) else 0
        if text := text[lead:]:
            cells = run.cells - lead - (len(run.text) - lead - len(text))
            texts.append(
                f'<text class="{classes[run.look]}" x="{_x(run.column + lead)}" y="13.5" '
                f'textLength="{cells * CELL[0]:.5g}">{html.escape(text, quote=False)}</text>'
            )
    return "".join(grounds + texts)


def _placed(frame: Frame, number: dict[Row, int], x: int) -> str:
    uses = (
        f'<use href="#r{number[row]}" y="{MARGIN + index * CELL[1]:g}"/>'
        for index, row in enumerate(frame.rows)
        if row in number
    )
    return f'<g transform="translate({x} 0)">{"".join(uses)}</g>\n'


def _x(column: int) -> str:
    return f"{MARGIN + column * CELL[0]:.5g}"
