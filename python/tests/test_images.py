"""Images from prompts, and the frames of a stream."""

import os
import signal
import subprocess
import tempfile
import unittest

import numpy

import headroom
from support import DEVICE, FASHION, ROOT, read_png

REQUEST = {"height": 16, "width": 32, "steps": 2}


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pipeline = headroom.Pipeline(FASHION, "cpu")

    def test_two_lines_make_an_image(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "boot.png")
            image = self.pipeline("an ankle boot", seed=7, **REQUEST)
            image.save(path)
            numpy.testing.assert_array_equal(read_png(path), image.numpy())
        self.assertEqual((image.width, image.height, image.channels), (32, 16, 1))
        numpy.testing.assert_array_equal(read_png(image._repr_png_()), image.numpy())
        self.assertGreater(image.numpy().std(), 10)

    def test_an_image_is_that_of_the_program(self):
        program = os.environ.get("HEADROOM_PROGRAM")
        if program is None:
            self.skipTest("HEADROOM_PROGRAM does not name the program")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.png")
            subprocess.run(
                [program, "run", FASHION, "--prompt", "a red dress", "--seed", "3", "--steps", "2", "--device", "cpu",
                 "--opt", "lossless", "--quiet", "--out", path],
                check=True, capture_output=True,
            )  # fmt: skip
            numpy.testing.assert_array_equal(read_png(path), self.pipeline("a red dress", seed=3, steps=2).numpy())

    def test_batches_are_lists(self):
        images = self.pipeline(["a dress", "a bag"], seed=5, **REQUEST)
        self.assertEqual(len(images), 2)
        self.assertNotEqual(images[0], images[1])
        again = self.pipeline(["a dress", "a bag"], seed=[5, 6], **REQUEST)
        self.assertEqual(images[1], again[1])
        self.assertEqual(len(self.pipeline(label=[1, 2, 3], **REQUEST)), 3)
        with self.assertRaisesRegex(headroom.UsageError, "prompt has 2 values, expected 3"):
            self.pipeline(["a", "b"], seed=[1, 2, 3], **REQUEST)
        with self.assertRaises(TypeError):
            self.pipeline("a", hieght=3)

    def test_invalid_requests_are_refused_in_a_sentence(self):
        refused = [
            ({"seed": -1}, "seed is -1, expected 0 to 18446744073709551615"),
            ({"seed": [1, 2**64]}, "seed is 18446744073709551616, expected"),
            ({"seed": 2**64 - 1, "label": [1, 2]}, "seed is 18446744073709551616, expected"),
            ({"seed": "x"}, "seed is 'x', expected a whole number"),
            ({"seed": 1.5}, "seed is 1.5, expected a whole number"),
            ({"label": "x"}, "label is 'x', expected a whole number"),
            ({"label": 2**63}, "label is 9223372036854775808, expected"),
            ({"prompt": 5}, "prompt is 5, expected a string"),
            ({"negative_prompt": b"a"}, "negative_prompt is b'a', expected a string"),
        ]
        for keywords, words in refused:
            with self.assertRaisesRegex(headroom.UsageError, words):
                self.pipeline(**keywords, **REQUEST)
        largest = self.pipeline("a bag", seed=numpy.uint64(2**64 - 1), **REQUEST)
        self.assertEqual(self.pipeline("a bag", seed=2**64 - 1, **REQUEST), largest)

    def test_files_of_another_format_are_not_written(self):
        image = headroom.Image(numpy.zeros((2, 2, 3), numpy.uint8))
        with tempfile.TemporaryDirectory() as folder:
            for name in ("x.jpg", "x.WEBP"):
                with self.assertRaisesRegex(headroom.UsageError, f"ends in {name[1:]}; what can be written: .png"):
                    image.save(os.path.join(folder, name))
            self.assertEqual(os.listdir(folder), [])
            for name in ("x", "x.PNG"):
                image.save(os.path.join(folder, name))
                numpy.testing.assert_array_equal(read_png(os.path.join(folder, name)), image.numpy())

    def test_steps_are_reported(self):
        steps = []
        self.pipeline("a bag", callback=lambda step, milliseconds: steps.append((step, milliseconds > 0)), **REQUEST)
        self.assertEqual(steps, [(0, True), (1, True)])

    def test_a_callback_ends_the_loop(self):
        class Stop(Exception):
            pass

        def stop(step, milliseconds):
            raise Stop

        with self.assertRaises(Stop):
            self.pipeline("a bag", callback=stop, **REQUEST)
        self.pipeline("a bag", **REQUEST)

    def test_ctrl_c_ends_the_loop_within_a_step(self):
        steps = []

        def press(step, milliseconds):
            steps.append(step)
            os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            self.pipeline("a bag", height=16, width=16, steps=20, callback=press)
        self.assertLessEqual(len(steps), 2)

    def test_latents_are_decoded(self):
        generator = headroom.Generator(self.pipeline, images=2, **REQUEST)
        latents = generator.generate(label=[1, 2], seed=4)
        self.assertEqual((latents.dtype, latents.shape), ("f32", (2, 128, 4)))
        pixels = generator.decode(latents)
        self.assertEqual(pixels.shape, (2, 1, 16, 32))
        self.assertIn("denoise", [name for name, _ in generator.stages])
        with self.assertRaisesRegex(headroom.Error, "f32"):
            generator.decode(headroom.from_dlpack(numpy.zeros((2, 128, 4))))

    def test_images_are_of_bytes(self):
        with self.assertRaisesRegex(headroom.Error, r"expected u8\[height, width, channels\]"):
            headroom.Image(numpy.zeros((2, 2, 3), numpy.float32))
        image = headroom.Image(numpy.arange(12, dtype=numpy.uint8).reshape(2, 2, 3)[::-1])
        self.assertEqual(image.numpy()[0, 0].tolist(), [6, 7, 8])

    def test_frames_of_a_stream(self):
        network = headroom.Component(os.path.join(ROOT, "models", "live-ink"), "cpu")
        stream = headroom.Stream(network, height=16, width=32)
        random = numpy.random.default_rng(0)
        frame = headroom.Image(random.integers(0, 256, (16, 32, 3), dtype=numpy.uint8))
        first = stream.next(frame)
        self.assertNotEqual(first, frame)
        stream.restart()
        self.assertEqual(stream.next(frame.numpy()), first)
        with self.assertRaisesRegex(headroom.Error, r"expected u8\[height, width, channels\]"):
            stream.next(frame.numpy().astype(numpy.float32))
        with self.assertRaisesRegex(headroom.Error, "32 x 16"):
            stream.next(headroom.Image(random.integers(0, 256, (32, 16, 3), dtype=numpy.uint8)))


