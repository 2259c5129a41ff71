#!/usr/bin/env python3
"""accelerate_memory.py RELEASE [--width N] [--blocks DOUBLE SINGLE] [--device cpu|cuda] [--optimize SWITCHES]

Accelerates a FLUX transformer of random weights in f32, calls it once, and prints as JSON what that added to the
process's resident memory (on a GPU: to the device's memory in use), at its peak and afterwards. RELEASE is "keep",
"torch" or "drop". The transformer has the width of FLUX.1-dev, 3072, and a few of its blocks.
"""

import argparse
import json
import threading
import time

import diffusers
import torch

import headroom


class Peak:
    """The memory in use: by the kernel's own record on a CPU, and by samples each millisecond on a GPU."""

    def __init__(self, device):
        self.device, self.running = device, device == "cuda"
        if not self.running:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the peak is what is in use now
        self.before = self.peak = self.now()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def status(self, name):
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

    def now(self):
        if self.device == "cpu":
            return self.status("VmRSS:")
        free, total = torch.cuda.mem_get_info()
        return total - free

    def watch(self):
        while self.running:
            self.peak = max(self.peak, self.now())
            time.sleep(0.001)

    def stop(self):
        self.running = False
        self.thread.join()
        if self.device == "cpu":
            self.peak = self.status("VmHWM:")
        return max(self.peak, self.now()) - self.before, self.now() - self.before


def flux(width, blocks, device):
    """The transformer with this width and numbers of blocks."""
    torch.manual_seed(0)
    with torch.device(device):
        return diffusers.FluxTransformer2DModel(
            patch_size=1, in_channels=64, num_layers=blocks[0], num_single_layers=blocks[1], attention_head_dim=128,
            num_attention_heads=width // 128, joint_attention_dim=4096, pooled_projection_dim=768, guidance_embeds=True,
        ).eval()  # fmt: skip


def call(module, device):
    with torch.device(device), torch.no_grad():
        inputs = {
            "hidden_states": torch.randn(1, 64, 64),
            "encoder_hidden_states": torch.randn(1, 32, 4096),
            "pooled_projections": torch.randn(1, 768),
            "timestep": torch.tensor([0.5]),
            "img_ids": torch.zeros(64, 3),
            "txt_ids": torch.zeros(32, 3),
            "guidance": torch.tensor([3.5]),
        }
        return module(**inputs, return_dict=False)[0]


def warm_up(device, optimize):
    """Makes what is made once in a process: the library's threads, and a GPU's context and libraries."""
    call(headroom.accelerate(flux(128, (1, 1), device), optimize=optimize), device)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", choices=["keep", "torch", "drop"])
    parser.add_argument("--width", type=int, default=3072)
    parser.add_argument("--blocks", type=int, nargs=2, default=[1, 1])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--optimize", default="lossless")
    options = parser.parse_args()
    module = flux(options.width, options.blocks, options.device)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    warm_up(options.device, options.optimize)
    peak = Peak(options.device)
    started = time.perf_counter()
    call(headroom.accelerate(module, optimize=options.optimize, release=options.release), options.device)
    if options.device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    added_peak, added = peak.stop()
    print(json.dumps({
        "release": options.release, "device": options.device, "optimize": options.optimize, "width": options.width,
        "blocks": options.blocks, "weights_bytes": weights, "added_peak_bytes": added_peak, "added_bytes": added,
        "seconds": round(seconds, 3), "torch": torch.__version__, "headroom": headroom.version(),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
