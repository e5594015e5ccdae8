"""Swin-Tiny at 224, as torch.onnx at opset 17 writes Microsoft's: windows of 7x7 by Reshape and Transpose, shifted by Slice
and Concat, which torch.roll becomes; the bias of relative positions and the mask are constants."""

import math

import numpy as np

from models.builder import Builder, power_of
from models.convnet import conv
from models.transformer import dense, dense_without_bias, gelu_erf, layer_norm, reshape

WINDOW, SHIFT, HEAD_WIDTH, EPSILON = 7, 3, 32, 1e-5
TOKENS = WINDOW * WINDOW  # of a window
END = np.iinfo(np.int64).max


def cut(g, x, axis, start, end, step=1):
    return g.op("Slice", x, g.ints(start), g.ints(end), g.ints(axis), g.ints(step))


def roll(g, x, shift):
    """Along both sides. x: [1, side, side, width]"""
    for axis in (1, 2):
        x = g.op("Concat", cut(g, x, axis, -shift, END), cut(g, x, axis, 0, -shift), axis=axis)
    return x


def windows(array, side):
    """[1, side, side, width] → [windows, 49, width]"""
    n = side // WINDOW
    return array.reshape(n, WINDOW, n, WINDOW, -1).transpose(0, 2, 1, 3, 4).reshape(n * n, TOKENS, -1)


def mask_of(side):
    """[1, windows, 1, 49, 49]: -100 where two tokens of a shifted window are from different sides of the image."""
    band = np.repeat([0, 1, 2], [side - WINDOW, WINDOW - SHIFT, SHIFT])
    regions = windows((3 * band[:, None] + band)[None, :, :, None], side)[:, :, 0]
    return np.where(regions[:, None, :] == regions[:, :, None], 0, -100).astype(np.float32)[None, :, None]


def relative_position_bias(g, heads):
    """[1, heads, 49, 49], which exporters fold from a table of 13 x 13 offsets."""
    table = g.normal(((2 * WINDOW - 1) ** 2, heads), 0.5)
    g.n_parameters += table.size
    row, column = np.divmod(np.arange(TOKENS), WINDOW)
    apart = lambda place: place[:, None] - place + WINDOW - 1
    bias = table[apart(row) * (2 * WINDOW - 1) + apart(column)]
    return g.buffer("relative_position_bias", bias.transpose(2, 0, 1)[None])


def attention(g, x, mask, gain):
    """x: [windows, 49, width]"""
    n, _, width = g.values[x].shape
    heads = width // HEAD_WIDTH
    with g.scope("attn"):
        qkv = reshape(g, dense(g, x, "qkv", 3 * width), n, TOKENS, 3, heads, HEAD_WIDTH)
        qkv = g.op("Transpose", qkv, perm=[2, 0, 3, 1, 4])
        query, key, value = (g.op("Gather", qkv, g.constant(i, np.int64), axis=0) for i in range(3))
        query = g.op("Mul", query, g.constant(HEAD_WIDTH**-0.5))
        scores = g.check(g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2])))
        scores = g.op("Add", scores, relative_position_bias(g, heads))
        if mask is not None:
            scores = g.op("Add", reshape(g, scores, 1, n, heads, TOKENS, TOKENS), g.buffer("attn_mask", mask))
            scores = reshape(g, scores, -1, heads, TOKENS, TOKENS)
        context = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        return dense(g, reshape(g, context, n, TOKENS, width), "proj", width, gain)


def block(g, x, side, shifted, gain):
    """x: [1, side * side, width]"""
    width, n = g.values[x].shape[-1], side // WINDOW
    y = reshape(g, layer_norm(g, x, "norm1", EPSILON), 1, side, side, width)
    y = roll(g, y, -SHIFT) if shifted else y
    y = g.op("Transpose", reshape(g, y, 1, n, WINDOW, n, WINDOW, width), perm=[0, 1, 3, 2, 4, 5])
    y = reshape(g, reshape(g, y, -1, WINDOW, WINDOW, width), -1, TOKENS, width)
    y = attention(g, y, mask_of(side) if shifted else None, gain)
    y = reshape(g, reshape(g, y, -1, WINDOW, WINDOW, width), 1, n, n, WINDOW, WINDOW, width)
    y = reshape(g, g.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), 1, side, side, width)
    y = roll(g, y, SHIFT) if shifted else y
    x = g.check(g.op("Add", x, reshape(g, y, 1, side * side, width)))
    with g.scope("mlp"):
        y = gelu_erf(g, dense(g, layer_norm(g, x, "norm2", EPSILON), "fc1", 4 * width))
        return g.check(g.op("Add", x, dense(g, y, "fc2", width, gain)))


def merge(g, x, side):
    """Patches of 2x2 become one token of twice the width."""
    width = g.values[x].shape[-1]
    x = reshape(g, x, 1, side, side, width)
    parts = [cut(g, cut(g, x, 1, row, END, 2), 2, column, END, 2) for column in (0, 1) for row in (0, 1)]
    x = reshape(g, g.op("Concat", *parts, axis=-1), 1, -1, 4 * width)
    return dense_without_bias(g, layer_norm(g, x, "norm", EPSILON), "reduction", 2 * width)


def make(is_small=False):
    side, depths, width, n_classes = (14, [2, 2], 32, 10) if is_small else (56, [2, 2, 6, 2], 96, 1000)
    gain = 1 / math.sqrt(2 * sum(depths))
    g = Builder("swin_tiny", opset=17, seed=2021)
    x = g.input("input", g.normal((1, 3, 4 * side, 4 * side), 1))
    with g.scope("patch_embed"):
        x = reshape(g, conv(g, x, "proj", width, 4, stride=4, pad=0), 1, width, -1)
        x = layer_norm(g, g.op("Transpose", x, perm=[0, 2, 1]), "norm", EPSILON)
    for stage, depth in enumerate(depths):
        for index in range(depth):
            with g.scope(f"layers.{stage}/blocks.{index}"):
                x = block(g, x, side, index % 2 == 1 and side > WINDOW, gain)
        if stage + 1 < len(depths):
            with g.scope(f"layers.{stage}/downsample"):
                x, side = merge(g, x, side), side // 2
    x = g.op("Transpose", layer_norm(g, x, "norm", EPSILON), perm=[0, 2, 1])
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    width = g.values[x].shape[1]
    weight = g.parameter("head.weight", g.normal((n_classes, width), 1 / np.sqrt(width * power_of(g, x))))
    x = g.op("Gemm", x, weight, g.parameter("head.bias", g.normal(n_classes, 0.02)), alpha=1.0, beta=1.0, transB=1)
    g.output("output", g.check(x))
    return g.finish(n_parameters=None if is_small else 28_288_354)
