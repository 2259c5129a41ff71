"""Writes tests/goldens/media with Pillow (Debian's python3-pil): pictures of many kinds, their pixels, and resizes.

    python3 tests/goldens/make_media.py
    PYTHON tests/goldens/make_media.py turned

The second writes turned/ and turned.json alone, with Pillow 13.0.0: Debian's does not heed XMP in a JPEG.

- turned/      pictures whose metadata says how they were held, in the forms that Pillow heeds and in some others
- turned.json      what they are read as
- pictures/    one file a kind of PNG or JPEG; PNGs that Pillow cannot write are written here
- pictures.json    of each picture that Pillow reads: width, height and RGB bytes in hexadecimal, by load_image
- resize/      NAME.png, and NAME_WxH.png, which is NAME.png resized by Image.resize(..., LANCZOS)

The same Pillow and libjpeg give the same files: all that is random is drawn from a fixed seed. src/media/*_test.cpp
read them.
"""

import io
import json
import pathlib
import random
import struct
import sys
import zlib

from PIL import Image, ImageOps, PngImagePlugin

FOLDER = pathlib.Path(__file__).parent / "media"
WIDTH, HEIGHT = 13, 9
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
# x, y and their steps
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]

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
    """A JPEG whose three channels are RGB rather than YCbCr, as its Adobe segment says."""
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

    write_pictures("pictures", pictures)


def write_pictures(kind, pictures):
    folder = FOLDER / kind
    folder.mkdir(parents=True, exist_ok=True)
    read_as = {}
    for name, content in sorted(pictures.items()):
        (folder / name).write_bytes(content)
        if name == "cmyk.jpg":
            continue
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
        read_as[name] = {"width": image.width, "height": image.height, "rgb": image.tobytes().hex()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in read_as.items())
    (FOLDER / f"{kind}.json").write_text(f"{{\n{lines}\n}}\n")


def tiff(tag, kind, count, value, order="<", magic=None):
    """Exif of one tag, whose value lies behind the directory where it has more than four bytes."""
    begin = {"<": b"II*\0", ">": b"MM\0*"}[order] if magic is None else magic
    directory = struct.pack(order + "IHHHI", 8, 1, tag, kind, count)
    inline = len(value) <= 4
    return begin + directory + (value.ljust(4, b"\0") if inline else struct.pack(order + "I", 26)) + bytes(4) + (b"" if inline else value)


def xmp(orientation, form="attribute"):
    text = {"attribute": f'tiff:Orientation="{orientation}"', "element": f"><tiff:Orientation>{orientation}</tiff:Orientation><x:y",
            "single": f"tiff:Orientation='{orientation}'", "none": ""}[form]
    return (f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description {text}/>'
            "</rdf:RDF></x:xmpmeta>").encode()


def raw_profile(content, name="exif"):
    lines = [content.hex()[i:i + 72] for i in range(0, len(content.hex()), 72)]
    return f"\n{name}\n{len(content):8}\n".encode() + "\n".join(lines).encode() + b"\n"


def segment(content):
    return b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content


