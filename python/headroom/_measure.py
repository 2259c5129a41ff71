"""Measurements, and what is known of models: what the program's commands bench, ladder, plan and models report."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

from . import _headroom
from ._errors import Error
from ._headroom import Device

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Called between measurements with what is measured, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], Any]


class Work(TypedDict, total=False):
    """The work to measure. Each model and pass reads what applies to it; what is not given the model chooses."""

    #: A pass of a network, a stage of a pipeline, "request" for whole requests, or "frame" for a frame of a stream.
    name: str
    batch: int
    height: int | None
    width: int | None
    text_tokens: int | None
    steps: int | None
    guidance_scale: float | None
    true_cfg_scale: float | None
    random_weights: int | None
    baseline: str | None


class Result:
    """A result file (docs/result.schema.json), with the text that the command prints."""

    def __init__(self, data: dict[str, Any], text: str = "", warnings: list[str] | None = None) -> None:
        #: The file's JSON.
        self.data = data
        #: What the command prints; empty for a file that was opened.
        self.text = text
        #: Why nothing should be concluded from the times; empty if they are settled.
        self.warnings = warnings or []

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Result:
        """Reads a result file."""
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        if not isinstance(data, dict) or data.get("schema") != "headroom.result/1":
            raise Error(f"{os.fspath(path)} is no result file of the schema headroom.result/1")
        return cls(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file, for `headroom report`, `compare` and other programs."""
        partial = f"{os.fspath(path)}.partial"
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(self.data, file, indent=2)
            file.write("\n")
        os.replace(partial, path)

    @property
    def results(self) -> list[dict[str, Any]]:
        """One entry for each configuration that was measured."""
        entries: list[dict[str, Any]] = self.data["results"]
        return entries

    def times_ms(self, what: str, configuration: int = 0) -> list[float]:
        """The times of a series such as "forward", "step" or "image", in the order in which they were measured."""
        series = {one["what"]: one for one in self.results[configuration]["trials"]}
        if what not in series:
            raise Error(f"there is no series '{what}'; the result has {', '.join(series)}")
        times: list[float] = series[what]["time"]
        return times

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"headroom.Result({', '.join(entry['name'] for entry in self.results)})"


def _result(report: tuple[str, str, list[str]]) -> Result:
    file, text, notes = report
    return Result(json.loads(file), text, notes)


def _on(device: Device | str) -> Device:
    return device if isinstance(device, Device) else Device(device)


def bench(
    model: str | os.PathLike[str],
    device: Device | str = "auto",
    *,
    optimize: str = "baseline",
    trials: int = 20,
    max_seconds: float = 300.0,
    cold: bool = False,
    first_step: bool = False,
    floors: bool = False,
    callback: Progress | None = None,
    **work: Unpack[Work],
) -> Result:
    """Times one pass of a model, or whole requests (name="request"), as `headroom bench` does.

    `cold` and `first_step` are for passes: they also time cold caches, and new shapes up to their first end. `floors`
    is for requests: it also measures the least possible time of each stage. Ctrl-C, and what the callback raises, end
    the measurement.
    """
    return _result(
        _headroom.bench(
            _on(device), _headroom._Work(model, **work), optimize, trials, max_seconds, cold, first_step, floors, callback
        )
    )


def ladder(
    model: str | os.PathLike[str],
    device: Device | str = "auto",
    *,
    optimize: str = "",
    only_ends: bool = False,
    seed: int = 0,
    trials: int = 20,
    rounds: int = 2,
    max_rounds: int = 0,
    floors: bool = False,
    quality: int = 0,
    prompts: list[str] | None = None,
    callback: Progress | None = None,
    **work: Unpack[Work],
) -> Result:
    """Measures the baseline, each switch alone, and all together, as `headroom ladder` does.

    Without `optimize` it takes the switches that can have an effect on the device. `quality` is the number of images
    to judge at each rung. A batch of 0 makes one image for each label of the model.
    """
    work.setdefault("batch", 0)
    return _result(
        _headroom.ladder(
            _on(device), _headroom._Work(model, **work), optimize, only_ends, seed, trials, rounds, max_rounds, floors,
            quality, prompts or [], callback,
        )
    )  # fmt: skip


def plan(
    model: str | os.PathLike[str],
    device: Device | str = "auto",
    *,
    optimize: str = "lossless",
    with_rejections: bool = False,
    **work: Unpack[Work],
) -> str:
    """The plan of a pass, or of a request's denoise loop, as `headroom plan` prints it; no weights are loaded."""
    return _headroom.plan_text(_on(device), _headroom._Work(model, **work), optimize, with_rejections)


def models(folder: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """The models that can be opened by name: 'name', 'description', 'parameters', and 'folder', which is None for a
    configuration that takes random weights.

    With a folder, or ORG/NAME in the cache of Hugging Face, the pipelines and networks at and below it: 'folder',
    'class_name', 'parameters' and 'passes', which are empty for a class that headroom does not have.
    """
    if folder is None:
        return _headroom.shipped_models()
    found, left_out = _headroom.models_in(folder)
    for reason in left_out:
        warnings.warn(f"left out: {reason}", stacklevel=2)
    return found
