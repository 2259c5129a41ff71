"""Images from prompts."""

from __future__ import annotations

import operator
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, Union, overload

from . import _headroom
from ._errors import UsageError
from ._headroom import Device, Tensor
from ._image import Image

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Called after each denoise step with its index and its milliseconds.
StepCallback = Callable[[int, float], Any]
#: A picture: an Image, a path of a PNG or JPEG, or bytes [height, width, 3] of any library with DLPack, or of Pillow.
Picture = Any
#: A LoRA file, alone or with its weight.
Lora = Union[str, "os.PathLike[str]", "tuple[str | os.PathLike[str], float]"]

_KEPT_GENERATORS = 4


class Options(TypedDict, total=False):
    """Further options of an image. What is not given the pipeline chooses; 0 is a value like any other."""

    negative_prompt: str | list[str] | None
    #: For the second text encoder.
    prompt_2: str | list[str] | None
    height: int | None
    width: int | None
    steps: int | None
    #: The length that prompts are truncated or padded to.
    text_tokens: int | None
    guidance_scale: float | None
    #: Above 1: classifier-free guidance, for a model that is otherwise guided without it.
    true_cfg_scale: float | None
    #: The picture that images start from, or the pictures that they edit, in order.
    image: Picture | list[Picture] | None
    #: Share of noise in the picture that the loop starts from, above 0, up to 1.
    strength: float | None
    #: LoRA files of these images, in place of those of the pipeline.
    loras: list[Lora] | None
    callback: StepCallback | None


def _as_pictures(image: Picture | list[Picture] | None) -> list[_headroom.Image]:
    def one(picture: Picture) -> _headroom.Image:
        if isinstance(picture, _headroom.Image):
            return picture
        if isinstance(picture, (str, os.PathLike)):
            return _headroom.read_image(picture)
        if not hasattr(picture, "__dlpack__") and hasattr(picture, "convert"):  # Pillow's
            import numpy

            picture = numpy.array(picture.convert("RGB"))
        return Image(picture)

    given = [] if image is None else image if isinstance(image, (list, tuple)) else [image]
    return [one(picture) for picture in given]


def _as_loras(loras: list[Lora]) -> list[tuple[str, float]]:
    if isinstance(loras, (str, os.PathLike)):
        raise UsageError("loras is one path, expected a list of LoRA files")
    pairs = [lora if isinstance(lora, tuple) else (lora, 1.0) for lora in loras]
    return [(os.fspath(file), weight) for file, weight in pairs]


def _as_list(value: Any, count: int, name: str) -> list[Any]:
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise UsageError(f"{name} has {len(value)} values, expected {count}, one for each image")
        return list(value)
    return [value] * count


def _next_seed(first: Any, image: int) -> Any:
    """The seed of an image. The request refuses what is no number."""
    try:
        return operator.index(first) + image
    except TypeError:
        return first


def _text(value: Any, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} is {value!r}, expected a string")
    return value


def _requests(
    images: int | None, pictures: list[_headroom.Image], **values: Any
) -> list[_headroom._ImageRequest]:
    """One request for each image: a list gives a value to each, another value is that of all, as are the pictures.

    A single seed is that of the first image; each next image has the next one.
    """
    lengths = {len(value) for value in values.values() if isinstance(value, (list, tuple))}
    if images is None:
        images = max(lengths, default=1)
    lists = {name: _as_list(value, images, name) for name, value in values.items()}
    if not isinstance(values["seed"], (list, tuple)):
        lists["seed"] = [_next_seed(seed, image) for image, seed in enumerate(lists["seed"])]
    for name in ("prompt", "negative_prompt", "prompt_2"):
        lists[name] = [_text(text, name) for text in lists[name]]
    return [_headroom._ImageRequest(**dict(zip(lists, row)), pictures=pictures) for row in zip(*lists.values())]


def _pictures(pixels: Tensor) -> list[Image]:
    return [Image(image.tensor()) for image in _headroom.to_images(pixels)]


