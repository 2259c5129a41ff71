#!/usr/bin/env python3
"""check_waits.py SRC: every kernel below SRC begins with wait_for_previous(), and is launched in no other way than by
backends/cuda/early_launch.cuh, which lets kernels begin before those in front of them have ended.

No kernel reads by __ldg() or from a __restrict__ pointer: such reads the compiler moves before the wait.

Tests of kernels compare them behind work that is late: by KernelTest::compare() (testing/gpu_check.hpp).

Before the wait a kernel may declare constants, types and shared memory, and let the next one begin. Kernels that wait
later are named in WAIT_LATER with the reason; they wait all the same. Needs nothing but Python.
"""

import pathlib
import re
import sys

WAIT_LATER = {
    "hopper_convolution_kernel": "one thread copies constant weights meanwhile, which no kernel of a run writes",
    "hopper_attention_kernel": "barriers in shared memory are made and registers change hands meanwhile",
    "hopper_attention_backward_kernel": "barriers in shared memory are made and registers change hands meanwhile",
    "hopper8_attention_kernel": "barriers and constants in shared memory are made and registers change hands meanwhile",
    "norm_once": "a barrier in shared memory is made and addresses are brought to the second-level cache meanwhile",
    "narrow_kernel": "registers change hands and constant weights, which no kernel of a run writes, are read meanwhile",
    "many_to_few_kernel": "constant weights, which no kernel of a run writes, are read meanwhile",
    "few_rows_kernel": "constant weights, which no kernel of a run writes, are read meanwhile",
    "from_several_kernel": "constant weights, which no kernel of a run writes, are read meanwhile",
    "to_few_kernel": "barriers in shared memory are made meanwhile",
    "begun_kernel": "tests see by it that kernels begin early",
}
LAUNCHED_BY = "backends/cuda/early_launch.cuh"
ALLOWED = {
    LAUNCHED_BY: {"cudaLaunchKernelExC"},
    "backends/cuda/early_launch.cu": {"cudaLaunchAttributeProgrammaticStreamSerialization"},
    # of generated kernels, whose tests look at their texts
    "kernels/vendor/nvrtc/cuda_compiler_threads.cpp": {"cudaLaunchKernelExC"},
    "doctor/trace/trace_facts.cpp": {"cudaLaunchKernel", "cuLaunchKernel"},  # names in traces of other programs
    "doctor/trace/trace_test.cpp": {"cudaLaunchKernel"},
}

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
KERNEL = re.compile(r"\b__global__\b(\s+void\b\s*(__launch_bounds__\s*(?=\())?)?")
NAME = re.compile(r"\s*(\w+)\s*\(")
OPENING = re.compile(r"\s*([{;])")
WAIT = re.compile(r"(?:\w+::)*wait_(?:for_previous|alone)\(\);")
# What may stand before the wait: nothing of it reads or writes memory that another kernel could.
HARMLESS = re.compile(
    r"(?:constexpr [^;{}]*;|using [^;{}]*;|(?:extern )?__shared__ [^;{}]*;|if constexpr \(HR_HAS_HOPPER\) \{|"
    r"(?:\w+::)*let_next_begin\(\);)\s*")
UNORDERED = re.compile(r"\b__ldg\b|\b__restrict__\b|\b__restrict\b|\bld\.global\.nc\b")
NOT_LATE = re.compile(r"\bcompare_with_oracle\b")
LAUNCH = re.compile(
    r"<<<|\bcu(?:da)?Launch(?:Cooperative)?Kernel\w*|\bcudaLaunchAttributeProgrammatic\w*|\bCU_LAUNCH_ATTRIBUTE_PROGRAMMATIC\w*")


def without_comments(text):
    """The text with comments blanked, lines kept."""
    return COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def behind(text, at, opening, closing):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == opening) - (text[place] == closing)
        if depth == 0:
            return place + 1
    return len(text)


def kernels_of(text):
    """The line, name and body of every kernel that is defined."""
    for found in KERNEL.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        at = behind(text, found.end(), "(", ")") if found.group(2) else found.end()
        name = NAME.match(text, at) if found.group(1) else None
        opening = name and OPENING.match(text, behind(text, name.end() - 1, "(", ")"))
        if opening is None:
            yield line, None, ""
        elif opening.group(1) == "{":  # not declared alone
            yield line, name.group(1), text[opening.end():behind(text, opening.end() - 1, "{", "}") - 1]


def fault_of(name, body):
    """What is wrong with a kernel, or nothing."""
    if name is None:
        return "a kernel that this check cannot read"
    if name in WAIT_LATER:
        return None if WAIT.search(body) else f"{name} never waits"
    rest = body.lstrip()
    while (harmless := HARMLESS.match(rest)) is not None:
        rest = rest[harmless.end():]
    return None if WAIT.match(rest) else f"{name} does not begin with wait_for_previous()"


def main():
    src = pathlib.Path(sys.argv[1])
    files = sorted(path for path in src.rglob("*") if path.suffix in (".cu", ".cuh", ".cpp", ".hpp"))
    faults, kernels = [], 0
    for path in files:
        own = path.relative_to(src).as_posix()
        text = without_comments(path.read_text())

        def tell(pattern, why, allowed=()):
            for found in pattern.finditer(text):
                if found.group() not in allowed:
                    line = text.count("\n", 0, found.start()) + 1
                    faults.append(f"{own}:{line}: {found.group()}: {why}")

        tell(LAUNCH, f"kernels are launched by launch_early() ({LAUNCHED_BY})", ALLOWED.get(own, ()))
        if own.endswith("_cuda_test.cpp"):
            tell(NOT_LATE, "nothing before the kernel is late, as it is in KernelTest::compare()")
        if path.suffix not in (".cu", ".cuh"):
            continue
        tell(UNORDERED, "the compiler may read this before the wait")
        for line, name, body in kernels_of(text):
            kernels += 1
            if (fault := fault_of(name, body)) is not None:
                faults.append(f"{own}:{line}: {fault}")
    print("\n".join(faults) if faults else f"{kernels} kernels wait for those before them")
    if not kernels:
        print(f"no kernel below {src}")
    return 1 if faults or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
