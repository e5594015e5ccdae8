"""What convolutional networks share, of one, two or three axes: convolutions with batch normalization, kept as a node or
folded, or with a bias; transposed ones; swish; the classifier."""

import math

import numpy as np

from models.builder import power_of, rounded

EPSILON = 1e-5


def window_of(x_rank, kernel, stride=1, groups=1, dilation=1, pad=None):
    """Attributes of a Conv. kernel, stride and pad: one number, or one for each axis; pad: what keeps sizes, if left out."""
    axes = x_rank - 2
    each = lambda n: [n] * axes if isinstance(n, int) else list(n)
    kernel = each(kernel)
    pads = [dilation * (k // 2) for k in kernel] if pad is None else each(pad)
    return dict(kernel_shape=kernel, strides=each(stride), pads=pads * 2, dilations=each(dilation), group=groups)


def conv_bn(g, x, name, bn_name, channels, kernel, stride=1, groups=1, gain=1.0, fold=False):
    """Conv without bias, then BatchNormalization with the statistics of the sample, as a trained network has them.

    gain: deviation of the result. fold: Conv with the normalization in its weights and bias, which is what torch.onnx
    writes in evaluation mode; the parameters counted are those before folding.
    """
    in_channels, rank = g.values[x].shape[1], g.values[x].ndim
    window = window_of(rank, kernel, stride, groups)
    shape = (channels, in_channels // groups, *window["kernel_shape"])
    weight = g.normal(shape, np.sqrt(2 / math.prod(shape[1:])))
    gamma = (gain * g.random.uniform(0.8, 1.2, channels)).astype(np.float32)
    beta = g.normal(channels, 0.1 * gain)

    def statistics(y):
        axes = (0, *range(2, rank))
        variance = y.var(axes)
        return rounded(y.mean(axes)), rounded(np.maximum(variance, 0.1 * variance.mean()))

    if not fold:
        y = g.op("Conv", x, g.parameter(f"{name}.weight", weight), **window)
        mean, variance = statistics(g.values[y])
        y = g.op("BatchNormalization", y, g.parameter(f"{bn_name}.weight", gamma), g.parameter(f"{bn_name}.bias", beta),
                 g.buffer(f"{bn_name}.running_mean", mean), g.buffer(f"{bn_name}.running_var", variance), epsilon=EPSILON)
        return g.check(y, gain)
    mean, variance = statistics(g.run("Conv", [g.values[x], weight], **window)[0])
    scale = gamma / np.sqrt(variance + np.float32(EPSILON))
    g.n_parameters += weight.size + gamma.size + beta.size
    y = g.op("Conv", x, g.buffer(f"{name}.weight", weight * scale.reshape(-1, *[1] * (rank - 1))),
             g.buffer(f"{name}.bias", beta - mean * scale), **window)
    return g.check(y, gain)


def conv(g, x, name, channels, kernel, gain=1.0, groups=1, **window):
    """Conv with a bias; scaled by the power of its input. gain: deviation of the result."""
    window = window_of(g.values[x].ndim, kernel, groups=groups, **window)
    shape = (channels, g.values[x].shape[1] // groups, *window["kernel_shape"])
    weight = g.normal(shape, gain / np.sqrt(math.prod(shape[1:]) * power_of(g, x)))
    return g.check(g.op("Conv", x, g.parameter(f"{name}.weight", weight),
                        g.parameter(f"{name}.bias", g.normal(channels, 0.02)), **window), gain)


def conv_transpose(g, x, name, channels, kernel, stride):
    """Makes every axis `stride` times as long. Scaled by the power of its input."""
    window = window_of(g.values[x].ndim, kernel, stride, pad=(kernel - stride) // 2)
    shape = (g.values[x].shape[1], channels, *window["kernel_shape"])
    terms = shape[0] * math.prod(window["kernel_shape"]) / math.prod(window["strides"])  # of one sum
    weight = g.normal(shape, 1 / np.sqrt(terms * power_of(g, x)))
    return g.check(g.op("ConvTranspose", x, g.parameter(f"{name}.weight", weight),
                        g.parameter(f"{name}.bias", g.normal(channels, 0.02)), **window))


def swish(g, x):
    """x sigmoid(x)"""
    return g.op("Mul", x, g.op("Sigmoid", x))


def classifier(g, x, name, n_classes):
    """Global average, flattened, and a dense layer with scores of deviation 1."""
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    width = g.values[x].shape[1]
    weight = g.normal((n_classes, width), np.sqrt(1 / (width * power_of(g, x))))
    return g.check(g.op("Gemm", x, g.parameter(f"{name}.weight", weight),
                        g.parameter(f"{name}.bias", g.normal(n_classes, 0.1)), alpha=1.0, beta=1.0, transB=1))
