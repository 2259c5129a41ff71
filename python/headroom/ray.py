"""Images on many machines, by Ray: pip install headroom[ray].

    import headroom.ray
    headroom.ray.images("prompts.txt", "FLUX.1-dev", out="pictures", optimize="all", address="auto")

Ray places the workers, and restarts those that die. Each holds a pipeline, and draws a few prompts at a time.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# pyright: reportAttributeAccessIssue=false
# Where Ray is not installed, pyright takes this file for it.
import ray

from ._errors import UsageError
from ._headroom import Device, version
from ._pipeline import Pipeline

#: A picture in the manifest: "index", "prompt", "seed", "file", "sha256", "device" and "worker".
Record = dict[str, Any]

_MANIFEST = "manifest.jsonl"
_CALLS_AHEAD = 2  # of each worker, so that it need not wait for the driver
_SECONDS_BETWEEN_LOOKS = 5.0  # at the nodes of the cluster


class _Worker:
    """A pipeline in a process of its own, on a GPU or on some cores."""

    def __init__(self, model: str, device: str, threads: int, optimize: str, options: dict[str, Any]) -> None:
        self._error: Exception | None = None
        self._options = options
        try:
            on = Device(device, threads=threads)
            self._kind = f"{on.description}, {on.threads} threads" if device == "cpu" else on.description
            self._pipeline = Pipeline(model, on, optimize=optimize)
        except Exception as error:  # reported by ready(): Ray would tell of a worker that died
            self._error = error

    def ready(self) -> None:
        if self._error is not None:
            raise self._error

    def draw(self, prompts: list[str], seeds: list[int]) -> tuple[list[bytes], str, str]:
        """Files of PNG, the kind of device that they were drawn on, and the process that did."""
        images = self._pipeline(prompts, seed=seeds, **self._options)
        place = f"{ray.get_runtime_context().get_node_id()[:8]}:{os.getpid()}"
        return [image.png() for image in images], self._kind, place


class _Item:
    """A picture to draw."""

    def __init__(self, index: int, prompt: str, seed: int) -> None:
        self.index, self.prompt, self.seed = index, prompt, seed


def _items(prompts: Any, seed: int) -> Iterator[_Item]:
    rows: Iterable[Any]
    if isinstance(prompts, (str, os.PathLike)):
        with open(prompts, encoding="utf-8") as file:
            rows = [line for line in file.read().splitlines() if line.strip()]
    elif hasattr(prompts, "iter_rows"):  # a Dataset of Ray
        prompts.context.execution_options.preserve_order = True
        rows = prompts.iter_rows()
    else:
        rows = prompts
    for index, row in enumerate(rows):
        if isinstance(row, str):
            row = {"prompt": row}
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str):
            raise UsageError(f"prompt {index} is {row!r}, expected a text, or a row with the column 'prompt'")
        yield _Item(index, row["prompt"], int(row.get("seed", seed + index)))


class _Manifest:
    """The pictures of a folder that are drawn, one a line after a line of what they are drawn with."""

    def __init__(self, folder: str, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.records: dict[int, Record] = {}
        self.asked: list[int] = []
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, _MANIFEST)
        lines = self._whole_lines(path)
        if lines:
            for name, value in settings.items():
                if lines[0].get(name) != value:
                    raise UsageError(
                        f"{path} is of pictures with {name} {lines[0].get(name)!r}, and now it is {value!r}: "
                        "give another folder"
                    )
            for record in lines[1:]:
                if os.path.exists(os.path.join(folder, record["file"])):
                    self.records[record["index"]] = record
        self._file = open(path, "a" if lines else "w", encoding="utf-8")
        if not lines:
            self._append(settings)

    def _whole_lines(self, path: str) -> list[dict[str, Any]]:
        """Without a last line that was cut off, which is removed."""
        if not os.path.exists(path):
            return []
        with open(path, "rb+") as file:
            text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            file.truncate(len(whole))
        return [json.loads(line) for line in whole.splitlines()]

    def has(self, item: _Item) -> bool:
        self.asked.append(item.index)
        record = self.records.get(item.index)
        if record is None:
            return False
        if (record["prompt"], record["seed"]) != (item.prompt, item.seed):
            raise UsageError(
                f"picture {item.index} in {self.folder} is of {record['prompt']!r} with seed {record['seed']}, and now "
                f"it is of {item.prompt!r} with seed {item.seed}: give another folder"
            )
        return True

    def add(self, item: _Item, png: bytes, device: str, worker: str) -> Record:
        """Saves a picture, which appears complete or not at all, and then says so."""
        name = f"{item.index:06}.png"
        path = os.path.join(self.folder, name)
        with open(path + ".partial", "wb") as file:
            file.write(png)
        os.replace(path + ".partial", path)
        record = {
            "index": item.index,
            "prompt": item.prompt,
            "seed": item.seed,
            "file": name,
            "sha256": hashlib.sha256(png).hexdigest(),
            "device": device,
            "worker": worker,
        }
        self._append(record)
        self.records[item.index] = record
        return record

    def _append(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _Workers:
    """The workers of a run: one for each GPU of the cluster, or for each `cpus` cores."""

    def __init__(self, most: int | None, gpus: int, cpus: int, arguments: tuple[Any, ...]) -> None:
        self._most, self._gpus, self._cpus = most, gpus, cpus
        # A call is not retried on its own worker, which may have no place any more: the next free worker takes it.
        self._kind = ray.remote(_Worker).options(
            num_gpus=gpus,
            num_cpus=cpus,
            max_restarts=-1,
            max_task_retries=0,
            runtime_env={"env_vars": {"GOMP_SPINCOUNT": "20000"}},
        )
        self._arguments = arguments
        self._all: list[Any] = []
        self._starting: dict[Any, Any] = {}  # workers by the call that ends when they are up
        self._calls: dict[Any, tuple[Any, list[_Item]]] = {}
        self._idle: deque[Any] = deque()

    def add_where_there_is_room(self) -> None:
        """As many workers as the nodes have room for, also those that joined since."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = sum(int(node.get("GPU", 0)) if self._gpus else int(node.get("CPU", 0)) // self._cpus for node in nodes)
        for _ in range(len(self._all), room if self._most is None else min(room, self._most)):
            worker = self._kind.remote(*self._arguments)
            self._all.append(worker)
            self._await(worker)
        if not self._all:
            what = "GPU" if self._gpus else f"node of {self._cpus} cores"
            raise UsageError(f"the cluster has no {what}, and {len(nodes)} nodes: give another device, or fewer cpus")

    def _await(self, worker: Any) -> None:
        # Ray repeats this call until the worker is back.
        self._starting[worker.ready.options(max_task_retries=-1).remote()] = worker

    def has_room(self) -> bool:
        return bool(self._idle)

    def is_busy(self) -> bool:
        return bool(self._calls)

    def give(self, items: list[_Item]) -> None:
        worker = self._idle.popleft()
        call = worker.draw.remote([item.prompt for item in items], [item.seed for item in items])
        self._calls[call] = (worker, items)

    def wait(self) -> Iterator[tuple[list[_Item], Any]]:
        """What has been drawn since, or items without pictures where their worker died."""
        ended, _ = ray.wait([*self._calls, *self._starting], num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
        if not ended:
            self.add_where_there_is_room()
        for call in ended:
            if call in self._starting:
                worker = self._starting.pop(call)
                self._result(call)
                self._idle.extend([worker] * _CALLS_AHEAD)
                continue
            if call not in self._calls:  # of a worker that died
                continue
            worker, items = self._calls.pop(call)
            try:
                drawn = self._result(call)
            except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError):
                yield items, None
                yield from self._lose(worker)
                continue
            self._idle.append(worker)
            yield items, drawn

    def _lose(self, worker: Any) -> Iterator[tuple[list[_Item], Any]]:
        """The other items of a worker that died, which Ray starts again."""
        self._idle = deque(other for other in self._idle if other is not worker)
        for call in [call for call, (other, _) in self._calls.items() if other is worker]:
            yield self._calls.pop(call)[1], None
        self._await(worker)

    def _result(self, call: Any) -> Any:
        try:
            return ray.get(call)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None

    def close(self) -> None:
        for worker in self._all:
            ray.kill(worker)


