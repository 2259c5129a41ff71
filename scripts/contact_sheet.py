#!/usr/bin/env python3
"""contact_sheet.py OUT.svg TOP LABEL=GRID.png...: grids of small pictures as `headroom run` writes them, one below the
other with their labels, enlarged without smoothing. TOP is the text above the columns, separated by commas. The SVG
holds the pictures.
"""

import base64
import html
import pathlib
import struct
import sys

SCALE = 3  # pixels of the sheet for one of a picture
LABELS = 165  # pixels for the rows' labels
LINE = 26  # pixels for the text above the columns
GAP = 6
STYLE = ("text { font: 15px -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328 } image { image-rendering: pixelated }"
         " @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }")


def read_grid(path):
    data = path.read_bytes()
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise SystemExit(f"contact_sheet.py: {path} is no PNG")
    return data, struct.unpack(">II", data[16:24])


def text(x, y, words, anchor):
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{html.escape(words)}</text>'


def sheet(top, rows):
    width = max(size[0] for _, _, size in rows) * SCALE
    parts = [text(LABELS + width * (column + 0.5) / len(top), LINE - 9, words, "middle") for column, words in enumerate(top)]
    y = LINE
    for label, data, (grid_width, grid_height) in rows:
        parts.append(text(LABELS - 12, y + grid_height * SCALE / 2 + 5, label, "end"))
        parts.append(f'<image x="{LABELS}" y="{y}" width="{grid_width * SCALE}" height="{grid_height * SCALE}" '
                     f'href="data:image/png;base64,{base64.b64encode(data).decode()}"/>')
        y += grid_height * SCALE + GAP
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LABELS + width} {y - GAP}" width="{LABELS + width}" '
                      f'height="{y - GAP}">', f"<style>{STYLE}</style>", *parts, "</svg>\n"])


def main():
    if len(sys.argv) < 4 or not all("=" in argument for argument in sys.argv[3:]):
        raise SystemExit(__doc__.split("\n\n")[0])
    pairs = (argument.rsplit("=", 1) for argument in sys.argv[3:])
    rows = [(label, *read_grid(pathlib.Path(path))) for label, path in pairs]
    pathlib.Path(sys.argv[1]).write_text(sheet(sys.argv[2].split(","), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
