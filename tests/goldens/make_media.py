"""Writes tests/goldens/media with Pillow (Debian's python3-pil): pictures of many kinds, what they are to be read as, and resizes.

    python3 tests/goldens/make_media.py

- pictures/    one file a kind of PNG or JPEG; PNGs that Pillow cannot write are written here
- pictures.json    of each picture that Pillow reads: width, height and RGB bytes in hexadecimal, as diffusers' load_image gives them
- resize/      NAME.png, and NAME_WxH.png, which is NAME.png resized by Image.resize(..., LANCZOS)

The same Pillow and libjpeg give the same files: all that is random is drawn from a fixed seed. src/media/*_test.cpp read them.
"""

import io
import json
import pathlib
import random
import struct
import zlib

from PIL import Image, ImageOps, PngImagePlugin

FOLDER = pathlib.Path(__file__).parent / "media"
WIDTH, HEIGHT = 13, 9
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]  # x, y and their steps

draw = random.Random(11)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def packed(samples, depth):
    """A row of samples as PNG has it: each of `depth` bits, the first one highest, with zeros to the end of a byte."""
    bits = "".join(format(sample, f"0{depth}b") for sample in samples)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def png(color, depth, interlaced=False, before=(), after=(), most=None):
    """A PNG of random samples up to `most`; `before` and `after` are the chunks around its pixels."""
    most = (1 << depth) - 1 if most is None else most
    pixels = [[[draw.randint(0, most) for _ in range(CHANNELS[color])] for _ in range(WIDTH)] for _ in range(HEIGHT)]
    raw = b""
    for x, y, step_x, step_y in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        for row in pixels[y::step_y]:
            samples = sum(row[x::step_x], [])
            raw += b"\0" + packed(samples, depth) if samples else b""
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, color, 0, 0, int(interlaced))
    chunks = [(b"IHDR", header), *before, (b"IDAT", zlib.compress(raw)), *after, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*entry) for entry in chunks)


def palette(entries):
    return (b"PLTE", bytes(draw.randrange(256) for _ in range(3 * entries)))


def texts():
    """Chunks of each kind, as Pillow writes them."""
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", "first")
    info.add_text("Software", "second")
    info.add_text("plain", "caf\u00e9")
    info.add_text("squeezed", "a" * 500 + "\u00fc", zip=True)
    info.add_itxt("wide", "\u96e8 \u96e8", "ja", "\u5e83", zip=True)
    return [entry[:2] for entry in info.chunks]


def exif(orientation, order="<", tags_before=1):
    """A TIFF header and a directory with the orientation behind other tags."""
    begin = b"II*\0" if order == "<" else b"MM\0*"
    entry = order + "HHI"
    tags = [struct.pack(entry, 0x100 + i, 4, 1) + struct.pack(order + "I", 6) for i in range(tags_before)]
    tags += [struct.pack(entry, 0x112, 3, 1) + struct.pack(order + "HH", orientation, 0)]
    return begin + struct.pack(order + "IH", 8, len(tags)) + b"".join(tags) + struct.pack(order + "I", 0)


def scene(width, height, mode="RGB"):
    """Slopes, an edge and some noise."""
    def value(x, y, c):
        level = 255 * x / width if c == 0 else 255 * y / height if c == 1 else 255 * (2 * x > y)
        return min(255, max(0, int(level) + draw.randint(-20, 20)))

    channels = len(mode)
    data = bytes(value(x, y, c) for y in range(height) for x in range(width) for c in range(channels))
    return Image.frombytes(mode, (width, height), data)


