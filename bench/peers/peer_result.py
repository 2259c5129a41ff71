"""Result files of schema headroom.result/1 (docs/result.schema.json) for what peers ran."""

import contextlib
import json
import math
import os
import platform
import subprocess
import sys
import time

import numpy as np
import torch

from work import denoise_subject, forward_subject, work_hash  # noqa: F401

try:
    import diffusers
except ImportError:  # kernels are timed without it
    diffusers = None


def machine():
    def field(path, name):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith(name):
                    return line.split("=" if "=" in line else ":", 1)[1].strip().strip('"')
        return "unknown"

    system = platform.uname()
    found = {
        "cpu": field("/proc/cpuinfo", "model name"), "logical_cores": os.cpu_count(),
        "allowed_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "gpus": [],
        "os": field("/etc/os-release", "PRETTY_NAME"), "kernel": f"{system.system} {system.release} {system.machine}",
        "libraries": {"PyTorch": torch.__version__, "Python": platform.python_version()},
    }
    if diffusers:
        found["libraries"]["diffusers"] = diffusers.__version__
    if "openvino" in sys.modules:
        found["libraries"]["OpenVINO"] = sys.modules["openvino"].get_version()
    if torch.cuda.is_available():
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        found["gpus"] = [{"name": torch.cuda.get_device_name()}]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            found["gpus"][0]["driver"] = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.split()[0]
        found["libraries"] |= {"CUDA": torch.version.cuda, "cuDNN": str(torch.backends.cudnn.version())}
    return found


def median_interval(times):
    """As median_interval() in statistics.hpp, for 6 times or more (Hettmansperger and Sheather, 1986)."""
    ordered, n, k = sorted(times), len(times), 1

    def missed(rank):
        return 2 * sum(math.comb(n, i) for i in range(rank)) / 2**n

    while 2 * (k + 1) <= n and missed(k + 1) <= 0.05:
        k += 1
    share = (0.05 - missed(k)) / (missed(k + 1) - missed(k))
    weight = (n - k) * share / (k + (n - 2 * k) * share)
    return tuple(outer + weight * (inner - outer) for outer, inner in ((ordered[k - 1], ordered[k]), (ordered[n - k], ordered[n - k - 1])))


def statistics(times):
    """Quantiles interpolate linearly between order statistics."""
    x = np.asarray(times, dtype=np.float64)
    q1, q3 = np.quantile(x, 0.25), np.quantile(x, 0.75)
    beyond = np.maximum(q1 - x, x - q3) / max(q3 - q1, np.finfo(np.float64).tiny)
    figures = {
        "median": np.median(x), "q1": q1, "q3": q3, "mean": x.mean(), "min": x.min(), "max": x.max(),
        "p95": np.quantile(x, 0.95), "p99": np.quantile(x, 0.99), "trimmed_mean": x[beyond <= 1.5].mean(),
    }
    if len(x) > 1:
        figures["stddev"] = x.std(ddof=1)
    if len(x) >= 6:  # fewer trials give no 95% interval (kFewestForInterval in statistics.hpp)
        figures["ci_low"], figures["ci_high"] = median_interval(x)
    return {"n": len(x), "outliers_mild": int(((beyond > 1.5) & (beyond <= 3)).sum()), "outliers_severe": int((beyond > 3).sum()),
            **{f"{name}_ms": float(value) for name, value in figures.items()}}


def series(what, process, times, warmup=0):
    return {"what": what, "unit": "ms", "process": [process] * len(times), "time": times, "warmup": warmup,
            "warmup_stable": True, "complete": True, "statistics": statistics(times)}


def all_series(what, process, trials, warmup):
    """A series for each clock that timed the trials: of "time" it has the name as it is, of another that clock's
    behind it.
    """
    return [series(what if clock == "time" else f"{what}_{clock}", process, times, warmup) for clock, times in trials.items()]


def write(path, results, plans=None):
    """A whole file, replaced at once; results are added as they come."""
    document = {"schema": "headroom.result/1", "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "machine": machine(), "plans": plans or {}, "results": results}
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)
