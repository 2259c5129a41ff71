#!/usr/bin/env python3
"""Makes the goldens of step caches: denoise loops of FLUX and Qwen-Image with each cache, in plain PyTorch in double.

    python3 tests/goldens/make_step_caches.py --models models --goldens tests/goldens --out tests/goldens/step_caches

Each case is a loop of Euler's method: fashion-flux with classifier-free guidance, both passes as one batch; the
transformer of pipelines/flux-dev, which embeds its guidance; that of pipelines/flux-schnell, whose noise levels are
even; and that of pipelines/qwen-image with true guidance, two passes over texts of different lengths, each of which has
its own anchor, and one decision about both.

    cases.json          by case: `model`, the request (images, token_rows, token_columns, text_tokens or text_lengths,
                        steps, guidance, true_cfg: 1 for none), and `runs`: by the switch, as written for --opt,
                        `computed`, a digit for each step, 1 where it was computed
    golden.safetensors  by `<case>.<name>`: noise [images, tokens, channels], encoder_hidden_states [batch, text tokens,
                        width], pooled_projections [batch, width] in F32, the unguided half first, and texts of
                        different lengths one after the other, [text tokens, width]; and by
                        `<case>.<switch>.<name>`: latents [images, tokens, channels] F32 and distances [steps] F64, what
                        was held against the threshold (0 where there was nothing to hold against it)

Thresholds are stated or found here: those at which about so many steps are computed. None is within a thousandth of a
distance, so that float32 decides the same. What fbcache does without its options is what diffusers' own hook must do:
computed steps and latents are held against it.

Runs on a CPU in a minute. Needs PyTorch, diffusers and safetensors.
"""

import argparse
import contextlib
import copy
import json
import math
from pathlib import Path

import torch
from diffusers import FluxTransformer2DModel, QwenImageTransformer2DModel
from diffusers.hooks import FirstBlockCacheConfig, apply_first_block_cache
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

import make_flux
from make_qwen_image import double_positions
from make_text_encoders import InDouble

TEACACHE_FITS = {"flux": [498.651651, -283.781631, 55.8554382, -3.82021401, 0.264230861], "none": [1, 0]}
MARGIN = 1e-3  # between a distance and its threshold

CASES = {
    "fashion-flux": dict(model="fashion-flux", images=2, token_rows=16, token_columns=16, text_tokens=16, steps=28,
                         guidance=None, true_cfg=1.25,
                         thresholds={"fbcache": [0.0637, 0.105, 0.24], "flux": 0.203}),
    "flux-dev": dict(model="goldens/pipelines/flux-dev", images=2, token_rows=4, token_columns=6, text_tokens=7,
                     steps=12, guidance=3.5, true_cfg=1, seed=51),
    "flux-schnell": dict(model="goldens/pipelines/flux-schnell", images=1, token_rows=5, token_columns=3, text_tokens=6,
                         steps=10, guidance=None, true_cfg=1, seed=52),
    "qwen-image": dict(model="goldens/pipelines/qwen-image", images=1, token_rows=4, token_columns=6, text_lengths=[5, 9],
                       steps=12, guidance=None, true_cfg=3.0, seed=53),
}


# ---- the loop


@contextlib.contextmanager
def in_double():
    """diffusers as make_flux.py has it for double precision."""
    replaced = [(make_flux.embeddings, "get_timestep_embedding", make_flux.double_timestep_embedding),
                (make_flux.flux.FluxPosEmbed, "forward", make_flux.double_position_embedding),
                (make_flux.flux, "apply_rotary_emb", make_flux.double_rotary)]
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    try:
        for owner, name, function in replaced:
            setattr(owner, name, function)
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), InDouble():
            yield
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


def noise_levels(name, steps, image_tokens):
    """From 1 down to 0, shifted as the schedule of FLUX.1-dev or Qwen-Image has it."""
    if name == "qwen-image":
        mu = 0.5 + (0.9 - 0.5) / (8192 - 256) * (image_tokens - 256)
        shifted = [math.exp(mu) / (math.exp(mu) + steps / (steps - i) - 1) for i in range(steps)]
        return [1 - (1 - level) * (1 - 0.02) / (1 - shifted[-1]) for level in shifted] + [0.0]
    mu = 0 if name == "flux-schnell" else 0.5 + (1.15 - 0.5) / (4096 - 256) * (image_tokens - 256)
    even = [1 - i / steps for i in range(steps)]
    return [math.exp(mu) / (math.exp(mu) + 1 / level - 1) for level in even] + [0.0]


