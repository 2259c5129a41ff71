#!/usr/bin/env python3
"""Compares samplers with diffusers' schedulers on random configurations: their timesteps, and what they make of noise.

    python3 bench/peers/samplers_diffusers.py --program build/release/tests/sampler_tables --out bench/results/cpu/samplers.txt

Each configuration is a scheduler_config.json of a random class with random keys and 1 to 200 steps; a quarter of them
are read by another class than their own, as `from_config` and `sampler=NAME` do. The model is a formula
(tests/goldens/make_samplers.py), and diffusers' schedulers run in double precision on the levels that they have made in
f32, with the same noise.

What diffusers refuses, or makes NaN or infinities of, is drawn anew and counted as `not_finite`; the program must
answer it without an internal error. PyTorch's square root and numpy's logarithm of f32 are not rounded exactly in every
version, and numpy 2 finds a level that is an entry of a table a last bit below it, where numpy 1.26 does not: a
configuration that disagrees is run again with all that exact in diffusers (`exact` of make_samplers.py), and counted as
`agree_where_exact` if it agrees then.

Needs PyTorch, diffusers, scipy, torchsde and safetensors. Ends with 1 where a configuration disagrees.
"""

import argparse
import importlib
import json
import random
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/goldens"))
import make_samplers as peer  # noqa: E402

TIMESTEP_ERROR = 2e-3  # of timesteps with fractions, which diffusers keeps in f32
SAMPLE_ERROR = 1e-5  # relative L2
CALLS = 402
SAMPLERS = {peer.EULER: "euler", peer.HEUN: "heun", peer.DPM: "dpm++2m", peer.UNIPC: "unipc", peer.DDIM: "ddim",
            peer.ANCESTRAL: "euler-ancestral", peer.PNDM: "plms", peer.SINGLESTEP: "dpm++2s", peer.SDE_CLASS: "dpm++sde",
            peer.DEIS: "deis", peer.LMS: "lms", peer.DDPM: "ddpm", peer.LCM: "lcm", peer.TCD: "tcd"}
DIFFUSION = list(SAMPLERS)
FLOW = [peer.FLOW_EULER, peer.FLOW_HEUN, peer.FLOW_LCM, peer.FLOW_ANCESTRAL]
RESPACED = ["use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"]


