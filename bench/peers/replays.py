"""Times a function on a GPU as Headroom times its own kernels (src/measure/protocol/submissions.cpp).

20 calls are captured in a CUDA graph, one after the other on the same operands, so that neither Python nor launches are
in the times. A trial is one replay up to the end of a synchronization, or several if one takes less than a millisecond,
by the wall clock, divided by its calls. 5 to 20 replays warm up, 20 trials count. Results of a call are given back
before the next, which so writes where the last one wrote.
"""

import math
import statistics
import time

import torch

NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.float8_e4m3fn: "f8e4m3", torch.uint8: "u8",
         torch.int32: "i32"}
CALLS = 20  # in a graph
WARMUP, TRIALS, LEAST_TRIAL_S = (5, 20), 20, 1e-3


def operand_text(x):
    return f"{NAMES[x.dtype]}[{', '.join(map(str, x.shape))}]"


def capture(function, inputs):
    """So many calls in a graph, each after its predecessor's results were given back."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            function(*inputs)
    return graph


def is_settled(times):
    """As src/measure/statistics/trials.hpp says."""
    if len(times) < 5:
        return False
    now, before = statistics.median(times[-3:]), statistics.median(times[-5:-2])
    return abs(now - before) <= 0.05 * before


def time_calls(function, inputs):
    """Milliseconds of a call by trial, and how many replays warmed up."""
    graph = capture(function, inputs)

    def replay(times):
        began = time.perf_counter_ns()
        for _ in range(times):
            graph.replay()
            torch.cuda.synchronize()
        return (time.perf_counter_ns() - began) / 1e9 / times

    warmup = []
    while len(warmup) < WARMUP[1] and not (len(warmup) >= WARMUP[0] and is_settled(warmup)):
        warmup.append(replay(1))
    replays = max(1, math.ceil(LEAST_TRIAL_S / statistics.median(warmup[-3:])))
    return [replay(replays) * 1e3 / CALLS for _ in range(TRIALS)], len(warmup)
