#!/usr/bin/env python3
"""Times whole requests of FLUX.1-dev in PyTorch, from a prompt to pixels on the host, raw trials kept: tokenizers and
text encoders of transformers, transformer, scheduler and AutoencoderKL of diffusers, each network compiled and captured
in a CUDA graph.

    python3 bench/peers/flux_stand_in.py dev out/flux-dev
    python3 bench/peers/flux_request_torch.py out/flux-dev --fp8 --rounds 6 \\
        --beside "build/release/headroom bench out/flux-dev --random-weights 0 --pass request --device cuda \\
        --opt lossless,fp8 --out headroom-{round}.json" --save pytorch-{round}.json

FOLDER gives the tokenizers; networks have FLUX.1's shapes and random weights, as Headroom's stand-ins have. A request
goes through the stages that Headroom names: tokenize, text_encoder (CLIP), text_encoder_2 (T5), inputs, denoise,
decode. Half of the requests are timed whole, and there the host waits for nothing before the pixels (`image_wall`); in
the other half it waits after each stage, which gives the stages' times. Rounds are those of component_torch.py. Needs a
GPU with 80 GB, PyTorch, diffusers, transformers and numpy.
"""

import argparse
import pathlib
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoTokenizer

import component_torch
import flux_peer
import flux_shapes
import peer_result
from flux_torch import peak_bytes
from rounds import in_rounds

CLIP_TOKENS, T5_TOKENS = 77, 512
PROMPTS = ["a red fox in snow", "an ankle boot on a wooden table", "a lighthouse at night, oil on canvas"]


class Stages:
    """The times of a request's stages, or with `waits` off nothing but the names."""

    def __init__(self, waits):
        self.waits, self.ms, self.began = waits, {}, time.perf_counter_ns()

    def end(self, name):
        if self.waits:
            torch.cuda.synchronize()
            now = time.perf_counter_ns()
            self.ms[name] = (now - self.began) / 1e6
            self.began = now


