"""Graphs of AOTAutograd: gradients equal those of eager mode."""

import copy
import unittest

import torch
from torch.nn import functional as F

from fettle_torch import close, compiled, statistics


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 5))

    def forward(self, x, labels):
        return F.cross_entropy(self.layers(x), labels)


class Cnn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=2), torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 4),
        )  # fmt: skip

    def forward(self, x, labels):
        return F.cross_entropy(self.layers(x), labels)


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class NanoGpt(torch.nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(40, width), torch.nn.Embedding(16, width)
        self.blocks = torch.nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, 40, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return F.cross_entropy(self.head(self.norm(self.blocks(x))).view(-1, 40), labels.view(-1))


class Training(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        statistics.reset()

    def check(self, model, *args):
        """Losses, gradients and weights of three steps, and statistics of batches."""
        beside = copy.deepcopy(model)
        call = compiled(model)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, beside)]
        for _ in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss, wanted = call(*args), beside(*args)
            close(self, loss, wanted)
            loss.backward()
            wanted.backward()
            for one, other in zip(model.parameters(), beside.parameters()):
                close(self, one.grad, other.grad, 2e-4)
            for optimizer in optimizers:
                optimizer.step()
        for one, other in zip(model.buffers(), beside.buffers()):
            close(self, one, other)
        self.assertEqual(statistics.compiled, 2)  # forward and backward
        self.assertEqual(statistics.refused, {})

    def test_mlp(self):
        self.check(Mlp().train(), torch.randn(6, 12), torch.randint(0, 5, (6,)))

    def test_cnn(self):
        self.check(Cnn().train(), torch.randn(4, 3, 12, 12), torch.randint(0, 4, (4,)))

    def test_nano_gpt(self):
        self.check(NanoGpt().train(), torch.randint(0, 40, (2, 9)), torch.randint(0, 40, (2, 9)))


if __name__ == "__main__":
    unittest.main()
