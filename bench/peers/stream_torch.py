#!/usr/bin/env python3
"""Times a frame of a live stream through SD-Turbo in PyTorch, from pixels to pixels on the device: 8-bit RGB becomes an
image, TAESD encodes it, noise of the level is added, the U-Net predicts it, one step leads to an image, TAESD decodes,
and what lies beyond black and white is clamped. All of it is compiled and captured as one CUDA graph, whose inputs and
outputs are 8-bit pixels.

    python3 bench/peers/stream_torch.py --cache inductor --compile-only unet &
    python3 bench/peers/stream_torch.py --cache inductor --compile-only encode decode & wait
    python3 bench/peers/stream_torch.py --name sd-turbo --cache inductor --rounds 6 --save pytorch-{round}.json \\
        --beside "build/release/headroom bench sd-turbo --random-weights 0 --pass frame --height 512 --width 512 --device cuda \\
        --opt lossless,fp16 --out headroom-{round}.json"

Networks are compiled one by one, as bench/peers/component_torch.py does it, and so is the work between them; --whole
compiles all as one. Compiling from nothing takes minutes, most of it for the U-Net: --cache is the folder in which
torch.compile keeps what it made, and --compile-only makes it, of some parts in one process and of others in another at
the same time, and ends. Several steps are as many calls in the same graph. Random weights. Needs PyTorch and diffusers.
"""

import argparse
import os
import pathlib
import time

BEGAN = time.perf_counter()
PARTS = ("encode", "unet", "decode", "glue")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--name", default="sd-turbo", help="of the folder that Headroom streams through")
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--eager", action="store_true", help="not compiled, but captured")
    parser.add_argument("--compile-mode", default="default")
    parser.add_argument("--whole", action="store_true", help="all is compiled as one")
    parser.add_argument("--cache", metavar="FOLDER", help="of what torch.compile makes")
    parser.add_argument("--compile-only", metavar="PART", nargs="*", choices=PARTS,
                        help=f"compile these ({', '.join(PARTS)}; all without a name) into the cache, and end")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beside", metavar="COMMAND", action="append")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--save", metavar="FILE")
    args = parser.parse_args()
    if args.compile_only is None and not args.save:
        parser.error("--save is needed where something is measured")
    if args.compile_only is not None and (args.eager or not args.cache):
        parser.error("--compile-only fills the folder of --cache")
    return args


