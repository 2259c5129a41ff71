"""The module is built on the public header alone."""

import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Sources(unittest.TestCase):
    def test_include_the_public_header_alone(self):
        folder = os.path.join(ROOT, "python", "src")
        sources = sorted(glob.glob(os.path.join(folder, "*.[ch]pp")))
        self.assertGreaterEqual(len(sources), 5)
        own = {os.path.basename(path) for path in sources}
        for path in sources:
            with open(path) as file:
                included = re.findall(r'#include "([^"]+)"', file.read())
            self.assertEqual(set(included) - own - {"headroom.hpp"}, set(), path)


if __name__ == "__main__":
    unittest.main()
