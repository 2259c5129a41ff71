#!/usr/bin/env python3
"""make_flip.py: prints the mean FLIP errors that src/measure/quality/flip_test.cpp expects for its pictures.

By the authors' own implementation. Needs: pip install flip-evaluator==1.7 numpy
"""

import flip_evaluator
import numpy


def pictures(kind, height, width):
    """The pictures of PictureOf in flip_test.cpp: a reference and another one, bytes [height, width, 3]."""
    y, x, c = numpy.meshgrid(range(height), range(width), range(3), indexing="ij")
    texture = (7 * x + 13 * y + 50 * c + 5 * ((x * y) % 17)) % 256
    disc = numpy.where((x - width // 2) ** 2 + (y - height // 2) ** 2 < (height // 3) ** 2, 200 - 60 * c, 40 + 30 * c)
    moved = numpy.where((x - width // 2 - 2) ** 2 + (y - height // 2) ** 2 < (height // 3) ** 2, 200 - 60 * c,
                        40 + 30 * c)
    noise = (x * x + 3 * y + 11 * c) % 23 - 11
    return {
        "noise": (disc, disc + noise),
        "moved": (disc, moved),
        "texture": (texture, 255 - texture),
        "grey": (disc[..., :1].repeat(3, 2), (disc + noise)[..., :1].repeat(3, 2)),
        "equal": (texture, texture),
    }[kind]


for kind, height, width, pixels_per_degree in [("noise", 48, 64, 67.0206), ("moved", 48, 64, 67.0206),
                                               ("texture", 33, 21, 67.0206), ("grey", 48, 64, 67.0206),
                                               ("moved", 48, 64, 30), ("equal", 33, 21, 67.0206)]:
    reference, other = (numpy.clip(each, 0, 255).astype(numpy.float32) / 255 for each in pictures(kind, height, width))
    _, mean, _ = flip_evaluator.evaluate(reference, other, "LDR", inputsRGB=True, applyMagma=False,
                                         computeMeanError=True, parameters={"ppd": pixels_per_degree})
    print(f'{{"{kind}", {height}, {width}, {pixels_per_degree}, {mean:.7f}}},')
