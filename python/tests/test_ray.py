"""Images on two nodes of a Ray cluster on this machine, whose workers and nodes die. Runs where Ray is installed."""

import hashlib
import importlib.util
import json
import os
import signal
import tempfile
import unittest

import headroom
from support import FASHION

COUNT = int(os.environ.get("HEADROOM_RAY_PROMPTS", "60"))
SIZE = {"height": 16, "width": 16, "steps": 2}
PROMPTS = [f"{what}, number {i}" for i, what in zip(range(COUNT), ["a dress", "a bag", "an ankle boot"] * COUNT)]


def read(folder, record):
    with open(os.path.join(folder, record["file"]), "rb") as file:
        return file.read()


@unittest.skipUnless(importlib.util.find_spec("ray"), "Ray is not installed: pip install ray")
class Ray(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import ray
        from ray.cluster_utils import Cluster

        cls.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        cls.nodes = [cls.cluster.add_node(num_cpus=1) for _ in range(2)]
        ray.init(address=cls.cluster.address, log_to_driver=False)
        pipeline = headroom.Pipeline(FASHION, headroom.Device("cpu", threads=1))
        cls.expected = [pipeline([prompt], seed=[7 + i], **SIZE)[0].png() for i, prompt in enumerate(PROMPTS)]

    @classmethod
    def tearDownClass(cls):
        import ray

        ray.shutdown()
        cls.cluster.shutdown()

    def draw(self, prompts, folder, **options):
        import headroom.ray

        return headroom.ray.images(prompts, FASHION, out=folder, cpus=1, seed=7, **SIZE, **options)

    def check(self, folder, records, expected):
        self.assertEqual([record["index"] for record in records], list(range(len(expected))))
        for record, png in zip(records, expected):
            self.assertEqual(read(folder, record), png, record)
            self.assertEqual(record["sha256"], hashlib.sha256(png).hexdigest())
        with open(os.path.join(folder, "manifest.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(sorted(line["index"] for line in lines[1:]), list(range(len(expected))), "none twice")

    def test_1_a_run_that_is_started_again_draws_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check(folder, self.draw(PROMPTS[:6], folder), self.expected[:6])
            os.remove(os.path.join(folder, "000004.png"))
            path = os.path.join(folder, "manifest.jsonl")
            with open(path) as file:
                text = file.read()
            kept = [line for line in text.splitlines() if '"index": 4' not in line]
            with open(path, "w") as file:
                file.write("\n".join(kept) + '\n{"index": 9, "pro')  # cut off
            drawn = []
            self.check(folder, self.draw(PROMPTS[:8], folder, callback=drawn.append), self.expected[:8])
            self.assertEqual(sorted(record["index"] for record in drawn), [4, 6, 7])
            with self.assertRaisesRegex(headroom.UsageError, "picture 2 in .* is of .* give another folder"):
                self.draw([*PROMPTS[:2], "a hat"], folder)
            with self.assertRaisesRegex(headroom.UsageError, "of pictures with optimize 'lossless'"):
                self.draw(PROMPTS[:8], folder, optimize="baseline")

    def test_2_files_and_batches(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "prompts.txt")
            with open(path, "w") as file:
                file.write("\n".join(PROMPTS[:5]) + "\n\n")
            records = self.draw(path, os.path.join(folder, "out"), batch=2)
            self.assertEqual([record["prompt"] for record in records], PROMPTS[:5])
            self.assertEqual([record["seed"] for record in records], list(range(7, 12)))

    @unittest.skipUnless(
        importlib.util.find_spec("pandas") and importlib.util.find_spec("pyarrow"), "pip install 'ray[data]'"
    )
    def test_2_rows_of_a_dataset(self):
        import ray.data

        rows = [{"prompt": prompt, "seed": 7 + i} for i, prompt in enumerate(PROMPTS[:5])]
        with tempfile.TemporaryDirectory() as folder:
            self.check(folder, self.draw(ray.data.from_items(rows), folder, workers=1), self.expected[:5])

    def test_3_errors_are_the_sentence_of_the_package(self):
        import headroom.ray

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(headroom.Error, "no-such-model"):
                headroom.ray.images(["a bag"], "no-such-model", out=folder, cpus=1)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(headroom.UsageError, "no-such-switch"):
                self.draw(["a bag"], folder, optimize="no-such-switch")
            with self.assertRaisesRegex(headroom.UsageError, "the cluster has no node of 64 cores"):
                headroom.ray.images(["a bag"], FASHION, out=folder + "/other", cpus=64)
            with self.assertRaisesRegex(headroom.UsageError, "prompt 1 is 3"):
                self.draw(["a bag", 3], folder + "/third")

    def test_4_workers_and_a_node_die(self):
        drawn = []

        def disturb(record):
            drawn.append(record)
            if len(drawn) in (COUNT // 5, 2 * COUNT // 5, 3 * COUNT // 5):
                os.kill(int(record["worker"].split(":")[1]), signal.SIGKILL)
            if len(drawn) == COUNT // 2:
                self.cluster.remove_node(self.nodes.pop())

        with tempfile.TemporaryDirectory() as folder:
            self.check(folder, self.draw(PROMPTS, folder, callback=disturb), self.expected)
            self.assertEqual(len(drawn), COUNT)
            self.assertGreaterEqual(len({record["worker"] for record in drawn}), 4, "processes were replaced")


if __name__ == "__main__":
    unittest.main()
