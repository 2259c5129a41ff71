#!/usr/bin/env python3
"""Makes the goldens of samplers: what diffusers' schedulers make of noise under a model that is a formula.

    python3 tests/goldens/make_samplers.py --out tests/goldens/samplers

cases.json: by case

    config        scheduler_config.json as diffusers writes it, as text
    predictions   the values of its prediction_type that were run, in the order of `latents`; of flow matching one
    steps         the numbers of steps that were run
    tokens        of the image, by which levels are shifted; null where nothing is
    evenly        whether the pipeline gives the levels before the shift, 1 to 1/steps, as FLUX's does

expected.safetensors, all for the shape [2, 3, 4]:

    noise [2, 3, 4], step_noise [50, 2, 3, 4]      F32; of the start, and what the scheduler draws at the i-th call
    bias [2, 3, 4]                                 F32; the model is tanh(0.7 x + bias t / 1000) + 0.2 x
    alphas_cumprod.<beta schedule> [1000]          F32; scaled_linear is Stable Diffusion's
    <case>.<steps>.sigmas [steps + 1]              F32; the scheduler's own, each once; not of DDIM, LCM and PNDM
    <case>.<steps>.timesteps [calls]               F64; as the model is given them
    <case>.<steps>.latents [predictions, 2, 3, 4]  F64; the sample at the end
    <case>.<steps>.fp32_error [predictions]        F64; how far the scheduler is from it by itself (relative L2)

`latents` are the scheduler's formulas in double precision on the levels and alphas that it has made in float32: while
they are computed, its casts to float32 go to float64. Noise is drawn here and handed to it in place of randn_tensor.
Runs on a CPU in seconds. Needs PyTorch, diffusers and safetensors.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

SHAPE = (2, 3, 4)
STEPS = [4, 7, 20, 50]
# Stable Diffusion's.
BETAS = dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
FLOW = dict(prediction_type="flow_prediction", use_flow_sigmas=True)
DYNAMIC = dict(use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096)
QWEN = dict(use_dynamic_shifting=True, base_shift=0.5, max_shift=0.9, base_image_seq_len=256, max_image_seq_len=8192,
            shift_terminal=0.02)
SDE = dict(algorithm_type="sde-dpmsolver++")

# name: (module, class, config, what else: tokens, evenly, predictions)
EULER = ("scheduling_euler_discrete", "EulerDiscreteScheduler")
HEUN = ("scheduling_heun_discrete", "HeunDiscreteScheduler")
DPM = ("scheduling_dpmsolver_multistep", "DPMSolverMultistepScheduler")
UNIPC = ("scheduling_unipc_multistep", "UniPCMultistepScheduler")
DDIM = ("scheduling_ddim", "DDIMScheduler")
ANCESTRAL = ("scheduling_euler_ancestral_discrete", "EulerAncestralDiscreteScheduler")
LCM = ("scheduling_lcm", "LCMScheduler")
PNDM = ("scheduling_pndm", "PNDMScheduler")
FLOW_EULER = ("scheduling_flow_match_euler_discrete", "FlowMatchEulerDiscreteScheduler")
FLOW_HEUN = ("scheduling_flow_match_heun_discrete", "FlowMatchHeunDiscreteScheduler")
FLOW_LCM = ("scheduling_flow_match_lcm", "FlowMatchLCMScheduler")
FLOW_ANCESTRAL = ("scheduling_ltx_euler_ancestral_rf", "LTXEulerAncestralRFScheduler")
CASES = {
    "euler-leading": (EULER, dict(BETAS, timestep_spacing="leading", steps_offset=1), {}),
    "euler-linspace": (EULER, dict(BETAS, timestep_spacing="linspace"), {}),
    "euler-trailing": (EULER, dict(BETAS, timestep_spacing="trailing", final_sigmas_type="sigma_min"), {}),
    "euler-karras": (EULER, dict(BETAS, use_karras_sigmas=True), {}),
    "euler-karras-limits": (EULER, dict(BETAS, use_karras_sigmas=True, sigma_min=0.02, sigma_max=20.0), {}),
    "euler-exponential": (EULER, dict(BETAS, use_exponential_sigmas=True), {}),
    "euler-zero-snr": (EULER, dict(BETAS, timestep_spacing="trailing", rescale_betas_zero_snr=True),
                       dict(predictions=["v_prediction"])),
    "euler-linear": (EULER, dict(beta_schedule="linear", beta_start=0.0001, beta_end=0.02), {}),
    "heun-linspace": (HEUN, dict(BETAS), {}),
    "heun-leading": (HEUN, dict(BETAS, timestep_spacing="leading", steps_offset=1), {}),
    "heun-karras": (HEUN, dict(BETAS, use_karras_sigmas=True), {}),
    "dpm-linspace": (DPM, dict(BETAS), {}),
    "dpm-leading": (DPM, dict(BETAS, timestep_spacing="leading", steps_offset=1), {}),
    "dpm-trailing": (DPM, dict(BETAS, timestep_spacing="trailing"), {}),
    "dpm-karras": (DPM, dict(BETAS, use_karras_sigmas=True), {}),
    "dpm-sigma-min": (DPM, dict(BETAS, final_sigmas_type="sigma_min"), {}),
    "dpm-euler-at-final": (DPM, dict(BETAS, final_sigmas_type="sigma_min", lower_order_final=False, euler_at_final=True), {}),
    "dpm-heun": (DPM, dict(BETAS, solver_type="heun"), {}),
    "dpm-order-1": (DPM, dict(BETAS, solver_order=1), {}),
    "dpm-cosine": (DPM, dict(beta_schedule="squaredcos_cap_v2", lambda_min_clipped=-5.1), {}),
    "dpm-sde": (DPM, dict(BETAS, **SDE), {}),
    "dpm-sde-heun-karras": (DPM, dict(BETAS, **SDE, solver_type="heun", use_karras_sigmas=True), {}),
    "unipc-linspace": (UNIPC, dict(BETAS), {}),
    "unipc-leading": (UNIPC, dict(BETAS, timestep_spacing="leading", steps_offset=1), {}),
    "unipc-karras": (UNIPC, dict(BETAS, use_karras_sigmas=True), {}),
    "unipc-karras-sigma-min": (UNIPC, dict(BETAS, use_karras_sigmas=True, final_sigmas_type="sigma_min"), {}),
    "unipc-sigma-min": (UNIPC, dict(BETAS, final_sigmas_type="sigma_min", lower_order_final=False), {}),
    "unipc-bh1": (UNIPC, dict(BETAS, solver_type="bh1", final_sigmas_type="sigma_min"), {}),  # else it makes NaN
    "unipc-order-1": (UNIPC, dict(BETAS, solver_order=1, disable_corrector=[0, 2]), {}),
    "ddim-leading": (DDIM, dict(BETAS, clip_sample=False, set_alpha_to_one=False, steps_offset=1), {}),
    "ddim-trailing": (DDIM, dict(BETAS, clip_sample=False, timestep_spacing="trailing"), {}),
    "ddim-linspace": (DDIM, dict(BETAS, clip_sample=False, timestep_spacing="linspace"), {}),
    "ddim-zero-snr": (DDIM, dict(BETAS, clip_sample=False, timestep_spacing="trailing", rescale_betas_zero_snr=True),
                      dict(predictions=["v_prediction"])),
    "ancestral-leading": (ANCESTRAL, dict(BETAS, timestep_spacing="leading", steps_offset=1), {}),
    "ancestral-linspace": (ANCESTRAL, dict(BETAS), {}),
    "lcm": (LCM, dict(), {}),
    "plms-leading": (PNDM, dict(BETAS, skip_prk_steps=True, steps_offset=1), {}),
    "plms-alpha-one": (PNDM, dict(BETAS, skip_prk_steps=True, set_alpha_to_one=True), {}),
    "flow-euler-dynamic": (FLOW_EULER, DYNAMIC, dict(tokens=1024, evenly=True)),
    "flow-euler-static": (FLOW_EULER, dict(shift=3.0), dict(evenly=True)),
    "flow-euler-own": (FLOW_EULER, dict(shift=3.0), {}),
    "flow-euler-terminal": (FLOW_EULER, QWEN, dict(tokens=4096, evenly=True)),
    "flow-euler-linear": (FLOW_EULER, dict(DYNAMIC, time_shift_type="linear"), dict(tokens=1024, evenly=True)),
    "flow-euler-karras": (FLOW_EULER, dict(shift=3.0, use_karras_sigmas=True), dict(evenly=True)),
    "flow-euler-exponential": (FLOW_EULER, dict(shift=3.0, use_exponential_sigmas=True), dict(evenly=True)),
    "flow-euler-stochastic": (FLOW_EULER, dict(DYNAMIC, stochastic_sampling=True), dict(tokens=256, evenly=True)),
    "flow-heun": (FLOW_HEUN, dict(shift=3.0), {}),
    "flow-dpm": (DPM, dict(FLOW, flow_shift=3.0), {}),
    "flow-dpm-dynamic": (DPM, dict(FLOW, use_dynamic_shifting=True), dict(tokens=1024)),
    "flow-dpm-sde": (DPM, dict(FLOW, flow_shift=3.0, **SDE), {}),
    "flow-unipc": (UNIPC, dict(FLOW, flow_shift=3.0), {}),
    "flow-unipc-dynamic": (UNIPC, dict(FLOW, use_dynamic_shifting=True), dict(tokens=1024)),
    "flow-unipc-terminal": (UNIPC, dict(FLOW, flow_shift=3.0, shift_terminal=0.02), {}),
    "flow-lcm": (FLOW_LCM, dict(shift=3.0), dict(evenly=True)),
    "flow-ancestral": (FLOW_ANCESTRAL, dict(eta=1.0), dict(evenly=True)),
}


class Double:
    """A module, but that its float32 is float64."""

    def __init__(self, module):
        self.module, self.float32 = module, module.float64

    def __getattr__(self, name):
        return getattr(self.module, name)


def dynamic_shift(tokens, config):
    """calculate_shift of diffusers' pipelines, with the defaults that they give a config without the keys."""
    low, high = config.get("base_image_seq_len", 256), config.get("max_image_seq_len", 4096)
    base, most = config.get("base_shift", 0.5), config.get("max_shift", 1.15)
    slope = (most - base) / (high - low)
    return tokens * slope + base - slope * low


