#!/usr/bin/env python3
"""Writes tests/goldens/media/live_ink.png by bench/live_ink.py; src/media's scenes and inks are compared with it.

    python3 tests/goldens/make_live_ink.py

A row is a clip, of the seeds below; in it are its frames, of the numbers below, and then what each of them is in ink.
Needs PyTorch alone.
"""

import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench"))

import live_ink
from png_files import write_png

SEEDS = (1, 7, 4_000_000_000)
FRAMES = (0, 41)


def main():
    scenes = torch.cat([live_ink.scenes(torch.tensor(SEEDS), frame, 1) for frame in FRAMES], dim=1)
    scenes = (scenes * 255).round() / 255
    shown = torch.cat([scenes, live_ink.ink(scenes)], dim=1)  # [seeds, frames and their inks, 3, h, w]
    rows = [torch.cat(list(row), dim=2) for row in shown]
    write_png(os.path.join(HERE, "media", "live_ink.png"), torch.cat(rows, dim=1))


if __name__ == "__main__":
    main()
