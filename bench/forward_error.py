#!/usr/bin/env python3
"""How far one forward pass of a FLUX transformer is from its own in fp32, on equal random weights and inputs, under
each of some switches. Needs nothing but the program, and a device that holds the weights in fp32.

    python3 bench/forward_error.py build/release/headroom flux-dev --tokens 32 --like ladder.json --save error-512.json

Where bench/peers/flux_error.py takes diffusers in fp32 for the reference, this takes Headroom without any optimization
under --baseline fp32. Inputs are as flux_error.py draws them: unit normals, timestep 0.5, guidance 4. --like is a
result file of the same machine and build, whose description of them is taken over.
"""

import argparse
import array
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "peers"))
from work import forward_subject, work_hash  # noqa: E402

SWITCHES = ("", "arena,flash,fuse", "arena,flash,fuse,fp8")
FLUX_DEV = {"guidance_embeds": True, "in_channels": 64, "joint_attention_dim": 4096, "pooled_projection_dim": 768,
            "axes_dims_rope": [16, 56, 56]}
AGAINST = "headroom in fp32, same weights and inputs"


def write_tensors(path, tensors):
    """A safetensors file of {name: (shape, numbers)} in f32."""
    header, offset = {}, 0
    for name, (shape, numbers) in tensors.items():
        assert len(numbers) == math.prod(shape), name
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + 4 * len(numbers)]}
        offset += 4 * len(numbers)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, numbers in tensors.values():
            array.array("f", numbers).tofile(file)


def read_tensor(path, name):
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensor = json.loads(data[8:8 + size])[name]
    if tensor["dtype"] != "F32":
        raise SystemExit(f"{path}: {name} is {tensor['dtype']}, expected F32")
    begin, end = tensor["data_offsets"]
    numbers = array.array("f")
    numbers.frombytes(data[8 + size + begin:8 + size + end])
    return numbers


def draw_inputs(config, tokens, text_tokens, seed):
    draw = random.Random(seed)
    normal = lambda *shape: (list(shape), [draw.gauss(0, 1) for _ in range(math.prod(shape))])  # noqa: E731
    axes = len(config["axes_dims_rope"])
    inputs = {
        "hidden_states": normal(1, tokens**2, config["in_channels"]),
        "encoder_hidden_states": normal(1, text_tokens, config["joint_attention_dim"]),
        "pooled_projections": normal(1, config["pooled_projection_dim"]),
        "timestep": ([1], [0.5]),
        "img_ids": ([tokens**2, axes], [n for i in range(tokens**2)
                                        for n in [0] * (axes - 2) + [i // tokens, i % tokens]]),
        "txt_ids": ([text_tokens, axes], [0] * text_tokens * axes),
    }
    if config.get("guidance_embeds"):
        inputs["guidance"] = ([1], [4.0])
    return inputs


def relative_l2(output, reference):
    return math.sqrt(sum((a - b)**2 for a, b in zip(output, reference, strict=True)) / sum(b * b for b in reference))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headroom", help="the program")
    parser.add_argument("model", help="flux-dev, or the folder of a FLUX transformer")
    parser.add_argument("--tokens", type=int, default=64, help="image tokens down and across")
    parser.add_argument("--text-tokens", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--baseline", default="bf16", help="what is computed in where no switch says otherwise")
    parser.add_argument("--switches", nargs="+", default=SWITCHES, help="no preset: the names that a result has")
    parser.add_argument("--like", required=True, help="result file whose machine this is")
    parser.add_argument("--save", required=True, help="result file to write")
    args = parser.parse_args()

    folder = pathlib.Path(args.model)
    config = json.loads((folder / "config.json").read_text()) if folder.is_dir() else FLUX_DEV
    like = json.loads(pathlib.Path(args.like).read_text())
    subject = forward_subject(folder.name, args.tokens**2, 1, args.text_tokens)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        inputs, output = f"{scratch}/inputs.safetensors", f"{scratch}/output.safetensors"
        write_tensors(inputs, draw_inputs(config, args.tokens, args.text_tokens, args.seed))

        def forward(baseline, switches):
            """What it makes, and which switches declined, by its notes."""
            ran = subprocess.run(
                [args.headroom, "forward", args.model, "--random-weights", str(args.seed), "--device", args.device,
                 "--baseline", baseline, "--opt", switches or "baseline", "--inputs", inputs, "--out", output],
                check=True, stderr=subprocess.PIPE, text=True)
            return read_tensor(output, "sample"), dict(re.findall(r"^(?:warning: )?switch (\S+) declined: (.*)$", ran.stderr, re.MULTILINE))

        reference, _ = forward("fp32", "")
        for switches in args.switches:
            sample, declined = forward(args.baseline, switches)
            asked = [name for name in switches.split(",") if name]
            error = relative_l2(sample, reference)
            name = switches or "baseline"
            results.append({
                "id": name, "name": name, "subject": subject, "work_hash": work_hash(subject),
                "source": like["results"][0]["source"],
                "configuration": {
                    "device": args.device, "baseline_dtype": args.baseline, "asked": asked,
                    "applied": [name for name in asked if name not in declined],
                    "declined": [{"switch": name, "reason": reason} for name, reason in declined.items()]},
                "trials": [], "quality": [{"metric": "relative_l2", "against": AGAINST, "value": error}],
                "tags": ["random_weights"],
            })
            print(f"{name}: relative L2 {error:.3e} against {AGAINST}", flush=True)
    file = {"schema": like["schema"], "created": like["created"], "machine": like["machine"], "plans": {}, "results": results}
    pathlib.Path(args.save).write_text(json.dumps(file, indent=1) + "\n")


if __name__ == "__main__":
    main()
