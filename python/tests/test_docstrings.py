"""What the package says of itself: every public name, and the examples in it run."""

import doctest
import inspect
import sys
import unittest

import fettle


class Docstrings(unittest.TestCase):
    def test_examples_run(self):
        tried = 0
        for name in "fettle.comparison", "fettle.graph", "fettle.host_calls", "fettle.kernel", "fettle.model", "fettle.tune":
            module = sys.modules[name]  # fettle.tune itself is the function
            result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
            self.assertEqual(result.failed, 0, name)
            tried += result.attempted
        self.assertGreater(tried, 10)

    def test_every_public_class_and_function_has_one(self):
        for name, value in vars(fettle).items():
            if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
                self.assertTrue(value.__doc__, name)
        for method in "input", "constant", "output", "node", "host_call":
            self.assertTrue(getattr(fettle.Graph, method).__doc__, method)


if __name__ == "__main__":
    unittest.main()
