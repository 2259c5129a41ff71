#!/usr/bin/env python3
"""Makes the goldens of the pipelines of FLUX.3 and FLUX.2 [klein]: folders, requests, and diffusers' images in double.

    python3 tests/goldens/make_flux3_pipelines.py --out tests/goldens/pipelines

flux3-base, flux3-distilled and flux2-klein are folders as diffusers writes them (tiny_flux3_folder.py), F32 and random.
flux3-distilled has a transformer alone; its other parts are those of flux3-base. Each has

    requests.json         by name: the arguments that the pipeline is called with, the seed of its noise, and of
    references their heights and
                          widths
    expected.safetensors  by `<request>.<name>`, of that request:

        noise [1, tokens, channels]                             F32; packed
        ids [1, text tokens]                                    I64; padded on the right
        prompt_embeds [1, text tokens, width]                   F32; of the first request of a folder
        sigmas [steps + 1]                                      F64
        latents [1, tokens, channels]                           F32; packed, after the last step
        image [1, 3, height, width]                             F32; decoded, unclamped
        crop [4]                                                I64; (left, top, right, bottom) of it that is kept,
        where it is cut reference_<i> [height, width, 3]                        U8; given
        prepared_<i> [height, width, 3]                         U8; what is encoded of it

`negative_` precedes what guidance takes as well. `*_bf16_error` is how far diffusers in bf16 is from it (relative L2).
flux3-base also has sizes.json: for 200 sizes of pictures [height, width], of a single reference the size that it is
resized to, the canvas, and its box in it, of one of several the size that it is resized to and cut to, and of FLUX.2's
the size that it is cut to; null where diffusers refuses; and canvas.safetensors: `<n>.image` and `<n>.canvas`, U8. Runs
on a CPU in a minute. Needs PyTorch, transformers, diffusers, safetensors and Pillow. A double pipeline is not double
throughout: see make_flux_pipelines.py.
"""

import argparse
import copy
import json
import random
import sys
from pathlib import Path

import diffusers
import numpy as np
import PIL.Image
import torch
import transformers
from diffusers import (AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline, Flux2Transformer2DModel,
                       Flux3Transformer2DModel)
from diffusers.modular_pipelines.flux3.image_processor import Flux3ImageProcessor
from diffusers.modular_pipelines.flux3.modular_blocks_flux3 import Flux3AutoBlocks
from diffusers.modular_pipelines.flux3.modular_blocks_flux3_distilled import Flux3DistilledAutoBlocks
from diffusers.pipelines.flux2.image_processor import Flux2ImageProcessor
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Qwen2Tokenizer

from make_flux_pipelines import picture, pipelines_in_double, spy
from make_text_encoders import InDouble, in_double
from make_tokens import write
from tiny_flux3_folder import TEMPLATE, VAE, write_folder

SHORT = "a red fox"
LONG = ("A harbour at dawn; boats in red and green, nets on the quay, gulls over the water, an old man who mends a sail")
LONGER = LONG + ", and behind them all the white houses of the town, their windows dark, under a sky of pale gold, ½ étude 🦊"
ONE, THREE = [(61, 47)], [(50, 70), (33, 64), (81, 49)]
BASE = "example/flux-3-tiny-base"
CASES = {
    "flux3-base": {"class": "Flux3ModularPipeline", "is_flux3": True, "flow_map": False, "seed": 81, "others": None, "repository": BASE,
                   "decoder": None, "requests": {
                       "guided": dict(prompt=SHORT, height=48, width=64, num_inference_steps=3, seed=1),
                       "by_a_long_text": dict(prompt=LONG, negative_prompt="blurry", height=32, width=48, num_inference_steps=2, seed=2),
                       "one_reference": dict(prompt=LONGER, references=ONE, num_inference_steps=2, seed=3),
                       "three_references": dict(prompt=SHORT, references=THREE, height=48, width=32, num_inference_steps=2, seed=4)}},
    "flux3-distilled": {"class": "Flux3DistilledModularPipeline", "is_flux3": True, "flow_map": True, "seed": 82, "others": BASE,
                        "repository": "example/flux-3-tiny", "decoder": None, "requests": {
                            "plain": dict(prompt=LONG, height=48, width=64, num_inference_steps=4, seed=5),
                            "one_reference": dict(prompt=SHORT, references=ONE, num_inference_steps=3, seed=6),
                            "three_references": dict(prompt=LONGER, references=THREE, num_inference_steps=2, seed=7)}},
    "flux2-klein": {"class": "Flux2KleinPipeline", "is_flux3": False, "flow_map": False, "seed": 83, "others": None, "decoder": [4, 4, 4, 6],
                    "requests": {
                        "plain": dict(prompt=SHORT, height=48, width=64, num_inference_steps=4, guidance_scale=1.0, max_sequence_length=64, seed=8),
                        "guided": dict(prompt=LONG, height=32, width=48, num_inference_steps=3, guidance_scale=4.0, max_sequence_length=96, seed=9),
                        "one_reference": dict(prompt=SHORT, references=[(77, 65)], num_inference_steps=2, guidance_scale=1.0,
                                              max_sequence_length=40, seed=10),
                        "three_references": dict(prompt=LONGER, references=[(70, 66), (99, 64), (65, 81)], height=32, width=64,
                                                 num_inference_steps=2, guidance_scale=2.5, max_sequence_length=130, seed=11)}},
}
CANVASES = [(20, 17), (5, 40), (16, 70), (47, 61), (3, 3), (65, 63)]


