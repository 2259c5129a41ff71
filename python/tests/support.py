"""What tests of the package share: the source tree, small networks, and a reader of PNGs."""

import os
import struct
import zlib

import numpy

import headroom

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TINY = os.path.join(ROOT, "tests", "goldens", "flux", "tiny-guidance")
FASHION = os.path.join(ROOT, "models", "fashion-flux")
#: Of tests that compare with the program or with PyTorch.
DEVICE = os.environ.get("HEADROOM_TEST_DEVICE", "cpu")


def tiny_network(device="cpu", **options):
    return headroom.Component(TINY, device, **options)


def tiny_shapes(network):
    return network.input_shapes(height=32, width=48, text_tokens=3)


def tiny_session(device="cpu", optimize="lossless"):
    network = tiny_network(device)
    return headroom.Session(network.compile(tiny_shapes(network), optimize=optimize))


def random_inputs(session, seed=0):
    random = numpy.random.default_rng(seed)
    return {
        name: random.standard_normal(shape).astype(numpy.float32)
        for name, (_, shape) in session.compiled.inputs.items()
    }


def read_png(path_or_bytes):
    """The pixels of a PNG whose rows have Paeth's filter, as headroom writes them."""
    data = path_or_bytes
    if not isinstance(data, bytes):
        with open(path_or_bytes, "rb") as file:
            data = file.read()
    at, compressed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at + 8 : at + 8 + size]
        at += 12 + size
        if kind == b"IHDR":
            width, height, _, color = struct.unpack(">IIBB", chunk[:10])
        if kind == b"IDAT":
            compressed += chunk
    channels = 1 if color == 0 else 3
    rows, bytes_of_row = zlib.decompress(compressed), width * channels
    pixels = numpy.zeros((height + 1, bytes_of_row), numpy.int64)
    for y in range(height):
        row = rows[y * (bytes_of_row + 1) : (y + 1) * (bytes_of_row + 1)]
        assert row[0] == 4, "Paeth's filter"
        for i in range(bytes_of_row):
            left = pixels[y + 1, i - channels] if i >= channels else 0
            corner = pixels[y, i - channels] if i >= channels else 0
            above = pixels[y, i]
            guess = left + above - corner
            distances = abs(guess - left), abs(guess - above), abs(guess - corner)
            nearest = (left, above, corner)[distances.index(min(distances))]
            pixels[y + 1, i] = (row[i + 1] + nearest) & 255
    return pixels[1:].reshape(height, width, channels).astype(numpy.uint8)
