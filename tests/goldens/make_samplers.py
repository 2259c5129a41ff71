#!/usr/bin/env python3
"""Makes the goldens of samplers: what diffusers' schedulers make of noise under a model that is a formula.

    python3 tests/goldens/make_samplers.py --out tests/goldens/samplers

cases.json: by case

    config        scheduler_config.json as diffusers writes it, as text
    predictions   the values of its prediction_type that were run, in the order of `latents`; of flow matching one
    steps         the numbers of steps that were run
    tokens        of the image, by which levels are shifted; null where nothing is
    eta           passed to each step of TCD; null of others
    evenly        whether the pipeline gives the levels before the shift, 1 to 1/steps, as FLUX's does

expected.safetensors, all for the shape [2, 3, 4]:

    noise [2, 3, 4], step_noise [50, 2, 3, 4]      F32; of the start, and what the scheduler draws at the i-th call
    bias [2, 3, 4]                                 F32; the model is tanh(0.7 x + bias t / 1000) + 0.2 x
    alphas_cumprod.<beta schedule> [1000]          F32; scaled_linear is Stable Diffusion's
    <case>.<steps>.sigmas [steps + 1]              F32; the scheduler's own, each once; not of DDIM, LCM and PNDM
    <case>.<steps>.timesteps [calls]               F64; as the model is given them
    <case>.<steps>.latents [predictions, 2, 3, 4]  F64; the sample at the end
    <case>.<steps>.fp32_error [predictions]        F64; how far the scheduler is from it by itself (relative L2)

The file's metadata are the versions that it was made with. PyTorch's square roots and numpy's logarithms of f32 are not
rounded exactly in all of them, and numpy 2 compares such a logarithm with one of f64; while this runs they are, and
entries of tables are found in f32 (`exact`). With numpy before 2 levels with exponential spacing, and Karras's on
cosine betas, begin at timestep 999, not 998.

`latents` are the scheduler's formulas in double precision on the levels and alphas that it has made in float32: while
they are computed, its casts to float32 go to float64. Noise is drawn here and handed to it in place of randn_tensor.
Runs on a CPU in seconds. Needs PyTorch, diffusers, scipy, torchsde and safetensors.
"""