class Generator(_headroom._Generator):
    """A pipeline compiled for one size of request under switches, with its device memory.

    What is not given the pipeline chooses; 0 is a value like any other. `pictures` are the heights and widths of the
    pictures of each image, and `strength` the share of noise in the one that its loop starts from.
    """

    def __init__(
        self,
        pipeline: _headroom._Pipeline,
        *,
        images: int = 1,
        height: int | None = None,
        width: int | None = None,
        steps: int | None = None,
        text_tokens: int | None = None,
        guidance_scale: float | None = None,
        true_cfg_scale: float | None = None,
        has_negative_prompt: bool = False,
        pictures: list[tuple[int, int]] | None = None,
        strength: float | None = None,
        optimize: str = "lossless",
    ) -> None:
        super().__init__(
            pipeline,
            images=images,
            height=height,
            width=width,
            steps=steps,
            text_tokens=text_tokens,
            guidance_scale=guidance_scale,
            true_cfg_scale=true_cfg_scale,
            has_negative_prompt=has_negative_prompt,
            pictures=pictures or [],
            strength=strength,
            optimize=optimize,
        )
        self._images = images

    def generate(
        self,
        prompt: str | list[str] | None = None,
        *,
        negative_prompt: str | list[str] | None = None,
        prompt_2: str | list[str] | None = None,
        label: int | list[int] = 0,
        seed: int | list[int] = 0,
        image: Picture | list[Picture] | None = None,
        callback: StepCallback | None = None,
    ) -> Tensor:
        """Latents f32 of as many images as the generator makes. Lists give each image a value of its own."""
        requests = _requests(
            self._images,
            _as_pictures(image),
            label=label,
            seed=seed,
            prompt=prompt,
            negative_prompt=negative_prompt,
            prompt_2=prompt_2,
        )
        return self._generate(requests, callback)

    def images(
        self,
        prompt: str | list[str] | None = None,
        *,
        negative_prompt: str | list[str] | None = None,
        prompt_2: str | list[str] | None = None,
        label: int | list[int] = 0,
        seed: int | list[int] = 0,
        image: Picture | list[Picture] | None = None,
        callback: StepCallback | None = None,
    ) -> list[Image]:
        """The images of generate()."""
        latents = self.generate(
            prompt,
            negative_prompt=negative_prompt,
            prompt_2=prompt_2,
            label=label,
            seed=seed,
            image=image,
            callback=callback,
        )
        return _pictures(self.decode(latents))


class Pipeline(_headroom._Pipeline):
    """A model that makes images on a device: a name of models(), or a folder in diffusers' layout.

    `optimize` are the switches of its images: names and presets separated by commas, as for the program's --opt.
    `loras` are LoRA files that are added to its weights: paths, or pairs of a path and a weight.
    `random_weights` is a seed of weights in place of the checkpoint's. `baseline` is 'f32' or 'bf16'.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        device: Device | str = "auto",
        *,
        optimize: str = "lossless",
        loras: list[Lora] | None = None,
        random_weights: int | None = None,
        baseline: str | None = None,
    ) -> None:
        super().__init__(model, device, random_weights=random_weights, baseline=baseline)
        self.optimize = optimize
        self.loras = loras or []
        self._loras: list[tuple[str, float]] = []
        self._use_loras(self.loras)
        self._generators: OrderedDict[Any, Generator] = OrderedDict()

    @overload
    def __call__(
        self, prompt: str | None = None, *, label: int = 0, seed: int = 0, **options: Unpack[Options]
    ) -> Image: ...
    @overload
    def __call__(
        self, prompt: list[str], *, label: int | list[int] = 0, seed: int | list[int] = 0, **options: Unpack[Options]
    ) -> list[Image]: ...
    @overload
    def __call__(
        self, prompt: str | None = None, *, label: list[int], seed: int | list[int] = 0, **options: Unpack[Options]
    ) -> list[Image]: ...
    @overload
    def __call__(
        self, prompt: str | None = None, *, label: int = 0, seed: list[int], **options: Unpack[Options]
    ) -> list[Image]: ...
    def __call__(
        self,
        prompt: str | list[str] | None = None,
        *,
        label: int | list[int] = 0,
        seed: int | list[int] = 0,
        **options: Unpack[Options],
    ) -> Image | list[Image]:
        """Makes an image, or a list of them where one of the arguments is a list.

        A single seed is that of the first image; each next image has the next one. What the callback raises, and
        Ctrl-C, end the loop after the step in progress. Further options: negative_prompt, prompt_2, height, width,
        steps, text_tokens, guidance_scale, true_cfg_scale, image, strength, loras and callback, each a keyword (class
        Options).
        """
        size: dict[str, Any] = dict(options)
        negative_prompt, prompt_2 = size.pop("negative_prompt", None), size.pop("prompt_2", None)
        callback, loras = size.pop("callback", None), size.pop("loras", None)
        pictures = _as_pictures(size.pop("image", None))
        values = {
            "label": label,
            "seed": seed,
            "prompt": prompt,
            "negative_prompt": negative_prompt,
            "prompt_2": prompt_2,
        }
        requests = _requests(None, pictures, **values)
        self._use_loras(self.loras if loras is None else loras)
        generator = self.generator(
            images=len(requests),
            has_negative_prompt=negative_prompt is not None,
            pictures=[(picture.height, picture.width) for picture in pictures],
            **size,
        )
        images = _pictures(generator.decode(generator._generate(requests, callback)))
        return images if any(isinstance(value, (list, tuple)) for value in values.values()) else images[0]

    def _use_loras(self, loras: list[Lora]) -> None:
        wanted = _as_loras(loras)
        if wanted != self._loras:
            self._set_loras(wanted)
            self._loras = wanted

    def generator(self, **options: Any) -> Generator:
        """The generator of such requests; the last four are kept, for requests of the same size."""
        key = (self.optimize, repr(sorted(options.items())))
        if key in self._generators:
            self._generators.move_to_end(key)
        else:
            self._generators[key] = Generator(self, optimize=self.optimize, **options)
            if len(self._generators) > _KEPT_GENERATORS:
                self._generators.popitem(last=False)
        return self._generators[key]
