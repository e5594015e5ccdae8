"""What ResNet and MobileNet share: convolutions with batch normalization, kept as a node or folded."""

import numpy as np

from models.builder import rounded

EPSILON = 1e-5


def conv_bn(g, x, name, bn_name, channels, kernel, stride=1, groups=1, gain=1.0, fold=False):
    """Conv without bias, then BatchNormalization with the statistics of the sample, as a trained network has them.

    gain: deviation of the result. fold: Conv with the normalization in its weights and bias, which is what torch.onnx
    writes in evaluation mode; the parameters counted are those before folding.
    """
    in_channels = g.values[x].shape[1]
    fan_in = in_channels // groups * kernel * kernel
    weight = g.normal((channels, in_channels // groups, kernel, kernel), np.sqrt(2 / fan_in))
    pad = kernel // 2
    window = dict(kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[pad] * 4, dilations=[1, 1], group=groups)
    gamma = (gain * g.random.uniform(0.8, 1.2, channels)).astype(np.float32)
    beta = g.normal(channels, 0.1 * gain)

    def statistics(y):
        variance = y.var((0, 2, 3))
        return rounded(y.mean((0, 2, 3))), rounded(np.maximum(variance, 0.1 * variance.mean()))

    if not fold:
        y = g.op("Conv", x, g.parameter(f"{name}.weight", weight), **window)
        mean, variance = statistics(g.values[y])
        y = g.op("BatchNormalization", y, g.parameter(f"{bn_name}.weight", gamma), g.parameter(f"{bn_name}.bias", beta),
                 g.buffer(f"{bn_name}.running_mean", mean), g.buffer(f"{bn_name}.running_var", variance), epsilon=EPSILON)
        return g.check(y, gain)
    mean, variance = statistics(g.run("Conv", [g.values[x], weight], **window)[0])
    scale = gamma / np.sqrt(variance + np.float32(EPSILON))
    g.n_parameters += weight.size + gamma.size + beta.size
    y = g.op("Conv", x, g.buffer(f"{name}.weight", weight * scale[:, None, None, None]),
             g.buffer(f"{name}.bias", beta - mean * scale), **window)
    return g.check(y, gain)


def classifier(g, x, name, n_classes):
    """Global average, flattened, and a dense layer with scores of deviation 1."""
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    width = g.values[x].shape[1]
    power = float(rounded(np.mean(np.square(g.values[x]))))
    weight = g.normal((n_classes, width), np.sqrt(1 / (width * power)))
    return g.check(g.op("Gemm", x, g.parameter(f"{name}.weight", weight),
                        g.parameter(f"{name}.bias", g.normal(n_classes, 0.1)), alpha=1.0, beta=1.0, transB=1))