class Model:
    """A transformer on the inputs of a case, in pieces."""

    def __init__(self, transformer, case, tensors):
        self.transformer, self.case = transformer, case
        self.blocks = [*transformer.transformer_blocks, *transformer.single_transformer_blocks]
        self.text = tensors["encoder_hidden_states"].double()
        self.pooled = tensors["pooled_projections"].double()
        ids = make_flux.position_ids(case["token_rows"], case["token_columns"])
        self.ids = torch.cat([torch.zeros(case["text_tokens"], 3), ids]).double()
        self.guided = case["true_cfg"] != 1

    def time_embedding(self, sigma):
        levels = torch.full([len(self.pooled)], 1000 * sigma, dtype=torch.float64)
        if self.case["guidance"] is None:
            return self.transformer.time_text_embed(levels, self.pooled)
        guidance = torch.full_like(levels, 1000 * self.case["guidance"])
        return self.transformer.time_text_embed(levels, guidance, self.pooled)

    def begin(self, x, sigma):
        """Image and text as the first block finds them, and the embedding of time."""
        x = torch.cat([x, x]) if self.guided else x
        return self.transformer.x_embedder(x), self.transformer.context_embedder(self.text), self.time_embedding(sigma)

    def run(self, blocks, image, text, temb):
        rotary = self.transformer.pos_embed(self.ids)
        for block in blocks:
            text, image = block(hidden_states=image, encoder_hidden_states=text, temb=temb, image_rotary_emb=rotary)
        return image, text

    def end(self, image, temb):
        velocity = self.transformer.proj_out(self.transformer.norm_out(image, temb))
        return self.guide(velocity)

    def guide(self, velocity):
        if not self.guided:
            return velocity
        unguided, guided = velocity.chunk(2)
        return unguided + self.case["true_cfg"] * (guided - unguided)

    def modulated(self, image, temb):
        """What the first block's first norm makes of the image."""
        return self.blocks[0].norm1(image, emb=temb)[0]

    def whole(self, x, sigma):
        image, text, temb = self.begin(x, sigma)
        return self.end(self.run(self.blocks, image, text, temb)[0], temb)


class QwenModel(Model):
    """Two passes, the unguided one first, one after the other: `image` holds both, and `text` is a list."""

    def __init__(self, transformer, case, tensors):
        self.transformer, self.case, self.guided = transformer, case, True
        self.blocks = list(transformer.transformer_blocks)
        self.texts = tensors["encoder_hidden_states"].double().split(case["text_lengths"])
        self.shapes = [(1, case["token_rows"], case["token_columns"])]
        transformer.pos_embed = double_positions(transformer.config.axes_dims_rope)

    def begin(self, x, sigma):
        transformer = self.transformer
        texts = [transformer.txt_in(transformer.txt_norm(text[None])) for text in self.texts]
        image = transformer.img_in(x)
        temb = transformer.time_text_embed(torch.tensor([sigma], dtype=torch.float64), image)
        return torch.cat([image, image]), texts, temb

    def run(self, blocks, image, text, temb):
        images, text = list(image.split(1)), list(text)
        for one, length in enumerate(self.case["text_lengths"]):
            rotary = self.transformer.pos_embed(self.shapes, device=image.device, max_txt_seq_len=length)
            for block in blocks:
                text[one], images[one] = block(hidden_states=images[one], encoder_hidden_states=text[one],
                                               encoder_hidden_states_mask=None, temb=temb, image_rotary_emb=rotary)
        return torch.cat(images), text

    def check(self, x, sigma):
        """Stops where the pieces are not what diffusers' class computes."""
        with in_double():
            velocity = torch.cat([self.transformer(hidden_states=x.double(), encoder_hidden_states=text[None],
                                                   timestep=torch.tensor([sigma], dtype=torch.float64),
                                                   img_shapes=[self.shapes], return_dict=False)[0] for text in self.texts])
            error = relative(self.whole(x.double(), sigma), self.guide(velocity))
        if not error < 1e-12:
            raise SystemExit(f"the pieces of {self.case['model']} are {error:.1e} from its whole")

    def modulated(self, image, temb):
        block = self.blocks[0]
        shift, scale, _ = block.img_mod(temb).chunk(2, dim=-1)[0].chunk(3, dim=-1)
        return block.img_norm1(image) * (1 + scale[:, None]) + shift[:, None]

    def guide(self, velocity):
        """The guided velocity of each token is as long as the prompt's own."""
        guided = super().guide(velocity)
        own = velocity.chunk(2)[1]
        return guided * (own.norm(dim=-1, keepdim=True) / guided.norm(dim=-1, keepdim=True))



