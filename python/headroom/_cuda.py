"""Finds CUDA's libraries where pip put them.

The library opens cuBLASLt, cuDNN and NVRTC by their names when a GPU is first used. Those that the process has loaded
already (PyTorch's) are taken, else those of the system, else those of the packages nvidia-*, which come with PyTorch.
"""

import ctypes
import importlib.util
import os

_NAMES = ("libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13")


def load_libraries() -> None:
    """Loads those that the system lacks from the packages nvidia-*."""
    for name in _NAMES:
        try:
            ctypes.CDLL(name)  # that of the process or of the system
        except OSError:
            path = find(name)
            if path is not None:
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


def find(name: str) -> str | None:
    """The path of a library in the packages nvidia-*."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except ValueError:
        return None
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        for package in sorted(os.listdir(root)):
            path = os.path.join(root, package, "lib", name)
            if os.path.exists(path):
                return path
    return None
