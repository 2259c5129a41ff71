#!/usr/bin/env python3
"""Times a frame of a live stream through SD-Turbo in PyTorch, from pixels to pixels on the device: 8-bit RGB becomes an image, TAESD encodes
it, noise of the level is added, the U-Net predicts it, one step leads to an image, TAESD decodes, and what lies beyond black and white is
clamped. All of it is compiled and captured as one CUDA graph, whose inputs and outputs are 8-bit pixels.

    python3 bench/peers/stream_torch.py --name sd-turbo --steps 1 --compile --turns 6 --save pytorch-{turn}.json \\
        --beside "build/release/headroom bench sd-turbo --random-weights 0 --pass frame --height 512 --width 512 --device cuda \\
        --opt lossless,fp16 --save headroom-{turn}.json"

Networks are compiled one by one, as bench/peers/component_torch.py does it (with --cache from the same files), and what stands between them by
itself; --whole compiles all as one. Several steps are as many calls in the same graph. Random weights. Needs PyTorch and diffusers.
"""

import argparse

import torch

import peer_result
import unet_shapes
from component_torch import CompileCache, Pass, random_image_network
from diffusers import AutoencoderTiny, UNet2DConditionModel
from flux_torch import Form, peak_bytes, time_cuda
from launched import kernels_of, plan_of
from turns import in_turns, tell

TEXT_TOKENS = 77
HALF_RANGE = 127.5


def to_image(pixels):
    """u8 [h, w, 3] -> [1, 3, h, w] in [-1, 1], channels-last as it lies"""
    return (pixels.to(torch.float32) / HALF_RANGE - 1).to(torch.float16).permute(2, 0, 1).unsqueeze(0)


def add_noise(latents, noise, level):
    return (level[0] * latents + level[1] * noise).to(torch.float16)


def step(sample, predicted, noise, level, following):
    """The image in a sample, and with the noise of the level that follows on it; of the last step none follows."""
    image = (sample.float() - level[1] * predicted.float()) / level[0]
    return (following[0] * image + following[1] * predicted.float()).to(torch.float16)


def to_pixels(image):
    return ((image.float().clamp(-1, 1) + 1) * HALF_RANGE).round().to(torch.uint8).squeeze(0).permute(1, 2, 0).contiguous()


class Frame(torch.nn.Module):
    def __init__(self, encode, unet, decode, glue):
        super().__init__()
        self.encode, self.unet, self.decode = encode, unet, decode
        self.to_image, self.add_noise, self.step, self.to_pixels = glue

    def forward(self, pixels, noise, text, timesteps, levels):
        sample = self.add_noise(self.encode(self.to_image(pixels))[0], noise, levels[0])
        for i in range(timesteps.shape[0]):
            predicted = self.unet(sample, timesteps[i : i + 1], text)[0]
            sample = self.step(sample, predicted, noise, levels[i], levels[i + 1])
        return (self.to_pixels(self.decode(sample)[0]),)


def capture(frame, inputs):
    """A call that replays the frame on these inputs, which nothing copies, as one CUDA graph; gives its output."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            frame(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = frame(*inputs)

    def replay(_):
        graph.replay()
        return output

    replay.held = frame, inputs
    return replay


def compiled_parts(args, networks, mode):
    """Each network by itself, with what is kept of it."""
    parts = []
    for part, which, network in networks:
        named = argparse.Namespace(**{**vars(args), "part": part, "which": which, "dtype": "fp16", "batch": 1, "merge_qkv": False,
                                      "autocast": False, "compile_mode": mode})
        print(f"{part} {which}: {'known' if CompileCache(args.cache, named).load() else 'new'}", flush=True)
        parts.append(torch.compile(Pass(network, which), mode=mode, fullgraph=True))
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--name", default="sd-turbo", help="of the folder that Headroom streams through")
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--compile-mode", default="default")
    parser.add_argument("--whole", action="store_true", help="with --compile: all as one")
    parser.add_argument("--cache", metavar="FOLDER")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beside", metavar="COMMAND", action="append")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--save", required=True)
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    device, dtype = torch.device("cuda"), torch.float16
    generator = torch.Generator().manual_seed(args.seed)
    draw = lambda *shape: torch.randn(shape, generator=generator).to(device, dtype)  # noqa: E731

    vae = random_image_network(AutoencoderTiny, unet_shapes.TAESD, device, dtype, args.seed)
    unet = random_image_network(UNet2DConditionModel, unet_shapes.SD_TURBO, device, dtype, args.seed)
    glue = (to_image, add_noise, step, to_pixels)
    networks = (("taesd", "encode", vae), ("sd-turbo-unet", "forward", unet), ("taesd", "decode", vae))
    if args.compile and not args.whole:
        parts = compiled_parts(args, networks, args.compile_mode)
        glue = tuple(torch.compile(piece, fullgraph=True) for piece in glue)
    else:
        parts = [Pass(network, which) for _, which, network in networks]
    frame = Frame(*parts, glue)
    if args.compile and args.whole:
        frame = torch.compile(frame, mode=args.compile_mode, fullgraph=True)

    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    alphas = torch.cumprod(1 - betas, 0)
    steps = [round(500 - 500 * k / args.steps) - 1 for k in range(args.steps)]  # the last half of a schedule of twice as many
    levels = torch.tensor([[alphas[t] ** 0.5, (1 - alphas[t]) ** 0.5] for t in steps] + [[1, 0]]).float().to(device)
    inputs = (torch.randint(256, (args.height, args.width, 3), generator=generator).to(device, torch.uint8),
              draw(1, 4, args.height // 8, args.width // 8).to(memory_format=torch.channels_last), draw(1, TEXT_TOKENS, 1024),
              torch.tensor(steps, dtype=torch.float32, device=device), levels)
    with torch.inference_mode():
        replay = capture(frame, inputs)
        if replay(inputs)[0].float().std() == 0:
            raise SystemExit("the frame is of one colour")
        torch.cuda.synchronize()
        how = ["fp16", "channels-last", f"torch.compile({args.compile_mode})" + (", whole" if args.whole else "") if args.compile else "eager",
               "CUDA Graph"]
        form = Form(replay, how, 0.0, peak_bytes(), kernels_of(replay, inputs))
        subject = {"kind": "model", "name": args.name,
                   "request": {"pass": "frame", "batch": 1, "height": args.height, "width": args.width, "steps": args.steps}}

        def measure(turn):
            for _ in range(args.warmup):
                replay(inputs)
            series = peer_result.all_series("forward", turn, time_cuda(replay, [inputs], args.trials), args.warmup)
            return [{"id": f"{form.name}, frame", "name": form.name, "subject": subject, "work_hash": peer_result.work_hash(subject),
                     "source": {"name": "pytorch", "version": torch.__version__},
                     "configuration": {"device": "cuda", "asked": how, "applied": how, "declined": [], "threads": torch.get_num_threads()},
                     "trials": series, "quality": [], "tags": ["random_weights"], "memory": form.memory, "plan": form.name}]

        for turn, results in in_turns(args.beside, args.turns, measure):
            peer_result.write(args.save.replace("{turn}", str(turn)), results, {form.name: plan_of("forward", form.kernels)})
            tell(results)


if __name__ == "__main__":
    main()
