"""MobileNetV2 1.0 at 224: inverted residuals with linear bottlenecks. BatchNormalization is folded into Conv, as torch.onnx
writes a model in evaluation mode."""

from models.builder import Builder
from models.convnet import classifier, conv_bn

# expansion, channels, blocks, stride of the first (Sandler et al. 2018, table 2)
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def relu6(g, x):
    return g.op("Clip", x, g.constant(0.0), g.constant(6.0))


def inverted_residual(g, x, expansion, channels, stride):
    in_channels = g.values[x].shape[1]
    residual = stride == 1 and in_channels == channels
    with g.scope("conv"):
        y, index = x, 0
        if expansion > 1:
            y = relu6(g, conv_bn(g, y, "0.0", "0.1", expansion * in_channels, 1, fold=True))
            index = 1
        hidden = expansion * in_channels
        y = relu6(g, conv_bn(g, y, f"{index}.0", f"{index}.1", hidden, 3, stride, groups=hidden, fold=True))
        y = conv_bn(g, y, f"{index + 1}", f"{index + 2}", channels, 1, gain=0.5 if residual else 1.0, fold=True)
    return g.check(g.op("Add", x, y)) if residual else y


def make(is_open=False):
    """is_open: any number of images of any size, "N", "H", "W"."""
    g = Builder("mobilenet_v2", opset=13, seed=2)
    x = g.input("input", g.normal((1, 3, 224, 224), 1), ["N", 3, "H", "W"] if is_open else None)
    with g.scope("features/features.0"):
        x = relu6(g, conv_bn(g, x, "0", "1", 32, 3, 2, fold=True))
    index = 1
    for expansion, channels, n_blocks, stride in STAGES:
        for block in range(n_blocks):
            with g.scope(f"features/features.{index}"):
                x = inverted_residual(g, x, expansion, channels, stride if block == 0 else 1)
            index += 1
    with g.scope("features/features.18"):
        x = relu6(g, conv_bn(g, x, "0", "1", 1280, 1, fold=True))
    with g.scope("classifier"):
        x = classifier(g, x, "1", 1000)
    g.output("output", x, ["N", 1000] if is_open else None)
    return g.finish(n_parameters=3_504_872)