def distance(now, before):
    return ((now - before).abs().mean() / before.abs().mean()).item()


class Kept:
    """A tensor that is reused, as it was or on a straight line through the last two; `at` is where on that line."""

    def __init__(self, forecasts):
        self.forecasts, self.value, self.slope, self.at = forecasts, None, None, None

    def keep(self, value, at):
        if self.forecasts:
            self.slope = torch.zeros_like(value) if self.value is None else (value - self.value) / (at - self.at)
        self.value, self.at = value, at

    def read(self, at):
        return self.value + (at - self.at) * self.slope if self.forecasts else self.value


class StepCache:
    """What fbcache and teacache have in common: a threshold, and when it is not asked."""

    def __init__(self, threshold, warmup=1, last=0, run=None, taylor=False, schedule=None):
        self.threshold, self.warmup, self.last, self.run, self.schedule = threshold, warmup, last, run, schedule
        self.kept = Kept(taylor)
        self.computed, self.distances, self.hits, self.margin = [], [], 0, math.inf

    def is_hit(self, step, steps, distance_now):
        self.distances.append(0.0 if step == 0 else distance_now)
        may_hit = self.warmup <= step < steps - self.last and (self.run is None or self.hits < self.run)
        if self.schedule:
            hit = self.schedule[step % len(self.schedule)] == "0"
        else:
            hit = may_hit and distance_now <= self.threshold
            if may_hit:
                self.margin = min(self.margin, abs(distance_now / self.threshold - 1))
        self.hits = self.hits + 1 if hit else 0
        self.computed.append(not hit)
        return hit


class FirstBlockCache(StepCache):
    def __init__(self, threshold, **options):
        super().__init__(threshold, **options)
        self.anchor = None

    def velocity(self, model, x, sigma, step, steps):
        before, text, temb = model.begin(x, sigma)
        image, text = model.run(model.blocks[:1], before, text, temb)
        residual = image - before
        if self.is_hit(step, steps, 0.0 if step == 0 else distance(residual, self.anchor)):
            return model.end(image + self.kept.read(step), temb)
        self.anchor = residual
        out, _ = model.run(model.blocks[1:], image, text, temb)
        self.kept.keep(out - image, step)
        return model.end(out, temb)


class TeaCache(StepCache):
    """Liu et al., "Timestep Embedding Tells" (2024)."""

    def __init__(self, threshold, fit="flux", last=1, **options):
        super().__init__(threshold, last=last, **options)
        self.fit, self.sum, self.before = TEACACHE_FITS[fit], 0.0, None

    def velocity(self, model, x, sigma, step, steps):
        image, text, temb = model.begin(x, sigma)
        modulated = model.modulated(image, temb)
        if step > 0:
            change = distance(modulated, self.before)
            self.sum += sum(c * change ** (len(self.fit) - 1 - i) for i, c in enumerate(self.fit))
        self.before = modulated
        if self.is_hit(step, steps, self.sum):
            return model.end(image + self.kept.read(step), temb)
        self.sum = 0.0
        out, _ = model.run(model.blocks, image, text, temb)
        self.kept.keep(out - image, step)
        return model.end(out, temb)


class VelocityCache:
    """The guided velocity, on a straight line through the last two that were computed, by noise level."""

    def __init__(self, schedule):
        self.schedule, self.kept = schedule, Kept(True)
        self.computed, self.distances, self.margin = [], [], math.inf

    def velocity(self, model, x, sigma, step, steps):
        self.computed.append(self.schedule[step % len(self.schedule)] == "1")
        if not self.computed[-1]:
            return self.kept.read(sigma)
        velocity = model.whole(x, sigma)
        self.kept.keep(velocity, sigma)
        return velocity