class Processor:
    """What FLUX.3 uses of a Qwen3VLProcessor, whose other half reads images."""

    def __init__(self, tokenizer):
        self.tokenizer, self.apply_chat_template = tokenizer, tokenizer.apply_chat_template


def load(root, folder, case, encoder, dtype):
    others = folder if case["others"] is None else root / "flux3-base"
    tokenizer = Qwen2Tokenizer.from_pretrained(str(others / "tokenizer"))
    tokenizer.chat_template = TEMPLATE
    kind = Flux3Transformer2DModel if case["is_flux3"] else Flux2Transformer2DModel
    transformer = kind.from_pretrained(str(folder / "transformer"), torch_dtype=dtype)
    vae = AutoencoderKLFlux2.from_pretrained(str(others / "vae"), torch_dtype=dtype)
    encoder = copy.deepcopy(encoder)
    if dtype == torch.float64:
        encoder = in_double(encoder)
        transformer = transformer.double()
    for parameter in encoder.parameters():  # and not the frequencies of positions, which stay as they are
        parameter.data = parameter.data.to(dtype)
    if not case["is_flux3"]:
        pipeline = Flux2KleinPipeline(scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(str(folder / "scheduler")), vae=vae,
                                      text_encoder=encoder, tokenizer=tokenizer, transformer=transformer, is_distilled=False)
        pipeline.set_progress_bar_config(disable=True)
        return pipeline
    processor = Processor(tokenizer)
    blocks = Flux3DistilledAutoBlocks() if case["flow_map"] else Flux3AutoBlocks()
    blocks.sub_blocks.pop("prompt_upsampler")
    pipeline = blocks.init_pipeline()
    pipeline.update_components(text_encoder=encoder, tokenizer=processor, transformer=transformer, vae=vae)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def as_picture(tensor):
    """What is encoded, [1, 3, h, w] in [-1, 1], as the bytes that it is made of."""
    return ((tensor[0].double() + 1) * 127.5).round().to(torch.uint8).permute(1, 2, 0)


def run(pipeline, case, request, noise):
    """All that the pipeline computes on its way to the image."""
    encoded, decoded, coded = spy(pipeline.text_encoder, "forward"), spy(pipeline.vae, "decode"), spy(pipeline.vae, "encode")
    steps, unpacked = spy(pipeline.scheduler, "step"), {"latents": noise}
    arguments = {name: value for name, value in request.items() if name not in ("seed", "references")}
    references = [picture(size) for size in request.get("references", [])]
    if references:
        images = [PIL.Image.fromarray(reference) for reference in references]
        arguments["image"] = images if len(images) > 1 else images[0]
    result = {}
    if case["is_flux3"]:
        state = pipeline(**arguments, **unpacked, output_type="pt")
        crop = state.get("reference_crop")
        if crop is not None and crop[0] is not None and "height" not in request:
            result["crop"] = torch.tensor(crop[0])
    else:
        pipeline(**arguments, **unpacked, output_type="pt")
    result |= {"sigmas": pipeline.scheduler.sigmas, "latents": steps[-1][2][0], "image": decoded[0][2][0],
               "prompt_embeds": torch.cat([encoded[0][2].hidden_states[k] for k in layers_of(case)], dim=-1)}
    for call, sign in zip(encoded, ("", "negative_")):
        result[sign + "ids"] = call[1]["input_ids"]
    for i, (reference, call) in enumerate(zip(references, coded)):
        given = call[0][0] if call[0] else call[1]["image"]
        result |= {f"reference_{i}": torch.from_numpy(reference), f"prepared_{i}": as_picture(given)}
    return result


def layers_of(case):
    return (4, 8, 12, 16, 20, 24, 28, 32) if case["is_flux3"] else (9, 18, 27)


