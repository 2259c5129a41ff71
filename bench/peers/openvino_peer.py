"""A PyTorch module as OpenVINO runs it on a CPU at its best: what flux_torch.py and component_torch.py time with
--engine openvino.

The module, in fp32, is converted for the fixed shapes of its inputs and compiled for latency, in the asked precision
(INFERENCE_PRECISION_HINT), on the threads asked for. One request runs at a time; it reads its inputs where they are and
gives its outputs without a copy. Needs PyTorch, OpenVINO and numpy.
"""

import importlib.metadata

import openvino
import torch

from network_error import relative_l2

VERSION = importlib.metadata.version("openvino")
PRECISIONS = {"fp32": "f32", "bf16": "bf16"}
# How far an output may be from that of the module itself in fp32 (relative L2): more is not the same work.
TOLERANCES = {"fp32": 1e-4, "bf16": 5e-2}


class Engine:
    """`module` compiled by OpenVINO for tensors like the `inputs`, which it takes by position. Gives a tuple."""

    def __init__(self, module, inputs, dtype, threads):
        with torch.inference_mode(False), torch.no_grad():
            given = tuple(tensor.clone() for tensor in inputs)
            model = openvino.convert_model(module, example_input=given, input=[tuple(tensor.shape) for tensor in given])
        if len(model.inputs) != len(given):
            raise SystemExit(f"OpenVINO's model has {len(model.inputs)} inputs, expected {len(given)}")
        asked = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": PRECISIONS[dtype], "INFERENCE_NUM_THREADS": threads,
                 "ENABLE_HYPER_THREADING": True}
        compiled = openvino.Core().compile_model(model, "CPU", asked)
        self.request = compiled.create_infer_request()
        self.tolerance = TOLERANCES[dtype]
        took = {name: self.text(compiled.get_property(name)) for name in (*asked, "NUM_STREAMS", "ENABLE_CPU_PINNING")}
        self.asked = [f"{name}={value}" for name, value in asked.items()]
        self.applied = [f"{name}={value}" for name, value in took.items()]
        # A CPU without bf16 gets fp32, one without hyper-threading none.
        self.declined = [{"switch": f"{name}={value}", "reason": f"OpenVINO took {took[name]}"} for name, value in asked.items()
                         if took[name] != str(value)]
        self.precision = took["INFERENCE_PRECISION_HINT"]

    @staticmethod
    def text(value):
        """A property as OpenVINO writes it."""
        if isinstance(value, openvino.Type):
            return value.get_type_name()
        return getattr(value, "name", str(value))

    def __call__(self, *inputs):
        outputs = self.request.infer([tensor.numpy() for tensor in inputs], share_inputs=True, share_outputs=True)
        return tuple(torch.from_numpy(outputs[i]) for i in range(len(outputs)))

    def check(self, module, inputs):
        """How far its outputs are from those of the module: an entry of a result's "quality"."""
        expected = module(*inputs)
        pairs = zip(self(*inputs), expected if isinstance(expected, tuple) else (expected,), strict=True)
        error = max(relative_l2(*pair) for pair in pairs)
        if not error <= self.tolerance:
            raise SystemExit(f"OpenVINO's output is {error:.2e} from PyTorch's in fp32 (relative L2), expected at most {self.tolerance:.0e}")
        return {"metric": "relative_l2", "against": "PyTorch, eager in fp32", "value": error}
