"""What a call of PyTorch launches on a GPU, as the plan of a result file."""

import ctypes

import torch


def kernels_of(function, *inputs):
    """Names of the kernels that one call launches, in order; without the profiler's help as many as its graph has
    nodes.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function(*inputs)
        torch.cuda.synchronize()
    events = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA
              and not getattr(event, "is_user_annotation", False) and not event.name.startswith("Memset")]
    if events:
        return [event.name for event in sorted(events, key=lambda event: event.time_range.start)]
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        function(*inputs)
    count = ctypes.c_size_t()
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    if runtime.cudaGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count)) != 0:
        raise SystemExit("neither the profiler nor a graph tells how many kernels a call launches")
    return ["a node of its graph"] * count.value


def plan_of(node, kernels):
    """A plan of those launches; what they cost is not known, and 0 there."""
    return {"nodes": [{"node": node, "op": node, "kernel": kernel, "implementation": "inductor", "compute_type": "f32",
                       "cost": {"bytes": 0, "flops": 0, "unit": "none"}, "rejections": []} for kernel in kernels]}
