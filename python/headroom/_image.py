"""Pictures."""

import os
from typing import Any

from . import _headroom


class Image(_headroom.Image):
    """An 8-bit image: [height, width, channels]; 1 channel is gray, 3 are RGB."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Image":
        """The RGB pixels of a PNG or JPEG file, upright."""
        return cls(_headroom.read_image(path).tensor())

    def numpy(self) -> Any:
        """A copy of the pixels as an array of numpy."""
        return self.tensor().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.tensor().__array__(dtype)

    def pil(self) -> Any:
        """The image as Pillow's, which must be installed."""
        from PIL import Image as Pillow

        pixels = self.numpy()
        return Pillow.fromarray(pixels[:, :, 0] if self.channels == 1 else pixels)

    def _repr_png_(self) -> bytes:
        return self.png()
