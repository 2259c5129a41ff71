"""Headroom's library: networks compiled under named optimizations."""

from collections.abc import Callable, Mapping, Sequence
import os
from typing import Any


def version() -> str:
    """The version of the library."""

class Tensor:
    """A tensor: of the library's memory, or of another library's by DLPack."""

    @property
    def dtype(self) -> str:
        """'f32', 'bf16'"""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""

    @property
    def device(self) -> str:
        """'cpu', 'cuda:0'"""

    @property
    def data(self) -> int:
        """The address of the first element."""

    @property
    def nbytes(self) -> int: ...

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie in the order of rows without gaps."""

    @property
    def is_read_only(self) -> bool: ...

    def copy(self) -> Tensor:
        """A dense copy in host memory."""

    def view(self, dtype: str) -> Tensor:
        """The same bytes under a dtype of the same size."""

    def numpy(self) -> Any:
        """
        An array of numpy on the same memory; bf16 and fp8 are types of ml_dtypes.
        """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __repr__(self) -> str: ...

class _StandIn:
    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: Any = None, copy: Any = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

def from_dlpack(x: Any, /, *, stream: int | None = None) -> Tensor:
    """
    Takes an object with __dlpack__ without a copy. Its work on a GPU is done before what is submitted to `stream`, a cudaStream_t, from now on.
    """

class Device:
    """A CPU or GPU that runs networks."""

    def __init__(self, name: str = 'auto', *, threads: int = 0) -> None:
        """
        `name` is 'cpu', 'cuda' (the first GPU), 'cuda:N' or 'auto': the first usable GPU, otherwise the CPU. `threads` applies to a CPU; 0 uses all of the process.
        """

    @property
    def name(self) -> str:
        """'cpu', 'cuda:0'"""

    @property
    def description(self) -> str:
        """The vendor's name: 'NVIDIA H200'."""

    @property
    def threads(self) -> int:
        """CPU threads that kernels use; 1 for a GPU."""

    @property
    def alignment(self) -> int:
        """Of memory that a session may bind, in bytes."""

    def memory(self) -> dict[str, int]:
        """
        Bytes: 'installed', 'available' (not in use by any process), 'used' by this device's objects, their 'peak'.
        """

    def order(self, before: int, after: int) -> None:
        """
        On a GPU: work submitted to the stream `after` (a cudaStream_t) from now on runs after the work submitted to `before` so far. The host does not wait.
        """

    def __repr__(self) -> str: ...

class Component:
    """
    One network of a checkpoint folder (a transformer, an autoencoder) on a device.
    """

    def __init__(self, model: str | os.PathLike[str], device: Device | str = 'auto', *, random_weights: int | None = None, baseline: str | None = None) -> None:
        """
        Opens a name of models(), or a folder with a config.json and safetensors. `random_weights` is a seed of weights in place of the checkpoint's. `baseline` is the dtype of the baseline: 'f32' or 'bf16'.
        """

    @staticmethod
    def _in_memory(name: str, config: str, weights: dict[str, Tensor], device: Device | str, baseline: str | None = None, on_device: bool = False, loaded: Callable[[str], Tensor | None] | None = None) -> Component: ...

    @property
    def name(self) -> str: ...

    @property
    def class_name(self) -> str:
        """The class in its config.json: 'AutoencoderKL'."""

    @property
    def device(self) -> Device: ...

    @property
    def parameters(self) -> int: ...

    @property
    def passes(self) -> dict[str, list[str]]:
        """
        The functions that it can execute, each with the inputs that it requires.
        """

    def input_shapes(self, name: str = 'forward', *, batch: int = 1, height: int = 1024, width: int = 1024, text_tokens: int = 512) -> dict[str, tuple[int, ...]]:
        """Shapes of all inputs of a pass for an image of this size in pixels."""

    def compile(self, shapes: Mapping[str, Sequence[int]], name: str = 'forward', *, optimize: str = 'lossless') -> Pass:
        """
        Optimizes and plans the pass for inputs of these shapes. `optimize` is names and presets of switches separated by commas, as for the program's --opt: 'lossless', 'flash,fuse,bf16'. No weights are loaded yet.
        """

    @property
    def weight_bytes(self) -> int:
        """Bytes of its weights on the device."""

    def keep_weights_of(self, compiled: Pass) -> None:
        """Frees the weights that neither a session nor this pass uses."""

    def __repr__(self) -> str: ...

