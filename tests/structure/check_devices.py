#!/usr/bin/env python3
"""Checks that no pass, model, plan or session names a device: its kind, its units or its limits. What depends on the
device is asked of its profile, its capabilities (base/target.hpp) and the rules of its kernels (ir/fusion_rules.hpp).
Comments may say what was measured where. Test helpers (test_util.hpp) and tests choose devices.

  check_devices.py SRC
"""

import re
import sys
from pathlib import Path

LAYERS = ("ir", "lower", "models", "passes", "plan", "run", "pipelines")
# Kinds of devices and their makers, facts of one kind, and limits of one kind.
NAMES = re.compile(r"\b(?:kCpu|kCuda|CpuIsa|cpu_isa|compute_capability|multiprocessors|has_compiler|sm_\d+)\b"
                   r"|cuda|nvidia|hopper|blackwell|cudnn|cublas|onednn|\bGPUs?\b|_gpu\b|\bgpu_|is_cpu|on_cpu", re.IGNORECASE)


def without_comments(text):
    """The same lines without // and /* */ comments; strings stay."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
    keep_lines = lambda found: found[0] if found[0].startswith('"') else "\n" * found[0].count("\n")
    return token.sub(keep_lines, text)


def main():
    source = Path(sys.argv[1])
    faults = []
    files = [path for layer in LAYERS for path in sorted((source / layer).rglob("*")) if path.suffix in (".cpp", ".hpp", ".def")]
    for path in files:
        if path.name.endswith("_test.cpp") or path.name == "test_util.hpp":
            continue
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            if found := NAMES.search(line):
                faults.append(f"{path.relative_to(source)}:{number}: names {found[0]}; ask the target's profile, capability or rules")
    if not files:
        faults.append(f"{source} has none of the layers {', '.join(LAYERS)}")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


main()