def make_turned():
    exif_name, xmp_name = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
    short = lambda value, order="<": tiff(0x112, 3, 1, struct.pack(order + "H", value), order)
    values = {  # how a value of 6 is written: type, count, bytes
        "byte": (1, 1, b"\6"), "ascii": (2, 2, b"6\0"), "long": (4, 1, struct.pack("<I", 6)), "undefined": (7, 1, b"\6"),
        "rational": (5, 1, struct.pack("<II", 12, 2)), "half_rational": (5, 1, struct.pack("<II", 13, 2)),
        "no_rational": (5, 1, struct.pack("<II", 6, 0)), "signed_byte": (6, 1, b"\6"), "signed_short": (8, 1, struct.pack("<h", 6)),
        "signed_long": (9, 1, struct.pack("<i", 6)), "negative": (8, 1, struct.pack("<h", -6)), "signed_rational": (10, 1, struct.pack("<ii", 18, 3)),
        "float": (11, 1, struct.pack("<f", 6)), "half_float": (11, 1, struct.pack("<f", 6.5)), "double": (12, 1, struct.pack("<d", 6)),
        "ifd": (13, 1, struct.pack("<I", 6)), "long8": (16, 1, struct.pack("<Q", 6)), "unknown_type": (99, 1, b"\6"),
        "two_shorts": (3, 2, struct.pack("<HH", 6, 8)), "three_shorts": (3, 3, struct.pack("<HHH", 6, 8, 3)), "no_shorts": (3, 0, b"\6"),
        "shorts_behind_the_end": (3, 300, struct.pack("<HHH", 6, 6, 6)), "zero": (3, 1, b"\0"), "nine": (3, 1, b"\x09"),
    }
    chunks = {f"exif_{name}": [(b"eXIf", tiff(0x112, *value))] for name, value in values.items()}
    chunks |= {f"exif_{name}_and_xmp": [*chunks[f"exif_{name}"], (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(8))]
               for name in ("byte", "no_shorts", "unknown_type", "shorts_behind_the_end", "zero", "nine")}
    itxt = lambda content: (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + content)
    raw = lambda content, name=b"exif": (b"tEXt", b"Raw profile type " + name + b"\0" + content)
    chunks |= {f"xmp_{value}": [itxt(xmp(value))] for value in range(0, 10)}
    chunks |= {
        "xmp_element": [itxt(xmp(5, "element"))], "xmp_single_quotes": [itxt(xmp(5, "single"))], "xmp_none": [itxt(xmp(5, "none"))],
        "xmp_second": [itxt(xmp(5, "single") + xmp(7))], "xmp_two": [itxt(xmp(3)), itxt(xmp(6))], "xmp_digits": [itxt(xmp(66))],
        "xmp_not_utf8": [itxt(b"\xff" + xmp(6))], "xmp_text": [(b"tEXt", b"XML:com.adobe.xmp\0" + xmp(6))],
        "xmp_compressed": [(b"zTXt", b"XML:com.adobe.xmp\0\0" + zlib.compress(xmp(6)))],
        "xmp_compressed_wide": [(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(xmp(6)))],
        "exif_before_xmp": [(b"eXIf", short(3)), itxt(xmp(6))], "exif_of_another_tag": [(b"eXIf", tiff(0x113, 3, 1, b"\6")), itxt(xmp(6))],
        "exif_named": [(b"eXIf", exif_name + short(6))], "raw_named_twice": [raw(raw_profile(exif_name + exif_name + short(6, ">")))],
        "exif_twice": [(b"eXIf", short(3)), (b"eXIf", short(6))], "exif_swapped_42": [(b"eXIf", tiff(0x112, 3, 1, b"\6", "<", b"II\0*"))],
        "raw": [raw(raw_profile(exif_name + short(6)))], "raw_without_name": [raw(raw_profile(short(8, ">")))],
        "raw_compressed": [(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(raw_profile(exif_name + short(6))))],
        "raw_app1": [raw(raw_profile(exif_name + short(6)), b"APP1")], "raw_and_exif": [raw(raw_profile(short(6))), (b"eXIf", short(3))],
        "raw_and_xmp": [raw(raw_profile(tiff(0x113, 3, 1, b"\6"))), itxt(xmp(8))],
    }
    pictures = {f"{name}.png": png(RGB, 8, before=of) for name, of in chunks.items()}
    pictures |= {f"{name}_behind.png": png(RGB, 8, after=chunks[name]) for name in ("xmp_6", "raw", "exif_long", "xmp_text")}
    segments = {f"exif_{name}": [exif_name + tiff(0x112, *value)] for name, value in values.items()}
    segments |= {f"xmp_{value}": [xmp_name + xmp(value)] for value in range(0, 10)}
    segments |= {
        "xmp_element": [xmp_name + xmp(5, "element")], "xmp_two": [xmp_name + xmp(3), xmp_name + xmp(6)],
        "xmp_before_exif": [xmp_name + xmp(6), exif_name + short(3)], "exif_of_another_tag": [exif_name + tiff(0x113, 3, 1, b"\6"), xmp_name + xmp(6)],
        "exif_in_two": [exif_name + short(6)[:20], exif_name + short(6)[20:]], "exif_twice": [exif_name + short(3), exif_name + short(6)],
        "exif_zero_and_xmp": [exif_name + short(0), xmp_name + xmp(6)], "xmp_extension": [b"http://ns.adobe.com/xmp/extension/\0" + xmp(6)],
    }
    image = scene(7, 5)
    for name, of in segments.items():
        file = jpeg(image, subsampling=0, dpi=(72, 72))
        pictures[f"{name}.jpg"] = file[:2] + b"".join(map(segment, of)) + file[2:]
    write_pictures("turned", pictures)


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
    if sys.argv[1:] == ["turned"]:
        make_turned()
    else:
        make_pictures()
        make_resizes()
