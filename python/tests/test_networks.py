"""Devices, components, passes and sessions."""

import os
import subprocess
import sys
import threading
import unittest

import numpy

import headroom
from support import FASHION, TINY, random_inputs, tiny_network, tiny_session, tiny_shapes


class Networks(unittest.TestCase):
    def test_a_network_says_what_it_is(self):
        network = tiny_network()
        self.assertEqual((network.name, network.class_name), ("tiny-guidance", "FluxTransformer2DModel"))
        self.assertGreater(network.parameters, 0)
        self.assertEqual(set(network.passes["forward"]) - set(tiny_shapes(network)), set())
        self.assertIn("fashion-flux", [model["name"] for model in headroom.models()])
        self.assertEqual([found["class_name"] for found in headroom.models(TINY)], [network.class_name])
        self.assertRegex(headroom.version(), r"^\d+\.\d+\.\d+$")

    def test_a_pass_says_what_became_of_the_switches(self):
        network = tiny_network()
        compiled = network.compile(tiny_shapes(network), optimize="arena,fuse,hoist")
        self.assertEqual(compiled.switches, ["arena", "fuse", "hoist"])
        self.assertEqual(compiled.applied, ["arena", "fuse"])
        self.assertIn("loop", compiled.declined["hoist"])
        self.assertEqual(compiled.inputs["timestep"], ("f32", (1,)))
        self.assertGreater(compiled.memory_need()["total"], 0)
        self.assertTrue(any("transformer_blocks.0." in launch.path for launch in compiled.launches))
        self.assertIn("program", compiled.plan_text())

    def test_random_weights_depend_on_their_seed(self):
        def sample(seed):
            network = tiny_network(random_weights=seed)
            session = headroom.Session(network.compile(tiny_shapes(network)))
            return session(**random_inputs(session)).numpy()

        numpy.testing.assert_array_equal(sample(1), sample(1))
        self.assertFalse(numpy.array_equal(sample(1), sample(2)))

    def test_numbers_and_lists_are_inputs_too(self):
        session = tiny_session()
        inputs = random_inputs(session)
        session(**{**inputs, "timestep": numpy.array([0.5], numpy.float32)})
        expected = session.output("sample").numpy()
        numpy.testing.assert_array_equal(session(timestep=[0.5]).numpy(), expected)


class Errors(unittest.TestCase):
    def test_kinds(self):
        network = tiny_network()
        shapes = tiny_shapes(network)
        for kind, words, call in [
            (headroom.UsageError, "device 'tpu'", lambda: headroom.Device("tpu")),
            (headroom.UsageError, "did you mean 'flash'", lambda: network.compile(shapes, optimize="flsh")),
            (headroom.UsageError, "has no pass 'decode'", lambda: network.input_shapes("decode")),
            (headroom.UsageError, "did you mean 'fashion-flux'", lambda: headroom.Component("fashion-flax", "cpu")),
            (headroom.UsageError, "dtype is 'f31'", lambda: tiny_network(baseline="f31")),
            (headroom.Error, "no input 'noise'", lambda: tiny_session()(noise=1.0)),
            (headroom.Error, "has not run", lambda: tiny_session().output("sample")),
            (headroom.Error, r"is f64\[3\], expected f32\[1\]", lambda: tiny_session()(timestep=numpy.zeros(3))),
        ]:
            with self.subTest(words), self.assertRaisesRegex(kind, words) as raised:
                call()
            self.assertNotIn("\n", str(raised.exception))
        self.assertTrue(issubclass(headroom.UsageError, ValueError) and issubclass(headroom.OutOfMemory, MemoryError))

    def test_integers_of_every_argument(self):
        """A number that does not fit and what is no number are refused in a sentence that names the argument."""
        device = headroom.Device("cpu")
        network = tiny_network(device)
        shapes = tiny_shapes(network)
        compiled = network.compile(shapes)
        stream = headroom.Component("live-ink", device)
        pipeline = headroom.Pipeline(FASHION, device)
        tensor = headroom.from_dlpack(numpy.zeros(2, numpy.float32))
        calls = {
            "threads": lambda x: headroom.Device("cpu", threads=x),
            "before": lambda x: device.order(x, 0),
            "after": lambda x: device.order(0, x),
            "random_weights": lambda x: tiny_network(device, random_weights=x),
            "batch": lambda x: network.input_shapes(batch=x),
            "height": lambda x: network.input_shapes(height=x),
            "width": lambda x: network.input_shapes(width=x),
            "text_tokens": lambda x: network.input_shapes(text_tokens=x),
            "an extent of 'timestep'": lambda x: network.compile({**shapes, "timestep": (x,)}),
            "stream": lambda x: headroom.Session(compiled, stream=x),
            "images": lambda x: headroom.Generator(pipeline, images=x),
            "label": lambda x: pipeline("a bag", label=x),
            "seed": lambda x: pipeline("a bag", seed=x),
            "trials": lambda x: headroom.bench(TINY, device, trials=x),
            "rounds": lambda x: headroom.ladder(FASHION, device, rounds=x),
            "max_rounds": lambda x: headroom.ladder(FASHION, device, max_rounds=x),
            "quality": lambda x: headroom.ladder(FASHION, device, quality=x),
        }
        of_pipelines = {
            name: [
                lambda x, name=name: headroom.Generator(pipeline, **{name: x}),
                lambda x, name=name: headroom.Stream(stream, **{name: x}),
                lambda x, name=name: headroom.plan(FASHION, device, **{name: x}),
            ]
            for name in ("height", "width", "steps", "text_tokens")
        }
        others = [
            ("stream", lambda x: headroom.from_dlpack(tensor, stream=x)),
            ("stream", lambda x: tensor.__dlpack__(stream=x)),
            ("random_weights", lambda x: headroom.Pipeline(FASHION, device, random_weights=x)),
            ("random_weights", lambda x: headroom.plan(FASHION, device, random_weights=x)),
            ("seed", lambda x: headroom.Stream(stream, seed=x)),
            ("seed", lambda x: headroom.ladder(FASHION, device, seed=x)),
            ("batch", lambda x: headroom.plan(FASHION, device, batch=x)),
            *[(name, call) for name, several in of_pipelines.items() for call in several],
        ]
        for name, call in [*calls.items(), *others]:
            for wrong, words in [(2**70, rf"{name} is {2**70}, expected -?\d+ to \d+$"),
                                 ("x", f"{name} is 'x', expected a whole number$"),
                                 (1.5, f"{name} is 1.5, expected a whole number$")]:  # fmt: skip
                with self.subTest(name, wrong=wrong), self.assertRaisesRegex(headroom.UsageError, words):
                    call(wrong)
        for call in (
            lambda: headroom.Stream(stream, seed=-1),
            lambda: headroom.ladder(FASHION, device, seed=-1),
            lambda: tiny_network(device, random_weights=-1),
            lambda: headroom.Pipeline(FASHION, device, random_weights=-1),
        ):
            with self.assertRaisesRegex(headroom.UsageError, "(seed|random_weights) is -1, expected 0 to 1844"):
                call()
        self.assertEqual(network.input_shapes(batch=numpy.int64(2))["timestep"], (2,))

    def test_what_does_not_fit_is_refused_before_it_is_loaded(self):
        device = headroom.Device("cpu")
        network = tiny_network(device)
        compiled = network.compile(network.input_shapes(height=16_000, width=16_000, text_tokens=3), optimize="baseline")
        self.assertGreater(compiled.memory_need()["total"], device.memory()["installed"])
        with self.assertRaises(headroom.OutOfMemory):
            headroom.Session(compiled)
        self.assertEqual(device.memory()["used"], 0)

    def test_nothing_leaks_with_errors_in_between(self):
        session = tiny_session()
        inputs = random_inputs(session)
        session(**inputs)

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        def use(count):
            for _ in range(count):
                session(**inputs)
                for _ in range(200):
                    with self.assertRaises(headroom.Error):
                        session(timestep=wrong)

        wrong = numpy.zeros(3)
        use(20)
        before = resident()
        use(500)  # 100,000 errors: 80 bytes of each would be seen
        self.assertLess(resident() - before, 8e6)


