"""One network on arrays of numpy, without copies, and what its optimizations changed."""

import numpy

import headroom

network = headroom.Component("flux-256x1+1", "cpu", random_weights=1)
shapes = network.input_shapes(height=128, width=128, text_tokens=32)
compiled = network.compile(shapes, optimize="lossless")
print(f"{compiled.applied} applied; declined: {sorted(compiled.declined)}")

session = headroom.Session(compiled)
random = numpy.random.default_rng(0)
inputs = {}
for name, (dtype, shape) in compiled.inputs.items():
    inputs[name] = headroom.empty(shape, dtype)
    inputs[name][...] = random.random(shape)
    session.bind_input(name, inputs[name], copy=False)  # what is written there is read by the next run
session.run()
sample = session.output("sample").numpy()
print(f"sample {sample.shape}, deviation {sample.std():.3f}")