def denoise(model, noise, velocity_of):
    case = model.case
    sigmas = noise_levels(Path(case["model"]).name, case["steps"], case["token_rows"] * case["token_columns"])
    x = noise.double()
    for step, (sigma, lower) in enumerate(zip(sigmas, sigmas[1:])):
        x = x + (lower - sigma) * velocity_of(x, sigma, step)
    return x


def run(model, noise, cache):
    steps = model.case["steps"]
    with in_double():
        latents = denoise(model, noise, lambda x, sigma, step: cache.velocity(model, x, sigma, step, steps))
    return latents


def run_diffusers(transformer, case, tensors, threshold):
    """diffusers' hook in the same loop: its latents, and which steps ran the last block."""
    hooked = copy.deepcopy(transformer)
    ran = []
    last = [*hooked.transformer_blocks, *hooked.single_transformer_blocks][-1]
    forward = last.forward
    last.forward = lambda *arguments, **named: ran.append(True) or forward(*arguments, **named)
    apply_first_block_cache(hooked, FirstBlockCacheConfig(threshold=threshold))
    model = Model(hooked, case, tensors)
    computed = []

    def velocity(x, sigma, step):
        count = len(ran)
        levels = torch.full([len(model.pooled)], sigma, dtype=torch.float64)
        guidance = None if case["guidance"] is None else torch.full_like(levels, case["guidance"])
        out = hooked(hidden_states=torch.cat([x, x]) if model.guided else x, encoder_hidden_states=model.text,
                     pooled_projections=model.pooled, timestep=levels, guidance=guidance,
                     txt_ids=model.ids[:case["text_tokens"]], img_ids=model.ids[case["text_tokens"]:],
                     return_dict=False)[0]
        computed.append(len(ran) > count)
        return model.guide(out)

    with in_double(), hooked.cache_context("denoise"):
        latents = denoise(model, tensors["noise"], velocity)
    return latents, computed


# ---- the cases


def load(folder):
    config = json.loads((folder / "config.json").read_text())
    kind = {each.__name__: each for each in (FluxTransformer2DModel, QwenImageTransformer2DModel)}[config["_class_name"]]
    transformer = kind.from_config(config).eval()
    weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        if file.name != "golden.safetensors":
            weights |= load_file(file)
    transformer.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    return transformer.double()


def fashion_tensors(folder, case):
    prompts = load_file(folder / "prompts.safetensors")
    rows = torch.tensor([10, 10, 3, 8])  # the null prompt, a dress, a bag
    return {"noise": torch.randn(case["images"], 256, 4, generator=torch.Generator().manual_seed(50)),
            "encoder_hidden_states": prompts["encoder_hidden_states"][rows],
            "pooled_projections": prompts["pooled_projections"][rows]}


def tiny_tensors(transformer, case):
    generator = torch.Generator().manual_seed(case["seed"])
    config, images = transformer.config, case["images"]
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    if "text_lengths" in case:
        return {"noise": draw(images, case["token_rows"] * case["token_columns"], config.in_channels),
                "encoder_hidden_states": draw(sum(case["text_lengths"]), config.joint_attention_dim)}
    return {"noise": draw(images, case["token_rows"] * case["token_columns"], config.in_channels),
            "encoder_hidden_states": draw(images, case["text_tokens"], config.joint_attention_dim),
            "pooled_projections": draw(images, config.pooled_projection_dim)}


def find_threshold(model, noise, make, share):
    """The threshold of three digits at which about that share of steps is computed, and no decision is close."""
    best = None
    low, high = 1e-4, 4.0
    for _ in range(8):
        middle = float(f"{math.sqrt(low * high):.3g}")
        cache = make(middle)
        run(model, noise, cache)
        computed = sum(cache.computed) / len(cache.computed)
        if cache.margin > MARGIN and (best is None or abs(computed - share) < best[0]):
            best = (abs(computed - share), middle)
        low, high = (middle, high) if computed > share else (low, middle)
    if best is None:
        raise SystemExit("no threshold was found whose decisions are not close")
    return best[1]


def relative(tensor, reference):
    return ((tensor - reference).norm() / reference.norm()).item()


def option_texts(options):
    return "".join(f":{key}={int(value) if isinstance(value, bool) else value}" for key, value in options.items())