class Launch:
    """One kernel launch, or a copy."""

    @property
    def path(self) -> str:
        """The module that it came from: 'transformer_blocks.3.attn.to_q'."""

    @property
    def op(self) -> str:
        """'linear'; 'copy'"""

    @property
    def kernel(self) -> str:
        """'onednn.linear'; 'copy'"""

    @property
    def implementation(self) -> str:
        """As the library reports it: 'brgemm:avx512_core_bf16'."""

    @property
    def flops(self) -> float: ...

    @property
    def bytes(self) -> float: ...

    def __repr__(self) -> str: ...

class Pass:
    """
    A pass of a network for one set of shapes under one set of switches. It holds no device memory.
    """

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> Device: ...

    @property
    def inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each."""

    @property
    def outputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each."""

    @property
    def switches(self) -> list[str]:
        """The requested switches with presets expanded."""

    @property
    def applied(self) -> list[str]:
        """The requested switches that changed something."""

    @property
    def declined(self) -> dict[str, str]:
        """The requested switches that could not apply, with the reasons."""

    @property
    def launches(self) -> list[Launch]:
        """In launch order."""

    def memory_need(self) -> dict[str, int]:
        """Device memory that a session needs, in bytes."""

    def plan_text(self, *, with_rejections: bool = False) -> str:
        """
        The plan as `headroom plan` prints it; with_rejections adds the rejected kernels with reasons.
        """

    def __repr__(self) -> str: ...

class _Session:
    def __init__(self, compiled: Pass, *, stream: int = 0) -> None: ...

    @property
    def device(self) -> Device: ...

    @property
    def compiled(self) -> Pass:
        """Its pass."""

    @property
    def stream(self) -> int:
        """The cudaStream_t that runs are submitted to; 0 for a CPU."""

    def _set_input(self, name: str, tensor: Tensor) -> None: ...

    def _bind_input(self, name: str, tensor: Tensor) -> None: ...

    def _bind_output(self, name: str, tensor: Tensor) -> None: ...

    def _unbind_input(self, name: str) -> None: ...

    def _unbind_output(self, name: str) -> None: ...

    def run(self) -> None:
        """Runs the pass and waits for it."""

    def submit(self) -> None:
        """Submits a run to the stream and returns without waiting for a GPU."""

    def wait(self) -> None:
        """Waits for all submitted work."""

    def output(self, name: str) -> Tensor:
        """A copy of an output of the last run in host memory."""

    def device_output(self, name: str) -> Tensor:
        """A copy of an output of the last run on the device."""

    @property
    def copied_bytes(self) -> int:
        """Bytes of bound outputs that the last run had to copy."""

class Image:
    """
    An 8-bit image: [height, width, channels]; 1 channel is gray, 3 are RGB.
    """

    def __init__(self, pixels: Any) -> None:
        """Copies bytes [height, width, channels]."""

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    @property
    def channels(self) -> int: ...

    def tensor(self) -> Tensor:
        """A copy of the pixels, u8 [height, width, channels]."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a PNG, which appears complete or not at all."""

    def png(self) -> bytes:
        """The bytes of a PNG file."""

    def __eq__(self, other: object, /) -> bool: ...

    def __repr__(self) -> str: ...