class Program(unittest.TestCase):
    def test_pictures_and_loras_are_those_of_the_program(self):
        program = os.environ.get("HEADROOM_PROGRAM")
        if program is None:
            self.skipTest("HEADROOM_PROGRAM does not name the program")
        goldens = os.path.join(ROOT, "tests", "goldens")
        random = numpy.random.default_rng(0)
        pixels = random.integers(0, 256, (40, 56, 3), dtype=numpy.uint8)
        loras = [os.path.join(goldens, "lora", name) for name in ("peft.safetensors", "kohya.safetensors")]

        def check(model, options, pixels=pixels, **keywords):
            pipeline = headroom.Pipeline(os.path.join(goldens, "pipelines", model), DEVICE)
            with tempfile.TemporaryDirectory() as folder:
                given, path = os.path.join(folder, "given.png"), os.path.join(folder, "a.png")
                headroom.Image(pixels).save(given)
                options = [given if option == "PICTURE" else option for option in options]
                subprocess.run(
                    [program, "run", os.path.join(goldens, "pipelines", model), "--prompt", "a fox", "--seed", "3",
                     "--steps", "4", "--device", DEVICE, "--opt", "lossless", "--quiet", "--out", path, *options],
                    check=True, capture_output=True,
                )  # fmt: skip
                expected = headroom.Image.open(path)
                numpy.testing.assert_array_equal(read_png(path), expected.numpy())
                keywords = {name: given if value == "PICTURE" else value for name, value in keywords.items()}
                image = pipeline("a fox", seed=3, steps=4, **keywords)
            numpy.testing.assert_array_equal(image.numpy(), expected.numpy())
            return pipeline, image

        start = ["--image", "PICTURE", "--strength", "0.5"]
        pipeline, from_file = check("sd-1.5", start, image="PICTURE", strength=0.5)
        for picture in (headroom.Image(pixels), pixels):
            self.assertEqual(pipeline("a fox", seed=3, steps=4, image=picture, strength=0.5), from_file)
        check("sd-1.5", [*start, "--height", "32", "--width", "32"], image="PICTURE", strength=0.5, height=32, width=32)
        # What is edited is resized and cropped by the model's rules.
        check("flux-kontext", ["--image", "PICTURE", "--height", "32", "--width", "32"], image="PICTURE", height=32,
              width=32)  # fmt: skip
        check("z-image", ["--height", "32", "--width", "32"], height=32, width=32)
        large = random.integers(0, 256, (72, 104, 3), dtype=numpy.uint8)
        check("flux2-klein", ["--image", "PICTURE", "--image", "PICTURE"], large, image=[large, large])
        weights = [(loras[0], 0.75), (loras[1], -0.5)]
        small = ["--height", "32", "--width", "32"]
        with_loras = [*small, "--lora", f"{loras[0]}:0.75", "--lora", f"{loras[1]}:-0.5"]
        pipeline, image = check("flux-dev", with_loras, loras=weights, height=32, width=32)
        _, plain = check("flux-dev", small, height=32, width=32)
        self.assertEqual(pipeline("a fox", seed=3, steps=4, height=32, width=32), plain)
        self.assertNotEqual(image, plain)
        pipeline.loras = weights  # of all images that name none
        self.assertEqual(pipeline("a fox", seed=3, steps=4, height=32, width=32), image)
        self.assertEqual(pipeline("a fox", seed=3, steps=4, height=32, width=32, loras=[]), plain)
        with self.assertRaisesRegex(headroom.UsageError, "loras is one path"):
            pipeline("a fox", loras=loras[0])


if __name__ == "__main__":
    unittest.main()