def make_case(name, case, folder, goldens):
    is_golden = case["model"].startswith("goldens/")
    at = goldens / case["model"].removeprefix("goldens/") if is_golden else folder / case["model"]
    transformer = load(at / "transformer" if (at / "transformer").is_dir() else at)
    tensors = fashion_tensors(at, case) if name == "fashion-flux" else tiny_tensors(transformer, case)
    is_qwen = isinstance(transformer, QwenImageTransformer2DModel)
    model = (QwenModel if is_qwen else Model)(transformer, case, tensors)
    noise = tensors["noise"]
    if is_qwen:
        model.check(noise, 0.7)
    found = {f"{name}.{key}": tensor.contiguous() for key, tensor in tensors.items()}
    runs = {}

    def add(switch, cache):
        latents = run(model, noise, cache)
        if cache.margin <= MARGIN or not torch.isfinite(latents).all():
            print(f"  {switch}: left out, a distance is within {cache.margin:.1e} of its threshold", flush=True)
            return latents
        runs[switch] = {"computed": "".join("1" if computed else "0" for computed in cache.computed)}
        found[f"{name}.{switch}.latents"] = latents.float().contiguous()
        if cache.distances:
            found[f"{name}.{switch}.distances"] = torch.tensor(cache.distances, dtype=torch.float64)
        print(f"  {switch}: {runs[switch]['computed']}, margin {cache.margin:.1e}", flush=True)
        return latents

    whole = run(model, noise, VelocityCache("1"))
    stated = case.get("thresholds", {})
    thresholds = stated.get("fbcache") or [find_threshold(model, noise, FirstBlockCache, share)
                                           for share in (0.75, 0.5, 0.3)]
    for threshold, options in zip(thresholds, ({"warmup": 3, "last": 2}, {"run": 1}, {"run": 2, "taylor": True})):
        cache = FirstBlockCache(threshold)
        latents = add(f"fbcache={threshold:g}", cache)
        if not is_qwen:  # whose passes diffusers decides about one by one
            theirs, computed = run_diffusers(transformer, case, tensors, threshold)
            error = relative(theirs, latents)
            if computed != cache.computed or not error < 1e-12:
                raise SystemExit(f"{name}: diffusers computes {computed} and is {error:.1e} away")
            print(f"  diffusers' hook agrees: {error:.1e}; from the whole loop {relative(latents, whole):.3f}", flush=True)
        add(f"fbcache={threshold:g}{option_texts(options)}", FirstBlockCache(threshold, **options))
    add("fbcache=0.1:schedule=1001", FirstBlockCache(0.1, schedule="1001"))
    for fit, share, sets in (("flux", 0.6, [{"warmup": 2, "last": 0}]),
                             ("none", 0.4, [{}, {"run": 2, "taylor": True}])):
        threshold = stated.get(fit) or find_threshold(model, noise, lambda t, fit=fit: TeaCache(t, fit=fit), share)
        for options in sets:
            text = "" if fit == "none" else ":fit=" + "/".join(f"{c:.9g}" for c in TEACACHE_FITS[fit])
            add(f"teacache={threshold:g}{text}{option_texts(options)}", TeaCache(threshold, fit=fit, **options))
    schedule = "1" * 3 + "0001" * 8
    computed = sum(schedule[step % len(schedule)] == "1" for step in range(case["steps"]))
    latents = add(f"meancache={computed}:schedule={schedule}", VelocityCache(schedule))
    print(f"  from the whole loop {relative(latents, whole):.3f}", flush=True)
    described = {key: value for key, value in case.items() if key not in ("seed", "thresholds") and value is not None}
    return {**described, "runs": runs}, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", required=True, type=Path, help="folder with fashion-flux")
    parser.add_argument("--goldens", required=True, type=Path, help="folder with flux/ and pipelines/")
    parser.add_argument("--out", required=True, type=Path, help="folder to write to")
    args = parser.parse_args()
    torch.set_num_threads(8)
    args.out.mkdir(parents=True, exist_ok=True)
    cases, tensors = {}, {}
    for name, case in CASES.items():
        print(f"{name}:", flush=True)
        cases[name], found = make_case(name, case, args.models, args.goldens)
        tensors |= found
        (args.out / "cases.json").write_text(json.dumps(cases, indent=2) + "\n")
        save_file(tensors, args.out / "golden.safetensors")
    print(f"{sum(file.stat().st_size for file in args.out.iterdir())} bytes")


if __name__ == "__main__":
    main()