class Configurations:
    """Draws them. `draw` gives what to run, as a dict."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one_of(self, *values):
        return self.random.choice(values)

    def respacing(self, config, share, limits):
        if self.random.random() < share:
            config[self.one_of(*RESPACED)] = True
        if self.random.random() < 0.15:
            config.update(zip(("sigma_min", "sigma_max"), limits))

    def dynamic(self, config):
        config.update(use_dynamic_shifting=True, base_shift=self.one_of(0.5, 0.3), max_shift=self.one_of(1.15, 0.9))

    def flow(self):
        kind = self.one_of(*FLOW, peer.FLOW_EULER, peer.DPM, peer.UNIPC)
        config, extra = {}, {}
        if kind in (peer.DPM, peer.UNIPC):
            config = dict(peer.FLOW, flow_shift=round(self.random.uniform(0.5, 8), 3))
            if kind == peer.DPM and self.random.random() < 0.3:
                config.update(peer.SDE)
            if kind == peer.UNIPC and self.random.random() < 0.3:
                config["shift_terminal"] = 0.02
            return kind, config, extra
        extra["evenly"] = kind == peer.FLOW_ANCESTRAL or (kind != peer.FLOW_HEUN and self.random.random() < 0.7)
        if kind == peer.FLOW_ANCESTRAL:
            return kind, dict(eta=round(self.random.uniform(0, 1), 2)), extra
        config["shift"] = round(self.random.uniform(0.5, 8), 3)
        if kind == peer.FLOW_HEUN:
            return kind, config, extra
        if self.random.random() < 0.4:
            self.dynamic(config)
            extra["tokens"] = self.random.randrange(64, 8192)
            if self.random.random() < 0.5:
                config["time_shift_type"] = "linear"
        self.respacing(config, 0.3, (0.02, 0.9))
        if kind == peer.FLOW_EULER and self.random.random() < 0.2:
            config["stochastic_sampling"] = True
        return kind, config, extra

    def betas(self):
        return self.one_of(
            dict(peer.BETAS), dict(peer.BETAS), dict(beta_schedule="linear", beta_start=0.0001, beta_end=0.02),
            dict(beta_schedule="squaredcos_cap_v2"),
            dict(beta_schedule=self.one_of("linear", "scaled_linear"), beta_start=round(self.random.uniform(1e-5, 2e-3), 6),
                 beta_end=round(self.random.uniform(5e-3, 0.03), 5)))

    def diffusion(self):
        kind = self.one_of(*DIFFUSION)
        config = dict(self.betas(), clip_sample=False, skip_prk_steps=True, prediction_type=self.one_of("epsilon", "v_prediction"),
                      timestep_spacing=self.one_of("linspace", "leading", "trailing"), steps_offset=self.one_of(0, 0, 1))
        if self.random.random() < 0.15:
            config["num_train_timesteps"] = self.one_of(250, 500, 999, 2000)
        if config["prediction_type"] == "v_prediction" and self.random.random() < 0.25:
            config["rescale_betas_zero_snr"] = True
        self.respacing(config, 0.4, (0.05, 20.0))
        if self.random.random() < 0.3:
            config["final_sigmas_type"] = "sigma_min"
        if self.random.random() < 0.3:
            config["solver_type"] = self.one_of("midpoint", "heun", "bh1", "bh2", "logrho")
        if self.random.random() < 0.3:
            config["lower_order_final"] = self.one_of(True, False)
        if self.random.random() < 0.2:
            config["euler_at_final"] = True
        if self.random.random() < 0.15:
            config["lambda_min_clipped"] = self.one_of(-5.1, -3.0)
        if self.random.random() < 0.2:
            config["set_alpha_to_one"] = self.one_of(True, False)
        if self.random.random() < 0.15:
            config["disable_corrector"] = [0, 2]
        if kind == peer.DDPM:
            config["variance_type"] = self.one_of("fixed_small", "fixed_small_log", "fixed_large")
        if kind in (peer.DPM, peer.SINGLESTEP) and self.random.random() < 0.3:
            config.update(peer.SDE)
        # Who reads it: its own class, or another.
        reader = self.one_of(*DIFFUSION) if self.random.random() < 0.25 else kind
        most = 3 if reader in (peer.DEIS, peer.SINGLESTEP) else 2
        if self.random.random() < 0.5:
            config["solver_order"] = self.random.randint(1, most)
        if reader != kind:
            config.pop("algorithm_type", None)  # a sampler's name says what it is
            if reader == peer.DDPM:
                config.pop("variance_type", None)
        if reader in (peer.LCM, peer.TCD):
            config["original_inference_steps"] = self.one_of(50, 50, 100)
        return kind, reader, config

    def draw(self):
        steps = self.random.randint(1, 200)
        if self.random.random() < 0.2:
            kind, config, extra = self.flow()
            return dict(kind=kind, reader=kind, config=config, extra=extra, steps=steps, eta=None)
        kind, reader, config = self.diffusion()
        if reader in (peer.LCM, peer.TCD):
            steps = self.random.randint(1, config["original_inference_steps"])
        eta = self.one_of(0.0, 0.3, round(self.random.uniform(0, 1), 2)) if reader == peer.TCD else None
        return dict(kind=kind, reader=reader, config=config, extra={}, steps=steps, eta=eta)


class Program:
    """tests/sampler_tables.cpp, which answers line by line."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tables(self, one):
        asked = dict(config=dict(one["config"], _class_name=one["kind"][1]), steps=one["steps"], **one["extra"])
        if one["reader"] != one["kind"]:
            asked["sampler"] = SAMPLERS[one["reader"]]
        if one["eta"] is not None:
            asked["eta"] = one["eta"]
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the program ended at {asked}")
        return json.loads(line)