class Threads(unittest.TestCase):
    def test_two_devices_run_at_once_and_one_takes_turns(self):
        expected = {}
        for seed in range(4):
            session = tiny_session()
            expected[seed] = session(**random_inputs(session, seed)).numpy().tobytes()
        shared = headroom.Device("cpu")
        wrong = []

        def work(seed, device):
            session = tiny_session(device)
            inputs = random_inputs(session, seed)
            for _ in range(20):
                if session(**inputs).numpy().tobytes() != expected[seed]:
                    wrong.append(seed)

        devices = [shared, shared, headroom.Device("cpu"), headroom.Device("cpu")]
        threads = [threading.Thread(target=work, args=arguments) for arguments in enumerate(devices)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_an_object_that_two_threads_use_at_once_raises(self):
        pipeline = headroom.Pipeline("fashion-flux", "cpu")
        generator = headroom.Generator(pipeline, height=16, width=16, steps=2)
        inside, go_on, refused = threading.Event(), threading.Event(), []

        def callback(step, milliseconds):
            inside.set()
            go_on.wait(60)

        thread = threading.Thread(target=lambda: generator.images(callback=callback))
        thread.start()
        self.assertTrue(inside.wait(60))
        try:
            generator.images()
        except headroom.UsageError as error:
            refused.append(str(error))
        go_on.set()
        thread.join()
        self.assertEqual(refused, ["the generator is in use by another call: give each thread one of its own"])
        self.assertEqual(len(generator.images()), 1)

    def test_a_callback_may_not_use_the_device_of_its_call(self):
        pipeline = headroom.Pipeline("fashion-flux", "cpu")
        generator = headroom.Generator(pipeline, height=16, width=16, steps=1)
        other = headroom.Generator(pipeline, height=16, width=16, steps=1)
        with self.assertRaisesRegex(headroom.UsageError, "callback used the device"):
            generator.images(callback=lambda step, milliseconds: other.images())

    def test_a_forked_process_is_refused(self):
        session = tiny_session()
        session(**random_inputs(session))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                session.run()
            except headroom.UsageError as error:
                code = 0 if "forked" in str(error) else 2
            finally:
                del session
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


class Imports(unittest.TestCase):
    def test_nothing_heavy_is_imported(self):
        code = "import headroom, sys; print([m for m in ('numpy', 'torch', 'PIL', 'ctypes') if m in sys.modules])"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(out.strip(), "[]")


if __name__ == "__main__":
    unittest.main()