def images(
    prompts: Any,
    model: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    optimize: str = "lossless",
    device: str = "auto",
    cpus: int = 4,
    workers: int | None = None,
    batch: int = 1,
    seed: int = 0,
    address: str | None = None,
    callback: Callable[[Record], Any] | None = None,
    **options: Any,
) -> list[Record]:
    """Draws prompts on all machines of a Ray cluster; returns the records of the manifest, in order.

    `prompts` are a list of texts, a file with one a line, or a Dataset of Ray with the column 'prompt' and perhaps
    'seed'. `model` is a name or a folder that every machine has. Pictures and manifest.jsonl are written into the
    folder `out` as they come; a run that is started again draws what is missing. Image i has the seed `seed` + i.

    `device` is 'cuda' (a worker for each GPU), 'cpu' (one for each `cpus` cores) or 'auto': GPUs if the cluster has
    any. `workers` is the most of them. Each draws `batch` prompts at a time. Further options are those of an image:
    height, width, steps and others (headroom.Pipeline). `callback` gets each record.

    `address` is that of ray.init(), which is called unless the program has done so. A worker or a machine that dies
    costs what it had not finished, which others draw again.
    """
    if batch < 1 or cpus < 1 or (workers is not None and workers < 1):
        raise UsageError(f"batch is {batch}, cpus {cpus} and workers {workers}, expected at least 1")
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"device is {device!r}, expected 'auto', 'cpu' or 'cuda'")
    for name in ("callback", "label", "seed"):
        if name in options:
            raise UsageError(f"{name} is no option of every image")
    is_ours = not ray.is_initialized()
    if is_ours:
        ray.init(address=address, log_to_driver=False)
    elif address is not None:
        raise UsageError("address is given, and Ray is connected already: give it to ray.init() alone")
    manifest: _Manifest | None = None
    pool: _Workers | None = None
    try:
        is_gpu = device == "cuda" or (device == "auto" and ray.cluster_resources().get("GPU", 0) > 0)
        name = os.fspath(model)
        settings = {
            "headroom": version(),
            "model": name,
            "optimize": optimize,
            "device": "cuda" if is_gpu else f"cpu, {cpus} threads",
            "batch": batch,
            "options": json.loads(json.dumps(options, default=str)),
        }
        manifest = _Manifest(os.fspath(out), settings)
        pool = _Workers(
            workers, int(is_gpu), 1 if is_gpu else cpus, (name, "cuda" if is_gpu else "cpu", 0 if is_gpu else cpus,
                                                          optimize, options))  # fmt: skip
        return _draw_all(_batches(prompts, seed, batch, manifest), pool, manifest, callback)
    finally:
        if pool is not None:
            pool.close()
        if manifest is not None:
            manifest.close()
        if is_ours:
            ray.shutdown()


def _batches(prompts: Any, seed: int, batch: int, manifest: _Manifest) -> Iterator[list[_Item]]:
    """Prompts that are drawn together, always the same ones, so that a picture has the same bits in every run."""
    items = _items(prompts, seed)
    while together := list(itertools.islice(items, batch)):
        if not all([manifest.has(item) for item in together]):
            yield together


def _draw_all(
    batches: Iterator[list[_Item]], pool: _Workers, manifest: _Manifest, callback: Callable[[Record], Any] | None
) -> list[Record]:
    again: deque[list[_Item]] = deque()
    following = next(batches, None)
    while following is not None or again or pool.is_busy():
        if not pool._all:
            pool.add_where_there_is_room()
        while pool.has_room() and (again or following is not None):
            if again:
                pool.give(again.popleft())
            elif following is not None:
                pool.give(following)
                following = next(batches, None)
        for items, drawn in pool.wait():
            if drawn is None:
                again.append(items)
                continue
            pngs, device, worker = drawn
            for item, png in zip(items, pngs):
                if item.index in manifest.records:  # of a batch that was drawn in part
                    continue
                record = manifest.add(item, png, device, worker)
                if callback is not None:
                    callback(record)
    return [manifest.records[index] for index in manifest.asked]