def theirs(one, tensors):
    """Timesteps and the sample at the end; an exception where diffusers refuses."""
    module_name, class_name = one["reader"]
    module = importlib.import_module("diffusers.schedulers." + module_name)
    scheduler = getattr(module, class_name).from_config(dict(one["config"], _class_name=one["kind"][1]))
    peer.start(scheduler, one["steps"], one["extra"])
    sample, timesteps = peer.run_double(module, scheduler, tensors, one["eta"])
    return timesteps.numpy(), sample.numpy()


def ours(tables, tensors):
    """What the tables say in double precision."""
    x = tensors["noise"].double().numpy()
    bias, noise = tensors["bias"].double().numpy(), tensors["step_noise"].double().numpy()
    columns = [tables["noise_scale"] * x] + [np.zeros_like(x) for _ in range(3)]
    for call, (t, forms) in enumerate(zip(tables["timesteps"], tables["next"])):
        seen = columns + [np.tanh(0.7 * columns[0] + bias * (t / 1000)) + 0.2 * columns[0], noise[call]]
        columns = [sum(c * v for c, v in zip(form, seen) if c != 0) + np.zeros_like(x) for form in forms]
    return np.array(tables["timesteps"]), columns[0]


def difference(tables, reference, tensors):
    """What disagrees, in words, and the relative error of the sample."""
    if "error" in tables:
        return tables["error"], 0.0
    timesteps, sample = ours(tables, tensors)
    expected_timesteps, expected = reference
    if timesteps.shape != expected_timesteps.shape:
        return f"{len(timesteps)} calls, expected {len(expected_timesteps)}", 0.0
    apart = np.abs(timesteps - expected_timesteps)
    whole = np.all(expected_timesteps == np.round(expected_timesteps))
    if apart.max() > (0 if whole and np.all(timesteps == np.round(timesteps)) else TIMESTEP_ERROR):
        call = int(apart.argmax())
        return f"timestep {timesteps[call]} in call {call}, expected {expected_timesteps[call]}", 0.0
    error = float(np.linalg.norm(sample - expected) / np.linalg.norm(expected))
    return (None if error <= SAMPLE_ERROR else f"the sample is {error:.1e} apart"), error


def plain(one):
    """For the report."""
    return dict(config=dict(one["config"], _class_name=one["kind"][1]), reader=one["reader"][1], steps=one["steps"],
                eta=one["eta"], **one["extra"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    import diffusers

    diffusers.utils.logging.set_verbosity(diffusers.logging.CRITICAL)
    tensors = peer.draw_tensors(CALLS)
    program, configurations = Program(arguments.program), Configurations(arguments.seed)
    result = dict(command=f"bench/peers/samplers_diffusers.py --count {arguments.count} --seed {arguments.seed}",
                  versions=peer.versions(), configurations=0, agree=0, agree_where_exact=0,
                  not_finite=0, largest_error=0.0, by_class={}, disagree=[])
    while result["configurations"] < arguments.count:
        one = configurations.draw()
        tables = program.tables(one)
        if "internal" in tables.get("error", ""):
            raise SystemExit(f"{tables['error']}: {plain(one)}")
        try:
            reference = theirs(one, tensors)
        except (ValueError, IndexError, RuntimeError, AssertionError, ZeroDivisionError, NotImplementedError, TypeError) as error:
            if isinstance(error, TypeError):
                raise SystemExit(f"{error}: {plain(one)}") from error
            result["not_finite"] += 1
            continue
        result["configurations"] += 1
        name = one["reader"][1]
        result["by_class"][name] = result["by_class"].get(name, 0) + 1
        wrong, error = difference(tables, reference, tensors)
        if wrong is None:
            result["agree"] += 1
            result["largest_error"] = max(result["largest_error"], error)
            continue
        with peer.exact():
            still, error = difference(tables, theirs(one, tensors), tensors)
        if still is None:
            result["agree_where_exact"] += 1
            result["largest_error"] = max(result["largest_error"], error)
            continue
        result["disagree"].append(dict(plain(one), wrong=still))
        print(json.dumps(result["disagree"][-1]), flush=True)
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out:
        Path(arguments.out).write_text(text + "\n")
    if result["disagree"]:
        raise SystemExit(f"{len(result['disagree'])} of {arguments.count} configurations disagree")


if __name__ == "__main__":
    main()
