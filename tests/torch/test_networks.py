"""Networks of three libraries, beside eager mode. FETTLE_TORCH_NETWORKS=all takes all of networks.py."""

import os
import unittest

import torch
from networks import NETWORKS, made

from fettle_torch import close, compiled, statistics

_FEW = ("mobilenet_v3_small", "vit", "bert", "gpt2")


class Networks(unittest.TestCase):
    def test_agree_with_eager_mode(self):
        for name in NETWORKS if os.environ.get("FETTLE_TORCH_NETWORKS") == "all" else _FEW:
            with self.subTest(name), torch.no_grad():
                torch._dynamo.reset()
                statistics.reset()
                model, inputs = made(name)
                close(self, compiled(model)(*inputs), model(*inputs))
                self.assertEqual(statistics.refused, {})
                self.assertGreaterEqual(statistics.compiled, 1)


if __name__ == "__main__":
    unittest.main()
