"""diffusers' FluxTransformer2DModel as its users run it at its best, and the denoise loop of its pipeline: what
flux_torch.py times and flux_error.py compares with.

A model comes from a folder or is random (normal, standard deviation 0.02, as Headroom's stand-ins are). Then, in this
order: merged QKV, an attention backend, FP8 products with a scale for each row of activations and each row of weights,
torch.compile. Needs PyTorch, diffusers and safetensors.
"""

import copy
import json
import os
import tempfile

import torch
from safetensors.torch import load_file

from diffusers import FlowMatchEulerDiscreteScheduler, FluxTransformer2DModel, GGUFQuantizationConfig
from diffusers.hooks import FirstBlockCacheConfig, apply_first_block_cache

import flux_shapes

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

GUIDANCE = 3.5  # FLUX.1-dev's own
E4M3_MAX = 448.0


def load_model(folder, device, dtype):
    """The model of a folder in diffusers layout, or of a pipeline's folder its transformer."""
    if os.path.isdir(os.path.join(folder, "transformer")):
        folder = os.path.join(folder, "transformer")
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    model = FluxTransformer2DModel.from_config(config)
    model.load_state_dict(load_file(os.path.join(folder, "diffusion_pytorch_model.safetensors")))
    return model.to(device=device, dtype=dtype).eval()


def load_gguf(path, device, dtype):
    """FLUX.1-dev's transformer from a GGUF file by diffusers' own loader: weights stay in blocks and are unpacked
    before each product.
    """
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(flux_shapes.transformer("dev"), file)
        model = FluxTransformer2DModel.from_single_file(path, config=folder, torch_dtype=dtype,
                                                        quantization_config=GGUFQuantizationConfig(compute_dtype=dtype))
    return model.to(device).eval()


def random_model(device, dtype, seed, kind="dev"):
    """FLUX.1's transformer with random weights."""
    with torch.device("meta"):
        model = FluxTransformer2DModel.from_config(flux_shapes.transformer(kind))
    return fill(model.to(dtype).to_empty(device=device).eval(), seed)


def fill(model, seed):
    """The model with weights drawn as Headroom's stand-ins draw them: 0.02 randn, and 1 + 0.02 randn for the gains
    of norms.
    """
    generator = torch.Generator(next(model.parameters()).device).manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            mean = 1.0 if parameter.ndim == 1 and name.endswith(".weight") else 0.0
            parameter.normal_(mean, 0.02, generator=generator)
    return model


def image_ids(image, rows, columns):
    """[rows * columns, 3]: the image's number, row and column of each token."""
    ids = torch.full((rows, columns, 3), float(image))
    ids[..., 1] = torch.arange(rows)[:, None]
    ids[..., 2] = torch.arange(columns)[None, :]
    return ids.reshape(rows * columns, 3)


def random_inputs(config, rows, columns, batch, text_tokens, device, dtype, generator, reference=(0, 0)):
    """One set of inputs as FLUX's pipeline shapes them, and as Kontext's does where an image of `reference` tokens
    down and across is edited. Drawn on the CPU so that every device gets the same numbers."""
    draw = lambda *shape: torch.randn(*shape, generator=generator).to(device, dtype)  # noqa: E731
    ids = torch.cat([image_ids(0, rows, columns), image_ids(1, *reference)])
    inputs = {
        "hidden_states": draw(batch, len(ids), config["in_channels"]),
        "encoder_hidden_states": draw(batch, text_tokens, config["joint_attention_dim"]),
        "pooled_projections": draw(batch, config["pooled_projection_dim"]),
        "timestep": torch.rand(batch, generator=generator).to(device, dtype),
        "img_ids": ids.to(device),
        "txt_ids": torch.zeros(text_tokens, 3, device=device),
    }
    if config["guidance_embeds"]:
        inputs["guidance"] = torch.full((batch,), GUIDANCE, device=device, dtype=dtype)
    return inputs


