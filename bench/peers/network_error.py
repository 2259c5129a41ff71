"""How far outputs of a network are from those in fp32, for Headroom and for PyTorch on equal weights and inputs: the
part that scripts share.
"""

import os
import subprocess
import time

import torch
from safetensors.torch import load_file

import peer_result


def relative_l2(output, reference):
    return float((output - reference).norm() / reference.norm())


class Errors:
    """Relative L2 distances from `reference`, printed and kept as results in a file."""

    def __init__(self, path, subject, reference):
        self.path, self.subject, self.reference, self.results = path, subject, reference, []
        self.device = reference.device.type

    def add(self, source, version, applied, output):
        error = relative_l2(output, self.reference)
        name = f"{source} {', '.join(applied)}"
        self.results.append({
            "id": name, "name": name, "subject": self.subject, "work_hash": peer_result.work_hash(self.subject),
            "source": {"name": source, "version": version},
            "configuration": {"device": self.device, "asked": applied, "applied": applied, "declined": []},
            "trials": [], "quality": [{"metric": "relative_l2", "against": "diffusers in fp32", "value": error}],
            "tags": ["random_weights"],
        })
        peer_result.write(self.path, self.results)
        print(f"{name}: relative L2 {error:.3e}", flush=True)

    def add_pytorch(self, applied, output):
        self.add("pytorch", torch.__version__, applied, output)

    def add_headroom(self, program, folder, switch_sets, inputs, output_name):
        """Of the checkpoint in the folder, each under these switches, a process each."""
        version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
        path = os.path.join(folder, "output.safetensors")
        for switches in switch_sets:
            began = time.perf_counter()
            subprocess.run([program, "forward", folder, "--device", self.device, "--quiet", "--opt", switches, "--inputs", inputs,
                            "--out", path], check=True)
            seconds = time.perf_counter() - began
            self.add("headroom", version, switches.split(","), load_file(path)[output_name].to(self.reference))
            print(f"  the whole process took {seconds:.1f} s", flush=True)
