"""Writes the seed files of y4m_fuzz into tests/fuzz/y4m: run it without arguments, anywhere.

Files called valid_* are valid; every other one shows one kind of damage, which its name tells.
"""

import pathlib

FOLDER = pathlib.Path(__file__).parent / "y4m"
FRAME = b"FRAME\n" + bytes(range(6))


def stream(parameters, *frames):
    return b"YUV4MPEG2 " + parameters.encode() + b"\n" + b"".join(frames)


FILES = {
    "valid_ffmpeg": stream("W2 H2 F30:1 Ip A1:1 C420jpeg XYSCSS=420JPEG XCOLORRANGE=LIMITED", FRAME, FRAME),
    "valid_plain": stream("W2 H2", FRAME),
    "valid_full_range": stream("W2 H2 C420mpeg2 XCOLORRANGE=FULL", FRAME),
    "valid_dv": stream("W3 H3 F25:1 C420paldv", b"FRAME\n" + bytes(9 + 2 * 4)),
    "valid_422": stream("W2 H2 C422", b"FRAME Ip\n" + bytes(8)),
    "valid_444": stream("W1 H1 C444", b"FRAME\n\x51\x5a\xf0"),
    "valid_mono": stream("W70 H1 Cmono", b"FRAME\n" + bytes(70)),
    "no_frame": stream("W2 H2"),
    "cut_frame": stream("W2 H2", FRAME, FRAME[:-1]),
    "cut_line": stream("W2 H2", FRAME, b"FRA"),
    "two_streams": stream("W2 H2", FRAME, stream("W4 H4", FRAME)),
    "interlaced": stream("W2 H2 It", FRAME),
    "ten_bits": stream("W2 H2 C420p10", FRAME + FRAME),
    "large": stream("W99999 H99999", FRAME),
    "negative": stream("W-2 H2", FRAME),
    "no_rate": stream("W2 H2 F0:0", FRAME),
}

FOLDER.mkdir(exist_ok=True)
for name, content in FILES.items():
    (FOLDER / name).write_bytes(content)