import argparse
import contextlib
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
SINGLESTEP = ("scheduling_dpmsolver_singlestep", "DPMSolverSinglestepScheduler")
SDE_CLASS = ("scheduling_dpmsolver_sde", "DPMSolverSDEScheduler")
DEIS = ("scheduling_deis_multistep", "DEISMultistepScheduler")
LMS = ("scheduling_lms_discrete", "LMSDiscreteScheduler")
DDPM = ("scheduling_ddpm", "DDPMScheduler")
TCD = ("scheduling_tcd", "TCDScheduler")
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
    "heun-karras-limits": (HEUN, dict(BETAS, use_karras_sigmas=True, sigma_min=0.02, sigma_max=20.0), {}),
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
    # Counts of trailing steps where numpy's arange decides: 48 moves four timesteps, 61 has one more.
    "euler-trailing-arange": (EULER, dict(BETAS, timestep_spacing="trailing"), dict(steps=[48, 61])),
    "dpm-trailing-arange": (DPM, dict(BETAS, timestep_spacing="trailing"), dict(steps=[48, 61])),
    "ddim-trailing-arange": (DDIM, dict(BETAS, clip_sample=False, timestep_spacing="trailing"), dict(steps=[48, 61])),
    "plms-trailing": (PNDM, dict(BETAS, skip_prk_steps=True, timestep_spacing="trailing"), {}),
    "euler-zero-snr-karras": (EULER, dict(beta_schedule="linear", use_karras_sigmas=True, rescale_betas_zero_snr=True,
                                          timestep_spacing="trailing"), dict(predictions=["v_prediction"])),
    "dpm-exponential": (DPM, dict(BETAS, use_exponential_sigmas=True), {}),
    "dpm-cosine-karras": (DPM, dict(beta_schedule="squaredcos_cap_v2", use_karras_sigmas=True), {}),
    "dpm-beta-limits": (DPM, dict(BETAS, use_beta_sigmas=True, sigma_min=0.02, sigma_max=20.0), {}),
    "unipc-exponential": (UNIPC, dict(BETAS, use_exponential_sigmas=True), {}),
    "euler-beta": (EULER, dict(BETAS, use_beta_sigmas=True), {}),
    "dpm-beta": (DPM, dict(BETAS, use_beta_sigmas=True), {}),
    "dpm-2s": (SINGLESTEP, dict(BETAS), {}),
    "dpm-2s-sigma-min": (SINGLESTEP, dict(BETAS, final_sigmas_type="sigma_min", solver_type="heun"), {}),
    "dpm-3s": (SINGLESTEP, dict(BETAS, solver_order=3), {}),
    "dpm-3s-sigma-min": (SINGLESTEP, dict(BETAS, solver_order=3, final_sigmas_type="sigma_min"), {"steps": [6, 7, 8]}),
    "dpm-3s-heun-karras": (SINGLESTEP, dict(BETAS, solver_order=3, solver_type="heun", use_karras_sigmas=True), {}),
    "dpm-2s-karras-limits": (SINGLESTEP, dict(BETAS, use_karras_sigmas=True, sigma_min=0.02, sigma_max=20.0), {}),
    "dpm-2s-sde": (SINGLESTEP, dict(BETAS, **SDE, use_karras_sigmas=True), {}),
    "dpm-3s-sde-heun": (SINGLESTEP, dict(BETAS, **SDE, solver_order=3, solver_type="heun"), {}),
    "dpm-sde-class": (SDE_CLASS, dict(BETAS), {}),
    "dpm-sde-class-karras": (SDE_CLASS, dict(BETAS, use_karras_sigmas=True), {}),
    "dpm-sde-class-karras-limits": (SDE_CLASS, dict(BETAS, use_karras_sigmas=True, sigma_min=0.02, sigma_max=20.0), {}),
    "deis-leading": (DEIS, dict(BETAS, timestep_spacing="leading", steps_offset=1), {}),
    "deis-order-3": (DEIS, dict(BETAS, solver_order=3), {}),
    "deis-order-1": (DEIS, dict(BETAS, solver_order=1, timestep_spacing="trailing"), {}),
    "deis-karras": (DEIS, dict(BETAS, use_karras_sigmas=True), {}),
    "deis-exponential-limits": (DEIS, dict(BETAS, use_exponential_sigmas=True, sigma_min=0.02, sigma_max=20.0), {}),
    "lms-linspace": (LMS, dict(BETAS), {}),
    "lms-leading": (LMS, dict(BETAS, timestep_spacing="leading", steps_offset=1), {}),
    "lms-karras": (LMS, dict(BETAS, use_karras_sigmas=True), {}),
    "lms-exponential-limits": (LMS, dict(BETAS, use_exponential_sigmas=True, sigma_min=0.02, sigma_max=20.0), {}),
    "lms-karras-limits": (LMS, dict(BETAS, use_karras_sigmas=True, sigma_min=0.02, sigma_max=20.0), {}),
    "ddpm-leading": (DDPM, dict(BETAS, clip_sample=False, steps_offset=1), {}),
    "ddpm-large": (DDPM, dict(BETAS, clip_sample=False, variance_type="fixed_large", timestep_spacing="trailing"), {}),
    "tcd": (TCD, dict(), dict(eta=0.0)),
    "tcd-eta": (TCD, dict(), dict(eta=0.3)),
    "flow-euler-beta": (FLOW_EULER, dict(shift=3.0, use_beta_sigmas=True), dict(evenly=True)),
    "flow-euler-dynamic": (FLOW_EULER, DYNAMIC, dict(tokens=1024, evenly=True)),
    "flow-euler-static": (FLOW_EULER, dict(shift=3.0), dict(evenly=True)),
    "flow-euler-own": (FLOW_EULER, dict(shift=3.0), {}),
    "flow-euler-terminal": (FLOW_EULER, QWEN, dict(tokens=4096, evenly=True)),
    "flow-euler-linear": (FLOW_EULER, dict(DYNAMIC, time_shift_type="linear"), dict(tokens=1024, evenly=True)),
    "flow-euler-karras": (FLOW_EULER, dict(shift=3.0, use_karras_sigmas=True), dict(evenly=True)),
    "flow-euler-karras-limits": (FLOW_EULER, dict(shift=3.0, use_karras_sigmas=True, sigma_min=0.02, sigma_max=0.9), dict(evenly=True)),
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