def start(scheduler, steps, extra):
    arguments = {}
    if extra.get("tokens"):
        arguments["mu"] = dynamic_shift(extra["tokens"], scheduler.config)
    if extra.get("evenly"):
        even = np.linspace(1.0, 1 / steps, steps)
        # One class wants the 0 at the end, and takes them as they are.
        arguments["sigmas"] = [*even, 0.0] if "LTX" in type(scheduler).__name__ else even
        scheduler.set_timesteps(**arguments)
    else:
        scheduler.set_timesteps(steps, **arguments)
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(0)


def run(module, scheduler, tensors, dtype):
    """The sample at the end, and the timesteps that the model was given."""
    state = {"call": 0}
    module.randn_tensor = lambda *args, **kwargs: tensors["step_noise"][state["call"]].to(dtype)
    sample = tensors["noise"].to(dtype) * getattr(scheduler, "init_noise_sigma", 1.0)
    bias = tensors["bias"].to(dtype)
    timesteps = scheduler.timesteps
    if "LTX" in type(scheduler).__name__:
        timesteps = timesteps[: scheduler.num_inference_steps]
    given = []
    for state["call"], t in enumerate(timesteps):
        x = scheduler.scale_model_input(sample, t) if hasattr(scheduler, "scale_model_input") else sample
        given.append(float(t))
        output = torch.tanh(0.7 * x + bias * (float(t) / 1000)) + 0.2 * x
        sample = scheduler.step(output.to(dtype), t, sample, return_dict=False)[0]
        if sample.dtype != dtype:
            raise TypeError(f"step {state['call']} gives {sample.dtype}, expected {dtype}")
    if not torch.isfinite(sample).all():
        raise ValueError("the sample is not finite")
    return sample, torch.tensor(given, dtype=torch.float64)


