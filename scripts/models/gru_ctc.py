"""A recogniser of speech, 300 steps of 80 bins: two bidirectional layers of GRU and scores for CTC, as torch.onnx writes
nn.GRU: gates by linear_before_reset, both directions brought side by side by Transpose and Reshape, LogSoftmax."""

import math

import numpy as np

from models.builder import Builder, power_of
from models.transformer import dense, reshape

BINS, LABELS = 80, 29


def gru(g, x, layer, hidden):
    """[steps, 1, n] → [steps, 1, 2 * hidden]"""
    n_in = g.values[x].shape[-1]
    weight = g.parameter(f"weight_ih_l{layer}", g.normal((2, 3 * hidden, n_in), 1.5 / math.sqrt(n_in * power_of(g, x))))
    recurrent = g.parameter(f"weight_hh_l{layer}", g.normal((2, 3 * hidden, hidden), 1 / math.sqrt(hidden)))
    bias = g.parameter(f"bias_l{layer}", g.normal((2, 6 * hidden), 0.1))
    before = g.constant(np.zeros((2, 1, hidden)))
    y, _ = g.op("GRU", x, weight, recurrent, bias, "", before, n_outputs=2, direction="bidirectional", hidden_size=hidden,
                linear_before_reset=1)
    return g.check(reshape(g, g.op("Transpose", y, perm=[0, 2, 1, 3]), 0, 0, -1), gain=0.6)


def make(is_small=False):
    steps, hidden = (12, 16) if is_small else (300, 256)
    g = Builder("gru_ctc", opset=17, seed=2006)
    x = g.input("mel", g.normal((1, steps, BINS), 1))
    x = g.op("Transpose", x, perm=[1, 0, 2])
    with g.scope("gru"):
        for layer in range(2):
            x = gru(g, x, layer, hidden)
    x = dense(g, g.op("Transpose", x, perm=[1, 0, 2]), "fc", LABELS)
    g.output("scores", g.op("LogSoftmax", x, axis=2))
    return g.finish(n_parameters=None if is_small else 1_716_765)
