"""ConvNeXt-Tiny at 224, as torch.onnx at opset 17 writes torchvision's: depthwise convolutions of 7x7, layer norms of
channels between two Transpose, dense layers on channels last, Gelu by Erf, a factor for each channel of a branch."""

import numpy as np

from models.builder import Builder, power_of
from models.convnet import conv
from models.transformer import dense, gelu_erf, layer_norm

EPSILON = 1e-6


def channels_last(g, x):
    return g.op("Transpose", x, perm=[0, 2, 3, 1])


def channels_first(g, x):
    return g.op("Transpose", x, perm=[0, 3, 1, 2])


def norm_of_channels(g, x, name):
    return channels_first(g, layer_norm(g, channels_last(g, x), name, EPSILON))


def block(g, x):
    width = g.values[x].shape[1]
    y = channels_last(g, conv(g, x, "block.0", width, 7, groups=width))
    y = gelu_erf(g, dense(g, layer_norm(g, y, "block.2", EPSILON), "block.3", 4 * width))
    y = channels_first(g, dense(g, y, "block.5", width))
    scale = g.parameter("layer_scale", g.random.uniform(0.2, 0.5, (width, 1, 1)).astype(np.float32))
    return g.check(g.op("Add", g.op("Mul", scale, y), x))


def make(is_small=False):
    side, depths, width = (32, [1, 1], 16) if is_small else (224, [3, 3, 9, 3], 96)
    g = Builder("convnext_tiny", opset=17, seed=2022)
    x = g.input("input", g.normal((1, 3, side, side), 1))
    for stage, depth in enumerate(depths):
        with g.scope(f"features/features.{2 * stage}"):
            if stage == 0:
                x = norm_of_channels(g, conv(g, x, "0", width, 4, stride=4, pad=0), "1")
            else:
                x = conv(g, norm_of_channels(g, x, "0"), "1", width << stage, 2, stride=2, pad=0)
        for index in range(depth):
            with g.scope(f"features/features.{2 * stage + 1}/{index}"):
                x = block(g, x)
    with g.scope("classifier"):
        x = g.op("Flatten", norm_of_channels(g, g.op("GlobalAveragePool", x), "0"), axis=1)
        width = g.values[x].shape[1]
        weight = g.parameter("2.weight", g.normal((1000, width), 1 / np.sqrt(width * power_of(g, x))))
        x = g.op("Gemm", x, weight, g.parameter("2.bias", g.normal(1000, 0.02)), alpha=1.0, beta=1.0, transB=1)
    g.output("output", g.check(x))
    return g.finish(n_parameters=None if is_small else 28_589_128)
