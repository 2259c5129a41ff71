#!/usr/bin/env python3
"""python_calls.py LIBRARY [--rounds N] [--save FILE]

Measures what a call of session.run() from Python takes beyond the same call from C++. Both run the same small pass in
one process, twenty calls at a time in turn. LIBRARY is the libheadroom.so that the package uses; g++ compiles the
C++ side. The difference of the medians is reported, with the interval of a bootstrap over the rounds.
"""

import argparse
import ctypes
import json
import os
import random
import statistics
import subprocess
import tempfile
import time

import headroom

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
CALLS = 20  # far shorter than a time slice, so that other processes disturb few rounds
CONFIG = {
    "_class_name": "AutoencoderTiny", "in_channels": 1, "out_channels": 1, "latent_channels": 2,
    "encoder_block_out_channels": [4], "decoder_block_out_channels": [4], "num_encoder_blocks": [1],
    "num_decoder_blocks": [1],
}  # fmt: skip
SOURCE = """
#include <chrono>
#include "headroom.hpp"
using namespace headroom;
static Session* session = nullptr;
extern "C" void open_session(const char* folder, int height, int width) {
  const Component network(Device("cpu", 1), folder, {.random_seed = 1});
  const Shapes shapes{{"latents", {1, 2, height, width}}};
  session = new Session(network.compile("decode", shapes, "lossless"));
  session->set_input("latents", Tensor(DType::kF32, {1, 2, height, width}));
}
extern "C" double microseconds_of(int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) session->run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / calls;
}
"""


def cpp_side(folder, library):
    source, built = os.path.join(folder, "calls.cpp"), os.path.join(folder, "calls.so")
    with open(source, "w") as file:
        file.write(SOURCE)
    subprocess.run(
        ["g++", "-std=c++20", "-O2", "-shared", "-fPIC", "-I", os.path.join(ROOT, "src", "api"), source, library, "-o",
         built, f"-Wl,-rpath,{os.path.dirname(os.path.realpath(library))}"],
        check=True,
    )  # fmt: skip
    side = ctypes.CDLL(built)
    side.microseconds_of.restype = ctypes.c_double
    return side


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--save")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(CONFIG, file)
        side = cpp_side(folder, options.library)
        side.open_session(folder.encode(), 4, 4)
        network = headroom.Component(folder, headroom.Device("cpu", threads=1), random_weights=1)
        session = headroom.Session(network.compile({"latents": (1, 2, 4, 4)}, "decode"))
        session.set_input("latents", headroom.empty((1, 2, 4, 4)))

        def python_microseconds():
            start = time.perf_counter()
            for _ in range(CALLS):
                session.run()
            return (time.perf_counter() - start) * 1e6 / CALLS

        python_microseconds(), side.microseconds_of(CALLS)
        rounds = []
        for index in range(options.rounds):
            if index % 2:
                rounds.append((python_microseconds(), side.microseconds_of(CALLS)))
            else:
                cpp = side.microseconds_of(CALLS)
                rounds.append((python_microseconds(), cpp))

    def difference(chosen):
        return statistics.median(p for p, _ in chosen) - statistics.median(c for _, c in chosen)

    draw = random.Random(0)
    again = sorted(difference(draw.choices(rounds, k=len(rounds))) for _ in range(1000))
    result = {
        "what": "microseconds of session.run() of a small pass, from Python and from C++",
        "calls_per_round": CALLS, "rounds": len(rounds), "device": session.device.description, "threads": 1,
        "headroom": headroom.version(),
        "python_us": round(statistics.median(p for p, _ in rounds), 3),
        "cpp_us": round(statistics.median(c for _, c in rounds), 3),
        "overhead_us": round(difference(rounds), 3),
        "interval_us": [round(again[25], 3), round(again[-26], 3)],
    }  # fmt: skip
    text = json.dumps(result)
    print(text)
    if options.save:
        with open(options.save, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
