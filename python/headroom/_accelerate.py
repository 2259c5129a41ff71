"""PyTorch modules of diffusers and transformers, run by headroom.

Each supported class has an adapter: it says which pass of ours a call of the module is, and which of our inputs each
argument becomes.
"""

import functools
import inspect
import json
import logging
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from . import _headroom
from ._errors import Error, UsageError
from ._headroom import Component, Device
from ._session import Session

_log = logging.getLogger("headroom")
_ATTRIBUTE = "_headroom"
#: PyTorch gives a GPU's memory back when so much has been freed.
_GIVEN_BACK_BYTES = 512 << 20
T = TypeVar("T")


class _Unsupported(Exception):
    """Why a call is left to the original module."""


class Call:
    """A call of a module as passes on inputs, once for each size of its rows: what makes the module's result of all
    outputs."""

    def __init__(
        self, passes: str, runs: list[dict[str, Any]], result: Callable[[list[dict[str, Any]]], Any]
    ) -> None:
        self.passes, self.runs, self.result = passes.split(), runs, result


def _one_run(passes: str, inputs: dict[str, Any], result: Callable[[dict[str, Any]], Any]) -> Call:
    return Call(passes, [inputs], lambda outputs: result(outputs[0]))


def _refuse_others(arguments: Mapping[str, Any], known: "set[str]") -> None:
    for name, value in arguments.items():
        if name not in known and value is not None and value is not False and value != {}:
            raise _Unsupported(f"the argument {name}")


def _batched(timestep: Any, like: Any) -> Any:
    """A number, or a tensor of rank 0 or of one element, as one for each row of `like`."""
    import torch

    tensor = torch.as_tensor(timestep, device=like.device)
    return tensor.reshape(-1).expand(like.shape[0])


def _in_thousandths(number: Any, dtype: Any) -> Any:
    """A number whose product with 1000 is that of a module in its dtype."""
    import torch

    number = number.to(dtype)
    return number if dtype == torch.float32 else (number * 1000).float() / 1000


def _model_output(arguments: Mapping[str, Any], sample: Any) -> Any:
    if arguments.get("return_dict") is False:
        return (sample,)
    from diffusers.models.modeling_outputs import Transformer2DModelOutput

    return Transformer2DModelOutput(sample=sample)


def _flux(module: Any, arguments: dict[str, Any]) -> Call:
    _refuse_others(
        arguments,
        {"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "img_ids", "txt_ids", "guidance",
         "return_dict"},
    )
    like = arguments["hidden_states"]
    inputs = {name: arguments[name] for name in ("hidden_states", "encoder_hidden_states", "pooled_projections")}
    for name in ("img_ids", "txt_ids"):
        ids = arguments[name]
        inputs[name] = ids[0] if ids.ndim == 3 else ids
    inputs["timestep"] = _in_thousandths(_batched(arguments["timestep"], like), module.dtype)
    if module.config.guidance_embeds:
        if arguments.get("guidance") is None:
            raise _Unsupported("a call without guidance")
        inputs["guidance"] = _in_thousandths(_batched(arguments["guidance"], like), module.dtype)
    return _one_run("forward", inputs, lambda outputs: _model_output(arguments, outputs["sample"]))


