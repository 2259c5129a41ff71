"""The examples run."""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

from support import ROOT


class Examples(unittest.TestCase):
    def test_they_run(self):
        examples = sorted(glob.glob(os.path.join(ROOT, "python", "examples", "*.py")))
        self.assertEqual([os.path.basename(path) for path in examples],
                         ["batch.py", "image.py", "session.py", "stream.py"])  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            for path in examples:
                with self.subTest(os.path.basename(path)):
                    live_ink = os.path.join(ROOT, "models", "live-ink")
                    arguments = [live_ink] if path.endswith("stream.py") else []
                    run = subprocess.run(
                        [sys.executable, path, *arguments], cwd=folder, capture_output=True, text=True
                    )
                    self.assertEqual(run.returncode, 0, run.stderr)
                    self.assertNotEqual(run.stdout, "")
            self.assertEqual(os.listdir(folder), ["boot.png"])


if __name__ == "__main__":
    unittest.main()