def note(what):
    print(f"{time.perf_counter() - BEGAN:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    ARGS = parse_arguments()
    if ARGS.cache:  # before torch is imported, which reads them
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(pathlib.Path(ARGS.cache).resolve() / "inductor")
        os.environ["TRITON_CACHE_DIR"] = str(pathlib.Path(ARGS.cache).resolve() / "triton")

import torch  # noqa: E402

import peer_result  # noqa: E402
import unet_shapes  # noqa: E402
from component_torch import Pass, random_image_network  # noqa: E402
from diffusers import AutoencoderTiny, UNet2DConditionModel  # noqa: E402
from flux_torch import Form, peak_bytes, time_cuda  # noqa: E402
from launched import kernels_of, plan_of  # noqa: E402
from rounds import in_rounds, tell  # noqa: E402

TEXT_TOKENS = 77
HALF_RANGE = 127.5
# what is called with a second shape is else compiled for any, which is slower
FOR_THESE_SHAPES = {"fullgraph": True, "dynamic": False}


def latents_as(x):
    """As networks read them, whatever they were made by: what is compiled for one is then compiled for all."""
    return x.to(torch.float16).contiguous(memory_format=torch.channels_last)


def to_image(pixels):
    """u8 [h, w, 3] -> [1, 3, h, w] in [-1, 1], channels-last as it lies"""
    return (pixels.to(torch.float32) / HALF_RANGE - 1).to(torch.float16).permute(2, 0, 1).unsqueeze(0)


def add_noise(latents, noise, level):
    return latents_as(level[0] * latents + level[1] * noise)


def step(sample, predicted, noise, level, following):
    """The image in a sample, and with the noise of the level that follows on it; of the last step none follows."""
    image = (sample.float() - level[1] * predicted.float()) / level[0]
    return latents_as(following[0] * image + following[1] * predicted.float())


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
        image = self.decode(sample)[0]
        return self.to_pixels(image), image


def capture(frame, inputs):
    """A call that replays the frame on these inputs, which nothing copies, as one CUDA graph; gives its pixels, and
    the image before them.
    """
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


def make_frame(args, device, dtype):
    """The frame, of which what is asked for is compiled."""
    vae = random_image_network(AutoencoderTiny, unet_shapes.TAESD, device, dtype, args.seed)
    unet = random_image_network(UNet2DConditionModel, unet_shapes.SD_TURBO, device, dtype, args.seed)
    note("weights are drawn")
    modules = {"encode": Pass(vae, "encode"), "unet": Pass(unet, "forward"), "decode": Pass(vae, "decode")}
    glue = (to_image, add_noise, step, to_pixels)
    if args.eager:
        return Frame(*modules.values(), glue)
    if args.whole:
        return torch.compile(Frame(*modules.values(), glue), mode=args.compile_mode, **FOR_THESE_SHAPES)
    wanted = args.compile_only or PARTS
    for part in wanted:
        if part != "glue":
            modules[part] = Noted(part, torch.compile(modules[part], mode=args.compile_mode, **FOR_THESE_SHAPES))
    if "glue" in wanted:
        glue = tuple(torch.compile(piece, **FOR_THESE_SHAPES) for piece in glue)
    return Frame(*modules.values(), glue)


class Noted(torch.nn.Module):
    """Says when its first call, which compiles it, is over."""

    def __init__(self, name, module):
        super().__init__()
        self.name, self.module, self.is_new = name, module, True

    def forward(self, *inputs):
        made = self.module(*inputs)
        if self.is_new:
            torch.cuda.synchronize()
            note(f"{self.name} is compiled")
            self.is_new = False
        return made


def draw_inputs(args, device, dtype):
    generator = torch.Generator().manual_seed(args.seed)
    draw = lambda *shape: torch.randn(shape, generator=generator).to(device, dtype)  # noqa: E731
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    alphas = torch.cumprod(1 - betas, 0)
    # the last half of a schedule of twice as many
    steps = [round(500 - 500 * k / args.steps) - 1 for k in range(args.steps)]
    levels = torch.tensor([[alphas[t] ** 0.5, (1 - alphas[t]) ** 0.5] for t in steps] + [[1, 0]]).float().to(device)
    return (torch.randint(256, (args.height, args.width, 3), generator=generator).to(device, torch.uint8),
            draw(1, 4, args.height // 8, args.width // 8).to(memory_format=torch.channels_last), draw(1, TEXT_TOKENS, 1024),
            torch.tensor(steps, dtype=torch.float32, device=device), levels)


def applied(args):
    how = "eager" if args.eager else f"torch.compile({args.compile_mode})" + (", whole" if args.whole else "")
    return ["fp16", "channels-last", how, "CUDA Graph"]


def main(args):
    note(f"PyTorch {torch.__version__} is there")
    torch.backends.cudnn.benchmark = True
    device, dtype = torch.device("cuda"), torch.float16
    with torch.inference_mode():
        frame, inputs = make_frame(args, device, dtype), draw_inputs(args, device, dtype)
        frame(*inputs)
        torch.cuda.synchronize()
        note("a frame is made")
        if args.compile_only is not None:
            return
        replay = capture(frame, inputs)
        image = replay(inputs)[1].float()  # random weights make next to no contrast, which pixels need not show
        if not (image.isfinite().all() and image.std() > 0):
            raise SystemExit("the frame is of one colour, or not finite")
        torch.cuda.synchronize()
        note("the frame is captured")
        form = Form(replay, applied(args), 0.0, peak_bytes(), kernels_of(replay, inputs))
        subject = {"kind": "model", "name": args.name,
                   "request": {"pass": "frame", "batch": 1, "height": args.height, "width": args.width, "steps": args.steps}}

        def measure(number):
            for _ in range(args.warmup):
                replay(inputs)
            series = peer_result.all_series("forward", number, time_cuda(replay, [inputs], args.trials), args.warmup)
            return [{"id": f"{form.name}, frame", "name": form.name, "subject": subject, "work_hash": peer_result.work_hash(subject),
                     "source": {"name": "pytorch", "version": torch.__version__},
                     "configuration": {"device": "cuda", "asked": form.applied, "applied": form.applied, "declined": [],
                                       "threads": torch.get_num_threads()},
                     "trials": series, "quality": [], "tags": ["random_weights"], "memory": form.memory, "plan": form.name}]

        for number, results in in_rounds(args.beside, args.rounds, measure):
            peer_result.write(args.save.replace("{round}", str(number)), results, {form.name: plan_of("forward", form.kernels)})
            tell(results)
            note(f"round {number} is over")


if __name__ == "__main__":
    main(ARGS)