class _Pipeline:
    def __init__(self, model: str | os.PathLike[str], device: Device | str = 'auto', *, random_weights: int | None = None, baseline: str | None = None) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> Device: ...

    @property
    def labels(self) -> list[str]:
        """Names of its own prompts; empty if it has none."""

    @property
    def has_pixels(self) -> bool:
        """Whether it decodes latents to pixels."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of its weights on the device."""

    def _set_loras(self, loras: Sequence[tuple[str, float]]) -> None: ...

class _Generator:
    def __init__(self, pipeline: _Pipeline, *, images: int = 1, height: int | None = None, width: int | None = None, steps: int | None = None, text_tokens: int | None = None, guidance_scale: float | None = None, true_cfg_scale: float | None = None, has_negative_prompt: bool = False, pictures: Sequence[tuple[int, int]] = [], strength: float | None = None, optimize: str = 'lossless') -> None: ...

    @property
    def device(self) -> Device: ...

    @property
    def applied(self) -> list[str]:
        """The requested switches that changed something."""

    @property
    def declined(self) -> dict[str, str]:
        """The requested switches that could not apply, with the reasons."""

    def _generate(self, requests: Sequence[_ImageRequest], callback: object | None = None) -> Tensor: ...

    def decode(self, latents: Tensor) -> Tensor:
        """
        Pixels f32 [images, channels, height, width] of latents: white is 1 and black -1.
        """

    @property
    def stages(self) -> list[tuple[str, float]]:
        """
        Names and milliseconds of the stages that ran since the last generation began, in order.
        """

class _ImageRequest:
    def __init__(self, label: int, seed: int, prompt: str | None, negative_prompt: str | None, prompt_2: str | None, pictures: Sequence[Image]) -> None: ...

def read_image(path: str | os.PathLike[str]) -> Image:
    """The RGB pixels of a PNG or JPEG file, upright."""

def to_images(pixels: Tensor) -> list[Image]:
    """Images of Generator.decode(), clamped to black and white."""

class Stream:
    """
    A model that makes each frame of a video anew, compiled for frames of one size.
    """

    def __init__(self, model: _Pipeline | Component, *, height: int = 0, width: int = 0, steps: int | None = None, strength: float | None = None, guidance_scale: float | None = None, text_tokens: int | None = None, prompt: str = '', negative_prompt: str = '', seed: int = 0, optimize: str = 'lossless') -> None:
        """
        The stream of a pipeline whose loop starts from each frame, or of a network that reads frames ('live-ink'). Without a size it takes the model's.
        """

    @property
    def device(self) -> Device: ...

    @property
    def height(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def delay(self) -> int:
        """The number of frames by which the result lags."""

    @property
    def applied(self) -> list[str]:
        """The requested switches that changed something."""

    @property
    def declined(self) -> dict[str, str]:
        """The requested switches that could not apply, with the reasons."""

    def next(self, frame: Any) -> Image:
        """
        The result for the frame given `delay` calls before. A frame is an Image, or bytes [height, width, 3]. The first call, and the first after restart(), starts the stream.
        """

    def restart(self) -> None: ...

class _Work:
    def __init__(self, model: str | os.PathLike[str], *, random_weights: int | None = None, baseline: str | None = None, name: str = '', batch: int = 1, height: int | None = None, width: int | None = None, text_tokens: int | None = None, steps: int | None = None, guidance_scale: float | None = None, true_cfg_scale: float | None = None) -> None: ...

def bench(device: Device, work: _Work, optimize: str, trials: int, max_seconds: float, cold: bool, first_step: bool, floors: bool, callback: object | None) -> tuple[str, str, list[str]]: ...

def ladder(device: Device, work: _Work, optimize: str, only_ends: bool, seed: int, trials: int, rounds: int, max_rounds: int, floors: bool, quality: int, prompts: Sequence[str], callback: object | None) -> tuple[str, str, list[str]]: ...

def plan_text(device: Device, work: _Work, optimize: str, with_rejections: bool) -> str: ...

def shipped_models() -> list[dict[str, Any]]: ...

def models_in(folder: str | os.PathLike[str]) -> tuple[list[dict[str, Any]], list[str]]: ...
