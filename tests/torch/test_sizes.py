"""Open sizes: one compiled model for all batches and lengths."""

import unittest

import torch
from torch.nn import functional as F

from fettle_torch import close, compiled, statistics


class Attends(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = torch.nn.Embedding(50, 32), torch.nn.Embedding(64, 32)
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.embedding(tokens) + self.positions(torch.arange(length))
        q, k, v = self.qkv(x).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, 32))


class Sizes(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        statistics.reset()

    def test_batches_and_lengths(self):
        model = Attends().eval()
        call = compiled(model, dynamic=True)
        with torch.no_grad():
            for batch in range(3, 13):  # torch takes sizes that are equal at first for one
                for length in range(2, 42, 4):
                    tokens = torch.randint(0, 50, (batch, length))
                    close(self, call(tokens), model(tokens))
            self.assertEqual(statistics.compiled, 1)
            tokens = torch.randint(0, 50, (1, 10))
            close(self, call(tokens), model(tokens))
        self.assertEqual(statistics.compiled, 2)  # one is a size of its own
        self.assertEqual(statistics.refused, {})

    def test_a_convolution_of_any_image(self):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)).eval()
        call = compiled(model, dynamic=True)
        with torch.no_grad():
            for size in (16, 20, 33, 47):
                x = torch.randn(2, 3, size, size + 3)
                close(self, call(x), model(x))
        self.assertEqual(statistics.compiled, 1)

    def test_numbers_that_are_no_extent(self):
        def function(x, n):
            return x[:, :n] * n + torch.arange(n)

        call = compiled(function, dynamic=True)
        x = torch.randn(3, 20)
        for n in (5, 7, 11):
            close(self, call(x, n), function(x, n))
        self.assertEqual(statistics.compiled, 1)

    def test_shapes_that_are_computed(self):
        def function(x):
            batch, length = x.shape
            return x.reshape(batch * length // 2, 2).sum(0), x.repeat(1, 2), torch.zeros(length + 1, batch)

        call = compiled(function, dynamic=True)
        for batch, length in ((4, 6), (2, 8), (6, 10)):
            x = torch.randn(batch, length)
            close(self, call(x), function(x))
        self.assertEqual(statistics.compiled, 1)


if __name__ == "__main__":
    unittest.main()