def place_of(self, sigma, log_sigmas):
    """_sigma_to_t, but that a sigma is the entry that it equals in f32: under numpy 2 it may be a last bit below."""
    log_sigma = np.log(np.maximum(sigma, 1e-10))
    not_above = np.nonzero(log_sigmas <= np.float32(log_sigma))[0]
    low = min(not_above[-1] if len(not_above) else 0, len(log_sigmas) - 2)
    along = np.clip((log_sigmas[low] - log_sigma) / (log_sigmas[low] - log_sigmas[low + 1]), 0, 1)
    return (1 - along) * low + along * (low + 1)


@contextlib.contextmanager
def exact():
    """f32 square roots, powers of a half and logarithms are those of f64, rounded. Tables are searched in f32."""
    sqrt, torch_sqrt, power, log, numpy_log = torch.Tensor.sqrt, torch.sqrt, torch.Tensor.__pow__, torch.log, np.log
    rooted = lambda x: sqrt(x.double()).to(x.dtype) if x.dtype == torch.float32 else sqrt(x)  # noqa: E731
    logarithm = lambda x: numpy_log(x.astype(np.float64)).astype(np.float32)  # noqa: E731
    torch.Tensor.sqrt = torch.sqrt = rooted
    torch.Tensor.__pow__ = lambda x, exponent: rooted(x) if exponent == 0.5 else power(x, exponent)
    torch.log = lambda x: log(x.double()).to(x.dtype) if x.dtype == torch.float32 else log(x)
    np.log = lambda x: logarithm(x) if getattr(x, "dtype", None) == np.float32 else numpy_log(x)
    places = {}
    for module, name in (EULER, HEUN, LMS, SDE_CLASS, DPM, SINGLESTEP, UNIPC, DEIS):
        made = getattr(importlib.import_module("diffusers.schedulers." + module), name)
        places[made], made._sigma_to_t = made._sigma_to_t, place_of
    try:
        yield
    finally:
        torch.Tensor.sqrt, torch.sqrt, torch.Tensor.__pow__, torch.log, np.log = sqrt, torch_sqrt, power, log, numpy_log
        for made, place in places.items():
            made._sigma_to_t = place


class BrownianMotion:
    """Replaces DPMSolverSDEScheduler's: the motion of half a step and of a whole one, from `fresh` noise."""

    def __init__(self, fresh):
        self.fresh, self.half = fresh, None

    def __call__(self, begin, end):
        if self.half is None:
            self.half = begin, end, self.fresh()
            return self.half[2]
        (begin, middle, first), self.half = self.half, None
        return ((begin - middle).sqrt() * first + (middle - end).sqrt() * self.fresh()) / (begin - end).sqrt()


def run(module, scheduler, tensors, dtype, eta=None):
    """The sample at the end, and the timesteps that the model was given."""
    state = {"call": 0}
    fresh = lambda *args, **kwargs: tensors["step_noise"][state["call"] % len(tensors["step_noise"])].to(dtype)  # noqa: E731
    module.randn_tensor = fresh
    if hasattr(scheduler, "noise_sampler"):
        scheduler.noise_sampler = BrownianMotion(fresh)
    arguments = {} if eta is None else {"eta": eta}
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
        sample = scheduler.step(output.to(dtype), t, sample, return_dict=False, **arguments)[0]
        if sample.dtype != dtype:
            raise TypeError(f"step {state['call']} gives {sample.dtype}, expected {dtype}")
    if not torch.isfinite(sample).all():
        raise ValueError("the sample is not finite")
    return sample, torch.tensor(given, dtype=torch.float64)


