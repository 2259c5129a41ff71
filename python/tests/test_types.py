"""The committed stubs are those of the module, and the package has types."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import ROOT


class Types(unittest.TestCase):
    def test_stubs_are_what_is_generated(self):
        packages = os.environ["PYTHONPATH"].split(os.pathsep)[0]
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "stubs.pyi")
            subprocess.run(
                [os.path.join(ROOT, "scripts", "make_stubs.sh"), sys.executable, packages, made],
                check=True, capture_output=True,
            )  # fmt: skip
            with open(made) as new, open(os.path.join(ROOT, "python", "headroom", "_headroom.pyi")) as committed:
                self.assertEqual(new.read(), committed.read(), "scripts/make_stubs.sh writes them")

    def test_mypy_is_strict(self):
        with tempfile.TemporaryDirectory() as cache:
            checked = subprocess.run(
                [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", cache,
                 "python/headroom", "python/examples"],
                cwd=ROOT, capture_output=True, text=True,
            )  # fmt: skip
        self.assertEqual(checked.returncode, 0, checked.stdout)

    @unittest.skipIf(shutil.which("node") is None, "pyright runs on Node.js, which is not installed")
    def test_pyright_is_clean(self):
        checked = subprocess.run(
            [sys.executable, "-m", "pyright", "--project", "pyproject.toml", "--pythonpath", sys.executable],
            cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        )  # fmt: skip
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertIn("0 errors, 0 warnings", checked.stdout)


if __name__ == "__main__":
    unittest.main()
