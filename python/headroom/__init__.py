"""Diffusion and transformer models, fast, and every optimization measured.

    import headroom
    headroom.Pipeline("fashion-flux")("an ankle boot", seed=7).save("boot.png")

Networks, compiled under named switches, on tensors of any library that has DLPack:

    network = headroom.Component("path/to/transformer", "cuda")
    compiled = network.compile(network.input_shapes(height=512, width=512), optimize="lossless")
    session = headroom.Session(compiled)
    sample = session(hidden_states=x, timestep=t, ...)

A pipeline of diffusers on our networks:

    headroom.accelerate(pipe)
"""

from ._errors import Error, InternalError, OutOfMemory, UsageError
from ._headroom import (
    Component,
    Device,
    Launch,
    Pass,
    Stream,
    Tensor,
    from_dlpack,
    version,
)
from ._image import Image
from ._pipeline import Generator, Pipeline
from ._measure import Result, bench, ladder, models, plan
from ._session import Session, empty
from ._accelerate import accelerate, restore

__version__ = version()

__all__ = [
    "Component",
    "Device",
    "Error",
    "Generator",
    "Image",
    "InternalError",
    "Launch",
    "OutOfMemory",
    "Pass",
    "Pipeline",
    "Result",
    "Session",
    "Stream",
    "Tensor",
    "UsageError",
    "__version__",
    "accelerate",
    "bench",
    "empty",
    "from_dlpack",
    "ladder",
    "models",
    "plan",
    "restore",
    "version",
]
