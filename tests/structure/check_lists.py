#!/usr/bin/env python3
"""check_lists.py SRC: every kernel below SRC/kernels is in the list of one family, kernels/FAMILY/kernels.def, and that
is in kernels/all_kernels.def.

A listed kernel that is not defined fails to link; one that is defined and not listed would only never run. A kernel is
a function

    const Kernel& highway_softmax() {                    HR_CPU_KERNEL(highway_softmax)
    std::span<const CpuKernel> highway_reductions() {    HR_CPU_KERNELS(highway_reductions)

that begins a line. Sources for CUDA alone have HR_CUDA_ in the list. Needs nothing but Python.
"""

import pathlib
import re
import sys

DEFINED = re.compile(r"^(?:const Kernel&|std::span<const (?:cuda::)?\w*Kernel>) (\w+)\(\) \{", re.M)
LISTED = re.compile(r"^HR_(CPU|CUDA)_KERNELS?\((\w+)\)", re.M)
INCLUDED = re.compile(r'^#include "kernels/(\w+)/kernels\.def"', re.M)
FOR_CUDA = re.compile(r"^cuda_.*\.cpp$|_cuda\.cpp$|\.cu$")


def main():
    src = pathlib.Path(sys.argv[1])
    kernels = src / "kernels"
    faults, listed, defined = [], {}, 0
    families = {path.parent.name: path for path in sorted(kernels.glob("*/kernels.def"))}
    everything = kernels / "all_kernels.def"
    included = INCLUDED.findall(everything.read_text()) if everything.exists() else []
    for family, path in families.items():
        if family not in included:
            faults.append(f"kernels/{family}/kernels.def: is not in kernels/all_kernels.def")
        for device, name in LISTED.findall(path.read_text()):
            if name in listed:
                faults.append(f"kernels/{family}/kernels.def: {name} is listed twice")
            listed[name] = device
    for path in sorted(kernels.rglob("*.c*")):
        for name in DEFINED.findall(path.read_text()):
            defined += 1
            device = "CUDA" if FOR_CUDA.search(path.name) else "CPU"
            if listed.get(name) != device:
                faults.append(f"{path.relative_to(src).as_posix()}: no kernels.def has HR_{device}_KERNEL({name}) or ..._KERNELS")
    print("\n".join(faults) if faults else f"{defined} kernels are listed")
    if not defined:
        print(f"no kernel below {kernels}")
    return 1 if faults or not defined else 0


if __name__ == "__main__":
    sys.exit(main())