def noise_of(pipeline, case, request):
    """[1, channels, rows, columns]: of references without a size, that of the first."""
    height, width = request.get("height"), request.get("width")
    if height is None:
        first = PIL.Image.fromarray(picture(request["references"][0]))
        if case["is_flux3"]:
            mode = "fill" if len(request["references"]) == 1 else "crop"
            height, width = Flux3ImageProcessor().preprocess(first, resize_mode=mode)[0].shape[-2:]
        else:
            height, width = first.height // 16 * 16, first.width // 16 * 16
    draw = torch.Generator().manual_seed(request["seed"])
    return torch.randn(1, 4 * VAE["latent_channels"], height // 16, width // 16, generator=draw)


def make_request(root, folder, encoder, case, request, keeps_embeds):
    noise = noise_of(None, case, request)

    def at(dtype):
        return run(load(root, folder, case, encoder, dtype), case, request, noise.to(dtype))

    narrow, single = at(torch.bfloat16), at(torch.float32)
    with pipelines_in_double():
        pipeline = load(root, folder, case, encoder, torch.float64)
        with InDouble():
            golden = run(pipeline, case, request, noise.double())

    def error(other, name):
        return ((other[name].double() - golden[name]).norm() / golden[name].norm().clamp(min=1e-30)).item()

    tensors = {"noise": noise.flatten(2).transpose(1, 2)}
    for name, tensor in golden.items():
        if tensor.is_floating_point():
            if tensor.dtype != torch.float64 or not torch.isfinite(tensor).all():
                sys.exit(f"{folder}: {name} is {tensor.dtype} and must be finite float64")
            if not error(single, name) < 1e-4:
                sys.exit(f"{folder}: float32 diffusers is {error(single, name):.2e} from {name}")
        elif not torch.equal(tensor, single[name]):
            sys.exit(f"{folder}: {name} differs in float32")
        if name == "prompt_embeds" and not keeps_embeds:
            continue
        tensors[name] = tensor.float() if tensor.is_floating_point() and name != "sigmas" else tensor
        if name in ("latents", "image"):
            tensors[name + "_bf16_error"] = torch.tensor([error(narrow, name)], dtype=torch.float64)
    image = golden["image"]
    print(f"  {list(image.shape)}, texts {[golden[name].shape[1] for name in golden if name.endswith('ids')]}: rms "
          f"{image.square().mean().sqrt().item():.3f}, clamped {(image.abs() > 1).double().mean().item():.3f}; float32 within "
          f"{error(single, 'latents'):.1e}, bf16 within {error(narrow, 'latents'):.1e} of the latents", flush=True)
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}


def refused(function):
    try:
        return function()
    except ValueError:
        return None


def sizes_of(size):
    """(height, width) of a picture, and what diffusers makes of it."""
    flux3, flux2 = Flux3ImageProcessor(), Flux2ImageProcessor()
    flux3.resize = lambda image, height, width: PIL.Image.new("L", (width, height))
    whole = PIL.Image.new("L", size[::-1])
    single = flux3._resize_if_canvas_exceeds_area(whole)
    canvas = flux3._get_canvas_height_width(single.height, single.width)
    row = {"picture": size, "resized": (single.height, single.width), "canvas": canvas, "box": flux3._get_fill_region(single, *canvas)}
    for name, of_all, accepts in (("several", flux3._resize_if_exceeds_area, lambda image: image),
                                  ("flux2", flux2._resize_if_exceeds_area, flux2.check_image_input)):
        def cut():
            image = of_all(accepts(whole), 1024 * 1024)
            height, width = flux3.get_default_height_width(image)
            return {"resized": (image.height, image.width), "cut": (height, width)} if height * width else None
        row[name] = refused(cut)
    return row


def make_sizes(folder):
    draw = random.Random(5)
    sizes = [(1, 1), (15, 16), (17, 16), (64, 64), (2048, 2048), (2047, 2049), (2049, 2048), (4096, 1024), (4097, 1000), (1024, 1024),
             (1025, 1023), (1024, 1025), (9000, 20), (20, 9000), (63, 64), (512, 64), (513, 64), (2000, 2100), (2040, 2056), (4096, 1023)]
    sides = lambda most: int(round(2 ** draw.uniform(3, most)))  # noqa: E731
    while len(sizes) < 200:
        sizes.append((sides(13 if len(sizes) % 3 == 0 else 11.3), sides(13 if len(sizes) % 4 == 0 else 11.3)))
    resize = PIL.Image.Image.resize
    PIL.Image.Image.resize = lambda image, size, *_: PIL.Image.new("L", size)
    rows = [json.dumps(sizes_of(size)) for size in sizes]
    PIL.Image.Image.resize = resize
    (folder / "sizes.json").write_text("[\n  " + ",\n  ".join(rows) + "\n]\n")
    tensors = {}
    for i, size in enumerate(CANVASES):
        image = picture(size)
        tensors |= {f"{i}.image": torch.from_numpy(image),
                    f"{i}.canvas": as_picture(Flux3ImageProcessor().preprocess(PIL.Image.fromarray(image), resize_mode="fill")[0])}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, str(folder / "canvas.safetensors"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=Path, help="folder to write the case folders in")
    args = parser.parse_args()
    for library in (diffusers, transformers):
        library.logging.set_verbosity_error()
    encoder = None
    for name, case in CASES.items():
        folder = args.out / name
        print(name, flush=True)
        encoder = write_folder(folder, case) or encoder  # of the folder before
        write(folder / "requests.json", case["requests"], indent=2)
        expected = {}
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            for i, (request, arguments) in enumerate(case["requests"].items()):
                made = make_request(args.out, folder, encoder, case, arguments, keeps_embeds=i == 0)
                expected |= {f"{request}.{of}": tensor for of, tensor in made.items()}
        save_file(expected, str(folder / "expected.safetensors"))
        if name == "flux3-base":
            make_sizes(folder)
        print(f"  {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file())} bytes", flush=True)


if __name__ == "__main__":
    main()
