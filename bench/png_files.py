"""Pictures as the files of a model's folder have them, without a library."""

import struct
import zlib


def write_png(path, image):
    """image [3, h, w] in [0, 1]"""
    rows = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).contiguous().cpu()
    height, width, _ = rows.shape
    data = b"".join(b"\0" + bytes(row.flatten().tolist()) for row in rows)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))
