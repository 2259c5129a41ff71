#!/usr/bin/env python3
"""trace_reader.py PROGRAM FOLDER [EVENTS]: time and memory in which `headroom doctor --trace` reads a large trace,
plain and packed.

Writes traces like those of torch.profiler with record_shapes (an op, its launch and its kernel in turn) to FOLDER, 2.65
million events (1 GB) unless EVENTS says else, reads each, and prints one JSON line a file: seconds of the whole
process, of unpacking alone by zlib, and the most resident memory in MiB.
"""

import gzip
import json
import os
import pathlib
import sys
import time
import zlib

NAMES = [
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, "
    "at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> >",
]
OPS = ["aten::mm", "aten::add", "aten::_scaled_dot_product_flash_attention"]


def events_of(i):
    """An op, the launch in it, and its kernel; the GPU works without gaps."""
    ts, name = 6043521034.123 + 12.5 * i, NAMES[i % len(NAMES)]
    yield (f'{{"ph": "X", "cat": "cpu_op", "name": "{OPS[i % len(OPS)]}", "pid": 4242, "tid": 4242, "ts": {ts:.3f}, "dur": 10.250, '
           f'"args": {{"External id": {i}, "Record function id": 0, "Sequence number": {i}, "Fwd thread id": 0, '
           '"Input Dims": [[1, 4608, 3072], [3072, 3072]], "Input Strides": [[14155776, 3072, 1], [1, 3072]], '
           '"Input type": ["c10::BFloat16", "c10::BFloat16"], "Concrete Inputs": ["", ""], "Ev Idx": 17}}')
    yield (f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": 4242, "ts": {ts + 4:.3f}, "dur": 4.501, '
           f'"args": {{"External id": {i}, "cbid": 211, "correlation": {i}}}}}')
    yield (f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {ts + 100:.3f}, "dur": 12.500, '
           f'"args": {{"External id": {i}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {i}, '
           '"registers per thread": 168, "shared memory": 229376, "blocks per SM": 0.969697, "warps per SM": 11.636364, '
           '"grid": [8, 16, 1], "block": [384, 1, 1], "est. achieved occupancy %": 18}}')


def write_trace(path, events):
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "displayTimeUnit": "ms", "traceEvents": [\n')
        for i in range(events // 3):
            file.write((",\n" if i else "") + ",\n".join(events_of(i)))
        file.write('\n], "traceName": "trace.json"}')


def pack(path, packed):
    with open(path, "rb") as source, gzip.open(packed, "wb", compresslevel=6) as file:
        while part := source.read(1 << 20):
            file.write(part)


def seconds_to_unpack(path):
    begin, unpack = time.perf_counter(), zlib.decompressobj(31)
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            while part:
                unpack.decompress(part, 1 << 20)
                part = unpack.unconsumed_tail
    return time.perf_counter() - begin


def read_trace(program, path):
    begin = time.perf_counter()
    process = os.posix_spawn(program, [program, "doctor", "--trace", str(path)], os.environ,
                             file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, use = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3, 4):
        sys.exit(f"{path}: the program failed")
    return {"s": round(time.perf_counter() - begin, 2), "cpu_s": round(use.ru_utime + use.ru_stime, 2),
            "resident_mib": use.ru_maxrss // 1024}


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    events = int(sys.argv[3]) if len(sys.argv) > 3 else 2_650_000
    folder.mkdir(parents=True, exist_ok=True)
    plain, packed = folder / "trace.json", folder / "trace.json.gz"
    if not plain.exists():
        write_trace(plain, events)
        pack(plain, packed)
    print(json.dumps({"trace": "plain", "events": events, "bytes": plain.stat().st_size, **read_trace(program, plain)}))
    print(json.dumps({"trace": "packed", "events": events, "bytes": packed.stat().st_size, **read_trace(program, packed),
                      "unpacking_s": round(seconds_to_unpack(packed), 2)}))


if __name__ == "__main__":
    main()
