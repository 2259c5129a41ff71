#!/usr/bin/env python3
"""Times the attention of `headroom bench kernels` in PyTorch, by cuDNN and by FlashAttention-2, raw trials kept.

    python3 bench/peers/attention_torch.py --works headroom-0.json --save pytorch-{round}.json --rounds 2 \\
        --beside "build/release/headroom bench kernels --filter 'attention bf16 of 1x' --device cuda --out headroom-{round}.json"

The works are those of a result file of Headroom's, so that work hashes are equal: each dense or causal attention
without a bias, in bf16 or f16. Timed as Headroom times its own (replays.py). The last queries of the first head are
held against f32. With --beside this process alternates with another program, which may write the file of works in the
first round.
"""

import argparse
import json
import re

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import peer_result
from replays import NAMES, time_calls
from rounds import in_rounds, tell

BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention-2": SDPBackend.FLASH_ATTENTION}
CHECKED = 64  # queries
FARTHEST = 1e-2  # of a result from f32, relative, in the 2-norm


def read_operand(text):
    name, extents = re.fullmatch(r"(\w+)\[(.*)\]", text).groups()
    return {name: dtype for dtype, name in NAMES.items()}[name], tuple(map(int, extents.split(", ")))


def subjects_of(path):
    with open(path, encoding="utf-8") as file:
        results = json.load(file)["results"]
    found = {}
    for result in results:
        subject = result["subject"]
        request = subject["request"]
        if subject["name"] != "attention" or len(request["inputs"]) != 3 or "form" in request or \
                request["attributes"]["logsumexp"] != "0" or request["inputs"][0].split("[")[0] not in ("bf16", "f16"):
            continue
        found[result["name"]] = subject
    if not found:
        raise SystemExit(f"{path} has no attention in bf16 or f16")
    return found


def attention_of(subject):
    """A function of q, k and v."""
    attributes = subject["request"]["attributes"]
    if attributes.get("diagonal", "0") != "0":
        raise SystemExit("PyTorch has no diagonal but 0")
    is_causal, scale = attributes["causal"] == "1", float(attributes["scale"])
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=scale)


def check(name, subject, out, q, k, v):
    attributes = subject["request"]["attributes"]
    queries, keys = q.shape[2], k.shape[2]
    last = min(CHECKED, queries)
    scores = q[0, 0, -last:].float() @ k[0, 0].float().T * float(attributes["scale"])
    if attributes["causal"] == "1":
        rows = torch.arange(queries - last, queries, device=q.device)[:, None]
        scores = scores.masked_fill(torch.arange(keys, device=q.device) > rows, -torch.inf)
    expected = scores.softmax(-1) @ v[0, 0].float()
    distance = ((out[0, 0, -last:].float() - expected).norm() / expected.norm()).item()
    if not distance <= FARTHEST:  # a NaN is refused
        raise SystemExit(f"{name}: {distance:.2e} from f32")


def measure(subjects, number):
    results = []
    for case, subject in subjects.items():
        operands = [torch.randn(shape, device="cuda", dtype=dtype) for dtype, shape in map(read_operand, subject["request"]["inputs"])]
        function = attention_of(subject)
        for name, backend in BACKENDS.items():
            with sdpa_kernel(backend):
                check(f"{name}, {case}", subject, function(*operands), *operands)
                times, warmup = time_calls(function, operands)
            asked = [name, "CUDA Graph"]
            results.append({
                "id": f"{name}, {case}", "name": name, "subject": subject, "work_hash": peer_result.work_hash(subject),
                "source": {"name": "pytorch", "version": torch.__version__},
                "configuration": {"device": "cuda", "asked": asked, "applied": asked, "declined": [], "threads": torch.get_num_threads()},
                "trials": [peer_result.series("launch", number, times, warmup)], "quality": [], "tags": []})
        del operands
        torch.cuda.empty_cache()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--works", required=True, metavar="FILE", help="a result file of `headroom bench kernels`")
    parser.add_argument("--beside", metavar="COMMAND", action="append", help="alternate with this program")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--save", required=True, help="JSON file to write, one for each {round}")
    args = parser.parse_args()
    if (args.rounds > 1) != ("{round}" in args.save):
        parser.error("--rounds and a {round} in --save go together")
    with torch.inference_mode():
        for number, results in in_rounds(args.beside, args.rounds, lambda number: measure(subjects_of(args.works), number)):
            peer_result.write(args.save.replace("{round}", str(number)), results)
            tell(results)


if __name__ == "__main__":
    main()
