"""Runs of a compiled pass on tensors of any library."""

from typing import Any

from . import _headroom
from ._errors import Error, UsageError
from ._headroom import Pass, Tensor

_NUMPY_NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i8": "int8",
                "u8": "uint8", "bool": "bool"}


def _as_tensor(x: Any, dtype: str, stream: int) -> Tensor:
    """A tensor without a copy; numbers and lists of them become one of `dtype`."""
    if isinstance(x, (bool, int, float, list, tuple)):
        import numpy

        if dtype not in _NUMPY_NAMES:
            raise UsageError(f"numbers were given for an input of {dtype}: give a tensor")
        x = numpy.asarray(x, _NUMPY_NAMES[dtype])
    return _headroom.from_dlpack(x, stream=stream if stream != 0 else None)


class Session(_headroom._Session):
    """A compiled pass with its device memory: inputs, activations and the weights it uses.

    `stream` is a cudaStream_t of the caller that runs are submitted to, which must outlive the session.
    """

    #: Why inputs and outputs were copied that were to be bound: a sentence for each, by name.
    copies: dict[str, str]

    def __init__(self, compiled: Pass, *, stream: int = 0) -> None:
        super().__init__(compiled, stream=stream)
        self._inputs = compiled.inputs
        self._outputs = compiled.outputs
        self._bound: dict[str, Tensor] = {}
        self._on = compiled.device.name
        self._alignment = compiled.device.alignment
        self.copies = {}

    def set_input(self, name: str, x: Any) -> None:
        """Copies a tensor into an input, which keeps it for all runs until it is set again."""
        tensor = self._taken(name, x)
        if tensor.device == "cpu":
            self._release(name)
            self._set_input(name, tensor if tensor.is_dense else tensor.copy())
        else:
            self._bind(name, tensor, None)

    def bind_input(self, name: str, x: Any, *, copy: bool | None = None) -> None:
        """Reads an input in place, in memory of `x`, until it is bound again or set.

        Where that cannot be, it is copied once, and `copies` says why; `copy=False` raises instead, and `copy=True`
        copies. What `x` is written later, in its place, is read by later runs.
        """
        tensor = self._taken(name, x)
        if copy:
            return self.set_input(name, tensor)
        self._bind(name, tensor, copy)

    def bind_output(self, name: str, x: Any) -> None:
        """Writes an output in place, into memory of `x`, until it is bound again or unbound."""
        tensor = _as_tensor(x, self._output(name)[0], self.stream)
        dtype, shape = self._output(name)
        if (tensor.dtype, tensor.shape) != (dtype, shape):
            raise Error(f"output '{name}' is {dtype}{list(shape)}, got memory of {tensor.dtype}{list(tensor.shape)}")
        obstacle = "it is read-only" if tensor.is_read_only else self._obstacle(tensor)
        if obstacle:
            raise Error(f"output '{name}' cannot be written in place: {obstacle}")
        self._bind_output(name, tensor)
        self._bound[name] = tensor

    def unbind_output(self, name: str) -> None:
        """Returns an output to memory of the session."""
        self._unbind_output(name)
        self._bound.pop(name, None)

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Runs the pass on these inputs, by order or by name; others keep what they have.

        The outputs are new tensors on the device: one alone, or several by their names.
        """
        for name, x in [*zip(self._inputs, args), *inputs.items()]:
            self.set_input(name, x)
        self.run()
        read = self.output if self._on == "cpu" else self.device_output
        outputs = {name: read(name) for name in self._outputs}
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def _taken(self, name: str, x: Any) -> Tensor:
        if name not in self._inputs:
            raise Error(f"there is no input '{name}'; the pass has {', '.join(self._inputs)}")
        dtype, shape = self._inputs[name]
        tensor = _as_tensor(x, dtype, self.stream)
        if (tensor.dtype, tensor.shape) != (dtype, shape):
            raise Error(f"input '{name}' is {tensor.dtype}{list(tensor.shape)}, expected {dtype}{list(shape)}")
        return tensor

    def _output(self, name: str) -> tuple[str, tuple[int, ...]]:
        if name not in self._outputs:
            raise Error(f"there is no output '{name}'; the pass has {', '.join(self._outputs)}")
        return self._outputs[name]

    def _obstacle(self, tensor: Tensor) -> str:
        if tensor.device != self._on:
            return f"it is on {tensor.device}, and the session on {self._on}"
        if not tensor.is_dense:
            return f"its strides are {list(tensor.strides)}, and kernels read dense rows"
        if tensor.data % self._alignment:
            return f"its address is no multiple of {self._alignment} (headroom.empty() makes memory that is)"
        return ""

    def _bind(self, name: str, tensor: Tensor, copy: bool | None) -> None:
        obstacle = self._obstacle(tensor)
        if not obstacle:
            self._bind_input(name, tensor)
            self._bound[name] = tensor  # held until the input is bound or set again
            self.copies.pop(name, None)
            return
        if copy is False:
            raise Error(f"input '{name}' cannot be read in place: {obstacle}")
        if tensor.device != "cpu":
            raise Error(f"input '{name}' cannot be read: {obstacle}; give it as one that can, by .contiguous().to()")
        self._release(name)
        self._set_input(name, tensor if tensor.is_dense else tensor.copy())
        self.copies[name] = obstacle

    def _release(self, name: str) -> None:
        if name in self._bound:
            self._unbind_input(name)
            del self._bound[name]
        self.copies.pop(name, None)


def _numpy_dtype(dtype: Any) -> Any:
    """numpy's dtype of a name ('f32', 'float32'), of numpy's own, or of a type such as numpy.float32."""
    import numpy

    # A name is ours before it is numpy's, which reads 'i8' as 8 bytes.
    name = _NUMPY_NAMES.get(dtype, dtype) if isinstance(dtype, str) else None
    if name in _NUMPY_NAMES.values():
        return numpy.dtype(name)
    if name is None and dtype is not None:
        try:
            kind = numpy.dtype(dtype)
        except TypeError:
            kind = None
        if kind is not None and kind.isnative and kind.name in _NUMPY_NAMES.values():
            return kind
    raise UsageError(f"the dtype is {dtype!r}, expected one of {', '.join(_NUMPY_NAMES)}, or numpy's for one of these")


def empty(shape: "int | tuple[int, ...]", dtype: Any = "f32") -> Any:
    """An array of numpy at an address that sessions on a CPU bind without a copy; its elements are undefined.

    `dtype` is a name ('f32', 'float32'), or one of numpy's types.
    """
    import math

    import numpy

    if isinstance(shape, int):
        shape = (shape,)
    if any(extent < 0 for extent in shape):
        raise UsageError(f"the shape is {list(shape)}, expected no negative extent")
    kind = _numpy_dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    memory = numpy.empty(size + 64, numpy.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(kind).reshape(shape)
