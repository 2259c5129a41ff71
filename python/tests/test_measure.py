"""What the program's commands report, as functions."""

import json
import os
import re
import subprocess
import tempfile
import unittest

import headroom
from support import FASHION, TINY

PASS = {"name": "forward", "height": 32, "width": 48, "text_tokens": 3}
REQUEST = {"name": "request", "height": 16, "width": 16, "steps": 1}


def program(*arguments):
    """What a command prints; it is on the CPU, as the tests are."""
    run = subprocess.run(
        [os.environ["HEADROOM_PROGRAM"], *arguments], check=True, capture_output=True, text=True,
        env={**os.environ, "COLUMNS": "1000"},
    )  # fmt: skip
    return run.stdout


def words(text):
    """Without numbers and units, which differ from run to run."""
    plain = (word.strip("(),.:;") for word in text.split())
    return [word for word in plain if len(word) > 3 and not any(letter.isdigit() for letter in word)]


@unittest.skipUnless("HEADROOM_PROGRAM" in os.environ, "HEADROOM_PROGRAM does not name the program")
class Measure(unittest.TestCase):
    def test_a_pass_is_timed(self):
        seen = set()
        result = headroom.bench(
            TINY, "cpu", optimize="lossless", trials=3, callback=lambda what, done, total: seen.add(what), **PASS
        )
        self.assertEqual(seen, {"warm-up", "trials"})
        self.assertEqual(len(result.times_ms("forward")), 3)
        with self.assertRaisesRegex(headroom.Error, "there is no series 'step'; the result has forward"):
            result.times_ms("step")
        printed = program("bench", TINY, "--device", "cpu", "--opt", "lossless", "--trials", "3", "--height", "32",
                          "--width", "48", "--text-tokens", "3", "--quiet")  # fmt: skip
        self.assertEqual(words(str(result)), words(printed))

    def test_requests_are_timed(self):
        result = headroom.bench(FASHION, "cpu", trials=2, **REQUEST)
        self.assertEqual([len(result.times_ms(what)) for what in ("image", "step")], [2, 2])
        self.assertIn("denoise", str(result))

    def test_a_ladder_has_a_rung_for_each_switch(self):
        result = headroom.ladder(TINY, "cpu", optimize="arena,fuse", trials=3, **PASS)
        self.assertEqual([entry["name"] for entry in result.results], ["baseline", "arena", "fuse", "arena+fuse"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ladder.json")
            result.save(path)
            self.assertEqual(headroom.Result.open(path).data, result.data)
            printed = program("report", path, "--out", folder, "--quiet")
            self.assertNotIn("error", printed)
            with open(path, "w") as file:
                json.dump({"schema": "other"}, file)
            with self.assertRaisesRegex(headroom.Error, "is no result file"):
                headroom.Result.open(path)

    def test_a_callback_ends_a_measurement(self):
        class Stop(Exception):
            pass

        def stop(what, done, total):
            raise Stop

        for measure in (headroom.bench, headroom.ladder):
            with self.assertRaises(Stop):
                measure(TINY, "cpu", optimize="arena", callback=stop, **PASS)

    def test_plans_are_those_of_the_program(self):
        def without_times(text):
            return [line for line in text.splitlines() if not re.search(r" (µs|ms|s)\b", line)]

        for work, options in (
            (PASS, ["--pass", "forward", "--height", "32", "--width", "48", "--text-tokens", "3"]),
            ({}, []),
        ):
            printed = program("plan", TINY, "--device", "cpu", "--quiet", *options)
            self.assertEqual(without_times(headroom.plan(TINY, "cpu", **work)), without_times(printed))

    def test_models_are_those_of_the_program(self):
        listed = json.loads(program("models", "--json"))
        self.assertEqual([model["name"] for model in headroom.models()], [model["name"] for model in listed])
        found, listed = headroom.models(FASHION), json.loads(program("models", FASHION, "--json"))
        self.assertEqual([str(model["folder"]) for model in found], [model["folder"] for model in listed])
        self.assertEqual([model["passes"] for model in found], [model["passes"] for model in listed])
        self.assertEqual(found[0]["passes"], ["request"])
        with self.assertRaisesRegex(headroom.Error, "no-such-folder"):
            headroom.models("no-such-folder")

    def test_wrong_work_is_refused(self):
        with self.assertRaisesRegex(headroom.UsageError, "cold and first_step are for one pass"):
            headroom.bench(FASHION, "cpu", cold=True, **REQUEST)
        with self.assertRaisesRegex(headroom.UsageError, "auto"):
            headroom.bench(TINY, "cpu", optimize="auto", **PASS)
        with self.assertRaises(TypeError):
            headroom.plan(TINY, "cpu", hieght=3)


if __name__ == "__main__":
    unittest.main()
