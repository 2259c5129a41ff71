#!/usr/bin/env python3
"""Writes a moving y4m video of random colours to standard output, as fast as it is read: WIDTH HEIGHT FPS FRAMES."""

import random
import sys


def main():
    width, height, fps, frames = map(int, sys.argv[1:5])
    chroma = ((width + 1) // 2) * ((height + 1) // 2)
    generator = random.Random(0)
    pixels = generator.randbytes(width * height + 2 * chroma)
    out = sys.stdout.buffer
    out.write(f"YUV4MPEG2 W{width} H{height} F{fps}:1 Ip A1:1 C420jpeg\n".encode())
    for number in range(frames):
        shift = 3 * number % len(pixels)
        out.write(b"FRAME\n" + pixels[shift:] + pixels[:shift])


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(1)
