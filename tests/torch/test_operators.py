"""A sample of the operators of operators.txt: what passes there still does, and nothing is wrong."""

import pathlib
import random
import unittest

import operators
import torch

LISTED = pathlib.Path(__file__).with_name("operators.txt")
# Always among them: what models are made of.
_COMMON = ("add", "nn.functional.conv2d", "nn.functional.linear", "softmax", "matmul", "nn.functional.layer_norm", "index_put",
           "scatter_reduce.mean", "nn.functional.max_pool2d", "gather", "as_strided", "cat")  # fmt: skip


class Operators(unittest.TestCase):
    def test_a_sample(self):
        torch.set_num_threads(1)
        wanted = dict(line.split(": ", 1) for line in LISTED.read_text().splitlines())
        self.assertEqual([name for name, status in wanted.items() if status.startswith("WRONG")], [])
        passing = [name for name, status in wanted.items() if status == "passed"]
        chosen = {*random.Random(0).sample(passing, 12), *_COMMON}
        for name, info in operators.listed():
            if name in chosen:
                with self.subTest(name):
                    self.assertEqual(operators.judged(info, 2), wanted[name])


if __name__ == "__main__":
    unittest.main()