def run_double(module, scheduler, tensors):
    for name in ("sigmas", "alphas_cumprod", "final_alpha_cumprod"):
        if hasattr(scheduler, name):
            setattr(scheduler, name, getattr(scheduler, name).double())
    torch.set_default_dtype(torch.float64)
    module.torch = Double(torch)
    try:
        return run(module, scheduler, tensors, torch.float64)
    finally:
        module.torch = torch
        torch.set_default_dtype(torch.float32)


def make_case(name, case, tensors):
    """The case for cases.json, and its tensors."""
    (module_name, class_name), config, extra = case
    module = importlib.import_module("diffusers.schedulers." + module_name)
    make = getattr(module, class_name)
    is_flow = name.startswith("flow-")
    predictions = extra.get("predictions", [None] if is_flow else ["epsilon", "v_prediction"])
    made = {}
    for steps in STEPS:
        latents, errors = [], []
        for prediction in predictions:
            full = dict(config) if prediction is None else dict(config, prediction_type=prediction)
            single, double = make(**full), make(**full)
            start(single, steps, extra)
            start(double, steps, extra)
            rough, _ = run(module, single, tensors, torch.float32)
            exact, timesteps = run_double(module, double, tensors)
            latents.append(exact)
            errors.append(((rough.double() - exact).norm() / exact.norm()).item())
        key = f"{name}.{steps}."
        made[key + "timesteps"] = timesteps
        made[key + "latents"] = torch.stack(latents)
        made[key + "fp32_error"] = torch.tensor(errors, dtype=torch.float64)
        if getattr(single, "sigmas", None) is not None:
            sigmas = single.sigmas.float()
            if len(sigmas) == 2 * steps:  # Heun's, of which all but the first and the last are there twice
                sigmas = torch.cat([sigmas[:1], sigmas[1::2]])
            if len(sigmas) != steps + 1:
                raise ValueError(f"{len(sigmas)} sigmas of {steps} steps")
            made[key + "sigmas"] = sigmas.contiguous()
        print(f"{name}, {steps} steps, {len(timesteps)} calls: rms {exact.square().mean().sqrt().item():.4f}, diffusers "
              f"within {max(errors):.2e} in fp32", flush=True)
    described = dict(config=make(**config).to_json_string(), steps=STEPS, tokens=extra.get("tokens"),
                     predictions=["flow_prediction"] if is_flow else predictions, evenly=bool(extra.get("evenly")))
    return described, made


def make_alphas(tensors):
    from diffusers import DDIMScheduler

    for name, config in {"scaled_linear": BETAS, "zero_snr": dict(BETAS, rescale_betas_zero_snr=True),
                         "linear": dict(beta_schedule="linear", beta_start=0.0001, beta_end=0.02),
                         "squaredcos_cap_v2": dict(beta_schedule="squaredcos_cap_v2")}.items():
        tensors["alphas_cumprod." + name] = DDIMScheduler(**config).alphas_cumprod.clone()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder to write to")
    out = Path(parser.parse_args().out)
    out.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(61)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    tensors = {"noise": draw(*SHAPE), "step_noise": draw(50, *SHAPE), "bias": draw(*SHAPE)}
    make_alphas(tensors)
    cases, failed = {}, []
    for name, case in CASES.items():
        try:
            cases[name], made = make_case(name, case, tensors)
            tensors.update(made)
        except Exception as error:  # the others are of use without it
            failed.append(name)
            print(f"FAILED {name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    (out / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    save_file(tensors, out / "expected.safetensors")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