def _qwen_image(module: Any, arguments: dict[str, Any]) -> Call:
    import torch

    _refuse_others(
        arguments,
        {"hidden_states", "encoder_hidden_states", "encoder_hidden_states_mask", "timestep", "img_shapes",
         "return_dict"},
    )
    for flag in ("zero_cond_t", "use_additional_t_cond", "use_layer3d_rope"):
        if module.config.get(flag):
            raise _Unsupported(f"the configuration's {flag}")
    mask = arguments.get("encoder_hidden_states_mask")
    if mask is not None and not bool(mask.bool().all()):
        raise _Unsupported("texts of several lengths (encoder_hidden_states_mask)")
    like = arguments["hidden_states"]
    shapes = arguments["img_shapes"][0]
    parts = [shapes] if isinstance(shapes, tuple) else list(shapes)
    rows, most = [], 0
    for index, (frames, height, width) in enumerate(parts):
        most = max(most, height // 2, width // 2)
        at = torch.cartesian_prod(
            torch.arange(index, index + frames),
            torch.arange(height) - (height - height // 2),
            torch.arange(width) - (width - width // 2),
        )
        rows.append(at)
    text = arguments["encoder_hidden_states"].shape[1]
    inputs = {
        "hidden_states": like,
        "encoder_hidden_states": arguments["encoder_hidden_states"],
        "timestep": _batched(arguments["timestep"], like).to(module.dtype),
        "img_ids": torch.cat(rows).float(),
        "txt_ids": (torch.arange(text) + most).float()[:, None].expand(text, 3),
    }
    return _one_run("forward", inputs, lambda outputs: _model_output(arguments, outputs["sample"]))


def _z_image(module: Any, arguments: dict[str, Any]) -> Call:
    import torch

    _refuse_others(arguments, {"x", "t", "cap_feats", "return_dict", "patch_size", "f_patch_size"})
    images, texts, times = arguments["x"], arguments["cap_feats"], arguments["t"]
    if isinstance(images[0], (list, tuple)):
        raise _Unsupported("several images of a text")
    if arguments.get("patch_size", 2) != 2 or arguments.get("f_patch_size", 1) != 1:
        raise _Unsupported("other patches than 2x2")
    times = _batched(times, torch.empty(len(images), device=images[0].device))
    # Rows of one size are one batch.
    rows_of: dict[Any, list[int]] = {}
    for row, (image, text) in enumerate(zip(images, texts)):
        rows_of.setdefault((tuple(image.shape), len(text)), []).append(row)

    def tokens(image: Any) -> Any:
        channels, frames, height, width = image.shape
        patches = image.reshape(channels, frames, height // 2, 2, width // 2, 2)
        return patches.permute(1, 2, 4, 3, 5, 0).reshape(-1, 4 * channels)

    def image_of(sample: Any, shape: tuple[int, ...]) -> Any:
        channels, frames, height, width = shape
        patches = sample.reshape(frames, height // 2, width // 2, 2, 2, channels)
        return patches.permute(5, 0, 1, 3, 2, 4).reshape(shape)

    runs = []
    for (shape, _), rows in rows_of.items():
        places = [torch.arange(extent) for extent in (shape[1], shape[2] // 2, shape[3] // 2)]
        runs.append({
            "hidden_states": torch.stack([tokens(images[row]) for row in rows]),
            "encoder_hidden_states": torch.stack([texts[row] for row in rows]),
            "timestep": times[rows],
            "img_ids": torch.cartesian_prod(*places).float(),
        })  # fmt: skip

    def result(outputs: list[dict[str, Any]]) -> Any:
        samples: list[Any] = [None] * len(images)
        for ((shape, _), rows), output in zip(rows_of.items(), outputs):
            for row, sample in zip(rows, output["sample"]):
                samples[row] = image_of(sample, shape)
        return _model_output(arguments, samples)

    return Call("forward", runs, result)


def _unet(module: Any, arguments: dict[str, Any]) -> Call:
    _refuse_others(arguments, {"sample", "timestep", "encoder_hidden_states", "added_cond_kwargs", "return_dict"})
    like = arguments["sample"]
    inputs = {
        "sample": like,
        "timestep": _batched(arguments["timestep"], like),
        "encoder_hidden_states": arguments["encoder_hidden_states"],
    }
    added = arguments.get("added_cond_kwargs") or {}
    _refuse_others(added, {"text_embeds", "time_ids"})
    inputs.update({name: added[name] for name in ("text_embeds", "time_ids") if name in added})

    def result(outputs: dict[str, Any]) -> Any:
        if arguments.get("return_dict") is False:
            return (outputs["out_sample"],)
        from diffusers.models.unets.unet_2d_condition import UNet2DConditionOutput

        return UNet2DConditionOutput(sample=outputs["out_sample"])

    return _one_run("forward", inputs, result)


def _refuse_slices(module: Any) -> None:
    for flag in ("use_slicing", "use_tiling"):
        if getattr(module, flag, False):
            raise _Unsupported(f"the autoencoder's {flag}")


def _decode(module: Any, arguments: dict[str, Any]) -> Call:
    _refuse_others(arguments, {"z", "return_dict", "generator"})
    _refuse_slices(module)

    def result(outputs: dict[str, Any]) -> Any:
        if arguments.get("return_dict") is False:
            return (outputs["decoded"],)
        from diffusers.models.autoencoders.vae import DecoderOutput

        return DecoderOutput(sample=outputs["decoded"])

    return _one_run("decode", {"latents": arguments["z"]}, result)


def _encode(module: Any, arguments: dict[str, Any]) -> Call:
    _refuse_others(arguments, {"x", "return_dict"})
    _refuse_slices(module)

    def result(outputs: dict[str, Any]) -> Any:
        import torch
        from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution
        from diffusers.models.modeling_outputs import AutoencoderKLOutput

        posterior = DiagonalGaussianDistribution(torch.cat([outputs["mean"], outputs["logvar"]], dim=1))
        return (posterior,) if arguments.get("return_dict") is False else AutoencoderKLOutput(latent_dist=posterior)

    return _one_run("encode", {"image": arguments["x"]}, result)


def _text_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    extra = arguments.pop("kwargs", {})
    return {**arguments, **extra}


def _tuple_unless(output: Any, arguments: Mapping[str, Any]) -> Any:
    return output.to_tuple() if arguments.get("return_dict") is False else output


def _t5(module: Any, arguments: dict[str, Any]) -> Call:
    arguments = _text_arguments(arguments)
    _refuse_others(arguments, {"input_ids", "attention_mask", "return_dict"})
    inputs = {"input_ids": arguments["input_ids"]}
    if arguments.get("attention_mask") is not None:
        inputs["attention_mask"] = arguments["attention_mask"]

    def result(outputs: dict[str, Any]) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return _tuple_unless(BaseModelOutput(last_hidden_state=outputs["last_hidden_state"]), arguments)

    return _one_run("encode", inputs, result)


def _clip(module: Any, arguments: dict[str, Any]) -> Call:
    arguments = _text_arguments(arguments)
    _refuse_others(arguments, {"input_ids", "attention_mask", "return_dict", "output_hidden_states"})
    mask = arguments.get("attention_mask")
    if mask is not None and not bool(mask.bool().all()):
        raise _Unsupported("an attention_mask that hides tokens")
    projected = type(module).__name__ == "CLIPTextModelWithProjection"

    has_states = bool(arguments.get("output_hidden_states"))

    def result(outputs: dict[str, Any]) -> Any:
        states = tuple(outputs[f"hidden_states.{i}"] for i in range(len(outputs) - 2)) if has_states else None
        if projected:
            from transformers.models.clip.modeling_clip import CLIPTextModelOutput

            output = CLIPTextModelOutput(
                text_embeds=outputs["text_embeds"],
                last_hidden_state=outputs["last_hidden_state"],
                hidden_states=states,
            )
        else:
            from transformers.modeling_outputs import BaseModelOutputWithPooling

            output = BaseModelOutputWithPooling(
                last_hidden_state=outputs["last_hidden_state"],
                pooler_output=outputs["pooler_output"],
                hidden_states=states,
            )
        return _tuple_unless(output, arguments)

    return _one_run("encode hidden-states" if has_states else "encode", {"input_ids": arguments["input_ids"]}, result)


Adapter = Callable[[Any, dict[str, Any]], Call]

#: By class, the methods that headroom takes over.
_ADAPTERS: dict[str, dict[str, Adapter]] = {
    "FluxTransformer2DModel": {"forward": _flux},
    "QwenImageTransformer2DModel": {"forward": _qwen_image},
    "ZImageTransformer2DModel": {"forward": _z_image},
    "UNet2DConditionModel": {"forward": _unet},
    "AutoencoderKL": {"decode": _decode, "encode": _encode},
    "T5EncoderModel": {"forward": _t5},
    "CLIPTextModel": {"forward": _clip},
    "CLIPTextModelWithProjection": {"forward": _clip},
}

#: What diffusers sets on its own; others change what attention computes.
_PROCESSORS = {
    "AttnProcessor", "AttnProcessor2_0", "FluxAttnProcessor", "FluxAttnProcessor2_0",
    "QwenDoubleStreamAttnProcessor2_0", "ZSingleStreamAttnProcessor",
}  # fmt: skip


def _obstacle(module: Any) -> str:
    """Why a module cannot be taken over: something that changes what it computes, or where its weights are."""
    name = type(module).__name__
    if name == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
        return "it is compiled by torch.compile: give the module before that"
    if any(hasattr(part, "_hf_hook") for part in module.modules()):
        return "accelerate offloads it (_hf_hook): use pipe.to(device), or remove_all_hooks()"
    for part in module.modules():
        registry = getattr(part, "_diffusers_hook", None)
        if registry is not None and getattr(registry, "hooks", None):
            return f"hooks of diffusers are on it ({', '.join(registry.hooks)}): disable them"
    if getattr(module, "peft_config", None) or getattr(module, "_hf_peft_config_loaded", False):
        return "it has adapters (PEFT): pipe.fuse_lora() and pipe.unload_lora_weights() merge them"
    config = module.config
    quantization = (
        config.get("quantization_config") if hasattr(config, "get") else getattr(config, "quantization_config", None)
    )
    if quantization is not None or getattr(module, "hf_quantizer", None) is not None:
        method = getattr(quantization, "quant_method", "another library")
        return f"it is quantized ({getattr(method, 'value', method)}): give the module as it was before that"
    import torch

    for parameter_name, parameter in module.named_parameters():
        kind = type(parameter)
        if kind is not torch.nn.Parameter:
            return f"{parameter_name} is a {kind.__module__}.{kind.__name__}: give the module as it was before that"
        if parameter.device.type == "meta":
            return f"{parameter_name} is on the device meta: load its weights first"
    hooks = [
        hook
        for part in module.modules()
        for hook in [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]
        # transformers collects hidden states by hooks of its own.
        if not str(getattr(getattr(hook, "func", hook), "__module__", "")).startswith("transformers.")
    ]
    if hooks:
        return f"{len(hooks)} forward hooks are on it: remove them"
    processors = [getattr(part, "processor", None) for part in module.modules()]
    others = {type(processor).__name__ for processor in processors if processor is not None} - _PROCESSORS
    if others:
        return f"it has attention processors that headroom does not know: {', '.join(sorted(others))}"
    return ""


def _config_of(module: Any) -> str:
    """The text of its config.json."""
    config = module.config
    values = dict(config.to_dict() if hasattr(config, "to_dict") else config)
    if hasattr(config, "to_dict"):  # transformers
        values["architectures"] = [type(module).__name__]
    else:
        values["_class_name"] = type(module).__name__
    return json.dumps(values, default=str)


def _weight_name(module: Any, name: str) -> str:
    """The name in a checkpoint: transformers 5 drops the prefix of a CLIP text model in memory."""
    if type(module).__name__ == "CLIPTextModel" and not name.startswith("text_model."):
        return "text_model." + name
    return name


def _to_host(tensor: Any) -> Any:
    """A copy in host memory. That of a GPU goes through page-locked memory, piece by piece."""
    import torch

    if tensor.device.type == "cpu":
        return tensor
    pieces, size = _page_locked_pieces(), tensor.numel() * tensor.element_size()
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    source, target = (x.reshape(-1).view(torch.uint8) for x in (tensor.contiguous(), host))
    begun: list[tuple[Any, Any, int]] = []  # a piece that is being filled, its event, and where it belongs

    def finish() -> None:
        piece, event, start = begun.pop(0)
        event.synchronize()
        target[start : start + len(piece)].copy_(piece)

    with torch.cuda.device(tensor.device):
        for index, start in enumerate(range(0, size, len(pieces[0]))):
            if len(begun) == len(pieces):
                finish()
            part = source[start : start + len(pieces[0])]
            piece = pieces[index % len(pieces)][: len(part)]
            piece.copy_(part, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            begun.append((piece, event, start))
        while begun:
            finish()
    return host


@functools.cache
def _page_locked_pieces() -> list[Any]:
    import torch

    return [torch.empty(32 << 20, dtype=torch.uint8, device="cpu", pin_memory=True) for _ in range(2)]


class _Runner:
    """The session of a pass for one shape of call, and the tensors between it and the module."""

    def __init__(self, component: Component, name: str, inputs: Mapping[str, Any], optimize: str, place: Any) -> None:
        import torch

        self.place, self.device = place, component.device
        compiled = component.compile({one: tuple(x.shape) for one, x in inputs.items()}, name, optimize=optimize)
        # On a stream of its own, since PyTorch's default stream cannot be recorded.
        self.session = Session(compiled)
        kinds = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32,
                 "i64": torch.int64}  # fmt: skip

        def memory(dtype: str, shape: tuple[int, ...]) -> Any:
            return torch.empty(shape, dtype=kinds[dtype], device=place)

        self.inputs = {name: memory(*compiled.inputs[name]) for name in compiled.inputs}
        self.outputs = {name: memory(*compiled.outputs[name]) for name in compiled.outputs}
        for name, x in self.inputs.items():
            self.session.bind_input(name, x, copy=None if place.type == "cpu" else False)
        for name, x in self.outputs.items():
            self.session.bind_output(name, x)

    def run(self, inputs: Mapping[str, Any], dtype: Any) -> dict[str, Any]:
        for name, x in self.inputs.items():
            x.copy_(inputs[name])
            if name in self.session.copies:
                self.session.set_input(name, x)
        if self.place.type == "cuda":
            import torch

            stream = torch.cuda.current_stream(self.place).cuda_stream
            self.device.order(stream, self.session.stream)
            self.session.submit()
            self.device.order(self.session.stream, stream)
        else:
            self.session.submit()
        # Copies: the next call writes the same memory.
        return {name: x.to(dtype, copy=True) for name, x in self.outputs.items()}


class Accelerated:
    """What is kept of a module that headroom runs."""

    def __init__(self, module: Any, *, optimize: str, release: str, strict: bool) -> None:
        import torch

        self.module, self.optimize, self.release, self.strict = module, optimize, release, strict
        parameters = list(module.parameters())
        self.dtype = parameters[0].dtype
        self.place = parameters[0].device
        self._warned: set[str] = set()
        self._runners: dict[Any, _Runner] = {}
        self._moved: dict[int, tuple[Any, Any]] = {}  # freed tensors with their copies on the host, by identity
        if len({parameter.device for parameter in parameters}) > 1:
            raise UsageError("its parameters are on several devices: put it on one, by .to(device)")
        self.methods = {name: getattr(module, name) for name in _ADAPTERS[type(module).__name__]}
        self.signatures = {name: inspect.signature(method) for name, method in self.methods.items()}
        index = self.place.index if self.place.index is not None else torch.cuda.current_device() if (
            self.place.type == "cuda") else 0
        self.device = Device("cpu" if self.place.type == "cpu" else f"cuda:{index}")
        # Sessions read the module's own memory. What they have loaded is freed, or moves to the host.
        is_on_gpu = self.place.type == "cuda"
        frees = release == "drop" or (release == "torch" and is_on_gpu)
        self._freed_bytes = 0
        self._tensors: dict[str, Any] = {}
        weights = {}
        for name, tensor in module.state_dict(keep_vars=True).items():
            weight_name = _weight_name(module, name)
            self._tensors[weight_name] = tensor
            weights[weight_name] = _headroom.from_dlpack(tensor.detach().to(self.place).contiguous())
        if is_on_gpu:
            torch.cuda.synchronize(self.place)
        loaded = weakref.WeakMethod(self._loaded)  # the component, which self holds, must not hold self
        self.component = Component._in_memory(
            type(module).__name__, _config_of(module), weights, self.device,
            "bf16" if self.dtype in (torch.bfloat16, torch.float16) and is_on_gpu else "f32",
            is_on_gpu, (lambda name: loaded()(name)) if frees else None,  # type: ignore[misc]
        )  # fmt: skip
        for name in self.methods:
            setattr(module, name, self._taken_over(name))
        setattr(module, _ATTRIBUTE, self)

    def _loaded(self, name: str) -> "_headroom.Tensor | None":
        """Frees PyTorch's copy of a weight that a session has loaded. Returns the copy on the host, if one is kept."""
        tensor = self._tensors[name]
        moved = self._moved.get(id(tensor))
        if moved is None:  # otherwise it is tied to another
            host = None if self.release == "drop" else _to_host(tensor.detach())
            moved = self._moved[id(tensor)] = (tensor, host)
            self._freed_bytes += tensor.numel() * tensor.element_size()
            tensor.data = tensor.data.new_empty(0)
            if self._freed_bytes >= _GIVEN_BACK_BYTES:
                self._give_back()
        return None if moved[1] is None else _headroom.from_dlpack(moved[1])

    def _give_back(self) -> None:
        """Lets PyTorch's allocator return what was freed."""
        if self.place.type == "cuda" and self._freed_bytes > 0:
            import torch

            torch.cuda.empty_cache()
        self._freed_bytes = 0

    def _taken_over(self, name: str) -> Callable[..., Any]:
        original = self.methods[name]

        def method(*args: Any, **kwargs: Any) -> Any:
            return self.call(name, args, kwargs)

        method.__name__, method.__doc__ = name, original.__doc__
        method.__signature__ = self.signatures[name]  # type: ignore[attr-defined]
        return method

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        import torch

        try:
            bound = self.signatures[name].bind(*args, **kwargs)
            adapter = _ADAPTERS[type(self.module).__name__][name]
            call = adapter(self.module, dict(bound.arguments))
            given = [x for inputs in call.runs for x in inputs.values()]
            if torch.is_grad_enabled() and any(x.requires_grad for x in given):
                raise _Unsupported("gradients of inputs (use torch.no_grad())")
            on = {x.device for x in given} - {torch.device("cpu"), self.place}
            if on:
                raise _Unsupported(f"inputs on {', '.join(map(str, on))}, where its weights are on {self.place}")
            if self.place.type == "cuda" and torch.cuda.is_current_stream_capturing():
                raise Error("a call of an accelerated module cannot be captured in a graph of CUDA")
        except _Unsupported as reason:
            return self._fall_back(name, str(reason), args, kwargs)
        with torch.no_grad():
            outputs: list[dict[str, Any]] = [{} for _ in call.runs]
            for inputs, made in zip(call.runs, outputs):
                for one in call.passes:
                    made.update(self._runner(one, inputs).run(inputs, self.dtype))
            return call.result(outputs)

    def _runner(self, name: str, inputs: Mapping[str, Any]) -> _Runner:
        key = (name, tuple((one, tuple(x.shape)) for one, x in inputs.items()))
        if key not in self._runners:
            self._runners[key] = _Runner(self.component, name, inputs, self.optimize, self.place)
            self._give_back()
        return self._runners[key]

    def _fall_back(self, name: str, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind = type(self.module).__name__
        if self.strict or self._is_dropped():
            dropped = "" if self.strict else "; PyTorch cannot run it either, since its weights were dropped"
            raise UsageError(f"{kind}.{name} was called with what headroom does not run: {reason}{dropped}")
        if reason not in self._warned:
            self._warned.add(reason)
            back = "; its weights are moved back to the GPU" if self._moved else ""
            warnings.warn(f"{kind}.{name} runs in PyTorch, since headroom does not run {reason}{back}", stacklevel=4)
        self._bring_back()
        return self.methods[name](*args, **kwargs)

    def _is_dropped(self) -> bool:
        return self.release == "drop" and bool(self._moved)

    def _bring_back(self) -> None:
        for tensor, host in self._moved.values():
            tensor.data = host.to(self.place)
        self._moved = {}

    def restore(self) -> None:
        if self._is_dropped():
            raise UsageError("its weights were dropped (release='drop'): load the model again")
        for name in self.methods:
            delattr(self.module, name)
        delattr(self.module, _ATTRIBUTE)
        self._runners.clear()
        self._bring_back()


def _modules_of(pipe_or_module: Any) -> dict[str, Any]:
    components = getattr(pipe_or_module, "components", None)
    if isinstance(components, dict):  # a pipeline
        return {name: part for name, part in components.items() if hasattr(part, "named_parameters")}
    return {"": pipe_or_module}


def accelerate(
    pipe_or_module: T,
    *,
    optimize: str = "lossless",
    release: str = "torch",
    strict: bool = False,
) -> T:
    """Lets headroom run a pipeline of diffusers, or one of its modules, in place; returns it.

    A transformer, U-Net, autoencoder or text encoder keeps its signature, dtype and device, and runs on PyTorch's
    current stream. Its weights are taken from its tensors; no file is read. New shapes compile by themselves.

    `optimize` are switches as for the program's --opt. `release` says what becomes of PyTorch's copy of a weight as
    soon as headroom has loaded it, at the first call: "torch" moves it from a GPU to host memory, from where restore()
    and calls that headroom does not run bring it back; "keep" leaves it; "drop" frees it, also on a CPU, and the
    module can then run in headroom alone. A call with arguments that headroom does not know runs in PyTorch, with one
    warning that says which; `strict=True` raises instead. Modules of a pipeline of other classes stay as they are.
    """
    if release not in ("torch", "keep", "drop"):
        raise UsageError(f"release is {release!r}, expected 'torch', 'keep' or 'drop'")
    modules = _modules_of(pipe_or_module)
    chosen = {}
    for name, module in modules.items():
        kind = type(module).__name__
        if not hasattr(module, "named_parameters"):
            raise UsageError(f"a {kind} was given, expected a pipeline of diffusers or one of its modules")
        if hasattr(module, _ATTRIBUTE):
            raise UsageError(f"{name or kind} is accelerated already: headroom.restore() undoes that")
        if kind == "OptimizedModule" or kind in _ADAPTERS:
            if obstacle := _obstacle(module):
                raise UsageError(f"{name or kind} cannot be accelerated: {obstacle}")
        if kind in _ADAPTERS:
            chosen[name] = module
        elif name:
            _log.info("%s stays in PyTorch: headroom has no %s", name, kind)
    if not chosen:
        kinds = ", ".join(sorted({type(module).__name__ for module in modules.values()}))
        raise UsageError(f"headroom has none of {kinds}; it has {', '.join(_ADAPTERS)}")
    made: list[Accelerated] = []
    try:
        for module in chosen.values():
            made.append(Accelerated(module, optimize=optimize, release=release, strict=strict))
    except BaseException:
        for one in made:
            one.restore()
        raise
    return pipe_or_module


def restore(pipe_or_module: T) -> T:
    """Undoes accelerate(): the modules run in PyTorch again, on their own weights; returns it."""
    found = [module for module in _modules_of(pipe_or_module).values() if hasattr(module, _ATTRIBUTE)]
    if not found:
        raise UsageError("nothing here is accelerated")
    for module in found:
        getattr(module, _ATTRIBUTE).restore()
    return pipe_or_module