class Request:
    """A pipeline compiled for one size."""

    def __init__(self, args, device, dtype):
        self.args, self.device, self.dtype = args, device, dtype
        self.tokenizers = [AutoTokenizer.from_pretrained(args.folder / part) for part in ("tokenizer", "tokenizer_2")]
        self.rows, self.columns = args.height // 16, args.width // 16
        self.scheduler = flux_peer.schedule(args.steps, self.rows * self.columns, device)
        self.generator = torch.Generator(device)

        ids = torch.zeros(1, T5_TOKENS, dtype=torch.long, device=device)
        self.clip = self.captured(component_torch.Pass(self.text_encoder("text_encoder"), "text"), ids[:, :CLIP_TOKENS])
        self.t5 = self.captured(component_torch.Pass(self.text_encoder("text_encoder_2"), "text"), ids)
        vae = component_torch.random_vae(device, dtype, args.seed)
        latents = torch.zeros(1, 16, args.height // 8, args.width // 8, device=device, dtype=dtype)
        self.decoder = self.captured(component_torch.Pass(vae, "decode"), latents.to(memory_format=torch.channels_last))
        self.inputs, self.transformer = self.make_transformer()

    @staticmethod
    def captured(module, inputs):
        return component_torch.capture(torch.compile(module), inputs)

    def text_encoder(self, part):
        model = component_torch.random_text_encoder(part, self.device, self.dtype, self.args.seed)
        if self.args.fp8 and part == "text_encoder_2":
            flux_peer.quantize_fp8(model.encoder.block)
        return model

    def make_transformer(self):
        """Its inputs, of which a request changes some, and itself."""
        model = flux_peer.random_model(self.device, self.dtype, self.args.seed)
        flux_peer.merge_qkv(model)
        if self.args.fp8:
            flux_peer.quantize_fp8(model.transformer_blocks, model.single_transformer_blocks)
        flux_peer.compile_blocks(model, "default")
        inputs = flux_peer.random_inputs(model.config, self.rows, self.columns, 1, T5_TOKENS, self.device, self.dtype,
                                         torch.Generator().manual_seed(0))
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return inputs, flux_peer.capture(model, inputs)

    def tokenize(self, prompt):
        return [tokenizer(prompt, padding="max_length", max_length=length, truncation=True, return_tensors="pt").input_ids.to(self.device)
                for tokenizer, length in zip(self.tokenizers, (CLIP_TOKENS, T5_TOKENS))]

    def unpack(self, latents):
        """[1, tokens, 64] -> [1, 16, height / 8, width / 8], as the decoder wants them"""
        images = latents.view(1, self.rows, self.columns, 16, 2, 2).permute(0, 3, 1, 4, 2, 5)
        images = images.reshape(1, 16, 2 * self.rows, 2 * self.columns)
        return images / flux_shapes.VAE["scaling_factor"] + flux_shapes.VAE["shift_factor"]

    def run(self, prompt, seed, stages):
        """Pixels [1, 3, height, width] f32 on the host."""
        clip_ids, t5_ids = self.tokenize(prompt)
        stages.end("tokenize")
        pooled = self.clip(clip_ids)[1]
        stages.end("text_encoder")
        states = self.t5(t5_ids)[0]
        stages.end("text_encoder_2")
        noise = torch.randn(1, self.rows * self.columns, 64, generator=self.generator.manual_seed(seed), device=self.device,
                            dtype=self.dtype)
        inputs = self.inputs | {"hidden_states": noise, "encoder_hidden_states": states, "pooled_projections": pooled}
        stages.end("inputs")
        latents = flux_peer.denoise(self.transformer, self.scheduler, inputs)
        stages.end("denoise")
        pixels = self.decoder(self.unpack(latents).to(memory_format=torch.channels_last))[0].float().cpu()
        stages.end("decode")
        return pixels

    def time(self, number, waits):
        """Milliseconds of a request, and of its stages where the host waits for each."""
        torch.cuda.synchronize()
        stages, began = Stages(waits), time.perf_counter_ns()
        pixels = self.run(PROMPTS[number % len(PROMPTS)], number, stages)
        whole = (time.perf_counter_ns() - began) / 1e6
        if not torch.isfinite(pixels).all():
            raise SystemExit("the pixels are not finite")
        return whole, stages.ms


def result_of(args, request, number):
    applied = ["bf16"] + ["fp8"] * args.fp8 + ["cudnn attention", "merged QKV", "torch.compile throughout", "CUDA Graph"]
    name = f"pytorch {', '.join(applied)}"
    for number in range(args.warmup):
        request.time(number, False)
    whole, by_stage = [], {}
    for number in range(args.trials):
        whole.append(request.time(number, False)[0])
        for stage, ms in request.time(number, True)[1].items():
            by_stage.setdefault(stage, []).append(ms)
    subject = peer_result.denoise_subject(args.folder.name, request.rows, request.columns, 1, args.steps, T5_TOKENS, flux_peer.GUIDANCE)
    trials = [peer_result.series("image_wall", number, whole, args.warmup)]
    trials += [peer_result.series(stage, number, times, args.warmup) for stage, times in by_stage.items()]
    return {
        "id": f"{name}, {args.height}x{args.width}, {args.steps} steps", "name": name, "subject": subject,
        "work_hash": peer_result.work_hash(subject), "source": {"name": "pytorch", "version": torch.__version__},
        "configuration": {"device": "cuda", "asked": applied, "applied": applied, "declined": [],
                          "threads": torch.get_num_threads()},
        "stages": [{"name": stage} for stage in by_stage],
        "trials": trials, "quality": [], "tags": ["random_weights"], "memory": peak_bytes(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="what flux_stand_in.py wrote")
    parser.add_argument("--fp8", action="store_true", help="products of tokens in the blocks of T5 and the transformer in FP8")
    parser.add_argument("--height", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beside", metavar="COMMAND", action="append", help="alternate with this program")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--save", required=True, help="JSON file to write, one for each {round}")
    args = parser.parse_args()
    if (args.rounds > 1) != ("{round}" in args.save):
        parser.error("--rounds and a {round} in --save go together")

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = True  # engines chosen by measurement
    with torch.inference_mode():
        request = Request(args, torch.device("cuda"), torch.bfloat16)
        for number, result in in_rounds(args.beside, args.rounds, lambda number: result_of(args, request, number)):
            peer_result.write(args.save.replace("{round}", str(number)), [result])
            for series in result["trials"]:
                print(f"{result['id']}: {series['what']} {series['statistics']['median_ms']:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