def run_double(module, scheduler, tensors, eta=None):
    for name in ("sigmas", "alphas_cumprod", "final_alpha_cumprod"):
        if hasattr(scheduler, name):
            setattr(scheduler, name, getattr(scheduler, name).double())
    # TCD rounds (1 - eta) t down in the default dtype: it stays f32, in which users' pipelines have it.
    if type(scheduler).__name__ != TCD[1]:
        torch.set_default_dtype(torch.float64)
    module.torch = Double(torch)
    try:
        return run(module, scheduler, tensors, torch.float64, eta)
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
    for steps in extra.get("steps", STEPS):
        latents, errors = [], []
        for prediction in predictions:
            full = dict(config) if prediction is None else dict(config, prediction_type=prediction)
            single, double = make.from_config(full), make.from_config(full)
            start(single, steps, extra)
            start(double, steps, extra)
            rough, _ = run(module, single, tensors, torch.float32, extra.get("eta"))
            exact, timesteps = run_double(module, double, tensors, extra.get("eta"))
            latents.append(exact)
            errors.append(((rough.double() - exact).norm() / exact.norm()).item())
        key = f"{name}.{steps}."
        made[key + "timesteps"] = timesteps
        made[key + "latents"] = torch.stack(latents)
        made[key + "fp32_error"] = torch.tensor(errors, dtype=torch.float64)
        if getattr(single, "sigmas", None) is not None:
            sigmas = single.sigmas.float()
            # Heun's and DPM++ SDE's, of which all but the first and the last are there twice
            if len(sigmas) == 2 * steps:
                sigmas = torch.cat([sigmas[:1], sigmas[1::2]])
            if len(sigmas) not in (steps + 1, steps + 2):
                raise ValueError(f"{len(sigmas)} sigmas of {steps} steps")
            made[key + "sigmas"] = sigmas.contiguous()
        print(f"{name}, {steps} steps, {len(timesteps)} calls: rms {exact.square().mean().sqrt().item():.4f}, diffusers "
              f"within {max(errors):.2e} in fp32", flush=True)
    described = dict(config=make.from_config(config).to_json_string(), steps=extra.get("steps", STEPS), tokens=extra.get("tokens"), eta=extra.get("eta"),
                     predictions=["flow_prediction"] if is_flow else predictions, evenly=bool(extra.get("evenly")))
    return described, made


def make_alphas(tensors):
    from diffusers import DDIMScheduler

    for name, config in {"scaled_linear": BETAS, "zero_snr": dict(BETAS, rescale_betas_zero_snr=True),
                         "linear": dict(beta_schedule="linear", beta_start=0.0001, beta_end=0.02),
                         "squaredcos_cap_v2": dict(beta_schedule="squaredcos_cap_v2")}.items():
        tensors["alphas_cumprod." + name] = DDIMScheduler(**config).alphas_cumprod.clone()


def draw_tensors(calls):
    generator = torch.Generator().manual_seed(61)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    return {"noise": draw(*SHAPE), "step_noise": draw(calls, *SHAPE), "bias": draw(*SHAPE)}


def versions():
    import diffusers
    import scipy

    return {"diffusers": diffusers.__version__, "torch": torch.__version__, "numpy": np.__version__,
            "scipy": scipy.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder to write to")
    out = Path(parser.parse_args().out)
    out.mkdir(parents=True, exist_ok=True)
    tensors = draw_tensors(50)
    cases, failed = {}, []
    with exact():
        make_alphas(tensors)
    for name, case in CASES.items():
        try:
            with exact():
                cases[name], made = make_case(name, case, tensors)
            tensors.update(made)
        except Exception as error:  # the others are of use without it
            failed.append(name)
            print(f"FAILED {name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    (out / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    save_file(tensors, out / "expected.safetensors", metadata=versions())
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