class Fp8Linear(torch.nn.Module):
    """x W^T + b on FP8 tensor cores: E4M3, one dynamic scale for each row of x, one static scale for each row of W,
    fast accumulation. torch.compile fuses the quantization with what comes before it. Rows are filled up to a
    multiple of 16 and to `least_rows`, since cuBLASLt refuses a few; settle_rows() finds how many."""

    weight = None  # transformers' T5 would cast what comes in to its dtype
    least_rows = 16

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / E4M3_MAX
        self.register_buffer("quantized", (weight / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", scale.t().contiguous())
        self.register_buffer("bias", linear.bias.detach() if linear.bias is not None else None)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        count = rows.shape[0]
        missing = max(self.least_rows - count, -count % 16)
        if missing:
            rows = torch.nn.functional.pad(rows, (0, 0, 0, missing))
        scale = rows.abs().amax(dim=1, keepdim=True).float().clamp(min=1e-12) / E4M3_MAX
        quantized = (rows.float() / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
        result = torch._scaled_mm(quantized, self.quantized.t(), scale_a=scale, scale_b=self.weight_scale, bias=self.bias,
                                  out_dtype=x.dtype, use_fast_accum=True)
        return result[:count].reshape(*x.shape[:-1], -1)


def settle_rows(model, dtype, device):
    """Gives each Fp8Linear the least of 16, 32, 64, ... rows with which it runs, by running one of each size.
    Returns these by (outputs, inputs)."""
    least = {}
    for module in model.modules():
        if not isinstance(module, Fp8Linear):
            continue
        size = tuple(module.quantized.shape)
        if size not in least:
            least[size] = fewest_rows(module, torch.ones(1, size[1], dtype=dtype, device=device))
        module.least_rows = least[size]
    return least


def fewest_rows(module, row):
    refusal = None
    for rows in (16, 32, 64, 128, 256):
        module.least_rows = rows
        try:
            module(row)
            if row.is_cuda:
                torch.cuda.synchronize()
            return rows
        except RuntimeError as error:
            refusal = error
    raise SystemExit(f"no number of rows runs in FP8 with a weight of {tuple(module.quantized.shape)}: {refusal}")


def merge_qkv(model):
    """diffusers' own fusion, and the separate projections given back, which it would keep in memory."""
    model.fuse_qkv_projections()
    for module in model.modules():
        if getattr(module, "fused_projections", False):
            for name in ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj"):
                if hasattr(module, name):
                    delattr(module, name)


def quantize_fp8(*blocks):
    """Every product of tokens inside the blocks in FP8; FLUX's modulations (one row) and what is outside the blocks
    stay.
    """
    for block in blocks:
        for name, module in list(block.named_modules()):
            if isinstance(module, torch.nn.Linear) and "norm" not in name:
                parent, _, leaf = name.rpartition(".")
                setattr(block.get_submodule(parent), leaf, Fp8Linear(module))
                module.weight = module.bias = None  # one matrix at a time, so that the peak stays near the result


def compile_blocks(model, mode):
    """Regional compilation, as diffusers documents it: each kind of block once, for static shapes."""
    torch._dynamo.config.cache_size_limit = 64
    model.compile_repeated_blocks(fullgraph=True, dynamic=False, mode=mode)


def capture(model, inputs):
    """`model` on `inputs` captured in a CUDA Graph by hand; returns replay(inputs), which copies in and gives the
    output, and holds the model."""
    static = {name: value.clone() for name, value in inputs.items()}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(**static, return_dict=False)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = model(**static, return_dict=False)[0]

    def replay(inputs):
        for name, value in inputs.items():
            static[name].copy_(value)
        graph.replay()
        return output

    replay.model = model
    return replay


class FirstBlockCache:
    """A model with diffusers' own first-block cache around its blocks, which are compiled anew. Decisions are those
    of `schedule`: a digit for each step, again and again, 1 is computed, 0 reused. Each step still compares and the
    host reads what comes of it, as the hook has it."""

    def __init__(self, model, schedule):
        for blocks in (model.transformer_blocks, model.single_transformer_blocks):
            for block in blocks:  # the hook's decision cannot be compiled, so what it wraps is
                block._compiled_call_impl = None
                block.forward = torch.compile(block.forward, fullgraph=True, dynamic=False)
        apply_first_block_cache(model, FirstBlockCacheConfig(threshold=0.05))
        self.model, self.schedule, self.step = model, schedule, 0
        for module in model.modules():
            hook = getattr(module, "_diffusers_hook", None) and module._diffusers_hook.get_hook("fbc_leader_block_hook")
            if hook:
                hook._should_compute_remaining_blocks = self.decider(hook._should_compute_remaining_blocks)

    def decider(self, decide):
        def decided(residual):
            decide(residual)
            return self.step == 0 or self.schedule[self.step % len(self.schedule)] == "1"

        return torch.compiler.disable(decided)

    def begin(self):
        """The next step is the first of a request."""
        self.step = 0

    def __call__(self, inputs):
        with self.model.cache_context("request"):
            velocity = self.model(**inputs, return_dict=False)[0]
        self.step += 1
        return velocity


def schedule(steps, image_tokens, device):
    """FLUX.1-dev's scheduler, set for a request as diffusers' FluxPipeline sets it."""
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift=3.0)
    config = scheduler.config
    slope = (config.max_shift - config.base_shift) / (config.max_image_seq_len - config.base_image_seq_len)
    shift = config.base_shift + slope * (image_tokens - config.base_image_seq_len)
    scheduler.set_timesteps(sigmas=[1 - step / steps for step in range(steps)], mu=shift, device=device)
    return scheduler


def denoise(forward, scheduler, inputs):
    """The latents that all of a schedule's steps make of `inputs`' hidden_states, as FluxPipeline's loop does. The
    host waits for nothing, and the scheduler stays as it was."""
    scheduler = copy.copy(scheduler)
    scheduler.set_begin_index(0)
    latents = inputs["hidden_states"]
    for time in scheduler.timesteps:
        timestep = time.expand(latents.shape[0]).to(latents.dtype)
        velocity = forward(inputs | {"hidden_states": latents, "timestep": timestep / 1000})
        latents = scheduler.step(velocity, time, latents, return_dict=False)[0]
    return latents