def jpeg(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


def adobe_rgb(image):
    """A JPEG whose three channels are RGB rather than YCbCr, which a segment of Adobe's says: `image` as if it were YCbCr."""
    ycbcr = Image.frombytes("YCbCr", image.size, image.tobytes())
    file = jpeg(ycbcr, subsampling=0)
    end_of_jfif = 4 + struct.unpack(">H", file[4:6])[0]
    return file[:2] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0" + file[end_of_jfif:]


def make_pictures():
    pictures = {f"gray{depth}.png": png(GRAY, depth) for depth in (1, 2, 4, 8, 16)}
    pictures |= {f"palette{depth}.png": png(PALETTE, depth, before=[palette(1 << depth)]) for depth in (1, 2, 4, 8)}
    pictures |= {f"{name}{depth}.png": png(color, depth)
                 for name, color in [("rgb", RGB), ("gray_alpha", GRAY_ALPHA), ("rgba", RGBA)] for depth in (8, 16)}
    pictures |= {
        "gray16_dark.png": png(GRAY, 16, most=300),
        "gray16_interlaced.png": png(GRAY, 16, interlaced=True, most=300),
        "gray1_interlaced.png": png(GRAY, 1, interlaced=True),
        "palette2_interlaced.png": png(PALETTE, 2, interlaced=True, before=[palette(4)]),
        "rgba16_interlaced.png": png(RGBA, 16, interlaced=True),
        "palette8_short.png": png(PALETTE, 8, before=[palette(7)], most=6),
        "palette4_transparent.png": png(PALETTE, 4, before=[palette(16), (b"tRNS", bytes(range(0, 256, 32)))]),
        "gray8_transparent.png": png(GRAY, 8, before=[(b"tRNS", b"\0\0")], most=3),
        "rgb8_transparent.png": png(RGB, 8, before=[(b"tRNS", bytes(6))], most=1),
        "gray4_gamma.png": png(GRAY, 4, before=[(b"gAMA", struct.pack(">I", 100000))]),
        "rgb8_gamma.png": png(RGB, 8, before=[(b"gAMA", struct.pack(">I", 100000)), (b"bKGD", bytes(6))]),
        "rgb8_exif.png": png(RGB, 8, before=[(b"eXIf", exif(6, ">"))]),
        "rgb8_exif_behind.png": png(RGB, 8, after=[(b"eXIf", exif(8, "<", 3))]),
        "texts.png": png(RGB, 8, before=texts(), after=[(b"tEXt", b"behind\0the pixels")]),
        "text_not_utf8.png": png(RGB, 8, before=[(b"iTXt", b"bad\0\0\0\0\0caf\xe9")]),
        "gray.jpg": jpeg(scene(WIDTH, HEIGHT, "L")),
        "rgb.jpg": adobe_rgb(scene(WIDTH, HEIGHT)),
        "progressive.jpg": jpeg(scene(19, 35), progressive=True),
        "gray_progressive.jpg": jpeg(scene(19, 35, "L"), progressive=True),
        "cmyk.jpg": jpeg(scene(WIDTH, HEIGHT).convert("CMYK")),
        "dot.jpg": jpeg(scene(1, 1)),
    }
    pictures |= {f"subsampling{i}.jpg": jpeg(scene(35, 19), subsampling=i) for i in range(3)}
    for orientation in range(1, 10):
        segment = b"Exif\0\0" + exif(orientation, "<>"[orientation % 2])
        pictures[f"orientation{orientation}.jpg"] = jpeg(scene(WIDTH, HEIGHT), exif=segment)

    folder = FOLDER / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    read_as = {}
    for name, content in sorted(pictures.items()):
        (folder / name).write_bytes(content)
        if name == "cmyk.jpg":
            continue
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
        read_as[name] = {"width": image.width, "height": image.height, "rgb": image.tobytes().hex()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in read_as.items())
    (FOLDER / "pictures.json").write_text(f"{{\n{lines}\n}}\n")


def edges(width, height):
    """Blocks of black and white, whose resizes overshoot both."""
    data = bytes(255 * draw.getrandbits(1) for _ in range(width * height * 3))
    return Image.frombytes("RGB", (width, height), data)


def make_resizes():
    sizes = {
        "scene": (scene(61, 47), [(122, 94), (61, 20), (30, 47), (64, 64), (7, 5), (1, 1), (1, 90), (90, 1), (60, 46), (62, 48), (61, 47)]),
        "edges": (edges(33, 20), [(100, 61), (20, 12), (32, 19), (16, 40), (33, 10), (2, 3)]),
        "dot": (scene(1, 1), [(1, 1), (5, 3)]),
        "row": (scene(50, 1), [(13, 1), (111, 2)]),
        "column": (scene(1, 50), [(1, 13), (3, 77)]),
        "wide": (scene(2000, 3), [(3, 3), (1, 4)]),
    }
    folder = FOLDER / "resize"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (image, targets) in sizes.items():
        image.save(folder / f"{name}.png", optimize=True)
        for width, height in targets:
            image.resize((width, height), Image.LANCZOS).save(folder / f"{name}_{width}x{height}.png", optimize=True)


if __name__ == "__main__":
    make_pictures()
    make_resizes()
